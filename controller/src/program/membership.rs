//! Table `membership`: who may send to a tree, by which port, and everything the switch has to know about the tree then.

use std::net::Ipv4Addr;

use inca_p4runtime::Value;
use inca_wire::address::MacAddr;
use inca_wire::packet::Format;

use super::entry::{Call, TableEntry, exact};
use super::formats::FormatSpec;

/// A sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The tree.
    pub tree_id: u16,
    /// Port the sender is reached by.
    pub ingress_port: u16,
    /// The rank of a host, the child index of a switch, [`PARENT_MEMBER`](inca_wire::packet::PARENT_MEMBER) for the parent.
    pub member: u16,
}

/// What this switch does for the tree, whoever sends. Registers are addressed from here, so ranges of two trees must not overlap.
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
    /// Whether any child is a switch.
    pub mixed: bool,
    /// Ranks in the group.
    pub world: u16,
    /// Multicast group of sums: two copies to the parent. 0 at the root, which rounds.
    pub up_group: u16,
    /// Multicast group of results: one copy per child.
    pub down_group: u16,
    /// Least time between two repetitions of a sum, in microseconds.
    pub resend_interval: u32,
    /// This switch's service MAC.
    pub own_mac: MacAddr,
    /// This switch's service address.
    pub own_ip: Ipv4Addr,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A host.
    Host {
        /// Its bit.
        child: u64,
        /// Replica id of copies to it.
        replica: u16,
    },
    /// A switch below.
    Switch {
        /// Its bit.
        child: u64,
        /// Replica id of copies to it.
        replica: u16,
    },
    /// The switch above.
    Parent,
}

/// The table's entry.
pub fn entry(key: Key, parameters: &Parameters, action: Action) -> TableEntry {
    let keys = [
        ("tree_id", key.tree_id.into()),
        ("ingress_port", key.ingress_port.into()),
        ("member", key.member.into()),
    ];
    exact("membership", keys, parameters.call(action))
}

impl Parameters {
    fn call(&self, action: Action) -> Call {
        let lane_bits = ("lane_bits", FormatSpec::of(self.format).lane_bits.into());
        match action {
            Action::Host { child, replica } => {
                let name = if self.mixed { "mixed_host_child" } else { "host_child" };
                let member = self.member(child, replica);
                Call::new(name, self.tree(self.group_of_sums()).into_iter().chain(member).chain([lane_bits]))
            }
            Action::Switch { child, replica } => Call::new(
                "switch_child",
                self.tree(self.group_of_sums()).into_iter().chain(self.member(child, replica)),
            ),
            Action::Parent => {
                let parent = [("world", self.world.into()), ("mixed", u8::from(self.mixed).into())];
                Call::new("parent", self.tree(self.down_group).into_iter().chain(parent))
            }
        }
    }

    const fn is_root(&self) -> bool {
        self.up_group == 0
    }

    /// Where a sum goes once it is complete.
    const fn group_of_sums(&self) -> u16 {
        if self.is_root() { self.down_group } else { self.up_group }
    }

    fn tree(&self, group: u16) -> [(&'static str, Value); 10] {
        [
            ("generation", self.generation.into()),
            ("slots", self.slots.into()),
            ("first_slot", self.first_slot.into()),
            ("first_word", self.first_word.into()),
            ("words", self.words.into()),
            ("format", u8::from(self.format).into()),
            ("all_children", self.all_children.into()),
            ("group", group.into()),
            ("own_mac", self.own_mac.0.into()),
            ("own_ip", self.own_ip.into()),
        ]
    }

    fn member(&self, child: u64, replica: u16) -> [(&'static str, Value); 5] {
        [
            ("guard", self.guard.into()),
            ("is_root", u8::from(self.is_root()).into()),
            ("resend_interval", self.resend_interval.into()),
            ("child", child.into()),
            ("replica", replica.into()),
        ]
    }
}
