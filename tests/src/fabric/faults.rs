//! What links do to packets.

use std::collections::{BTreeMap, BTreeSet};
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

/// The links' behaviour, and how many packets each direction was given.
#[derive(Debug, Clone)]
pub struct Faults {
    rng: Rng,
    everywhere: LinkFaults,
    drop: BTreeSet<(usize, Direction, u64)>,
    cut: BTreeSet<(usize, Direction)>,
    sent: BTreeMap<(usize, Direction), u64>,
    lost: u64,
}

/// One way through a link.
const LATENCY: Duration = Duration::from_micros(20);

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
            cut: BTreeSet::new(),
            sent: BTreeMap::new(),
            lost: 0,
        }
    }

    /// Loses the `number`-th packet (from 0) of a direction of a link.
    pub fn drop_packet(mut self, link: usize, direction: Direction, number: u64) -> Self {
        self.drop.insert((link, direction, number));
        self
    }

    /// Loses every packet of a direction of a link.
    pub fn cut(mut self, link: usize, direction: Direction) -> Self {
        self.cut.insert((link, direction));
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

    /// When the next packet of this direction arrives: never, once, or twice.
    pub(super) fn delays(&mut self, link: usize, direction: Direction) -> Vec<Duration> {
        let number = self.sent.entry((link, direction)).or_default();
        let ordered =
            self.drop.contains(&(link, direction, *number)) || self.cut.contains(&(link, direction));
        *number += 1;
        let LinkFaults { loss, duplicate, reorder, late } = self.everywhere;
        if ordered || self.rng.chance(loss, 1000) {
            self.lost += 1;
            return Vec::new();
        }
        let copies = if self.rng.chance(duplicate, 1000) { 2 } else { 1 };
        let mut delay = || {
            let extra = if self.rng.chance(reorder, 1000) {
                self.rng.below(late.as_micros() as usize + 1)
            } else {
                0
            };
            LATENCY + Duration::from_micros(extra as u64)
        };
        (0..copies).map(|_| delay()).collect()
    }
}
