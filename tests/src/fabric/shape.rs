//! The shape of a reduction tree, and the addresses and ports that follow from it.

use std::net::Ipv4Addr;

use inca_wire::address::{MacAddr, service_address, service_mac};

use super::{Direction, Job};
use crate::rig::{Child, ChildKind, Neighbour, Parent, Tree, guard_bits};

/// A node of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A rank.
    Host,
    /// A switch that reduces what its children send.
    Switch(Vec<Node>),
}

impl Node {
    /// A switch with so many hosts.
    pub fn leaf(hosts: usize) -> Self {
        Self::Switch(vec![Self::Host; hosts])
    }

    /// A root over leaves with so many hosts each.
    pub fn two_levels(hosts: &[usize]) -> Self {
        Self::Switch(hosts.iter().map(|&hosts| Self::leaf(hosts)).collect())
    }
}

/// A shape laid out: switches numbered from the root down, ranks from left to right.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The switches; 0 is the root.
    pub(super) switches: Vec<SwitchPlan>,
    /// Per rank: its switch, and which child it is there.
    ranks: Vec<(usize, usize)>,
}

/// One switch of a [`Plan`].
#[derive(Debug, Clone)]
pub(super) struct SwitchPlan {
    /// Its switch above, and which child it is there.
    parent: Option<(usize, usize)>,
    children: Vec<End>,
    /// Ranks below.
    ranks: usize,
}

/// What is at the other end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A rank.
    Host(usize),
    /// A switch, at this port of it.
    Switch(usize, u16),
}

/// UDP port of a rank's socket.
pub(super) fn udp_port(rank: usize) -> u16 {
    40_000 + rank as u16
}

impl Plan {
    /// Lays a shape out.
    ///
    /// # Panics
    /// If the root is a host.
    pub(super) fn new(root: &Node) -> Self {
        let Node::Switch(children) = root else { panic!("the root of a tree is a switch") };
        let mut plan = Self { switches: Vec::new(), ranks: Vec::new() };
        plan.add(children, None);
        plan
    }

    fn add(&mut self, children: &[Node], parent: Option<(usize, usize)>) -> usize {
        let index = self.switches.len();
        self.switches.push(SwitchPlan { parent, children: Vec::new(), ranks: 0 });
        for (child, node) in children.iter().enumerate() {
            let (end, ranks) = match node {
                Node::Host => {
                    self.ranks.push((index, child));
                    (End::Host(self.ranks.len() - 1), 1)
                }
                Node::Switch(below) => {
                    let below = self.add(below, Some((index, child)));
                    (End::Switch(below, self.parent_port(below)), self.switches[below].ranks)
                }
            };
            self.switches[index].children.push(end);
            self.switches[index].ranks += ranks;
        }
        index
    }

    /// A switch's port towards its parent; children have the ports from 1.
    fn parent_port(&self, index: usize) -> u16 {
        child_port(self.switches[index].children.len())
    }

    /// Ranks.
    pub(super) fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Links: one above each host, then one above each switch but the root.
    pub(super) fn links(&self) -> usize {
        self.ranks.len() + self.switches.len() - 1
    }

    /// Device id of a switch.
    pub(super) fn device_id(&self, index: usize) -> u16 {
        index as u16 + 1
    }

    /// Per child of a switch the ranks below it.
    pub(super) fn ranks_below(&self, index: usize) -> Vec<Vec<u32>> {
        let below = |end: &End| match *end {
            End::Host(rank) => vec![rank as u32],
            End::Switch(below, _) => self.ranks_below(below).concat(),
        };
        self.switches[index].children.iter().map(below).collect()
    }

    pub(super) fn leaf(&self, rank: usize) -> usize {
        self.ranks[rank].0
    }

    /// A rank, at its switch's port.
    pub(super) fn host(&self, rank: usize) -> Neighbour {
        let port = child_port(self.ranks[rank].1);
        let [high, low] = (rank as u16).to_be_bytes();
        Neighbour { port, mac: MacAddr([2, 0, 0, 1, high, low]), ip: Ipv4Addr::new(10, 1, high, low) }
    }

    fn switch(&self, index: usize, port: u16) -> Neighbour {
        let device_id = self.device_id(index);
        Neighbour { port, mac: service_mac(device_id), ip: service_address(device_id) }
    }

    /// The link at a switch's port, which way that is, and what is at its end.
    pub(super) fn cable(&self, index: usize, port: u16) -> Option<(usize, Direction, End)> {
        let switch = &self.switches[index];
        if port == self.parent_port(index) {
            let (parent, child) = switch.parent?;
            return Some((self.uplink(index), Direction::Up, End::Switch(parent, child_port(child))));
        }
        let end = *switch.children.get(usize::from(port).checked_sub(1)?)?;
        let link = match end {
            End::Host(rank) => rank,
            End::Switch(below, _) => self.uplink(below),
        };
        Some((link, Direction::Down, end))
    }

    fn uplink(&self, index: usize) -> usize {
        self.ranks.len() + index - 1
    }

    /// A stripe's part at a switch, for a group of these ranks; none if no rank of it is below the switch.
    pub(super) fn tree(
        &self,
        index: usize,
        job: &Job,
        stripe: u16,
        (generation, members): (u32, &[usize]),
    ) -> Option<Tree> {
        let switch = &self.switches[index];
        let live = |index: usize| -> Vec<(usize, u16)> {
            let below = self
                .ranks_below(index)
                .into_iter()
                .map(|ranks| ranks.iter().filter(|rank| members.contains(&(**rank as usize))).count() as u16);
            below.enumerate().filter(|(_, ranks)| *ranks > 0).collect()
        };
        // A switch's index at its parent counts the children that are left.
        let children = live(index);
        let children =
            children.iter().enumerate().map(|(member, &(child, ranks))| match switch.children[child] {
                End::Host(rank) => Child {
                    at: self.host(rank),
                    member: rank as u16,
                    kind: ChildKind::Host { udp_port: udp_port(rank) },
                },
                End::Switch(below, _) => Child {
                    at: self.switch(below, child_port(child)),
                    member: member as u16,
                    kind: ChildKind::Switch { ranks },
                },
            });
        let children: Vec<Child> = children.collect();
        let world = members.len() as u16;
        let index_at = |parent: usize, child: usize| live(parent).iter().position(|(live, _)| *live == child);
        (!children.is_empty()).then(|| Tree {
            tree_id: stripe + 1,
            generation,
            format: job.format,
            words: job.chunk_words,
            slots: job.slots,
            guard: guard_bits(job.format, world),
            world,
            children,
            parent: switch.parent.map(|(parent, child)| Parent {
                at: self.switch(parent, self.parent_port(index)),
                member: index_at(parent, child).unwrap_or(child) as u16,
            }),
            resend_interval_us: job.resend_interval_us,
        })
    }
}

fn child_port(child: usize) -> u16 {
    child as u16 + 1
}
