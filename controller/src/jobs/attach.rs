//! Ranks that have lost their stream: they attach again, are dead, or were started anew.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use inca_p4runtime::northbound::{self, join_event::Event as JoinEvent};

use super::change::Goal;
use super::secret::Digest;
use super::{Action, GroupName, Job, JobId, Jobs, JoinError, Joining, Member, MemberId, Phase};

/// How a group ended, for ranks that had no stream just then.
#[derive(Debug)]
pub(super) struct End {
    name: GroupName,
    generations: (u32, u32),
    told: BTreeMap<u16, (Ipv4Addr, u16, Option<Digest>, northbound::Closed)>,
}

impl End {
    pub(super) fn of(job: &Job) -> Self {
        let generations = job.assigned.unwrap_or((0, 0));
        Self { name: job.name.clone(), generations, told: BTreeMap::new() }
    }

    pub(super) fn tell_later(&mut self, rank: u16, member: &Member, closed: northbound::Closed) {
        self.told.insert(rank, (member.address, member.udp_port, member.token, closed));
    }
}

impl Jobs {
    /// A rank takes up its membership again.
    pub(super) fn attach(
        &mut self,
        now: Instant,
        id: MemberId,
        request: &northbound::JoinRequest,
        joining: &Joining,
    ) -> Result<Vec<Action>, JoinError> {
        let generation = request.attach_generation;
        let mut actions = Vec::new();
        let is_it = |member: &Member| {
            member.is_here && (member.address, member.udp_port) == (joining.address, joining.udp_port)
        };
        let found = self.jobs.iter_mut().find_map(|(job_id, job)| {
            let is_open = job.name == joining.name
                && job.assigned.is_some()
                && job.was_in(generation)
                && !matches!(job.phase, Phase::Closing { .. });
            let is_member = job.members.get(&joining.rank).is_some_and(is_it);
            (is_open && is_member).then_some((*job_id, job))
        });
        let Some((job_id, job)) = found else {
            let closed = self.ended(request, joining).ok_or_else(|| JoinError::NoMember {
                name: joining.name.clone(),
                rank: joining.rank,
                generation,
            })?;
            return Ok(vec![Action::Tell(id, JoinEvent::Closed(closed)), Action::End(id)]);
        };
        let rank = joining.rank;
        if !job.members.get(&rank).is_some_and(|member| member.is_shown(&request.member_token)) {
            return Err(JoinError::MemberToken { name: joining.name.clone(), rank });
        }
        tracing::info!(name = %job.name, rank, generation, "rank is attached again");
        if let Some(member) = job.members.get_mut(&rank) {
            if member.lost_at.take().is_none() {
                self.by_member.remove(&member.id);
                actions.push(Action::End(member.id));
            }
            member.id = id;
        }
        self.by_member.insert(id, (job_id, rank));
        match &mut job.phase {
            Phase::Changing(change) => {
                change.forget_answers_of(rank);
                actions.push(Action::Tell(id, change.stop()));
            }
            Phase::Running | Phase::Draining { .. }
                if generation < job.generation && job.resume.is_some() =>
            {
                if let Some(assignment) = self
                    .jobs
                    .get(&job_id)
                    .and_then(|job| job.assignment(rank, &self.addresses, |device| self.name(device)))
                {
                    actions.push(Action::Tell(id, JoinEvent::Assignment(assignment)));
                }
            }
            // How that generation began was not remembered.
            Phase::Running if request.attach_stopped || generation < job.generation => {
                let reason = format!("rank {rank} was stopped");
                self.begin(now, job_id, Goal::GoOn, reason, &mut actions);
            }
            _ => {}
        }
        Ok(actions)
    }

    fn ended(&self, request: &northbound::JoinRequest, joining: &Joining) -> Option<northbound::Closed> {
        self.ends.iter().find_map(|end| {
            let (first, last) = end.generations;
            let (address, udp_port, token, closed) = end.told.get(&joining.rank)?;
            let is_it = end.name == joining.name
                && (first..=last).contains(&request.attach_generation)
                && token.is_none_or(|token| token.is_of(&request.member_token))
                && (*address, *udp_port) == (joining.address, joining.udp_port);
            is_it.then(|| closed.clone())
        })
    }

    /// A rank joins anew whose stream has just ended: its process has gone, and another has come. What it was is dead.
    pub(super) fn restarted(&mut self, now: Instant, joining: &Joining, actions: &mut Vec<Action>) {
        let Some(&id) = self.by_name.get(&joining.name) else { return };
        // Where the others go on without it, it is refused, and must not be the cause of anything.
        let job = self.jobs.get(&id).filter(|job| !job.terms.shrinks);
        let lost = job.and_then(|job| job.members.get(&joining.rank));
        if let Some(member) = lost.filter(|member| member.is_here && member.lost_at.is_some()) {
            let reason =
                format!("rank {} at {} has gone and was started again", joining.rank, member.address);
            self.dead(now, id, joining.rank, reason, actions);
        }
    }

    /// Where ranks are attached that are missing, or else the one that tells of it.
    pub(super) fn places_of(&self, id: JobId, teller: u16, missing: &[u16]) -> String {
        let Some(job) = self.jobs.get(&id) else { return String::new() };
        let ranks = if missing.is_empty() { &[teller] } else { missing };
        let places: Vec<_> = ranks
            .iter()
            .filter_map(|rank| {
                let at = job.place(*rank)?.at;
                Some(format!("rank {rank} is at {} port {}", self.name(at.device), at.port))
            })
            .collect();
        if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) }
    }
}
