//! The calls of the P4Runtime service: checks in the order of the specification, then the work.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use inca_p4runtime::{
    p4v1::{
        CapabilitiesRequest, CapabilitiesResponse, ForwardingPipelineConfig,
        GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse,
        SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
        StreamMessageResponse, Uint128, Update, WriteRequest, WriteResponse,
        forwarding_pipeline_config::Cookie, get_forwarding_pipeline_config_request::ResponseType,
        p4_runtime_server::P4Runtime, set_forwarding_pipeline_config_request::Action,
        write_request::Atomicity,
    },
    status::{UpdateError, code_name, write_status},
};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{
    API_VERSION,
    arbitration::{ConnectionId, Elections},
    error::runtime,
    notify::Digests,
    pipeline::Pipeline,
    plane::{Notes, Plane},
    read, reconcile, stream, write,
};
use crate::{runtime::SwitchHandle, switch::SwitchConfig};

/// What all calls share.
pub(super) struct Shared {
    pub(super) handle: SwitchHandle,
    pub(super) elections: Mutex<Elections>,
    pub(super) streams: Mutex<stream::Streams>,
    pub(super) digests: Mutex<Digests>,
    /// The pipeline that packets meet.
    pub(super) running: RwLock<Option<Plane>>,
    /// Held while state changes, so that a new primary waits for the writes of the old one.
    gate: tokio::sync::Mutex<Gate>,
    next_connection: AtomicU64,
}

/// What a request says about who it comes from.
struct Office {
    role: String,
    election_id: u128,
}

impl Office {
    /// `role_id` is what controllers before P4Runtime 1.3 give.
    fn new(role: String, role_id: u64, election_id: Option<Uint128>) -> Self {
        let role = if role.is_empty() && role_id != 0 { role_id.to_string() } else { role };
        Self { role, election_id: election_id.unwrap_or_default().into() }
    }
}

/// A pipeline that is saved and not committed.
#[derive(Default)]
struct Gate {
    saved: Option<Saved>,
}

struct Saved {
    plane: Plane,
    /// Updates accepted since, to be replayed by COMMIT.
    log: Vec<Update>,
}

impl Gate {
    /// Where reads and writes go.
    fn plane(&self, shared: &Shared) -> Result<Plane, Status> {
        match &self.saved {
            Some(saved) => Ok(saved.plane.clone()),
            None => shared.running().ok_or_else(no_pipeline),
        }
    }
}

impl Shared {
    pub(super) fn new(handle: SwitchHandle) -> Self {
        Self {
            elections: Mutex::new(Elections::new(handle.device_id())),
            handle,
            streams: Mutex::default(),
            digests: Mutex::default(),
            running: RwLock::default(),
            gate: tokio::sync::Mutex::default(),
            next_connection: AtomicU64::new(1),
        }
    }

    pub(super) fn running(&self) -> Option<Plane> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn elections(&self) -> MutexGuard<'_, Elections> {
        self.elections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, stream::Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all streams; the server is about to end.
    pub(super) fn close_streams(&self) {
        self.streams().close();
    }

    /// Waits for writes in flight: a change of mastership has to come after them.
    pub(super) async fn quiesce(&self) -> impl Drop + '_ {
        self.gate.lock().await
    }

    fn check_device(&self, device_id: u64) -> Result<(), Status> {
        let own = self.handle.device_id();
        if device_id == own {
            return Ok(());
        }
        Err(Status::not_found(format!("device {device_id} given, this is device {own}")))
    }

    fn check_office(&self, office: &Office) -> Result<(), Status> {
        self.elections().authorise(&office.role, office.election_id)
    }

    async fn verify(&self, config: Option<ForwardingPipelineConfig>) -> Result<Arc<Pipeline>, Status> {
        let config = config.ok_or_else(|| Status::invalid_argument("no config given"))?;
        let verified = tokio::task::spawn_blocking(move || Pipeline::verify(config)).await;
        let verified =
            verified.map_err(|error| Status::internal(format!("verifying the config: {error}")))?;
        Ok(Arc::new(verified.map_err(|error| Status::invalid_argument(error.to_string()))?))
    }

    fn shadow(&self, pipeline: Arc<Pipeline>) -> Plane {
        let config = SwitchConfig {
            device_id: self.handle.device_id(),
            cpu_port: self.handle.cpu_port(),
            ..SwitchConfig::default()
        };
        Plane::shadow(pipeline, config)
    }

    /// Makes packets meet a pipeline, then applies updates that are known to be good.
    async fn commit(&self, pipeline: Arc<Pipeline>, updates: Vec<Update>) -> Result<(), Status> {
        self.handle.load(Arc::clone(&pipeline.program)).await.map_err(runtime)?;
        let plane = Plane::live(pipeline, Arc::<Mutex<Notes>>::default(), self.handle.clone());
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = Some(plane.clone());
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).forget();
        if updates.is_empty() {
            return Ok(());
        }
        let replayed = plane.with(move |cx| write::write(cx, &updates, Atomicity::ContinueOnError)).await;
        replayed.map_err(runtime)?.map_err(|outcomes| {
            let first = outcomes.into_iter().find_map(Result::err);
            Status::internal(format!(
                "replaying the state: {}",
                first.map_or_else(String::new, |e| e.to_string())
            ))
        })
    }

    /// Waits for other changes, then checks the office again: it may have changed while a program was compiled.
    async fn enter(&self, office: &Office) -> Result<tokio::sync::MutexGuard<'_, Gate>, Status> {
        let gate = self.gate.lock().await;
        self.check_office(office)?;
        Ok(gate)
    }

    async fn set_pipeline(
        &self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
        office: &Office,
    ) -> Result<(), Status> {
        match action {
            Action::Unspecified => Err(Status::invalid_argument(
                "no action given; valid are VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, \
                     COMMIT, RECONCILE_AND_COMMIT",
            )),
            Action::Verify => self.verify(config).await.map(drop),
            Action::VerifyAndSave => {
                let plane = self.shadow(self.verify(config).await?);
                self.enter(office).await?.saved = Some(Saved { plane, log: Vec::new() });
                Ok(())
            }
            Action::VerifyAndCommit => {
                let pipeline = self.verify(config).await?;
                let mut gate = self.enter(office).await?;
                self.commit(pipeline, Vec::new()).await?;
                gate.saved = None;
                Ok(())
            }
            Action::Commit => {
                if config.is_some() {
                    return Err(Status::invalid_argument("COMMIT takes no config: it commits the saved one"));
                }
                let mut gate = self.enter(office).await?;
                let Some(saved) = gate.saved.take() else {
                    return Err(Status::not_found("no config is saved: VERIFY_AND_SAVE comes before COMMIT"));
                };
                self.commit(saved.plane.pipeline, saved.log).await
            }
            Action::ReconcileAndCommit => {
                let pipeline = self.verify(config).await?;
                let mut gate = self.enter(office).await?;
                let kept = match self.running() {
                    Some(running) => {
                        let state = running.with(reconcile::state).await.map_err(runtime)?.map_err(whole)?;
                        let shadow = self.shadow(Arc::clone(&pipeline));
                        shadow.with(move |cx| reconcile::fit(cx, state)).await.map_err(runtime)?.map_err(
                            |error| Status::invalid_argument(format!("the state can't be kept: {error}")),
                        )?
                    }
                    None => Vec::new(),
                };
                self.commit(pipeline, kept).await?;
                gate.saved = None;
                Ok(())
            }
        }
    }
}

/// The service that tonic runs.
pub(super) struct Service(pub(super) Arc<Shared>);

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Responses<ReadResponse>;
    type StreamChannelStream = Responses<StreamMessageResponse>;

    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let request = request.into_inner();
        self.0.check_device(request.device_id)?;
        let mut gate = self.0.gate.lock().await;
        #[allow(deprecated)]
        let office = Office::new(request.role, request.role_id, request.election_id);
        self.0.check_office(&office)?;
        let plane = gate.plane(&self.0)?;
        let atomicity = Atomicity::try_from(request.atomicity).map_err(|_| {
            Status::invalid_argument(format!("atomicity {} given, valid are 0, 1 and 2", request.atomicity))
        })?;
        let updates = Arc::new(request.updates);
        let applied = Arc::clone(&updates);
        let written = if write::rules_only(&plane.pipeline, &updates, atomicity) {
            plane.with_rules(|cx| write::write(cx, &applied, atomicity)).await
        } else {
            plane.with(move |cx| write::write(cx, &applied, atomicity)).await
        }
        .map_err(runtime)?;
        if let Some(saved) = &mut gate.saved {
            let outcomes = written.as_ref().err();
            let accepted = |at: usize| outcomes.is_none_or(|outcomes| outcomes[at].is_ok());
            let updates = updates.iter().enumerate().filter(|(at, _)| accepted(*at));
            saved.log.extend(updates.map(|(_, update)| update.clone()));
        }
        match written {
            Ok(()) => Ok(Response::new(WriteResponse {})),
            Err(outcomes) => Err(write_status(&outcomes)),
        }
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.0.check_device(request.device_id)?;
        let plane = self.0.gate.lock().await.plane(&self.0)?;
        let found =
            plane.with(move |cx| read::read(cx, &request.entities)).await.map_err(runtime)?.map_err(whole)?;
        let messages = read::messages(found).into_iter().map(Ok);
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.0.check_device(request.device_id)?;
        #[allow(deprecated)]
        let office = Office::new(request.role, request.role_id, request.election_id);
        self.0.check_office(&office)?;
        let action = Action::try_from(request.action).unwrap_or(Action::Unspecified);
        self.0.set_pipeline(action, request.config, &office).await?;
        tracing::info!(device = self.0.handle.device_id(), action = action.as_str_name(), "pipeline set");
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.0.check_device(request.device_id)?;
        let asked = ResponseType::try_from(request.response_type).map_err(|_| {
            Status::invalid_argument(format!(
                "response type {} given, valid are 0 to 3",
                request.response_type
            ))
        })?;
        // Without pipeline the answer is empty, not an error.
        let plane = self.0.gate.lock().await.plane(&self.0).ok();
        let config = plane.map(|plane| {
            let all = &plane.pipeline.config;
            let info = matches!(asked, ResponseType::All | ResponseType::P4infoAndCookie);
            let device = matches!(asked, ResponseType::All | ResponseType::DeviceConfigAndCookie);
            ForwardingPipelineConfig {
                p4info: all.p4info.clone().filter(|_| info),
                p4_device_config: if device { all.p4_device_config.clone() } else { Vec::new() },
                cookie: Some(Cookie { cookie: plane.pipeline.cookie() }),
            }
        });
        Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let connection = ConnectionId(self.0.next_connection.fetch_add(1, Ordering::Relaxed));
        let responses = stream::open(Arc::clone(&self.0), connection, request.into_inner());
        Ok(Response::new(Box::pin(responses)))
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        // Before P4Runtime 1.5 the request named no device.
        let device_id = request.into_inner().device_id;
        if device_id != 0 {
            self.0.check_device(device_id)?;
        }
        let p4runtime_api_version = API_VERSION.to_owned();
        Ok(Response::new(CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}

fn no_pipeline() -> Status {
    Status::failed_precondition("no forwarding pipeline is set: SetForwardingPipelineConfig comes first")
}

/// An error of one element as the error of the whole call.
fn whole(error: UpdateError) -> Status {
    match error.code {
        Code::Ok => Status::internal(format!("{}: {}", code_name(error.code), error.message)),
        code => Status::new(code, error.message),
    }
}
