//! Table `tree`: the reduction trees a switch takes part in, so that a packet of an unknown tree is told from one of an unknown
//! member.

use super::entry::{Call, TableEntry, exact};

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
