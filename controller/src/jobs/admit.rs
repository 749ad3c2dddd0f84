//! From a group that waits for its ranks to one whose trees are being installed.

use std::collections::BTreeMap;
use std::time::Instant;

use inca_p4runtime::northbound::{self, join_event::Event as JoinEvent};

use super::plan::{Plan, PlanError};
use super::{Action, Happening, Job, JobId, Jobs, MAX_MISSING, Note, Phase, Work};
use crate::graph::DeviceId;
use crate::program::Entry;

impl Jobs {
    /// A waiting group: plans it if it is complete, else (and if asked) tells its ranks what is missing.
    pub(super) fn advance(&mut self, now: Instant, id: JobId, tell: bool, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (work, job_terms, waits) = (job.work, job.terms, job.queued.is_some());
        // It had room once: a group whose trees broke before they were used.
        let had_turn = job.generation != 0;
        let Phase::Waiting { told, complete } = &mut job.phase else { return };
        if work != Work::Idle || waits {
            // An installation that broke before it was used is taken back first; the queue has turns.
            if tell {
                self.tell_waiting(now, id, actions);
            }
            return;
        }
        if job.members.len() == usize::from(job.terms.world) {
            let since = complete.as_ref().map_or(now, |(since, _)| *since);
            let generation = self.next_generation();
            match self.plan(id, generation, had_turn) {
                Ok(nodes) => {
                    actions.push(Action::Install { job: id, nodes });
                    return;
                }
                Err(error) => {
                    // Nobody has seen it.
                    self.next_generation = generation;
                    let reason = self.describe(&error);
                    if self.enqueue(now, id, &error, &reason) {
                        self.tell_waiting(now, id, actions);
                        return;
                    }
                    if !error.may_pass() || now >= since + self.failure.patience {
                        match job_terms.ring {
                            true => self.begin_ring(id, reason, actions),
                            false => self.close(id, reason, Vec::new(), actions),
                        }
                        return;
                    }
                    if let Some(Phase::Waiting { complete, .. }) =
                        self.jobs.get_mut(&id).map(|job| &mut job.phase)
                    {
                        *complete = Some((since, reason));
                    }
                }
            }
        } else {
            *complete = None;
            if tell {
                *told = now;
            }
        }
        if tell {
            self.tell_waiting(now, id, actions);
        }
    }

    pub(super) fn tell_waiting(&mut self, now: Instant, id: JobId, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Phase::Waiting { told, .. } = &mut job.phase {
            *told = now;
        }
        let missing: Vec<u32> = job.missing().take(MAX_MISSING).map(u32::from).collect();
        let queue_position = self.place_of(id).map_or(0, |(position, _)| position as u32);
        let Some(job) = self.jobs.get(&id) else { return };
        let queue_reason = job.queue_reason().unwrap_or_default();
        for member in job.members.values() {
            let waiting = northbound::Waiting {
                missing_ranks: missing.clone(),
                host_unknown: self.graph.host(member.address).is_none(),
                queue_position,
                queue_reason: queue_reason.to_owned(),
            };
            actions.push(Action::Tell(member.id, JoinEvent::Waiting(waiting)));
        }
    }

    /// A number that was never used: up even if nothing comes of it.
    pub(super) fn next_generation(&mut self) -> u32 {
        let generation = self.next_generation;
        self.next_generation = generation.saturating_add(1);
        generation
    }

    /// Plans trees and takes what they need; the group is being installed then. Without a turn, only what nobody else waits for.
    pub(super) fn plan(
        &mut self,
        id: JobId,
        generation: u32,
        has_turn: bool,
    ) -> Result<Vec<(DeviceId, Vec<Entry>)>, PlanError> {
        let Some(job) = self.jobs.get(&id) else { return Err(PlanError::Gone) };
        let mut plan = Plan::with_room(job, &self.graph, &self.settings, &self.pools)?;
        let tenant = job.name.tenant();
        if job.is_over {
            let (open, limit) = (self.groups_of(tenant), self.limits.groups_per_tenant as usize);
            let open = open.filter(|job| !job.is_over).count();
            if open >= limit {
                return Err(PlanError::Groups { tenant: tenant.to_owned(), open, limit });
            }
        }
        self.has_share(tenant, Some(id), &plan)?;
        if !has_turn {
            self.nobody_waits(id, tenant, &plan)?;
        }
        plan.take(&mut self.pools, &mut self.next_tree_id, |id| {
            self.jobs.values().filter_map(|job| job.plan.as_ref()).any(|plan| plan.has_tree(id))
        })?;
        let Some(job) = self.jobs.get_mut(&id) else { return Err(PlanError::Gone) };
        job.generation = generation;
        (job.phase, job.work) = (Phase::Installing, Work::Installing);
        let nodes = plan.nodes(job, &self.addresses, &self.settings);
        job.plan = Some(plan);
        let is_first = job.assigned.is_none();
        tracing::info!(name = %job.name, generation, switches = nodes.len(), "installing trees");
        let detail = format!("generation {generation}, {} switches", nodes.len());
        self.notes.push(Note::new(&job.name, Happening::GroupInstalling, detail));
        if is_first {
            self.charge(id);
        }
        Ok(nodes)
    }

    /// Whether the slots of a plan are within what its tenant may have of each switch.
    pub(super) fn has_share(
        &self,
        tenant: &str,
        except: Option<JobId>,
        plan: &Plan,
    ) -> Result<(), PlanError> {
        let limit = self.limits.slots_per_tenant;
        if limit == 0 {
            return Ok(());
        }
        let is_other = |(id, job): &(&JobId, &Job)| Some(**id) != except && job.name.tenant() == tenant;
        let others = self.jobs.iter().filter(is_other);
        let plans = others.filter_map(|(_, job)| job.plan.as_ref());
        let mut used: BTreeMap<DeviceId, u32> = BTreeMap::new();
        for (device, need) in plans.flat_map(Plan::needs) {
            *used.entry(device).or_default() += need.slots;
        }
        for (device, need) in plan.needs() {
            let used = used.entry(device).or_default();
            if *used + need.slots > limit {
                let tenant = tenant.to_owned();
                return Err(PlanError::Share { device, tenant, needed: need.slots, used: *used, limit });
            }
            *used += need.slots;
        }
        Ok(())
    }
}
