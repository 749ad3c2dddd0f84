//! The host side of the reduction protocol: operations, datagrams, time.

mod change;
mod end;
mod mismatch;
mod receive;
mod send;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use inca_wire::chunk::{ChunkState, Next, PassResult};
use inca_wire::format::{Encoded, FormatError};
use inca_wire::packet::{MAX_WORDS, WORD_BYTES};
use inca_wire::scheme::Scheme;
use inca_wire::tag::Operation;

use super::carrier::Carrier;
use super::config::EndpointConfig;
use super::error::{Closed, ConfigError, OperationError, StartError};
use super::kept::Kept;
use super::layout::Layout;
use super::operation::{Collective, OperationId, OperationSpec, OperationText, Part};
use super::stats::Stats;
use super::tensor::{Tensor, TensorBuffer, TensorMut};
use super::tree::Tree;

pub use change::NextGeneration;

/// The state of one member of a group, for one generation after the other.
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
/// are written in place, over their inputs. When the generation changes, ranks that lack a chunk get it from one that has it:
/// each slot's last *output* is kept for that.
#[derive(Debug)]
pub struct Endpoint<B> {
    config: EndpointConfig,
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
    /// An operation that met another one, and at which chunk: the ranks are telling each other.
    mismatched: Option<(OperationId, u32)>,
    /// Between two generations: why.
    stopped: Option<String>,
    /// The ranks of the group, in order.
    members: Arc<[u32]>,
    /// Ranks that a chunk waits for, as the controller told.
    missing: Option<(u64, Vec<u32>)>,
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
    /// The ranks that the output holds. Several parts, in order, if ranks died meanwhile and the others went on.
    pub parts: Vec<Part>,
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
    carrier: Carrier,
    layout: Layout,
    /// The root's place among the ranks, if there is one.
    root: Option<usize>,
    buffer: B,
    /// Where results go that this rank does not get: others may ask for them.
    scratch: Option<Tensor>,
    finished: u32,
    /// The first element whose sum does not fit, and that sum.
    overflow: Option<(u64, i128)>,
    /// Finished by a larger group.
    parts: Vec<Part>,
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
            trees: config.trees.iter().map(|tree| Tree::new(tree.clone(), &config.tuning, now)).collect(),
            operations: VecDeque::new(),
            next_number: 0,
            next_chunk: 0,
            next_deadline: None,
            completions: VecDeque::new(),
            closed: None,
            mismatched: None,
            stopped: None,
            members: (0..config.world_size).collect(),
            missing: None,
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

    /// The ranks of the group, in order: fewer than at first if some died and the others went on.
    pub fn members(&self) -> &[u32] {
        &self.members
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
        let Admitted { carrier, layout, root, chunks } = match self.admit(&spec, &mut buffer) {
            Ok(admitted) => admitted,
            Err(error) => return Err(Rejected { error, buffer }),
        };
        let id = OperationId(self.next_number);
        self.next_number += 1;
        let OperationSpec { collective, op, .. } = spec;
        let dtype = buffer.input().dtype();
        let elements = match collective {
            Collective::Alltoall => buffer.input().len() as u64,
            _ => layout.elements() as u64,
        };
        let text = OperationText { id, collective, op, dtype, elements };
        let active = Active {
            wire: collective.on_the_wire(id, op, dtype, elements),
            text,
            spec,
            carrier,
            layout,
            root,
            buffer,
            scratch: None,
            finished: 0,
            overflow: None,
            parts: Vec::new(),
        };
        if chunks == 0 {
            self.complete(active, Ok(()));
        } else if self.config.world_size == 1 {
            self.reduce_alone(active);
        } else {
            self.enqueue(active, chunks);
        }
        Ok(id)
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

    /// How the operation travels, if it can be started.
    fn admit(&self, spec: &OperationSpec, buffer: &mut B) -> Result<Admitted, StartError> {
        let job = || self.config.job.clone();
        if let Some(closed) = &self.closed {
            return Err(StartError::Closed { job: job(), closed: closed.clone() });
        }
        let (collective, format) = (spec.collective, self.config.format);
        let (dtype, input) = (buffer.input().dtype(), buffer.input().len());
        let carrier = match collective {
            Collective::Barrier | Collective::Alltoall => Carrier::Nothing,
            collective if collective.reduces() => {
                let scheme = Scheme::new(dtype, spec.op, format, self.config.world_size);
                Carrier::Reduce(scheme.map_err(|error| StartError::Unsupported { job: job(), error })?)
            }
            _ => Carrier::Bytes(format),
        };
        let output = buffer.output();
        let (output, output_dtype) = (output.as_ref().len(), output.as_ref().dtype());
        if output_dtype != dtype || (collective == Collective::Allreduce && output != input) {
            let input_dtype = dtype;
            return Err(StartError::OutputMismatch { job: job(), input, input_dtype, output, output_dtype });
        }
        let residual = buffer.residual().map(|(input, residual)| (input.len(), residual.len()));
        let has_residual = matches!(&carrier, Carrier::Reduce(scheme) if scheme.has_residual())
            && collective == Collective::Allreduce;
        if residual.is_some_and(|lengths| lengths != (input, input)) || (residual.is_some() && !has_residual)
        {
            return Err(StartError::Residual { job: job(), dtype, op: spec.op, format });
        }
        let root = collective.root().map(|root| self.place_of(root).ok_or(root)).transpose();
        let root = root.map_err(|root| {
            let members = self.members.to_vec();
            StartError::Root { job: job(), collective: collective.name(), root, members }
        })?;
        let world = self.members.len();
        let chunk = carrier.chunk_elements(self.config.chunk_words, dtype);
        let layout = Layout::new(collective, (self.place(), root, world), (input, output), chunk);
        let layout = layout.map_err(|_| StartError::Shape {
            job: job(),
            collective: collective.name(),
            world,
            input,
            output,
        })?;
        let (elements, chunks) = (layout.elements() as u64, layout.chunks());
        match u32::try_from(chunks) {
            Ok(chunks) => Ok(Admitted { carrier, layout, root, chunks }),
            Err(_) => Err(StartError::TooLarge { job: job(), elements, chunks }),
        }
    }

    /// The place of a rank among the group's.
    fn place_of(&self, rank: u32) -> Option<usize> {
        self.members.iter().position(|member| *member == rank)
    }

    /// This rank's. Without a tree it is alone.
    fn place(&self) -> usize {
        let member = self.trees.first().map_or(0, |tree| tree.config.member);
        self.place_of(member.into()).unwrap_or(0)
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
        for chunk in 0..active.layout.chunks() as u32 {
            if let Err(error) = active.reduce_chunk_alone(chunk, self.config.chunk_words) {
                let (job, operation) = (self.config.job.clone(), active.text);
                let what = error.to_string();
                result = Err(OperationError::Protocol { job, operation, chunk, pass: 0, what });
            }
        }
        let result = result.and_then(|()| self.outcome(&active));
        self.complete(active, result);
    }

    /// How an operation ends whose chunks are all finished.
    fn outcome(&self, active: &Active<B>) -> Result<(), OperationError> {
        match active.overflow {
            None => Ok(()),
            Some((index, sum)) => {
                let (job, operation) = (self.config.job.clone(), active.text);
                Err(OperationError::Overflow { job, operation, index, sum })
            }
        }
    }

    fn complete(&mut self, active: Active<B>, result: Result<(), OperationError>) {
        let id = active.text.id;
        let mut parts = active.parts;
        if result.is_ok() {
            let elements = 0..active.text.elements;
            change::add_parts(&mut parts, std::slice::from_ref(&elements), &self.members);
        }
        self.completions.push_back(Completion { id, buffer: active.buffer, result, parts });
    }

    /// Number of a tree's chunk in the whole sequence.
    fn global_chunk(&self, tree: usize, chunk: u64) -> u64 {
        chunk * self.trees.len() as u64 + tree as u64
    }

    /// Index of the operation that a chunk in flight belongs to.
    fn operation_index(&self, chunk: u64) -> usize {
        self.operations.partition_point(|entry| entry.first_chunk + u64::from(entry.chunks) <= chunk)
    }

    /// The elements of an operation's chunk, in its whole tensor.
    fn elements(&self, entry: &Entry<B>, chunk: u32) -> Range<usize> {
        entry.operation.as_ref().map_or(0..0, |active| active.layout.range(chunk))
    }
}

/// An operation that can be started.
struct Admitted {
    carrier: Carrier,
    layout: Layout,
    root: Option<usize>,
    chunks: u32,
}

impl<B: TensorBuffer> Active<B> {
    /// Words of a chunk of so many elements.
    fn words(&self, elements: usize) -> usize {
        self.carrier.words(elements, self.text.dtype)
    }

    /// Encodes a chunk for its present pass.
    fn encode(
        &self,
        chunk: u32,
        state: &ChunkState,
        payload: &mut [u8],
    ) -> Result<(Encoded, usize), FormatError> {
        let words = self.words(self.layout.range(chunk).len());
        let input = self.layout.input(chunk, self.root).map(|range| self.buffer.input().slice(range));
        Ok((self.carrier.encode(input, words, state, payload)?, words))
    }

    /// All passes of one chunk in a world of one: its contribution is its result. The root's rounding would change nothing, since
    /// the mantissas of one contribution fit as they are.
    fn reduce_chunk_alone(&mut self, chunk: u32, chunk_words: u8) -> Result<(), FormatError> {
        let mut payload = [0; MAX_WORDS * WORD_BYTES];
        let payload = &mut payload[..usize::from(chunk_words) * WORD_BYTES];
        let elements = self.layout.range(chunk).len();
        let mut state = ChunkState::default();
        loop {
            let (sent, words) = self.encode(chunk, &state, payload)?;
            let words = if sent.flags.is_empty() { &payload[..words * WORD_BYTES] } else { &[][..] };
            let (flags, exp_max, exp_min) = (sent.flags, sent.exp_max, sent.exp_min);
            let result = PassResult { flags, exp_max, exp_min, words };
            match (self.carrier.next(&state, &result), &self.carrier) {
                (Next::Pass(next), Carrier::Reduce(scheme)) => {
                    scheme.advance(&mut state, next, &result, elements)?;
                }
                _ => return self.finish_chunk(&mut state, &result, chunk).map(|_| ()),
            }
        }
    }

    /// Writes a chunk's elements to the caller's output, and what quantisation took from them where the caller wants it. The first element
    /// of the tensor that does not fit, and its sum.
    fn finish_chunk(
        &mut self,
        state: &mut ChunkState,
        result: &PassResult<'_>,
        chunk: u32,
    ) -> Result<Option<(u64, i128)>, FormatError> {
        self.keep_residual(state, chunk)?;
        let carrier = self.carrier;
        let misfit = carrier.finish(state, result, self.output(chunk))?;
        let start = self.layout.range(chunk).start as u64;
        let overflow = misfit.map(|misfit| (start + misfit.index as u64, misfit.sum));
        self.note_overflow(overflow);
        Ok(overflow)
    }

    /// Where a chunk's result goes.
    fn output(&mut self, chunk: u32) -> TensorMut<'_> {
        let elements = self.layout.range(chunk).len();
        match self.layout.output(chunk, self.root) {
            Some(range) => self.buffer.output().slice(range),
            None => {
                let dtype = self.text.dtype;
                let scratch = self.scratch.get_or_insert_with(|| Tensor::zeros(dtype, 0));
                if scratch.len() < elements {
                    *scratch = Tensor::zeros(dtype, elements);
                }
                scratch.view_mut().slice(0..elements)
            }
        }
    }

    /// Keeps a chunk's output, which is written, for those that may lack it.
    fn keep(&mut self, chunk: u32, overflow: Option<(u64, i128)>, kept: &mut Kept) {
        let tag = self.wire.tag(chunk, 0);
        kept.set(tag, self.output(chunk), overflow);
    }

    /// What quantisation took from a chunk, where the caller wants it; before its input is overwritten.
    fn keep_residual(&mut self, state: &ChunkState, chunk: u32) -> Result<(), FormatError> {
        let (Carrier::Reduce(scheme), range) = (self.carrier, self.layout.range(chunk)) else {
            return Ok(());
        };
        let Some((input, residual)) = self.buffer.residual() else { return Ok(()) };
        let mut payload = [0; MAX_WORDS * WORD_BYTES];
        scheme.residual(&input[range.clone()], state, &mut payload, &mut residual[range])
    }
}

impl<B> Active<B> {
    /// Keeps the first element that does not fit.
    fn note_overflow(&mut self, found: Option<(u64, i128)>) {
        self.overflow = match (self.overflow, found) {
            (Some(first), Some(found)) => Some(if first.0 < found.0 { first } else { found }),
            (first, found) => first.or(found),
        };
    }
}

impl<B> Entry<B> {
    fn is(&self, id: OperationId) -> bool {
        self.operation.as_ref().is_some_and(|active| active.text.id == id)
    }
}
