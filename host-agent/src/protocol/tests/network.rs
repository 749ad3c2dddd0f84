//! A virtual network: endpoints, reference switches, and links with latency, loss, duplication and reordering.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use inca_wire::model::slot::{Child, ChildKind, Parent, Sent, SwitchModel, TreeConfig as SwitchTree};
use inca_wire::packet::{Format, Header, Packet};

use crate::protocol::{
    Completion, Endpoint, EndpointConfig, NextGeneration, OperationId, OperationSpec, RtoBounds, Stats,
    Tensor, TransmitBatch, TreeConfig, Tuning, WindowLimits,
};

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.below(1 << 32) as f64 / (1u64 << 32) as f64 <= probability && probability > 0.0
    }
}

/// How links behave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    pub(super) latency_us: u64,
    /// Up to so much is added to each packet's latency: packets overtake each other.
    pub(super) jitter_us: u64,
    pub(super) loss: f64,
    pub(super) duplication: f64,
}

/// One lossless hop of 20 microseconds.
pub(super) const PERFECT: Links = Links { latency_us: 20, jitter_us: 0, loss: 0.0, duplication: 0.0 };

/// What to build.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Per switch its parent; the root is first and has none.
    pub(super) parents: Vec<Option<usize>>,
    /// Per rank its switch.
    pub(super) hosts: Vec<usize>,
    pub(super) format: Format,
    pub(super) chunk_words: u8,
    pub(super) slots: u32,
    pub(super) stripes: usize,
    pub(super) window: WindowLimits,
    pub(super) links: Links,
    pub(super) seed: u64,
}

impl Plan {
    /// One switch, one stripe.
    pub(super) fn star(world: usize, format: Format) -> Self {
        Self {
            parents: vec![None],
            hosts: vec![0; world],
            format,
            chunk_words: 1,
            slots: 8,
            stripes: 1,
            window: WindowLimits { start: 4, min: 2, max: 256 },
            links: PERFECT,
            seed: 1,
        }
    }
}

const GENERATION: u32 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Host(usize),
    Switch(usize, u16),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(To, Vec<u8>),
    Timer(usize),
}

/// Endpoints and switches under one clock, in microseconds.
pub(super) struct Network {
    plan: Plan,
    base: Instant,
    now_us: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
    sent: u64,
    /// The packet with this number is lost, whatever the links say.
    pub(super) lose: Option<u64>,
    /// Everything is lost from and before these times.
    pub(super) dark_us: (u64, u64),
    switches: Vec<SwitchModel>,
    /// Per switch, what is installed there.
    configs: Vec<Vec<SwitchTree>>,
    generation: u32,
    /// Ranks that died.
    pub(super) dead: Vec<usize>,
    /// Per switch, what is at each port.
    ports: Vec<Vec<To>>,
    /// Per host, its switch and the port there.
    attachments: Vec<(usize, u16)>,
    pub(super) endpoints: Vec<Endpoint<Tensor>>,
    /// Per host the earliest timer that is queued.
    timers: Vec<Option<u64>>,
    pub(super) completed: Vec<Vec<Completion<Tensor>>>,
    batch: TransmitBatch,
    rng: Rng,
}

impl Network {
    pub(super) fn new(plan: Plan) -> Self {
        let base = Instant::now();
        let world = plan.hosts.len();
        let (mut ports, mut children) =
            (vec![Vec::new(); plan.parents.len()], vec![Vec::new(); plan.parents.len()]);
        let mut attachments = Vec::new();
        for (rank, &switch) in plan.hosts.iter().enumerate() {
            let port = ports[switch].len() as u16;
            children[switch].push(Child { port, member: rank as u16, kind: ChildKind::Host });
            ports[switch].push(To::Host(rank));
            attachments.push((switch, port));
        }
        let mut up = vec![None; plan.parents.len()];
        for (switch, parent) in plan.parents.iter().enumerate() {
            let Some(parent) = *parent else { continue };
            let (below, above) = (ports[switch].len() as u16, ports[parent].len() as u16);
            let member = 500 + switch as u16;
            children[parent].push(Child { port: above, member, kind: ChildKind::Switch });
            up[switch] = Some(Parent { port: below, member });
            ports[parent].push(To::Switch(switch, below));
            ports[switch].push(To::Switch(parent, above));
        }
        let configs: Vec<Vec<SwitchTree>> = children
            .into_iter()
            .zip(up)
            .map(|(children, parent)| {
                let tree = |stripe| SwitchTree {
                    tree_id: 100 + stripe as u16,
                    generation: GENERATION,
                    format: plan.format,
                    guard: plan.format.guard_bits(world).expect("world"),
                    world: world as u16,
                    slots: plan.slots,
                    words: plan.chunk_words,
                    children: children.clone(),
                    parent,
                    resend_interval_us: 300,
                };
                (0..plan.stripes).map(tree).collect()
            })
            .collect();
        let switches = configs.iter().map(|trees| SwitchModel::new(trees.iter().cloned())).collect();
        let endpoints = (0..world)
            .map(|rank| {
                let tree = |stripe| TreeConfig {
                    tree_id: 100 + stripe as u16,
                    member: rank as u16,
                    slots: plan.slots,
                    leaf_children: ranks_below(&plan, plan.hosts[rank]),
                    leaf: String::new(),
                };
                let millis = Duration::from_millis;
                let config = EndpointConfig {
                    job: "test".to_owned(),
                    world_size: world as u32,
                    generation: GENERATION,
                    format: plan.format,
                    chunk_words: plan.chunk_words,
                    trees: (0..plan.stripes).map(tree).collect(),
                    tuning: Tuning {
                        rto: RtoBounds {
                            initial: millis(5),
                            min: millis(1),
                            min_overtaken: Duration::from_micros(500),
                            max: millis(100),
                        },
                        window: plan.window,
                        seed: plan.seed ^ rank as u64,
                    },
                };
                Endpoint::new(config, base).expect("settings")
            })
            .collect();
        Self {
            base,
            now_us: 0,
            events: BinaryHeap::new(),
            pushed: 0,
            sent: 0,
            lose: None,
            dark_us: (u64::MAX, 0),
            switches,
            configs,
            generation: GENERATION,
            dead: Vec::new(),
            ports,
            attachments,
            endpoints,
            timers: vec![None; world],
            completed: (0..world).map(|_| Vec::new()).collect(),
            batch: TransmitBatch::new(5),
            rng: Rng::new(plan.seed),
            plan,
        }
    }

    pub(super) fn format(&self) -> Format {
        self.plan.format
    }

    pub(super) fn chunk_words(&self) -> u8 {
        self.plan.chunk_words
    }

    pub(super) fn now(&self) -> Instant {
        self.base + Duration::from_micros(self.now_us)
    }

    /// Packets put on links so far.
    pub(super) fn packets(&self) -> u64 {
        self.sent
    }

    pub(super) fn stats(&self) -> Vec<Stats> {
        self.endpoints.iter().map(Endpoint::stats).collect()
    }

    pub(super) fn start(&mut self, rank: usize, spec: OperationSpec, tensor: Tensor) -> OperationId {
        let id = self.endpoints[rank].start(spec, tensor).expect("started");
        self.serve(rank);
        id
    }

    /// Lets an endpoint act after something was done to it.
    pub(super) fn serve(&mut self, rank: usize) {
        if self.dead.contains(&rank) {
            return;
        }
        let now = self.now();
        loop {
            self.batch.clear();
            let more = self.endpoints[rank].poll_transmit(now, &mut self.batch);
            let (switch, port) = self.attachments[rank];
            let packets: Vec<_> =
                self.batch.packets().iter().map(|packet| self.batch.contents(packet).to_vec()).collect();
            for bytes in packets {
                self.send(To::Switch(switch, port), bytes);
            }
            if !more {
                break;
            }
        }
        while let Some(completion) = self.endpoints[rank].poll_completion() {
            self.completed[rank].push(completion);
        }
        if let Some(at) = self.endpoints[rank].poll_timeout() {
            // Rounded up: a timer never fires early.
            let at =
                (at.saturating_duration_since(self.base).as_nanos().div_ceil(1000) as u64).max(self.now_us);
            if self.timers[rank].is_none_or(|queued| at < queued) {
                self.timers[rank] = Some(at);
                self.push(at, Event::Timer(rank));
            }
        }
    }

    /// A rank dies: it hears and sends nothing any more.
    pub(super) fn kill(&mut self, rank: usize) {
        self.dead.push(rank);
    }

    /// Changes the generation as the controller does: all that live stop and report, chunks are handed over, the switches get the
    /// next generation, the ranks go on. Returns the number of chunks that were handed over.
    pub(super) fn change(&mut self) -> usize {
        let live: Vec<usize> = (0..self.endpoints.len()).filter(|rank| !self.dead.contains(rank)).collect();
        let reports: Vec<Vec<Vec<u64>>> =
            live.iter().map(|rank| self.endpoints[*rank].stop("test").expect("open")).collect();
        let mut finished = reports[0].clone();
        for report in &reports {
            for (tree, theirs) in finished.iter_mut().zip(report) {
                tree.iter_mut().zip(theirs).for_each(|(most, theirs)| *most = (*most).max(*theirs));
            }
        }
        self.generation += 1;
        let world = live.len();
        for (switch, trees) in self.configs.iter_mut().enumerate() {
            for tree in trees {
                (tree.generation, tree.world) = (self.generation, world as u16);
                tree.guard = tree.format.guard_bits(world).expect("world");
                let is_live = |child: &Child| {
                    child.kind != ChildKind::Host || live.contains(&usize::from(child.member))
                };
                tree.children.retain(is_live);
                self.switches[switch].install(tree.clone());
            }
        }
        let members: Vec<u32> = live.iter().map(|rank| *rank as u32).collect();
        let mut copied = 0;
        for (rank, report) in live.iter().zip(&reports) {
            let mut copies = Vec::new();
            for (tree, slots) in finished.iter().enumerate() {
                for slot in 0..slots.len() {
                    let behind = slots[slot] - report[tree][slot];
                    assert!(behind <= 1, "rank {rank} is {behind} behind");
                    if behind == 1 {
                        let holder = reports.iter().position(|report| report[tree][slot] == slots[slot]);
                        let holder = live[holder.expect("somebody has it")];
                        copies.push(self.endpoints[holder].kept(tree, slot as u32).expect("kept"));
                    }
                }
            }
            copied += copies.len();
            let trees = self.endpoints[*rank].config().trees.clone();
            let (generation, members) = (self.generation, members.clone());
            let next = NextGeneration { generation, members, trees, finished: finished.clone() };
            let now = self.now();
            self.endpoints[*rank].take_over(&copies).expect("fits");
            self.endpoints[*rank].reopen(now, next).expect("goes on");
        }
        live.into_iter().for_each(|rank| self.serve(rank));
        copied
    }

    /// Hands bytes to an endpoint as if they had arrived.
    pub(super) fn inject(&mut self, rank: usize, bytes: &[u8]) {
        if self.dead.contains(&rank) {
            return;
        }
        let now = self.now();
        self.endpoints[rank].handle_datagram(now, bytes);
        self.serve(rank);
    }

    /// Runs until `done`, until nothing happens any more, or for `limit` of virtual time.
    pub(super) fn run(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) {
        let end = self.now_us + limit.as_micros() as u64;
        while !done(self) {
            match self.events.peek() {
                Some(Reverse((at, _, _))) if *at <= end => {}
                _ => {
                    self.now_us = end;
                    return;
                }
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else { return };
            self.now_us = at;
            match event {
                Event::Timer(rank) => {
                    if self.timers[rank].is_some_and(|queued| queued <= at) {
                        self.timers[rank] = None;
                    }
                    if self.dead.contains(&rank) {
                        continue;
                    }
                    let now = self.now();
                    self.endpoints[rank].handle_timeout(now);
                    self.serve(rank);
                }
                Event::Arrival(To::Host(rank), bytes) => self.inject(rank, &bytes),
                Event::Arrival(To::Switch(switch, port), bytes) => self.switch(switch, port, &bytes),
            }
        }
    }

    fn switch(&mut self, switch: usize, port: u16, bytes: &[u8]) {
        let (header, words) =
            Header::parse_bytes(bytes).expect("endpoints and switches send well-formed packets");
        let outcome = self.switches[switch].handle(self.now_us, port, &header, words);
        for Sent { port, header, words } in outcome.sent {
            let mut bytes = header.to_bytes().to_vec();
            bytes.extend(words);
            assert!(Packet::new_checked(&bytes[..]).is_ok());
            self.send(self.ports[switch][usize::from(port)], bytes);
        }
    }

    fn send(&mut self, to: To, bytes: Vec<u8>) {
        let number = self.sent;
        self.sent += 1;
        let links = self.plan.links;
        let dark = self.now_us >= self.dark_us.0 && self.now_us < self.dark_us.1;
        if self.lose == Some(number) || dark || self.rng.happens(links.loss) {
            return;
        }
        let copies = 1 + u64::from(self.rng.happens(links.duplication));
        for _ in 0..copies {
            let at = self.now_us + links.latency_us + self.rng.below(links.jitter_us + 1);
            self.push(at, Event::Arrival(to, bytes.clone()));
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        // The second number keeps what happens at one instant in order.
        self.pushed += 1;
        self.events.push(Reverse((at, self.pushed, event)));
    }
}

/// Per child of a switch the ranks below it; hosts are numbered before switches.
fn ranks_below(plan: &Plan, switch: usize) -> Vec<Vec<u32>> {
    let ranks = (0u32..).zip(&plan.hosts).filter(|(_, at)| **at == switch).map(|(rank, _)| vec![rank]);
    let switches =
        (0..).zip(&plan.parents).filter(|(_, parent)| **parent == Some(switch)).map(|(child, _)| child);
    ranks.chain(switches.map(|child| ranks_below(plan, child).concat())).collect()
}
