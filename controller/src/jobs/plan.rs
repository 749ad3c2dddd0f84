//! The trees of a group: planned, given their part of every switch, and written down as entries.

use std::collections::{BTreeMap, BTreeSet};

use inca_p4runtime::northbound;
use inca_wire::packet::UDP_PORT;
use serde::{Deserialize, Serialize};

use super::pool::{Exhausted, Need, Pool};
use super::{Addresses, Job};
use crate::graph::{Attachment, DeviceId, Graph};
use crate::inventory::TreeSettings;
use crate::program::Entry;
use crate::program::formats::FormatSpec;
use crate::program::node::{Child, Endpoint, Parent, Share, TreeNode};
use crate::tree::{self, Member, Tree, TreeError};

/// The trees of a group, one per stripe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub(super) stripes: Vec<Stripe>,
    /// Where each rank's host is.
    places: BTreeMap<u16, Attachment>,
    slots: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stripe {
    pub(super) tree_id: u16,
    pub(super) tree: Tree,
    /// What each node has of its switch, in the tree's order.
    shares: Vec<(DeviceId, Need, Share)>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(super) enum PlanError {
    Tree(TreeError),
    NoRoom {
        device: DeviceId,
        exhausted: Exhausted,
    },
    /// The tenant has its share of a switch already.
    Share {
        device: DeviceId,
        tenant: String,
        needed: u32,
        used: u32,
        limit: u32,
    },
    /// The tenant has as many groups as it may.
    Groups {
        tenant: String,
        open: usize,
        limit: usize,
    },
    /// Others wait for the same.
    Behind {
        ahead: usize,
        /// For what their tenant, which is the group's too, may have.
        is_own: bool,
    },
    NoTreeId,
    /// The group has ended meanwhile.
    Gone,
}

impl From<TreeError> for PlanError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

impl PlanError {
    /// Whether it may be only that the topology is not known well enough yet.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Tree(error) if error.may_pass())
    }

    pub(super) fn describe(&self, name: impl Fn(DeviceId) -> String) -> String {
        match self {
            Self::Tree(error) => error.describe(name),
            Self::NoRoom { device, exhausted } => {
                format!("{} has no room for the group: {exhausted}", name(*device))
            }
            Self::Share { device, tenant, needed, used, limit } => format!(
                "{}: {needed} slots are needed, the tenant {tenant:?} uses {used} there and may use {limit}",
                name(*device)
            ),
            Self::Groups { tenant, open, limit } => {
                format!("the tenant {tenant:?} has {open} groups, and may have {limit} at once")
            }
            Self::Behind { ahead, .. } => {
                format!("{ahead} groups wait in the queue for the same switches or tenant, and come first")
            }
            Self::NoTreeId => "all tree ids are in use".to_owned(),
            Self::Gone => "the group has ended".to_owned(),
        }
    }
}

impl Plan {
    /// Plans one tree per stripe, each with another root, as long as there is another one as good.
    pub(super) fn new(job: &Job, graph: &Graph, settings: &TreeSettings) -> Result<Self, PlanError> {
        let members: Vec<Member> = job
            .members
            .iter()
            .map(|(rank, member)| Member { rank: *rank, address: member.address })
            .collect();
        let mut roots = BTreeSet::new();
        let mut stripes = Vec::new();
        // The number of trees is fixed for a group's life, so a later generation may have two with one root.
        let fixed = job.resume.as_ref().map(|resume| resume.trees());
        for _ in 0..fixed.unwrap_or(settings.stripes.into()) {
            let tree = tree::plan(graph, &members, &roots)?;
            let root = tree.root().map(|node| node.device);
            let Some(root) = root.filter(|root| roots.insert(*root) || fixed.is_some()) else {
                break;
            };
            tracing::debug!(name = %job.name, root, levels = tree.levels(), "tree planned");
            stripes.push(Stripe { tree_id: 0, tree, shares: Vec::new() });
        }
        let places = job
            .members
            .iter()
            .filter_map(|(rank, member)| Some((*rank, graph.host(member.address)?)))
            .collect();
        Ok(Self { stripes, places, slots: settings.slots_per_tree }.with_needs(job))
    }

    /// As [`Self::new`], but around switches that have no room left, and through them where there is no way around. If that does not
    /// help either, the plan is the first one, which then finds no room.
    pub(super) fn with_room(
        job: &Job,
        graph: &Graph,
        settings: &TreeSettings,
        pools: &BTreeMap<DeviceId, Pool>,
    ) -> Result<Self, PlanError> {
        let first = Self::new(job, graph, settings)?;
        let full = first.full(pools);
        if full.is_empty() {
            return Ok(first);
        }
        let mut around = graph.clone();
        full.iter().for_each(|device| around.remove_switch(*device));
        let others = [Self::new(job, &around, settings).ok(), first.clone().passing(job, graph, &full)];
        Ok(others.into_iter().flatten().find(|plan| plan.full(pools).is_empty()).unwrap_or(first))
    }

    /// Switches that have no room for their nodes.
    fn full(&self, pools: &BTreeMap<DeviceId, Pool>) -> BTreeSet<DeviceId> {
        let mut used: BTreeMap<DeviceId, Pool> = BTreeMap::new();
        let mut full = BTreeSet::new();
        for (device, need) in self.needs() {
            let pool =
                used.entry(device).or_insert_with(|| pools.get(&device).cloned().unwrap_or_else(Pool::new));
            if pool.take(need).is_err() {
                full.insert(device);
            }
        }
        full
    }

    /// The same trees through these switches.
    fn passing(mut self, job: &Job, graph: &Graph, full: &BTreeSet<DeviceId>) -> Option<Self> {
        for stripe in &mut self.stripes {
            for device in full {
                if stripe.tree.node(*device).is_some() {
                    stripe.tree = stripe.tree.passing(graph, *device)?;
                }
            }
        }
        tracing::debug!(name = %job.name, ?full, "planned through switches without room");
        Some(self.with_needs(job))
    }

    /// Notes what every node will need; the shares themselves are taken later, all or none.
    fn with_needs(mut self, job: &Job) -> Self {
        for stripe in &mut self.stripes {
            stripe.shares = stripe
                .tree
                .nodes
                .iter()
                .map(|node| {
                    let need = Need {
                        slots: self.slots,
                        words: job.terms.words,
                        children: node.children.len(),
                        is_root: node.parent.is_none(),
                    };
                    let nothing =
                        Share { first_slot: 0, first_word: 0, first_replica: 0, down_group: 0, up_group: 0 };
                    (node.device, need, nothing)
                })
                .collect();
        }
        self
    }

    /// Takes tree ids and a share of every switch, or nothing at all.
    pub(super) fn take(
        &mut self,
        pools: &mut BTreeMap<DeviceId, Pool>,
        next_tree_id: &mut u16,
        is_used: impl Fn(u16) -> bool,
    ) -> Result<(), PlanError> {
        let mut taken: Vec<(DeviceId, Need, Share)> = Vec::new();
        let mut result = Ok(());
        'all: for stripe in &mut self.stripes {
            let ids = (0..u16::MAX).map(|step| (*next_tree_id - 1).wrapping_add(step) % u16::MAX + 1);
            let Some(tree_id) = ids.into_iter().find(|id| !is_used(*id)) else {
                result = Err(PlanError::NoTreeId);
                break 'all;
            };
            stripe.tree_id = tree_id;
            *next_tree_id = tree_id % u16::MAX + 1;
            for (device, need, share) in &mut stripe.shares {
                let pool = pools.entry(*device).or_insert_with(Pool::new);
                match pool.take(*need) {
                    Ok(given) => {
                        *share = given;
                        taken.push((*device, *need, given));
                    }
                    Err(exhausted) => {
                        result = Err(PlanError::NoRoom { device: *device, exhausted });
                        break 'all;
                    }
                }
            }
        }
        if result.is_err() {
            for (device, need, share) in taken {
                pools.entry(device).or_insert_with(Pool::new).give_back(need, share);
            }
        }
        result
    }

    /// Takes exactly the shares that the plan has, all or none: an earlier controller had taken them.
    pub(super) fn reserve(&self, pools: &mut BTreeMap<DeviceId, Pool>) -> bool {
        let mut reserved = pools.clone();
        for (device, need, share) in self.stripes.iter().flat_map(|stripe| &stripe.shares) {
            if !reserved.get_mut(device).is_some_and(|pool| pool.reserve(*need, *share)) {
                return false;
            }
        }
        *pools = reserved;
        true
    }

    /// Gives back everything that was taken.
    pub(super) fn give_back(self, pools: &mut BTreeMap<DeviceId, Pool>) {
        for (device, need, share) in self.stripes.into_iter().flat_map(|stripe| stripe.shares) {
            pools.entry(device).or_insert_with(Pool::new).give_back(need, share);
        }
    }

    /// Slots of each tree.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn has_tree(&self, tree_id: u16) -> bool {
        self.stripes.iter().any(|stripe| stripe.tree_id == tree_id)
    }

    /// What it needs of each switch, stripe by stripe.
    pub(super) fn needs(&self) -> impl Iterator<Item = (DeviceId, Need)> + '_ {
        self.stripes.iter().flat_map(|stripe| stripe.shares.iter().map(|(device, need, _)| (*device, *need)))
    }

    /// Every switch that takes part.
    pub(super) fn devices(&self) -> Vec<DeviceId> {
        let devices: BTreeSet<_> =
            self.stripes.iter().flat_map(|stripe| stripe.shares.iter().map(|(device, ..)| *device)).collect();
        devices.into_iter().collect()
    }

    /// What every switch is to hold, children before parents.
    pub(super) fn nodes(
        &self,
        job: &Job,
        addresses: &Addresses,
        settings: &TreeSettings,
    ) -> Vec<(DeviceId, Vec<Entry>)> {
        let mut nodes: Vec<(DeviceId, Vec<Entry>)> = Vec::new();
        for stripe in &self.stripes {
            for (node, (device, _, share)) in stripe.tree.nodes.iter().zip(&stripe.shares) {
                let Some(own) = addresses.service(*device) else { continue };
                let node = TreeNode {
                    tree_id: stripe.tree_id,
                    generation: job.generation,
                    format: job.terms.format,
                    world: job.size(),
                    slots: self.slots,
                    words: job.terms.words,
                    resend_interval: settings.resend_interval.as_micros().min(u32::MAX.into()) as u32,
                    share: *share,
                    own,
                    children: self.children(job, addresses, node),
                    parent: node.parent.and_then(|uplink| {
                        let to = addresses.service(uplink.to.device)?;
                        Some(Parent { port: uplink.port, to, index: uplink.index })
                    }),
                };
                match nodes.iter_mut().find(|(other, _)| other == device) {
                    Some((_, entries)) => entries.extend(node.entries()),
                    None => nodes.push((*device, node.entries())),
                }
            }
        }
        nodes
    }

    fn children(&self, job: &Job, addresses: &Addresses, node: &tree::Node) -> Vec<Child> {
        let child = |child: &tree::Child| match *child {
            tree::Child::Rank { rank, port } => {
                let member = job.members.get(&rank)?;
                let to = Endpoint { mac: self.places.get(&rank)?.mac, ip: member.address };
                Some(Child::Host { rank, port, to, udp_port: member.udp_port })
            }
            tree::Child::Switch { device, port } => {
                Some(Child::Switch { port, to: addresses.service(device)? })
            }
        };
        node.children.iter().filter_map(child).collect()
    }

    /// What the trees need and the topology no longer has.
    pub(super) fn broken(&self, graph: &Graph, name: impl Fn(DeviceId) -> String) -> Option<String> {
        for device in self.devices() {
            if !graph.has_switch(device) {
                return Some(format!("switch {} is unreachable", name(device)));
            }
        }
        for (from, to) in self.stripes.iter().flat_map(|stripe| stripe.tree.links()) {
            // Both ways, since a switch in between may have another one back.
            if !graph.leads_to(from, to) || !graph.leads_to(to, from) {
                let (a, b) = (name(from.device), name(to.device));
                return Some(format!("the link from {a} port {} to {b} port {} is down", from.port, to.port));
            }
        }
        self.places.iter().find_map(|(rank, place)| {
            let moved = !graph.hosts().any(|(_, attachment)| attachment == *place);
            moved.then(|| {
                format!(
                    "the host of rank {rank} is no longer at {} port {}",
                    name(place.at.device),
                    place.at.port
                )
            })
        })
    }
}

impl Job {
    /// What a rank is told once everything is installed.
    pub(super) fn assignment(
        &self,
        rank: u16,
        addresses: &Addresses,
        name: impl Fn(DeviceId) -> String,
    ) -> Option<northbound::Assignment> {
        if self.ring.is_some() {
            return self.ring_assignment();
        }
        let plan = self.plan.as_ref()?;
        let trees = plan.stripes.iter().filter_map(|stripe| {
            let leaf = stripe.tree.leaf_of(rank)?;
            let below = |child: &tree::Child| northbound::LeafChild {
                ranks: match *child {
                    tree::Child::Rank { rank, .. } => vec![rank.into()],
                    tree::Child::Switch { device, .. } => stripe.tree.ranks_below(device),
                },
            };
            Some(northbound::TreeAssignment {
                tree_id: stripe.tree_id.into(),
                member: rank.into(),
                slots: plan.slots,
                service_address: addresses.service(leaf.device)?.ip.to_string(),
                service_port: UDP_PORT.into(),
                levels: stripe.tree.levels(),
                leaf: name(leaf.device),
                leaf_port: self.places_port(rank).into(),
                leaf_children: leaf.children.iter().map(below).collect(),
            })
        });
        Some(northbound::Assignment {
            generation: self.generation,
            world_size: self.size().into(),
            format: super::status::format(self.terms.format).into(),
            chunk_words: self.terms.words.into(),
            guard_bits: FormatSpec::of(self.terms.format).guard_bits(self.size()).into(),
            trees: trees.collect(),
            members: self.members.keys().copied().map(u32::from).collect(),
            resume: self.resume.as_ref().map(|agreement| agreement.resume(rank)),
            ring: None,
        })
    }

    fn places_port(&self, rank: u16) -> u16 {
        self.place(rank).map_or(0, |place| place.at.port)
    }

    /// Where a rank's host is attached, as the plan has it.
    pub(super) fn place(&self, rank: u16) -> Option<Attachment> {
        self.plan.as_ref()?.places.get(&rank).copied()
    }
}
