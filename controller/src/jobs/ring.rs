//! Groups that get no tree and whose ranks agreed on a ring of the hosts instead: nothing of them is in any switch.

use std::net::Ipv4Addr;

use inca_p4runtime::northbound;

use super::{Action, Happening, Job, JobId, Jobs, Note, Phase};
use crate::program::formats::FormatSpec;

impl Jobs {
    /// The ranks of a complete group become a ring, because there is no tree.
    pub(super) fn begin_ring(&mut self, id: JobId, reason: String, actions: &mut Vec<Action>) {
        let generation = self.next_generation();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        tracing::warn!(
            name = %job.name,
            generation,
            world = job.terms.world,
            reason,
            "FALLBACK: no reduction tree, the group runs as a ring of its hosts over tcp"
        );
        let detail = format!("generation {generation}, as a ring of hosts: {reason}");
        self.notes.push(Note::new(&job.name, Happening::GroupReady, detail));
        job.generation = generation;
        job.assigned = Some((generation, generation));
        job.ring = Some(reason);
        job.phase = Phase::Running;
        self.assign(id, actions);
    }

    /// A ring has no other generation to go on in: what would change a group's trees ends it. False if the group has trees.
    pub(super) fn end_ring(
        &mut self,
        id: JobId,
        reason: &str,
        missing: &[u16],
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(job) = self.jobs.get(&id).filter(|job| job.ring.is_some()) else { return false };
        let missing = if missing.is_empty() { job.lost.clone() } else { missing.to_vec() };
        self.close(id, reason.to_owned(), missing, actions);
        true
    }
}

impl Job {
    /// What a rank of a ring is told.
    pub(super) fn ring_assignment(&self) -> Option<northbound::Assignment> {
        let member = |(rank, member): (&u16, &super::Member)| northbound::RingMember {
            rank: (*rank).into(),
            address: member.address.to_string(),
            port: member.ring_port.into(),
        };
        Some(northbound::Assignment {
            generation: self.generation,
            world_size: self.terms.world.into(),
            format: super::status::format(self.terms.format).into(),
            chunk_words: self.terms.words.into(),
            guard_bits: FormatSpec::of(self.terms.format).guard_bits(self.terms.world).into(),
            ring: Some(northbound::Ring {
                reason: self.ring.clone()?,
                members: self.members.iter().map(member).collect(),
            }),
            ..northbound::Assignment::default()
        })
    }

    /// Whether another member of the ring listens there already.
    pub(super) fn ring_clash(&self, address: Ipv4Addr, port: u16) -> Option<u16> {
        let found =
            self.members.iter().find(|(_, member)| (member.address, member.ring_port) == (address, port));
        found.filter(|_| port != 0).map(|(rank, _)| *rank)
    }
}
