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

/// The OpenAPI document of the REST API, as it is served at `/openapi.json`.
pub fn openapi() -> utoipa::openapi::OpenApi {
    rest::router().1
}
