//! The queue of complete groups for which the switches have no room, or their tenant has no share left.
//!
//! Groups of one tenant come to their turn in the order in which they were complete. Between tenants each admission costs the slots it
//! takes, and the tenant that has paid least is next (start-time fair queueing): whoever waits is overtaken only finitely often.
//! The switches of a group that waits for room are kept free for it: no group behind it takes a part of them, also no newcomer. A
//! group that waits for its tenant's own limit holds up nobody else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::change::Goal;
use super::plan::{Plan, PlanError};
use super::pool::Pool;
use super::{Action, Happening, Job, JobId, Jobs, Note, Phase};
use crate::graph::DeviceId;

/// Groups of one tenant that may wait beyond the number it may have, at most.
pub(super) const MAX_OVER: usize = 1024;

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Queued {
    /// Since when.
    since: Instant,
    /// Orders those of one tenant.
    number: u64,
    /// Slots of all switches together.
    cost: u64,
    devices: BTreeSet<DeviceId>,
    /// It waits for its own tenant's groups, not for room.
    is_own: bool,
    reason: String,
}

/// What tenants have paid.
#[derive(Debug, Default)]
pub(super) struct Queue {
    paid: BTreeMap<String, u64>,
    /// What the one that was admitted last had paid before: newcomers begin here.
    level: u64,
    next_number: u64,
    /// Something has changed that may let a group in.
    pub(super) changed: bool,
}

/// The groups of one tenant: number, cost, group.
type Line = VecDeque<(u64, u64, JobId)>;

impl PlanError {
    /// Whether it may fit once others have gone; and whether those are its tenant's own.
    fn is_full(&self) -> Option<bool> {
        match self {
            Self::NoRoom { .. } | Self::NoTreeId => Some(false),
            Self::Share { .. } | Self::Groups { .. } => Some(true),
            Self::Behind { is_own, .. } => Some(*is_own),
            Self::Tree(_) | Self::Gone => None,
        }
    }
}

impl Jobs {
    /// Whether somebody waits who would be overtaken by a newcomer with this plan.
    pub(super) fn nobody_waits(&self, id: JobId, tenant: &str, plan: &Plan) -> Result<(), PlanError> {
        let devices = plan.devices();
        let (mut ahead, mut is_own) = (0, false);
        for (_, job) in self.jobs.iter().filter(|(other, _)| **other != id) {
            let Some(queued) = &job.queued else { continue };
            let same = job.name.tenant() == tenant;
            if same || !queued.is_own && devices.iter().any(|device| queued.devices.contains(device)) {
                ahead += 1;
                is_own |= same && queued.is_own;
            }
        }
        if ahead == 0 { Ok(()) } else { Err(PlanError::Behind { ahead, is_own }) }
    }

    /// A group that does not fit now takes its place in the queue, if it asked for that and could fit at all.
    pub(super) fn enqueue(&mut self, now: Instant, id: JobId, error: &PlanError, reason: &str) -> bool {
        let Some(job) = self.jobs.get(&id).filter(|job| job.terms.queue.is_some()) else { return false };
        let Some(is_own) = error.is_full() else { return false };
        let tenant = job.name.tenant().to_owned();
        let Ok(mut plan) = Plan::new(job, &self.graph, &self.settings) else { return false };
        let mut needed: BTreeMap<DeviceId, u32> = BTreeMap::new();
        plan.needs().for_each(|(device, need)| *needed.entry(device).or_default() += need.slots);
        let limit = self.limits.slots_per_tenant;
        if limit > 0 && needed.values().any(|slots| *slots > limit) {
            return false;
        }
        let (mut empty, mut first) = (BTreeMap::<DeviceId, Pool>::new(), 1);
        if plan.take(&mut empty, &mut first, |_| false).is_err() {
            return false;
        }
        if !self.jobs.values().any(|job| job.queued.is_some() && job.name.tenant() == tenant) {
            let paid = self.queue.paid.entry(tenant).or_default();
            *paid = (*paid).max(self.queue.level);
        }
        let number = self.queue.next_number;
        self.queue.next_number += 1;
        let cost = needed.values().map(|slots| u64::from(*slots)).sum();
        let devices = needed.into_keys().collect();
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        job.queued = Some(Queued { since: now, number, cost, devices, is_own, reason: reason.to_owned() });
        tracing::info!(name = %job.name, reason, "group waits in the queue");
        let name = job.name.clone();
        let (position, of) = self.place_of(id).unwrap_or((1, 1));
        self.notes.push(Note::new(
            &name,
            Happening::GroupQueued,
            format!("place {position} of {of}: {reason}"),
        ));
        true
    }

    /// Groups in the order of their turns, if room came bit by bit.
    pub(super) fn turns(&self) -> Vec<JobId> {
        let mut lines: BTreeMap<&str, Vec<(u64, u64, JobId)>> = BTreeMap::new();
        for (id, job) in &self.jobs {
            if let Some(queued) = &job.queued {
                lines.entry(job.name.tenant()).or_default().push((queued.number, queued.cost, *id));
            }
        }
        let paid = |tenant: &str| self.queue.paid.get(tenant).copied().unwrap_or(self.queue.level);
        let mut lines: Vec<(u64, Line)> = lines
            .into_iter()
            .map(|(tenant, mut line)| {
                line.sort_unstable();
                (paid(tenant), line.into())
            })
            .collect();
        let mut turns = Vec::new();
        while let Some((paid, line)) =
            lines.iter_mut().min_by_key(|(paid, line)| (*paid, line.front().map(|first| first.0)))
        {
            if let Some((_, cost, id)) = line.pop_front() {
                *paid = paid.saturating_add(cost.max(1));
                turns.push(id);
            }
            lines.retain(|(_, line)| !line.is_empty());
        }
        turns
    }

    /// A group's place, from 1, and how many there are.
    pub(super) fn place_of(&self, id: JobId) -> Option<(usize, usize)> {
        self.jobs.get(&id)?.queued.as_ref()?;
        let turns = self.turns();
        let at = turns.iter().position(|turn| *turn == id)?;
        Some((at + 1, turns.len()))
    }

    /// What a group takes is on its tenant's account.
    pub(super) fn charge(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.queued, job.is_over) = (None, false);
        let cost: u64 = job.plan.iter().flat_map(Plan::needs).map(|(_, need)| u64::from(need.slots)).sum();
        let paid = self.queue.paid.entry(job.name.tenant().to_owned()).or_default();
        let before = (*paid).max(self.queue.level);
        (*paid, self.queue.level) = (before.saturating_add(cost.max(1)), before);
    }

    /// Lets in whoever fits, in turn, and sends away whoever has waited for as long as it wanted.
    pub(super) fn serve_queue(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let over = |(id, job): (&JobId, &Job)| job.queue_timeout().is_some_and(|at| now >= at).then_some(*id);
        for id in self.jobs.iter().filter_map(over).collect::<Vec<_>>() {
            self.give_up(now, id, actions);
        }
        if !self.queue.changed {
            return;
        }
        // Groups that go on elsewhere have given back what they had, and come first.
        let moves = |job: &Job| {
            matches!(&job.phase, Phase::Changing(change) if *change.goal() == Goal::GoOn)
                && job.ring.is_none()
        };
        if self.jobs.values().any(moves) {
            return;
        }
        self.queue.changed = false;
        while self.serve_one(actions) {}
        let tenants: BTreeSet<&str> = self.jobs.values().map(|job| job.name.tenant()).collect();
        let level = self.queue.level;
        self.queue.paid.retain(|tenant, paid| *paid > level || tenants.contains(tenant.as_str()));
    }

    /// Lets in the first that fits; false: none does.
    fn serve_one(&mut self, actions: &mut Vec<Action>) -> bool {
        let (mut kept, mut held) = (BTreeSet::<DeviceId>::new(), BTreeSet::<String>::new());
        for id in self.turns() {
            let Some(job) = self.jobs.get(&id) else { continue };
            let tenant = job.name.tenant().to_owned();
            if held.contains(&tenant) {
                continue;
            }
            let devices = match Plan::new(job, &self.graph, &self.settings) {
                Ok(plan) => plan.devices(),
                Err(error) => {
                    // The network is not whole: that is no reason for others to wait.
                    let reason = self.describe(&error);
                    self.note_queued(id, BTreeSet::new(), true, reason);
                    continue;
                }
            };
            let overlaps = devices.iter().any(|device| kept.contains(device));
            let refusal = if overlaps {
                PlanError::Behind { ahead: 1, is_own: false }
            } else {
                let generation = self.next_generation();
                match self.plan(id, generation, true) {
                    Ok(nodes) => {
                        actions.push(Action::Install { job: id, nodes });
                        return true;
                    }
                    Err(error) => {
                        self.next_generation = generation;
                        error
                    }
                }
            };
            let is_own = refusal.is_full().unwrap_or(true);
            if !is_own {
                kept.extend(&devices);
            }
            held.insert(tenant);
            if !overlaps {
                let reason = self.describe(&refusal);
                self.note_queued(id, devices.into_iter().collect(), is_own, reason);
            }
        }
        false
    }

    fn note_queued(&mut self, id: JobId, devices: BTreeSet<DeviceId>, is_own: bool, reason: String) {
        if let Some(queued) = self.jobs.get_mut(&id).and_then(|job| job.queued.as_mut()) {
            (queued.devices, queued.is_own, queued.reason) = (devices, is_own, reason);
        }
    }

    fn give_up(&mut self, now: Instant, id: JobId, actions: &mut Vec<Action>) {
        let place = self.place_of(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(queued) = job.queued.take() else { return };
        self.queue.changed = true;
        let waited = now.saturating_duration_since(queued.since);
        let (position, of) = place.unwrap_or((1, 1));
        let reason = format!(
            "no room after {waited:.0?} in the queue, at place {position} of {of}: {}",
            queued.reason
        );
        match job.terms.ring {
            true => self.begin_ring(id, reason, actions),
            false => self.close(id, reason, Vec::new(), actions),
        }
    }
}

impl Job {
    /// When it has waited for as long as it wanted.
    pub(super) fn queue_timeout(&self) -> Option<Instant> {
        let (queued, seconds) = (self.queued.as_ref()?, self.terms.queue?);
        (seconds > 0).then(|| queued.since + Duration::from_secs(seconds.into()))
    }

    /// What it waits for in the queue.
    pub(super) fn queue_reason(&self) -> Option<&str> {
        self.queued.as_ref().map(|queued| queued.reason.as_str())
    }
}
