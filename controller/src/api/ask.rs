//! The questions that both APIs ask of the owner of all state.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use inca_p4runtime::northbound as api;
use inca_wire::packet;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, StreamExt};

use super::{ApiError, Audit, Caller, EventLog};
use crate::control::{Membership, Request};
use crate::jobs::GroupName;
use crate::metrics::Metrics;

/// The way to the owner; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Core {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) announce: Ipv4Addr,
    pub(crate) events: Arc<EventLog>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) audit: Arc<Audit>,
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

    pub(super) async fn join(
        &self,
        caller: &Caller,
        mut request: api::JoinRequest,
    ) -> Result<Membership, ApiError> {
        request.job = caller.job(&request.job);
        let object = rank(&request.job, &request.group, request.rank);
        let action = if request.attach_generation == 0 { "join" } else { "attach" };
        let joined = self.ask(|reply| Request::Join { request, reply }).await?.map_err(ApiError::from);
        self.audit.done(caller, action, &object, &joined);
        joined
    }

    pub(super) async fn leave(
        &self,
        caller: &Caller,
        mut request: api::LeaveRequest,
    ) -> Result<(), ApiError> {
        request.job = caller.job(&request.job);
        let object = rank(&request.job, &request.group, request.rank);
        let left = self.ask(|reply| Request::Leave { request, reply }).await?.map_err(ApiError::from);
        self.audit.done(caller, "leave", &object, &left);
        left
    }

    pub(super) async fn report(
        &self,
        caller: &Caller,
        mut request: api::ReportRequest,
    ) -> Result<(), ApiError> {
        request.job = caller.job(&request.job);
        Ok(self.ask(|reply| Request::Report { request, reply }).await??)
    }

    pub(super) async fn hand_over(
        &self,
        caller: &Caller,
        mut request: api::HandOverRequest,
    ) -> Result<(), ApiError> {
        request.job = caller.job(&request.job);
        Ok(self.ask(|reply| Request::HandOver { request, reply }).await??)
    }

    pub(super) async fn stalled(
        &self,
        caller: &Caller,
        mut request: api::StalledRequest,
    ) -> Result<(), ApiError> {
        request.job = caller.job(&request.job);
        self.requests.send(Request::Stalled(request)).await.map_err(|_| ApiError::Ending)
    }

    /// What a rank says it has done.
    pub(super) fn progress(&self, caller: &Caller, request: api::ProgressRequest) {
        let group = GroupName { job: caller.job(&request.job), group: request.group };
        self.metrics.progress.told(Instant::now(), group, request.rank, request.progress.unwrap_or_default());
    }

    /// Everything that is seen now; counters of switches take a round trip to each.
    pub(crate) async fn status(&self, counters: bool) -> Result<api::StatusResponse, ApiError> {
        let mut status = self.ask(|reply| Request::Status { counters, reply }).await?;
        self.metrics.progress.fill(Instant::now(), &mut status.jobs);
        Ok(status)
    }

    /// What of it is this caller's to see.
    pub(super) async fn status_for(
        &self,
        caller: &Caller,
        counters: bool,
    ) -> Result<api::StatusResponse, ApiError> {
        let mut status = self.status(counters).await?;
        status.jobs.retain(|job| caller.sees(&job.name));
        Ok(status)
    }

    pub(super) async fn end_job(
        &self,
        caller: &Caller,
        mut request: api::EndJobRequest,
    ) -> Result<Vec<String>, ApiError> {
        request.job = caller.job(&request.job);
        let object = match &request.group {
            Some(group) => format!("{} group {group:?}", request.job),
            None => request.job.clone(),
        };
        let ended = self.ask(|reply| Request::EndJob { request, reply }).await?.map_err(ApiError::from);
        self.audit.done(caller, "end_job", &object, &ended);
        ended
    }

    pub(super) async fn submit(
        &self,
        caller: &Caller,
        mut request: api::SubmitRequest,
    ) -> Result<api::SubmitResponse, ApiError> {
        request.job = caller.job(&request.job);
        let object = request.job.clone();
        let submitted = self.ask(|reply| Request::Submit { request, reply }).await?.map_err(ApiError::from);
        self.audit.done(caller, "submit", &object, &submitted);
        submitted
    }

    pub(super) async fn plan(
        &self,
        caller: &Caller,
        mut request: api::PlanRequest,
    ) -> Result<api::PlanResponse, ApiError> {
        request.job = caller.job(&request.job);
        Ok(self.ask(|reply| Request::Plan { request, reply }).await??)
    }

    /// Remembered events that are this caller's to see.
    pub(super) fn events_since(&self, caller: &Caller, after: u64) -> Vec<api::Event> {
        let mut events = self.events.since(after);
        events.retain(|event| shows(caller, event));
        events
    }

    /// The same, and then whatever happens.
    pub(super) fn watch(
        &self,
        caller: Caller,
        after: u64,
        only_new: bool,
    ) -> impl Stream<Item = api::Event> + Send + use<> {
        self.events.watch(after, only_new).filter(move |event| shows(&caller, event))
    }
}

/// What is about no job is for everybody.
fn shows(caller: &Caller, event: &api::Event) -> bool {
    event.job.is_empty() || caller.sees(&event.job)
}

fn rank(job: &str, group: &str, rank: u32) -> String {
    format!("{} rank {rank}", GroupName { job: job.to_owned(), group: group.to_owned() })
}
