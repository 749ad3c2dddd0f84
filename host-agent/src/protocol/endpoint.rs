//! The host side of the reduction protocol: operations, datagrams, time.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use inca_wire::format::FormatError;
use inca_wire::packet::{Flags, HEADER_LEN, Header, Opcode, Packet};
use inca_wire::tag::Operation;

use super::batch::TransmitBatch;
use super::codec::{self, LaneClasses};
use super::config::EndpointConfig;
use super::error::{Closed, ConfigError, MissingRanks, OperationError, Stall, StartError};
use super::operation::{OperationId, OperationSpec, OperationText, ReduceOp};
use super::passes::{self, Next};
use super::stats::Stats;
use super::tensor::{TensorBuffer, TensorMut};
use super::tree::{SlotState, ToSend, Tree};

/// The state of one member of a group, for one generation.
///
/// It does no input or output and reads no clock: the caller hands in datagrams and the time, and asks what to send
/// ([`Endpoint::poll_transmit`]), when to come back ([`Endpoint::poll_timeout`]) and what is done ([`Endpoint::poll_completion`]).
///
/// Operations are queued back to back: their chunks form one sequence, numbered across operations, so that the next
/// operation's first chunks are in flight while the last ones of the previous operation are still awaited.
///
/// *Inputs* are read from the caller's buffer each time a chunk is sent and are not needed once its result is here: the result was stored by every
/// switch between the root and this host before it was passed on, and a switch that missed it gets it from its parent's
/// store, which is kept until the slot's next sequence is finished, which that switch's children must first contribute to. So results
/// are written in place, over their inputs.
#[derive(Debug)]
pub struct Endpoint<B> {
    config: EndpointConfig,
    chunk_elements: usize,
    trees: Vec<Tree>,
    /// From the oldest unfinished operation on.
    operations: VecDeque<Entry<B>>,
    /// Number of the next operation.
    next_number: u64,
    /// Number of the next operation's first chunk.
    next_chunk: u64,
    next_deadline: Option<Instant>,
    completions: VecDeque<Completion<B>>,
    closed: Option<Closed>,
    /// Answer to the latest probe.
    probed: Option<ProbeAnswer>,
    /// The tree to be asked first for packets.
    turn: usize,
    stats: Stats,
}

/// An operation that ended.
#[derive(Debug)]
pub struct Completion<B> {
    /// Which one.
    pub id: OperationId,
    /// The caller's buffer; its output is complete if the result is `Ok`.
    pub buffer: B,
    /// How it ended.
    pub result: Result<(), OperationError>,
}

/// An operation that was not started.
#[derive(Debug)]
pub struct Rejected<B> {
    /// Why.
    pub error: StartError,
    /// The caller's buffer, untouched.
    pub buffer: B,
}

/// A place in the sequence of chunks; without an operation once that has ended.
#[derive(Debug)]
struct Entry<B> {
    first_chunk: u64,
    chunks: u32,
    operation: Option<Active<B>>,
}

#[derive(Debug)]
struct Active<B> {
    text: OperationText,
    spec: OperationSpec,
    wire: Operation,
    buffer: B,
    finished: u32,
    /// The lowest chunk whose sums do not fit.
    overflow: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct ProbeAnswer {
    tree: usize,
    slot: u32,
    sequence: u32,
    contributions: u16,
    children: u64,
}

impl<B: TensorBuffer> Endpoint<B> {
    /// An endpoint at the beginning of a generation.
    pub fn new(config: EndpointConfig, now: Instant) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            chunk_elements: config.chunk_elements(),
            trees: config.trees.iter().map(|tree| Tree::new(tree.clone(), &config.tuning, now)).collect(),
            operations: VecDeque::new(),
            next_number: 0,
            next_chunk: 0,
            next_deadline: None,
            completions: VecDeque::new(),
            closed: None,
            probed: None,
            turn: 0,
            stats: Stats::default(),
            config,
        })
    }

    /// Settings.
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Counters so far.
    pub fn stats(&self) -> Stats {
        let window_reductions = self.trees.iter().map(|tree| tree.window().reductions()).sum();
        Stats {
            window_reductions,
            window: self.trees.iter().map(|tree| tree.window().size() as u64).sum(),
            smoothed_rtt: self.trees.iter().filter_map(|tree| tree.rtt().smoothed()).max(),
            ..self.stats
        }
    }

    /// Why the generation has ended for this endpoint, if it has: nothing can be started any more.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.as_ref()
    }

    /// Operations that have not ended.
    pub fn active_operations(&self) -> usize {
        self.operations.iter().filter(|entry| entry.operation.is_some()).count()
    }

    /// The operation whose buffer satisfies the predicate, if it has not ended.
    pub fn find(&self, predicate: impl Fn(&B) -> bool) -> Option<OperationId> {
        let active = self.operations.iter().filter_map(|entry| entry.operation.as_ref());
        active.filter(|active| predicate(&active.buffer)).map(|active| active.text.id).next()
    }

    /// Starts an operation; it is numbered even if it needs no packets.
    pub fn start(&mut self, spec: OperationSpec, mut buffer: B) -> Result<OperationId, Rejected<B>> {
        let chunks = match self.admit(&spec, &mut buffer) {
            Ok(chunks) => chunks,
            Err(error) => return Err(Rejected { error, buffer }),
        };
        let id = OperationId(self.next_number);
        self.next_number += 1;
        let input = buffer.input();
        let text = OperationText { id, op: spec.op, dtype: input.dtype(), elements: input.len() as u64 };
        let wire = Operation {
            number: id.0,
            collective: spec.collective.code(),
            op: spec.op.code(),
            dtype: text.dtype.code(),
            elements: text.elements,
        };
        let active = Active { text, spec, wire, buffer, finished: 0, overflow: None };
        if chunks == 0 {
            self.complete(active, Ok(()));
        } else if self.config.world_size == 1 {
            self.reduce_alone(active);
        } else {
            self.enqueue(active, chunks);
        }
        Ok(id)
    }

    /// Gives an operation up; false if it has ended already. The other ranks can't finish it, so this ends the generation.
    pub fn cancel(&mut self, id: OperationId) -> bool {
        let Some(index) = self.operations.iter().position(|entry| entry.is(id)) else { return false };
        let Some(active) = self.operations[index].operation.take() else { return false };
        let (job, operation) = (self.config.job.clone(), active.text);
        self.complete(active, Err(OperationError::Cancelled { job, operation }));
        self.close(Closed { reason: format!("{operation} was cancelled"), missing_ranks: Vec::new() });
        true
    }

    /// Ends the generation: every operation fails, nothing more is sent.
    pub fn close(&mut self, closed: Closed) {
        if self.closed.is_some() {
            return;
        }
        for entry in std::mem::take(&mut self.operations) {
            if let Some(active) = entry.operation {
                let (job, operation) = (self.config.job.clone(), active.text);
                let error = OperationError::Closed { job, operation, closed: closed.clone() };
                self.complete(active, Err(error));
            }
        }
        self.next_deadline = None;
        self.closed = Some(closed);
    }

    /// The next operation that ended.
    pub fn poll_completion(&mut self) -> Option<Completion<B>> {
        self.completions.pop_front()
    }

    /// When [`Endpoint::handle_timeout`] must be called; sooner does no harm.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.operations.is_empty() {
            return None;
        }
        self.trees.iter().filter_map(Tree::next_timer).chain(self.next_deadline).min()
    }

    /// Lets time pass: deadlines and retransmission timeouts.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.operations.is_empty() {
            return;
        }
        if self.next_deadline.is_some_and(|at| at <= now) {
            self.expire(now);
        }
        for tree in &mut self.trees {
            tree.handle_timeout(now);
        }
    }

    /// Appends datagrams to the batch until it is full or nothing is to be sent; true if more may be waiting.
    pub fn poll_transmit(&mut self, now: Instant, batch: &mut TransmitBatch) -> bool {
        if self.trees.is_empty() {
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

    fn is_for_me(&self, tree: usize, header: &Header) -> bool {
        let config = &self.trees[tree].config;
        header.generation == self.config.generation
            && header.format == self.config.format
            && header.member == config.member
            && header.slot < config.slots
    }

    fn handle_probe_reply(&mut self, tree: usize, header: &Header) {
        self.stats.probe_replies += 1;
        self.probed = Some(ProbeAnswer {
            tree,
            slot: header.slot,
            sequence: header.sequence,
            contributions: header.contributions,
            children: header.bias,
        });
    }

    fn handle_result(&mut self, now: Instant, tree: usize, header: &Header, payload: &[u8]) {
        let slot = &self.trees[tree].slots[header.slot as usize];
        // A mismatched result carries the tag of whichever operation came first; the sequence tells that it is about ours too.
        let awaited = self.closed.is_none()
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
        let (pass, chunk) = (slot.pass, self.global_chunk(tree, slot.chunk));
        let next = passes::next(self.config.format, pass, header.flags);
        let index = self.operation_index(chunk);
        let entry = &self.operations[index];
        let chunk = (chunk - entry.first_chunk) as u32;
        let range = self.elements(entry, chunk);
        if header.flags.is_empty() && header.words != codec::words(self.config.format, range.len()) {
            self.stats.garbage += 1;
            return;
        }
        self.stats.results += 1;
        self.stats.received_bytes += (HEADER_LEN + payload.len()) as u64;
        self.trees[tree].answered(header.slot, now);
        let unusable = match next {
            Next::Finish => self.finish_chunk(tree, index, range, header, payload).err(),
            Next::Overflow => {
                self.overflow_chunk(tree, index, chunk, header.slot);
                None
            }
            Next::Pass(pass) => {
                self.stats.extra_passes += 1;
                self.continue_chunk(tree, pass, header, payload).err()
            }
            Next::Mismatch => {
                self.fail(index, |job, operation| OperationError::Mismatch { job, operation, chunk });
                None
            }
            Next::Violation => {
                let what = format!("it carries flags {}, which that pass can't have", header.flags);
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
    fn finish_chunk(
        &mut self,
        tree: usize,
        index: usize,
        range: Range<usize>,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), FormatError> {
        let classes = self.trees[tree].slots[header.slot as usize].classes.take();
        if let Some(active) = &mut self.operations[index].operation {
            let ranks = (active.spec.op == ReduceOp::Average).then_some(self.config.world_size);
            match active.buffer.output() {
                TensorMut::F32(output) => {
                    codec::decode_f32(
                        payload,
                        header.exp_max,
                        ranks,
                        classes.as_deref(),
                        &mut output[range],
                    )?;
                }
                TensorMut::I32(output) => codec::decode_i32(payload, ranks, &mut output[range])?,
            }
        }
        self.chunk_done(tree, index, header.slot);
        Ok(())
    }

    fn overflow_chunk(&mut self, tree: usize, index: usize, chunk: u32, slot: u32) {
        if let Some(active) = &mut self.operations[index].operation {
            active.overflow = Some(active.overflow.map_or(chunk, |lowest| lowest.min(chunk)));
        }
        self.chunk_done(tree, index, slot);
    }

    fn chunk_done(&mut self, tree: usize, index: usize, slot: u32) {
        self.trees[tree].finish(slot);
        self.stats.chunks += 1;
        let entry = &mut self.operations[index];
        let Some(active) = &mut entry.operation else { return };
        active.finished += 1;
        if active.finished < entry.chunks {
            return;
        }
        if let Some(active) = entry.operation.take() {
            let result = match active.overflow {
                None => Ok(()),
                Some(chunk) => {
                    let range = self.elements(&self.operations[index], chunk);
                    Err(OperationError::Overflow {
                        job: self.config.job.clone(),
                        operation: active.text,
                        first: range.start as u64,
                        last: range.end.min(active.text.elements as usize).saturating_sub(1) as u64,
                    })
                }
            };
            self.complete(active, result);
        }
        while self.operations.front().is_some_and(|entry| entry.operation.is_none()) {
            self.operations.pop_front();
        }
    }

    /// The next pass of a chunk.
    fn continue_chunk(
        &mut self,
        tree: usize,
        pass: u8,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), FormatError> {
        let slot = &mut self.trees[tree].slots[header.slot as usize];
        match pass {
            passes::COMMON_EXPONENT | passes::FINITE_COMMON_EXPONENT => slot.exponent = header.exp_max,
            passes::COUNT_MINUS => slot.classes = Some(Box::new(LaneClasses::plus(payload)?)),
            passes::FINITE_OWN_EXPONENT => {
                if let Some(classes) = &mut slot.classes {
                    classes.add_minus(payload)?;
                }
            }
            _ => {}
        }
        self.trees[tree].next_pass(header.slot, pass);
        self.advance_sequence(tree, header.slot);
        Ok(())
    }

    /// Gives the slot's pass its sequence and tag.
    fn advance_sequence(&mut self, tree: usize, slot: u32) {
        let chunk = self.global_chunk(tree, self.trees[tree].slots[slot as usize].chunk);
        let entry = &self.operations[self.operation_index(chunk)];
        let slot = &mut self.trees[tree].slots[slot as usize];
        if let Some(active) = &entry.operation {
            slot.tag = active.wire.tag((chunk - entry.first_chunk) as u32, slot.pass);
        }
        match slot.sequence.checked_add(1) {
            Some(sequence) => slot.sequence = sequence,
            None => self.close(Closed {
                reason: "a slot has used all its sequence numbers".to_owned(),
                missing_ranks: Vec::new(),
            }),
        }
    }

    fn send_contribution(&mut self, tree: usize, slot_index: u32, now: Instant, batch: &mut TransmitBatch) {
        let slot = &self.trees[tree].slots[slot_index as usize];
        let chunk = self.global_chunk(tree, slot.chunk);
        let index = self.operation_index(chunk);
        let entry = &self.operations[index];
        let range = self.elements(entry, (chunk - entry.first_chunk) as u32);
        let Some(active) = &entry.operation else { return };
        let mut header = self.header(Opcode::Contribution, tree, slot_index);
        header.tag = slot.tag;
        header.contributions = 1;
        let (pass, common) = (slot.pass, slot.exponent);
        let words = codec::words(self.config.format, range.len());
        let pushed = batch.push(tree, |buffer| {
            let block = codec::encode(active.buffer.input(), range, pass, common, &mut buffer[HEADER_LEN..])?;
            block.describe(&mut header, words);
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
                let (chunk, what) = ((chunk - entry.first_chunk) as u32, error.to_string());
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

    fn send_probe(&mut self, tree: usize, slot: u32, batch: &mut TransmitBatch) {
        let header = self.header(Opcode::Probe, tree, slot);
        let pushed = batch.push(tree, |buffer| {
            header.emit(&mut Packet::new_unchecked(&mut *buffer));
            Ok::<_, std::convert::Infallible>(HEADER_LEN)
        });
        self.stats.probes += u64::from(pushed.is_ok());
    }

    /// The fields that all packets to a slot share.
    fn header(&self, opcode: Opcode, tree: usize, slot: u32) -> Header {
        let tree = &self.trees[tree];
        Header {
            member: tree.config.member,
            slot,
            sequence: tree.slots[slot as usize].sequence,
            flags: Flags::NONE,
            ..Header::new(opcode, self.config.format, tree.config.tree_id, self.config.generation)
        }
    }

    /// Chunks of the operation, if it can be started.
    fn admit(&self, spec: &OperationSpec, buffer: &mut B) -> Result<u32, StartError> {
        let job = || self.config.job.clone();
        if let Some(closed) = &self.closed {
            return Err(StartError::Closed { job: job(), closed: closed.clone() });
        }
        if !matches!(spec.op, ReduceOp::Sum | ReduceOp::Average) {
            return Err(StartError::UnsupportedOp { job: job(), op: spec.op });
        }
        let (dtype, elements, format) = (buffer.input().dtype(), buffer.input().len(), self.config.format);
        if dtype.format() != format {
            return Err(StartError::UnsupportedDtype { job: job(), dtype, format });
        }
        let output = buffer.output();
        let (output, output_dtype) = (output.as_ref().len(), output.as_ref().dtype());
        if (output, output_dtype) != (elements, dtype) {
            let (input, input_dtype) = (elements, dtype);
            return Err(StartError::OutputMismatch { job: job(), input, input_dtype, output, output_dtype });
        }
        let chunks = elements.div_ceil(self.chunk_elements) as u64;
        u32::try_from(chunks).map_err(|_| StartError::TooLarge {
            job: job(),
            elements: elements as u64,
            chunks,
        })
    }

    fn enqueue(&mut self, active: Active<B>, chunks: u32) {
        if let Some(deadline) = active.spec.deadline {
            self.next_deadline = Some(self.next_deadline.map_or(deadline, |next| next.min(deadline)));
        }
        self.operations.push_back(Entry { first_chunk: self.next_chunk, chunks, operation: Some(active) });
        self.next_chunk += u64::from(chunks);
        let stripes = self.trees.len() as u64;
        for (index, tree) in self.trees.iter_mut().enumerate() {
            // Chunks k < next_chunk with k mod stripes = index.
            tree.extend((self.next_chunk + stripes - 1 - index as u64) / stripes);
        }
    }

    /// A world of one rank: the same arithmetic without a switch.
    fn reduce_alone(&mut self, mut active: Active<B>) {
        let mut result = Ok(());
        for start in (0..active.text.elements as usize).step_by(self.chunk_elements) {
            let range = start..(start + self.chunk_elements).min(active.text.elements as usize);
            if let Err(error) = codec::reduce_alone(&mut active.buffer, range) {
                let (job, operation, chunk) =
                    (self.config.job.clone(), active.text, start / self.chunk_elements);
                let what = error.to_string();
                result = Err(OperationError::Protocol { job, operation, chunk: chunk as u32, pass: 0, what });
            }
        }
        self.complete(active, result);
    }

    fn complete(&mut self, active: Active<B>, result: Result<(), OperationError>) {
        let id = active.text.id;
        self.completions.push_back(Completion { id, buffer: active.buffer, result });
    }

    /// Fails operations whose deadline has passed, and the generation with them.
    fn expire(&mut self, now: Instant) {
        let mut expired = None;
        for index in 0..self.operations.len() {
            let late = |active: &Active<B>| active.spec.deadline.is_some_and(|deadline| deadline <= now);
            if !self.operations[index].operation.as_ref().is_some_and(late) {
                continue;
            }
            let Some(active) = self.operations[index].operation.take() else { continue };
            let entry = &self.operations[index];
            let (chunk, stall) = self.first_unfinished(entry);
            let (job, operation) = (self.config.job.clone(), active.text);
            let (finished, chunks) = (active.finished, entry.chunks);
            expired = expired.or(Some(operation));
            let error = OperationError::DeadlineExceeded { job, operation, finished, chunks, chunk, stall };
            self.complete(active, Err(error));
        }
        match expired {
            Some(operation) => self.close(Closed {
                reason: format!("{operation} exceeded its deadline at this rank"),
                missing_ranks: Vec::new(),
            }),
            None => {
                let deadlines =
                    self.operations.iter().filter_map(|entry| entry.operation.as_ref()?.spec.deadline);
                self.next_deadline = deadlines.min();
            }
        }
    }

    /// Fails an operation, and the generation with it.
    fn fail(&mut self, index: usize, error: impl FnOnce(String, OperationText) -> OperationError) {
        let Some(active) = self.operations[index].operation.take() else { return };
        let error = error(self.config.job.clone(), active.text);
        let closed = Closed { reason: error.to_string(), missing_ranks: Vec::new() };
        self.complete(active, Err(error));
        self.close(closed);
    }

    /// An operation's first unfinished chunk, and what is known of it.
    fn first_unfinished(&self, entry: &Entry<B>) -> (u32, Stall) {
        let stripes = self.trees.len() as u64;
        let end = entry.first_chunk + u64::from(entry.chunks);
        let lowest = (self.trees.iter().zip(0u64..))
            .flat_map(|(tree, index)| tree.slots.iter().map(move |slot| slot.chunk * stripes + index))
            .filter(|chunk| (entry.first_chunk..end).contains(chunk))
            .min();
        let Some(chunk) = lowest else {
            // All its slots are still busy with earlier operations.
            return (0, Stall::NotSent);
        };
        let tree_index = (chunk % stripes) as usize;
        let tree = &self.trees[tree_index];
        let slot_index = tree.slot_of(chunk / stripes);
        let slot = &tree.slots[slot_index as usize];
        let answer = self.probed.filter(|answer| {
            (answer.tree, answer.slot, answer.sequence) == (tree_index, slot_index, slot.sequence)
        });
        let stall = match answer {
            _ if slot.state != SlotState::InFlight => Stall::NotSent,
            Some(ProbeAnswer { contributions, children, .. }) => {
                let missing =
                    Box::new(MissingRanks::of(&tree.config.leaf_children, children, self.config.world_size));
                Stall::Waiting { contributions, world_size: self.config.world_size, children, missing }
            }
            None => Stall::Silent { transmissions: tree.transmissions(slot_index) },
        };
        ((chunk - entry.first_chunk) as u32, stall)
    }

    /// Number of a tree's chunk in the whole sequence.
    fn global_chunk(&self, tree: usize, chunk: u64) -> u64 {
        chunk * self.trees.len() as u64 + tree as u64
    }

    /// Index of the operation that a chunk in flight belongs to.
    fn operation_index(&self, chunk: u64) -> usize {
        self.operations.partition_point(|entry| entry.first_chunk + u64::from(entry.chunks) <= chunk)
    }

    /// The elements of an operation's chunk.
    fn elements(&self, entry: &Entry<B>, chunk: u32) -> Range<usize> {
        let start = chunk as usize * self.chunk_elements;
        let end = start + self.chunk_elements;
        let elements = entry.operation.as_ref().map_or(end, |active| active.text.elements as usize);
        start..end.min(elements)
    }
}

impl<B> Entry<B> {
    fn is(&self, id: OperationId) -> bool {
        self.operation.as_ref().is_some_and(|active| active.text.id == id)
    }
}
