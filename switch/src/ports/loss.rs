//! Seeded loss, per port and direction: the same seed and the same frames give the same losses.

use std::collections::BTreeMap;

use thiserror::Error;

/// A direction of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Into the switch.
    Rx,
    /// Out of the switch.
    Tx,
}

/// Loss of one direction of one port: `1:rx:0.1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossRule {
    port: u16,
    direction: Direction,
    probability: f64,
}

/// What is wrong with a loss setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LossError {
    /// Not of the form `PORT:rx|tx:PROBABILITY`.
    #[error("loss {given:?}: expected PORT:rx:PROBABILITY or PORT:tx:PROBABILITY, as in 1:rx:0.1")]
    Form {
        /// What was given.
        given: String,
    },
    /// Not a probability.
    #[error("loss probability {given:?}: valid are 0 to 1")]
    Probability {
        /// What was given.
        given: String,
    },
}

fn probability(text: &str) -> Result<f64, LossError> {
    match text.parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err(LossError::Probability { given: text.to_owned() }),
    }
}

impl std::str::FromStr for LossRule {
    type Err = LossError;

    fn from_str(text: &str) -> Result<Self, LossError> {
        let form = || LossError::Form { given: text.to_owned() };
        let mut parts = text.split(':');
        let (Some(port), Some(direction), Some(p), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(form());
        };
        let direction = match direction {
            "rx" => Direction::Rx,
            "tx" => Direction::Tx,
            _ => return Err(form()),
        };
        Ok(Self { port: port.parse().map_err(|_| form())?, direction, probability: probability(p)? })
    }
}

/// Loss of all ports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loss {
    everywhere: f64,
    rules: BTreeMap<(u16, Direction), f64>,
    seed: u64,
}

impl Loss {
    /// Loss with one probability in both directions of every port, but for the rules (the last of a kind holds).
    ///
    /// # Errors
    /// A probability that is not from 0 to 1.
    pub fn new(everywhere: f64, rules: &[LossRule], seed: u64) -> Result<Self, LossError> {
        let everywhere = probability(&everywhere.to_string())?;
        let rules = rules.iter().map(|r| ((r.port, r.direction), r.probability)).collect();
        Ok(Self { everywhere, rules, seed })
    }

    /// Ports that have rules of their own.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.rules.keys().map(|(port, _)| *port)
    }

    /// Dice of a port's two directions: in, out. Each thread has its own.
    pub(crate) fn dice(&self, port: u16, thread: usize) -> (Dice, Dice) {
        let dice = |direction, salt: u64| {
            let p = self.rules.get(&(port, direction)).copied().unwrap_or(self.everywhere);
            Dice::new(p, self.seed ^ (u64::from(port) << 32) ^ ((thread as u64) << 8) ^ salt)
        };
        (dice(Direction::Rx, 1), dice(Direction::Tx, 2))
    }
}

/// Decides frame by frame.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    /// Lost if a random number of 64 bits is below.
    threshold: u64,
    always: bool,
    state: u64,
}

impl Dice {
    fn new(probability: f64, seed: u64) -> Self {
        let threshold = (probability * 2f64.powi(64)) as u64;
        Self { threshold, always: probability >= 1.0, state: seed }
    }

    pub(crate) fn lose(&mut self) -> bool {
        if self.threshold == 0 {
            return false;
        }
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.always || (z ^ (z >> 31)) < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(p: f64, seed: u64) -> Vec<usize> {
        let (mut dice, _) = Loss::new(p, &[], seed).unwrap().dice(1, 0);
        (0..100_000).filter(|_| dice.lose()).collect()
    }

    #[test]
    fn rates_hold_and_seeds_repeat() {
        assert!(losses(0.0, 1).is_empty());
        assert_eq!(losses(1.0, 1).len(), 100_000);
        let lost = losses(0.05, 7);
        assert!((4_700..5_300).contains(&lost.len()), "{}", lost.len());
        assert_eq!(lost, losses(0.05, 7));
        assert_ne!(lost, losses(0.05, 8));
    }

    #[test]
    fn directions_and_ports_are_independent() {
        let loss = Loss::new(0.5, &["2:tx:0".parse().unwrap()], 3).unwrap();
        let draw = |mut d: Dice| (0..64).map(|_| d.lose()).collect::<Vec<_>>();
        let (rx1, tx1) = loss.dice(1, 0);
        let (rx2, tx2) = loss.dice(2, 0);
        let (rx1, tx1, rx2) = (draw(rx1), draw(tx1), draw(rx2));
        assert!(rx1 != tx1 && rx1 != rx2);
        assert!(rx1 != draw(loss.dice(1, 1).0));
        assert!(!draw(tx2).contains(&true));
    }

    #[test]
    fn malformed_settings_are_refused() {
        for text in ["", "1", "1:rx", "1:up:0.1", "x:rx:0.1", "1:rx:0.1:2"] {
            assert!(matches!(text.parse::<LossRule>(), Err(LossError::Form { .. })), "{text}");
        }
        for text in ["1:rx:1.5", "1:rx:-0.1", "1:rx:nan", "1:rx:"] {
            assert!(matches!(text.parse::<LossRule>(), Err(LossError::Probability { .. })), "{text}");
        }
        assert!(Loss::new(f64::NAN, &[], 0).is_err());
    }
}
