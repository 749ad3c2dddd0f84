//! Table `membership`: who may send to a tree, by which port, and everything the switch has to know about the tree then.

use super::entry::{Call, TableEntry, exact};
use super::tree::Parameters;

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

/// What the sender is to this switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A host, like every other child of this switch in this tree.
    HostChild {
        /// Its bit.
        child: u64,
        /// Replica id of copies to it.
        replica: u16,
    },
    /// A host, where other children are switches.
    MixedHostChild {
        /// Its bit.
        child: u64,
        /// Replica id of copies to it.
        replica: u16,
    },
    /// A switch below.
    SwitchChild {
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
    let (name, child, replica) = match action {
        Action::HostChild { child, replica } => ("host_child", child, replica),
        Action::MixedHostChild { child, replica } => ("mixed_host_child", child, replica),
        Action::SwitchChild { child, replica } => ("switch_child", child, replica),
        Action::Parent => ("parent", 0, 0),
    };
    let keys = [
        ("tree_id", key.tree_id.into()),
        ("ingress_port", key.ingress_port.into()),
        ("member", key.member.into()),
    ];
    exact("membership", keys, Call::new(name, parameters.params(child, replica)))
}
