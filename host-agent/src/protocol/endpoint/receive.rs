//! What datagrams do to an endpoint.

use std::time::Instant;

use inca_wire::chunk::{Next, PassResult};
use inca_wire::format::FormatError;
use inca_wire::packet::{Flags, HEADER_LEN, Header, Opcode};

use super::super::carrier::Carrier;
use super::super::error::OperationError;
use super::super::tensor::TensorBuffer;
use super::super::tree::SlotState;
use super::{Endpoint, ProbeAnswer};

impl<B: TensorBuffer> Endpoint<B> {
    /// Takes a datagram from the network. Anything that is not awaited is counted and ignored.
    pub fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        let Ok((header, payload)) = Header::parse_bytes(bytes) else {
            self.stats.garbage += 1;
            return;
        };
        let tree = self.trees.iter().position(|tree| tree.config.tree_id == header.tree_id);
        let Some(tree) = tree.filter(|&tree| self.is_for_me(tree, &header)) else {
            self.stats.foreign += 1;
            return;
        };
        match header.opcode {
            Opcode::Result => self.handle_result(now, tree, &header, payload),
            Opcode::ProbeReply => self.handle_probe_reply(tree, &header),
            _ => self.stats.foreign += 1,
        }
    }

    /// Counts a datagram that did not come from a switch of this job's.
    pub fn ignore_stranger(&mut self) {
        self.stats.foreign += 1;
    }

    pub(super) fn is_for_me(&self, tree: usize, header: &Header) -> bool {
        let config = &self.trees[tree].config;
        header.generation == self.config.generation
            && header.format == self.config.format
            && header.member == config.member
            && header.slot < config.slots
    }

    pub(super) fn handle_probe_reply(&mut self, tree: usize, header: &Header) {
        self.stats.probe_replies += 1;
        self.probed = Some(ProbeAnswer {
            tree,
            slot: header.slot,
            sequence: header.sequence,
            contributions: header.contributions,
            children: header.bias,
        });
    }

    pub(super) fn handle_result(&mut self, now: Instant, tree: usize, header: &Header, payload: &[u8]) {
        let slot = &self.trees[tree].slots[header.slot as usize];
        // A mismatched result carries the tag of whichever operation came first; the sequence tells that it is about ours too.
        let awaited = self.closed.is_none()
            && self.stopped.is_none()
            && slot.state == SlotState::InFlight
            && slot.sequence == header.sequence
            && (slot.tag == header.tag || header.flags.contains(Flags::MISMATCH));
        if !awaited {
            self.stats.stale += 1;
            return;
        }
        if u32::from(header.contributions) != self.config.world_size {
            self.stats.incomplete += 1;
            return;
        }
        let (pass, chunk) = (slot.progress.pass(), self.global_chunk(tree, slot.chunk));
        let index = self.operation_index(chunk);
        let entry = &self.operations[index];
        let chunk = (chunk - entry.first_chunk) as u32;
        let range = self.elements(entry, chunk);
        if slot.describing {
            self.trees[tree].answered(header.slot, now);
            self.handle_descriptions(index, chunk, header, payload);
            return;
        }
        let words = entry.operation.as_ref().map_or(0, |active| active.words(range.len()));
        if header.flags.is_empty() && usize::from(header.words) != words {
            self.stats.garbage += 1;
            return;
        }
        let result = PassResult {
            flags: header.flags,
            exp_max: header.exp_max,
            exp_min: header.exp_min,
            words: payload,
        };
        let progress = &self.trees[tree].slots[header.slot as usize].progress;
        // Of an operation that has ended nothing but the chunk's slot is of interest.
        let next =
            entry.operation.as_ref().map_or(Next::Finish, |active| active.carrier.next(progress, &result));
        self.stats.results += 1;
        self.stats.received_bytes += (HEADER_LEN + payload.len()) as u64;
        self.trees[tree].answered(header.slot, now);
        let unusable = match next {
            Next::Finish => self.finish_chunk(tree, index, chunk, header.slot, &result).err(),
            Next::Pass(pass) => {
                self.stats.extra_passes += 1;
                self.continue_chunk(tree, index, pass, range.len(), header.slot, &result).err()
            }
            Next::Mismatch => {
                self.begin_describing(tree, header.slot, index, chunk);
                None
            }
            Next::Violation => {
                let (flags, exp_max, exp_min) = (header.flags, header.exp_max, header.exp_min);
                let what = format!(
                    "it carries flags {flags} and exponents {exp_min} to {exp_max}, which that pass can't have"
                );
                self.fail(index, |job, operation| OperationError::Protocol {
                    job,
                    operation,
                    chunk,
                    pass,
                    what,
                });
                None
            }
        };
        if let Some(error) = unusable {
            let what = error.to_string();
            self.fail(index, |job, operation| OperationError::Protocol { job, operation, chunk, pass, what });
        }
    }

    /// Writes a chunk's result to the caller's output.
    pub(super) fn finish_chunk(
        &mut self,
        tree: usize,
        index: usize,
        chunk: u32,
        slot: u32,
        result: &PassResult<'_>,
    ) -> Result<(), FormatError> {
        if let Some(active) = &mut self.operations[index].operation {
            let slot = &mut self.trees[tree].slots[slot as usize];
            let overflow = active.finish_chunk(&mut slot.progress, result, chunk)?;
            active.keep(chunk, overflow, &mut slot.kept);
        }
        self.chunk_done(tree, index, slot);
        Ok(())
    }

    pub(super) fn chunk_done(&mut self, tree: usize, index: usize, slot: u32) {
        self.trees[tree].finish(slot);
        self.stats.chunks += 1;
        let entry = &mut self.operations[index];
        let Some(active) = &mut entry.operation else { return };
        active.finished += 1;
        if active.finished < entry.chunks {
            return;
        }
        if let Some(active) = entry.operation.take() {
            let result = self.outcome(&active);
            self.complete(active, result);
        }
        while self.operations.front().is_some_and(|entry| entry.operation.is_none()) {
            self.operations.pop_front();
        }
    }

    /// The next pass of a chunk.
    pub(super) fn continue_chunk(
        &mut self,
        tree: usize,
        index: usize,
        pass: u8,
        elements: usize,
        slot: u32,
        result: &PassResult<'_>,
    ) -> Result<(), FormatError> {
        if let Some(active) = &self.operations[index].operation
            && let Carrier::Reduce(scheme) = &active.carrier
        {
            let progress = &mut self.trees[tree].slots[slot as usize].progress;
            scheme.advance(progress, pass, result, elements)?;
        }
        self.trees[tree].next_pass(slot);
        self.advance_sequence(tree, slot);
        Ok(())
    }
}
