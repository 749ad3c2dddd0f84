//! The ring's protocol: what each frame and each moment does.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use inca_wire::packet::Format;
use inca_wire::scheme::Scheme;

use super::arithmetic::{self, FINAL_BYTES, PARTIAL_BYTES};
use super::frame::{self, Head, Kind};
use super::progress::Progress;
use crate::protocol::{
    Calls, Closed, Collective, Completion, Dtype, OperationError, OperationId, OperationSpec, OperationText,
    Part, ReduceOp, Rejected, Stall, StartError, Stats, TensorBuffer, TensorRef,
};

/// Chunks of the own segment in the ring at once: bounds what waits anywhere.
const WINDOW: u32 = 32;
/// Own chunks are added only while less than this waits to be sent: what others wait for goes first.
const LOW_WATER: usize = 256 << 10;
/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(500);
/// A neighbour that was not heard for so long is suspected, and after [`SILENCE`] given up.
const SUSPICION: Duration = Duration::from_millis(1500);
const SILENCE: Duration = Duration::from_secs(8);
/// No rank, in a sign of life.
const NOBODY: u32 = u32::MAX;

/// Who is in the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingConfig {
    /// Name of the job, for errors.
    pub job: String,
    /// This rank.
    pub rank: u32,
    /// Where each rank listens, for errors; its length is the world size.
    pub members: Vec<String>,
    /// The group's generation.
    pub generation: u32,
    /// What tensors may be made of.
    pub format: Format,
}

/// Why a neighbour is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Its connection has ended.
    #[error("its connection ended: {0}")]
    Ended(String),
    /// It sends what makes no sense.
    #[error("it breaks the ring's protocol: {0}")]
    Garbage(String),
    /// It sends nothing.
    #[error("it was silent for {0:?}")]
    Silent(Duration),
    /// It left in good order.
    #[error("it left the job")]
    Left,
    /// It could not be reached.
    #[error("it can't be reached: {0}")]
    Unreachable(String),
}

/// One rank of a ring.
#[derive(Debug)]
pub struct Ring<B> {
    config: RingConfig,
    /// Started and unfinished; only the first one is worked on.
    operations: VecDeque<Active<B>>,
    started: u64,
    completions: VecDeque<Completion<B>>,
    closed: Option<Closed>,
    /// From the rank before, not yet understood.
    incoming: Vec<u8>,
    /// To the next rank, and what of it is sent.
    outgoing: Vec<u8>,
    outgoing_at: usize,
    /// To the rank before, which hears from us only when all is over.
    backward: Vec<u8>,
    heard: Instant,
    next_beat: Instant,
    /// What the rank before told last: operations started, and whom it waits for.
    before_started: u64,
    before_suspects: Option<u32>,
    /// The neighbours that have left.
    left: [bool; 2],
    stats: Stats,
}

#[derive(Debug)]
struct Active<B> {
    text: OperationText,
    spec: OperationSpec,
    tag: u32,
    buffer: B,
    progress: Progress,
}

impl<B: TensorBuffer> Ring<B> {
    /// A rank whose connections stand.
    pub fn new(config: RingConfig, now: Instant) -> Self {
        let mut ring = Self {
            config,
            operations: VecDeque::new(),
            started: 0,
            completions: VecDeque::new(),
            closed: None,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            outgoing_at: 0,
            backward: Vec::new(),
            heard: now,
            next_beat: now,
            before_started: 0,
            before_suspects: None,
            left: [false; 2],
            stats: Stats::default(),
        };
        let RingConfig { job, rank, generation, .. } = ring.config.clone();
        Head::of(Kind::Hello).emit(&mut ring.outgoing, |out| {
            for number in [generation, rank, ring.config.members.len() as u32] {
                out.extend(number.to_le_bytes());
            }
            out.extend(job.as_bytes());
        });
        ring
    }

    /// Whether a connection's first frame is that of the rank before: `None` if it is not all there yet.
    pub fn greets(config: &RingConfig, bytes: &[u8]) -> Option<bool> {
        match frame::parse(bytes) {
            Ok(None) => None,
            Ok(Some((head, payload, _))) => {
                let before = config.before();
                let wanted = [config.generation, before, config.members.len() as u32];
                let job = payload.get(12..).unwrap_or_default();
                let right = frame::numbers(payload).take(3).eq(wanted) && job == config.job.as_bytes();
                Some(head.kind == Kind::Hello && right)
            }
            Err(_) => Some(false),
        }
    }

    /// Ranks.
    pub fn world(&self) -> u32 {
        self.config.world()
    }

    /// Counters; a packet is a frame here.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Why the generation has ended, if it has.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.as_ref()
    }

    /// The next operation that ended.
    pub fn poll_completion(&mut self) -> Option<Completion<B>> {
        self.completions.pop_front()
    }

    /// The oldest operation under way whose buffer satisfies the predicate.
    pub fn find(&self, predicate: impl Fn(&B) -> bool) -> Option<OperationId> {
        self.operations.iter().find(|active| predicate(&active.buffer)).map(|active| active.text.id)
    }

    /// Starts an operation. Operations are worked on one after the other.
    pub fn start(
        &mut self,
        now: Instant,
        spec: OperationSpec,
        mut buffer: B,
    ) -> Result<OperationId, Rejected<B>> {
        if let Err(error) = self.admit(&spec, &mut buffer) {
            return Err(Rejected { error, buffer });
        }
        let id = OperationId(self.started);
        self.started += 1;
        let input = buffer.input();
        let (dtype, elements) = (input.dtype(), input.len());
        let OperationSpec { collective, op, .. } = spec;
        let wire = collective.on_the_wire(id, op, dtype, elements as u64);
        let text = OperationText { id, collective, op, dtype, elements: elements as u64 };
        let progress = Progress::new(elements, self.world());
        let mut active = Active { text, spec, tag: wire.tag(0, 0), buffer, progress };
        if self.world() == 1 {
            active.alone();
        }
        self.operations.push_back(active);
        self.beat(now);
        self.complete();
        // What came before its time may be due.
        self.digest(now);
        Ok(id)
    }

    fn admit(&self, spec: &OperationSpec, buffer: &mut B) -> Result<(), StartError> {
        let job = || self.config.job.clone();
        if let Some(closed) = &self.closed {
            return Err(StartError::Closed { job: job(), closed: closed.clone() });
        }
        if let Some(at) = self.left.iter().position(|left| *left) {
            let rank = [self.config.before(), self.config.after()][at];
            let closed = self.config.blame(rank, &Lost::Left);
            return Err(StartError::Closed { job: job(), closed });
        }
        if spec.collective != Collective::Allreduce {
            return Err(StartError::RingCollective { job: job(), collective: spec.collective.name() });
        }
        let (input, input_dtype) = (buffer.input().len(), buffer.input().dtype());
        Scheme::new(input_dtype, spec.op, self.config.format, self.world())
            .map_err(|error| StartError::Unsupported { job: job(), error })?;
        let known = matches!(input_dtype, Dtype::F32 | Dtype::I32)
            && matches!(spec.op, ReduceOp::Sum | ReduceOp::Average);
        if !known || buffer.residual().is_some() {
            return Err(StartError::Ring { job: job(), dtype: input_dtype, op: spec.op });
        }
        let (output, output_dtype) = (buffer.output().as_ref().len(), buffer.output().as_ref().dtype());
        if (input, input_dtype) != (output, output_dtype) {
            return Err(StartError::OutputMismatch { job: job(), input, input_dtype, output, output_dtype });
        }
        Ok(())
    }

    /// Takes bytes from the rank before.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        self.heard = now;
        self.stats.received_bytes += bytes.len() as u64;
        self.incoming.extend_from_slice(bytes);
        self.digest(now);
    }

    /// Takes bytes that the next rank sent against the direction of the ring: only that it is over.
    pub fn handle_backward(&mut self, bytes: &[u8]) {
        if let Ok(Some((head, payload, _))) = frame::parse(bytes)
            && head.kind == Kind::Abort
        {
            self.told_of_end(head.flagged, payload);
        }
    }

    /// Understands what has come, up to what must wait for the caller.
    fn digest(&mut self, now: Instant) {
        let incoming = std::mem::take(&mut self.incoming);
        let mut at = 0;
        while self.closed.is_none() {
            match frame::parse(&incoming[at..]) {
                Ok(None) => break,
                Ok(Some((head, payload, length))) => match self.take(now, head, payload) {
                    Ok(true) => at += length,
                    Ok(false) => break,
                    Err(lost) => self.lose(self.config.before(), &lost),
                },
                Err(lost) => self.lose(self.config.before(), &lost),
            }
        }
        self.incoming = incoming;
        self.incoming.drain(..at);
    }

    /// False if the frame belongs to an operation that was not started here.
    fn take(&mut self, now: Instant, head: Head, payload: &[u8]) -> Result<bool, Lost> {
        match head.kind {
            Kind::Hello => {}
            Kind::Beat => {
                let mut numbers = frame::numbers(payload);
                self.before_started = head.operation;
                self.before_suspects = numbers.next().filter(|rank| *rank != NOBODY);
            }
            Kind::Bye => {
                self.left[0] = true;
                if !self.operations.is_empty() {
                    return Err(Lost::Left);
                }
            }
            Kind::Abort => self.told_of_end(head.flagged, payload),
            Kind::Partial | Kind::Final => {
                let Some(current) = self.operations.front() else {
                    return match head.operation == self.started {
                        true => Ok(false),
                        false => Err(Lost::Garbage(format!("operation {} is not under way", head.operation))),
                    };
                };
                // A rank that is further has finished without us: it called something else.
                if head.operation != current.text.id.0 || head.tag != current.tag {
                    self.mismatch();
                    return Ok(true);
                }
                self.take_chunk(head, payload)?;
                self.complete();
                self.beat_if_due(now);
            }
        }
        Ok(true)
    }

    fn take_chunk(&mut self, head: Head, payload: &[u8]) -> Result<(), Lost> {
        let (rank, world, after) = (self.config.rank, self.world(), self.config.after());
        let Some(active) = self.operations.front_mut() else { return Ok(()) };
        let is_result = head.kind == Kind::Final;
        let size = if is_result { FINAL_BYTES } else { PARTIAL_BYTES };
        let Head { segment, chunk, .. } = head;
        let range = active.progress.arrive(is_result, segment, chunk, payload.len(), size)?;
        // The segment's last rank rounds; it is the one before the first.
        let rounds = after == segment;
        if is_result && rounds || !is_result && segment == rank {
            return Err(Lost::Garbage(format!("chunk {chunk} of segment {segment} has gone around")));
        }
        let mut forward = Head { flagged: head.flagged, ..head };
        if is_result {
            if segment == rank {
                active.progress.returned += 1;
            }
            active.keep(range, payload, head.flagged);
            // The next one after us rounded it itself?
            if (after + 1) % world == segment {
                return Ok(());
            }
            forward.emit(&mut self.outgoing, |out| out.extend_from_slice(payload));
        } else if rounds {
            let mut sum = Vec::with_capacity(payload.len());
            arithmetic::add(active.buffer.input(), range.clone(), payload, &mut sum);
            let mut result = Vec::with_capacity(payload.len() / 2);
            let is_f32 = matches!(active.buffer.input(), TensorRef::F32(_));
            forward.flagged = !arithmetic::finish(is_f32, &sum, active.spec.op, world, &mut result);
            forward.kind = Kind::Final;
            active.keep(range, &result, forward.flagged);
            forward.emit(&mut self.outgoing, |out| out.extend_from_slice(&result));
        } else {
            let input = active.buffer.input();
            forward.emit(&mut self.outgoing, |out| arithmetic::add(input, range, payload, out));
        }
        self.stats.transmissions += 1;
        Ok(())
    }

    /// Completes operations whose results are all here, in order.
    fn complete(&mut self) {
        while self.operations.front().is_some_and(|active| active.progress.is_complete()) {
            let Some(active) = self.operations.pop_front() else { return };
            self.stats.chunks += u64::from(active.progress.stored);
            let result = match &active.progress.overflow {
                None => Ok(()),
                Some(range) => Err(OperationError::OverflowAmong {
                    job: self.config.job.clone(),
                    operation: active.text,
                    first: range.start as u64,
                    last: range.end.saturating_sub(1) as u64,
                }),
            };
            let parts = match result {
                Ok(()) => vec![self.whole(active.text.elements)],
                Err(_) => Vec::new(),
            };
            self.completions.push_back(Completion {
                id: active.text.id,
                buffer: active.buffer,
                result,
                parts,
            });
        }
    }

    /// All elements hold all ranks.
    fn whole(&self, elements: u64) -> Part {
        Part { elements: 0..elements, ranks: (0..self.world()).collect() }
    }

    /// What is to be sent to the next rank; [`Ring::sent`] tells how much was.
    pub fn poll_send(&mut self) -> &[u8] {
        if self.left[1] {
            self.outgoing.clear();
            self.outgoing_at = 0;
        } else if self.closed.is_none() {
            while self.outgoing.len() - self.outgoing_at < LOW_WATER && self.send_own() {}
        }
        &self.outgoing[self.outgoing_at..]
    }

    /// So many bytes of what [`Ring::poll_send`] gave have left.
    pub fn sent(&mut self, bytes: usize) {
        self.stats.sent_bytes += bytes as u64;
        self.outgoing_at += bytes;
        if self.outgoing_at == self.outgoing.len() {
            self.outgoing.clear();
            self.outgoing_at = 0;
        } else if self.outgoing_at > LOW_WATER {
            self.outgoing.drain(..self.outgoing_at);
            self.outgoing_at = 0;
        }
    }

    /// What is to be sent to the rank before, once.
    pub fn poll_backward(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.backward)
    }

    /// Puts the next chunk of the own segment into the ring; false if there is none, or enough are under way.
    fn send_own(&mut self) -> bool {
        let rank = self.config.rank;
        let Some(active) = self.operations.front_mut() else { return false };
        let progress = &mut active.progress;
        let chunk = progress.sent;
        if chunk == progress.chunks(rank) || chunk - progress.returned >= WINDOW {
            return false;
        }
        progress.sent += 1;
        let range = progress.range(rank, chunk);
        let head = Head {
            kind: Kind::Partial,
            flagged: false,
            operation: active.text.id.0,
            tag: active.tag,
            segment: rank,
            chunk,
        };
        let input = active.buffer.input();
        head.emit(&mut self.outgoing, |out| arithmetic::first(input, range, out));
        self.stats.transmissions += 1;
        true
    }

    /// When [`Ring::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.closed.is_some() || self.world() == 1 {
            return None;
        }
        let deadlines = self.operations.iter().filter_map(|active| active.spec.deadline);
        deadlines.chain([self.next_beat, self.heard + SILENCE]).min()
    }

    /// Sends signs of life, and gives up what takes too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.closed.is_some() || self.world() == 1 {
            return;
        }
        let late = self.operations.iter().position(|active| active.spec.deadline.is_some_and(|at| at <= now));
        if let Some(index) = late {
            self.exceeded(now, index);
            return;
        }
        if now >= self.heard + SILENCE && !self.left[0] {
            self.lose(self.config.before(), &Lost::Silent(SILENCE));
            return;
        }
        self.beat_if_due(now);
    }

    fn beat_if_due(&mut self, now: Instant) {
        if now >= self.next_beat {
            self.beat(now);
        }
    }

    fn beat(&mut self, now: Instant) {
        if self.world() == 1 || self.closed.is_some() {
            return;
        }
        self.next_beat = now + BEAT;
        let suspect = self.suspect(now).unwrap_or(NOBODY);
        let head = Head { operation: self.started, ..Head::of(Kind::Beat) };
        head.emit(&mut self.outgoing, |out| out.extend(suspect.to_le_bytes()));
    }

    /// Whom the current operation waits for, as far as the ranks before know.
    fn suspect(&self, now: Instant) -> Option<u32> {
        let current = self.operations.front()?;
        if now >= self.heard + SUSPICION || self.before_started <= current.text.id.0 {
            return Some(self.config.before());
        }
        self.before_suspects.filter(|rank| *rank != self.config.rank)
    }

    fn exceeded(&mut self, now: Instant, index: usize) {
        let missing = self.suspect(now);
        let active = &self.operations[index];
        let (finished, chunks) = (active.progress.stored, active.progress.total());
        let stall = Stall::Ring { missing };
        let error = OperationError::DeadlineExceeded {
            job: self.config.job.clone(),
            operation: active.text,
            finished,
            chunks,
            chunk: finished,
            stall,
        };
        let missing_ranks: Vec<u32> = missing.into_iter().collect();
        let reason = format!("rank {}: {} exceeded its deadline", self.config.rank, active.text);
        self.end(Closed { reason, missing_ranks }, false, Some((index, error)));
    }

    fn mismatch(&mut self) {
        let Some(active) = self.operations.front() else { return };
        let error = mismatch(&self.config.job, active.text);
        let reason =
            format!("ranks {} and {} called different operations", self.config.before(), self.config.rank);
        self.end(Closed { reason, missing_ranks: Vec::new() }, true, Some((0, error)));
    }

    /// The caller gives an operation up. Nobody else can finish it either.
    pub fn cancel(&mut self, id: OperationId) -> bool {
        let Some(index) = self.operations.iter().position(|active| active.text.id == id) else {
            return false;
        };
        let error = OperationError::Cancelled {
            job: self.config.job.clone(),
            operation: self.operations[index].text,
        };
        let reason = format!("rank {} cancelled an operation", self.config.rank);
        self.end(Closed { reason, missing_ranks: Vec::new() }, false, Some((index, error)));
        true
    }

    /// Ends the generation: the controller says so, or a call failed.
    pub fn close(&mut self, closed: Closed) {
        self.end(closed, false, None);
    }

    /// This rank leaves in good order, if nothing is under way.
    pub fn leave(&mut self) {
        if self.closed.is_none() && self.operations.is_empty() {
            Head::of(Kind::Bye).emit(&mut self.outgoing, |_| {});
        }
        let reason = "this rank left the job".to_owned();
        let quiet = self.operations.is_empty();
        let closed = Closed { reason, missing_ranks: Vec::new() };
        if quiet {
            self.closed.get_or_insert(closed);
        } else {
            let reason = format!("rank {} left the job", self.config.rank);
            self.end(Closed { reason, missing_ranks: vec![self.config.rank] }, false, None);
        }
    }

    /// The connection to a neighbour is of no more use: `is_before` tells to which.
    pub fn disconnected(&mut self, is_before: bool, lost: &Lost) {
        let at = usize::from(!is_before);
        if self.closed.is_some() || self.left[at] {
            return;
        }
        // A next rank that has all it needs may go. If it died, the one after it tells, all around the ring.
        if !is_before {
            self.left[at] = true;
            return;
        }
        self.lose(self.config.before(), lost);
    }

    fn lose(&mut self, rank: u32, lost: &Lost) {
        let closed = self.config.blame(rank, lost);
        self.end(closed, false, None);
    }

    fn told_of_end(&mut self, is_mismatch: bool, payload: &[u8]) {
        let mut numbers = frame::numbers(payload);
        let count = numbers.next().unwrap_or(0).min(self.world()) as usize;
        let missing_ranks: Vec<u32> = numbers.take(count).collect();
        let text = payload.get(4 + 4 * count..).unwrap_or_default();
        let reason = String::from_utf8_lossy(text).into_owned();
        let error = self.operations.front().filter(|_| is_mismatch);
        let error = error.map(|active| (0, mismatch(&self.config.job, active.text)));
        self.end(Closed { reason, missing_ranks }, is_mismatch, error);
    }

    /// Ends the generation once: tells both neighbours, fails what is under way, `special` by its own error.
    fn end(&mut self, closed: Closed, is_mismatch: bool, special: Option<(usize, OperationError)>) {
        if self.closed.is_some() {
            return;
        }
        let head = Head { flagged: is_mismatch, ..Head::of(Kind::Abort) };
        for out in [&mut self.outgoing, &mut self.backward] {
            head.emit(out, |out| {
                out.extend((closed.missing_ranks.len() as u32).to_le_bytes());
                out.extend(closed.missing_ranks.iter().flat_map(|rank| rank.to_le_bytes()));
                out.extend(closed.reason.as_bytes().iter().take(4096));
            });
        }
        for (index, active) in std::mem::take(&mut self.operations).into_iter().enumerate() {
            let error = match &special {
                Some((at, error)) if *at == index => error.clone(),
                _ => OperationError::Closed {
                    job: self.config.job.clone(),
                    operation: active.text,
                    closed: closed.clone(),
                },
            };
            let (id, buffer, parts) = (active.text.id, active.buffer, Vec::new());
            self.completions.push_back(Completion { id, buffer, result: Err(error), parts });
        }
        self.closed = Some(closed);
    }
}

impl RingConfig {
    /// Ranks.
    pub fn world(&self) -> u32 {
        self.members.len() as u32
    }

    /// The rank that sends to this one.
    pub fn before(&self) -> u32 {
        (self.rank + self.world() - 1) % self.world()
    }

    /// The rank that this one sends to.
    pub fn after(&self) -> u32 {
        (self.rank + 1) % self.world()
    }

    fn blame(&self, rank: u32, lost: &Lost) -> Closed {
        let address = self.members.get(rank as usize).map_or("?", String::as_str);
        Closed {
            reason: format!("rank {rank} at {address} is gone from the ring: {lost}"),
            missing_ranks: vec![rank],
        }
    }
}

impl<B: TensorBuffer> Active<B> {
    /// Takes over a chunk's result.
    fn keep(&mut self, range: std::ops::Range<usize>, result: &[u8], overflows: bool) {
        if overflows {
            self.progress.overflowed(range);
        } else {
            arithmetic::store(self.buffer.output(), range, result);
        }
        self.progress.stored += 1;
    }

    /// A world of one rank.
    fn alone(&mut self) {
        for chunk in 0..self.progress.chunks(0) {
            let range = self.progress.range(0, chunk);
            let (mut sum, mut result) = (Vec::new(), Vec::new());
            arithmetic::first(self.buffer.input(), range.clone(), &mut sum);
            let is_f32 = matches!(self.buffer.input(), TensorRef::F32(_));
            let fits = arithmetic::finish(is_f32, &sum, self.spec.op, 1, &mut result);
            self.keep(range, &result, !fits);
        }
    }
}

fn mismatch(job: &str, operation: OperationText) -> OperationError {
    OperationError::Mismatch { job: job.to_owned(), operation, chunk: 0, calls: Calls::default() }
}
