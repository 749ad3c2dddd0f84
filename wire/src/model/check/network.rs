//! What both explorers share: numbered switch states and messages, and what a message does to a switch or a host.

use std::collections::HashMap;
use std::hash::Hash;

use super::topology::{Message, Place, Topology};
use crate::model::allreduce::ChunkResult;
use crate::model::slot::SwitchModel;
use crate::packet::{Flags, Header, Opcode, PLANE_BOTH, WORD_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    /// A host accepted a wrong result.
    Wrong,
    /// A state from which a network without loss does not lead to the end.
    Stuck,
    /// Two live ranks hold different results of one chunk, or one holds a result that another was told has failed.
    Disagree,
}

/// Numbers things, equal ones alike.
pub(super) struct Numbered<T> {
    numbers: HashMap<T, usize>,
    pub(super) things: Vec<T>,
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn new() -> Self {
        Self { numbers: HashMap::new(), things: Vec::new() }
    }

    pub(super) fn number(&mut self, thing: T) -> usize {
        *self.numbers.entry(thing).or_insert_with_key(|thing| {
            self.things.push(thing.clone());
            self.things.len() - 1
        })
    }
}

/// The messages that were sent, by number: the network forgets none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Sent([u64; 6]);

impl Sent {
    pub(super) fn add(&mut self, message: usize) {
        assert!(message < 64 * self.0.len(), "more messages than bits");
        self.0[message / 64] |= 1 << (message % 64);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let word = |(index, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * index + bit)
        };
        self.0.iter().enumerate().flat_map(word)
    }
}

pub(super) struct Network<'a> {
    pub(super) topology: &'a Topology,
    pub(super) switches: Numbered<SwitchModel>,
    pub(super) messages: Numbered<Message>,
    /// (time, switch state, message) -> (its next state, what it sends).
    handled: HashMap<(u64, usize, usize), (usize, Vec<usize>)>,
}

impl<'a> Network<'a> {
    pub(super) fn new(topology: &'a Topology) -> Self {
        Self { topology, switches: Numbered::new(), messages: Numbered::new(), handled: HashMap::new() }
    }

    /// A message arrives at a switch; `switches` holds each switch's state. Returns what is sent.
    pub(super) fn arrive(
        &mut self,
        now: u64,
        switches: &mut [usize],
        (switch, port): (usize, u16),
        message: usize,
    ) -> Vec<usize> {
        let before = switches[switch];
        if let Some((after, sent)) = self.handled.get(&(now, before, message)) {
            switches[switch] = *after;
            return sent.clone();
        }
        let mut model = self.switches.things[before].clone();
        let Message { header, words, .. } = &self.messages.things[message];
        let outcome = model.handle(now, port, header, words);
        let mut sent = Vec::new();
        for packet in outcome.sent {
            let to = self.topology.links[&(switch, packet.port)];
            sent.push(self.messages.number(Message { to, header: packet.header, words: packet.words }));
        }
        let after = self.switches.number(model);
        self.handled.insert((now, before, message), (after, sent.clone()));
        switches[switch] = after;
        sent
    }

    /// Where a message goes.
    pub(super) fn place(&self, message: usize) -> Place {
        self.messages.things[message].to
    }

    /// What a result is to the host that sent `asked` and awaits the sum of `world` ranks, which is `right`: none if it is not awaited,
    /// else whether it is right in every field.
    pub(super) fn judge(
        &self,
        message: usize,
        asked: Header,
        world: usize,
        right: &ChunkResult,
    ) -> Option<bool> {
        let Message { header, words, .. } = &self.messages.things[message];
        let is_awaited = (header.generation, header.sequence) == (asked.generation, asked.sequence)
            && usize::from(header.contributions) == world
            && (header.tag == asked.tag || header.flags.contains(Flags::MISMATCH));
        let expected = Header {
            opcode: Opcode::Result,
            flags: right.flags,
            words: (right.words.len() / WORD_BYTES) as u8,
            tag: if right.flags.contains(Flags::MISMATCH) { 0 } else { asked.tag },
            plane: PLANE_BOTH,
            contributions: world as u16,
            exp_max: right.exp_max,
            exp_min: right.exp_min,
            bias: 0,
            ..asked
        };
        is_awaited.then(|| (header, words) == (&expected, &right.words))
    }
}
