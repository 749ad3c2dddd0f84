//! Tables `accumulate_low` and `accumulate_high`: additions to one plane of the accumulator, where a switch has switches among its
//! children; per format.

use super::Word;
pub use super::align::{Align, Key};
use super::entry::{Call, TableEntry, exact};

/// A plane of the accumulator, hence the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// The even lanes, the low half of every pair.
    Low,
    /// The odd lanes, the high half of every pair.
    High,
}

/// What is done to every accumulator word of the plane. The word of an action is the plane's half of every pair of lanes.
// A few dozen are made, once: boxes would only be in the way.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sets it to 0.
    Clear,
    /// Sets it to the packet's lanes of the plane.
    Store(Word),
    /// Adds the packet's lanes, shifted.
    Add(Word),
    /// Shifts the accumulator, then adds the packet's lanes.
    Raise(Word),
    /// Sets it to a partial sum.
    StorePartial,
    /// Adds a partial sum, shifted.
    AddPartial,
    /// Shifts the accumulator, then adds a partial sum.
    RaisePartial,
    /// Keeps the larger of each two lanes: the packet's, and those of the accumulator.
    KeepLargest {
        /// The plane's half of every pair of lanes.
        half: Word,
        /// The bit above a narrow lane, in every wide lane.
        above: Word,
        /// w.
        lane_bits: u8,
    },
    /// Keeps the larger of each two lanes, of a switch's packet.
    KeepLargestPartial {
        /// The bit above a narrow lane, in every wide lane.
        above: Word,
        /// w.
        lane_bits: u8,
    },
}

/// The table's entry.
pub fn entry(plane: Plane, key: Key, action: &Action) -> TableEntry {
    let (table, half_name) = match plane {
        Plane::Low => ("accumulate_low", "low_half"),
        Plane::High => ("accumulate_high", "high_half"),
    };
    // Actions are named once per plane.
    let call = |low, high, params: Vec<_>| Call::new(if plane == Plane::Low { low } else { high }, params);
    let half = |half: &Word| (half_name, half.into());
    let bounds = |above: &Word, lane_bits: u8| [("above", above.into()), ("lane_bits", lane_bits.into())];
    let call = match action {
        Action::Clear => call("clear_low", "clear_high", vec![]),
        Action::Store(word) => call("store_low", "store_high", vec![half(word)]),
        Action::Add(word) => call("add_low", "add_high", vec![half(word)]),
        Action::Raise(word) => call("raise_low", "raise_high", vec![half(word)]),
        Action::StorePartial => call("store_partial_low", "store_partial_high", vec![]),
        Action::AddPartial => call("add_partial_low", "add_partial_high", vec![]),
        Action::RaisePartial => call("raise_partial_low", "raise_partial_high", vec![]),
        Action::KeepLargest { half: word, above, lane_bits } => {
            let params = std::iter::once(half(word)).chain(bounds(above, *lane_bits)).collect();
            call("keep_largest_low", "keep_largest_high", params)
        }
        Action::KeepLargestPartial { above, lane_bits } => {
            call("keep_largest_partial_low", "keep_largest_partial_high", bounds(above, *lane_bits).into())
        }
    };
    exact(table, key.fields(), call)
}
