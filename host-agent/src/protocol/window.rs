//! How many slots of a tree may be in flight: additive increase, multiplicative decrease.

use std::time::{Duration, Instant};

/// Settings of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimits {
    /// Slots in flight at first. A switch port takes bursts of some tens of packets.
    pub start: usize,
    /// Never less. So few packets can't fill a switch's queue (64 packets a port, two a chunk on an up-link), so losses at that size have
    /// other reasons, which a smaller window would not mend.
    pub min: usize,
    /// Never more; the tree's slots bound it too.
    pub max: usize,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self { start: 16, min: 8, max: 256 }
    }
}

/// AIMD window over slots. Full queues in a switch drop silently, so a loss is the only sign of congestion.
#[derive(Debug, Clone)]
pub(super) struct Window {
    limits: WindowLimits,
    size: usize,
    /// Below it the window doubles each round trip.
    threshold: usize,
    /// Results since the last additive step.
    credit: usize,
    /// Chunks sent before it belong to a loss that was answered already.
    reduced_at: Option<Instant>,
    reductions: u64,
}

impl Window {
    pub(super) fn new(limits: WindowLimits, slots: usize) -> Self {
        let max = limits.max.min(slots).max(1);
        let min = limits.min.clamp(1, max);
        let limits = WindowLimits { start: limits.start.clamp(min, max), min, max };
        Self { limits, size: limits.start, threshold: max, credit: 0, reduced_at: None, reductions: 0 }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// How often the window was halved.
    pub(super) fn reductions(&self) -> u64 {
        self.reductions
    }

    /// A result arrived while the window was full: room for more is worth trying.
    pub(super) fn on_result(&mut self) {
        if self.size >= self.limits.max {
            return;
        }
        self.credit += 1;
        if self.size < self.threshold || self.credit >= self.size {
            self.size += 1;
            self.credit = 0;
        }
    }

    /// A chunk sent at `sent_at` was lost (later ones got through). Halves at most once per round trip.
    pub(super) fn on_loss(&mut self, sent_at: Instant, now: Instant, round_trip: Duration) {
        if self.reduced_at.is_some_and(|at| sent_at <= at || now < at + round_trip) {
            return;
        }
        self.size = (self.size / 2).max(self.limits.min);
        self.threshold = self.size;
        self.credit = 0;
        self.reduced_at = Some(now);
        self.reductions += 1;
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
