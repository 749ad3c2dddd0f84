//! Groups as they are remembered beyond the controller's life.
//!
//! Remembered is what ranks were told of and what is in the switches for them: groups that run, and that a group is between two
//! generations. A group that forms is not: its ranks are told at once that the controller has gone.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::change::Goal;
use super::claim::Submission;
use super::plan::Plan;
use super::secret::Digest;
use super::stalled::Stalls;
use super::{Action, GroupName, Job, JobId, Jobs, Member, Phase, Terms, Work};
use crate::graph::{DeviceId, Graph};
use crate::program::Entry;
use inca_wire::packet::Format;

/// Ranks whose stream broke with the last controller attach within this time, or are taken for dead.
const RETURN: Duration = Duration::from_secs(10);

/// What a group has in a switch.
pub type Held = (JobId, DeviceId, Vec<Entry>);

/// All that is remembered of groups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    groups: Vec<Record>,
    /// Jobs that were submitted, by name.
    #[serde(default)]
    submitted: BTreeMap<String, SubmissionRecord>,
    next_job: JobId,
    next_tree_id: u16,
    next_generation: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubmissionRecord {
    token: Digest,
    idle_seconds: u32,
}

// What has a default came with version 2 of the schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    id: JobId,
    #[serde(default)]
    token: Option<Digest>,
    #[serde(default)]
    queue: Option<u32>,
    job: String,
    group: String,
    world: u16,
    format: u8,
    words: u8,
    shrinks: bool,
    may_ring: bool,
    generation: u32,
    assigned: (u32, u32),
    stage: Stage,
    members: Vec<MemberRecord>,
    lost: Vec<u16>,
    /// None between two generations, and in a ring.
    plan: Option<Plan>,
    ring: Option<String>,
    places: usize,
    slots_per_tree: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    Running,
    Draining,
    Changing,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberRecord {
    rank: u16,
    #[serde(default)]
    token: Option<Digest>,
    address: Ipv4Addr,
    udp_port: u16,
    ring_port: u16,
    is_here: bool,
}

impl Jobs {
    /// Every group there is.
    pub fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    /// What is to be remembered now.
    pub fn records(&self) -> Records {
        Records {
            groups: self.jobs.iter().filter_map(|(id, job)| record(*id, job)).collect(),
            submitted: self
                .submitted
                .iter()
                .map(|(job, submission)| {
                    let Submission { token, idle_seconds, .. } = *submission;
                    (job.clone(), SubmissionRecord { token, idle_seconds })
                })
                .collect(),
            next_job: self.next_job,
            next_tree_id: self.next_tree_id,
            next_generation: self.next_generation,
        }
    }

    /// Takes over what an earlier controller remembered; `graph` is what it knew. Returns what each group has in the switches.
    /// What does not fit the switches of this controller is left out: its ranks are refused when they attach.
    pub fn restore(&mut self, now: Instant, records: Records, graph: &Graph) -> (Vec<Held>, Vec<Action>) {
        self.graph = graph.clone();
        self.next_job = self.next_job.max(records.next_job);
        self.next_tree_id = records.next_tree_id.max(1);
        self.next_generation = self.next_generation.max(records.next_generation);
        let submitted = records.submitted.into_iter();
        let idle = Some(now);
        self.submitted = submitted
            .map(|(job, SubmissionRecord { token, idle_seconds })| {
                (job, Submission { token, idle_seconds, idle })
            })
            .collect();
        let mut sections = Vec::new();
        let mut actions = Vec::new();
        for record in records.groups {
            let (id, stage) = (record.id, record.stage);
            let Some(job) = restored(now, record) else { continue };
            if let Some(plan) = &job.plan {
                if !plan.reserve(&mut self.pools) {
                    tracing::error!(name = %job.name, "a remembered group does not fit the switches: it is forgotten");
                    continue;
                }
                let nodes = plan.nodes(&job, &self.addresses, &self.settings);
                sections.extend(nodes.into_iter().map(|(device, entries)| (id, device, entries)));
            }
            tracing::info!(
                name = %job.name,
                generation = job.generation,
                ranks = job.members.len(),
                "group is remembered; its ranks are awaited"
            );
            if stage != Stage::Draining {
                self.by_name.insert(job.name.clone(), id);
            }
            self.next_job = self.next_job.max(id + 1);
            self.jobs.insert(id, job);
            if stage == Stage::Changing {
                let reason = "the controller was started again between two generations".to_owned();
                self.begin(now, id, Goal::GoOn, reason, &mut actions);
            }
        }
        (sections, actions)
    }
}

fn record(id: JobId, job: &Job) -> Option<Record> {
    let stage = match job.phase {
        Phase::Running => Stage::Running,
        Phase::Draining { .. } => Stage::Draining,
        Phase::Changing(_) => Stage::Changing,
        // Later generations are told once they are installed; until then the ranks wait as they do between two.
        Phase::Installing if job.assigned.is_some() => Stage::Changing,
        Phase::Waiting { .. } | Phase::Installing | Phase::Closing { .. } => return None,
    };
    let member = |(rank, member): (&u16, &Member)| MemberRecord {
        rank: *rank,
        token: member.token,
        address: member.address,
        udp_port: member.udp_port,
        ring_port: member.ring_port,
        is_here: member.is_here,
    };
    Some(Record {
        id,
        job: job.name.job.clone(),
        group: job.name.group.clone(),
        world: job.terms.world,
        format: job.terms.format as u8,
        words: job.terms.words,
        token: job.token,
        queue: job.terms.queue,
        shrinks: job.terms.shrinks,
        may_ring: job.terms.ring,
        generation: job.generation,
        assigned: job.assigned?,
        stage,
        members: job.members.iter().map(member).collect(),
        lost: job.lost.clone(),
        plan: job.plan.clone().filter(|_| stage != Stage::Changing),
        ring: job.ring.clone(),
        places: job.places,
        slots_per_tree: job.slots_per_tree,
    })
}

fn restored(now: Instant, record: Record) -> Option<Job> {
    let format = Format::try_from(record.format).ok()?;
    let phase = match record.stage {
        Stage::Draining => Phase::Draining { since: now + RETURN },
        Stage::Running | Stage::Changing => Phase::Running,
    };
    let member = |member: MemberRecord| {
        let MemberRecord { rank, token, address, udp_port, ring_port, is_here } = member;
        // As if its stream had ended then: it has time to come back.
        let lost_at = is_here.then_some(now + RETURN);
        (rank, Member { id: 0, token, address, udp_port, ring_port, is_here, lost_at, account: None })
    };
    let Record { world, words, shrinks, may_ring: ring, token, queue, .. } = record;
    Some(Job {
        name: GroupName { job: record.job, group: record.group },
        terms: Terms { world, format, words, shrinks, ring, queue, dtype: None },
        token,
        queued: None,
        is_over: false,
        generation: record.generation,
        assigned: Some(record.assigned),
        phase,
        members: record.members.into_iter().map(member).collect(),
        lost: record.lost,
        plan: record.plan,
        ring: record.ring,
        work: Work::Idle,
        places: record.places,
        slots_per_tree: record.slots_per_tree,
        stalls: Stalls::default(),
        unsettled: None,
        resume: None,
    })
}
