//! A reference switch on a loopback socket, and a scripted controller.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inca_host_agent::communicator::JoinOptions;
use inca_p4runtime::northbound::controller_server::{Controller, ControllerServer};
use inca_p4runtime::northbound::{
    Assignment, Closed, HandOverRequest, HandOverResponse, InfoRequest, InfoResponse, JoinEvent, JoinRequest,
    LeafChild, LeaveRequest, LeaveResponse, Membership, ProgressRequest, ProgressResponse, ReportRequest,
    ReportResponse, StalledRequest, StalledResponse, StatusRequest, StatusResponse, TreeAssignment, Waiting,
    join_event::Event,
};
use inca_wire::model::slot::{Child, ChildKind, SwitchModel, TreeConfig};
use inca_wire::packet::{Format, Header, Opcode, VERSION};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status};

pub(crate) const TREE: u16 = 9;
pub(crate) const GENERATION: u32 = 3;
pub(crate) const SLOTS: u32 = 32;

/// What the network knows: where each rank's results go, and who has announced himself.
#[derive(Default)]
struct Hosts {
    ports: BTreeMap<u16, SocketAddr>,
    announced: BTreeMap<SocketAddr, u32>,
    contributions: u64,
}

/// One switch, the root of one tree, as a UDP socket: a rank's switch port is its place.
pub(crate) struct Switch {
    pub(crate) address: SocketAddr,
    hosts: Arc<Mutex<Hosts>>,
    /// Told at every contribution.
    arrival: Arc<Condvar>,
    stop: Arc<AtomicBool>,
    pub(crate) dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Drops every `lose`-th packet in either direction; 0: none.
    pub(crate) fn start(world: u16, format: Format, words: u8, lose: u64) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("timeout");
        let address = socket.local_addr().expect("address");
        let mut model = SwitchModel::new([TreeConfig {
            tree_id: TREE,
            generation: GENERATION,
            format,
            guard: format.guard_bits(world.into()).expect("world"),
            world,
            slots: SLOTS,
            words,
            children: (0..world)
                .map(|rank| Child { port: rank, member: rank, kind: ChildKind::Host })
                .collect(),
            parent: None,
            resend_interval_us: 0,
        }]);
        let hosts = Arc::new(Mutex::new(Hosts::default()));
        let (stop, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (to_stop, counter, known) = (stop.clone(), dropped.clone(), hosts.clone());
        let arrival = Arc::new(Condvar::new());
        let arrived = arrival.clone();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut buffer = [0; 9000];
            let mut packets = 0u64;
            let mut lost = || {
                packets += 1;
                let lost = lose > 0 && packets.is_multiple_of(lose);
                counter.fetch_add(u64::from(lost), Ordering::Relaxed);
                lost
            };
            while !to_stop.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
                let (header, words) =
                    Header::parse_bytes(&buffer[..len]).expect("agents send well-formed packets");
                if lost() {
                    continue;
                }
                let mut hosts = known.lock().expect("lock");
                if header.opcode == Opcode::Announce {
                    *hosts.announced.entry(from).or_default() += 1;
                    continue;
                }
                assert_eq!(hosts.ports.get(&header.member), Some(&from), "results would go elsewhere");
                hosts.contributions += 1;
                arrived.notify_all();
                let now = started.elapsed().as_micros() as u64;
                for sent in model.handle(now, header.member, &header, words).sent {
                    let mut bytes = sent.header.to_bytes().to_vec();
                    bytes.extend(sent.words);
                    if !lost() {
                        socket.send_to(&bytes, hosts.ports[&sent.port]).expect("send");
                    }
                }
            }
        });
        Self { address, hosts, arrival, stop, dropped, thread: Some(thread) }
    }

    /// Waits until a contribution has arrived.
    pub(crate) fn await_contribution(&self) {
        let hosts = self.hosts.lock().expect("lock");
        let wait =
            self.arrival.wait_timeout_while(hosts, Duration::from_secs(5), |hosts| hosts.contributions == 0);
        assert!(!wait.expect("lock").1.timed_out(), "no contribution");
    }

    pub(crate) fn announcements(&self) -> u32 {
        self.hosts.lock().expect("lock").announced.values().sum()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the switch panicked");
        }
    }
}

/// How the controller deviates from a friendly one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Script {
    /// It speaks this protocol version.
    pub(crate) version: Option<u32>,
    /// It refuses this rank.
    pub(crate) refuse: Option<u32>,
    /// Announcements it wants from a host before it knows it.
    pub(crate) announcements: u32,
}

/// Who has joined.
#[derive(Default)]
struct Members {
    joined: BTreeMap<u32, mpsc::Sender<Result<JoinEvent, Status>>>,
}

/// Serves one job on one switch.
pub(crate) struct ScriptedController {
    pub(crate) uri: String,
    shared: Arc<Shared>,
    runtime: tokio::runtime::Runtime,
}

struct Shared {
    script: Script,
    switch: SocketAddr,
    hosts: Arc<Mutex<Hosts>>,
    job: Mutex<Members>,
    left: watch::Sender<Vec<u32>>,
    /// What the last rank that left reported.
    failure: Mutex<(String, Vec<u32>)>,
    /// What ranks that were stopped reported.
    reports: Mutex<Vec<ReportRequest>>,
}

impl ScriptedController {
    pub(crate) fn start(switch: &Switch, script: Script) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        let shared = Arc::new(Shared {
            script,
            switch: switch.address,
            hosts: switch.hosts.clone(),
            job: Mutex::default(),
            left: watch::Sender::new(Vec::new()),
            failure: Mutex::default(),
            reports: Mutex::default(),
        });
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("listener");
        let uri = format!("http://{}", listener.local_addr().expect("address"));
        let server = ControllerServer::new(Service(shared.clone()));
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(server)
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        Self { uri, shared, runtime }
    }

    /// Ends the generation.
    pub(crate) fn close(&self, reason: &str, missing_ranks: &[u32]) {
        let (reason, missing_ranks) = (reason.to_owned(), missing_ranks.to_vec());
        let closed = Closed { reason, missing_ranks, copies: Vec::new() };
        let job = std::mem::take(&mut *self.shared.job.lock().expect("lock"));
        self.runtime.block_on(async {
            for sender in job.joined.into_values() {
                let _ = sender.send(Ok(event(Event::Closed(closed.clone())))).await;
            }
        });
    }

    /// What the last rank that left reported.
    pub(crate) fn failure(&self) -> (String, Vec<u32>) {
        self.shared.failure.lock().expect("lock").clone()
    }

    /// Waits until this many ranks have left.
    pub(crate) fn await_left(&self, count: usize) -> Vec<u32> {
        let mut left = self.shared.left.subscribe();
        self.runtime.block_on(async {
            let left =
                tokio::time::timeout(Duration::from_secs(5), left.wait_for(|left| left.len() >= count)).await;
            left.expect("left in time").expect("controller runs").clone()
        })
    }
}

fn member_token(rank: u32) -> String {
    format!("membership of rank {rank}")
}

fn event(event: Event) -> JoinEvent {
    JoinEvent { event: Some(event) }
}

struct Service(Arc<Shared>);

type Events = Pin<Box<dyn tokio_stream::Stream<Item = Result<JoinEvent, Status>> + Send>>;

#[tonic::async_trait]
impl Controller for Service {
    type JoinStream = Events;

    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        Ok(Response::new(InfoResponse {
            controller_version: "scripted".to_owned(),
            protocol_version: self.0.script.version.unwrap_or(VERSION.into()),
            announce_address: self.0.switch.ip().to_string(),
            udp_port: self.0.switch.port().into(),
        }))
    }

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<Events>, Status> {
        let request = request.into_inner();
        if self.0.script.refuse == Some(request.rank) {
            return Err(Status::already_exists(format!("rank {} has joined already", request.rank)));
        }
        let (sender, receiver) = mpsc::channel(16);
        let address: Ipv4Addr = request.host_address.parse().expect("address");
        let address = SocketAddr::from((address, request.host_udp_port as u16));
        let shared = self.0.clone();
        let (watched, left) = (sender.clone(), self.0.clone());
        tokio::spawn(async move {
            // The stream ended without a leave.
            watched.closed().await;
            left.leave(request.rank);
        });
        let membership = Membership { token: member_token(request.rank) };
        sender.try_send(Ok(event(Event::Membership(membership)))).expect("room for the first one");
        tokio::spawn(async move {
            // Until the host has announced itself often enough.
            while shared.hosts.lock().expect("lock").announced.get(&address).copied().unwrap_or(0)
                < shared.script.announcements
            {
                let waiting = Waiting { host_unknown: true, ..Waiting::default() };
                if sender.send(Ok(event(Event::Waiting(waiting)))).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            shared.hosts.lock().expect("lock").ports.insert(request.rank as u16, address);
            let everyone = {
                let mut job = shared.job.lock().expect("lock");
                job.joined.insert(request.rank, sender.clone());
                (job.joined.len() == request.world_size as usize).then(|| job.joined.clone())
            };
            let Some(everyone) = everyone else {
                let joined: Vec<_> = shared.job.lock().expect("lock").joined.keys().copied().collect();
                let missing_ranks = (0..request.world_size).filter(|rank| !joined.contains(rank)).collect();
                let _ = sender
                    .send(Ok(event(Event::Waiting(Waiting { missing_ranks, ..Waiting::default() }))))
                    .await;
                return;
            };
            for (rank, sender) in everyone {
                let _ = sender.send(Ok(event(Event::Assignment(shared.assignment(&request, rank))))).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn leave(&self, request: Request<LeaveRequest>) -> Result<Response<LeaveResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.generation, GENERATION);
        assert_eq!(request.member_token, member_token(request.rank));
        *self.0.failure.lock().expect("lock") = (request.failure, request.missing_ranks);
        self.0.leave(request.rank);
        Ok(Response::new(LeaveResponse {}))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.member_token, member_token(request.rank));
        self.0.reports.lock().expect("lock").push(request);
        Ok(Response::new(ReportResponse {}))
    }

    async fn hand_over(&self, _: Request<HandOverRequest>) -> Result<Response<HandOverResponse>, Status> {
        Ok(Response::new(HandOverResponse {}))
    }

    async fn stalled(&self, _: Request<StalledRequest>) -> Result<Response<StalledResponse>, Status> {
        Ok(Response::new(StalledResponse {}))
    }

    async fn progress(&self, _: Request<ProgressRequest>) -> Result<Response<ProgressResponse>, Status> {
        Ok(Response::new(ProgressResponse {}))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Ok(Response::new(StatusResponse::default()))
    }
}

impl Shared {
    fn leave(&self, rank: u32) {
        self.job.lock().expect("lock").joined.remove(&rank);
        self.left.send_modify(|left| {
            if !left.contains(&rank) {
                left.push(rank);
            }
        });
    }

    fn assignment(&self, request: &JoinRequest, rank: u32) -> Assignment {
        let format = Format::try_from(request.format as u8).expect("a known format");
        Assignment {
            generation: GENERATION,
            world_size: request.world_size,
            format: request.format,
            chunk_words: request.chunk_words,
            guard_bits: format.guard_bits(request.world_size as usize).expect("world").into(),
            trees: vec![TreeAssignment {
                tree_id: TREE.into(),
                member: rank,
                slots: SLOTS,
                service_address: self.switch.ip().to_string(),
                service_port: self.switch.port().into(),
                levels: 1,
                leaf: "s1".to_owned(),
                leaf_port: rank,
                leaf_children: (0..request.world_size).map(|rank| LeafChild { ranks: vec![rank] }).collect(),
            }],
            ..Assignment::default()
        }
    }
}

/// Options for a rank on the loopback interface.
pub(crate) fn options(controller: &ScriptedController, rank: u32, world: u32, format: Format) -> JoinOptions {
    let mut options = JoinOptions::new(&controller.uri, "test", rank, world);
    options.host_address = Some(Ipv4Addr::LOCALHOST);
    options.format = format;
    options.timeout = Duration::from_secs(5);
    options
}
