//! Breadth-first search over all states of a topology.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::topology::{Message, Place, Topology};
use crate::model::slot::{SwitchModel, TreeConfig};
use crate::packet::{Flags, Header, Opcode, PLANE_BOTH, WORD_BYTES};

/// What goes wrong besides the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Switch 0 may lose its registers at any time.
    Forget,
    /// Rank 0 sends what it contributes in sequence 2 in sequence 1 as well.
    ReuseSequence,
    /// At any time, once, the controller closes the generation and opens the next: all ranks restart at the first operation
    /// that any of them has not finished. Packets of the old generation stay on their way.
    Renew,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    /// A host accepted a wrong result.
    Wrong,
    /// A state from which a network without loss does not lead to the end.
    Stuck,
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
    /// Per switch, an index of `Explorer::switches`.
    switches: Vec<usize>,
    /// Per host, the operation it is in.
    operations: Vec<usize>,
    /// In the second generation: the operation that it began with.
    base: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    held: Held,
    /// Bit i: message i of `Explorer::messages` was sent.
    sent: u128,
}

/// Numbers things, equal ones alike.
struct Numbered<T> {
    numbers: HashMap<T, usize>,
    things: Vec<T>,
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn new() -> Self {
        Self { numbers: HashMap::new(), things: Vec::new() }
    }

    fn number(&mut self, thing: T) -> usize {
        *self.numbers.entry(thing).or_insert_with_key(|thing| {
            self.things.push(thing.clone());
            self.things.len() - 1
        })
    }
}

struct Explorer<'a> {
    topology: &'a Topology,
    switches: Numbered<SwitchModel>,
    messages: Numbered<Message>,
    /// (switch state, message) -> (its next state, what it sends).
    handled: HashMap<(usize, usize), (usize, Vec<usize>)>,
}

pub(super) fn explore(topology: &Topology, fault: Fault) -> Explored {
    let mut explorer =
        Explorer { topology, switches: Numbered::new(), messages: Numbered::new(), handled: HashMap::new() };
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
        for message in 0..u128::BITS as usize {
            if state.sent >> message & 1 == 1 {
                let Some(successor) = explorer.deliver(&state, message) else {
                    states.push((state, Some((next, message))));
                    return explorer.report(Verdict::Wrong, &states, states.len() - 1, held_seen.len());
                };
                successors.push((successor, Some((next, message))));
            }
        }
        match fault {
            Fault::Forget => {
                let mut successor = state;
                successor.held.switches[0] = forgotten;
                successors.push((successor, None));
            }
            Fault::Renew => successors.extend(explorer.renew(state).map(|successor| (successor, None))),
            _ => {}
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
        let models = self.topology.configs.iter().map(|config| SwitchModel::new([config.clone()]));
        let switches = models.map(|model| self.switches.number(model)).collect();
        let operations = vec![0; self.topology.world()];
        let mut state = State { held: Held { switches, operations, base: None }, sent: 0 };
        self.send_all(&mut state);
        if fault == Fault::ReuseSequence {
            let second = self.topology.contribution(0, 1, None);
            let reused = self.topology.contribution(0, 0, None).zip(second);
            let reused =
                reused.map(|(first, second)| self.messages.number(Message { words: second.words, ..first }));
            state.sent |= reused.map_or(0, |reused| 1 << reused);
        }
        state
    }

    /// Every host sends the contribution it is at.
    fn send_all(&mut self, state: &mut State) {
        for message in self.contributions(&state.held) {
            state.sent |= 1 << message;
        }
    }

    fn contributions(&mut self, held: &Held) -> Vec<usize> {
        let hosts = held.operations.iter().enumerate();
        let sent =
            hosts.filter_map(|(rank, operation)| self.topology.contribution(rank, *operation, held.base));
        sent.map(|message| self.messages.number(message)).collect()
    }

    /// The entries of the old generation are gone everywhere before any rank hears of the new one, so the order in which switches
    /// change is not to be seen.
    fn renew(&mut self, mut state: State) -> Option<State> {
        let base = *state.held.operations.iter().min()?;
        if state.held.base.is_some() || base == self.topology.results.len() {
            return None;
        }
        for (switch, config) in state.held.switches.iter_mut().zip(&self.topology.configs) {
            let mut model = self.switches.things[*switch].clone();
            model.remove(config.tree_id);
            model.install(TreeConfig { generation: config.generation + 1, ..config.clone() });
            *switch = self.switches.number(model);
        }
        state.held.base = Some(base);
        state.held.operations.fill(base);
        self.send_all(&mut state);
        Some(state)
    }

    /// The state after this message arrived; none if a host took a wrong result.
    fn deliver(&mut self, state: &State, message: usize) -> Option<State> {
        let mut state = state.clone();
        for sent in self.arrive(&mut state.held, message)? {
            assert!(sent < u128::BITS as usize, "more messages than bits");
            state.sent |= 1 << sent;
        }
        Some(state)
    }

    /// What is sent when this message arrives; none if a host takes a wrong result.
    fn arrive(&mut self, held: &mut Held, message: usize) -> Option<Vec<usize>> {
        match self.messages.things[message].to {
            Place::Host(rank) => self.arrive_at_host(held, rank, message),
            Place::Switch(switch, port) => Some(self.arrive_at_switch(held, switch, port, message)),
        }
    }

    fn arrive_at_switch(&mut self, held: &mut Held, switch: usize, port: u16, message: usize) -> Vec<usize> {
        let before = held.switches[switch];
        if let Some((after, sent)) = self.handled.get(&(before, message)) {
            held.switches[switch] = *after;
            return sent.clone();
        }
        let mut model = self.switches.things[before].clone();
        let Message { header, words, .. } = &self.messages.things[message];
        let outcome = model.handle(0, port, header, words);
        let mut sent = Vec::new();
        for packet in outcome.sent {
            let to = self.topology.links[&(switch, packet.port)];
            sent.push(self.messages.number(Message { to, header: packet.header, words: packet.words }));
        }
        let after = self.switches.number(model);
        self.handled.insert((before, message), (after, sent.clone()));
        held.switches[switch] = after;
        sent
    }

    /// A host takes the result it awaits and sends its next contribution.
    fn arrive_at_host(&mut self, held: &mut Held, rank: usize, message: usize) -> Option<Vec<usize>> {
        let operation = held.operations[rank];
        let Some(contribution) = self.topology.contribution(rank, operation, held.base) else {
            return Some(Vec::new());
        };
        let Message { header, words, .. } = &self.messages.things[message];
        let asked = contribution.header;
        let is_awaited = (header.generation, header.sequence) == (asked.generation, asked.sequence)
            && usize::from(header.contributions) == self.topology.world()
            && (header.tag == asked.tag || header.flags.contains(Flags::MISMATCH));
        if !is_awaited {
            return Some(Vec::new());
        }
        let right = &self.topology.results[operation];
        let expected = Header {
            opcode: Opcode::Result,
            flags: right.flags,
            words: (right.words.len() / WORD_BYTES) as u8,
            tag: if right.flags.contains(Flags::MISMATCH) { 0 } else { asked.tag },
            plane: PLANE_BOTH,
            contributions: self.topology.world() as u16,
            exp_max: right.exp_max,
            exp_min: right.exp_min,
            bias: 0,
            ..asked
        };
        if (header, words) != (&expected, &right.words) {
            return None;
        }
        held.operations[rank] += 1;
        let next = self.topology.contribution(rank, operation + 1, held.base);
        Some(next.map(|message| self.messages.number(message)).into_iter().collect())
    }

    /// Whether hosts that repeat themselves reach the end if nothing is lost from now on, all that is in flight being lost.
    fn completes(&mut self, held: &Held) -> Verdict {
        let mut held = held.clone();
        let (switches, operations) = (self.topology.configs.len(), self.topology.results.len());
        for _ in 0..(switches + 2) * operations {
            let mut arriving = self.contributions(&held);
            if arriving.is_empty() {
                return Verdict::Right;
            }
            let mut at = 0;
            while let Some(message) = arriving.get(at).copied() {
                let Some(sent) = self.arrive(&mut held, message) else { return Verdict::Wrong };
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
            trace.push(self.messages.things[message].clone());
            at = from;
        }
        trace.reverse();
        Explored { verdict, states: states.len(), held, trace }
    }
}
