//! Two-rate three-colour meters, as BMv2 computes them: tokens are counted from one origin in time, the peak rate is
//! judged first.

use crate::control::MeterConfig;
use crate::program::MeterUnit;

/// A meter that was configured.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    pub(crate) config: MeterConfig,
    since_us: u64,
    peak: Bucket,
    committed: Bucket,
}

#[derive(Debug, Clone)]
struct Bucket {
    rate: u64,
    burst: u64,
    tokens: u64,
    /// Tokens given since the origin.
    given: u64,
}

impl Bucket {
    fn new(rate: i64, burst: i64) -> Self {
        let burst = burst.max(0) as u64;
        Self { rate: rate.max(0) as u64, burst, tokens: burst, given: 0 }
    }

    fn take(&mut self, elapsed_us: u64, amount: u64) -> bool {
        let due =
            (u128::from(self.rate) * u128::from(elapsed_us) / 1_000_000).min(u128::from(u64::MAX)) as u64;
        let new = due.saturating_sub(self.given);
        self.given = due;
        self.tokens = self.tokens.saturating_add(new).min(self.burst);
        if self.tokens < amount {
            return false;
        }
        self.tokens -= amount;
        true
    }
}

impl Meter {
    pub(crate) fn new(config: MeterConfig, now_us: u64) -> Self {
        Self {
            config,
            since_us: now_us,
            peak: Bucket::new(config.pir, config.pburst),
            committed: Bucket::new(config.cir, config.cburst),
        }
    }

    /// Colour of a packet: 0 green, 1 yellow, 2 red.
    pub(crate) fn execute(&mut self, unit: MeterUnit, bytes: u64, now_us: u64) -> u64 {
        let elapsed = now_us.saturating_sub(self.since_us);
        let amount = match unit {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => bytes,
        };
        if !self.peak.take(elapsed, amount) {
            2
        } else if !self.committed.take(elapsed, amount) {
            1
        } else {
            0
        }
    }
}
