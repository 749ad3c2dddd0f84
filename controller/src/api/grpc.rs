//! The northbound API over gRPC.

use std::pin::Pin;
use std::task::{Context, Poll};

use inca_p4runtime::northbound::{self as api, JoinEvent, controller_server, operator_server};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::{Response, Status};

use super::{Caller, Core};
use crate::control::{Membership, Request};
use crate::jobs::MemberId;

/// Agents' and operators' calls.
#[derive(Debug, Clone)]
pub(super) struct Service(pub(super) Core);

#[tonic::async_trait]
impl controller_server::Controller for Service {
    type JoinStream = Events;

    async fn info(&self, _: tonic::Request<api::InfoRequest>) -> Result<Response<api::InfoResponse>, Status> {
        Ok(Response::new(self.0.info()))
    }

    async fn join(&self, request: tonic::Request<api::JoinRequest>) -> Result<Response<Events>, Status> {
        let Membership { id, events } = self.0.join(&caller(&request)?, request.into_inner()).await?;
        Ok(Response::new(Events { id, events, requests: self.0.requests.clone() }))
    }

    async fn leave(
        &self,
        request: tonic::Request<api::LeaveRequest>,
    ) -> Result<Response<api::LeaveResponse>, Status> {
        self.0.leave(&caller(&request)?, request.into_inner()).await?;
        Ok(Response::new(api::LeaveResponse {}))
    }

    async fn report(
        &self,
        request: tonic::Request<api::ReportRequest>,
    ) -> Result<Response<api::ReportResponse>, Status> {
        self.0.report(&caller(&request)?, request.into_inner()).await?;
        Ok(Response::new(api::ReportResponse {}))
    }

    async fn hand_over(
        &self,
        request: tonic::Request<api::HandOverRequest>,
    ) -> Result<Response<api::HandOverResponse>, Status> {
        self.0.hand_over(&caller(&request)?, request.into_inner()).await?;
        Ok(Response::new(api::HandOverResponse {}))
    }

    async fn stalled(
        &self,
        request: tonic::Request<api::StalledRequest>,
    ) -> Result<Response<api::StalledResponse>, Status> {
        self.0.stalled(&caller(&request)?, request.into_inner()).await?;
        Ok(Response::new(api::StalledResponse {}))
    }

    async fn progress(
        &self,
        request: tonic::Request<api::ProgressRequest>,
    ) -> Result<Response<api::ProgressResponse>, Status> {
        self.0.progress(&caller(&request)?, request.into_inner());
        Ok(Response::new(api::ProgressResponse {}))
    }

    async fn status(
        &self,
        request: tonic::Request<api::StatusRequest>,
    ) -> Result<Response<api::StatusResponse>, Status> {
        Ok(Response::new(self.0.status_for(&caller(&request)?, request.into_inner().counters).await?))
    }
}

#[tonic::async_trait]
impl operator_server::Operator for Service {
    type EventsStream = Pin<Box<dyn Stream<Item = Result<api::Event, Status>> + Send>>;

    async fn end_job(
        &self,
        request: tonic::Request<api::EndJobRequest>,
    ) -> Result<Response<api::EndJobResponse>, Status> {
        let groups = self.0.end_job(&caller(&request)?, request.into_inner()).await?;
        Ok(Response::new(api::EndJobResponse { groups }))
    }

    async fn submit(
        &self,
        request: tonic::Request<api::SubmitRequest>,
    ) -> Result<Response<api::SubmitResponse>, Status> {
        Ok(Response::new(self.0.submit(&caller(&request)?, request.into_inner()).await?))
    }

    async fn plan(
        &self,
        request: tonic::Request<api::PlanRequest>,
    ) -> Result<Response<api::PlanResponse>, Status> {
        Ok(Response::new(self.0.plan(&caller(&request)?, request.into_inner()).await?))
    }

    async fn events(
        &self,
        request: tonic::Request<api::EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        let caller = caller(&request)?;
        let api::EventsRequest { after, only_new } = request.into_inner();
        Ok(Response::new(Box::pin(self.0.watch(caller, after, only_new).map(Ok))))
    }
}

/// Who calls: the gate has put it there.
fn caller<T>(request: &tonic::Request<T>) -> Result<Caller, Status> {
    request
        .extensions()
        .get()
        .cloned()
        .ok_or_else(|| Status::internal("the call did not come through the gate"))
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
