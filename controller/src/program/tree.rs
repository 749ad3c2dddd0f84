//! Table `tree`: the reduction trees a switch takes part in.

use inca_wire::packet::Format;

use super::entry::{Call, TableEntry, exact};
use super::formats::FormatSpec;

/// The tree of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// One job, group and stripe.
    pub tree_id: u16,
}

/// What this switch does for the tree. Registers are addressed from here, so ranges of two trees must not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Packets of other generations are dropped.
    pub generation: u32,
    /// Number of slots.
    pub slots: u32,
    /// Index of the first slot's scalars, see [`SLOTS`](super::SLOTS).
    pub first_slot: u32,
    /// Index of the first slot's first result word, see [`RESULT_WORDS`](super::RESULT_WORDS).
    pub first_word: u32,
    /// Most words of a chunk: result words per slot.
    pub words: u8,
    /// Number format.
    pub format: Format,
    /// Guard bits of the group, see [`FormatSpec::guard_bits`].
    pub guard: u16,
    /// One bit per child.
    pub all_children: u64,
    /// Ranks in the group.
    pub world: u16,
    /// Whether sums are rounded here.
    pub is_root: bool,
    /// Multicast group of sums: two copies to the parent. 0 at the root.
    pub up_group: u16,
    /// Multicast group of results: one copy per child.
    pub down_group: u16,
    /// Least time between two repetitions of a sum, in microseconds.
    pub resend_interval: u32,
}

/// The table's entry.
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = Call::new(
        "set_tree",
        [
            ("generation", action.generation.into()),
            ("slots", action.slots.into()),
            ("first_slot", action.first_slot.into()),
            ("first_word", action.first_word.into()),
            ("words", action.words.into()),
            ("format", u8::from(action.format).into()),
            ("lane_bits", FormatSpec::of(action.format).lane_bits.into()),
            ("guard", action.guard.into()),
            ("all_children", action.all_children.into()),
            ("world", action.world.into()),
            ("is_root", action.is_root.into()),
            ("up_group", action.up_group.into()),
            ("down_group", action.down_group.into()),
            ("resend_interval", action.resend_interval.into()),
        ],
    );
    exact("tree", [("tree_id", key.tree_id.into())], call)
}
