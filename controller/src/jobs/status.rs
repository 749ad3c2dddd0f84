//! Jobs as the northbound API shows them.

use std::collections::BTreeMap;

use inca_p4runtime::northbound;
use inca_wire::packet::Format;

use super::plan::Plan;
use super::{Job, Jobs, Phase};
use crate::graph::DeviceId;
use crate::program::SLOTS;
use crate::tree::Node;

impl Jobs {
    /// Open groups, then those closed last.
    pub fn status(&self) -> Vec<northbound::Job> {
        let open = self.jobs.values().map(|open| job(open, |device| self.name(device)));
        let turns = self.turns();
        let places: BTreeMap<_, _> = turns.iter().zip(1u32..).collect();
        let open = self.jobs.iter().zip(open).map(|((id, job), mut shown)| {
            if let (Some(place), Some(reason)) = (places.get(id), job.queue_reason()) {
                shown.queue_position = *place;
                shown.state = format!("queued, place {place} of {}: {reason}", turns.len());
            }
            shown
        });
        open.chain(self.awaited()).chain(self.closed.iter().cloned()).collect()
    }

    /// Slots in use, and slots there are, of a switch.
    pub fn slots(&self, device: DeviceId) -> (u32, u32) {
        (self.pools.get(&device).map_or(0, super::Pool::slots_used), SLOTS)
    }
}

/// Every node of every tree.
pub(super) fn nodes(plan: &Plan, name: impl Fn(DeviceId) -> String) -> Vec<northbound::TreeNode> {
    let node = |tree_id: u16, node: &Node| northbound::TreeNode {
        tree_id: tree_id.into(),
        switch_name: name(node.device),
        parent: node.parent.map(|uplink| name(uplink.to.device)).unwrap_or_default(),
        ranks: node.ranks().map(|(rank, _)| rank.into()).collect(),
        child_switches: node.switches().map(|(device, _)| name(device)).collect(),
        port: node.parent.map_or(0, |uplink| uplink.port.into()),
        parent_port: node.parent.map_or(0, |uplink| uplink.to.port.into()),
    };
    let stripes = plan.stripes.iter();
    stripes.flat_map(|stripe| stripe.tree.nodes.iter().map(|one| node(stripe.tree_id, one))).collect()
}

pub(super) fn job(job: &Job, name: impl Fn(DeviceId) -> String) -> northbound::Job {
    northbound::Job {
        name: job.name.job.clone(),
        group: job.name.group.clone(),
        world_size: job.terms.world.into(),
        format: format(job.terms.format).into(),
        chunk_words: job.terms.words.into(),
        generation: job.generation,
        state: state(job),
        fallback: job.ring.clone().unwrap_or_default(),
        progress: None,
        queue_position: 0,
        joined_ranks: job
            .members
            .iter()
            .filter(|(_, member)| member.is_here)
            .map(|(rank, _)| (*rank).into())
            .collect(),
        tree: job.plan.as_ref().map(|plan| nodes(plan, name)).unwrap_or_default(),
    }
}

fn state(job: &Job) -> String {
    match &job.phase {
        Phase::Waiting { complete: Some((_, reason)), .. } => format!("waiting: {reason}"),
        Phase::Waiting { .. } => {
            let missing: Vec<_> = job.missing().take(16).map(|rank| rank.to_string()).collect();
            match missing.as_slice() {
                [rank] => format!("waiting for rank {rank}"),
                ranks => format!("waiting for ranks {}", ranks.join(", ")),
            }
        }
        Phase::Installing => "installing".to_owned(),
        Phase::Running => match &job.ring {
            None => "running".to_owned(),
            Some(reason) => format!("running without a tree, as a ring of hosts: {reason}"),
        },
        Phase::Changing(change) => change.state(),
        Phase::Draining { .. } => "draining: ranks are leaving".to_owned(),
        Phase::Closing { reason } => format!("closed: {reason}"),
    }
}

/// The API's numbers are those of the packets.
pub(super) fn format(format: Format) -> northbound::Format {
    northbound::Format::try_from(i32::from(u8::from(format))).unwrap_or(northbound::Format::Unspecified)
}
