//! Table `measure`: how the root finds the magnitudes of a sum, per format.

use inca_p4runtime::Value;
use inca_wire::packet::Format;

use super::Word;
use super::entry::{Call, TableEntry, exact};

/// The tree's number format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Number format.
    pub format: Format,
}

/// Constants of the measurement: words with the same value in every wide lane (w is the bits of a narrow one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// 1.
    pub ones: Word,
    /// 2^(2w-1).
    pub top: Word,
    /// 2^(2w-1) - 1.
    pub rest: Word,
    /// 2^(w-1).
    pub half: Word,
    /// 2^w - 1.
    pub low: Word,
    /// w.
    pub lane_bits: u8,
    /// 2w - 1.
    pub top_bit: u8,
}

impl Constants {
    fn params(&self) -> [(&'static str, Value); 7] {
        [
            ("ones", (&self.ones).into()),
            ("top", (&self.top).into()),
            ("rest", (&self.rest).into()),
            ("half", (&self.half).into()),
            ("low", (&self.low).into()),
            ("lane_bits", self.lane_bits.into()),
            ("top_bit", self.top_bit.into()),
        ]
    }
}

/// How the magnitudes of a sum are found.
// A few are made, once: boxes would only be in the way.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Lanes of up to 32 bits.
    Lanes {
        /// Words.
        constants: Constants,
        /// How far the last 64 bits are folded on themselves, so that one lane is left, in two steps; 0: no more.
        fold: [u8; 2],
    },
    /// Lanes of 64 bits.
    Lanes64Bit(Constants),
    /// No sums: sort keys.
    Nothing,
}

/// The table's entry.
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = match action {
        Action::Lanes { constants, fold: [fold, fold_again] } => {
            let [ones, top, rest, half, low, lane_bits, top_bit] = constants.params();
            let folds = [("fold", (*fold).into()), ("fold_again", (*fold_again).into())];
            let [fold, fold_again] = folds;
            Call::new("measure_lanes", [ones, top, rest, half, low, lane_bits, top_bit, fold, fold_again])
        }
        Action::Lanes64Bit(constants) => Call::new("measure_64_bit_lanes", constants.params()),
        Action::Nothing => Call::new("measure_nothing", []),
    };
    exact("measure", [("format", u8::from(key.format).into())], call)
}
