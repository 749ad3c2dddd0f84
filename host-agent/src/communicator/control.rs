//! The conversation with the controller, on a thread of its own: Info, announcements, Join; then see `attend`.

mod attend;
mod convert;
mod ring;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use inca_p4runtime::access::Line;
use inca_p4runtime::chain;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::{self, InfoRequest, JoinEvent, JoinRequest, join_event::Event};
use inca_wire::packet::{Format, Header, Opcode, VERSION};
use tokio::sync::mpsc as tokio_mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::{Channel, Endpoint as ChannelEndpoint};
use tonic::{Code, Streaming};

use super::error::{JoinError, LeaveError};
use super::options::{Fallback, JoinOptions, OnFailure, OnFull};
use crate::protocol::{Account, Closed, EndpointConfig, TreeConfig, Tuning};
use crate::transport::{self, DataInterface, Engine, OnClosed};

/// Between attempts to reach the controller.
const CONNECT_RETRY: Duration = Duration::from_millis(200);
/// Largest event: the chunks that a rank lacks, at most one for every slot of its leaf.
const MAX_EVENT: usize = 64 << 20;
/// Between announcements, while the controller does not know where this host is attached.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(250);
/// Between repetitions of "waiting for rank 3" in the log.
const WAITING_LOG_INTERVAL: Duration = Duration::from_secs(5);
/// A controller that does not answer pings for twice this long is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// What the controller assigned.
#[derive(Debug, Clone)]
pub struct Joined {
    /// This rank.
    pub rank: u32,
    /// Switches between this host and the root of the deepest tree; 0 if unknown.
    pub levels: u32,
    /// Format, chunk size, generation and trees.
    pub config: EndpointConfig,
    /// Why there is no tree, and the hosts are a ring.
    pub fallback: Option<String>,
}

/// A running conversation.
#[derive(Debug)]
pub(super) struct Control {
    job: String,
    rank: u32,
    requests: tokio_mpsc::UnboundedSender<Request>,
    thread: JoinHandle<()>,
}

enum Request {
    /// The caller leaves.
    Leave(mpsc::SyncSender<Result<(), String>>),
    /// The generation ended here first: a deadline, a mismatch.
    EndedHere(Closed, Account),
}

type JoinedParts = (Joined, Engine, JoinHandle<()>);

impl Control {
    /// Joins; blocks until that has succeeded or failed.
    pub(super) fn join(
        options: JoinOptions,
        interface: DataInterface,
        socket: UdpSocket,
        listener: Option<TcpListener>,
    ) -> Result<(Self, Joined, Engine, JoinHandle<()>), JoinError> {
        let (job, rank) = (options.job.clone(), options.rank);
        let system = |what| {
            let job = job.clone();
            move |source| JoinError::System { job, what, source }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(system("starting a runtime for the controller's stream"))?;
        let (requests, inbox) = tokio_mpsc::unbounded_channel();
        let (report, reported) = mpsc::sync_channel(1);
        let ended = requests.clone();
        let thread = std::thread::Builder::new()
            .name(format!("inca control {job}"))
            .spawn(move || {
                let deadline = Instant::now() + options.timeout;
                let turn = AtomicUsize::new(0);
                let token = OnceLock::new();
                let session = Session { options, interface, socket, listener, deadline, turn, token };
                runtime.block_on(session.run(report, ended, inbox));
            })
            .map_err(system("starting a thread for the controller's stream"))?;
        let (joined, driver, driver_thread) = reported.recv().unwrap_or_else(|_| {
            let source = std::io::Error::other("its thread ended early");
            Err(JoinError::System { job: job.clone(), what: "talking to the controller", source })
        })?;
        Ok((Self { job, rank, requests, thread }, joined, driver, driver_thread))
    }

    /// Leaves the job and ends the conversation.
    pub(super) fn leave(self) -> Result<(), LeaveError> {
        let (reply, replied) = mpsc::sync_channel(1);
        // A conversation that has ended has left already.
        let result = match self.requests.send(Request::Leave(reply)) {
            Ok(()) => replied.recv().unwrap_or(Ok(())),
            Err(_) => Ok(()),
        };
        let _ = self.thread.join();
        result.map_err(|reason| LeaveError::Unconfirmed { job: self.job, rank: self.rank, reason })
    }
}

struct Session {
    options: JoinOptions,
    interface: DataInterface,
    socket: UdpSocket,
    /// Where a ring's neighbour would be awaited.
    listener: Option<TcpListener>,
    deadline: Instant,
    /// Which of the controllers is asked next.
    turn: AtomicUsize,
    /// Of this rank's membership, once it is one.
    token: OnceLock<String>,
}

impl Session {
    async fn run(
        self,
        report: mpsc::SyncSender<Result<JoinedParts, JoinError>>,
        ended: tokio_mpsc::UnboundedSender<Request>,
        inbox: tokio_mpsc::UnboundedReceiver<Request>,
    ) {
        let on_closed: OnClosed = Box::new(move |closed, account| {
            // Nobody listens once the conversation has ended.
            let _ = ended.send(Request::EndedHere(closed.clone(), account));
        });
        match self.establish(on_closed).await {
            Err(error) => {
                let _ = report.send(Err(error));
            }
            Ok((client, stream, parts)) => {
                let (driver, slots) = (parts.1.clone(), convert::slots(&parts.0.config));
                if report.send(Ok(parts)).is_ok() {
                    self.attend(client, stream, driver, &slots, inbox).await;
                }
            }
        }
    }

    async fn establish(
        &self,
        on_closed: OnClosed,
    ) -> Result<(ControllerClient<Line>, Streaming<JoinEvent>, JoinedParts), JoinError> {
        let deadline = self.deadline;
        let (client, announce, mut stream) = loop {
            match self.enter().await {
                // It stands by; another one is in charge, or will be.
                Err(JoinError::Refused { code: Code::Unavailable, .. })
                    if Instant::now() + CONNECT_RETRY < deadline =>
                {
                    sleep(CONNECT_RETRY).await;
                }
                entered => break entered?,
            }
        };
        let announcement = self.announcement();
        let assignment = self.await_assignment(&mut stream, &announcement, announce).await?;
        let ring = assignment.ring.clone();
        let (mut joined, trees) = self.judge(assignment)?;
        if let Some(ring) = ring {
            let (engine, thread) = self.enter_ring(&mut joined, ring, on_closed)?;
            return Ok((client, stream, (joined, engine, thread)));
        }
        let socket =
            self.socket.try_clone().map_err(|source| self.system("duplicating the data socket", source))?;
        let (driver, thread) = transport::spawn(joined.config.clone(), socket, trees, on_closed)?;
        Ok((client, stream, (joined, Engine::Tree(driver), thread)))
    }

    /// Asks one controller to let this rank in.
    async fn enter(&self) -> Result<(ControllerClient<Line>, SocketAddrV4, Streaming<JoinEvent>), JoinError> {
        let mut client = self.connect().await?;
        let announce = match self.info(&mut client).await {
            Err(error @ JoinError::Version { .. }) => {
                // Only to be refused, so that the ranks that wait for this one are told why it does not come.
                let _ = self.within(client.join(self.join_request()?)).await;
                return Err(error);
            }
            announce => announce?,
        };
        // Early, so that the controller may know the host by the time it is asked for.
        self.announce(&self.announcement(), announce);
        let request = self.join_request()?;
        let stream = self.within(client.join(request)).await?.into_inner();
        Ok((client, announce, stream))
    }

    /// Connects, again and again until the deadline: the controller may be starting too.
    async fn connect(&self) -> Result<ControllerClient<Line>, JoinError> {
        let controller = &self.options.controller;
        let mut logged = false;
        let mut last = "no answer".to_owned();
        loop {
            match timeout_at(self.deadline, self.endpoint()?.connect()).await {
                Ok(Ok(channel)) => return self.client(channel),
                Ok(Err(error)) => last = chain(&error),
                Err(_) => {}
            }
            if Instant::now() + CONNECT_RETRY >= self.deadline {
                let (controller, timeout) = (controller.clone(), self.options.timeout);
                return Err(JoinError::Unreachable { controller, timeout, reason: last });
            }
            if !std::mem::replace(&mut logged, true) {
                tracing::info!(controller, reason = last, "waiting for the controller");
            }
            sleep(CONNECT_RETRY).await;
        }
    }

    /// A client whose calls carry the token.
    fn client(&self, channel: Channel) -> Result<ControllerClient<Line>, JoinError> {
        let bearer = self.options.access.bearer().map_err(access)?;
        Ok(ControllerClient::new(Line::new(channel, bearer)).max_decoding_message_size(MAX_EVENT))
    }

    /// The next one of the controllers that were given, in turn.
    fn endpoint(&self) -> Result<ChannelEndpoint, JoinError> {
        let controllers: Vec<&str> = self.options.controller.split(',').map(str::trim).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let controller = controllers[turn % controllers.len()].to_owned();
        let uri = || JoinError::Uri { controller: controller.clone() };
        let endpoint = ChannelEndpoint::from_shared(controller.clone()).map_err(|_| uri())?;
        let is_known = matches!(endpoint.uri().scheme_str(), Some("http" | "https"));
        if !is_known || endpoint.uri().authority().is_none() {
            return Err(uri());
        }
        let endpoint = self.options.access.secure(endpoint).map_err(access)?;
        Ok(endpoint
            .connect_timeout(CONNECT_RETRY * 10)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true))
    }

    /// Checks the protocol version; returns where to announce.
    async fn info(&self, client: &mut ControllerClient<Line>) -> Result<SocketAddrV4, JoinError> {
        let info = self.within(client.info(InfoRequest {})).await?.into_inner();
        if info.protocol_version != u32::from(VERSION) {
            return Err(JoinError::Version {
                controller: self.options.controller.clone(),
                theirs: info.protocol_version,
                ours: VERSION.into(),
            });
        }
        let address: Ipv4Addr = info.announce_address.parse().map_err(|_| {
            self.unusable(format!("announce address {:?} is not IPv4", info.announce_address))
        })?;
        Ok(SocketAddrV4::new(address, self.port(info.udp_port)?))
    }

    fn announcement(&self) -> Vec<u8> {
        let mut header = Header::new(Opcode::Announce, self.options.format, 0, 0);
        // Ranks fit 16 bits: the world size was checked.
        header.member = self.options.rank as u16;
        header.to_bytes().to_vec()
    }

    fn announce(&self, packet: &[u8], to: SocketAddrV4) {
        if let Err(error) = self.socket.send_to(packet, to) {
            tracing::warn!(%error, %to, "announcing this host failed; will be repeated");
        }
    }

    fn join_request(&self) -> Result<JoinRequest, JoinError> {
        let port =
            self.socket.local_addr().map_err(|source| self.system("reading the data port", source))?.port();
        let on_failure = match self.options.on_failure {
            OnFailure::Abort => northbound::OnFailure::Abort,
            OnFailure::Shrink => northbound::OnFailure::Shrink,
        };
        let fallback = match self.options.fallback {
            Fallback::Error => northbound::Fallback::Error,
            Fallback::Ring => northbound::Fallback::Ring,
        };
        let (on_full, queue_seconds) = match self.options.on_full {
            OnFull::Refuse => (northbound::OnFull::Refuse, 0),
            OnFull::Queue(None) => (northbound::OnFull::Queue, 0),
            // Not without end.
            OnFull::Queue(Some(time)) => {
                let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
                (northbound::OnFull::Queue, u32::try_from(seconds.max(1)).unwrap_or(u32::MAX))
            }
        };
        let awaits = self.listener.as_ref().map(TcpListener::local_addr).transpose();
        let awaits = awaits.map_err(|source| self.system("reading the ring's port", source))?;
        let ring_port = awaits.map_or(0, |address| address.port().into());
        Ok(JoinRequest {
            job: self.options.job.clone(),
            group: self.options.group.clone(),
            rank: self.options.rank,
            world_size: self.options.world_size,
            format: northbound_format(self.options.format).into(),
            chunk_words: self.options.chunk_words.into(),
            host_address: self.interface.address.to_string(),
            host_udp_port: port.into(),
            protocol_version: VERSION.into(),
            mtu: self.interface.mtu,
            on_failure: on_failure.into(),
            attach_generation: 0,
            attach_stopped: false,
            fallback: fallback.into(),
            ring_port,
            job_token: self.options.job_token.shown(),
            member_token: self.member_token(),
            on_full: on_full.into(),
            queue_seconds,
            element_type: self.options.dtype.map_or_else(String::new, |dtype| dtype.name().to_owned()),
        })
    }

    fn member_token(&self) -> String {
        self.token.get().cloned().unwrap_or_default()
    }

    /// Waits for the trees; says what for, and announces this host while the network does not know it.
    async fn await_assignment(
        &self,
        stream: &mut Streaming<JoinEvent>,
        announcement: &[u8],
        announce: SocketAddrV4,
    ) -> Result<northbound::Assignment, JoinError> {
        let (job, rank) = (&self.options.job, self.options.rank);
        let mut missing_ranks = Vec::new();
        let mut queued = String::new();
        let mut deadline = self.deadline;
        // Until the controller says otherwise.
        let mut host_unknown = true;
        let mut next_log = Instant::now();
        let mut next_announcement = Instant::now() + ANNOUNCE_INTERVAL;
        loop {
            let wake = if host_unknown { next_announcement } else { next_log };
            let until = deadline.min(wake);
            match timeout_at(until, stream.message()).await {
                Ok(Ok(Some(JoinEvent { event: Some(Event::Assignment(assignment)) }))) => {
                    return Ok(assignment);
                }
                Ok(Ok(Some(JoinEvent { event: Some(Event::Waiting(waiting)) }))) => {
                    if missing_ranks != waiting.missing_ranks || host_unknown != waiting.host_unknown {
                        next_log = Instant::now();
                    }
                    missing_ranks = waiting.missing_ranks;
                    host_unknown = waiting.host_unknown;
                    let place = match waiting.queue_position {
                        0 => String::new(),
                        place => format!("queued at place {place}: {}", waiting.queue_reason),
                    };
                    if place != queued {
                        (queued, next_log) = (place, Instant::now());
                    }
                    if waiting.queue_position > 0 {
                        // The controller has its own limit for that.
                        deadline = Instant::now() + self.options.timeout;
                    }
                }
                Ok(Ok(Some(JoinEvent { event: Some(Event::Membership(membership)) }))) => {
                    // The first one counts.
                    let _ = self.token.set(membership.token);
                }
                Ok(Ok(Some(JoinEvent { event: Some(Event::Closed(closed)) }))) => {
                    return Err(JoinError::Closed { job: job.clone(), closed: convert::closed(closed).0 });
                }
                // An event of a later version, or about a generation that this rank has not begun.
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => {
                    let reason = "the controller ended the stream without an assignment".to_owned();
                    let closed = Closed { reason, missing_ranks };
                    return Err(JoinError::Closed { job: job.clone(), closed });
                }
                Ok(Err(status)) => return Err(self.refused(status)),
                Err(_) if Instant::now() >= deadline => {
                    return Err(JoinError::Timeout {
                        job: job.clone(),
                        timeout: self.options.timeout,
                        waiting_for: waiting_text(&missing_ranks, host_unknown),
                        missing_ranks,
                    });
                }
                Err(_) => {}
            }
            if host_unknown && Instant::now() >= next_announcement {
                next_announcement = Instant::now() + ANNOUNCE_INTERVAL;
                self.announce(announcement, announce);
            }
            if Instant::now() >= next_log {
                next_log = Instant::now() + WAITING_LOG_INTERVAL;
                match queued.as_str() {
                    "" => tracing::info!(job, rank, "{}", waiting_text(&missing_ranks, host_unknown)),
                    queued => tracing::info!(job, rank, "{queued}"),
                }
            }
        }
    }

    /// Turns the assignment into settings; believes nothing unseen.
    fn judge(&self, assignment: northbound::Assignment) -> Result<(Joined, Vec<SocketAddr>), JoinError> {
        let options = &self.options;
        let same = |what: &str, asked: u32, got: u32| {
            if asked == got {
                Ok(())
            } else {
                Err(self.unusable(format!("{what} {got}, but {asked} was asked for")))
            }
        };
        if assignment.resume.is_none() {
            same("world size", options.world_size, assignment.world_size)?;
        }
        same("words per chunk", options.chunk_words.into(), assignment.chunk_words)?;
        same("format", northbound_format(options.format) as u32, assignment.format as u32)?;
        let mut trees = Vec::new();
        let mut addresses = Vec::new();
        for tree in &assignment.trees {
            let narrow = |what: &str, value: u32| {
                u16::try_from(value)
                    .map_err(|_| self.unusable(format!("{what} {value}: must be at most 65535")))
            };
            let address: Ipv4Addr = tree.service_address.parse().map_err(|_| {
                self.unusable(format!("service address {:?} is not IPv4", tree.service_address))
            })?;
            addresses.push(SocketAddr::from((address, self.port(tree.service_port)?)));
            trees.push(TreeConfig {
                tree_id: narrow("tree id", tree.tree_id)?,
                member: narrow("member", tree.member)?,
                slots: tree.slots,
                leaf_children: tree.leaf_children.iter().map(|child| child.ranks.clone()).collect(),
                leaf: match tree.leaf.as_str() {
                    "" => String::new(),
                    leaf => format!("{leaf} port {}", tree.leaf_port),
                },
            });
        }
        let config = EndpointConfig {
            job: options.job.clone(),
            world_size: assignment.world_size,
            generation: assignment.generation,
            format: options.format,
            chunk_words: options.chunk_words,
            trees,
            tuning: Tuning { seed: options.tuning.seed ^ u64::from(options.rank) << 32, ..options.tuning },
        };
        let levels = assignment.trees.iter().map(|tree| tree.levels).max().unwrap_or(0);
        Ok((Joined { rank: options.rank, levels, config, fallback: None }, addresses))
    }

    /// A call's response, unless the time to join is over.
    async fn within<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<tonic::Response<T>, JoinError> {
        match timeout_at(self.deadline, call).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(status)) => Err(self.refused(status)),
            Err(_) => Err(JoinError::Unreachable {
                controller: self.options.controller.clone(),
                timeout: self.options.timeout,
                reason: "it accepted the connection but did not answer".to_owned(),
            }),
        }
    }

    fn refused(&self, status: tonic::Status) -> JoinError {
        let (job, rank) = (self.options.job.clone(), self.options.rank);
        JoinError::Refused { job, rank, code: status.code(), message: status.message().to_owned() }
    }

    fn unusable(&self, what: String) -> JoinError {
        JoinError::Assignment { job: self.options.job.clone(), what }
    }

    fn system(&self, what: &'static str, source: std::io::Error) -> JoinError {
        JoinError::System { job: self.options.job.clone(), what, source }
    }

    fn port(&self, port: u32) -> Result<u16, JoinError> {
        match u16::try_from(port) {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(self.unusable(format!("UDP port {port}: must be 1 to 65535"))),
        }
    }
}

/// The API's numbers are those of the packets.
fn northbound_format(format: Format) -> northbound::Format {
    northbound::Format::try_from(i32::from(u8::from(format))).unwrap_or(northbound::Format::Unspecified)
}

fn waiting_text(missing_ranks: &[u32], host_unknown: bool) -> String {
    match (missing_ranks, host_unknown) {
        (_, true) => "waiting for the controller to learn where this host is attached".to_owned(),
        ([], false) => "waiting for the trees to be installed".to_owned(),
        ([rank], false) => format!("waiting for rank {rank}"),
        (ranks, false) => format!("waiting for ranks {ranks:?}"),
    }
}

/// Credentials that can't be used.
fn access(error: inca_p4runtime::access::AccessError) -> JoinError {
    JoinError::Options { what: error.to_string() }
}
