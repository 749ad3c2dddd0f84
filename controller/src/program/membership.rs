//! Table `membership`: who may send to a tree, and by which port.

use super::entry::{Call, TableEntry, exact};

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
    /// A host.
    HostChild {
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
pub fn entry(key: Key, action: Action) -> TableEntry {
    let call = match action {
        Action::HostChild { child, replica } => {
            Call::new("host_child", [("child", child.into()), ("replica", replica.into())])
        }
        Action::SwitchChild { child, replica } => {
            Call::new("switch_child", [("child", child.into()), ("replica", replica.into())])
        }
        Action::Parent => Call::new("parent", []),
    };
    let keys = [
        ("tree_id", key.tree_id.into()),
        ("ingress_port", key.ingress_port.into()),
        ("member", key.member.into()),
    ];
    exact("membership", keys, call)
}
