//! Connections: plain, or over TLS, where clients may have to show a certificate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

/// A client that does not finish its handshake in this time is sent away.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at a time.
const HANDSHAKES: usize = 256;
/// Wait after the system refused a connection, as when it has no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Files of the API's own side of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Authorities whose certificates clients must show; none: clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// Why TLS can't be served.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file can't be read, or is no PEM.
    #[error("tls: {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The parts do not fit together.
    #[error("tls: {0}")]
    Parts(String),
}

impl TlsFiles {
    /// Reads the files.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let parts = |error: &dyn std::fmt::Display| TlsError::Parts(error.to_string());
        let chain = certificates(&self.cert)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| wrong(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| parts(&error))?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| wrong(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().map_err(|error| parts(&error))?)
            }
        };
        let mut config = config.with_single_cert(chain, key).map_err(|error| parts(&error))?;
        // gRPC is HTTP/2, REST may be either.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn wrong(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { path: path.display().to_string(), reason: reason.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| wrong(path, &error);
    let all: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    match all.is_empty() {
        true => Err(wrong(path, &"there is no certificate in it")),
        false => Ok(all),
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
}

/// A connection.
pub(super) enum Connection {
    Plain(TcpStream, SocketAddr),
    Tls(Box<TlsStream<TcpStream>>, SocketAddr),
}

/// Connections as they come. The task that accepts them ends when this is dropped.
pub(super) struct Incoming {
    connections: mpsc::Receiver<Connection>,
    _task: JoinSet<()>,
}

impl Incoming {
    pub(super) fn new(listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let (sender, connections) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(accept(listener, tls, sender));
        Self { connections, _task: task }
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, connections: mpsc::Sender<Connection>) {
    let mut handshakes = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if handshakes.len() < HANDSHAKES => accepted,
            Some(_) = handshakes.join_next() => continue,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection is not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = tls.clone() else {
            if connections.send(Connection::Plain(stream, address)).await.is_err() {
                return;
            }
            continue;
        };
        let connections = connections.clone();
        handshakes.spawn(async move {
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let _ = connections.send(Connection::Tls(Box::new(stream), address)).await;
                }
                Ok(Err(error)) => tracing::warn!(%address, %error, "no tls connection"),
                Err(_) => tracing::warn!(%address, "no tls connection: the client is too slow"),
            }
        });
    }
}

impl Stream for Incoming {
    type Item = Result<Connection, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.connections.poll_recv(context).map(|connection| connection.map(Ok))
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let (Self::Plain(_, address) | Self::Tls(_, address)) = self;
        Peer { address: *address }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream, _) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream, _) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream, _) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream, _) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
