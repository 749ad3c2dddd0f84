//! Table `tree`: the reduction trees a switch takes part in, so that a packet of an unknown tree is told from one of an unknown
//! member.

use inca_p4runtime::Value;
use inca_wire::packet::Format;

use super::entry::{Call, TableEntry, exact};
use super::formats::FormatSpec;

/// The tree of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// One job, group and stripe.
    pub tree_id: u16,
}

/// The table's entry; its only action is `NoAction`.
pub fn entry(key: Key) -> TableEntry {
    exact("tree", [("tree_id", key.tree_id.into())], Call::new("NoAction", []))
}

/// What this switch does for the tree, a parameter of every entry of the tree in the table `membership`. Registers are addressed from here, so ranges of two
/// trees must not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Packets of other generations are dropped.
    pub generation: u32,
    /// Number of slots.
    pub slots: u32,
    /// Index of the first slot's scalars, see [`SLOTS`](super::SLOTS).
    pub first_slot: u32,
    /// Index of the first slot's first word, see [`SLOT_WORDS`](super::SLOT_WORDS).
    pub first_word: u32,
    /// Most words of a chunk: words per slot.
    pub words: u8,
    /// Number format.
    pub format: Format,
    /// Guard bits of the group, see [`FormatSpec::guard_bits`].
    pub guard: u16,
    /// One bit per child.
    pub all_children: u64,
    /// Ranks in the group.
    pub world: u16,
    /// Multicast group of sums: two copies to the parent. 0 at the root, which rounds.
    pub up_group: u16,
    /// Multicast group of results: one copy per child.
    pub down_group: u16,
    /// Least time between two repetitions of a sum, in microseconds.
    pub resend_interval: u32,
}

impl Parameters {
    pub(super) fn params(&self, child: u64, replica: u16) -> [(&'static str, Value); 15] {
        [
            ("generation", self.generation.into()),
            ("slots", self.slots.into()),
            ("first_slot", self.first_slot.into()),
            ("first_word", self.first_word.into()),
            ("words", self.words.into()),
            ("format", u8::from(self.format).into()),
            ("lane_bits", FormatSpec::of(self.format).lane_bits.into()),
            ("guard", self.guard.into()),
            ("all_children", self.all_children.into()),
            ("world", self.world.into()),
            ("up_group", self.up_group.into()),
            ("down_group", self.down_group.into()),
            ("resend_interval", self.resend_interval.into()),
            ("child", child.into()),
            ("replica", replica.into()),
        ]
    }
}
