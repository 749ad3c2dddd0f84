//! A small tree of switches and hosts, and what each host sends.

use std::collections::BTreeMap;

use crate::format::{Encoded, Format};
use crate::model::allreduce::{ChunkResult, sum_chunk};
use crate::model::numbers::narrow_words;
use crate::model::slot::{Broken, Child, ChildKind, Parent, TreeConfig};
use crate::packet::{EXP_BIAS, Flags, Header, Opcode};

const TREE: u16 = 3;
const GENERATION: u32 = 7;
const PARENT_PORT: u16 = 99;

/// A part of the tree.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Host,
    Switch(Vec<Node>),
}

/// What the hosts do in one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// All sum.
    Integers,
    /// The sum does not fit.
    Overflowing,
    /// One host's block is not finite.
    NotFinite,
    /// Exponents are further apart than the guard bits.
    FarApart,
    /// Hosts are in different operations.
    Mismatched,
}

/// Who takes a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Host(usize),
    /// A switch, and the port the packet arrives by.
    Switch(usize, u16),
}

/// A packet on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) to: Place,
    pub(super) header: Header,
    pub(super) words: Vec<u8>,
}

pub(super) struct Topology {
    /// What the controller installs.
    pub(super) configs: Vec<TreeConfig>,
    /// Where a switch's port leads.
    pub(super) links: BTreeMap<(usize, u16), Place>,
    /// Per switch the ranks below it, a bit for each.
    below: Vec<u8>,
    /// Per host, per operation: the contribution. Operation i is sequence i + 1 of the first generation.
    contributions: Vec<Vec<Message>>,
    /// Per operation: the only right result.
    pub(super) results: Vec<ChunkResult>,
}

impl Topology {
    pub(super) fn new(root: &Node, operations: &[Operation]) -> Self {
        let format = if operations.contains(&Operation::FarApart) { Format::Bfp16 } else { Format::I32 };
        let world = root.hosts();
        let mut topology = Self {
            configs: Vec::new(),
            links: BTreeMap::new(),
            below: Vec::new(),
            contributions: Vec::new(),
            results: Vec::new(),
        };
        topology.add_switch(format, world, root, None, operations);
        for (index, operation) in operations.iter().enumerate() {
            let mut result = topology.result(index, topology.everybody());
            if *operation == Operation::Mismatched {
                result =
                    ChunkResult { flags: Flags::MISMATCH, exp_max: 0, exp_min: 0xFFFF, words: Vec::new() };
            }
            topology.results.push(result);
        }
        topology
    }

    /// The same with resends that are limited to one per round: exploring, all happens at one time, so none is sent.
    pub(super) fn limited(mut self) -> Self {
        self.configs.iter_mut().for_each(|config| config.resend_interval_us = 1);
        self
    }

    /// The same with switches that break a rule.
    pub(super) fn broken(mut self, rule: Broken) -> Self {
        self.configs.iter_mut().for_each(|config| config.broken = Some(rule));
        self
    }

    /// Every rank, a bit for each.
    pub(super) fn everybody(&self) -> u8 {
        u8::MAX >> (8 - self.world())
    }

    /// The sum of these ranks' blocks.
    pub(super) fn result(&self, operation: usize, members: u8) -> ChunkResult {
        let ranks = (0..self.world()).filter(|rank| members >> rank & 1 == 1);
        let blocks: Vec<_> = ranks.map(|rank| block_of(&self.contributions[rank][operation])).collect();
        let config = &self.configs[0];
        sum_chunk(config.format, config.guard, 1, &blocks)
    }

    /// What is installed on a switch in a later generation, for these ranks.
    pub(super) fn config(&self, switch: usize, generation: u32, members: u8) -> TreeConfig {
        let mut config = self.configs[switch].clone();
        config.generation += generation;
        config.world = members.count_ones() as u16;
        config.children.retain(|child| match self.links[&(switch, child.port)] {
            Place::Host(rank) => members >> rank & 1 == 1,
            Place::Switch(below, _) => members & self.below[below] != 0,
        });
        config
    }

    pub(super) fn world(&self) -> usize {
        self.contributions.len()
    }

    /// What this host sends for an operation in a generation that begins with operation `base`; generations count from 0.
    pub(super) fn contribution(
        &self,
        rank: usize,
        operation: usize,
        generation: u32,
        base: usize,
    ) -> Option<Message> {
        let mut message = self.contributions[rank].get(operation)?.clone();
        message.header.generation += generation;
        message.header.sequence -= base as u32;
        Some(message)
    }

    /// Adds a switch and all below it; returns its index.
    fn add_switch(
        &mut self,
        format: Format,
        world: usize,
        node: &Node,
        parent: Option<Parent>,
        operations: &[Operation],
    ) -> usize {
        let switch = self.configs.len();
        self.configs.push(TreeConfig {
            tree_id: TREE,
            generation: GENERATION,
            format,
            guard: guard(format, world),
            world: world as u16,
            slots: 1,
            words: 1,
            children: Vec::new(),
            parent,
            // Every repeated contribution may lead to a resend. One that is suppressed is as good as lost.
            resend_interval_us: 0,
            broken: None,
        });
        self.below.push(0);
        let Node::Switch(nodes) = node else { panic!("a host is no switch") };
        let mut children = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let port = index as u16 + 1;
            if matches!(node, Node::Host) {
                let rank = self.contributions.len();
                self.below[switch] |= 1 << rank;
                children.push(Child { port, member: rank as u16, kind: ChildKind::Host });
                self.links.insert((switch, port), Place::Host(rank));
                let to = Place::Switch(switch, port);
                let sent = operations.iter().zip(1..);
                let sent =
                    sent.map(|(operation, sequence)| contribution(format, to, rank, sequence, *operation));
                self.contributions.push(sent.collect());
            } else {
                let member = index as u16;
                children.push(Child { port, member, kind: ChildKind::Switch });
                let up = Parent { port: PARENT_PORT, member };
                let child = self.add_switch(format, world, node, Some(up), operations);
                self.below[switch] |= self.below[child];
                self.links.insert((switch, port), Place::Switch(child, PARENT_PORT));
                self.links.insert((child, PARENT_PORT), Place::Switch(switch, port));
            }
        }
        self.configs[switch].children = children;
        switch
    }
}

impl Node {
    fn hosts(&self) -> usize {
        match self {
            Self::Host => 1,
            Self::Switch(nodes) => nodes.iter().map(Self::hosts).sum(),
        }
    }
}

fn guard(format: Format, world: usize) -> u8 {
    format.guard_bits(world).unwrap()
}

/// Data that tell rank and sequence: no other set of contributions has the same sum.
fn contribution(format: Format, to: Place, rank: usize, sequence: u32, operation: Operation) -> Message {
    let mut lanes = vec![0; format.lanes_per_word()];
    lanes[rank] = i64::from(sequence);
    lanes[20] = 1;
    lanes[21] = -(10i64.pow(rank as u32));
    let mut encoded = Encoded::at(EXP_BIAS);
    match operation {
        Operation::Overflowing => lanes[22] = i32::MAX.into(),
        Operation::NotFinite if rank == 1 => encoded = Encoded::NONFINITE,
        Operation::FarApart if rank == 1 => encoded = Encoded::at(EXP_BIAS + 30),
        _ => {}
    }
    let mut header = Header {
        member: rank as u16,
        sequence,
        tag: 1000 + sequence,
        contributions: 1,
        ..Header::new(Opcode::Contribution, format, TREE, GENERATION)
    };
    if operation == Operation::Mismatched {
        header.tag += 100 * rank as u32;
    }
    encoded.describe(&mut header, 1);
    let words = if header.words == 0 { Vec::new() } else { narrow_words(format, &lanes) };
    Message { to, header, words }
}

fn block_of(message: &Message) -> (Encoded, Vec<u8>) {
    let Header { flags, exp_max, exp_min, .. } = message.header;
    (Encoded { flags, exp_max, exp_min }, message.words.clone())
}
