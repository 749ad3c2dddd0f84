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

use crate::graph::{DeviceId, Graph};
use crate::inventory::{FailureSettings, Inventory, Limits, TreeSettings};
use crate::program::Entry;
use crate::routing::Addresses;

mod admit;
mod attach;
mod change;
mod claim;
mod end;
mod join;
mod leave;
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
pub use leave::LeaveError;
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

    /// A group's name.
    pub fn name_of(&self, id: JobId) -> Option<&GroupName> {
        self.jobs.get(&id).map(|job| &job.name)
    }

    /// What happened since this was last called, for those who watch.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
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
