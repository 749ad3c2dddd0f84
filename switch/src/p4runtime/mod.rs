//! The P4Runtime server of the embedded switch.
//!
//! ```text
//!   controllers ── gRPC ── service ── arbitration (who may write)
//!                             │    └─ pipeline    (P4Info <-> program)
//!                             └────── entity      (P4Runtime entities <-> control API, on the packet thread)
//!   packet thread ── events ── notify ── packet-ins, digests, idle entries ── streams
//! ```
//!
//! A Write is applied between two packets, so every batch is atomic for the data plane. Roles have elections of their own, but
//! no configuration: each may do everything.

mod arbitration;
mod entity;
mod error;
mod notify;
mod packet;
mod pipeline;
mod plane;
mod read;
mod reconcile;
mod service;
mod stream;
mod write;

use std::{future::Future, net::SocketAddr, sync::Arc};

use inca_p4runtime::{client::MAX_MESSAGE, p4v1::p4_runtime_server::P4RuntimeServer};
use thiserror::Error;
use tokio::net::TcpListener;
use tonic::transport::{ServerTlsConfig, server::TcpIncoming};

use crate::runtime::{Event, SwitchHandle};
use service::{Service, Shared};

/// Version of P4Runtime that the server speaks.
pub const API_VERSION: &str = "1.5.0";

/// Why the server ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address can't be bound.
    #[error("p4runtime server: can't listen at {address}: {source}")]
    Bind {
        /// Address given.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The transport failed.
    #[error("p4runtime server: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Binds a server to an address (port 0: any free port) and returns where it listens, and the server to be run.
///
/// `events` are what the packet thread sends. The server ends when `stop` does.
pub async fn bind<S>(
    handle: SwitchHandle,
    events: tokio::sync::mpsc::Receiver<Event>,
    address: SocketAddr,
    stop: S,
) -> Result<(SocketAddr, impl Future<Output = Result<(), ServeError>> + Send + use<S>), ServeError>
where
    S: Future<Output = ()> + Send + 'static,
{
    bind_with(handle, events, address, None, stop).await
}

/// The same, over TLS if certificates are given.
pub async fn bind_with<S>(
    handle: SwitchHandle,
    events: tokio::sync::mpsc::Receiver<Event>,
    address: SocketAddr,
    tls: Option<ServerTlsConfig>,
    stop: S,
) -> Result<(SocketAddr, impl Future<Output = Result<(), ServeError>> + Send + use<S>), ServeError>
where
    S: Future<Output = ()> + Send + 'static,
{
    let mut server = tonic::transport::Server::builder();
    if let Some(tls) = tls {
        server = server.tls_config(tls)?;
    }
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let local = listener.local_addr()?;
        Ok((listener, local))
    };
    let (listener, local) = bound.await.map_err(|source| ServeError::Bind { address, source })?;
    Ok((local, serve(handle, events, listener, server, stop)))
}

async fn serve(
    handle: SwitchHandle,
    events: tokio::sync::mpsc::Receiver<Event>,
    listener: TcpListener,
    mut server: tonic::transport::Server,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let shared = Arc::new(Shared::new(handle));
    let notifier = tokio::spawn(notify::run(Arc::clone(&shared), events));
    let idle = tokio::spawn(notify::watch_idle_entries(Arc::clone(&shared)));
    let service = P4RuntimeServer::new(Service(Arc::clone(&shared)))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let stop = async move {
        stop.await;
        // Open streams would keep the server from ending.
        shared.close_streams();
    };
    // The builder's own no-delay option does not reach listeners from outside; without it each reply waits 40 ms for an ACK.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = server.add_service(service).serve_with_incoming_shutdown(incoming, stop).await;
    notifier.abort();
    idle.abort();
    Ok(served?)
}
