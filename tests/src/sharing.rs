//! Several jobs at once over the same switches, in virtual time: two leaves and a spine, a rank of each job on each leaf, and links of one
//! rate with queues that lose what finds them full. The leaves' up-links are shared by all jobs, and they carry most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use inca_host_agent::protocol::{
    Collective, Endpoint, EndpointConfig, OperationSpec, ReduceOp, Tensor, TransmitBatch, TreeConfig, Tuning,
};
use inca_wire::address::{MacAddr, service_address, service_mac};
use inca_wire::frame::UdpFrame;
use inca_wire::packet::Format;

use crate::install::{switch_entries, tree_entries};
use crate::rig::{Child, ChildKind, Neighbour, Parent, Tree, guard_bits};
use crate::target::{Embedded, Target};

const LATENCY: Duration = Duration::from_micros(20);
const SLOTS: u32 = 16;
const WORDS: u8 = 1;
const FORMAT: Format = Format::I32;
/// Device ids: the spine and the leaves, which are its children in this order.
const SPINE: u16 = 1;
const LEAVES: [u16; 2] = [2, 3];

/// A host by job and leaf, or a switch's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Host(u16, usize),
    Port(u16, u16),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(Place, Vec<u8>),
    Timer(u16, usize),
}

struct Host {
    endpoint: Endpoint<Tensor>,
    timer: Option<Instant>,
}

/// The jobs at work.
pub struct Sharing {
    jobs: u16,
    bits_per_second: u64,
    /// Packets that may wait for a link; BMv2 has 64.
    queue: usize,
    switches: BTreeMap<u16, Embedded>,
    hosts: BTreeMap<(u16, usize), Host>,
    elements: usize,
    start: Instant,
    elapsed: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    pushed: u64,
    /// When the packets that wait for each link, by its far end, will have left.
    links: BTreeMap<Place, VecDeque<Duration>>,
    /// Operations that ended at the rank of the first leaf, by job.
    pub done: Vec<u64>,
    /// Packets that found a queue full.
    pub lost: u64,
}

fn endpoint_of(job: u16, leaf: usize) -> (MacAddr, Ipv4Addr, u16) {
    (MacAddr([2, 0, 0, 2, leaf as u8, job as u8]), Ipv4Addr::new(10, 2, leaf as u8, job as u8), 40_000 + job)
}

impl Sharing {
    /// So many jobs, each summing tensors of so many elements, over links of this rate, where so many packets may wait for each.
    ///
    /// # Panics
    /// If a switch or an endpoint refuses what it is given.
    pub fn new(jobs: u16, elements: usize, bits_per_second: u64, queue: usize) -> Self {
        let mut switches = BTreeMap::new();
        for device in [SPINE, LEAVES[0], LEAVES[1]] {
            let mut switch = Embedded::with_device_id(device);
            switch.install(&switch_entries(device));
            let trees: Vec<Tree> = (1..=jobs).map(|job| tree(job, device, jobs)).collect();
            switch.install(&tree_entries(device, &trees));
            switches.insert(device, switch);
        }
        let start = Instant::now();
        let ranks = (1..=jobs).flat_map(|job| [(job, 0), (job, 1)]);
        let hosts = ranks.map(|(job, leaf)| {
            let tree = TreeConfig {
                tree_id: job,
                member: leaf as u16,
                slots: SLOTS,
                leaf_children: vec![vec![leaf as u32]],
                leaf: String::new(),
            };
            let config = EndpointConfig {
                job: format!("job{job}"),
                world_size: 2,
                generation: 1,
                format: FORMAT,
                chunk_words: WORDS,
                trees: vec![tree],
                tuning: Tuning { seed: u64::from(job) * 2 + leaf as u64, ..Tuning::default() },
            };
            let endpoint = Endpoint::new(config, start).unwrap_or_else(|error| panic!("job {job}: {error}"));
            ((job, leaf), Host { endpoint, timer: None })
        });
        Self {
            jobs,
            bits_per_second,
            queue,
            switches,
            hosts: hosts.collect(),
            elements,
            start,
            elapsed: Duration::ZERO,
            events: BinaryHeap::new(),
            pushed: 0,
            links: BTreeMap::new(),
            done: vec![0; usize::from(jobs)],
            lost: 0,
        }
    }

    /// All jobs sum tensor after tensor for so long; every sum is compared.
    ///
    /// # Panics
    /// If a sum is wrong.
    pub fn run(&mut self, time: Duration) {
        if self.elapsed.is_zero() {
            for (job, leaf) in self.hosts.keys().copied().collect::<Vec<_>>() {
                self.call(job, leaf);
                self.serve(job, leaf);
            }
        }
        let end = self.elapsed + time;
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > end {
                self.events.push(Reverse((at, 0, event)));
                break;
            }
            self.elapsed = self.elapsed.max(at);
            self.handle(event);
        }
        self.elapsed = end;
    }

    fn value(&self, job: u16, leaf: usize, index: usize) -> i32 {
        i32::from(job) * 1000 + leaf as i32 * 17 + index as i32
    }

    fn call(&mut self, job: u16, leaf: usize) {
        let values = (0..self.elements).map(|index| self.value(job, leaf, index)).collect();
        let spec = OperationSpec { collective: Collective::Allreduce, op: ReduceOp::Sum, deadline: None };
        if let Some(host) = self.hosts.get_mut(&(job, leaf))
            && let Err(rejected) = host.endpoint.start(spec, Tensor::I32(values))
        {
            panic!("job {job}: {}", rejected.error);
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.start + self.elapsed;
        match event {
            Event::Arrival(Place::Port(device, port), frame) => {
                let Some(switch) = self.switches.get_mut(&device) else { return };
                switch.set_clock(self.elapsed.as_micros() as u64);
                for (port, frame) in switch.step(port, &frame) {
                    let to = self.far_end(device, port);
                    self.transmit(to, frame);
                }
            }
            Event::Arrival(Place::Host(job, leaf), frame) => {
                let Ok((_, payload)) = UdpFrame::parse(&frame) else { return };
                if let Some(host) = self.hosts.get_mut(&(job, leaf)) {
                    host.endpoint.handle_datagram(now, payload);
                }
                self.serve(job, leaf);
            }
            Event::Timer(job, leaf) => {
                let Some(host) = self.hosts.get_mut(&(job, leaf)) else { return };
                if host.timer.is_some_and(|at| at <= now) {
                    host.timer = None;
                    host.endpoint.handle_timeout(now);
                    self.serve(job, leaf);
                }
            }
        }
    }

    /// What is at a switch's port: jobs' hosts from 1 at a leaf, then the spine; the leaves at the spine.
    fn far_end(&self, device: u16, port: u16) -> Place {
        match LEAVES.iter().position(|leaf| *leaf == device) {
            Some(leaf) if port > self.jobs => Place::Port(SPINE, leaf as u16 + 1),
            Some(leaf) => Place::Host(port, leaf),
            None => Place::Port(LEAVES[usize::from(port - 1)], self.jobs + 1),
        }
    }

    /// Takes what an endpoint wants done, and has it sum the next tensor.
    fn serve(&mut self, job: u16, leaf: usize) {
        let now = self.start + self.elapsed;
        let (mac, ip, udp_port) = endpoint_of(job, leaf);
        let to = (service_mac(LEAVES[leaf]), service_address(LEAVES[leaf]));
        loop {
            let mut batch = TransmitBatch::new(8);
            let Some(host) = self.hosts.get_mut(&(job, leaf)) else { return };
            let more = host.endpoint.poll_transmit(now, &mut batch);
            for packet in batch.packets() {
                let addresses = UdpFrame { src_port: udp_port, ..UdpFrame::to_switch((mac, ip), to) };
                let frame = addresses.emit(batch.contents(packet)).expect("a packet fits a datagram");
                self.transmit(Place::Port(LEAVES[leaf], job), frame);
            }
            let Some(host) = self.hosts.get_mut(&(job, leaf)) else { return };
            let mut ended = false;
            while let Some(completion) = host.endpoint.poll_completion() {
                ended = true;
                if let Err(error) = completion.result {
                    panic!("job {job}: {error}");
                }
                let Tensor::I32(sums) = completion.buffer else { panic!("another type") };
                for (index, sum) in sums.into_iter().enumerate() {
                    let right = i32::from(job) * 2000 + 17 + 2 * index as i32;
                    assert_eq!(sum, right, "job {job}, element {index}");
                }
            }
            if ended {
                self.done[usize::from(job) - 1] += u64::from(leaf == 0);
                self.call(job, leaf);
            } else if !more {
                break;
            }
        }
        let Some(host) = self.hosts.get_mut(&(job, leaf)) else { return };
        let timer = host.endpoint.poll_timeout();
        if let Some(at) = timer.filter(|at| host.timer.is_none_or(|set| *at < set)) {
            host.timer = Some(at);
            self.push(at.saturating_duration_since(self.start), Event::Timer(job, leaf));
        } else if timer.is_none() {
            host.timer = None;
        }
    }

    /// Puts a frame into the queue of the link that leads there.
    fn transmit(&mut self, to: Place, frame: Vec<u8>) {
        let queue = self.links.entry(to).or_default();
        while queue.front().is_some_and(|left| *left <= self.elapsed) {
            queue.pop_front();
        }
        if queue.len() >= self.queue {
            self.lost += 1;
            return;
        }
        let takes = Duration::from_nanos(frame.len() as u64 * 8 * 1_000_000_000 / self.bits_per_second);
        let left = queue.back().copied().unwrap_or(self.elapsed).max(self.elapsed) + takes;
        queue.push_back(left);
        self.push(left + LATENCY, Event::Arrival(to, frame));
    }

    fn push(&mut self, at: Duration, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((at, self.pushed, event)));
    }
}

/// A job's tree at a switch.
fn tree(job: u16, device: u16, jobs: u16) -> Tree {
    let switch = |device, port| Neighbour { port, mac: service_mac(device), ip: service_address(device) };
    let (children, parent) = match LEAVES.iter().position(|leaf| *leaf == device) {
        Some(leaf) => {
            let (mac, ip, udp_port) = endpoint_of(job, leaf);
            let at = Neighbour { port: job, mac, ip };
            let child = Child { at, member: leaf as u16, kind: ChildKind::Host { udp_port } };
            (vec![child], Some(Parent { at: switch(SPINE, jobs + 1), member: leaf as u16 }))
        }
        None => {
            let child = |leaf: usize| Child {
                at: switch(LEAVES[leaf], leaf as u16 + 1),
                member: leaf as u16,
                kind: ChildKind::Switch { ranks: 1 },
            };
            (vec![child(0), child(1)], None)
        }
    };
    Tree {
        tree_id: job,
        generation: 1,
        format: FORMAT,
        words: WORDS,
        slots: SLOTS,
        guard: guard_bits(FORMAT, 2),
        world: 2,
        children,
        parent,
        resend_interval_us: 3000,
    }
}
