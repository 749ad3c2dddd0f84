//! One stripe: its slots, which chunk is in which, and when each is sent.
//!
//! Chunks are counted per tree here, over all operations: chunk j uses slot j mod S and begins when that slot's previous chunk has
//! its result. Slots advance independently, so a lost packet holds up one slot, not the window behind it.
//!
//! *Why ranks can't wait for each other for ever*: a tree's lowest unfinished chunk is sent whatever the window says. Let j be the lowest
//! chunk that any rank has not finished. Ranks whose lowest unfinished chunk is j repeat it until its result comes; all others
//! have finished it, so they have contributed. Hence every contribution to j reaches the switches, and j finishes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use inca_wire::chunk::ChunkState;

use super::config::{TreeConfig, Tuning};
use super::kept::Kept;
use super::rtt::{RttEstimator, jitter};
use super::window::Window;

/// Transmissions of the lowest chunk after which its slot is probed as well, to learn who is missing.
const PROBE_AFTER: u32 = 2;

/// Where a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Its next chunk belongs to no operation yet.
    Idle,
    /// Its next chunk may begin.
    Ready,
    /// A contribution waits for its result.
    InFlight,
}

/// One slot of a tree.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: SlotState,
    /// The chunk in flight, or the next one; counted per tree.
    pub(super) chunk: u64,
    /// The sequence in flight, or the last one.
    pub(super) sequence: u32,
    pub(super) tag: u32,
    /// The chunk's pass, and what its earlier ones found.
    pub(super) progress: ChunkState,
    /// Ranks have called different operations: its sequence is about which.
    pub(super) describing: bool,
    /// The last chunk that was finished.
    pub(super) kept: Kept,
    transmissions: u32,
    sent_at: Instant,
    /// When it is sent again if it was overtaken.
    overtaken_at: Instant,
    /// When it is sent again in any case.
    timeout_at: Instant,
    /// It is in the queue of slots to be sent.
    queued: bool,
}

/// What to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToSend {
    /// The slot's chunk begins: its tag is to be set before it is sent.
    Begin(u32),
    /// The slot's contribution again, or its next pass.
    Again(u32),
    /// A probe of the slot.
    Probe(u32),
}

/// The state of one stripe.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) config: TreeConfig,
    pub(super) slots: Box<[Slot]>,
    rtt: RttEstimator,
    window: Window,
    seed: u64,
    /// Chunks whose slots are free, lowest first.
    ready: BinaryHeap<Reverse<u64>>,
    /// Slots to be sent again.
    again: VecDeque<u32>,
    probe: Option<u32>,
    /// Chunks below it belong to operations.
    available: u64,
    /// Lowest unfinished chunk.
    low: u64,
    /// Whether `low`, `low + 1`, ... are finished.
    finished: VecDeque<bool>,
    in_flight: usize,
    /// No slot times out before it.
    next_timer: Option<Instant>,
    /// When the latest chunk that is known to have got through was sent.
    latest_answered: Option<Instant>,
    /// Some slot was sent twice or more.
    backed_off: bool,
    /// Some slot would be sent again if it were overtaken.
    suspects: bool,
}

impl Tree {
    pub(super) fn new(config: TreeConfig, tuning: &Tuning, now: Instant) -> Self {
        let slots = (0..config.slots)
            .map(|index| Slot {
                state: SlotState::Idle,
                chunk: u64::from(index),
                sequence: 0,
                tag: 0,
                progress: ChunkState::default(),
                describing: false,
                kept: Kept::default(),
                transmissions: 0,
                sent_at: now,
                overtaken_at: now,
                timeout_at: now,
                queued: false,
            })
            .collect();
        Self {
            slots,
            rtt: RttEstimator::new(tuning.rto),
            window: Window::new(tuning.window, config.slots as usize),
            seed: tuning.seed ^ u64::from(config.tree_id).rotate_left(48),
            ready: BinaryHeap::new(),
            again: VecDeque::new(),
            probe: None,
            available: 0,
            low: 0,
            finished: VecDeque::new(),
            in_flight: 0,
            next_timer: None,
            latest_answered: None,
            backed_off: false,
            suspects: false,
            config,
        }
    }

    /// The window.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// The round-trip estimate.
    pub(super) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// No slot times out before it.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.next_timer
    }

    /// Times the slot's contribution was sent.
    pub(super) fn transmissions(&self, slot: u32) -> u32 {
        self.slots[slot as usize].transmissions
    }

    /// The slot that serves a chunk.
    pub(super) fn slot_of(&self, chunk: u64) -> u32 {
        (chunk % u64::from(self.config.slots)) as u32
    }

    /// Lets chunks below `available` begin.
    pub(super) fn extend(&mut self, available: u64) {
        self.available = available;
        for slot in &mut self.slots {
            if slot.state == SlotState::Idle && slot.chunk < available {
                slot.state = SlotState::Ready;
                self.ready.push(Reverse(slot.chunk));
            }
        }
    }

    /// What to send next, if anything. `Begin` and `Again` count as sent at `now` once [`Tree::sent`] is told.
    pub(super) fn next_to_send(&mut self) -> Option<ToSend> {
        while let Some(index) = self.again.pop_front() {
            let slot = &mut self.slots[index as usize];
            // Its result may have come since it was queued.
            if std::mem::take(&mut slot.queued) && slot.state == SlotState::InFlight {
                if slot.transmissions >= PROBE_AFTER && slot.chunk == self.low {
                    self.probe = Some(index);
                }
                return Some(ToSend::Again(index));
            }
        }
        if let Some(index) = self.probe.take() {
            return Some(ToSend::Probe(index));
        }
        let &Reverse(chunk) = self.ready.peek()?;
        if self.in_flight >= self.window.size() && chunk != self.low {
            return None;
        }
        self.ready.pop();
        self.in_flight += 1;
        let index = self.slot_of(chunk);
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!((slot.state, slot.chunk), (SlotState::Ready, chunk));
        slot.state = SlotState::InFlight;
        slot.progress = ChunkState::default();
        slot.transmissions = 0;
        Some(ToSend::Begin(index))
    }

    /// The slot's contribution was sent.
    pub(super) fn sent(&mut self, index: u32, now: Instant) {
        let slot = &mut self.slots[index as usize];
        slot.transmissions = slot.transmissions.saturating_add(1);
        slot.sent_at = now;
        let spread = |rto| now + jitter(rto, self.seed, index, slot.sequence, slot.transmissions);
        (slot.timeout_at, slot.overtaken_at) =
            (spread(self.rtt.rto(slot.transmissions)), spread(self.rtt.overtaken_rto()));
        self.next_timer = earlier(self.next_timer, slot.timeout_at.min(slot.overtaken_at));
    }

    /// Queues every contribution that timed out.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.next_timer.is_none_or(|at| now < at) {
            return;
        }
        self.next_timer = None;
        self.suspects = false;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.state != SlotState::InFlight || slot.queued {
                continue;
            }
            // A chunk that was sent later has its result: this one was lost, here or at another rank. If nothing came back since, another
            // rank is late or the path is down: back off, and leave the window, for halving it would help neither.
            let overtaken = self.latest_answered.is_some_and(|answered| answered > slot.sent_at);
            if now < slot.timeout_at && !(overtaken && slot.overtaken_at <= now) {
                let next = if now < slot.overtaken_at { slot.overtaken_at } else { slot.timeout_at };
                self.suspects |= slot.overtaken_at <= now;
                self.next_timer = earlier(self.next_timer, next.min(slot.timeout_at));
                continue;
            }
            slot.queued = true;
            self.again.push_back(index as u32);
            self.backed_off = true;
            if overtaken {
                let round_trip = self.rtt.smoothed().unwrap_or_default();
                self.window.on_loss(slot.sent_at, now, round_trip);
            }
        }
    }

    /// The awaited result of the slot's sequence arrived.
    pub(super) fn answered(&mut self, index: u32, now: Instant) {
        let Slot { transmissions, sent_at, .. } = self.slots[index as usize];
        if transmissions == 1 {
            // Queues and slow ranks keep chunks in order. One that was overtaken has waited for some rank's repeat instead: as little a
            // round trip as if it had been repeated here.
            if self.latest_answered.is_none_or(|answered| answered <= sent_at) {
                let is_first = self.rtt.smoothed().is_none();
                self.rtt.measure(now.saturating_duration_since(sent_at));
                if is_first {
                    self.rearm();
                }
            }
            self.latest_answered = self.latest_answered.max(Some(sent_at));
            if self.suspects {
                self.next_timer = Some(now);
            }
        } else {
            self.rtt.note_ambiguous(transmissions);
        }
        if self.in_flight >= self.window.size() {
            self.window.on_result();
        }
        if std::mem::take(&mut self.backed_off) {
            self.hasten(now);
        }
    }

    /// The first measurement: what was sent before it need not wait as long as one must who knows nothing.
    fn rearm(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.state == SlotState::InFlight && slot.transmissions == 1 {
                let spread = |rto| {
                    slot.sent_at + jitter(rto, self.seed, index as u32, slot.sequence, slot.transmissions)
                };
                slot.timeout_at = slot.timeout_at.min(spread(self.rtt.rto(1)));
                slot.overtaken_at = slot.overtaken_at.min(spread(self.rtt.overtaken_rto()));
                self.next_timer = earlier(self.next_timer, slot.timeout_at.min(slot.overtaken_at));
            }
        }
    }

    /// Something got through: what was lost before need not wait for the whole of its back-off.
    fn hasten(&mut self, now: Instant) {
        let rto = self.rtt.base_rto();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.state == SlotState::InFlight && !slot.queued && slot.transmissions > 1 {
                let at = now + jitter(rto, self.seed, index as u32, slot.sequence, slot.transmissions);
                slot.timeout_at = slot.timeout_at.min(at);
                self.next_timer = earlier(self.next_timer, slot.timeout_at);
            }
        }
    }

    /// How many chunks of each slot are finished.
    pub(super) fn finished_per_slot(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().map(|slot| slot.chunk / u64::from(self.config.slots))
    }

    /// Forgets what is in flight: unfinished chunks begin anew, with their first pass, in a later generation.
    pub(super) fn stop(&mut self) {
        for slot in &mut self.slots {
            if slot.state == SlotState::InFlight {
                slot.state = SlotState::Ready;
            }
            (slot.queued, slot.describing, slot.progress) = (false, false, ChunkState::default());
        }
        self.again.clear();
        (self.probe, self.next_timer, self.in_flight) = (None, None, 0);
    }

    /// The result of the slot's chunk has come by another way; [`Tree::finish`] follows.
    pub(super) fn begin_taking_over(&mut self, index: u32) {
        self.slots[index as usize].state = SlotState::InFlight;
        self.in_flight += 1;
    }

    /// Begins a generation: every slot at its first sequence, with its first unfinished chunk.
    pub(super) fn reopen(&mut self, config: TreeConfig, tuning: &Tuning, now: Instant) {
        self.seed = tuning.seed ^ u64::from(config.tree_id).rotate_left(48);
        self.rtt = RttEstimator::new(tuning.rto);
        self.window = Window::new(tuning.window, config.slots as usize);
        self.config = config;
        self.stop();
        self.ready.clear();
        for slot in &mut self.slots {
            (slot.sequence, slot.transmissions, slot.sent_at) = (0, 0, now);
            if slot.state == SlotState::Ready {
                self.ready.push(Reverse(slot.chunk));
            }
        }
        self.latest_answered = None;
        (self.backed_off, self.suspects) = (false, false);
    }

    /// The slot's chunk goes on with another pass.
    pub(super) fn next_pass(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.transmissions = 0;
        if !std::mem::replace(&mut slot.queued, true) {
            self.again.push_back(index);
        }
    }

    /// The slot's chunk is finished: the slot is free for its next one.
    pub(super) fn finish(&mut self, index: u32) {
        let slots = u64::from(self.config.slots);
        let slot = &mut self.slots[index as usize];
        let chunk = slot.chunk;
        slot.chunk += slots;
        slot.progress = ChunkState::default();
        slot.state = SlotState::Idle;
        if slot.chunk < self.available {
            slot.state = SlotState::Ready;
            self.ready.push(Reverse(slot.chunk));
        }
        self.in_flight -= 1;
        let offset = (chunk - self.low) as usize;
        if self.finished.len() <= offset {
            self.finished.resize(offset + 1, false);
        }
        self.finished[offset] = true;
        while self.finished.front() == Some(&true) {
            self.finished.pop_front();
            self.low += 1;
        }
    }
}

fn earlier(current: Option<Instant>, at: Instant) -> Option<Instant> {
    Some(current.map_or(at, |current| current.min(at)))
}
