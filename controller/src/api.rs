//! The northbound API: gRPC for agents and programs, REST for people and scripts, at one address, over one core.
//!
//! ```text
//!   gRPC (h2)  ---+                      +--> control: the owner of all state
//!   REST, SSE  ---+--> who may (gate) ---+--> event log
//!   /metrics   ---+                      +--> metrics
//! ```
//!
//! Both ask the same questions of `Core` and answer with the same documents; `ApiError` is the one place where a refusal becomes a gRPC
//! code and an HTTP status.

mod ask;
mod audit;
mod error;
mod events;
mod gate;
mod grpc;
mod limit;
mod listen;
pub mod model;
mod page;
mod rest;
mod server;
mod token;

pub(crate) use ask::Core;
pub(crate) use audit::Audit;
pub(crate) use error::ApiError;
pub(crate) use events::{Draft, EventLog, now_ms};
pub(crate) use gate::{Caller, Gate};
pub(crate) use limit::Limiter;
pub use listen::{TlsError, TlsFiles};
pub(crate) use server::serve;
pub(crate) use token::Tokens;
pub use token::{Role, TokenFileError, make as make_token};

/// Why a file that the inventory names can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The token file.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// Certificates and keys.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Reads the token file and the certificates that the inventory names, as a controller does when it starts.
pub fn check_files(security: &crate::inventory::SecuritySettings) -> Result<(), FileError> {
    security.tokens.as_deref().map(Tokens::from_file).transpose()?;
    security.tls.as_ref().map(TlsFiles::acceptor).transpose()?;
    Ok(())
}

/// The OpenAPI document of the REST API, as it is served at `/openapi.json`.
pub fn openapi() -> utoipa::openapi::OpenApi {
    rest::router().1
}
