//! The questions that both APIs ask of the owner of all state.

use std::net::Ipv4Addr;
use std::sync::Arc;

use inca_p4runtime::northbound as api;
use inca_wire::packet;
use tokio::sync::{mpsc, oneshot};

use super::{ApiError, EventLog};
use crate::control::{Membership, Request};

/// The way to the owner; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Core {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) announce: Ipv4Addr,
    pub(crate) events: Arc<EventLog>,
}

impl Core {
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| ApiError::Ending)?;
        answer.await.map_err(|_| ApiError::Ending)
    }

    pub(super) fn info(&self) -> api::InfoResponse {
        api::InfoResponse {
            controller_version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_version: packet::VERSION.into(),
            announce_address: self.announce.to_string(),
            udp_port: packet::UDP_PORT.into(),
        }
    }

    pub(super) async fn join(&self, request: api::JoinRequest) -> Result<Membership, ApiError> {
        Ok(self.ask(|reply| Request::Join { request, reply }).await??)
    }

    pub(super) async fn leave(&self, request: api::LeaveRequest) -> Result<(), ApiError> {
        Ok(self.ask(|reply| Request::Leave { request, reply }).await??)
    }

    pub(super) async fn report(&self, request: api::ReportRequest) -> Result<(), ApiError> {
        Ok(self.ask(|reply| Request::Report { request, reply }).await??)
    }

    pub(super) async fn hand_over(&self, request: api::HandOverRequest) -> Result<(), ApiError> {
        Ok(self.ask(|reply| Request::HandOver { request, reply }).await??)
    }

    pub(super) async fn stalled(&self, request: api::StalledRequest) -> Result<(), ApiError> {
        self.requests.send(Request::Stalled(request)).await.map_err(|_| ApiError::Ending)
    }

    /// Everything that is seen now; counters of switches take a round trip to each.
    pub(crate) async fn status(&self, counters: bool) -> Result<api::StatusResponse, ApiError> {
        self.ask(|reply| Request::Status { counters, reply }).await
    }

    pub(super) async fn end_job(&self, request: api::EndJobRequest) -> Result<Vec<String>, ApiError> {
        Ok(self.ask(|reply| Request::EndJob { request, reply }).await??)
    }

    pub(super) async fn plan(&self, request: api::PlanRequest) -> Result<api::PlanResponse, ApiError> {
        Ok(self.ask(|reply| Request::Plan { request, reply }).await??)
    }
}
