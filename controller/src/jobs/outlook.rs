//! What trees a group has or would get, what they need, and what a sum puts on each link: planned, never taken.

use std::collections::BTreeMap;
use std::time::Instant;

use inca_p4runtime::northbound;
use inca_wire::packet::{self, Format};
use thiserror::Error;

use super::load::{End, Sum};
use super::plan::Plan;
use super::{GroupName, Job, Jobs, JoinError, Joining, Member, status};
use crate::graph::DeviceId;
use crate::program::SLOTS;

/// Most elements of a sum that is asked about: far more than memory holds, and sizes in bytes fit 64 bits.
const MAX_ELEMENTS: u64 = 1 << 50;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutlookError {
    /// A field that no group would take.
    #[error(transparent)]
    Field(#[from] JoinError),
    /// No hosts are given, and there is no such group.
    #[error("{0} is not there: name a group that is, or give the hosts of its ranks")]
    NoGroup(GroupName),
    /// Too large.
    #[error("elements is {0}: must be 0 (one chunk) to {MAX_ELEMENTS}")]
    Elements(u64),
    /// There is no tree for these hosts.
    #[error("no tree: {0}")]
    NoTree(String),
}

impl Jobs {
    /// Answers a question about trees.
    pub fn outlook(
        &self,
        now: Instant,
        request: &northbound::PlanRequest,
    ) -> Result<northbound::PlanResponse, OutlookError> {
        if request.elements > MAX_ELEMENTS {
            return Err(OutlookError::Elements(request.elements));
        }
        let name = GroupName { job: request.job.clone(), group: request.group.clone() };
        let open = self.by_name.get(&name).and_then(|id| self.jobs.get(id));
        let installed = open.filter(|_| request.hosts.is_empty() && !request.dry_run);
        if let Some((job, plan)) = installed.and_then(|job| Some((job, job.plan.as_ref()?))) {
            return Ok(self.answer(job, plan, request.elements, true, String::new()));
        }
        let job = match open.filter(|_| request.hosts.is_empty()) {
            Some(job) => job.likeness(now, request)?,
            None if request.hosts.is_empty() => return Err(OutlookError::NoGroup(name)),
            None => imagined(now, request, open)?,
        };
        let mut plan = Plan::with_room(&job, &self.graph, &self.settings, &self.pools)
            .map_err(|error| OutlookError::NoTree(self.describe(&error)))?;
        let mut next_tree_id = self.next_tree_id;
        let share = self.has_share(job.name.tenant(), None, &plan);
        let taken = plan.take(&mut self.pools.clone(), &mut next_tree_id, |id| {
            self.jobs.values().filter_map(|job| job.plan.as_ref()).any(|plan| plan.has_tree(id))
        });
        let refusal = share.and(taken).err().map(|error| self.describe(&error)).unwrap_or_default();
        Ok(self.answer(&job, &plan, request.elements, false, refusal))
    }

    fn answer(
        &self,
        job: &Job,
        plan: &Plan,
        elements: u64,
        installed: bool,
        refusal: String,
    ) -> northbound::PlanResponse {
        let mut sum = Sum { format: job.terms.format, words: job.terms.words, elements };
        if elements == 0 {
            sum.elements = sum.chunk();
        }
        let end = |end: End| match end {
            End::Host(rank) => (job.members.get(&rank).map(|member| member.address.to_string()), 0),
            End::Switch(port) => (Some(self.name(port.device)), port.port.into()),
        };
        let links = plan.loads(&sum).into_iter().map(|((from, to), load)| {
            let ((from, from_port), (to, to_port)) = (end(from), end(to));
            northbound::LinkLoad {
                from: from.unwrap_or_default(),
                from_port,
                to: to.unwrap_or_default(),
                to_port,
                packets: load.packets,
                bytes: load.bytes,
            }
        });
        let mut needed: BTreeMap<DeviceId, u32> = BTreeMap::new();
        for (device, need) in plan.needs() {
            *needed.entry(device).or_default() += need.slots;
        }
        let slots = needed.into_iter().map(|(device, needed)| northbound::SlotShare {
            switch_name: self.name(device),
            needed,
            used: self.slots(device).0,
            total: SLOTS,
        });
        northbound::PlanResponse {
            world_size: job.members.len() as u32,
            format: status::format(job.terms.format).into(),
            chunk_words: job.terms.words.into(),
            elements: sum.elements,
            chunks: sum.chunks(),
            installed,
            refusal,
            links: links.collect(),
            slots: slots.collect(),
            tree: status::nodes(plan, |device| self.name(device)),
        }
    }
}

impl Job {
    /// A group of the same ranks, with what the request changes.
    fn likeness(&self, now: Instant, request: &northbound::PlanRequest) -> Result<Self, OutlookError> {
        let hosts: Vec<_> = self.members.iter().map(|(rank, member)| (*rank, member.address)).collect();
        let addresses: Vec<String> = hosts.iter().map(|(_, address)| address.to_string()).collect();
        let request = northbound::PlanRequest { hosts: addresses, ..request.clone() };
        let mut job = imagined(now, &request, Some(self))?;
        // Ranks keep their numbers, where some are missing.
        let members = std::mem::take(&mut job.members).into_values();
        job.members = hosts.iter().map(|(rank, _)| *rank).zip(members).collect();
        Ok(job)
    }
}

/// A group of ranks at these hosts. What is not given is as in `like`, or as agents have it by default.
fn imagined(
    now: Instant,
    request: &northbound::PlanRequest,
    like: Option<&Job>,
) -> Result<Job, OutlookError> {
    let (format, words) = like.map_or((Format::Bfp16, 5), |job| (job.terms.format, job.terms.words));
    let world_size = u32::try_from(request.hosts.len()).unwrap_or(u32::MAX);
    let mut job = None;
    for (rank, host) in (0..).zip(&request.hosts) {
        let joining = Joining::parse(&northbound::JoinRequest {
            job: if request.job.is_empty() { "plan".to_owned() } else { request.job.clone() },
            group: request.group.clone(),
            rank,
            world_size,
            format: if request.format == 0 { u8::from(format).into() } else { request.format },
            chunk_words: if request.chunk_words == 0 { words.into() } else { request.chunk_words },
            host_address: host.clone(),
            host_udp_port: u16::MAX.into(),
            protocol_version: packet::VERSION.into(),
            ..Default::default()
        })?;
        let job = job.get_or_insert_with(|| Job::new(now, joining.name.clone(), joining.terms));
        let member = Member {
            id: 0,
            token: None,
            address: joining.address,
            udp_port: joining.udp_port,
            ring_port: 0,
            is_here: true,
            lost_at: None,
            account: None,
        };
        job.members.insert(joining.rank, member);
    }
    job.ok_or_else(|| {
        OutlookError::NoGroup(GroupName { job: request.job.clone(), group: request.group.clone() })
    })
}

#[cfg(test)]
#[path = "outlook_tests.rs"]
mod tests;
