//! Ranks that go: in good order, with a report of what failed, or without a word.

use std::time::Instant;

use inca_p4runtime::northbound;
use thiserror::Error;

use super::change::Account;
use super::{Action, GroupName, Happening, JobId, Jobs, MAX_MISSING, MemberId, Note, Phase, gone};

/// A leave that fits no member.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LeaveError {
    /// There is no such group, or it is closed already.
    #[error("{0} is not there: it never was, or it is closed")]
    NoGroup(GroupName),
    /// The group has another generation.
    #[error("{name}: generation {given} given, the group's is {current}")]
    Generation {
        /// The group.
        name: GroupName,
        /// The caller's.
        given: u32,
        /// The group's.
        current: u32,
    },
    /// The rank is not a member.
    #[error("{name}: rank {rank} is not a member")]
    NotMember {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u32,
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

impl Jobs {
    /// A rank leaves: in good order, or because the generation has ended for it.
    pub fn leave(
        &mut self,
        now: Instant,
        request: &northbound::LeaveRequest,
    ) -> Result<Vec<Action>, LeaveError> {
        let name = GroupName { job: request.job.clone(), group: request.group.clone() };
        // By generation, since a later group of the same name may be open already.
        let found = self.jobs.iter_mut().find(|(id, job)| {
            job.name == name
                && !matches!(job.phase, Phase::Closing { .. })
                && (job.was_in(request.generation) || self.by_name.get(&name) == Some(id))
        });
        let Some((&id, job)) = found else { return Err(LeaveError::NoGroup(name)) };
        if !job.was_in(request.generation) {
            return Err(LeaveError::Generation { name, given: request.generation, current: job.generation });
        }
        let rank = u16::try_from(request.rank).ok();
        let member = rank.and_then(|rank| job.members.get_mut(&rank)).filter(|member| member.is_here);
        let Some(member) = member else { return Err(LeaveError::NotMember { name, rank: request.rank }) };
        if !member.is_shown(&request.member_token) {
            return Err(LeaveError::Token { name, rank: request.rank });
        }
        let (member_id, rank) = (member.id, request.rank as u16);
        (member.is_here, member.lost_at) = (false, None);
        member.account = Account::of(&request.finished, &request.kept);
        tracing::info!(name = %job.name, rank, generation = job.generation, "rank left");
        self.notes.push(Note::new(&job.name, Happening::RankLeft, request.failure.clone()).of_rank(rank));
        self.by_member.remove(&member_id);
        let mut actions = vec![Action::End(member_id)];
        if request.failure.is_empty() {
            self.departed(now, id, rank, &mut actions);
        } else {
            // The ranks no longer agree on what is done: nobody can go on.
            let missing = request.missing_ranks.iter().filter_map(|rank| u16::try_from(*rank).ok());
            let missing: Vec<u16> = missing.take(MAX_MISSING).collect();
            let reason =
                format!("rank {rank} reports: {}{}", request.failure, self.places_of(id, rank, &missing));
            self.end(now, id, reason, missing, &mut actions);
        }
        self.serve_queue(now, &mut actions);
        Ok(actions)
    }

    /// A rank's stream has ended. After a leave, or after the group's end, that is no news.
    pub fn disconnected(&mut self, now: Instant, id: MemberId) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some((job_id, rank)) = self.by_member.remove(&id) else { return actions };
        let Some(job) = self.jobs.get_mut(&job_id) else { return actions };
        let Some(member) = job.members.get_mut(&rank) else { return actions };
        match job.phase {
            Phase::Closing { .. } => member.is_here = false,
            Phase::Waiting { .. } => {
                member.is_here = false;
                self.departed(now, job_id, rank, &mut actions);
            }
            _ if job.assigned.is_none() => {
                member.is_here = false;
                let reason = gone(rank, member);
                self.close(job_id, reason, vec![rank], &mut actions);
            }
            // It may attach again: only the stream may have been lost.
            _ => member.lost_at = Some(now),
        }
        self.serve_queue(now, &mut actions);
        actions
    }

    /// A member is no longer here, in good order or before it mattered.
    pub(super) fn departed(&mut self, now: Instant, id: JobId, rank: u16, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        // Its place, and its share of the groups, are free for others.
        job.queued = None;
        self.queue.changed = true;
        match job.phase {
            Phase::Waiting { .. } => {
                job.members.remove(&rank);
                if job.members.is_empty() && job.plan.is_some() {
                    self.close(id, "all ranks left".to_owned(), Vec::new(), actions);
                } else if job.members.is_empty() {
                    self.by_name.remove(&job.name);
                    self.jobs.remove(&id);
                } else {
                    self.advance(now, id, true, actions);
                }
            }
            Phase::Installing if job.assigned.is_none() => {
                self.close(id, format!("rank {rank} left before the group was ready"), vec![rank], actions);
            }
            // It does not take part in what comes: for the others that is the end.
            Phase::Installing | Phase::Changing(_) => {
                self.end(now, id, format!("rank {rank} left"), vec![rank], actions);
            }
            Phase::Running | Phase::Draining { .. } => {
                if job.members.values().all(|member| !member.is_here) {
                    self.close(id, "all ranks left".to_owned(), Vec::new(), actions);
                } else if job.phase == Phase::Running {
                    job.phase = Phase::Draining { since: now };
                }
            }
            Phase::Closing { .. } => {}
        }
    }
}
