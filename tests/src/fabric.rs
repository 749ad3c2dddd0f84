//! A whole fabric in one process and in virtual time: embedded switches that run the compiled program, host state machines at the
//! edges, and links that delay, lose, duplicate and reorder by seed or by order.

mod change;
mod faults;
mod order;
mod shape;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use inca_host_agent::protocol::{
    Collective, Completion, Endpoint, EndpointConfig, OperationError, OperationSpec, Part, ReduceOp, Stats,
    Tensor, TransmitBatch, Tuning,
};
use inca_wire::address::{service_address, service_mac};
use inca_wire::frame::UdpFrame;
use inca_wire::packet::Format;

pub use faults::{Direction, Faults, LATENCY, LinkFaults, PacketId};
pub use order::Orders;
pub use shape::Node;
use shape::Plan;

use crate::install::{marker_entries, switch_entries};
use crate::rng::Rng;
use crate::target::{Embedded, Target};

/// What the job on the fabric is.
#[derive(Debug, Clone)]
pub struct Job {
    /// Number format.
    pub format: Format,
    /// Words per chunk.
    pub chunk_words: u8,
    /// Slots per tree.
    pub slots: u32,
    /// Trees that chunks are striped over; all of the same shape.
    pub stripes: u16,
    /// Least time between two resends of a sum, in microseconds of the switches' clocks.
    pub resend_interval_us: u32,
}

impl Job {
    /// One tree, four slots, one word per chunk.
    pub fn new(format: Format) -> Self {
        Self { format, chunk_words: 1, slots: 4, stripes: 1, resend_interval_us: 1000 }
    }
}

/// What all ranks call, in order.
#[derive(Debug, Clone)]
pub struct Call {
    /// Sum or average.
    pub op: ReduceOp,
    /// One tensor per rank.
    pub tensors: Vec<Tensor>,
    /// Virtual time after which it fails.
    pub deadline: Option<Duration>,
}

impl Call {
    /// The sum, without a deadline.
    pub fn sum(tensors: Vec<Tensor>) -> Self {
        Self { op: ReduceOp::Sum, tensors, deadline: None }
    }
}

/// How a run ended: per rank, per call.
pub type Outcomes = Vec<Vec<Result<Tensor, OperationError>>>;

/// A run that did not end within its bounds.
#[derive(Debug, thiserror::Error)]
#[error("after {packets} packets and {elapsed:?} of virtual time {unfinished} operations are unfinished")]
pub struct Stuck {
    /// Packets delivered.
    pub packets: u64,
    /// Virtual time.
    pub elapsed: Duration,
    /// Operations of all ranks.
    pub unfinished: usize,
}

/// Most packets delivered and longest virtual time of a run.
const MOST_PACKETS: u64 = 2_000_000;
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Switch(usize, u16),
    Host(usize),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(Place, Vec<u8>),
    Timer(usize),
}

/// Switches, hosts and links.
#[derive(Debug)]
pub struct Fabric<T = Embedded> {
    plan: Plan,
    job: Job,
    switches: Vec<T>,
    hosts: Vec<Host>,
    start: Instant,
    generation: u32,
    /// The ranks that live, in order.
    members: Vec<usize>,
    /// Those that entries are installed for.
    installed: Vec<usize>,
    leaves_entries: bool,
    elapsed: Duration,
    queue: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    queued: u64,
    delivered: u64,
    faults: Faults,
}

#[derive(Debug)]
struct Host {
    endpoint: Endpoint<Tensor>,
    timer: Option<Instant>,
    done: Vec<(u64, Result<Tensor, OperationError>)>,
    /// What each call's result holds, by number.
    parts: BTreeMap<u64, Vec<Part>>,
}

impl Fabric {
    /// The fabric of this shape with embedded switches, and the job's first generation installed.
    ///
    /// # Panics
    /// If a switch refuses an entry.
    pub fn new(root: &Node, job: Job) -> Self {
        let plan = Plan::new(root);
        let switches =
            (0..plan.switches.len()).map(|index| Embedded::with_device_id(plan.device_id(index))).collect();
        Self::with_switches(root, job, switches)
    }
}

/// Switches of a shape.
///
/// # Panics
/// If the root is a host.
pub fn switches_of(root: &Node) -> usize {
    Plan::new(root).switches.len()
}

impl<T: Target> Fabric<T> {
    /// The fabric of this shape with these switches, as many as [`switches_of`] says, the root first; the job's first generation is
    /// installed.
    ///
    /// # Panics
    /// If a switch refuses an entry.
    pub fn with_switches(root: &Node, job: Job, mut switches: Vec<T>) -> Self {
        let plan = Plan::new(root);
        assert_eq!(switches.len(), plan.switches.len(), "switches for {root:?}");
        for (index, switch) in switches.iter_mut().enumerate() {
            switch.install(&switch_entries(plan.device_id(index)));
            switch.install(&marker_entries());
        }
        let mut fabric = Self {
            switches,
            plan,
            job,
            hosts: Vec::new(),
            start: Instant::now(),
            generation: 0,
            members: Vec::new(),
            installed: Vec::new(),
            leaves_entries: false,
            elapsed: Duration::ZERO,
            queue: BinaryHeap::new(),
            queued: 0,
            delivered: 0,
            faults: Faults::none(),
        };
        fabric.renew(Faults::none(), 0);
        fabric
    }

    /// Number format.
    pub fn format(&self) -> Format {
        self.job.format
    }

    /// Words per chunk.
    pub fn chunk_words(&self) -> u8 {
        self.job.chunk_words
    }

    /// Ranks.
    pub fn world(&self) -> usize {
        self.plan.ranks()
    }

    /// Links: one above each host (by rank), then one above each switch but the root.
    pub fn links(&self) -> usize {
        self.plan.links()
    }

    /// The next generation: entries with a new number, new endpoints, other faults. Slots keep what the old one left in them, and
    /// its packets that are still on their way arrive.
    ///
    /// # Panics
    /// If a switch refuses an entry.
    pub fn renew(&mut self, faults: Faults, seed: u64) {
        self.install((0..self.world()).collect());
        let now = self.now();
        let hosts = (0..self.world()).map(|rank| {
            let config = EndpointConfig {
                job: "fabric".to_owned(),
                world_size: self.world() as u32,
                generation: self.generation,
                format: self.job.format,
                chunk_words: self.job.chunk_words,
                trees: self.host_trees(rank),
                tuning: Tuning { seed: Rng::of(&[seed, rank as u64]).next_u64(), ..Tuning::default() },
            };
            let endpoint = Endpoint::new(config, now).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            Host { endpoint, timer: None, done: Vec::new(), parts: BTreeMap::new() }
        });
        self.hosts = hosts.collect();
        self.queue.retain(|Reverse((_, _, event))| matches!(event, Event::Arrival(..)));
        self.delivered = 0;
        self.faults = faults;
        self.faults.begin(self.elapsed);
    }

    /// As [`Fabric::renew`], but nothing of before is on its way any more: what follows depends on nothing that was before.
    ///
    /// # Panics
    /// If a switch refuses an entry.
    pub fn renew_quietly(&mut self, faults: Faults, seed: u64) {
        self.queue.clear();
        self.queued = 0;
        // Rounding to the switches' microseconds is the same each time.
        self.elapsed = Duration::from_millis(self.elapsed.as_millis() as u64 + 1);
        self.renew(faults, seed);
    }

    /// Virtual time since the first generation.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The next generation with another job.
    ///
    /// # Panics
    /// If a switch refuses an entry.
    pub fn renew_job(&mut self, job: Job, faults: Faults, seed: u64) {
        self.job = job;
        self.renew(faults, seed);
    }

    /// Packets that each direction of each link was given since the last [`Fabric::renew`], lost ones included.
    pub fn sent(&self) -> &Faults {
        &self.faults
    }

    /// A rank's counters.
    pub fn stats(&self, rank: usize) -> Stats {
        self.hosts[rank].endpoint.stats()
    }

    /// A switch; 0 is the root.
    pub fn switch(&mut self, index: usize) -> &mut T {
        &mut self.switches[index]
    }

    /// All ranks make these calls at once; runs until every call has ended at every rank.
    ///
    /// # Errors
    /// If the bounds on packets and virtual time are reached.
    ///
    /// # Panics
    /// If an endpoint refuses a call.
    pub fn run(&mut self, calls: &[Call]) -> Result<Outcomes, Stuck> {
        self.run_each(&vec![calls.to_vec(); self.world()])
    }

    /// As [`Fabric::run`] with calls of its own for each rank, of which it takes its tensor; as many for all.
    ///
    /// # Errors
    /// If the bounds on packets and virtual time are reached.
    ///
    /// # Panics
    /// If an endpoint refuses a call.
    pub fn run_each(&mut self, calls: &[Vec<Call>]) -> Result<Outcomes, Stuck> {
        let order: Vec<usize> = (0..calls.len()).collect();
        self.run_started_in_order(calls, &order)
    }

    /// As [`Fabric::run_each`]; ranks start, and their first packets arrive at their leaves, in this order.
    ///
    /// # Errors
    /// If the bounds on packets and virtual time are reached.
    ///
    /// # Panics
    /// If an endpoint refuses a call.
    pub fn run_started_in_order(&mut self, calls: &[Vec<Call>], order: &[usize]) -> Result<Outcomes, Stuck> {
        let begin = self.elapsed;
        let delivered = self.delivered;
        self.start(calls, order);
        self.run_on(calls.iter().map(Vec::len).sum(), (begin, delivered))
    }

    /// Runs until so many calls have ended; the bounds count from this time and number of packets.
    fn run_on(&mut self, wanted: usize, (begin, delivered): (Duration, u64)) -> Result<Outcomes, Stuck> {
        while self.finished() < wanted {
            let bounded = self.delivered - delivered < MOST_PACKETS && self.elapsed - begin < LONGEST;
            let Some(Reverse((at, _, event))) = self.queue.pop().filter(|_| bounded) else {
                return Err(Stuck {
                    packets: self.delivered - delivered,
                    elapsed: self.elapsed - begin,
                    unfinished: wanted - self.finished(),
                });
            };
            self.elapsed = self.elapsed.max(at);
            self.handle(event);
        }
        Ok(self.hosts.iter_mut().map(Host::outcomes).collect())
    }

    /// Every rank makes its calls, in this order of ranks.
    fn start(&mut self, calls: &[Vec<Call>], order: &[usize]) {
        for &rank in order {
            for call in &calls[rank] {
                let spec = OperationSpec {
                    collective: Collective::Allreduce,
                    op: call.op,
                    deadline: call.deadline.map(|after| self.now() + after),
                };
                let tensor = call.tensors[rank].clone();
                if let Err(rejected) = self.hosts[rank].endpoint.start(spec, tensor) {
                    panic!("rank {rank}: {}", rejected.error);
                }
            }
            self.serve(rank);
        }
    }

    fn finished(&self) -> usize {
        self.hosts.iter().map(|host| host.done.len()).sum()
    }

    fn now(&self) -> Instant {
        self.start + self.elapsed
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival(Place::Host(rank), frame) => {
                self.delivered += 1;
                // A host's kernel hands on only what is addressed to its socket.
                let Ok((to, payload)) = UdpFrame::parse(&frame) else { return };
                let host = self.plan.host(rank);
                let is_for_it =
                    (to.dst_mac, to.dst_ip, to.dst_port) == (host.mac, host.ip, shape::udp_port(rank));
                if is_for_it && self.members.contains(&rank) {
                    let now = self.now();
                    self.hosts[rank].endpoint.handle_datagram(now, payload);
                    self.serve(rank);
                }
            }
            Event::Arrival(Place::Switch(index, port), frame) => {
                self.delivered += 1;
                self.switches[index].set_clock(self.elapsed.as_micros() as u64);
                for (port, frame) in self.switches[index].step(port, &frame) {
                    self.transmit_from_switch(index, port, frame);
                }
            }
            Event::Timer(rank) => {
                let now = self.now();
                if self.members.contains(&rank) && self.hosts[rank].timer.is_some_and(|at| at <= now) {
                    self.hosts[rank].timer = None;
                    self.hosts[rank].endpoint.handle_timeout(now);
                    self.serve(rank);
                }
            }
        }
    }

    /// Takes what an endpoint wants done: packets, completions, its timer.
    fn serve(&mut self, rank: usize) {
        let now = self.now();
        let leaf = self.plan.leaf(rank);
        let from = self.plan.host(rank);
        let to = (service_mac(self.plan.device_id(leaf)), service_address(self.plan.device_id(leaf)));
        let mut batch = TransmitBatch::new(8);
        loop {
            let more = self.hosts[rank].endpoint.poll_transmit(now, &mut batch);
            for packet in batch.packets() {
                let addresses = UdpFrame {
                    src_port: shape::udp_port(rank),
                    ..UdpFrame::to_switch((from.mac, from.ip), to)
                };
                let frame = addresses.emit(batch.contents(packet)).expect("a packet fits a datagram");
                let place = Place::Switch(leaf, from.port);
                self.transmit(rank, Direction::Up, place, frame);
            }
            batch.clear();
            if !more {
                break;
            }
        }
        let host = &mut self.hosts[rank];
        while let Some(Completion { id, buffer, result, parts }) = host.endpoint.poll_completion() {
            host.parts.insert(id.0, parts);
            host.done.push((id.0, result.map(|()| buffer)));
        }
        let timer = host.endpoint.poll_timeout();
        if let Some(at) = timer.filter(|at| host.timer.is_none_or(|set| *at < set)) {
            host.timer = Some(at);
            self.push(at.saturating_duration_since(self.start), Event::Timer(rank));
        } else if timer.is_none() {
            host.timer = None;
        }
    }

    fn transmit_from_switch(&mut self, index: usize, port: u16, frame: Vec<u8>) {
        // A copy to a port without a cable would be lost in a real fabric too.
        let Some((link, direction, place)) = self.plan.cable(index, port) else { return };
        let place = match place {
            shape::End::Host(rank) => Place::Host(rank),
            shape::End::Switch(index, port) => Place::Switch(index, port),
        };
        self.transmit(link, direction, place, frame);
    }

    fn transmit(&mut self, link: usize, direction: Direction, to: Place, frame: Vec<u8>) {
        for delay in self.faults.delays(self.elapsed, link, direction) {
            self.push(self.elapsed + delay, Event::Arrival(to, frame.clone()));
        }
    }

    fn push(&mut self, at: Duration, event: Event) {
        self.queued += 1;
        self.queue.push(Reverse((at, self.queued, event)));
    }
}

impl Host {
    fn outcomes(&mut self) -> Vec<Result<Tensor, OperationError>> {
        self.done.sort_by_key(|(id, _)| *id);
        self.done.drain(..).map(|(_, result)| result).collect()
    }
}
