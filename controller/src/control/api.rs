//! The northbound API over gRPC. The one place where refusals become gRPC codes.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use inca_p4runtime::northbound::controller_server::{self, ControllerServer};
use inca_p4runtime::northbound::{self as api, JoinEvent};
use inca_wire::packet;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::transport::server::TcpIncoming;
use tonic::{Response, Status};

use super::{Membership, Request};
use crate::jobs::{JoinError, LeaveError, MemberId, ReportError};

/// Pings find out that an agent's machine is gone, when nothing ends its connection.
const PING: std::time::Duration = std::time::Duration::from_secs(1);
/// An agent that does not answer a ping for so long is gone; one on a busy machine may take a while.
const PING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

/// Serves until the task is ended.
pub(super) async fn serve(listener: TcpListener, requests: mpsc::Sender<Request>, announce: Ipv4Addr) {
    let address = listener.local_addr();
    let service = ControllerServer::new(Service { requests, announce });
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .add_service(service);
    // The builder's own no-delay option does not reach listeners from outside.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    if let Err(error) = server.serve_with_incoming(incoming).await {
        tracing::error!(?address, %error, "the api has ended");
    }
}

struct Service {
    requests: mpsc::Sender<Request>,
    announce: Ipv4Addr,
}

impl Service {
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Status> {
        let ending = || Status::unavailable("the controller is ending");
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())
    }
}

#[tonic::async_trait]
impl controller_server::Controller for Service {
    type JoinStream = Events;

    async fn info(&self, _: tonic::Request<api::InfoRequest>) -> Result<Response<api::InfoResponse>, Status> {
        Ok(Response::new(api::InfoResponse {
            controller_version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_version: packet::VERSION.into(),
            announce_address: self.announce.to_string(),
            udp_port: packet::UDP_PORT.into(),
        }))
    }

    async fn join(&self, request: tonic::Request<api::JoinRequest>) -> Result<Response<Events>, Status> {
        let request = request.into_inner();
        let joined = self.ask(|reply| Request::Join { request, reply }).await?;
        let Membership { id, events } = joined.map_err(|error| refusal(&error))?;
        Ok(Response::new(Events { id, events, requests: self.requests.clone() }))
    }

    async fn leave(
        &self,
        request: tonic::Request<api::LeaveRequest>,
    ) -> Result<Response<api::LeaveResponse>, Status> {
        let request = request.into_inner();
        match self.ask(|reply| Request::Leave { request, reply }).await? {
            Ok(()) => Ok(Response::new(api::LeaveResponse {})),
            Err(error @ (LeaveError::NoGroup(_) | LeaveError::NotMember { .. })) => {
                Err(Status::not_found(error.to_string()))
            }
            Err(error @ LeaveError::Generation { .. }) => Err(Status::failed_precondition(error.to_string())),
        }
    }

    async fn report(
        &self,
        request: tonic::Request<api::ReportRequest>,
    ) -> Result<Response<api::ReportResponse>, Status> {
        let request = request.into_inner();
        let taken = self.ask(|reply| Request::Report { request, reply }).await?;
        taken.map_err(|error| stale(&error))?;
        Ok(Response::new(api::ReportResponse {}))
    }

    async fn hand_over(
        &self,
        request: tonic::Request<api::HandOverRequest>,
    ) -> Result<Response<api::HandOverResponse>, Status> {
        let request = request.into_inner();
        let taken = self.ask(|reply| Request::HandOver { request, reply }).await?;
        taken.map_err(|error| stale(&error))?;
        Ok(Response::new(api::HandOverResponse {}))
    }

    async fn stalled(
        &self,
        request: tonic::Request<api::StalledRequest>,
    ) -> Result<Response<api::StalledResponse>, Status> {
        let told = self.requests.send(Request::Stalled(request.into_inner())).await;
        told.map_err(|_| Status::unavailable("the controller is ending"))?;
        Ok(Response::new(api::StalledResponse {}))
    }

    async fn status(
        &self,
        request: tonic::Request<api::StatusRequest>,
    ) -> Result<Response<api::StatusResponse>, Status> {
        let counters = request.into_inner().counters;
        self.ask(|reply| Request::Status { counters, reply }).await.map(Response::new)
    }
}

fn refusal(error: &JoinError) -> Status {
    let message = error.to_string();
    match error {
        JoinError::Standby => Status::unavailable(message),
        JoinError::Field { .. } | JoinError::Mtu { .. } => Status::invalid_argument(message),
        JoinError::Terms { .. } | JoinError::RankLost { .. } => Status::failed_precondition(message),
        JoinError::NoMember { .. } => Status::not_found(message),
        JoinError::RankTaken { .. } | JoinError::AddressTaken { .. } => Status::already_exists(message),
    }
}

fn stale(error: &ReportError) -> Status {
    Status::failed_precondition(error.to_string())
}

/// A rank's events; the rank has gone when this is dropped.
pub(super) struct Events {
    id: MemberId,
    events: mpsc::Receiver<JoinEvent>,
    requests: mpsc::Sender<Request>,
}

impl Stream for Events {
    type Item = Result<JoinEvent, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context).map(|event| event.map(Ok))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let gone = Request::Disconnected(self.id);
        match self.requests.try_send(gone) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            // Nothing here may wait, and the message must not be lost.
            Err(mpsc::error::TrySendError::Full(gone)) => {
                let requests = self.requests.clone();
                tokio::spawn(async move { requests.send(gone).await });
            }
        }
    }
}
