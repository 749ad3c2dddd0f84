//! Whom a group waits for: every rank that waits tells what its leaf switch lacks; together that names the stragglers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use inca_p4runtime::northbound::{self, join_event::Event as JoinEvent};

use super::{Action, GroupName, Happening, Jobs, Note, Phase};

/// What a rank told is true for so long; it tells again as long as it waits.
const FRESH: Duration = Duration::from_millis(2500);

/// What ranks that wait have told.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    told: BTreeMap<u16, Stall>,
    /// Whom the ranks were told of last.
    named: BTreeSet<u16>,
}

#[derive(Debug)]
struct Stall {
    at: Instant,
    chunk: u64,
    /// Missing at its own leaf.
    missing: BTreeSet<u16>,
}

impl Stalls {
    /// Ranks that the others wait for: those that a leaf switch lacks; if none is known, those that do not wait, or wait for an
    /// earlier chunk.
    fn stragglers(&self, members: impl Iterator<Item = u16>) -> BTreeSet<u16> {
        let members: BTreeSet<u16> = members.collect();
        let seen: BTreeSet<u16> = self.told.values().flat_map(|stall| &stall.missing).copied().collect();
        if !seen.is_empty() {
            return seen.intersection(&members).copied().collect();
        }
        let furthest = self.told.values().map(|stall| stall.chunk).max();
        let waits = |rank: &u16| self.told.get(rank).is_some_and(|stall| Some(stall.chunk) == furthest);
        members.into_iter().filter(|rank| !waits(rank)).collect()
    }
}

impl Jobs {
    /// A rank waits for long. Tells all ranks of the group whom it waits for, when that is news.
    pub fn stalled(&mut self, now: Instant, request: &northbound::StalledRequest) -> Vec<Action> {
        let name = GroupName { job: request.job.clone(), group: request.group.clone() };
        let running = |job: &&mut super::Job| {
            job.name == name && job.phase == Phase::Running && job.generation == request.generation
        };
        let Some(job) = self.jobs.values_mut().find(running) else { return Vec::new() };
        let shows =
            |rank: &u16| job.members.get(rank).is_some_and(|member| member.is_shown(&request.member_token));
        let Some(rank) = u16::try_from(request.rank).ok().filter(shows) else { return Vec::new() };
        let missing = request.missing_ranks.iter().filter_map(|rank| u16::try_from(*rank).ok()).collect();
        job.stalls.told.retain(|_, stall| now < stall.at + FRESH);
        if job.stalls.told.is_empty() {
            job.stalls.named.clear();
        }
        let stall = Stall { at: now, chunk: request.chunk, missing };
        if job.stalls.told.insert(rank, stall).is_none() {
            // Others will tell too; once all have, the picture is whole.
            return Vec::new();
        }
        let stragglers = job.stalls.stragglers(job.members.keys().copied());
        if stragglers.is_empty() || stragglers == job.stalls.named {
            return Vec::new();
        }
        job.stalls.named = stragglers;
        let missing_ranks: Vec<u32> = job.stalls.named.iter().copied().map(u32::from).collect();
        tracing::warn!(name = %job.name, generation = job.generation, missing = ?missing_ranks, "group waits for ranks");
        let detail = format!("for ranks {missing_ranks:?}");
        self.notes.push(Note::new(&job.name, Happening::GroupWaits, detail));
        let members = job.members.values().filter(|member| member.is_here && member.lost_at.is_none());
        let waiting = northbound::Waiting { missing_ranks, ..Default::default() };
        members.map(|member| Action::Tell(member.id, JoinEvent::Waiting(waiting.clone()))).collect()
    }
}
