//! Table `measure`: how the root finds the magnitudes of a sum, per format.

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
pub struct Action {
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
    /// How far the last 64 bits are folded on themselves: 2w, or 0 if a wide lane has 64 bits.
    pub fold: u8,
}

/// The table's entry.
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = Call::new(
        "measure_lanes",
        [
            ("ones", (&action.ones).into()),
            ("top", (&action.top).into()),
            ("rest", (&action.rest).into()),
            ("half", (&action.half).into()),
            ("low", (&action.low).into()),
            ("lane_bits", action.lane_bits.into()),
            ("top_bit", action.top_bit.into()),
            ("fold", action.fold.into()),
        ],
    );
    exact("measure", [("format", u8::from(key.format).into())], call)
}
