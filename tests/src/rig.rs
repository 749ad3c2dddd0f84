//! One switch on a test rig: eight ports with hosts, child switches and a parent around it, and trees in every role.
//!
//! The rig is a description. What it installs and what it feeds are the same for the embedded switch, for BMv2 and for the
//! reference model.

use std::net::Ipv4Addr;

use inca_wire::address::{MacAddr, service_address, service_mac};
use inca_wire::packet::Format;

/// Ports of the switch under test, besides the CPU port.
pub const PORTS: std::ops::RangeInclusive<u16> = 1..=8;
/// Port of packet-in and packet-out.
pub const CPU_PORT: u16 = 255;
/// Device id of the switch under test.
pub const DEVICE_ID: u16 = 1;
/// A resend interval that never lets a second resend pass: one of 0 always does. So no verdict depends on the clock.
pub const NEVER: u32 = u32::MAX;

/// A neighbour of the switch under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Port of the switch under test that leads to it.
    pub port: u16,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
}

impl Neighbour {
    /// The host at this port, one per port.
    pub fn host(port: u16) -> Self {
        let mac = MacAddr([0x02, 0, 0, 0, 0, port as u8]);
        Self { port, mac, ip: Ipv4Addr::new(10, 0, 0, port as u8) }
    }

    /// The switch at this port; its device id is 100 + port.
    pub fn switch(port: u16) -> Self {
        Self { port, mac: service_mac(100 + port), ip: service_address(100 + port) }
    }
}

/// What a child of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildKind {
    /// Sends contributions; results go to this UDP port.
    Host {
        /// UDP port of the host's socket.
        udp_port: u16,
    },
    /// Sends partial sums of this many ranks.
    Switch {
        /// Ranks below it.
        ranks: u16,
    },
}

/// A child of a tree; its place in [`Tree::children`] is its child bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Where it is.
    pub at: Neighbour,
    /// `member` field of its packets; of a switch its child bit's index.
    pub member: u16,
    /// Host or switch.
    pub kind: ChildKind,
}

/// The parent of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Where it is.
    pub at: Neighbour,
    /// `member` field of what this switch sends it.
    pub member: u16,
}

/// One tree's part at the switch under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Tree id in packets.
    pub tree_id: u16,
    /// Its generation.
    pub generation: u32,
    /// Number format.
    pub format: Format,
    /// Words per slot, 1 to 32.
    pub words: u8,
    /// Slots.
    pub slots: u32,
    /// Guard bits.
    pub guard: u8,
    /// Ranks of the whole group.
    pub world: u16,
    /// Children by child bit.
    pub children: Vec<Child>,
    /// None: this switch is the root.
    pub parent: Option<Parent>,
    /// Least time between two resends of a sum, in microseconds.
    pub resend_interval_us: u32,
}

impl Tree {
    /// Every child's bit.
    pub fn all_children(&self) -> u64 {
        (0..self.children.len()).fold(0, |bits, child| bits | 1 << child)
    }
}

impl Child {
    /// Ranks in one packet of it.
    pub fn ranks(&self) -> u16 {
        match self.kind {
            ChildKind::Host { .. } => 1,
            ChildKind::Switch { ranks } => ranks,
        }
    }
}

/// The formats of the rig's trees: one that is only added, one that is aligned and rounded too.
pub const FORMATS: [Format; 2] = [Format::I32, Format::Bfp16];

/// Trees in every role and both formats on one switch: single, leaf (both resend settings), root and the middle of a line, one
/// with the largest packets. Two hosts share port 1, so that the member field tells them apart.
pub fn standard_trees() -> Vec<Tree> {
    trees_of(&FORMATS)
}

/// The same trees for other formats.
pub fn trees_of(formats: &[Format]) -> Vec<Tree> {
    let host = |port, member| Child {
        at: Neighbour::host(port),
        member,
        kind: ChildKind::Host { udp_port: 40_000 + member },
    };
    let switch = |port, member, ranks| Child {
        at: Neighbour::switch(port),
        member,
        kind: ChildKind::Switch { ranks },
    };
    let parent = |member| Some(Parent { at: Neighbour::switch(7), member });
    let tree = |tree_id, format, words, world, children, parent, resend_interval_us| Tree {
        tree_id,
        generation: 7 + u32::from(tree_id),
        format,
        words,
        slots: 3,
        guard: guard_bits(format, world),
        world,
        children,
        parent,
        resend_interval_us,
    };
    let hosts =
        |count: u16| (0..count).map(|member| host(1 + member.saturating_sub(1), member)).collect::<Vec<_>>();
    let mut mixed_root = vec![host(2, 4)];
    mixed_root.push(switch(5, 1, 3));
    let mut trees = Vec::new();
    for (index, format) in formats.iter().copied().enumerate() {
        let id = |role: u16| 0x100 * (index as u16 + 1) + role;
        trees.extend([
            tree(id(1), format, 2, 4, hosts(4), None, 0),
            tree(id(2), format, 2, 9, hosts(3), parent(1), 0),
            tree(id(3), format, 1, 9, hosts(3), parent(2), NEVER),
            tree(id(4), format, 2, 7, vec![switch(5, 0, 4), switch(6, 1, 3)], None, 0),
            tree(id(5), format, 2, 4, mixed_root.clone(), None, 0),
            tree(id(6), format, 2, 12, vec![switch(6, 0, 5), host(3, 8)], parent(0), 0),
            tree(id(7), format, 32, 2, hosts(2), None, 0),
        ]);
    }
    trees
}

/// Guard bits of a tree (docs/number-formats.md, "Alignment").
///
/// # Panics
/// If the format takes no group of this size.
pub fn guard_bits(format: Format, world: u16) -> u8 {
    format.guard_bits(world.into()).unwrap_or_else(|error| panic!("{error}"))
}
