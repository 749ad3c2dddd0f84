//! The end of a group: ordered, or for a reason; told to every rank; and what it had given back.

use std::collections::BTreeSet;
use std::time::Instant;

use inca_p4runtime::northbound::{self, join_event::Event as JoinEvent};

use super::{
    Action, CLOSED_SHOWN, GroupName, Happening, Job, JobId, Jobs, LeaveError, Note, Phase, Work, attach,
    status,
};

impl Jobs {
    /// Ends a job, or one group of it, because somebody says so: each of its ranks gets the reason as an error. Returns the groups.
    pub fn end_job(
        &mut self,
        now: Instant,
        job: &str,
        group: Option<&str>,
        reason: &str,
    ) -> Result<(Vec<GroupName>, Vec<Action>), LeaveError> {
        let is_meant = |open: &Job| {
            open.name.job == job
                && group.is_none_or(|group| open.name.group == group)
                && !matches!(open.phase, Phase::Closing { .. })
        };
        let meant: Vec<_> = self.jobs.iter().filter(|(_, open)| is_meant(open)).collect();
        let meant: Vec<_> = meant.into_iter().map(|(id, open)| (*id, open.name.clone())).collect();
        let withdrawn = group.is_none() && self.withdraw(job);
        if meant.is_empty() && !withdrawn {
            let group = group.unwrap_or_default().to_owned();
            return Err(LeaveError::NoGroup(GroupName { job: job.to_owned(), group }));
        }
        let mut actions = Vec::new();
        for (id, _) in &meant {
            self.end(now, *id, reason.to_owned(), Vec::new(), &mut actions);
        }
        self.serve_queue(now, &mut actions);
        Ok((meant.into_iter().map(|(_, name)| name).collect(), actions))
    }

    /// Ends a group for all its ranks, at once: none of them has begun.
    pub(super) fn close(&mut self, id: JobId, reason: String, missing: Vec<u16>, actions: &mut Vec<Action>) {
        self.close_with(id, reason, missing, |_| Vec::new(), actions);
    }

    /// Ends a group for all its ranks, each of which gets chunks that it lacks.
    pub(super) fn close_with(
        &mut self,
        id: JobId,
        reason: String,
        missing: Vec<u16>,
        copies: impl Fn(u16) -> Vec<northbound::KeptChunk>,
        actions: &mut Vec<Action>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.queued = None;
        self.queue.changed = true;
        tracing::info!(name = %job.name, generation = job.generation, reason, "group is closed");
        self.notes.push(Note::new(&job.name, Happening::GroupClosed, reason.clone()));
        // Each tree has its own word of who is missing.
        let missing: BTreeSet<u16> = missing.into_iter().collect();
        let missing_ranks: Vec<u32> = missing.into_iter().map(u32::from).collect();
        let mut end = attach::End::of(job);
        for (rank, member) in job.members.iter().filter(|(_, member)| member.is_here) {
            let (reason, missing_ranks) = (reason.clone(), missing_ranks.clone());
            let closed = northbound::Closed { reason, missing_ranks, copies: copies(*rank) };
            if member.lost_at.is_some() {
                end.tell_later(*rank, member, closed);
                continue;
            }
            end.tell_later(*rank, member, closed.clone());
            actions.push(Action::Tell(member.id, JoinEvent::Closed(closed)));
            actions.push(Action::End(member.id));
            self.by_member.remove(&member.id);
        }
        if job.assigned.is_some() {
            self.ends.push_front(end);
            self.ends.truncate(CLOSED_SHOWN);
        }
        self.unname(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.phase = Phase::Closing { reason };
        match (job.work, &job.plan) {
            (Work::Idle, None) => self.retire(id),
            _ => self.clear(id, actions),
        }
    }

    /// A group that comes to its end: the next one of its name may begin.
    pub(super) fn unname(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if self.by_name.get(&job.name) == Some(&id) {
            self.by_name.remove(&job.name);
        }
    }

    /// Forgets a group: gives back what it had, and keeps a note of it.
    pub(super) fn retire(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.closed.push_front(status::job(&job, |device| self.name(device)));
        self.closed.truncate(CLOSED_SHOWN);
        self.queue.changed = true;
        if let Some(plan) = job.plan {
            plan.give_back(&mut self.pools);
        }
    }
}
