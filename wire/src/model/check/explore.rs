//! Breadth-first search over all states of a topology.

use std::collections::HashSet;

use super::network::{Network, Sent, Verdict};
use super::topology::{Message, Place, Topology};
use crate::model::slot::SwitchModel;

/// What goes wrong besides the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Switch 0 may lose its registers at any time.
    Forget,
    /// Rank 0 sends what it contributes in sequence 2 in sequence 1 as well.
    ReuseSequence,
}

#[derive(Debug)]
pub(super) struct Explored {
    pub(super) verdict: Verdict,
    pub(super) states: usize,
    /// Distinct states of hosts and switches, whatever is in flight.
    pub(super) held: usize,
    /// What led to the fault.
    pub(super) trace: Vec<Message>,
}

/// What hosts and switches hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held {
    /// Per switch, the number of its state.
    switches: Vec<usize>,
    /// Per host, the operation it is in.
    operations: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    held: Held,
    sent: Sent,
}

struct Explorer<'a> {
    network: Network<'a>,
}

pub(super) fn explore(topology: &Topology, fault: Fault) -> Explored {
    let mut explorer = Explorer { network: Network::new(topology) };
    let start = explorer.start(fault);
    let forgotten = start.held.switches[0];

    let mut states = vec![(start.clone(), None)];
    let mut seen = HashSet::from([start]);
    let mut held_seen = HashSet::new();
    let mut next = 0;
    while let Some((state, _)) = states.get(next).cloned() {
        if held_seen.insert(state.held.clone()) {
            let verdict = explorer.completes(&state.held);
            if verdict != Verdict::Right {
                return explorer.report(verdict, &states, next, held_seen.len());
            }
        }
        let mut successors = Vec::new();
        for message in state.sent.iter() {
            let Some(successor) = explorer.deliver(&state, message) else {
                states.push((state.clone(), Some((next, message))));
                return explorer.report(Verdict::Wrong, &states, states.len() - 1, held_seen.len());
            };
            successors.push((successor, Some((next, message))));
        }
        if fault == Fault::Forget {
            let mut successor = state;
            successor.held.switches[0] = forgotten;
            successors.push((successor, None));
        }
        for (successor, from) in successors {
            if seen.insert(successor.clone()) {
                states.push((successor, from));
            }
        }
        next += 1;
    }
    explorer.report(Verdict::Right, &states, 0, held_seen.len())
}

impl Explorer<'_> {
    fn start(&mut self, fault: Fault) -> State {
        let topology = self.network.topology;
        let models = topology.configs.iter().map(|config| SwitchModel::new([config.clone()]));
        let switches = models.map(|model| self.network.switches.number(model)).collect();
        let operations = vec![0; topology.world()];
        let held = Held { switches, operations };
        let mut sent = Sent::default();
        self.contributions(&held).into_iter().for_each(|message| sent.add(message));
        if fault == Fault::ReuseSequence {
            let second = topology.contribution(0, 1, 0, 0);
            let reused = topology.contribution(0, 0, 0, 0).zip(second);
            let reused = reused.map(|(first, second)| Message { words: second.words, ..first });
            reused.into_iter().for_each(|message| sent.add(self.network.messages.number(message)));
        }
        State { held, sent }
    }

    /// What every host repeats.
    fn contributions(&mut self, held: &Held) -> Vec<usize> {
        let topology = self.network.topology;
        let hosts = held.operations.iter().enumerate();
        let sent = hosts.filter_map(|(rank, operation)| topology.contribution(rank, *operation, 0, 0));
        sent.map(|message| self.network.messages.number(message)).collect()
    }

    /// The state after this message arrived; none if a host took a wrong result.
    fn deliver(&mut self, state: &State, message: usize) -> Option<State> {
        let mut state = state.clone();
        let sent = self.arrive(0, &mut state.held, message)?;
        sent.into_iter().for_each(|message| state.sent.add(message));
        Some(state)
    }

    /// What is sent when this message arrives; none if a host takes a wrong result.
    fn arrive(&mut self, now: u64, held: &mut Held, message: usize) -> Option<Vec<usize>> {
        match self.network.place(message) {
            Place::Host(rank) => self.arrive_at_host(held, rank, message),
            Place::Switch(switch, port) => {
                Some(self.network.arrive(now, &mut held.switches, (switch, port), message))
            }
        }
    }

    /// A host takes the result it awaits and sends its next contribution.
    fn arrive_at_host(&mut self, held: &mut Held, rank: usize, message: usize) -> Option<Vec<usize>> {
        let topology = self.network.topology;
        let operation = held.operations[rank];
        let Some(contribution) = topology.contribution(rank, operation, 0, 0) else {
            return Some(Vec::new());
        };
        let right = &topology.results[operation];
        match self.network.judge(message, contribution.header, topology.world(), right) {
            None => return Some(Vec::new()),
            Some(false) => return None,
            Some(true) => held.operations[rank] += 1,
        }
        let next = topology.contribution(rank, operation + 1, 0, 0);
        Some(next.map(|message| self.network.messages.number(message)).into_iter().collect())
    }

    /// Whether hosts that repeat themselves reach the end if nothing is lost from now on, all that is in flight being lost.
    fn completes(&mut self, held: &Held) -> Verdict {
        let mut held = held.clone();
        let topology = self.network.topology;
        let rounds = (topology.configs.len() + 2) * topology.results.len();
        let limited = topology.configs[0].resend_interval_us > 0;
        for round in 1..=rounds {
            let now = if limited { round as u64 } else { 0 };
            let mut arriving = self.contributions(&held);
            if arriving.is_empty() {
                return Verdict::Right;
            }
            let mut at = 0;
            while let Some(message) = arriving.get(at).copied() {
                let Some(sent) = self.arrive(now, &mut held, message) else { return Verdict::Wrong };
                arriving.extend(sent);
                at += 1;
            }
        }
        Verdict::Stuck
    }

    fn report(
        &self,
        verdict: Verdict,
        states: &[(State, Option<(usize, usize)>)],
        mut at: usize,
        held: usize,
    ) -> Explored {
        let mut trace = Vec::new();
        while let (_, Some((from, message))) = states[at] {
            trace.push(self.network.messages.things[message].clone());
            at = from;
        }
        trace.reverse();
        Explored { verdict, states: states.len(), held, trace }
    }
}
