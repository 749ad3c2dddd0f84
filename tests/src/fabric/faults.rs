//! What links do to packets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use crate::rng::Rng;

/// Towards the root, or away from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Contributions and sums.
    Up,
    /// Results.
    Down,
}

/// Random faults of one direction of a link, per 1000 packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkFaults {
    /// Lost.
    pub loss: usize,
    /// Delivered twice.
    pub duplicate: usize,
    /// Delayed by up to `late` more, hence overtaken.
    pub reorder: usize,
    /// How late a delayed packet may be.
    pub late: Duration,
}

/// A packet: which of those that a direction of a link was given, from 0.
pub type PacketId = (usize, Direction, u64);

/// The links' behaviour, and how many packets each direction was given.
#[derive(Debug, Clone)]
pub struct Faults {
    rng: Rng,
    everywhere: LinkFaults,
    drop: BTreeSet<PacketId>,
    hold: BTreeMap<PacketId, Duration>,
    copy: BTreeMap<PacketId, Duration>,
    /// Virtual time counts from the faults' beginning.
    cut: BTreeMap<(usize, Direction), Range<Duration>>,
    begin: Duration,
    sent: BTreeMap<(usize, Direction), u64>,
    lost: u64,
}

/// One way through a link.
pub const LATENCY: Duration = Duration::from_micros(20);

impl Faults {
    /// Every packet arrives, in order.
    pub fn none() -> Self {
        Self::random(0, LinkFaults::default())
    }

    /// Random faults on every link, both ways.
    pub fn random(seed: u64, everywhere: LinkFaults) -> Self {
        Self {
            rng: Rng::new(seed),
            everywhere,
            drop: BTreeSet::new(),
            hold: BTreeMap::new(),
            copy: BTreeMap::new(),
            cut: BTreeMap::new(),
            begin: Duration::ZERO,
            sent: BTreeMap::new(),
            lost: 0,
        }
    }

    /// Loses a packet.
    pub fn drop_packet(mut self, packet: PacketId) -> Self {
        self.drop.insert(packet);
        self
    }

    /// Delivers a packet so much later than usual.
    pub fn hold_packet(mut self, packet: PacketId, late: Duration) -> Self {
        self.hold.insert(packet, late);
        self
    }

    /// Delivers a packet once more, so much later.
    pub fn copy_packet(mut self, packet: PacketId, late: Duration) -> Self {
        self.copy.insert(packet, late);
        self
    }

    /// Loses every packet of a direction of a link.
    pub fn cut(self, link: usize, direction: Direction) -> Self {
        self.cut_for(link, direction, Duration::ZERO..Duration::MAX)
    }

    /// Loses every packet of a direction of a link that is sent in this time.
    pub fn cut_for(mut self, link: usize, direction: Direction, when: Range<Duration>) -> Self {
        self.cut.insert((link, direction), when);
        self
    }

    /// Packets given to each direction of each link, lost ones included.
    pub fn sent(&self) -> &BTreeMap<(usize, Direction), u64> {
        &self.sent
    }

    /// Packets lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Time counts from here.
    pub(super) fn begin(&mut self, now: Duration) {
        self.begin = now;
    }

    /// After how long the next packet of this direction arrives: never, once, or several times.
    pub(super) fn delays(&mut self, now: Duration, link: usize, direction: Direction) -> Vec<Duration> {
        let number = self.sent.entry((link, direction)).or_default();
        let packet = (link, direction, *number);
        *number += 1;
        let is_cut = self.cut.get(&(link, direction)).is_some_and(|when| when.contains(&(now - self.begin)));
        let LinkFaults { loss, duplicate, reorder, late } = self.everywhere;
        if is_cut || self.drop.contains(&packet) || self.rng.chance(loss, 1000) {
            self.lost += 1;
            return Vec::new();
        }
        let copies = if self.rng.chance(duplicate, 1000) { 2 } else { 1 };
        let held = self.hold.get(&packet).copied().unwrap_or_default();
        let mut delay = || {
            let extra = if self.rng.chance(reorder, 1000) {
                self.rng.below(late.as_micros() as usize + 1)
            } else {
                0
            };
            LATENCY + Duration::from_micros(extra as u64) + held
        };
        let mut delays: Vec<_> = (0..copies).map(|_| delay()).collect();
        delays.extend(self.copy.get(&packet).map(|late| LATENCY + *late));
        delays
    }
}
