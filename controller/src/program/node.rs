//! All entries that make a switch a node of a reduction tree.

use std::net::Ipv4Addr;

use inca_wire::address::MacAddr;
use inca_wire::packet::{Format, PARENT_MEMBER, UDP_PORT};

use super::formats::FormatSpec;
use super::{Entry, MAX_CHILDREN, MulticastGroup, membership, replica, tree};

/// A node of a tree as its switch has to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    /// One job, group and stripe.
    pub tree_id: u16,
    /// Packets of other generations are dropped.
    pub generation: u32,
    /// Number format.
    pub format: Format,
    /// Ranks in the group.
    pub world: u16,
    /// Number of slots.
    pub slots: u32,
    /// Most words of a chunk.
    pub words: u8,
    /// Least time between two repetitions of a sum, in microseconds.
    pub resend_interval: u32,
    /// What of the switch's memory and ids belongs to the node.
    pub share: Share,
    /// This switch's service addresses.
    pub own: Endpoint,
    /// What is added up; the position is the bit in the slots' bitmaps. At most [`MAX_CHILDREN`].
    pub children: Vec<Child>,
    /// The switch above; `None` at the root.
    pub parent: Option<Parent>,
}

/// What of a switch belongs to one node; shares of two trees must not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Share {
    /// First slot.
    pub first_slot: u32,
    /// First word of the first slot.
    pub first_word: u32,
    /// First of [`TreeNode::replicas`] consecutive replica ids.
    pub first_replica: u16,
    /// Multicast group of results.
    pub down_group: u16,
    /// Multicast group of sums; 0 at the root.
    pub up_group: u16,
}

/// Addresses of a switch or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Ethernet.
    pub mac: MacAddr,
    /// IPv4.
    pub ip: Ipv4Addr,
}

/// A child of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// A host.
    Host {
        /// Its rank in the group.
        rank: u16,
        /// Port it is attached to.
        port: u16,
        /// Where results go.
        to: Endpoint,
        /// The UDP port there.
        udp_port: u16,
    },
    /// A switch below.
    Switch {
        /// Port it is reached by.
        port: u16,
        /// Its service addresses.
        to: Endpoint,
    },
}

/// The parent of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Port it is reached by.
    pub port: u16,
    /// Its service addresses.
    pub to: Endpoint,
    /// This node's index among the parent's children.
    pub index: u16,
}

impl TreeNode {
    /// Replica ids that are enough for a node with so many children, even if all are at one port.
    pub const fn replicas(children: usize, is_root: bool) -> u16 {
        children as u16 + if is_root { 0 } else { 2 }
    }

    /// Every entry of the node.
    pub fn entries(&self) -> Vec<Entry> {
        let parameters = self.parameters();
        let mut entries = Vec::with_capacity(2 * self.children.len() + 6);
        let mut down = Vec::with_capacity(self.children.len());
        for (index, child) in self.children.iter().take(MAX_CHILDREN).enumerate() {
            let port = child.port();
            // Children at ports of their own share a replica id: BMv2 searches all its ports for each id of a group.
            let at_same_port = down.iter().filter(|(other, _)| *other == port).count() as u16;
            let id = self.share.first_replica + at_same_port;
            down.push((port, id));
            let key = replica::Key { replica: id, egress_port: port };
            // What a host gets bears its rank, what a switch gets says that it comes from the parent.
            let (member, addresses) = match *child {
                Child::Host { rank, to, udp_port, .. } => (rank, addresses(to, udp_port, rank)),
                Child::Switch { to, .. } => (index as u16, addresses(to, UDP_PORT, PARENT_MEMBER)),
            };
            entries.push(replica::entry(key, &replica::Action::ToChild(addresses)).into());
            let bit = 1 << index;
            let role = match child {
                Child::Host { .. } => membership::Action::Host { child: bit, replica: id },
                Child::Switch { .. } => membership::Action::Switch { child: bit, replica: id },
            };
            entries.push(membership::entry(self.member(port, member), &parameters, role).into());
        }
        entries.push(Entry::Multicast(MulticastGroup { id: self.share.down_group, replicas: down }));
        if let Some(parent) = self.parent {
            let addresses = addresses(parent.to, UDP_PORT, parent.index);
            let low = self.share.first_replica + self.children.len() as u16;
            let high = low + 1;
            entries.push(
                replica::entry(
                    replica::Key { replica: low, egress_port: parent.port },
                    &replica::Action::ToParentLow(addresses),
                )
                .into(),
            );
            entries.push(
                replica::entry(
                    replica::Key { replica: high, egress_port: parent.port },
                    &replica::Action::ToParentHigh(addresses),
                )
                .into(),
            );
            entries.push(
                membership::entry(
                    self.member(parent.port, PARENT_MEMBER),
                    &parameters,
                    membership::Action::Parent,
                )
                .into(),
            );
            let up = MulticastGroup {
                id: self.share.up_group,
                replicas: vec![(parent.port, low), (parent.port, high)],
            };
            entries.push(Entry::Multicast(up));
        }
        entries.push(tree::entry(tree::Key { tree_id: self.tree_id }).into());
        entries
    }

    fn parameters(&self) -> membership::Parameters {
        membership::Parameters {
            generation: self.generation,
            slots: self.slots,
            first_slot: self.share.first_slot,
            first_word: self.share.first_word,
            words: self.words,
            format: self.format,
            guard: FormatSpec::of(self.format).guard_bits(self.world),
            all_children: u64::MAX >> (MAX_CHILDREN - self.children.len().clamp(1, MAX_CHILDREN)),
            mixed: self.children.iter().any(|child| matches!(child, Child::Switch { .. })),
            world: self.world,
            up_group: if self.parent.is_none() { 0 } else { self.share.up_group },
            down_group: self.share.down_group,
            resend_interval: self.resend_interval,
            own_mac: self.own.mac,
            own_ip: self.own.ip,
        }
    }

    fn member(&self, ingress_port: u16, member: u16) -> membership::Key {
        membership::Key { tree_id: self.tree_id, ingress_port, member }
    }
}

fn addresses(to: Endpoint, dst_port: u16, member: u16) -> replica::Addresses {
    replica::Addresses { dst_mac: to.mac, dst_ip: to.ip, dst_port, member }
}

impl Child {
    fn port(&self) -> u16 {
        match self {
            Self::Host { port, .. } | Self::Switch { port, .. } => *port,
        }
    }
}
