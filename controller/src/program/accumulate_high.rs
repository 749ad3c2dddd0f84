//! Table `accumulate_high`: additions to the accumulator's high plane (odd lanes), where a switch has switches among its children;
//! per format.

use super::Word;
pub use super::align::{Align, Key};
use super::entry::{Call, TableEntry, exact};

/// What is done to every accumulator word of the plane. The word of an action is the high half of every pair of lanes.
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
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = match action {
        Action::Clear => Call::new("clear_high", []),
        Action::Store(half) => Call::new("store_high", [("high_half", half.into())]),
        Action::Add(half) => Call::new("add_high", [("high_half", half.into())]),
        Action::Raise(half) => Call::new("raise_high", [("high_half", half.into())]),
        Action::StorePartial => Call::new("store_partial_high", []),
        Action::AddPartial => Call::new("add_partial_high", []),
        Action::RaisePartial => Call::new("raise_partial_high", []),
        Action::KeepLargest { half, above, lane_bits } => Call::new(
            "keep_largest_high",
            [("high_half", half.into()), ("above", above.into()), ("lane_bits", (*lane_bits).into())],
        ),
        Action::KeepLargestPartial { above, lane_bits } => Call::new(
            "keep_largest_partial_high",
            [("above", above.into()), ("lane_bits", (*lane_bits).into())],
        ),
    };
    exact("accumulate_high", key.fields(), call)
}
