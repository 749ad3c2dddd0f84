//! How a group's generation ends: "Generation change" of `docs/protocol.md`.
//!
//! An attempt closes the generation, collects where every rank is, has chunks that only some have finished handed over, and then
//! either opens the next generation with other trees or ends the group, so that what succeeded at one rank succeeds at all.
//! Whatever goes wrong meanwhile begins another attempt, with a higher number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use inca_p4runtime::northbound::{self, KeptChunk, SlotIndex, join_event::Event as JoinEvent};
use thiserror::Error;

use super::{Action, GroupName, Happening, Job, JobId, Jobs, Note, Phase, Work, gone};
use crate::inventory::FailureSettings;

/// Between two attempts to install trees, after one failed.
const RETRY: Duration = Duration::from_millis(100);

/// What an attempt is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    /// The group goes on.
    GoOn,
    /// It ends: for this reason, without these ranks.
    End { reason: String, missing: Vec<u16> },
}

/// An attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    goal: Goal,
    reason: String,
    /// The generation to come.
    attempt: u32,
    /// When the ranks were asked last.
    asked: Instant,
    /// Trees are not planned before, if that is to come.
    not_before: Option<Instant>,
    /// Per rank, how many chunks of each slot are finished.
    reports: BTreeMap<u16, Vec<u64>>,
    /// Ranks that were asked for chunks and have not answered, with the places.
    fetching: BTreeMap<u16, Vec<usize>>,
    /// Chunks that were handed over, by place.
    chunks: BTreeMap<usize, KeptChunk>,
    /// Why there is no tree.
    no_tree: Option<String>,
}

/// What a rank said when it left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Account {
    finished: Vec<u64>,
    kept: Vec<KeptChunk>,
}

/// Where a generation begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Agreement {
    reason: String,
    trees: usize,
    finished: Vec<u64>,
    copies: BTreeMap<u16, Vec<KeptChunk>>,
}

/// A report or chunks that fit nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReportError {
    /// The group is not between two generations, or in another attempt.
    #[error("{name}: attempt {attempt} is not going on, or rank {rank} has no part in it")]
    Stale {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u32,
        /// What it answered to.
        attempt: u32,
    },
    /// Another number of slots than the group's.
    #[error("{name}: rank {rank} reports {given} slots, the group has {expected}")]
    Slots {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u32,
        /// Slots reported.
        given: usize,
        /// Slots there are.
        expected: usize,
    },
    /// The token is not that of the rank's membership.
    #[error("{name}: the member token given is not that of rank {rank}")]
    Token {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u32,
    },
}

impl Account {
    /// `None` if it says nothing.
    pub(super) fn of(finished: &[u64], kept: &[KeptChunk]) -> Option<Self> {
        (!finished.is_empty()).then(|| Self { finished: finished.to_vec(), kept: kept.to_vec() })
    }
}

impl Agreement {
    /// Trees of the group.
    pub(super) fn trees(&self) -> usize {
        self.trees
    }

    /// What a rank is told.
    pub(super) fn resume(&self, rank: u16) -> northbound::Resume {
        northbound::Resume {
            reason: self.reason.clone(),
            finished: self.finished.clone(),
            copies: self.copies.get(&rank).cloned().unwrap_or_default(),
        }
    }
}

impl Change {
    pub(super) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Whether a rank has not answered yet.
    fn awaits(&self, rank: u16) -> bool {
        !self.reports.contains_key(&rank) || self.fetching.contains_key(&rank)
    }

    pub(super) fn stop(&self) -> JoinEvent {
        JoinEvent::Stop(northbound::Stop { attempt: self.attempt, reason: self.reason.clone() })
    }

    pub(super) fn state(&self) -> String {
        let what = match (&self.goal, &self.no_tree) {
            (Goal::End { .. }, _) => "ending",
            (Goal::GoOn, None) => "changing trees",
            (Goal::GoOn, Some(_)) => "waiting for a tree",
        };
        let reason = self.no_tree.as_ref().unwrap_or(&self.reason);
        format!("{what}: {reason}")
    }

    /// A rank lost its stream: what it was asked for is asked again.
    pub(super) fn forget_answers_of(&mut self, rank: u16) {
        self.reports.remove(&rank);
        self.fetching.remove(&rank);
    }
}

impl Job {
    /// Whether it does not go on.
    pub(super) fn is_ending(&self) -> bool {
        matches!(&self.phase, Phase::Changing(Change { goal: Goal::End { .. }, .. }))
    }

    /// When an attempt needs [`Jobs::tick`].
    pub(super) fn change_timeout(&self, change: &Change, settings: &FailureSettings) -> Option<Instant> {
        let live = self.members.iter().filter(|(_, member)| member.is_here);
        let awaited = live.filter(|(rank, _)| change.awaits(**rank));
        // The first one that may be given up; one that has yet to come back is given until then.
        let patience = change.asked + settings.report_timeout;
        if let Some(at) =
            awaited.map(|(_, member)| member.lost_at.map_or(patience, |at| at.max(patience))).min()
        {
            return Some(at);
        }
        match (&change.no_tree, self.work) {
            (Some(_), _) => Some(self.unsettled.unwrap_or(change.asked) + settings.patience),
            (None, _) => change.not_before,
        }
    }
}

impl Jobs {
    /// Something that a group needs is gone: it goes on with other trees if it can.
    pub(super) fn broken(&mut self, now: Instant, id: JobId, reason: String, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match job.phase {
            // Ranks that left can't take part in another generation.
            Phase::Draining { .. } => self.end(now, id, reason, Vec::new(), actions),
            Phase::Installing if job.assigned.is_none() => {
                job.phase = Phase::Waiting { told: now, complete: Some((now, reason)) };
                self.clear(id, actions);
            }
            _ => self.begin(now, id, Goal::GoOn, reason, actions),
        }
    }

    /// A group ends, once it is known what every rank has finished.
    pub(super) fn end(
        &mut self,
        now: Instant,
        id: JobId,
        reason: String,
        missing: Vec<u16>,
        actions: &mut Vec<Action>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match &mut job.phase {
            Phase::Closing { .. } => {}
            _ if job.assigned.is_none() => self.close(id, reason, missing, actions),
            Phase::Changing(Change { goal: Goal::End { missing: all, .. }, .. }) => {
                all.extend(missing);
                self.advance_change(now, id, actions);
            }
            _ => {
                let goal = Goal::End { reason: reason.clone(), missing };
                self.begin(now, id, goal, reason, actions);
            }
        }
    }

    /// A rank is dead: the group ends, or goes on without it.
    pub(super) fn dead(
        &mut self,
        now: Instant,
        id: JobId,
        rank: u16,
        reason: String,
        actions: &mut Vec<Action>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(member) = job.members.get_mut(&rank).filter(|member| member.is_here) else { return };
        tracing::warn!(name = %job.name, rank, reason, "rank is dead");
        self.notes.push(Note::new(&job.name, Happening::RankLost, reason.clone()).of_rank(rank));
        member.is_here = false;
        if member.lost_at.take().is_none() {
            self.by_member.remove(&member.id);
            actions.push(Action::End(member.id));
        }
        let is_ending = matches!(
            job.phase,
            Phase::Draining { .. }
                | Phase::Closing { .. }
                | Phase::Changing(Change { goal: Goal::End { .. }, .. })
        );
        let survivors = job.members.values().any(|member| member.is_here);
        if job.terms.shrinks && job.assigned.is_some() && !is_ending && survivors {
            job.members.remove(&rank);
            job.lost.push(rank);
            self.begin(now, id, Goal::GoOn, reason, actions);
        } else {
            self.end(now, id, reason, vec![rank], actions);
        }
    }

    /// Ranks whose streams ended too long ago are dead.
    pub(super) fn bury(&mut self, now: Instant, id: JobId, actions: &mut Vec<Action>) {
        while let Some(job) = self.jobs.get(&id)
            && let Some((rank, reason)) = job.members.iter().find_map(|(rank, member)| {
                let over = member.lost_at.is_some_and(|at| now >= at + self.failure.attach_grace);
                (over && member.is_here).then(|| (*rank, gone(*rank, member)))
            })
        {
            self.dead(now, id, rank, reason, actions);
        }
    }

    /// Begins an attempt: stops the ranks, clears the switches.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        id: JobId,
        goal: Goal,
        reason: String,
        actions: &mut Vec<Action>,
    ) {
        let missing = match &goal {
            Goal::End { missing, .. } => missing.as_slice(),
            Goal::GoOn => &[],
        };
        if self.end_ring(id, &reason, missing, actions) {
            return;
        }
        let attempt = self.next_generation();
        if matches!(goal, Goal::End { .. }) {
            self.unname(id);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        tracing::info!(name = %job.name, generation = job.generation, attempt, reason, "generation is closed");
        self.notes.push(Note::new(&job.name, Happening::GroupStopped, reason.clone()));
        let is_first = job.unsettled.is_none();
        job.unsettled.get_or_insert(now);
        let change = Change {
            goal,
            reason,
            attempt,
            asked: now,
            not_before: (!is_first).then(|| now + RETRY),
            reports: BTreeMap::new(),
            fetching: BTreeMap::new(),
            chunks: BTreeMap::new(),
            no_tree: None,
        };
        for member in job.members.values().filter(|member| member.is_here && member.lost_at.is_none()) {
            actions.push(Action::Tell(member.id, change.stop()));
        }
        job.phase = Phase::Changing(change);
        self.clear(id, actions);
        self.advance_change(now, id, actions);
    }

    /// Takes what a rank has finished.
    pub fn report(
        &mut self,
        now: Instant,
        request: &northbound::ReportRequest,
    ) -> Result<Vec<Action>, ReportError> {
        let name = GroupName { job: request.job.clone(), group: request.group.clone() };
        let (id, rank) = self.taking_part(&name, request.rank, request.attempt, &request.member_token)?;
        let expected = self.jobs.get(&id).map_or(0, |job| job.places());
        let given = request.finished.len();
        let mut actions = Vec::new();
        if given != expected {
            let reason = format!("rank {rank} reports {given} slots, the group has {expected}");
            self.dead(now, id, rank, reason, &mut actions);
            return Ok(actions);
        }
        if let Some(Phase::Changing(change)) = self.jobs.get_mut(&id).map(|job| &mut job.phase) {
            change.reports.insert(rank, request.finished.clone());
        }
        self.advance_change(now, id, &mut actions);
        Ok(actions)
    }

    /// Takes chunks that a rank was asked for.
    pub fn handed_over(
        &mut self,
        now: Instant,
        request: &northbound::HandOverRequest,
    ) -> Result<Vec<Action>, ReportError> {
        let name = GroupName { job: request.job.clone(), group: request.group.clone() };
        let (id, rank) = self.taking_part(&name, request.rank, request.attempt, &request.member_token)?;
        let mut actions = Vec::new();
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(actions) };
        let slots = job.slots_per_tree;
        if let Phase::Changing(change) = &mut job.phase
            && let Some(asked) = change.fetching.remove(&rank)
        {
            let given = request.chunks.iter();
            let given = given.filter_map(|chunk| Some((place(chunk.slot.as_ref(), slots)?, chunk.clone())));
            change.chunks.extend(given.filter(|(place, _)| asked.contains(place)));
            if asked.iter().any(|place| !change.chunks.contains_key(place)) {
                let reason = format!("rank {rank} does not hand over what it has finished");
                self.dead(now, id, rank, reason, &mut actions);
                return Ok(actions);
            }
        }
        self.advance_change(now, id, &mut actions);
        Ok(actions)
    }

    fn taking_part(
        &self,
        name: &GroupName,
        rank: u32,
        attempt: u32,
        token: &str,
    ) -> Result<(JobId, u16), ReportError> {
        let takes_part = |(id, job): (&JobId, &Job)| {
            let rank = u16::try_from(rank).ok()?;
            let Phase::Changing(change) = &job.phase else { return None };
            let member = job.members.get(&rank).filter(|member| member.is_here)?;
            let is_it = job.name == *name && change.attempt == attempt;
            is_it.then(|| (*id, rank, member.is_shown(token)))
        };
        match self.jobs.iter().find_map(takes_part) {
            Some((id, rank, true)) => Ok((id, rank)),
            Some((.., false)) => Err(ReportError::Token { name: name.clone(), rank }),
            None => Err(ReportError::Stale { name: name.clone(), rank, attempt }),
        }
    }

    /// The next step of an attempt, if everything for it is there.
    pub(super) fn advance_change(&mut self, now: Instant, id: JobId, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let slots = job.slots_per_tree;
        let Phase::Changing(change) = &mut job.phase else { return };
        let live: Vec<u16> =
            job.members.iter().filter(|(_, member)| member.is_here).map(|(rank, _)| *rank).collect();
        if live.iter().any(|rank| !change.reports.contains_key(rank)) {
            return;
        }
        // What anybody has finished counts as finished: also what ranks gave that have left since.
        let mut finished: Vec<u64> = vec![0; job.places];
        for places in live.iter().filter_map(|rank| change.reports.get(rank)) {
            for (most, place) in finished.iter_mut().zip(places) {
                *most = (*most).max(*place);
            }
        }
        let departed = job.members.values().filter(|member| !member.is_here);
        for account in departed.filter_map(|member| member.account.as_ref()) {
            for chunk in &account.kept {
                let Some(at) = place(chunk.slot.as_ref(), slots) else { continue };
                if let (Some(most), Some(theirs)) = (finished.get_mut(at), account.finished.get(at))
                    && *theirs > *most
                {
                    *most = *theirs;
                    change.chunks.insert(at, chunk.clone());
                }
            }
        }
        let behind = |rank: &u16, place: usize| finished[place] - change.reports[rank][place];
        let lacking = |place: usize| live.iter().any(|rank| behind(rank, place) > 0);
        if let Some(rank) =
            live.iter().find(|rank| (0..finished.len()).any(|place| behind(rank, place) > 1)).copied()
        {
            let reason = format!("rank {rank} reports places that it can't have");
            return self.dead(now, id, rank, reason, actions);
        }
        let needed: Vec<usize> = (0..finished.len()).filter(|place| lacking(*place)).collect();
        let mut to_fetch: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for &at in needed.iter().filter(|place| !change.chunks.contains_key(place)) {
            if let Some(holder) = live.iter().find(|rank| behind(rank, at) == 0) {
                to_fetch.entry(*holder).or_default().push(at);
            }
        }
        to_fetch.retain(|rank, _| !change.fetching.contains_key(rank));
        for (rank, places) in to_fetch {
            // One without a stream is asked once it has attached again, or is dead.
            if let Some(member) = job.members.get(&rank).filter(|member| member.lost_at.is_none()) {
                let index = |at: &usize| SlotIndex { tree: (at / slots) as u32, slot: (at % slots) as u32 };
                let slots = places.iter().map(index).collect();
                let fetch = northbound::Fetch { attempt: change.attempt, slots };
                actions.push(Action::Tell(member.id, JoinEvent::Fetch(fetch)));
                change.fetching.insert(rank, places);
                change.asked = now;
            }
        }
        if needed.iter().any(|place| !change.chunks.contains_key(place)) {
            return;
        }
        let copies: BTreeMap<u16, Vec<KeptChunk>> = live
            .iter()
            .map(|rank| {
                let lacks = needed.iter().filter(|place| behind(rank, **place) > 0);
                (*rank, lacks.filter_map(|place| change.chunks.get(place).cloned()).collect())
            })
            .collect();
        let attempt = change.attempt;
        let copied = |rank: u16| copies.get(&rank).cloned().unwrap_or_default();
        if let Goal::End { reason, missing } = &change.goal {
            let (reason, missing) = (reason.clone(), missing.clone());
            return self.close_with(id, reason, missing, copied, actions);
        }
        if change.not_before.is_some_and(|at| now < at) {
            return;
        }
        change.not_before = None;
        if job.work != Work::Idle {
            return;
        }
        let trees = job.places / slots.max(1);
        let why = change.reason.clone();
        job.resume = Some(Agreement { reason: why.clone(), trees, finished, copies: copies.clone() });
        let since = job.unsettled.unwrap_or(now);
        match self.plan(id, attempt, true) {
            Ok(nodes) => actions.push(Action::Install { job: id, nodes }),
            Err(error) => {
                let reason = self.describe(&error);
                if !error.may_pass() || now >= since + self.failure.patience {
                    let reason = format!("{why}, and there is no other tree: {reason}");
                    return self.close_with(id, reason, Vec::new(), copied, actions);
                }
                if let Some(Phase::Changing(change)) = self.jobs.get_mut(&id).map(|job| &mut job.phase) {
                    change.no_tree = Some(reason);
                }
            }
        }
    }

    /// Time has passed for an attempt.
    pub(super) fn tick_change(&mut self, now: Instant, id: JobId, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Phase::Changing(change) = &job.phase else { return };
        if now >= change.asked + self.failure.report_timeout {
            let silent = |(rank, member): (&u16, &super::Member)| {
                // Ranks of the last controller's are given their time to come back.
                let may_come = member.lost_at.is_some_and(|at| now < at);
                (member.is_here && !may_come && change.awaits(*rank)).then_some(*rank)
            };
            if let Some(rank) = job.members.iter().find_map(silent) {
                let reason = format!("rank {rank} does not answer");
                return self.dead(now, id, rank, reason, actions);
            }
        }
        self.advance_change(now, id, actions);
    }
}

/// The place of a slot among all slots of a group's trees.
fn place(slot: Option<&SlotIndex>, slots_per_tree: usize) -> Option<usize> {
    let slot = slot?;
    let index = slot.slot as usize;
    (index < slots_per_tree).then(|| slot.tree as usize * slots_per_tree + index)
}
