//! What an endpoint sends.

use std::time::Instant;

use inca_wire::format::FormatError;
use inca_wire::packet::{Flags, HEADER_LEN, Header, Opcode, Packet};

use super::super::batch::TransmitBatch;
use super::super::error::{Closed, OperationError};
use super::super::tensor::TensorBuffer;
use super::super::tree::ToSend;
use super::Endpoint;
use super::mismatch::DESCRIPTIONS;

impl<B: TensorBuffer> Endpoint<B> {
    /// Appends datagrams to the batch until it is full or nothing is to be sent; true if more may be waiting.
    pub fn poll_transmit(&mut self, now: Instant, batch: &mut TransmitBatch) -> bool {
        if self.trees.is_empty() || self.stopped.is_some() {
            return false;
        }
        self.turn = (self.turn + 1) % self.trees.len();
        for offset in 0..self.trees.len() {
            // One tree after the other, since runs to one destination leave in one system call; another one first each time.
            let tree = (self.turn + offset) % self.trees.len();
            loop {
                if self.closed.is_some() {
                    return false;
                }
                if batch.is_full() {
                    return true;
                }
                let Some(what) = self.trees[tree].next_to_send() else { break };
                match what {
                    ToSend::Begin(slot) => self.advance_sequence(tree, slot),
                    ToSend::Again(slot) => {
                        self.stats.retransmissions += u64::from(self.trees[tree].transmissions(slot) > 0);
                    }
                    ToSend::Probe(slot) => {
                        self.send_probe(tree, slot, batch);
                        continue;
                    }
                }
                if self.closed.is_some() {
                    return false;
                }
                let (ToSend::Begin(slot) | ToSend::Again(slot) | ToSend::Probe(slot)) = what;
                self.send_contribution(tree, slot, now, batch);
            }
        }
        false
    }

    pub(super) fn send_contribution(
        &mut self,
        tree: usize,
        slot_index: u32,
        now: Instant,
        batch: &mut TransmitBatch,
    ) {
        let slot = &self.trees[tree].slots[slot_index as usize];
        let chunk = self.global_chunk(tree, slot.chunk);
        let index = self.operation_index(chunk);
        let entry = &self.operations[index];
        let chunk = (chunk - entry.first_chunk) as u32;
        let Some(active) = &entry.operation else { return };
        let mut header = self.header(Opcode::Contribution, tree, slot_index);
        header.tag = slot.tag;
        header.contributions = 1;
        let (pass, progress) = (slot.progress.pass(), &slot.progress);
        let pushed = batch.push(tree, |buffer| {
            let payload = &mut buffer[HEADER_LEN..];
            let (block, words) = match slot.describing {
                true => self.encode_description(&active.text, payload)?,
                false => active.encode(chunk, progress, payload)?,
            };
            // Chunks have at most 32 words.
            block.describe(&mut header, words as u8);
            header.emit(&mut Packet::new_unchecked(&mut *buffer));
            Ok::<_, FormatError>(header.packet_len())
        });
        match pushed {
            Ok(bytes) => {
                self.stats.transmissions += 1;
                self.stats.sent_bytes += bytes as u64;
                self.trees[tree].sent(slot_index, now);
            }
            // The common exponent that the result demanded is too small for our own elements, which it must cover.
            Err(error) => {
                let what = error.to_string();
                self.fail(index, |job, operation| OperationError::Protocol {
                    job,
                    operation,
                    chunk,
                    pass,
                    what,
                });
            }
        }
    }

    pub(super) fn send_probe(&mut self, tree: usize, slot: u32, batch: &mut TransmitBatch) {
        let header = self.header(Opcode::Probe, tree, slot);
        let pushed = batch.push(tree, |buffer| {
            header.emit(&mut Packet::new_unchecked(&mut *buffer));
            Ok::<_, std::convert::Infallible>(HEADER_LEN)
        });
        self.stats.probes += u64::from(pushed.is_ok());
    }

    /// The fields that all packets to a slot share.
    pub(super) fn header(&self, opcode: Opcode, tree: usize, slot: u32) -> Header {
        let tree = &self.trees[tree];
        Header {
            member: tree.config.member,
            slot,
            sequence: tree.slots[slot as usize].sequence,
            flags: Flags::NONE,
            ..Header::new(opcode, self.config.format, tree.config.tree_id, self.config.generation)
        }
    }

    /// Gives the slot's pass its sequence and tag.
    pub(super) fn advance_sequence(&mut self, tree: usize, slot: u32) {
        let chunk = self.global_chunk(tree, self.trees[tree].slots[slot as usize].chunk);
        let entry = &self.operations[self.operation_index(chunk)];
        let slot = &mut self.trees[tree].slots[slot as usize];
        if slot.describing {
            slot.tag = DESCRIPTIONS.tag(0, 0);
        } else if let Some(active) = &entry.operation {
            slot.tag = active.wire.tag((chunk - entry.first_chunk) as u32, slot.progress.pass());
        }
        match slot.sequence.checked_add(1) {
            Some(sequence) => slot.sequence = sequence,
            None => self.close(Closed {
                reason: "a slot has used all its sequence numbers".to_owned(),
                missing_ranks: Vec::new(),
            }),
        }
    }
}
