//! An exhaustive check of generation change (`docs/protocol.md`): every order in which a controller closes a generation, ranks report,
//! copy and open, ranks die or give up, and packets of all generations arrive, again and again or never.
//!
//! Removing entries is not a step of its own: a switch without entries drops packets, and so may the network. New entries are all
//! there before any rank sends, so their order can't be seen either. Orders to open stay on their way like packets do, since two
//! controllers may be talking.

use std::collections::{HashMap, HashSet};

use super::network::{Network, Sent, Verdict};
use super::topology::{Place, Topology};
use crate::model::allreduce::ChunkResult;
use crate::model::slot::{SwitchModel, TreeConfig};

/// Most generations; the first is number 0. A failure that is noticed only at the end takes one more than was explored.
const GENERATIONS: usize = 4;
/// Most ranks and operations.
const RANKS: usize = 4;
const OPERATIONS: usize = 3;

/// Who takes part in the next generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// Nobody dies: a switch failed.
    Same,
    /// A rank may die; the others go on.
    Shrink,
    /// A rank may die or give up; what is not finished fails.
    Abort,
}

/// A rule of the agreement, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Each rank begins the new generation where it is.
    OwnPlace,
    /// Sequences go on in the new generation.
    SequencesGoOn,
    /// A rank that has reported still takes a result of the old generation.
    TakesResultsAfterReport,
    /// All go back to the one that is furthest behind.
    SumsAgain,
    /// What is finished can't be copied.
    RetainsNothing,
    /// What is retained is forgotten before all have it.
    ForgetsWhenReady,
    /// The new generation has the old one's number.
    NumberReused,
    /// An order to open counts although a later attempt has begun.
    TakesOldOpen,
    /// The place is agreed on before all have reported.
    AgreesWithoutAll,
}

/// What may happen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) policy: Policy,
    /// Most attempts at a new generation while exploring.
    pub(super) attempts: u8,
    pub(super) broken: Option<Rule>,
}

#[derive(Debug)]
pub(super) struct Explored {
    pub(super) verdict: Verdict,
    pub(super) states: usize,
    /// What led to the fault.
    pub(super) trace: Vec<Step>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Packet(usize),
    Dies(usize),
    GivesUp(usize),
    Attempt,
    Stops(usize),
    Agree,
    Fetch,
    Ready(usize),
    Install,
    Opens(usize, u8),
    Ends(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Running,
    Stopped,
    /// Its group has ended.
    Ended,
    GaveUp,
    Dead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Host {
    phase: Phase,
    generation: u8,
    /// The operation that its generation began with.
    base: u8,
    /// The operation it sums.
    at: u8,
    /// Operations it has finished, and of which ranks each result is the sum.
    finished: u8,
    results: [u8; OPERATIONS],
    /// The latest attempt that it has heard of.
    promised: u8,
    /// It no longer has its last result to give.
    forgot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    Closing,
    /// The place is agreed on; ranks that are behind copy.
    Copying,
    Opening,
    Ending,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Controller {
    attempt: u8,
    stage: Stage,
    members: u8,
    reports: [Option<u8>; RANKS],
    agreed: u8,
    /// The copy for those that are behind: of which ranks it is the sum.
    fetched: Option<u8>,
    ready: u8,
    /// Per generation its members and first operation, once orders to open it were sent.
    opened: [Option<(u8, u8)>; GENERATIONS],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held {
    switches: Vec<usize>,
    hosts: Vec<Host>,
    controller: Controller,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    held: Held,
    sent: Sent,
}

struct Explorer<'a> {
    network: Network<'a>,
    scenario: Scenario,
    /// (operation, members) -> the right sum.
    results: HashMap<(usize, u8), ChunkResult>,
}

pub(super) fn explore(topology: &Topology, scenario: Scenario) -> Explored {
    let mut explorer = Explorer { network: Network::new(topology), scenario, results: HashMap::new() };
    let start = explorer.start();
    let mut states = vec![(start.clone(), None)];
    let mut seen = HashSet::from([start]);
    let mut held_seen = HashSet::new();
    let mut next = 0;
    while let Some((state, _)) = states.get(next).cloned() {
        if held_seen.insert(state.held.clone())
            && let Err(verdict) = explorer.completes(&state.held)
        {
            return report(verdict, &states, next, None);
        }
        let mut successors = Vec::new();
        for message in state.sent.iter() {
            successors.push((Step::Packet(message), explorer.deliver(&state, message)));
        }
        for (step, held) in explorer.steps(&state.held) {
            let successor = held.map(|held| explorer.with_contributions(held, state.sent.clone()));
            successors.push((step, successor));
        }
        for (step, successor) in successors {
            match successor {
                Err(verdict) => return report(verdict, &states, next, Some(step)),
                Ok(successor) if seen.insert(successor.clone()) => {
                    states.push((successor, Some((next, step))));
                }
                Ok(_) => {}
            }
        }
        next += 1;
    }
    report(Verdict::Right, &states, 0, None)
}

fn report(
    verdict: Verdict,
    states: &[(State, Option<(usize, Step)>)],
    mut at: usize,
    last: Option<Step>,
) -> Explored {
    let mut trace: Vec<_> = last.into_iter().collect();
    while let (_, Some((from, step))) = states[at] {
        trace.push(step);
        at = from;
    }
    trace.reverse();
    Explored { verdict, states: states.len(), trace }
}

impl Explorer<'_> {
    fn breaks(&self, rule: Rule) -> bool {
        self.scenario.broken == Some(rule)
    }

    fn start(&mut self) -> State {
        let topology = self.network.topology;
        let models = topology.configs.iter().map(|config| SwitchModel::new([config.clone()]));
        let switches = models.map(|model| self.network.switches.number(model)).collect();
        let host = Host {
            phase: Phase::Running,
            generation: 0,
            base: 0,
            at: 0,
            finished: 0,
            results: [0; OPERATIONS],
            promised: 0,
            forgot: false,
        };
        let members = topology.everybody();
        let controller = Controller {
            attempt: 0,
            stage: Stage::Idle,
            members,
            reports: [None; RANKS],
            agreed: 0,
            fetched: None,
            ready: 0,
            opened: [Some((members, 0)), None, None, None],
        };
        let held = Held { switches, hosts: vec![host; topology.world()], controller };
        self.with_contributions(held, Sent::default())
    }

    /// What every running host sends is on its way.
    fn with_contributions(&mut self, held: Held, mut sent: Sent) -> State {
        self.contributions(&held).into_iter().for_each(|message| sent.add(message));
        State { held, sent }
    }

    fn contributions(&mut self, held: &Held) -> Vec<usize> {
        let running = held.hosts.iter().enumerate().filter(|(_, host)| host.phase == Phase::Running);
        let sent = running.filter_map(|(rank, host)| self.contribution(rank, host));
        let sent: Vec<_> = sent.collect();
        sent.into_iter().map(|message| self.network.messages.number(message)).collect()
    }

    fn contribution(&self, rank: usize, host: &Host) -> Option<super::topology::Message> {
        let generation = if self.breaks(Rule::NumberReused) { 0 } else { host.generation };
        self.network.topology.contribution(rank, host.at.into(), generation.into(), host.base.into())
    }

    fn deliver(&mut self, state: &State, message: usize) -> Result<State, Verdict> {
        let mut state = state.clone();
        let sent = self.arrive(&mut state.held, message)?;
        sent.into_iter().for_each(|message| state.sent.add(message));
        Ok(state)
    }

    fn arrive(&mut self, held: &mut Held, message: usize) -> Result<Vec<usize>, Verdict> {
        match self.network.place(message) {
            Place::Host(rank) => self.arrive_at_host(held, rank, message),
            Place::Switch(switch, port) => {
                Ok(self.network.arrive(0, &mut held.switches, (switch, port), message))
            }
        }
    }

    /// A host takes the result it awaits and, running, sends its next contribution.
    fn arrive_at_host(
        &mut self,
        held: &mut Held,
        rank: usize,
        message: usize,
    ) -> Result<Vec<usize>, Verdict> {
        let host = &held.hosts[rank];
        let listens = host.phase == Phase::Running
            || host.phase == Phase::Stopped && self.breaks(Rule::TakesResultsAfterReport);
        let contribution = self.contribution(rank, host).filter(|_| listens);
        let (Some(contribution), Some((members, _))) =
            (contribution, held.controller.opened[usize::from(host.generation)])
        else {
            return Ok(Vec::new());
        };
        let operation = usize::from(host.at);
        let topology = self.network.topology;
        let right =
            self.results.entry((operation, members)).or_insert_with(|| topology.result(operation, members));
        let world = members.count_ones() as usize;
        match self.network.judge(message, contribution.header, world, right) {
            None => return Ok(Vec::new()),
            Some(false) => return Err(Verdict::Wrong),
            Some(true) => finish(held, rank, members)?,
        }
        let host = &held.hosts[rank];
        let next = self.contribution(rank, host).filter(|_| host.phase == Phase::Running);
        Ok(next.map(|message| self.network.messages.number(message)).into_iter().collect())
    }

    /// Everything besides packets that may happen next.
    fn steps(&mut self, held: &Held) -> Vec<(Step, Result<Held, Verdict>)> {
        let mut steps = self.orderly_steps(held);
        for rank in 0..held.hosts.len() {
            let may_fail = held.hosts.iter().all(|host| !host.is_lost());
            if may_fail && self.scenario.policy != Policy::Same {
                steps.push((Step::Dies(rank), Ok(held.with(rank, |host| host.phase = Phase::Dead))));
            }
            let calls = usize::from(held.hosts[rank].finished) < self.network.topology.results.len();
            if may_fail
                && calls
                && self.scenario.policy == Policy::Abort
                && held.hosts[rank].phase == Phase::Running
            {
                steps.push((Step::GivesUp(rank), Ok(held.with(rank, |host| host.phase = Phase::GaveUp))));
            }
        }
        let abort_is_due = self.scenario.policy != Policy::Abort || held.hosts.iter().any(Host::is_lost);
        if held.controller.attempt < self.scenario.attempts && abort_is_due {
            steps.push((Step::Attempt, Ok(held.attempt())));
        }
        steps
    }

    /// What controller and ranks do for an attempt that has begun.
    fn orderly_steps(&mut self, held: &Held) -> Vec<(Step, Result<Held, Verdict>)> {
        let mut steps = Vec::new();
        let controller = &held.controller;
        let attempt = controller.attempt;
        for rank in (0..held.hosts.len()).filter(|rank| controller.members >> rank & 1 == 1) {
            let host = &held.hosts[rank];
            if host.is_lost() {
                continue;
            }
            if host.promised < attempt {
                let mut next = held.with(rank, |host| host.stop(attempt));
                next.controller.reports[rank] = Some(host.finished);
                steps.push((Step::Stops(rank), Ok(next)));
            } else if controller.stage == Stage::Copying && controller.ready >> rank & 1 == 0 {
                steps.extend(self.ready(held, rank).map(|next| (Step::Ready(rank), next)));
            } else if controller.stage == Stage::Ending && host.phase == Phase::Stopped {
                let next = held.with(rank, |host| host.phase = Phase::Ended);
                let uneven = held.hosts.iter().any(|other| {
                    !other.is_lost() && other.finished > host.finished && other.promised == attempt
                });
                steps.push((Step::Ends(rank), if uneven { Err(Verdict::Disagree) } else { Ok(next) }));
            }
        }
        for rank in 0..held.hosts.len() {
            for generation in 1..=attempt {
                let next = self.open(held, rank, generation);
                steps.extend(next.map(|next| (Step::Opens(rank, generation), Ok(next))));
            }
        }
        let needed = |rank: &usize| controller.members >> rank & 1 == 1;
        let reports = || (0..held.hosts.len()).filter(needed).map(|rank| controller.reports[rank]);
        let enough = reports().all(|report| report.is_some())
            || self.breaks(Rule::AgreesWithoutAll) && reports().any(|report| report.is_some());
        if controller.stage == Stage::Closing && enough {
            let mut next = held.clone();
            let most = reports().flatten().max().unwrap_or(0);
            let least = reports().flatten().min().unwrap_or(0);
            next.controller.agreed = if self.breaks(Rule::SumsAgain) { least } else { most };
            next.controller.stage = Stage::Copying;
            steps.push((Step::Agree, Ok(next)));
        }
        if controller.stage == Stage::Copying && controller.fetched.is_none() {
            steps.extend(self.fetch(held).map(|next| (Step::Fetch, Ok(next))));
        }
        if controller.stage == Stage::Copying && controller.ready == controller.members {
            steps.push((Step::Install, Ok(self.install(held))));
        }
        steps
    }

    /// The controller gets what some rank lacks from the lowest one that has it.
    fn fetch(&self, held: &Held) -> Option<Held> {
        let agreed = held.controller.agreed;
        let is_behind = held.controller.reports.iter().flatten().any(|finished| *finished < agreed);
        let holder = held.hosts.iter().find(|host| {
            let has = host.finished == agreed && !host.forgot && !self.breaks(Rule::RetainsNothing);
            !host.is_lost() && host.promised == held.controller.attempt && has
        });
        let result = holder.filter(|_| is_behind)?.results[usize::from(agreed) - 1];
        let mut next = held.clone();
        next.controller.fetched = Some(result);
        Some(next)
    }

    /// The rank has, or gets, what was agreed on.
    fn ready(&self, held: &Held, rank: usize) -> Option<Result<Held, Verdict>> {
        let (agreed, fetched) = (held.controller.agreed, held.controller.fetched);
        let mut next = held.clone();
        next.controller.ready |= 1 << rank;
        if held.hosts[rank].finished >= agreed || self.breaks(Rule::OwnPlace) {
            next.hosts[rank].forgot |= self.breaks(Rule::ForgetsWhenReady);
            return Some(Ok(next));
        }
        if held.hosts[rank].finished + 1 < agreed {
            return Some(Err(Verdict::Wrong));
        }
        next.hosts[rank].at = held.hosts[rank].finished;
        let copied = finish(&mut next, rank, fetched?);
        Some(copied.map(|()| next))
    }

    /// The entries of the new generation; after an abort there are none.
    fn install(&mut self, held: &Held) -> Held {
        let mut next = held.clone();
        let Controller { attempt, members, agreed, .. } = held.controller;
        if self.scenario.policy == Policy::Abort {
            next.controller.stage = Stage::Ending;
            return next;
        }
        let topology = self.network.topology;
        let generation = if self.breaks(Rule::NumberReused) { 0 } else { attempt };
        for (switch, state) in next.switches.iter_mut().enumerate() {
            let mut model = self.network.switches.things[*state].clone();
            let config: TreeConfig = topology.config(switch, generation.into(), members);
            model.remove(config.tree_id);
            model.install(config);
            *state = self.network.switches.number(model);
        }
        next.controller.stage = Stage::Opening;
        if let Some(opened) = next.controller.opened.get_mut(usize::from(attempt)) {
            *opened = Some((members, agreed));
        }
        next
    }

    /// A rank gets an order to open, from the latest attempt or one before.
    fn open(&self, held: &Held, rank: usize, generation: u8) -> Option<Held> {
        let host = &held.hosts[rank];
        let (members, agreed) = (*held.controller.opened.get(usize::from(generation))?)?;
        let awaited = if self.breaks(Rule::TakesOldOpen) {
            generation > host.generation
        } else {
            generation == host.promised
        };
        if host.phase != Phase::Stopped || !awaited || members >> rank & 1 == 0 {
            return None;
        }
        let base = match self.scenario.broken {
            Some(Rule::SequencesGoOn) => 0,
            Some(Rule::OwnPlace) => host.finished,
            _ => agreed,
        };
        let at = if self.breaks(Rule::SequencesGoOn) { host.finished.max(agreed) } else { base };
        Some(held.with(rank, |host| {
            (host.phase, host.generation, host.base, host.at) = (Phase::Running, generation, base, at);
        }))
    }

    /// Whether all comes to its end if nothing is lost and nobody fails from now on, all that is in flight being lost.
    fn completes(&mut self, held: &Held) -> Result<(), Verdict> {
        let mut held = held.clone();
        let operations = self.network.topology.results.len();
        for _ in 0..(self.network.topology.configs.len() + 2) * operations + 2 {
            self.settle(&mut held)?;
            let is_done = |host: &Host| usize::from(host.finished) == operations;
            let ended = |host: &Host| matches!(host.phase, Phase::Ended | Phase::GaveUp | Phase::Dead);
            if held.hosts.iter().all(|host| is_done(host) || ended(host)) {
                return Ok(());
            }
            let mut arriving = self.contributions(&held);
            let mut at = 0;
            while let Some(message) = arriving.get(at).copied() {
                arriving.extend(self.arrive(&mut held, message)?);
                at += 1;
            }
        }
        Err(Verdict::Stuck)
    }

    /// The controller notices what has failed, and attempts run to their end.
    fn settle(&mut self, held: &mut Held) -> Result<(), Verdict> {
        loop {
            let lost = |rank: &usize| held.hosts[*rank].is_lost() && held.controller.members >> rank & 1 == 1;
            if (0..held.hosts.len()).any(|rank| lost(&rank)) {
                *held = held.attempt();
            }
            let Some((_, next)) = self.orderly_steps(held).into_iter().next() else { return Ok(()) };
            *held = next?;
        }
    }
}

/// A rank finishes the operation it is at, with the sum of these ranks.
fn finish(held: &mut Held, rank: usize, members: u8) -> Result<(), Verdict> {
    let host = &mut held.hosts[rank];
    let operation = usize::from(host.at);
    host.at += 1;
    host.forgot = false;
    if host.at > host.finished {
        host.finished = host.at;
        host.results[operation] = members;
    }
    let result = held.hosts[rank].results[operation];
    let differs = |host: &Host| usize::from(host.finished) > operation && host.results[operation] != result;
    let live = held.hosts.iter().filter(|host| !host.is_lost());
    if live.into_iter().any(differs) { Err(Verdict::Disagree) } else { Ok(()) }
}

impl Host {
    fn is_lost(&self) -> bool {
        matches!(self.phase, Phase::GaveUp | Phase::Dead)
    }

    /// `Close` arrives. A rank whose group has ended says so each time: the others can only end too.
    fn stop(&mut self, attempt: u8) {
        if self.phase == Phase::Running {
            self.phase = Phase::Stopped;
        }
        self.promised = attempt;
    }
}

impl Held {
    fn with(&self, rank: usize, change: impl FnOnce(&mut Host)) -> Self {
        let mut held = self.clone();
        change(&mut held.hosts[rank]);
        held
    }

    /// The controller begins an attempt with those that it does not know to be lost.
    fn attempt(&self) -> Self {
        let mut held = self.clone();
        let live = (0..self.hosts.len()).filter(|rank| !self.hosts[*rank].is_lost());
        held.controller.attempt += 1;
        held.controller.stage = Stage::Closing;
        held.controller.members = live.fold(0, |members, rank| members | 1 << rank);
        held.controller.reports = [None; RANKS];
        held.controller.fetched = None;
        held.controller.ready = 0;
        held
    }
}
