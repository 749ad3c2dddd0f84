//! The P4 program as the controller sees it: one file per table with its typed key and actions.
//!
//! Tables give a [`TableEntry`] by names; [`Entry::entity`] turns it into a P4Runtime message by the program's P4Info, which
//! [`built_in`] holds.

pub mod accumulate;
pub mod accumulate_plane;
mod align;
pub mod arp_proxy;
pub mod arp_sender;
mod entry;
pub mod formats;
pub mod ipv4_lpm;
pub mod link;
pub mod measure;
pub mod membership;
pub mod node;
pub mod normalize;
mod pipeline;
pub mod replica;
pub mod service;
pub mod switch_address;
pub mod tree;
mod word;

use std::sync::LazyLock;

pub use entry::{Call, Entry, EntryAction, Match, MulticastGroup, TableEntry};
pub use pipeline::{built_in, load};
pub use word::Word;

/// Slots of a switch (`SLOTS` in `p4/constants.p4`).
pub const SLOTS: u32 = 4096;
/// Words of payload in all slots of a switch (`SLOT_WORDS`). A slot's words must not run over the end: the program would go on at
/// the beginning.
pub const SLOT_WORDS: u32 = 32768;
/// Most trees of a switch: size of the table `tree`.
pub const MAX_TREES: usize = 1024;
/// Most children of a switch in one tree: bits of `all_children`.
pub const MAX_CHILDREN: usize = 64;
/// Largest replica id handed out: size of the table `replica`.
pub const MAX_REPLICAS: u16 = 16384;
/// Port of packet-in and packet-out (`CPU_PORT`).
pub const CPU_PORT: u16 = 255;

/// Why a switch sent a packet to the controller (`REASON_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A link probe arrived.
    LinkProbe,
    /// ARP of a sender the switch does not know.
    Arp,
    /// A host announced itself.
    Announce,
}

impl Reason {
    /// The reason of this number, if there is one.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::LinkProbe),
            2 => Some(Self::Arp),
            3 => Some(Self::Announce),
            _ => None,
        }
    }
}

/// Index and name of every cell of the counter `events` that is in use, as the P4 source has them; each packet ends as exactly one
/// of them.
pub fn events() -> &'static [(u32, String)] {
    static EVENTS: LazyLock<Vec<(u32, String)>> = LazyLock::new(|| {
        const SOURCE: &str = include_str!("../../../p4/constants.p4");
        let named = |line: &str| {
            let (name, value) = line.strip_prefix("const bit<32> ")?.split_once('=')?;
            let index = value.split(';').next()?.trim().parse().ok()?;
            let name = name.trim();
            let event = name.strip_prefix("EVENT_").or(name.starts_with("DROP_").then_some(name))?;
            (event != "NONE").then(|| (index, event.to_lowercase()))
        };
        SOURCE.lines().filter_map(named).collect()
    });
    &EVENTS
}

#[cfg(test)]
mod tests;
