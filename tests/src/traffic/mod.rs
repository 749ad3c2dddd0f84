//! The seeded recipe of packets that all switches must treat alike.
//!
//! A [`Traffic`] knows roughly where each slot stands, so that most packets move some slot on; the rest are duplicates, stale or
//! early sequences, wrong fields, spoiled frames and ordinary traffic. The same seed gives the same packets for ever: hashes of
//! BMv2's answers to them are committed.

mod content;
mod mangle;
mod ordinary;

use inca_wire::address::{service_address, service_mac};
use inca_wire::frame::UdpFrame;
use inca_wire::packet::{Flags, Format, Header, Opcode, PARENT_MEMBER, PLANE_BOTH, WORD_BYTES};

pub use content::{Content, Which, lane_bits};

use crate::rig::{ChildKind, DEVICE_ID, Neighbour, Tree};
use crate::rng::Rng;

/// A frame that arrives at the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it is, for failure texts and coverage counts.
    pub kind: &'static str,
    /// Port it comes in by; the CPU port for a packet-out.
    pub port: u16,
    /// Its bytes; a packet-out begins with its header.
    pub frame: Vec<u8>,
}

/// What is mixed in besides packets that a correct tree would send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Frames that are no reduction packets, per 100.
    pub ordinary: usize,
    /// Reduction packets with a wrong field or spoiled, per 100.
    pub spoiled: usize,
    /// Contributions with exponents that can't be and partial sums of random bits, per 100: what a broken sender might send.
    pub garbage: usize,
}

/// Where the recipe believes a slot to be.
#[derive(Debug, Clone, Default)]
struct Progress {
    sequence: u32,
    low: u64,
    high: u64,
    open: bool,
    /// Tag of the first contribution.
    tag: Option<u32>,
    /// A contribution with that tag brought words, so a result may too.
    has_words: bool,
}

/// An endless stream of frames.
#[derive(Debug, Clone)]
pub struct Traffic<'a> {
    seed: u64,
    rng: Rng,
    trees: &'a [Tree],
    mix: Mix,
    progress: Vec<Vec<Progress>>,
    recent: Vec<Step>,
}

impl<'a> Traffic<'a> {
    /// The stream of this seed for these trees.
    pub fn new(seed: u64, trees: &'a [Tree], mix: Mix) -> Self {
        let progress = trees.iter().map(|tree| vec![Progress::default(); tree.slots as usize]).collect();
        Self { seed, rng: Rng::new(seed), trees, mix, progress, recent: Vec::new() }
    }

    fn reduction(&mut self) -> Step {
        // The tree of the largest packets is dear: take it seldom.
        let mut index = self.rng.below(self.trees.len());
        if self.trees[index].words > 8 && self.rng.chance(3, 4) {
            index = self.rng.below(self.trees.len());
        }
        let tree = &self.trees[index];
        let slot = self.rng.below(tree.slots as usize);
        let before = self.progress[index][slot].clone();
        let mut step = match self.rng.below(100) {
            0..60 => self.advance(index, slot),
            60..75 => self.repeat(index, slot),
            75..80 => self.other_result(index, slot),
            80..84 => self.probe(index, slot),
            84..92 if !self.recent.is_empty() => {
                Step { kind: "old duplicate", ..self.rng.pick(&self.recent) }
            }
            _ => self.advance(index, slot),
        };
        if self.rng.chance(self.mix.spoiled, 100) {
            // The switch will most likely drop it.
            self.progress[index][slot] = before;
            match self.rng.below(6) {
                0..3 => mangle::wrong_field(&mut self.rng, tree, &mut step),
                3 => mangle::wrong_words(&mut self.rng, tree, &mut step),
                _ => mangle::wrong_frame(&mut self.rng, &mut step),
            }
        } else if self.recent.len() < 256 {
            self.recent.push(step.clone());
        } else {
            let oldest = self.rng.below(self.recent.len());
            self.recent[oldest] = step.clone();
        }
        step
    }

    /// What moves the slot on: a missing contribution, or the result if none is missing.
    fn advance(&mut self, index: usize, slot: usize) -> Step {
        let tree = &self.trees[index];
        let all = tree.all_children();
        let progress = &mut self.progress[index][slot];
        if progress.open && progress.low & progress.high == all {
            if self.rng.chance(1, 3) {
                // It takes long: a child asks again.
                return self.repeat(index, slot);
            }
            progress.open = false;
            return self.result(index, slot, progress_sequence(&self.progress[index][slot], 0));
        }
        if !progress.open {
            *progress = Progress { sequence: progress.sequence + 1, open: true, ..Progress::default() };
        }
        let missing: Vec<(usize, u8)> = (0..tree.children.len())
            .flat_map(|child| [(child, 0), (child, 1)])
            .filter(|(child, plane)| [progress.low, progress.high][usize::from(*plane)] >> child & 1 == 0)
            .collect();
        let (child, plane) = self.rng.pick(&missing);
        if plane == 0 || matches!(tree.children[child].kind, ChildKind::Host { .. }) {
            progress.low |= 1 << child;
        }
        if plane == 1 || matches!(tree.children[child].kind, ChildKind::Host { .. }) {
            progress.high |= 1 << child;
        }
        if tree.parent.is_none() && progress.low & progress.high == all {
            progress.open = false;
        }
        let which = Which { seed: self.seed, slot: slot as u32, sequence: progress.sequence };
        let content = which.from_child(tree, child, plane);
        let tag = *progress.tag.get_or_insert(content.tag);
        progress.has_words |= tag == content.tag && content.flags.is_empty();
        self.child_packet(index, slot, which.sequence, child, plane)
    }

    /// A child asks again: for this sequence, the one before, one far off.
    fn repeat(&mut self, index: usize, slot: usize) -> Step {
        let tree = &self.trees[index];
        let child = self.rng.below(tree.children.len());
        let plane = self.rng.below(2) as u8;
        let offset = self.rng.pick(&[0, 0, 0, -1, -1, -1, -2, 2]);
        let sequence = progress_sequence(&self.progress[index][slot], offset);
        Step { kind: "repeat", ..self.child_packet(index, slot, sequence, child, plane) }
    }

    fn child_packet(&mut self, index: usize, slot: usize, sequence: u32, child: usize, plane: u8) -> Step {
        let tree = &self.trees[index];
        let member = &tree.children[child];
        let which = Which { seed: self.seed, slot: slot as u32, sequence };
        let mut header = Header::new(Opcode::Contribution, tree.format, tree.tree_id, tree.generation);
        let mut content = which.from_child(tree, child, plane);
        if let ChildKind::Switch { .. } = member.kind {
            header.opcode = Opcode::Partial;
            header.plane = plane;
        }
        if self.rng.chance(self.mix.garbage, 100) {
            if header.opcode == Opcode::Partial {
                self.rng.fill(&mut content.words);
                content.bias = self.rng.next_u64();
            }
            // Exponents that contradict each other, or far from all others.
            let base = i64::from(content.exp_max);
            content.exp_max = self.rng.between(base - 20, base + 300).clamp(0, 0xFFFF) as u16;
            content.exp_min = self.rng.between(base - 300, base + 20).clamp(0, 0xFFFF) as u16;
        }
        header.member = member.member;
        header.contributions = member.ranks();
        self.emit("child", header, content, which, member.at)
    }

    fn result(&mut self, index: usize, slot: usize, sequence: u32) -> Step {
        let tree = &self.trees[index];
        let which = Which { seed: self.seed, slot: slot as u32, sequence };
        let mut header = Header::new(Opcode::Result, tree.format, tree.tree_id, tree.generation);
        let at = match tree.parent {
            Some(parent) => {
                header.member = PARENT_MEMBER;
                parent.at
            }
            // A root has no parent: its "results" come from a switch that should not send any.
            None => Neighbour::switch(7),
        };
        header.contributions = tree.world;
        let content = which.result(tree, self.progress[index][slot].has_words);
        self.emit("result", header, content, which, at)
    }

    /// A result that nobody waits for.
    fn other_result(&mut self, index: usize, slot: usize) -> Step {
        let offset = self.rng.pick(&[0, -1, 1]);
        let sequence = progress_sequence(&self.progress[index][slot], offset);
        if offset == 0 {
            // It is taken after all if the slot is full: then so be it.
            let all = self.trees[index].all_children();
            let progress = &mut self.progress[index][slot];
            if self.trees[index].parent.is_some() && progress.low & progress.high == all {
                progress.open = false;
            }
        }
        Step { kind: "other result", ..self.result(index, slot, sequence) }
    }

    fn probe(&mut self, index: usize, slot: usize) -> Step {
        let tree = &self.trees[index];
        let child = self.rng.below(tree.children.len());
        let member = &tree.children[child];
        let mut header = Header::new(Opcode::Probe, tree.format, tree.tree_id, tree.generation);
        header.member = member.member;
        let which =
            Which { seed: self.seed, slot: slot as u32, sequence: self.progress[index][slot].sequence };
        let nothing = Content { words: Vec::new(), flags: Flags::NONE, ..which.result(tree, true) };
        self.emit("probe", header, nothing, which, member.at)
    }

    fn emit(
        &mut self,
        kind: &'static str,
        mut header: Header,
        content: Content,
        which: Which,
        from: Neighbour,
    ) -> Step {
        header.slot = which.slot;
        header.sequence = which.sequence;
        header.flags = content.flags;
        header.tag = content.tag;
        header.exp_max = content.exp_max;
        header.exp_min = content.exp_min;
        header.bias = content.bias;
        header.words = (content.words.len() / WORD_BYTES) as u8;
        debug_assert!(header.opcode == Opcode::Partial || header.plane == PLANE_BOTH);
        // What a switch sends must not depend on the outer headers of the packet that happened to come last.
        let to = (service_mac(DEVICE_ID), service_address(DEVICE_ID));
        let addresses = UdpFrame {
            src_port: self.rng.between(1024, 65535) as u16,
            ttl: self.rng.pick(&[1, 2, 64, 64, 255]),
            ..UdpFrame::to_switch((from.mac, from.ip), to)
        };
        let mut frame = addresses.emit_reduction(&header, &content.words).unwrap_or_default();
        mangle::vary_ipv4(&mut self.rng, &mut frame);
        Step { kind, port: from.port, frame }
    }
}

impl Iterator for Traffic<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        Some(if self.rng.chance(self.mix.ordinary, 100) {
            ordinary::ordinary(&mut self.rng)
        } else {
            self.reduction()
        })
    }
}

fn progress_sequence(progress: &Progress, offset: i32) -> u32 {
    progress.sequence.wrapping_add_signed(offset)
}

/// A valid packet of each kind that a tree can receive, for tests that spoil every byte of it.
pub fn specimens(seed: u64, tree: &Tree) -> Vec<Step> {
    let trees = std::slice::from_ref(tree);
    let mut traffic = Traffic::new(seed, trees, Mix { ordinary: 0, spoiled: 0, garbage: 0 });
    let mut steps: Vec<Step> =
        (0..tree.children.len()).map(|child| traffic.child_packet(0, 0, 1, child, 0)).collect();
    steps.push(traffic.result(0, 0, 1));
    steps.push(traffic.probe(0, 0));
    steps
}

/// The formats, for tests that go through them.
pub const FORMATS: [Format; 2] = crate::rig::FORMATS;
