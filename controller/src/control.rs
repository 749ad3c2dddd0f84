//! The controller at work: one task owns discovery and jobs, one task per switch talks P4Runtime, one serves the northbound API.
//!
//! ```text
//!   agents, operators          switches
//!        | gRPC, REST             ^ P4Runtime
//!   +----v-----+  requests  +-----+------+
//!   |   api    |----------->|            |  events   +-------------+
//!   |          |<-----------|  control   |<----------| switch task |  one per switch
//!   +----------+  events    | discovery  |---------->|             |
//!                           | jobs       | sections  +-------------+
//!                           +------------+ packet-outs
//! ```
//!
//! The owner never waits for a switch: what it wants done goes to the switch's task, installations wait in tasks of their own.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use inca_p4runtime::client::PipelineFileError;
use inca_p4runtime::northbound;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::api::{self, Audit, Core, EventLog, Gate, Limiter, TlsError, TlsFiles, TokenFileError, Tokens};
use crate::discovery::{self, Discovery};
use crate::graph::{DeviceId, Graph};
use crate::inventory::Inventory;
use crate::jobs::{
    self, JobId, Jobs, JoinError, LeaveError, MemberId, OutlookError, ReportError, SubmitError,
};
use crate::metrics::Metrics;
use crate::program;
use crate::routing::{self, Addresses, Network};
use crate::store::{Store, StoreError};
use crate::switch::{Section, Shared, SwitchEvent, SwitchHandle, SwitchTask, state};

mod office;
mod report;
mod serve;
mod status;

/// Events of one rank that may wait; a rank that does not read them is gone.
const MEMBER_EVENTS: usize = 256;
/// Events of all switches that may wait for the owner.
const SWITCH_EVENTS: usize = 1024;
/// Changes of the topology that come within this time are worked up together.
const SETTLE: Duration = Duration::from_millis(20);
/// Where working them up takes long, this many times as long: the rest of the time is for events.
const SETTLE_SHARE: u32 = 8;
/// At most so long.
const LONGEST_SETTLE: Duration = Duration::from_secs(1);

/// Time between two looks at whether everything is ready.
const READY_LOOK: Duration = Duration::from_millis(50);

/// Why the controller can't start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The compiled program.
    #[error(transparent)]
    Pipeline(#[from] PipelineFileError),
    /// An entry that every switch needs does not fit the program.
    #[error("the compiled program does not fit this controller: {0}")]
    Program(#[from] inca_p4runtime::EntryError),
    /// What an earlier controller remembered.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The token file.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// Certificates and keys.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The audit log.
    #[error("audit log {}: {source}", path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A listen address.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A controller at work. Dropping it ends it; entries stay in the switches.
#[derive(Debug)]
pub struct Controller {
    addresses: Vec<SocketAddr>,
    core: Core,
    tasks: JoinSet<()>,
}

/// What the API asks of the owner.
#[derive(Debug)]
pub(crate) enum Request {
    Join {
        request: northbound::JoinRequest,
        reply: oneshot::Sender<Result<Membership, JoinError>>,
    },
    Leave {
        request: northbound::LeaveRequest,
        reply: oneshot::Sender<Result<(), LeaveError>>,
    },
    Report {
        request: northbound::ReportRequest,
        reply: oneshot::Sender<Result<(), ReportError>>,
    },
    HandOver {
        request: northbound::HandOverRequest,
        reply: oneshot::Sender<Result<(), ReportError>>,
    },
    Stalled(northbound::StalledRequest),
    Submit {
        request: northbound::SubmitRequest,
        reply: oneshot::Sender<Result<northbound::SubmitResponse, SubmitError>>,
    },
    Disconnected(MemberId),
    Status {
        counters: bool,
        reply: oneshot::Sender<northbound::StatusResponse>,
    },
    EndJob {
        request: northbound::EndJobRequest,
        reply: oneshot::Sender<Result<Vec<String>, LeaveError>>,
    },
    Plan {
        request: northbound::PlanRequest,
        reply: oneshot::Sender<Result<northbound::PlanResponse, OutlookError>>,
    },
    Stop {
        reply: oneshot::Sender<()>,
    },
}

/// A rank's stream of events.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) id: MemberId,
    pub(crate) events: mpsc::Receiver<northbound::JoinEvent>,
}

/// What ended in a task of its own.
enum Done {
    Installed { job: JobId, result: Result<(), String> },
    Removed { job: JobId },
    Nothing,
}

impl Controller {
    /// Starts: listens at once, connects to the switches in the background.
    pub async fn start(inventory: Inventory) -> Result<Self, StartError> {
        let pipeline = Arc::new(program::load(inventory.pipeline.as_ref())?);
        let addresses = Addresses::of(&inventory);
        let base = Arc::new(state::state(&pipeline.info, &routing::base(&addresses))?);
        let mut tasks = JoinSet::new();
        let (requests, asked) = mpsc::channel(MEMBER_EVENTS);
        let security = &inventory.security;
        let tls = security.tls.as_ref().map(TlsFiles::acceptor).transpose()?;
        let tokens = security.tokens.as_deref().map(Tokens::from_file).transpose()?;
        let limiter = Limiter::new(security.requests_per_second);
        let audit = security.audit.as_ref().map(|path| {
            Audit::to_file(path).map_err(|source| StartError::Audit { path: path.clone(), source })
        });
        let audit = Arc::new(audit.transpose()?.unwrap_or_default());
        let metrics = Arc::new(Metrics::default());
        let events = Arc::new(EventLog::new(metrics.clone()));
        let core = Core {
            requests,
            announce: inventory.announce_address,
            events: events.clone(),
            metrics: metrics.clone(),
            audit: audit.clone(),
        };
        let gate = Arc::new(Gate { tokens, limiter, metrics: metrics.clone(), audit });
        let (in_charge, watched) = watch::channel(false);
        let mut bound = Vec::new();
        for &address in &inventory.listen {
            let failed = |source| StartError::Listen { address, source };
            let listener = tokio::net::TcpListener::bind(address).await.map_err(failed)?;
            bound.push(listener.local_addr().map_err(failed)?);
            tasks.spawn(api::serve(listener, tls.clone(), core.clone(), gate.clone(), watched.clone()));
        }
        let (sender, switch_events) = mpsc::channel(SWITCH_EVENTS);
        let shared = Shared::new(pipeline, base, sender, metrics);
        let ends = Ends { asked, events: switch_events, in_charge, log: events };
        let owner = Owner::new(&inventory, shared, addresses, ends, &mut tasks)?;
        tasks.spawn(owner.run());
        Ok(Self { addresses: bound, core, tasks })
    }

    /// Where the API listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What the controller sees now; `None` while it is ending.
    pub async fn status(&self) -> Option<northbound::StatusResponse> {
        self.core.status(false).await.ok()
    }

    /// Waits until every switch is ready and no direction of a link has come or gone for the time given. Returns the number of
    /// switches and of links that work both ways.
    pub async fn ready(&self, quiet: Duration) -> (usize, usize) {
        let mut seen = (Vec::new(), Instant::now());
        loop {
            let begun = Instant::now();
            if let Some(status) = self.status().await {
                let is_ready = status.switches.iter().all(|switch| switch.state == "ready");
                if !is_ready || status.links != seen.0 {
                    seen = (status.links, Instant::now());
                } else if seen.1.elapsed() >= quiet {
                    let ends = |link: &northbound::Link| {
                        let from = (link.from_switch.clone(), link.from_port);
                        (from, (link.to_switch.clone(), link.to_port))
                    };
                    let found: HashSet<_> = seen.0.iter().map(ends).collect();
                    let works = found.iter().filter(|(a, b)| found.contains(&(b.clone(), a.clone()))).count();
                    return (status.switches.len(), works / 2);
                }
            }
            // A large fabric is not kept busy by being looked at.
            tokio::time::sleep(READY_LOOK.max(begun.elapsed() * SETTLE_SHARE)).await;
        }
    }

    /// Ends it. Groups go on as long as nothing fails; their ranks look for the next controller.
    pub async fn stop(mut self) {
        let (reply, done) = oneshot::channel();
        if self.core.requests.send(Request::Stop { reply }).await.is_ok() {
            let _ = done.await;
        }
        self.tasks.shutdown().await;
    }
}

/// The task that owns all state.
struct Owner {
    inventory: Inventory,
    store: Option<Store>,
    /// What the store holds of groups, if that is known.
    saved: Option<jobs::Records>,
    /// False while another controller is.
    in_charge: watch::Sender<bool>,
    /// The topology as an earlier controller knew it, believed until then.
    remembered: Option<(Instant, Graph)>,
    /// Groups of when this controller was in charge before.
    stale: Vec<JobId>,
    /// Ordinary traffic, as the switches were last told.
    network: Arc<Network>,
    discovery: Discovery,
    jobs: Jobs,
    switches: BTreeMap<DeviceId, Switch>,
    graph: Graph,
    /// When the topology that changed is to be worked up.
    settle: Option<Instant>,
    /// How long after a change.
    settle_after: Duration,
    members: BTreeMap<MemberId, mpsc::Sender<northbound::JoinEvent>>,
    next_member: MemberId,
    asked: mpsc::Receiver<Request>,
    events: mpsc::Receiver<(DeviceId, SwitchEvent)>,
    working: JoinSet<Done>,
    log: Arc<EventLog>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.log.close();
    }
}

/// Where the owner hears and is heard.
struct Ends {
    asked: mpsc::Receiver<Request>,
    events: mpsc::Receiver<(DeviceId, SwitchEvent)>,
    in_charge: watch::Sender<bool>,
    log: Arc<EventLog>,
}

struct Switch {
    name: String,
    target: String,
    ports: Vec<u16>,
    handle: SwitchHandle,
    state: String,
}

impl Owner {
    fn new(
        inventory: &Inventory,
        shared: Shared,
        addresses: Addresses,
        Ends { asked, events, in_charge, log }: Ends,
        tasks: &mut JoinSet<()>,
    ) -> Result<Self, StoreError> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let watched = in_charge.subscribe();
        let mut switches = BTreeMap::new();
        let mut running = Vec::new();
        for spec in &inventory.switches {
            // The newest controller wins the election; one that stands by never does, while there is another.
            let election_id = match inventory.standby {
                true => since_1970.as_nanos() % 1_000_000 + 1,
                false => since_1970.as_millis().max(2_000_000),
            };
            let (task, handle) = SwitchTask::new(
                spec,
                election_id,
                shared.clone(),
                watched.clone(),
                inventory.security.p4runtime.as_ref(),
            );
            handle.set(Section::Own, routing::own(&addresses, spec.device_id));
            running.push(task);
            let switch = Switch {
                name: spec.name.clone(),
                target: spec.target.clone(),
                ports: spec.ports.clone(),
                handle,
                state: "connecting".to_owned(),
            };
            switches.insert(spec.device_id, switch);
        }
        let mut owner = Self {
            inventory: inventory.clone(),
            store: inventory.store.as_ref().map(Store::new),
            saved: None,
            in_charge,
            remembered: None,
            stale: Vec::new(),
            network: Arc::new(Network::new(addresses)),
            discovery: Discovery::new(Instant::now(), inventory, RandomState::new().build_hasher().finish()),
            jobs: Jobs::new(inventory, last_generation(since_1970)),
            switches,
            graph: Graph::default(),
            settle: None,
            settle_after: SETTLE,
            members: BTreeMap::new(),
            next_member: 1,
            asked,
            events,
            working: JoinSet::new(),
            log,
        };
        if !inventory.standby {
            owner.activate(Instant::now())?;
        }
        for task in running {
            tasks.spawn(task.run());
        }
        Ok(owner)
    }

    async fn run(mut self) {
        loop {
            let trust = self.remembered.as_ref().map(|(until, _)| *until);
            let wake = [Some(self.discovery.next_timeout()), self.jobs.next_timeout(), self.settle, trust];
            let wake = wake.into_iter().flatten().min().unwrap_or_else(Instant::now);
            tokio::select! {
                event = self.events.recv() => match event {
                    Some((device, event)) => self.switch_event(device, event),
                    None => return,
                },
                request = self.asked.recv() => match request {
                    Some(Request::Stop { reply }) => {
                        self.stop();
                        let _ = reply.send(());
                        return;
                    }
                    Some(request) => self.request(request),
                    None => return,
                },
                Some(done) = self.working.join_next() => self.done(done.unwrap_or(Done::Nothing)),
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            self.on_time();
        }
    }

    fn on_time(&mut self) {
        if Instant::now() >= self.discovery.next_timeout() {
            // A probe whose answer waits here was not lost; what comes meanwhile is not waited for.
            for _ in 0..self.events.len() {
                let Ok((device, event)) = self.events.try_recv() else { break };
                self.switch_event(device, event);
            }
        }
        let now = Instant::now();
        if now >= self.discovery.next_timeout() {
            let actions = self.discovery.handle(now, discovery::Event::Tick);
            self.discovered(now, actions);
        }
        if self.settle.is_some_and(|at| now >= at)
            || self.remembered.as_ref().is_some_and(|(until, _)| now >= *until)
        {
            self.settle = None;
            self.topology(now);
        }
        if self.jobs.next_timeout().is_some_and(|at| now >= at) {
            let actions = self.jobs.tick(now);
            self.perform(now, actions);
        }
    }

    fn switch_event(&mut self, device: DeviceId, event: SwitchEvent) {
        let now = Instant::now();
        let Some(switch) = self.switches.get_mut(&device) else { return };
        let event = match event {
            SwitchEvent::Up { pushed } => {
                switch.state = "ready".to_owned();
                self.log.push(report::switch("switch_up", &switch.name, "is ready"));
                // A switch that lost its registers can't be part of what was going on, even if nobody saw it go.
                if pushed && let Some((_, remembered)) = &mut self.remembered {
                    remembered.remove_switch(device);
                }
                if pushed {
                    self.topology_without(now, device);
                }
                self.settle.get_or_insert(now + self.settle_after);
                discovery::Event::SwitchUp(device)
            }
            SwitchEvent::Down(state) => {
                // The same thing again and again is said once.
                if switch.state != state {
                    self.log.push(report::switch("switch_down", &switch.name, &format!("is {state}")));
                }
                switch.state = state;
                self.settle.get_or_insert(now);
                discovery::Event::SwitchDown(device)
            }
            SwitchEvent::Elected => {
                self.elected(now, device);
                return;
            }
            SwitchEvent::Displaced(reason) => {
                let reason = format!("{}: {reason}", switch.name);
                self.abdicate(&reason);
                return;
            }
            SwitchEvent::PacketIn { port, reason, frame } => {
                discovery::Event::PacketIn { device, port, reason, frame }
            }
        };
        let actions = self.discovery.handle(now, event);
        self.discovered(now, actions);
    }

    fn topology_without(&mut self, now: Instant, device: DeviceId) {
        if self.graph.has_switch(device) {
            let actions = self.discovery.handle(now, discovery::Event::SwitchDown(device));
            self.discovered(now, actions);
            self.topology(now);
        }
    }

    fn discovered(&mut self, now: Instant, actions: Vec<discovery::Action>) {
        for action in actions {
            match action {
                discovery::Action::PacketOut { from, frame } => {
                    if let Some(switch) = self.switches.get(&from.device) {
                        switch.handle.packet_out(from.port, frame);
                    }
                }
                discovery::Action::Report(change) => {
                    self.report(change);
                    self.settle.get_or_insert(now + self.settle_after);
                }
            }
        }
    }

    /// The topology may have changed: routes and jobs follow.
    fn topology(&mut self, now: Instant) {
        if !*self.in_charge.borrow() {
            return;
        }
        let graph = self.known_graph(now);
        if graph == self.graph {
            return;
        }
        self.route(&graph);
        self.graph = graph.clone();
        self.remember_graph();
        let actions = self.jobs.topology(now, graph);
        self.perform(now, actions);
        self.settle_after = (now.elapsed() * SETTLE_SHARE).clamp(SETTLE, LONGEST_SETTLE);
    }

    /// Tells the switches of a topology, before it is that of this controller.
    fn route(&mut self, graph: &Graph) {
        self.network = Arc::new(self.network.next(graph, !graph.same_links(&self.graph)));
        for device in graph.switches() {
            if let Some(switch) = self.switches.get(&device) {
                switch.handle.route(self.network.clone());
            }
        }
    }

    fn stop(&mut self) {
        // Their streams end: sums go on, and the ranks attach to the next controller.
        self.members.clear();
    }
}

/// A generation above all that an earlier controller can have used: eight a second since 2025, for 17 years.
fn last_generation(since_1970: Duration) -> u32 {
    const SINCE_2025: u64 = 1_735_689_600;
    let eighths = since_1970.as_millis() as u64 / 125;
    u32::try_from(eighths.saturating_sub(SINCE_2025 * 8)).unwrap_or(u32::MAX / 2)
}
