//! What a client shows and checks: a bearer token, and certificates where the address begins with `https://`.

use std::path::{Path, PathBuf};

use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// A client's credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The bearer token.
    pub token: Option<String>,
    /// Authorities that the server's certificate is checked against, PEM. Needed for `https://`: the system's are not used.
    pub ca: Option<PathBuf>,
    /// The client's own certificate chain and key, PEM, where the server asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs must not hold tokens.
        let token = self.token.as_ref().map(|_| "...");
        let Self { ca, identity, .. } = self;
        f.debug_struct("Access").field("token", &token).field("ca", ca).field("identity", identity).finish()
    }
}

/// Why credentials can't be used.
#[derive(Debug, Error)]
pub enum AccessError {
    /// A file can't be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A token with characters that no header takes.
    #[error("the token holds characters that are not visible ascii")]
    Token,
    /// TLS without authorities.
    #[error("{0} is https: the file with the certificate of its authority (ca) is missing")]
    NoAuthority(String),
    /// The certificates do not work.
    #[error("certificates for {address}: {source}")]
    Tls {
        /// The server.
        address: String,
        /// What is wrong.
        source: tonic::transport::Error,
    },
}

impl Access {
    /// Prepares an endpoint: TLS if its address is `https://`.
    pub fn secure(&self, endpoint: Endpoint) -> Result<Endpoint, AccessError> {
        if endpoint.uri().scheme_str() != Some("https") {
            return Ok(endpoint);
        }
        let address = endpoint.uri().to_string();
        let Some(ca) = &self.ca else { return Err(AccessError::NoAuthority(address)) };
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        if let Some((cert, key)) = &self.identity {
            config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        endpoint.tls_config(config).map_err(|source| AccessError::Tls { address, source })
    }

    /// Adds the token, if there is one, to every call.
    pub fn bearer(&self) -> Result<Bearer, AccessError> {
        let token = self.token.as_ref().filter(|token| !token.is_empty());
        let header = token.map(|token| format!("Bearer {}", token.trim()).parse());
        let mut header: Option<MetadataValue<Ascii>> = header.transpose().map_err(|_| AccessError::Token)?;
        if let Some(header) = &mut header {
            header.set_sensitive(true);
        }
        Ok(Bearer(header))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, AccessError> {
    std::fs::read(path).map_err(|source| AccessError::File { path: path.to_owned(), source })
}

/// Puts a token into the headers of calls.
#[derive(Debug, Clone, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        if let Some(header) = &self.0 {
            request.metadata_mut().insert("authorization", header.clone());
        }
        Ok(request)
    }
}

/// A connection whose calls carry the token.
pub type Line = tonic::service::interceptor::InterceptedService<tonic::transport::Channel, Bearer>;
