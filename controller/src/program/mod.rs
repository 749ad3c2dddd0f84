//! The P4 program as the controller sees it: one file per table with its typed key and actions.
//!
//! Tables give a [`TableEntry`] by names; [`Entry::entity`] turns it into a P4Runtime message by the program's P4Info, which
//! [`built_in`] holds.

mod accumulate;
pub mod accumulate_high;
pub mod accumulate_low;
pub mod arp_proxy;
pub mod arp_sender;
mod entry;
pub mod formats;
pub mod ipv4_lpm;
pub mod measure;
pub mod membership;
pub mod node;
pub mod normalize;
mod pipeline;
pub mod replica;
pub mod service;
pub mod tree;
mod word;

pub use entry::{Call, Entry, EntryAction, Match, MulticastGroup, TableEntry};
pub use pipeline::{built_in, load};
pub use word::Word;

/// Slots of a switch (`SLOTS` in `p4/constants.p4`).
pub const SLOTS: u32 = 4096;
/// Words of a switch's result store (`RESULT_WORDS`). The program refuses slots that begin in the last
/// [`MAX_WORDS`](inca_wire::packet::MAX_WORDS).
pub const RESULT_WORDS: u32 = 32768;
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

/// Index and name of every cell of the counter `events` that is in use; each packet ends as exactly one of them.
pub const EVENTS: [(u32, &str); 28] = [
    (31, "forwarded"),
    (1, "drop_parser_error"),
    (2, "drop_bad_length"),
    (3, "drop_bad_version"),
    (4, "drop_unknown_tree"),
    (5, "drop_stale_generation"),
    (6, "drop_bad_slot"),
    (7, "drop_bad_format"),
    (8, "drop_not_admitted"),
    (9, "drop_bad_opcode"),
    (10, "drop_bad_sequence"),
    (11, "drop_duplicate"),
    (12, "drop_resend_limited"),
    (13, "drop_result_ignored"),
    (14, "drop_replay_misfit"),
    (15, "drop_no_route"),
    (16, "drop_ttl_expired"),
    (17, "drop_arp_unknown"),
    (18, "drop_unknown_ethertype"),
    (32, "to_controller"),
    (33, "from_controller"),
    (34, "arp_reply"),
    (35, "contribution"),
    (36, "completed"),
    (37, "replay"),
    (38, "resend"),
    (39, "result"),
    (40, "probe"),
];

#[cfg(test)]
mod tests;
