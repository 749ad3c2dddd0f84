//! Table `accumulate`: additions to both planes at once, where all children of a switch are hosts; per format.

use super::Word;
pub use super::align::{Align, Key};
use super::entry::{Call, TableEntry, exact};

/// The halves of every pair of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halves {
    /// The low plane's.
    pub low: Word,
    /// The high plane's.
    pub high: Word,
}

/// What is done to every pair of accumulator words.
// A few dozen are made, once: boxes would only be in the way.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sets them to 0.
    Clear,
    /// Sets them to the packet's lanes.
    Store(Halves),
    /// Adds the packet's lanes, shifted.
    Add(Halves),
    /// Adds the packet's lanes as they are, for formats without an exponent: saves a shift.
    AddUnshifted(Halves),
    /// Shifts the accumulator, then adds the packet's lanes.
    Raise(Halves),
    /// Keeps the larger of each two lanes.
    KeepLargest {
        /// Both planes' halves.
        halves: Halves,
        /// The bit above a narrow lane, in every wide lane.
        above: Word,
        /// w.
        lane_bits: u8,
    },
}

/// The table's entry.
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = |action, halves: &Halves| {
        Call::new(action, [("low_half", (&halves.low).into()), ("high_half", (&halves.high).into())])
    };
    let call = match action {
        Action::Clear => Call::new("clear", []),
        Action::Store(halves) => call("store", halves),
        Action::Add(halves) => call("add", halves),
        Action::AddUnshifted(halves) => call("add_unshifted", halves),
        Action::Raise(halves) => call("raise", halves),
        Action::KeepLargest { halves: Halves { low, high }, above, lane_bits } => Call::new(
            "keep_largest",
            [
                ("low_half", low.into()),
                ("high_half", high.into()),
                ("above", above.into()),
                ("lane_bits", (*lane_bits).into()),
            ],
        ),
    };
    exact("accumulate", key.fields_of_both(), call)
}
