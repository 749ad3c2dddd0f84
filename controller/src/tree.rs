//! Planning a reduction tree: which switches add up what, for ranks at given places.
//!
//! Every switch between a rank and the root is a node of the tree, so a sum never travels further than one link before it is
//! added to (or, in a chain, stored): every hop heals losses by itself, and the ingress port of each packet is known.
//!
//! The root is the switch with the fewest hops to the furthest rank, then with the fewest links in its tree, then with the
//! fewest children, then the lowest device id. Levels below are shortest paths to the root; where several parents are equally
//! near, those that collect most children win, within [`MAX_CHILDREN`] a switch.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::graph::{DeviceId, Graph, Port};
use crate::program::MAX_CHILDREN;

#[cfg(test)]
mod tests;

/// A rank as planning sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The rank in its group.
    pub rank: u16,
    /// Data-plane address of its host.
    pub address: Ipv4Addr,
}

/// A reduction tree: every node once, children before parents, the root last.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tree {
    /// The nodes, leaves first.
    pub nodes: Vec<Node>,
}

/// A switch of a tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Node {
    /// The switch.
    pub device: DeviceId,
    /// How it reaches its parent; `None` at the root.
    pub parent: Option<Uplink>,
    /// What it adds up, by child index: the bit in the slots' bitmaps.
    pub children: Vec<Child>,
}

/// The link to the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Uplink {
    /// Own port.
    pub port: u16,
    /// The parent's end.
    pub to: Port,
    /// This switch's child index there.
    pub index: u16,
}

/// A child of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Child {
    /// A rank.
    Rank {
        /// The rank.
        rank: u16,
        /// Own port.
        port: u16,
    },
    /// A switch below.
    Switch {
        /// The switch.
        device: DeviceId,
        /// Own port.
        port: u16,
    },
}

/// Why there is no tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeError {
    /// No ranks.
    NoMembers,
    /// The same rank twice.
    RankTwice(u16),
    /// Hosts that no switch has seen.
    UnknownHosts(Vec<(u16, Ipv4Addr)>),
    /// The ranks are in parts of the network without a link between them.
    Partitioned(Vec<Part>),
    /// More ranks at one switch than it has bits for.
    TooManyRanks {
        /// The switch.
        device: DeviceId,
        /// Ranks attached to it.
        ranks: usize,
    },
    /// Some switch would need more children than it has bits for, whichever switch is the root.
    TooManyChildren {
        /// The best root.
        root: DeviceId,
        /// The switch left over.
        device: DeviceId,
    },
}

/// One part of a partitioned network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its switches.
    pub devices: Vec<DeviceId>,
    /// The group's ranks there.
    pub ranks: Vec<u16>,
}

impl TreeError {
    /// Whether the topology, once better known, may have a tree.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::UnknownHosts(_) | Self::Partitioned(_))
    }

    /// The message, switches called by these names.
    pub fn describe(&self, name: impl Fn(DeviceId) -> String) -> String {
        match self {
            Self::NoMembers => "a tree needs at least one rank".to_owned(),
            Self::RankTwice(rank) => format!("rank {rank} is given twice"),
            Self::UnknownHosts(hosts) => {
                let hosts: Vec<_> =
                    hosts.iter().map(|(rank, address)| format!("host {address} of rank {rank}")).collect();
                format!("no switch has seen {}", hosts.join(", "))
            }
            Self::Partitioned(parts) => {
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| {
                        let names: Vec<_> = part.devices.iter().map(|device| name(*device)).collect();
                        format!("ranks {:?} are at {}", part.ranks, names.join(", "))
                    })
                    .collect();
                format!("the network is partitioned: {}", parts.join("; "))
            }
            Self::TooManyRanks { device, ranks } => {
                format!("{} has {ranks} ranks of the group: at most {MAX_CHILDREN}", name(*device))
            }
            Self::TooManyChildren { root, device } => format!(
                "no tree gives every switch at most {MAX_CHILDREN} children; with root {}, no parent has room left for {}",
                name(*root),
                name(*device)
            ),
        }
    }
}

impl std::fmt::Display for TreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe(|device| format!("switch {device}")))
    }
}

impl std::error::Error for TreeError {}

/// Plans the tree of these members. `avoid`: roots that are taken only if no other is as near to the ranks; further stripes of a
/// group pass the roots of the earlier ones.
pub fn plan(graph: &Graph, members: &[Member], avoid: &BTreeSet<DeviceId>) -> Result<Tree, TreeError> {
    let places = place(graph, members)?;
    let leaves: BTreeSet<DeviceId> = places.keys().copied().collect();
    let reachable = graph.distances(*leaves.first().ok_or(TreeError::NoMembers)?);
    if !leaves.iter().all(|leaf| reachable.contains_key(leaf)) {
        return Err(partitioned(graph, &places));
    }
    // Links fail in one direction too, but a graph has only those that carry both, so distances are symmetric.
    let mut best: Option<(Rating, Parents)> = None;
    let mut failed: Option<(u32, TreeError)> = None;
    let mut candidates: Vec<(u32, DeviceId)> = reachable
        .keys()
        .map(|&root| {
            let distances = graph.distances(root);
            let depth = leaves.iter().filter_map(|leaf| distances.get(leaf)).max();
            (depth.copied().unwrap_or(u32::MAX), root)
        })
        .collect();
    candidates.sort_unstable();
    for (depth, root) in candidates {
        // Sorted by depth: a deeper root can't win any more.
        if best.as_ref().is_some_and(|(rating, _)| depth > rating.depth) {
            break;
        }
        match parents(graph, &places, root) {
            Ok(parents) => {
                let rating = Rating::of(&parents, &places, root, depth, avoid);
                if best.as_ref().is_none_or(|(other, _)| rating < *other) {
                    best = Some((rating, parents));
                }
            }
            Err(error) if failed.as_ref().is_none_or(|(other, _)| depth < *other) => {
                failed = Some((depth, error))
            }
            Err(_) => {}
        }
    }
    match (best, failed) {
        (Some((rating, parents)), _) => Ok(build(graph, &places, rating.root, &parents)),
        (None, Some((_, error))) => Err(error),
        (None, None) => Err(TreeError::NoMembers),
    }
}

/// Ranks with their ports, by switch.
type Places = BTreeMap<DeviceId, Vec<(u16, u16)>>;
/// The parent of every switch in a tree but the root.
type Parents = BTreeMap<DeviceId, DeviceId>;

fn place(graph: &Graph, members: &[Member]) -> Result<Places, TreeError> {
    let mut seen = BTreeSet::new();
    let mut places = Places::new();
    let mut unknown = Vec::new();
    for member in members {
        if !seen.insert(member.rank) {
            return Err(TreeError::RankTwice(member.rank));
        }
        match graph.host(member.address).filter(|attachment| graph.has_switch(attachment.at.device)) {
            Some(attachment) => {
                places.entry(attachment.at.device).or_default().push((member.rank, attachment.at.port));
            }
            None => unknown.push((member.rank, member.address)),
        }
    }
    if !unknown.is_empty() {
        return Err(TreeError::UnknownHosts(unknown));
    }
    for (device, ranks) in &mut places {
        if ranks.len() > MAX_CHILDREN {
            return Err(TreeError::TooManyRanks { device: *device, ranks: ranks.len() });
        }
        ranks.sort_unstable();
    }
    Ok(places)
}

fn partitioned(graph: &Graph, places: &Places) -> TreeError {
    let parts = graph.components().into_iter().filter_map(|component| {
        let mut ranks: Vec<u16> = component
            .iter()
            .filter_map(|device| places.get(device))
            .flat_map(|ranks| ranks.iter().map(|(rank, _)| *rank))
            .collect();
        ranks.sort_unstable();
        (!ranks.is_empty()).then(|| Part { devices: component.into_iter().collect(), ranks })
    });
    TreeError::Partitioned(parts.collect())
}

/// How good a tree is: less is better.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rating {
    depth: u32,
    avoided: bool,
    links: usize,
    most_children: usize,
    root: DeviceId,
}

impl Rating {
    fn of(
        parents: &Parents,
        places: &Places,
        root: DeviceId,
        depth: u32,
        avoid: &BTreeSet<DeviceId>,
    ) -> Self {
        let mut children: BTreeMap<DeviceId, usize> =
            places.iter().map(|(device, ranks)| (*device, ranks.len())).collect();
        for parent in parents.values() {
            *children.entry(*parent).or_default() += 1;
        }
        let most_children = children.values().copied().max().unwrap_or(0);
        Self { depth, avoided: avoid.contains(&root), links: parents.len(), most_children, root }
    }
}

/// Chooses a parent for every switch that is needed, from the furthest level to the root.
fn parents(graph: &Graph, places: &Places, root: DeviceId) -> Result<Parents, TreeError> {
    let distances = graph.distances(root);
    let mut levels: BTreeMap<u32, BTreeSet<DeviceId>> = BTreeMap::new();
    for leaf in places.keys() {
        levels.entry(distances[leaf]).or_default().insert(*leaf);
    }
    let mut parents = Parents::new();
    // Inserting parents into the level above as it is reached: the map's last key goes down by one each time.
    while let Some((level, mut orphans)) = levels.pop_last() {
        if level == 0 {
            break;
        }
        let mut candidates: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
        for &orphan in &orphans {
            for next in graph.neighbours(orphan) {
                if distances.get(&next) == Some(&(level - 1)) {
                    candidates.entry(next).or_default().insert(orphan);
                }
            }
        }
        let above = levels.entry(level - 1).or_default();
        while let Some(&first) = orphans.first() {
            let room =
                |device: &DeviceId| MAX_CHILDREN.saturating_sub(places.get(device).map_or(0, Vec::len));
            let gain = |device: &DeviceId, takes: &BTreeSet<DeviceId>| {
                (takes.len().min(room(device)), above.contains(device), std::cmp::Reverse(*device))
            };
            let best = candidates
                .iter()
                .filter(|(device, takes)| !takes.is_empty() && room(device) > 0)
                .max_by_key(|(device, takes)| gain(device, takes))
                .map(|(device, takes)| {
                    (*device, takes.iter().copied().take(room(device)).collect::<Vec<_>>())
                });
            let Some((parent, taken)) = best else {
                return Err(TreeError::TooManyChildren { root, device: first });
            };
            candidates.remove(&parent);
            above.insert(parent);
            for child in taken {
                orphans.remove(&child);
                parents.insert(child, parent);
                for takes in candidates.values_mut() {
                    takes.remove(&child);
                }
            }
        }
    }
    Ok(parents)
}

/// Numbers children, ranks first, and picks a port for every link.
fn build(graph: &Graph, places: &Places, root: DeviceId, parents: &Parents) -> Tree {
    let mut below: BTreeMap<DeviceId, Vec<DeviceId>> = BTreeMap::new();
    for (child, parent) in parents {
        below.entry(*parent).or_default().push(*child);
    }
    // From the root down, then turned around: children come before their parents.
    let mut nodes = Vec::new();
    let mut pending = vec![(root, None)];
    while let Some((device, parent)) = pending.pop() {
        let ranks = places.get(&device).into_iter().flatten();
        let mut children: Vec<Child> = ranks.map(|&(rank, port)| Child::Rank { rank, port }).collect();
        for &child in below.get(&device).into_iter().flatten() {
            // Parallel links: the lowest port. A parent is a neighbour, so there is one.
            let Some((port, end)) = graph.links_between(device, child).next() else { continue };
            let uplink = Uplink { port: end.port, to: Port { device, port }, index: children.len() as u16 };
            children.push(Child::Switch { device: child, port });
            pending.push((child, Some(uplink)));
        }
        nodes.push(Node { device, parent, children });
    }
    nodes.reverse();
    Tree { nodes }
}

impl Tree {
    /// The same tree with a switch passed through: it adds up nothing, and its children reach its parent, or one of them at the root,
    /// as ordinary traffic does. `None` where that is not sure to arrive at the port where it is expected: its ranks are there, a
    /// neighbour is passed through as well, there are parallel links, or the parent has no room for the children.
    pub fn passing(&self, graph: &Graph, device: DeviceId) -> Option<Self> {
        let passed = self.node(device)?.clone();
        let below: Vec<(DeviceId, u16)> = passed.switches().collect();
        if passed.ranks().next().is_some() || below.is_empty() {
            return None;
        }
        let mut nodes = self.nodes.clone();
        nodes.retain(|node| node.device != device);
        // Who takes its place, by which port, and who is below then.
        let (above, port, orphans) = match passed.parent {
            Some(uplink) => {
                let parent = nodes.iter_mut().find(|node| node.device == uplink.to.device)?;
                parent.children.retain(
                    |child| !matches!(child, Child::Switch { device: other, .. } if *other == device),
                );
                (uplink.to.device, uplink.to.port, below)
            }
            None => {
                // The child with most below stays where it is.
                let size = |(child, _): &&(DeviceId, u16)| {
                    (
                        nodes.iter().find(|node| node.device == *child).map_or(0, |node| node.children.len()),
                        std::cmp::Reverse(*child),
                    )
                };
                let (chosen, _) = *below.iter().max_by_key(size)?;
                let root = nodes.iter_mut().find(|node| node.device == chosen)?;
                let port = root.parent.take()?.port;
                (chosen, port, below.into_iter().filter(|(child, _)| *child != chosen).collect())
            }
        };
        let to = Port { device: above, port };
        for (child, _) in orphans {
            nodes
                .iter_mut()
                .find(|node| node.device == above)?
                .children
                .push(Child::Switch { device: child, port });
            let node = nodes.iter_mut().find(|node| node.device == child)?;
            let own = node.parent?.port;
            let from = Port { device: child, port: own };
            if !graph.leads_to(from, to) || !graph.leads_to(to, from) {
                return None;
            }
            node.parent = Some(Uplink { port: own, to, index: 0 });
        }
        // Indices follow the children's order.
        let parent = nodes.iter().find(|node| node.device == above)?;
        if parent.children.len() > MAX_CHILDREN {
            return None;
        }
        let index: BTreeMap<DeviceId, u16> = (0..)
            .zip(&parent.children)
            .filter_map(|(index, child)| match child {
                Child::Switch { device, .. } => Some((*device, index)),
                Child::Rank { .. } => None,
            })
            .collect();
        for node in &mut nodes {
            if let Some(uplink) = node.parent.as_mut().filter(|uplink| uplink.to.device == above) {
                uplink.index = *index.get(&node.device)?;
            }
        }
        // Children before parents: the new root goes last.
        let at = nodes.iter().position(|node| node.parent.is_none())?;
        let root = nodes.remove(at);
        nodes.push(root);
        Some(Self { nodes })
    }

    /// The root.
    pub fn root(&self) -> Option<&Node> {
        self.nodes.last()
    }

    /// The node at a switch.
    pub fn node(&self, device: DeviceId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.device == device)
    }

    /// The node that a rank sends to.
    pub fn leaf_of(&self, rank: u16) -> Option<&Node> {
        let is_rank = |child: &Child| matches!(child, Child::Rank { rank: other, .. } if *other == rank);
        self.nodes.iter().find(|node| node.children.iter().any(is_rank))
    }

    /// Ranks below a switch of the tree, in order.
    pub fn ranks_below(&self, device: DeviceId) -> Vec<u32> {
        let (mut ranks, mut pending) = (Vec::new(), vec![device]);
        while let Some(node) = pending.pop().and_then(|device| self.node(device)) {
            ranks.extend(node.ranks().map(|(rank, _)| u32::from(rank)));
            pending.extend(node.switches().map(|(device, _)| device));
        }
        ranks.sort_unstable();
        ranks
    }

    /// Switches from the root to its furthest leaf, both counted.
    pub fn levels(&self) -> u32 {
        let mut levels: BTreeMap<DeviceId, u32> = BTreeMap::new();
        for node in self.nodes.iter().rev() {
            let above = node.parent.and_then(|uplink| levels.get(&uplink.to.device)).copied().unwrap_or(0);
            levels.insert(node.device, above + 1);
        }
        levels.into_values().max().unwrap_or(0)
    }

    /// Both ends of every link the tree uses.
    pub fn links(&self) -> impl Iterator<Item = (Port, Port)> + '_ {
        self.nodes.iter().filter_map(|node| {
            let uplink = node.parent?;
            Some((Port { device: node.device, port: uplink.port }, uplink.to))
        })
    }
}

impl Node {
    /// Ranks attached here, with their ports.
    pub fn ranks(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.children.iter().filter_map(|child| match child {
            Child::Rank { rank, port } => Some((*rank, *port)),
            Child::Switch { .. } => None,
        })
    }

    /// Switches below, with the ports to them.
    pub fn switches(&self) -> impl Iterator<Item = (DeviceId, u16)> + '_ {
        self.children.iter().filter_map(|child| match child {
            Child::Switch { device, port } => Some((*device, *port)),
            Child::Rank { .. } => None,
        })
    }
}
