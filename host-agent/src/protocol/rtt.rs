//! Round-trip estimation and the retransmission timeout.

use std::time::Duration;

/// Bounds of the retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtoBounds {
    /// Before the first measurement.
    pub initial: Duration,
    /// Never less, as long as nothing that was sent later came back: all ranks may be busy, or one late.
    pub min: Duration,
    /// Never less for a chunk that was overtaken by one that was sent later: it was most likely lost.
    pub min_overtaken: Duration,
    /// Never more, back-off included: a healed path is noticed within this time.
    pub max: Duration,
}

impl Default for RtoBounds {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(50),
            min: Duration::from_millis(10),
            min_overtaken: Duration::from_millis(2),
            max: Duration::from_millis(500),
        }
    }
}

/// Smoothed round-trip time and its variation, as TCP keeps them (RFC 6298), with a persistent back-off.
///
/// A round trip here lasts from a contribution to its result, so it includes waiting for the slowest rank, and for *any* rank's repeat
/// of what was lost. Karn's rule (a result of a chunk that was sent twice tells nothing, for which transmission does it answer?) thus
/// has to hold for the repeats of others too; else timeouts feed on themselves: where most chunks lose a packet somewhere, most
/// round trips last as long as somebody's timeout, and the timeout would follow them. A sample is one-sided: nothing makes a round
/// trip look shorter than it is. So one as long as the timeout counts only if none of the latest was much shorter, which shows that
/// the path itself has become slow.
#[derive(Debug, Clone)]
pub(super) struct RttEstimator {
    bounds: RtoBounds,
    smoothed: Option<Duration>,
    variation: Duration,
    /// The latest samples, taken or not, in microseconds; where the next one goes.
    latest: [u32; Self::LATEST],
    next: usize,
    /// Doublings that outlive the chunk that caused them, until a clean measurement: otherwise a round trip that became longer
    /// than the timeout would never be measured, for every chunk would be sent twice.
    backoff: u32,
}

impl RttEstimator {
    /// 2^16 times the smallest timeout is beyond any bound.
    const MAX_BACKOFF: u32 = 16;
    /// Samples that are remembered.
    const LATEST: usize = 64;
    /// A round trip so many times as long as others is no variation of them.
    const MUCH: u32 = 4;
    /// So many others, since one may be a freak.
    const OTHERS: usize = 2;

    pub(super) fn new(bounds: RtoBounds) -> Self {
        let latest = [u32::MAX; Self::LATEST];
        Self { bounds, smoothed: None, variation: Duration::ZERO, latest, next: 0, backoff: 0 }
    }

    /// The smoothed round-trip time, once there is one.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Takes the time from sending a chunk, once, to its result.
    pub(super) fn measure(&mut self, sample: Duration) {
        self.latest[self.next] = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX);
        self.next = (self.next + 1) % Self::LATEST;
        let rto = self.base_rto();
        if sample >= rto && self.path_is_shorter_than(sample) {
            // Ambiguous. But a timeout longer than that is not needed.
            let doublings = (0..self.backoff).find(|doublings| rto.saturating_mul(1 << doublings) > sample);
            self.backoff = doublings.unwrap_or(self.backoff);
            return;
        }
        self.backoff = 0;
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            // It took others' repeats for the path. Down is the safe direction: the sample itself shows that it can be.
            Some(smoothed) if smoothed >= sample.saturating_mul(Self::MUCH) => {
                self.smoothed = Some((smoothed + sample) / 2);
                self.variation = (self.variation / 2).max(sample / 2);
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    fn path_is_shorter_than(&self, sample: Duration) -> bool {
        let short = |latest: &&u32| Duration::from_micros((**latest).into()) * Self::MUCH <= sample;
        self.latest.iter().filter(short).take(Self::OTHERS).count() == Self::OTHERS
    }

    /// Notes that a chunk needed this many transmissions.
    pub(super) fn note_ambiguous(&mut self, transmissions: u32) {
        self.backoff = self.backoff.max(transmissions.saturating_sub(1)).min(Self::MAX_BACKOFF);
    }

    /// The timeout without any back-off.
    pub(super) fn base_rto(&self) -> Duration {
        self.measured(2).clamp(self.bounds.min, self.bounds.max)
    }

    /// The timeout of a chunk that was overtaken.
    pub(super) fn overtaken_rto(&self) -> Duration {
        self.measured(4).clamp(self.bounds.min_overtaken, self.bounds.max)
    }

    /// At least a part of the round trip itself is allowed for variation: where a slow link's queue makes nearly all of it, it is as
    /// steady as a clock until some rank is late by a few packets, and each needless repeat makes that queue longer.
    fn measured(&self, part: u32) -> Duration {
        match self.smoothed {
            None => self.bounds.initial,
            Some(smoothed) => smoothed + (self.variation * 4).max(smoothed / part),
        }
    }

    /// The timeout after this many transmissions of a chunk: doubled for each but the first, up to the bound.
    pub(super) fn rto(&self, transmissions: u32) -> Duration {
        let doublings = self.backoff.max(transmissions.saturating_sub(1)).min(Self::MAX_BACKOFF);
        self.base_rto().saturating_mul(1 << doublings).min(self.bounds.max)
    }
}

/// Spreads a timeout by up to an eighth, so that ranks that lost packets together do not repeat them together. The same inputs give
/// the same jitter: runs can be replayed.
pub(super) fn jitter(rto: Duration, seed: u64, slot: u32, sequence: u32, transmissions: u32) -> Duration {
    let key = seed ^ (u64::from(slot) << 32 | u64::from(sequence)) ^ u64::from(transmissions).rotate_left(20);
    rto + rto / 8 * (splitmix(key) >> 56) as u32 / 256
}

/// One step of the SplitMix64 generator: a cheap bijection that mixes all bits.
fn splitmix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "rtt_tests.rs"]
mod tests;
