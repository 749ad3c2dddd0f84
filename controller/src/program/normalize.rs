//! Table `normalize`: the shift that the highest bit of any lane's magnitude asks for, per format.

use inca_wire::packet::Format;

use super::Word;
use super::entry::{Call, EntryAction, Match, TableEntry};

/// Magnitudes whose bits under `mask` equal `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Number format.
    pub format: Format,
    /// Bits wanted.
    pub value: u64,
    /// Bits that count.
    pub mask: u64,
}

/// What happens to the sum.
// A few dozen are made, once: boxes would only be in the way.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It fits as it is.
    Keep {
        /// From the wide offset to the narrow one, in every wide lane.
        offset: Word,
        /// w.
        lane_bits: u8,
    },
    /// It is rounded at 2^shift, to nearest, ties to even.
    Round {
        /// Bits that go.
        shift: u8,
        /// As for `Keep`, plus half a unit less one.
        offset: Word,
        /// 1 in every wide lane.
        ones: Word,
        /// 2^w - 1 in every wide lane.
        low: Word,
        /// w.
        lane_bits: u8,
    },
    /// It is flagged.
    Overflow,
}

/// The table's entry. Keys of one format must be disjoint, so all have the same priority.
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = match action {
        Action::Keep { offset, lane_bits } => {
            Call::new("keep", [("offset", offset.into()), ("lane_bits", (*lane_bits).into())])
        }
        Action::Round { shift, offset, ones, low, lane_bits } => Call::new(
            "round_lanes",
            [
                ("shift", (*shift).into()),
                ("offset", offset.into()),
                ("ones", ones.into()),
                ("low", low.into()),
                ("lane_bits", (*lane_bits).into()),
            ],
        ),
        Action::Overflow => Call::new("overflow", []),
    };
    TableEntry {
        table: "normalize",
        matches: vec![
            ("format", Match::Exact(u8::from(key.format).into())),
            ("widest", Match::Ternary(key.value.into(), key.mask.into())),
        ],
        action: EntryAction::Call(call),
        priority: 1,
    }
}
