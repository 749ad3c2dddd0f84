//! Jobs: who joined, which trees they use, when they end. A pure state machine; time and results of installation come in as
//! arguments, what is to be done goes out as actions.
//!
//! ```text
//!              all ranks here,           entries read back
//!              tree planned
//!   waiting ------------------> installing ------------------> running
//!      |                          |     ^                      |   | first rank leaves in good order
//!      | last one goes    fails   |     | all reported         |   v
//!      v                          |     | and removed          | draining
//!    (gone)                       |   changing <---------------'   |
//!                                 v     | no tree, a rank died     | all left
//!                              closing <---------------------------'
//!                                 | removed everywhere
//!                                 v
//!                               closed
//! ```
//!
//! A group that ends, ends for all its ranks: each is told why and who is missing. Generations only ever grow, so nothing of an
//! earlier group can be taken for part of a later one. See `change` for how a generation ends.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use inca_p4runtime::northbound::{self, join_event::Event as JoinEvent};
use thiserror::Error;

use crate::graph::{DeviceId, Graph};
use crate::inventory::{FailureSettings, Inventory, Limits, TreeSettings};
use crate::program::Entry;
use crate::routing::Addresses;

mod attach;
mod change;
mod claim;
mod end;
mod join;
mod load;
mod note;
mod outlook;
mod persist;
mod plan;
mod pool;
mod queue;
mod ring;
mod secret;
mod spoil;
mod stalled;
mod status;
#[cfg(test)]
mod tests;

pub use change::ReportError;
use change::{Account, Change};
pub use claim::SubmitError;
pub use join::{GroupName, JoinError, Joining, Terms};
pub use note::{Happening, Note};
pub use outlook::OutlookError;
pub use persist::{Held, Records};
use plan::{Plan, PlanError};
use pool::Pool;
use secret::{Digest, Mint};

/// Names one incarnation of a group within the controller's life.
pub type JobId = u64;
/// Names one stream of a rank that joined.
pub type MemberId = u64;

/// Ranks that wait are told so again after this time.
const WAITING_INTERVAL: Duration = Duration::from_secs(1);
/// Closed jobs that status still shows.
const CLOSED_SHOWN: usize = 16;
/// Missing ranks named in one message.
const MAX_MISSING: usize = 1024;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send an event to a rank.
    Tell(MemberId, JoinEvent),
    /// Close a rank's stream.
    End(MemberId),
    /// Install entries, switch by switch in this order, and read them back; then call [`Jobs::installed`].
    Install {
        /// The job.
        job: JobId,
        /// What each switch needs, children before parents.
        nodes: Vec<(DeviceId, Vec<Entry>)>,
    },
    /// Remove whatever of the job is installed; then call [`Jobs::removed`].
    Remove {
        /// The job.
        job: JobId,
        /// The switches.
        devices: Vec<DeviceId>,
    },
}

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

/// All jobs.
#[derive(Debug)]
pub struct Jobs {
    settings: TreeSettings,
    failure: FailureSettings,
    limits: Limits,
    addresses: Addresses,
    names: BTreeMap<DeviceId, String>,
    graph: Graph,
    jobs: BTreeMap<JobId, Job>,
    /// Groups that can be joined or are in use; one that closes is no longer here.
    by_name: BTreeMap<GroupName, JobId>,
    by_member: BTreeMap<MemberId, (JobId, u16)>,
    pools: BTreeMap<DeviceId, Pool>,
    closed: VecDeque<northbound::Job>,
    /// How groups ended, for ranks whose stream was lost just then.
    ends: VecDeque<attach::End>,
    /// Jobs that were submitted, by name.
    submitted: BTreeMap<String, claim::Submission>,
    /// No others may be joined.
    submitted_only: bool,
    /// Groups that could not form just now.
    spoiled: VecDeque<spoil::Spoiled>,
    queue: queue::Queue,
    mint: Mint,
    next_job: JobId,
    next_tree_id: u16,
    next_generation: u32,
    /// What happened since it was last asked for.
    notes: Vec<Note>,
}

#[derive(Debug)]
struct Job {
    name: GroupName,
    terms: Terms,
    /// The job token that its first rank gave.
    token: Option<Digest>,
    /// Its place in the queue, while it waits there.
    queued: Option<queue::Queued>,
    /// Opened beyond the number of groups that its tenant may have: it waits until there are fewer.
    is_over: bool,
    /// 0 until planned. Between two generations the one to come.
    generation: u32,
    /// The generations that ranks were assigned to.
    assigned: Option<(u32, u32)>,
    phase: Phase,
    members: BTreeMap<u16, Member>,
    /// Ranks that died while the others went on.
    lost: Vec<u16>,
    plan: Option<Plan>,
    /// Why there is none and the group runs as a ring.
    ring: Option<String>,
    work: Work,
    /// Slots of all trees together, and of each: fixed with the first generation.
    places: usize,
    slots_per_tree: usize,
    stalls: stalled::Stalls,
    /// Since when it has had no generation that works.
    unsettled: Option<Instant>,
    /// Where the latest generation began, if it was not the first.
    resume: Option<change::Agreement>,
}

/// What is going on in the switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Idle,
    Installing,
    Removing,
}

#[derive(Debug)]
struct Member {
    id: MemberId,
    /// Of its member token. None: it joined before there were any.
    token: Option<Digest>,
    address: Ipv4Addr,
    udp_port: u16,
    /// Where it awaits its neighbour in a ring; 0: nowhere.
    ring_port: u16,
    /// False once it left or died.
    is_here: bool,
    /// Since when it has no stream.
    lost_at: Option<Instant>,
    /// What it told when it left.
    account: Option<Account>,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Waiting {
        told: Instant,
        /// Since when all ranks are here, and why there is no tree yet.
        complete: Option<(Instant, String)>,
    },
    Installing,
    Running,
    Draining {
        since: Instant,
    },
    /// Between two generations.
    Changing(Change),
    Closing {
        reason: String,
    },
}

impl Jobs {
    /// No jobs. Generations begin above `last_generation`, which must be above all that earlier controllers used.
    pub fn new(inventory: &Inventory, last_generation: u32) -> Self {
        let switches = inventory.switches.iter();
        Self {
            settings: inventory.trees,
            failure: inventory.failure,
            limits: inventory.limits,
            addresses: Addresses::of(inventory),
            names: switches.clone().map(|switch| (switch.device_id, switch.name.clone())).collect(),
            graph: Graph::default(),
            jobs: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_member: BTreeMap::new(),
            pools: switches.map(|switch| (switch.device_id, Pool::new())).collect(),
            closed: VecDeque::new(),
            ends: VecDeque::new(),
            submitted: BTreeMap::new(),
            submitted_only: inventory.security.submitted_only,
            spoiled: VecDeque::new(),
            queue: queue::Queue::default(),
            mint: Mint::new(),
            next_job: 1,
            next_tree_id: 1,
            next_generation: last_generation.saturating_add(1),
            notes: Vec::new(),
        }
    }

    /// When [`Self::tick`] is due; `None` while nothing waits for time.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.jobs
            .values()
            .flat_map(|job| {
                let phase = match &job.phase {
                    Phase::Waiting { told, .. } => Some(*told + WAITING_INTERVAL),
                    Phase::Draining { since } => Some(*since + self.settings.leave_linger),
                    Phase::Changing(change) => job.change_timeout(change, &self.failure),
                    Phase::Installing | Phase::Running | Phase::Closing { .. } => None,
                };
                let lost = job.members.values().filter_map(|member| member.lost_at);
                let lost = lost.map(|at| at + self.failure.attach_grace);
                phase.into_iter().chain(job.queue_timeout()).chain(lost)
            })
            .chain(self.idle_timeout())
            .min()
    }

    /// A rank wants to join; `id` names its stream from now on, unless it is refused: then see [`Jobs::refused`].
    pub fn join(
        &mut self,
        now: Instant,
        id: MemberId,
        request: &northbound::JoinRequest,
    ) -> Result<Vec<Action>, JoinError> {
        let joining = Joining::parse(request)?;
        if request.attach_generation != 0 {
            return self.attach(now, id, request, &joining);
        }
        self.may_enter(&joining)?;
        self.is_late(now, &joining)?;
        let token = self.mint.token("member").ok_or(JoinError::NoRandom)?;
        let mut actions = Vec::new();
        self.restarted(now, &joining, &mut actions);
        let current = self.by_name.get(&joining.name).copied();
        let open = current.and_then(|job| Some((job, self.jobs.get(&job)?)));
        let job = match open {
            Some((job, current)) => {
                // A rank of a group that is coming to its end may already begin the next one.
                let is_over = matches!(current.phase, Phase::Draining { .. })
                    && current.members.get(&joining.rank).is_none_or(|member| !member.is_here);
                if is_over {
                    let is_over = self.may_open(&joining)?;
                    self.open(now, &joining, is_over)
                } else {
                    current.admits(&joining)?;
                    job
                }
            }
            None => {
                let is_over = self.may_open(&joining)?;
                self.open(now, &joining, is_over)
            }
        };
        tracing::info!(name = %joining.name, rank = joining.rank, world = joining.terms.world, address = %joining.address, "rank joined");
        let detail = format!("of {}, from {}", joining.terms.world, joining.address);
        self.notes.push(Note::new(&joining.name, Happening::RankJoined, detail).of_rank(joining.rank));
        self.by_member.insert(id, (job, joining.rank));
        if let Some(job) = self.jobs.get_mut(&job) {
            job.terms.dtype = job.terms.dtype.or(joining.terms.dtype);
            let member = Member {
                id,
                token: Some(Digest::of(&token)),
                address: joining.address,
                udp_port: joining.udp_port,
                ring_port: joining.ring_port,
                is_here: true,
                lost_at: None,
                account: None,
            };
            job.members.insert(joining.rank, member);
        }
        actions.push(Action::Tell(id, JoinEvent::Membership(northbound::Membership { token })));
        self.advance(now, job, true, &mut actions);
        self.serve_queue(now, &mut actions);
        Ok(actions)
    }

    /// Whether its tenant may have one more group, if only in the queue: true.
    fn may_open(&self, joining: &Joining) -> Result<bool, JoinError> {
        let (name, limit) = (&joining.name, self.limits.groups_per_tenant as usize);
        let open = self.groups_of(name.tenant()).count();
        if limit == 0 || open < limit {
            return Ok(false);
        }
        if joining.terms.queue.is_some() && open < limit.saturating_add(queue::MAX_OVER) {
            return Ok(true);
        }
        Err(JoinError::Groups { name: name.clone(), tenant: name.tenant().to_owned(), open, limit })
    }

    /// Groups of a tenant that are not at their end.
    fn groups_of(&self, tenant: &str) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(move |job| {
            job.name.tenant() == tenant
                && !matches!(job.phase, Phase::Closing { .. } | Phase::Draining { .. })
        })
    }

    fn open(&mut self, now: Instant, joining: &Joining, is_over: bool) -> JobId {
        let id = self.next_job;
        self.next_job += 1;
        let token = joining.job_token;
        let job = Job { token, is_over, ..Job::new(now, joining.name.clone(), joining.terms) };
        self.jobs.insert(id, job);
        self.by_name.insert(joining.name.clone(), id);
        id
    }

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

    /// A group's name.
    pub fn name_of(&self, id: JobId) -> Option<&GroupName> {
        self.jobs.get(&id).map(|job| &job.name)
    }

    /// What happened since this was last called, for those who watch.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
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
    fn departed(&mut self, now: Instant, id: JobId, rank: u16, actions: &mut Vec<Action>) {
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

    /// The topology is now this: groups that wait are planned again, groups that lost something they need get other trees.
    pub fn topology(&mut self, now: Instant, graph: Graph) -> Vec<Action> {
        self.graph = graph;
        self.queue.changed = true;
        let mut actions = Vec::new();
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            let Some(job) = self.jobs.get(&id) else { continue };
            match job.phase {
                Phase::Waiting { .. } => self.advance(now, id, false, &mut actions),
                Phase::Changing(_) => self.advance_change(now, id, &mut actions),
                Phase::Closing { .. } => {}
                Phase::Installing | Phase::Running | Phase::Draining { .. } => {
                    let broken =
                        job.plan.as_ref().and_then(|plan| plan.broken(&self.graph, |d| self.name(d)));
                    if let Some(reason) = broken {
                        self.broken(now, id, reason, &mut actions);
                    }
                }
            }
        }
        self.serve_queue(now, &mut actions);
        actions
    }

    /// An installation has ended: everything was read back, or this went wrong.
    pub fn installed(&mut self, now: Instant, id: JobId, result: Result<(), String>) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(job) = self.jobs.get_mut(&id) else { return actions };
        if job.work != Work::Installing {
            return actions;
        }
        job.work = Work::Idle;
        match (&job.phase, result) {
            (Phase::Installing, Ok(())) => {
                let first = job.assigned.map_or(job.generation, |(first, _)| first);
                job.assigned = Some((first, job.generation));
                (job.phase, job.unsettled) = (Phase::Running, None);
                job.stalls = stalled::Stalls::default();
                if let Some(plan) = &job.plan {
                    job.slots_per_tree = plan.slots() as usize;
                    job.places = plan.stripes.len() * job.slots_per_tree;
                }
                tracing::info!(name = %job.name, generation = job.generation, world = job.size(), "group is ready");
                let detail = format!("generation {}, {} ranks", job.generation, job.size());
                self.notes.push(Note::new(&job.name, Happening::GroupReady, detail));
                self.assign(id, &mut actions);
            }
            (Phase::Installing, Err(reason)) => {
                let reason = format!("the trees could not be installed: {reason}");
                match job.assigned {
                    None => self.close(id, reason, Vec::new(), &mut actions),
                    Some(_) => self.broken(now, id, reason, &mut actions),
                }
            }
            // Broken, or closed, while it was being installed.
            _ => self.clear(id, &mut actions),
        }
        self.serve_queue(now, &mut actions);
        actions
    }

    /// A removal has ended, as far as the switches could be reached: those that could not lose what is left when they come back.
    pub fn removed(&mut self, now: Instant, id: JobId) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(job) = self.jobs.get_mut(&id) else { return actions };
        if job.work != Work::Removing {
            return actions;
        }
        job.work = Work::Idle;
        match job.phase {
            Phase::Closing { .. } => self.retire(id),
            _ => {
                if let Some(plan) = job.plan.take() {
                    plan.give_back(&mut self.pools);
                    self.queue.changed = true;
                }
                match self.jobs.get(&id).map(|job| &job.phase) {
                    Some(Phase::Waiting { .. }) => self.advance(now, id, true, &mut actions),
                    Some(Phase::Changing(_)) => self.advance_change(now, id, &mut actions),
                    _ => {}
                }
            }
        }
        self.serve_queue(now, &mut actions);
        actions
    }

    /// Tells every rank of a group its trees.
    fn assign(&self, id: JobId, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get(&id) else { return };
        for (rank, member) in job.members.iter().filter(|(_, member)| member.lost_at.is_none()) {
            if let Some(assignment) = job.assignment(*rank, &self.addresses, |d| self.name(d)) {
                actions.push(Action::Tell(member.id, JoinEvent::Assignment(assignment)));
            }
        }
    }

    /// Removes what a group has in the switches, unless something is going on there already.
    fn clear(&mut self, id: JobId, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let (Work::Idle, Some(plan)) = (job.work, &job.plan) {
            job.work = Work::Removing;
            actions.push(Action::Remove { job: id, devices: plan.devices() });
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            self.bury(now, id, &mut actions);
            let Some(job) = self.jobs.get(&id) else { continue };
            match &job.phase {
                Phase::Waiting { told, .. } if now >= *told + WAITING_INTERVAL => {
                    self.advance(now, id, true, &mut actions);
                }
                Phase::Draining { since } if now >= *since + self.settings.leave_linger => {
                    let left: Vec<u16> = job
                        .members
                        .iter()
                        .filter(|(_, member)| !member.is_here)
                        .map(|(rank, _)| *rank)
                        .collect();
                    let reason = match left.as_slice() {
                        [rank] => format!("rank {rank} left"),
                        ranks => format!("ranks {ranks:?} left"),
                    };
                    self.end(now, id, reason, left, &mut actions);
                }
                Phase::Changing(_) => self.tick_change(now, id, &mut actions),
                _ => {}
            }
        }
        self.forget_idle(now);
        self.serve_queue(now, &mut actions);
        actions
    }

    /// A waiting group: plans it if it is complete, else (and if asked) tells its ranks what is missing.
    fn advance(&mut self, now: Instant, id: JobId, tell: bool, actions: &mut Vec<Action>) {
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

    fn tell_waiting(&mut self, now: Instant, id: JobId, actions: &mut Vec<Action>) {
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
    fn next_generation(&mut self) -> u32 {
        let generation = self.next_generation;
        self.next_generation = generation.saturating_add(1);
        generation
    }

    /// Plans trees and takes what they need; the group is being installed then. Without a turn, only what nobody else waits for.
    fn plan(
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
    fn has_share(&self, tenant: &str, except: Option<JobId>, plan: &Plan) -> Result<(), PlanError> {
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

    fn name(&self, device: DeviceId) -> String {
        self.names.get(&device).cloned().unwrap_or_else(|| format!("switch {device}"))
    }

    fn describe(&self, error: &PlanError) -> String {
        error.describe(|device| self.name(device))
    }
}

fn gone(rank: u16, member: &Member) -> String {
    format!("rank {rank} at {} is gone: its stream ended without a leave", member.address)
}

impl Member {
    /// Whether the token given is that of its membership.
    fn is_shown(&self, token: &str) -> bool {
        self.token.is_none_or(|digest| digest.is_of(token))
    }
}

impl Job {
    /// A group without ranks.
    fn new(now: Instant, name: GroupName, terms: Terms) -> Self {
        Self {
            name,
            terms,
            token: None,
            queued: None,
            is_over: false,
            generation: 0,
            assigned: None,
            phase: Phase::Waiting { told: now, complete: None },
            members: BTreeMap::new(),
            lost: Vec::new(),
            plan: None,
            ring: None,
            work: Work::Idle,
            places: 0,
            slots_per_tree: 0,
            stalls: stalled::Stalls::default(),
            unsettled: None,
            resume: None,
        }
    }

    /// Ranks that sums are made of.
    fn size(&self) -> u16 {
        match self.assigned {
            None => self.terms.world,
            Some(_) => self.members.len() as u16,
        }
    }

    fn places(&self) -> usize {
        self.places
    }

    /// Whether ranks were, or are to be, in this generation.
    fn was_in(&self, generation: u32) -> bool {
        match self.assigned {
            None => generation == self.generation,
            Some((first, last)) => (first..=last).contains(&generation),
        }
    }

    fn missing(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.terms.world).filter(|rank| !self.members.contains_key(rank))
    }

    /// Whether a newcomer fits.
    fn admits(&self, joining: &Joining) -> Result<(), JoinError> {
        let name = || self.name.clone();
        if let (Some((what, given, agreed)), Some((other, member))) =
            (joining.terms.clash(&self.terms), self.members.first_key_value())
        {
            let (rank, other, address) = (joining.rank, *other, member.address);
            return Err(JoinError::Terms { name: name(), what, given, rank, other, address, agreed });
        }
        if self.lost.contains(&joining.rank) {
            return Err(JoinError::RankLost { name: name(), rank: joining.rank });
        }
        if let Some(member) = self.members.get(&joining.rank) {
            let (rank, address, udp_port) = (joining.rank, member.address, member.udp_port);
            return Err(JoinError::RankTaken { name: name(), rank, address, udp_port });
        }
        let same = |member: &Member| (member.address, member.udp_port) == (joining.address, joining.udp_port);
        if let Some((other, _)) = self.members.iter().find(|(_, member)| same(member)) {
            let Joining { rank, address, udp_port, .. } = *joining;
            return Err(JoinError::AddressTaken { name: name(), rank, address, udp_port, other: *other });
        }
        if let Some(other) = self.ring_clash(joining.address, joining.ring_port) {
            let Joining { rank, address, ring_port, .. } = *joining;
            return Err(JoinError::AddressTaken { name: name(), rank, address, udp_port: ring_port, other });
        }
        Ok(())
    }
}
