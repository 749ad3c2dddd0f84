//! What a switch keeps per slot, and what each packet does to it.

use super::{Broken, ChildKind, Event, Outcome, Sent, TreeConfig, sender_may_set};
use crate::model::numbers::{self, Addend, PlaneSum};
use crate::packet::{Flags, Header, NO_EXP_MAX, NO_EXP_MIN, Opcode, PLANE_BOTH};

/// A slot. `Default` is a register that was never written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// c, the current sequence.
    sequence: u32,
    /// c is finished.
    done: bool,
    tag: u32,
    /// Words of the first contribution that carried any; 0: none did.
    words: u8,
    flags: Flags,
    contributions: u16,
    /// Who contributed, per plane.
    children: [u64; 2],
    sums: [PlaneSum; 2],
    /// When the sum was last sent up.
    resent_at: u32,
    /// The result of the last finished sequence: c if `done`, else c - 1.
    stored: Option<Stored>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stored {
    flags: Flags,
    tag: u32,
    contributions: u16,
    exp_max: u16,
    exp_min: u16,
    words: Vec<u8>,
}

impl Slot {
    /// A slot of a generation that nothing has been sent in yet.
    pub(super) fn fresh(generation: u32) -> Self {
        Self { generation, done: true, ..Self::default() }
    }

    /// A contribution (of both planes) or a partial sum (of one).
    pub(super) fn take_contribution(
        &mut self,
        config: &TreeConfig,
        now: u32,
        child: usize,
        planes: &[usize],
        header: &Header,
        words: &[u8],
    ) -> Outcome {
        let counts_itself = header.contributions == 1 || config.children[child].kind == ChildKind::Switch;
        if !sender_may_set(header.flags) || header.flags.is_empty() == (header.words == 0) || !counts_itself {
            return Event::BadFormat.into();
        }
        let contributed = self.children[planes[0]] & 1 << child != 0 && !config.breaks(Broken::AddsRepeats);
        let is = |sequence: u32| {
            let told_apart = if config.breaks(Broken::TellsVersionsApartOnly) { 1 } else { u32::MAX };
            (header.sequence ^ sequence) & told_apart == 0
        };
        let current = is(self.sequence);
        let next = is(self.sequence.wrapping_add(1));
        let previous = is(self.sequence.wrapping_sub(1)) && !config.breaks(Broken::ForgetsPrevious);

        if next && self.done {
            self.begin(config, header);
            self.add(config, now, child, planes, header, words)
        } else if current && !self.done && !contributed {
            self.add(config, now, child, planes, header, words)
        } else if header.sequence != 0 && ((current && self.done) || (previous && !self.done)) {
            self.replay(config, child, header)
        } else if !current || self.done {
            Event::BadSequence.into()
        } else if !self.is_full(config) || config.breaks(Broken::NeverResends) {
            Event::Duplicate.into()
        } else if now.wrapping_sub(self.resent_at) < config.resend_interval_us {
            Event::ResendLimited.into()
        } else if header.words != self.words && self.flags.is_empty() {
            Event::ReplayMisfit.into()
        } else {
            let mut sent = self.send_up(config, now, header);
            if config.breaks(Broken::ResendsOnePlane) {
                sent.retain(|sum| usize::from(sum.header.plane) == planes[0]);
            }
            Outcome { event: Event::Resend, sent }
        }
    }

    fn begin(&mut self, config: &TreeConfig, header: &Header) {
        if config.breaks(Broken::StoreNotApart) {
            self.stored = None;
        }
        self.sequence = header.sequence;
        self.done = false;
        self.tag = header.tag;
        self.words = 0;
        self.flags = Flags::NONE;
        self.contributions = 0;
        self.children = [0; 2];
        self.sums = Default::default();
    }

    fn add(
        &mut self,
        config: &TreeConfig,
        now: u32,
        child: usize,
        planes: &[usize],
        header: &Header,
        words: &[u8],
    ) -> Outcome {
        if self.words == 0 && header.tag == self.tag {
            self.words = header.words;
        }
        let fits = header.tag == self.tag && (!header.flags.is_empty() || header.words == self.words);
        self.flags |= if fits { header.flags } else { Flags::MISMATCH };

        for plane in planes {
            self.children[*plane] |= 1 << child;
            if config.breaks(Broken::PlanesShareBitmap) {
                self.children[1 - *plane] |= 1 << child;
            }
            if fits && header.flags.is_empty() {
                self.add_words(config, child, *plane, header, words);
            } else if fits {
                self.sums[*plane].note(header.exp_max, header.exp_min);
            }
        }
        // Both planes bring the same ranks, so they are counted once, with plane 0.
        if planes.contains(&0) {
            self.contributions = self.contributions.wrapping_add(header.contributions);
        }

        if !self.is_full(config) {
            return Event::Contribution.into();
        }
        let sent = match config.parent {
            Some(_) => self.send_up(config, now, header),
            None => self.finish(config, header),
        };
        Outcome { event: Event::Completed, sent }
    }

    fn add_words(&mut self, config: &TreeConfig, child: usize, plane: usize, header: &Header, words: &[u8]) {
        let format = config.format;
        let (lanes, bias, places) = match config.children[child].kind {
            ChildKind::Host => {
                (numbers::narrow_plane(format, plane, words), numbers::narrow_bias(format), config.guard)
            }
            ChildKind::Switch => {
                let bias = numbers::wide_bias(format, header.bias, header.contributions);
                (numbers::wide_plane(format, words), bias, 0)
            }
        };
        let (exp_max, exp_min) = (header.exp_max, header.exp_min);
        let addend = Addend { exp_max, exp_min, bias, places, lanes: &lanes };
        self.sums[plane].combine(format, config.guard, &addend);
    }

    fn is_full(&self, config: &TreeConfig) -> bool {
        let planes = if config.breaks(Broken::FullByOnePlane) { 1 } else { 2 };
        self.children[..planes].iter().all(|children| *children == config.all_children())
    }

    /// The header of the finished sum: nothing in it depends on which packet came last.
    fn sum_header(&mut self, config: &TreeConfig, header: &Header) -> Header {
        let low = &self.sums[0];
        if low.out_of_range(config.guard) {
            self.flags |= Flags::RANGE;
        }
        let mut sum = Header {
            flags: self.flags,
            words: if self.flags.is_empty() { self.words } else { 0 },
            tag: self.tag,
            contributions: self.contributions,
            exp_max: low.exp_max,
            exp_min: low.exp_min,
            // What is not added has no bias: beyond the guard bits it would depend on who came first.
            bias: if self.flags.is_empty() { low.bias as u64 } else { 0 },
            ..*header
        };
        if self.flags.contains(Flags::MISMATCH) {
            // Of whose operation, and at which exponents, would depend on who came first.
            sum.flags = Flags::MISMATCH;
            (sum.tag, sum.exp_max, sum.exp_min) = (0, NO_EXP_MAX, NO_EXP_MIN);
        }
        sum
    }

    /// The sum to the parent, one packet per plane.
    fn send_up(&mut self, config: &TreeConfig, now: u32, header: &Header) -> Vec<Sent> {
        let Some(parent) = config.parent else { return Vec::new() };
        self.resent_at = now;
        let sum =
            Header { opcode: Opcode::Partial, member: parent.member, ..self.sum_header(config, header) };
        let planes = self.sums.iter().zip(0..).map(|(lanes, plane)| Sent {
            port: parent.port,
            header: Header { plane, ..sum },
            words: numbers::wide_words(config.format, lanes, usize::from(sum.words)),
        });
        planes.collect()
    }

    /// The root's result, rounded or found not to fit, to all children.
    fn finish(&mut self, config: &TreeConfig, header: &Header) -> Vec<Sent> {
        let mut result = self.sum_header(config, header);
        let mut words = Vec::new();
        if result.flags.is_empty() {
            let [low, high] = &self.sums;
            match numbers::round(config.format, config.guard, [low, high], usize::from(self.words)) {
                Some(rounded) => {
                    result.exp_max = rounded.exponent;
                    words = numbers::narrow_words(config.format, &rounded.mantissas);
                }
                None => (result.flags, result.words) = (Flags::OVERFLOW, 0),
            }
        }
        self.store_and_send_down(config, &result, words)
    }

    /// A result from the parent.
    pub(super) fn take_result(&mut self, config: &TreeConfig, header: &Header, words: &[u8]) -> Outcome {
        let awaited = header.sequence == self.sequence && !self.done && self.is_full(config)
            || config.breaks(Broken::TakesAnyResult);
        let complete = header.contributions == config.world;
        let well_formed = header.words == if header.flags.is_empty() { self.words } else { 0 };
        if !(awaited && complete && well_formed) {
            return Event::ResultIgnored.into();
        }
        Outcome { event: Event::Result, sent: self.store_and_send_down(config, header, words.to_vec()) }
    }

    fn store_and_send_down(&mut self, config: &TreeConfig, header: &Header, words: Vec<u8>) -> Vec<Sent> {
        let result = Header { opcode: Opcode::Result, plane: PLANE_BOTH, bias: 0, ..*header };
        let sent = config.down(&result, &words);
        self.done = true;
        self.stored = Some(Stored {
            flags: result.flags,
            tag: result.tag,
            contributions: result.contributions,
            exp_max: result.exp_max,
            exp_min: result.exp_min,
            words,
        });
        sent
    }

    /// The stored result to one child, in answer to a packet that has room for it.
    fn replay(&self, config: &TreeConfig, child: usize, header: &Header) -> Outcome {
        let fits = |stored: &&Stored| stored.words.is_empty() || stored.words.len() == header.payload_len();
        let Some(stored) = self.stored.as_ref().filter(fits) else { return Event::ReplayMisfit.into() };
        let result = Header {
            opcode: Opcode::Result,
            flags: stored.flags,
            tag: stored.tag,
            words: if stored.words.is_empty() { 0 } else { header.words },
            plane: PLANE_BOTH,
            contributions: stored.contributions,
            exp_max: stored.exp_max,
            exp_min: stored.exp_min,
            bias: 0,
            ..*header
        };
        let sent = config.to_child(&config.children[child], &result, &stored.words);
        Outcome { event: Event::Replay, sent: vec![sent] }
    }

    /// What this slot waits for.
    pub(super) fn probe_reply(&self, header: &Header) -> Header {
        Header {
            opcode: Opcode::ProbeReply,
            flags: if self.done { self.flags | Flags::DONE } else { self.flags },
            sequence: self.sequence,
            tag: self.tag,
            plane: PLANE_BOTH,
            words: 0,
            contributions: self.contributions,
            exp_max: self.sums[0].exp_max,
            exp_min: self.sums[0].exp_min,
            bias: self.children[0] & self.children[1],
            ..*header
        }
    }
}
