//! Proofs by enumeration and by chance that loss, duplication, delay and reordering cost time and nothing else: what `make test-loss`
//! runs at length and the suite `tree_loss` in short.

mod change;
mod exhaustive;
mod random;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fabric::{Call, Direction, Fabric, Faults, Job, Node, Outcomes, PacketId, Stuck};
use crate::inputs;
use crate::target::{Embedded, Target};
use inca_host_agent::protocol::Tensor;
use inca_wire::packet::Format;

pub use change::{Group, changes, deaths};
pub use exhaustive::{double_losses, late_packets, orders, single_losses};
pub use random::Schedules;

/// Most packets that a single loss may add to one direction of one link: a contribution or a sum, both planes of it, once more.
pub const MOST_EXTRA_PACKETS: u64 = 2;
/// Most messages kept of what went wrong.
const MOST_FAILURES: usize = 20;

/// What was run, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Random schedules.
    pub schedules: u64,
    /// Runs in which one packet was lost, each packet of an exchange once.
    pub single_losses: u64,
    /// Runs in which two packets were lost, each pair once.
    pub double_losses: u64,
    /// Orders of arrival.
    pub orders: u64,
    /// Runs in which one packet came once more, or late: past the reuse of its slot too.
    pub late_packets: u64,
    /// Changes of the generation in the middle of an exchange.
    pub changes: u64,
    /// Chunks handed over in them.
    pub copied: u64,
    /// Packets delivered to switches and hosts.
    pub packets: u64,
    /// Packets lost.
    pub packets_dropped: u64,
    /// Runs in which a rank got an error or another bit.
    pub wrong: u64,
    /// Runs that did not end within their bounds.
    pub hangs: u64,
    /// Most packets that a single loss added to any direction of any link.
    pub worst_extra_packets: u64,
    /// What went wrong, at most twenty of them.
    pub failures: Vec<String>,
}

impl Tally {
    /// Whether nothing went wrong, nor cost more packets than it may.
    pub fn is_right(&self) -> bool {
        self.wrong == 0 && self.hangs == 0 && self.worst_extra_packets <= MOST_EXTRA_PACKETS
    }

    /// Adds what another has run.
    pub fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.single_losses += other.single_losses;
        self.double_losses += other.double_losses;
        self.orders += other.orders;
        self.late_packets += other.late_packets;
        self.changes += other.changes;
        self.copied += other.copied;
        self.packets += other.packets;
        self.packets_dropped += other.packets_dropped;
        self.wrong += other.wrong;
        self.hangs += other.hangs;
        self.worst_extra_packets = self.worst_extra_packets.max(other.worst_extra_packets);
        self.failures.extend(other.failures);
        self.failures.truncate(MOST_FAILURES);
    }

    /// The packets of a run.
    fn count<T: Target>(&mut self, fabric: &Fabric<T>) {
        self.packets += fabric.sent().sent().values().sum::<u64>();
        self.packets_dropped += fabric.sent().lost();
    }

    fn judge(&mut self, name: impl FnOnce() -> String, outcomes: Result<Outcomes, Stuck>, right: &[Tensor]) {
        self.note(name, outcomes.map(|outcomes| inputs::compare(&outcomes, right)));
    }

    /// Notes how a run ended.
    fn note(&mut self, name: impl FnOnce() -> String, verdict: Result<Result<(), String>, Stuck>) {
        let failure = match verdict {
            Ok(Ok(())) => return,
            Ok(Err(difference)) => {
                self.wrong += 1;
                difference
            }
            Err(stuck) => {
                self.hangs += 1;
                stuck.to_string()
            }
        };
        if self.failures.len() < MOST_FAILURES {
            self.failures.push(format!("{}: {failure}", name()));
        }
    }
}

/// A fabric, and one call that its ranks make again and again.
#[derive(Debug)]
pub struct Exchange<T = Embedded> {
    shape: Node,
    format: Format,
    fabric: Fabric<T>,
    calls: [Call; 1],
    right: [Tensor; 1],
    /// Packets of each direction of each link when nothing is lost.
    usual: BTreeMap<(usize, Direction), u64>,
}

impl Exchange {
    /// A call of so many chunks on a tree of so many slots.
    ///
    /// # Panics
    /// If a switch refuses an entry.
    pub fn new(shape: Node, format: Format, slots: u32, chunks: usize) -> Self {
        let fabric = Fabric::new(&shape, Job { slots, ..Job::new(format) });
        Self::on(fabric, shape, format, chunks)
    }
}

impl<T: Target> Exchange<T> {
    /// A call of so many chunks on this fabric, which has that shape and number format.
    pub fn on(fabric: Fabric<T>, shape: Node, format: Format, chunks: usize) -> Self {
        let calls = [call(&fabric, format, 7, chunks)];
        let right = [inputs::expected(&calls[0], fabric.chunk_words())];
        let mut exchange = Self { shape, format, fabric, calls, right, usual: BTreeMap::new() };
        exchange.run(&mut Tally::default(), String::new, Faults::none(), 0);
        exchange.usual = exchange.fabric.sent().sent().clone();
        exchange
    }

    /// Packets of all links when nothing is lost.
    fn usual_packets(&self) -> u64 {
        self.usual.values().sum()
    }

    /// Whether the packet is sent when nothing is lost.
    fn is_usual(&self, (link, direction, number): PacketId) -> bool {
        self.usual.get(&(link, direction)).is_some_and(|count| number < *count)
    }

    /// A run with these faults; its packets can be counted afterwards.
    fn run(&mut self, tally: &mut Tally, what: impl Fn() -> String, faults: Faults, seed: u64) {
        self.fabric.renew_quietly(faults, seed);
        let outcomes = self.fabric.run(&self.calls);
        tally.count(&self.fabric);
        let name = || format!("{:?}, {}, {}", self.shape, self.format, what());
        tally.judge(name, outcomes, &self.right);
    }
}

/// A sum of seeded tensors of so many chunks, the last one short.
fn call<T: Target>(fabric: &Fabric<T>, format: Format, seed: u64, chunks: usize) -> Call {
    let elements = format.lanes_per_word() * usize::from(fabric.chunk_words()) * chunks - 3;
    Call::sum(match format {
        Format::I32 => inputs::i32s(seed, fabric.world(), elements),
        _ => inputs::f32s(seed, fabric.world(), elements, 9),
    })
}
