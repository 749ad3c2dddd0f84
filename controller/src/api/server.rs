//! What is served at one listener: gRPC with reflection and health, REST, and the page.

use std::sync::Arc;
use std::time::Duration;

use inca_p4runtime::northbound::controller_server::{self, ControllerServer};
use inca_p4runtime::northbound::operator_server::{self, OperatorServer};
use inca_p4runtime::proto::DESCRIPTORS;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;
use tonic_health::ServingStatus;

use super::grpc::Service;
use super::listen::Incoming;
use super::{Core, Gate, gate, rest};

/// Pings find out that an agent's machine is gone, when nothing ends its connection.
const PING: Duration = Duration::from_secs(1);
/// An agent that does not answer a ping for so long is gone; one on a busy machine may take a while.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest call of a rank: its last chunk of every slot. The 32768 words of a switch are 32 MiB of f32 in `bfp8`.
const MAX_CALL: usize = 64 << 20;

/// Serves until the task is ended. Health follows `in_charge`.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    core: Core,
    gate: Arc<Gate>,
    mut in_charge: watch::Receiver<bool>,
) {
    let address = listener.local_addr();
    let (reporter, health) = tonic_health::server::health_reporter();
    let ranks = ControllerServer::new(Service(core.clone())).max_decoding_message_size(MAX_CALL);
    let routes =
        Routes::new(ranks).add_service(OperatorServer::new(Service(core.clone()))).add_service(health);
    let routes = reflection(routes);
    let site = routes.into_axum_router().merge(rest::site(core)).fallback(rest::not_found);
    // Outermost: whatever is there, or not, is asked for through the gate.
    let site = site.layer(axum::middleware::from_fn_with_state(gate, gate::pass));
    let health = async move {
        loop {
            let status = match *in_charge.borrow_and_update() {
                true => ServingStatus::Serving,
                false => ServingStatus::NotServing,
            };
            for service in ["", controller_server::SERVICE_NAME, operator_server::SERVICE_NAME] {
                reporter.set_service_status(service, status).await;
            }
            if in_charge.changed().await.is_err() {
                return std::future::pending::<()>().await;
            }
        }
    };
    let server = tonic::transport::Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PING_TIMEOUT));
    let incoming = Incoming::new(listener, tls);
    tokio::select! {
        ended = server.serve_with_incoming(site, incoming) => if let Err(error) = ended {
            tracing::error!(?address, %error, "the api has ended");
        },
        () = health => {}
    }
}

/// Adds reflection, in both versions that clients speak.
fn reflection(routes: Routes) -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .with_service_name(controller_server::SERVICE_NAME)
            .with_service_name(operator_server::SERVICE_NAME)
            .with_service_name("grpc.health.v1.Health")
    };
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(new), Ok(old)) => routes.add_service(new).add_service(old),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "no reflection");
            routes
        }
    }
}
