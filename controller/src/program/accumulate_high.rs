//! Table `accumulate_high`: additions to the accumulator's high plane (odd lanes), per format.

use super::Word;
pub use super::accumulate::{Align, Key};
use super::entry::{Call, TableEntry, exact};

/// What is done to every accumulator word of the plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sets it to 0.
    Clear,
    /// Sets it to the packet's lanes of the plane.
    Store {
        /// The high half of every pair of lanes.
        mask: Word,
    },
    /// Adds the packet's lanes, shifted.
    Add {
        /// The high half of every pair of lanes.
        mask: Word,
    },
    /// Shifts the accumulator, then adds the packet's lanes.
    Raise {
        /// The high half of every pair of lanes.
        mask: Word,
    },
    /// Sets it to a partial sum.
    StorePartial,
    /// Adds a partial sum, shifted.
    AddPartial,
    /// Shifts the accumulator, then adds a partial sum.
    RaisePartial,
}

/// The table's entry.
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = match action {
        Action::Clear => Call::new("clear_high", []),
        Action::Store { mask } => Call::new("store_high", [("mask", mask.into())]),
        Action::Add { mask } => Call::new("add_high", [("mask", mask.into())]),
        Action::Raise { mask } => Call::new("raise_high", [("mask", mask.into())]),
        Action::StorePartial => Call::new("store_partial_high", []),
        Action::AddPartial => Call::new("add_partial_high", []),
        Action::RaisePartial => Call::new("raise_partial_high", []),
    };
    let keys = [("format", u8::from(key.format).into()), ("align", (key.align as u8).into())];
    exact("accumulate_high", keys, call)
}
