//! How operations end before they are done.

use std::time::Instant;

use super::super::error::{Closed, MissingRanks, OperationError, Stall, Stalled};
use super::super::operation::{OperationId, OperationText};
use super::super::tensor::TensorBuffer;
use super::super::tree::SlotState;
use super::{Active, Endpoint, Entry, ProbeAnswer};

impl<B: TensorBuffer> Endpoint<B> {
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
                let ended = OperationError::Closed { job, operation, closed: closed.clone() };
                let error = self.mismatch(operation, &closed.reason).unwrap_or(ended);
                self.complete(active, Err(error));
            }
        }
        self.next_deadline = None;
        self.closed = Some(closed);
    }

    /// Fails operations whose deadline has passed, and the generation with them.
    pub(super) fn expire(&mut self, now: Instant) {
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
            expired.get_or_insert_with(|| Closed {
                reason: format!("{operation} exceeded its deadline; chunk {chunk} {stall}"),
                missing_ranks: match &stall {
                    Stall::Waiting { missing, .. } => missing.certain.clone(),
                    _ => Vec::new(),
                },
            });
            let late = OperationError::DeadlineExceeded { job, operation, finished, chunks, chunk, stall };
            let error = self.mismatch(operation, "the others did not tell what they called").unwrap_or(late);
            self.complete(active, Err(error));
        }
        match expired {
            Some(closed) => self.close(closed),
            None => {
                let deadlines =
                    self.operations.iter().filter_map(|entry| entry.operation.as_ref()?.spec.deadline);
                self.next_deadline = deadlines.min();
            }
        }
    }

    /// Fails an operation, and the generation with it.
    pub(super) fn fail(&mut self, index: usize, error: impl FnOnce(String, OperationText) -> OperationError) {
        let Some(active) = self.operations[index].operation.take() else { return };
        let error = error(self.config.job.clone(), active.text);
        let closed = Closed { reason: error.to_string(), missing_ranks: Vec::new() };
        self.complete(active, Err(error));
        self.close(closed);
    }

    /// The lowest chunk in flight, if it was sent more than once.
    pub fn stalled(&self) -> Option<Stalled> {
        if self.closed.is_some() || self.stopped.is_some() {
            return None;
        }
        let stripes = self.trees.len() as u64;
        let entry = self.operations.iter().find(|entry| entry.operation.is_some())?;
        let (chunk, stall) = self.first_unfinished(entry);
        let chunk = entry.first_chunk + u64::from(chunk);
        let tree = &self.trees[(chunk % stripes) as usize];
        let transmissions = tree.transmissions(tree.slot_of(chunk / stripes));
        let missing = match stall {
            Stall::Waiting { missing, .. } => missing.certain,
            // Its leaf does not hear it: it is the one that the others wait for.
            Stall::Silent { .. } => vec![tree.config.member.into()],
            _ => return None,
        };
        (transmissions > 1).then_some(Stalled { chunk, transmissions, missing })
    }

    /// Whom the group waits for, as the controller has found out; true as long as the same chunk does not finish.
    pub fn note_missing(&mut self, ranks: Vec<u32>) {
        self.missing = self.stalled().map(|stalled| (stalled.chunk, ranks));
    }

    /// An operation's first unfinished chunk, and what is known of it.
    pub(super) fn first_unfinished(&self, entry: &Entry<B>) -> (u32, Stall) {
        let stripes = self.trees.len() as u64;
        let end = entry.first_chunk + u64::from(entry.chunks);
        let lowest = (self.trees.iter().zip(0u64..))
            .flat_map(|(tree, index)| tree.slots.iter().map(move |slot| slot.chunk * stripes + index))
            .filter(|chunk| (entry.first_chunk..end).contains(chunk))
            .min();
        let Some(chunk) = lowest else {
            // All its slots are still busy with earlier operations.
            let stopped = self.stopped.clone().map(|reason| Stall::Stopped { reason });
            return (0, stopped.unwrap_or(Stall::NotSent));
        };
        let tree_index = (chunk % stripes) as usize;
        let tree = &self.trees[tree_index];
        let slot_index = tree.slot_of(chunk / stripes);
        let slot = &tree.slots[slot_index as usize];
        let answer = self.probed.filter(|answer| {
            (answer.tree, answer.slot, answer.sequence) == (tree_index, slot_index, slot.sequence)
        });
        let stall = match answer {
            _ if self.stopped.is_some() => {
                Stall::Stopped { reason: self.stopped.clone().unwrap_or_default() }
            }
            _ if slot.state != SlotState::InFlight => Stall::NotSent,
            Some(ProbeAnswer { contributions, children, .. }) => {
                let mut missing =
                    MissingRanks::of(&tree.config.leaf_children, children, self.config.world_size);
                if let Some((of, ranks)) = &self.missing
                    && *of == chunk
                {
                    missing = MissingRanks { certain: ranks.clone(), some_of: Vec::new() };
                }
                let missing = Box::new(missing);
                Stall::Waiting { contributions, world_size: self.config.world_size, children, missing }
            }
            None => Stall::Silent {
                transmissions: tree.transmissions(slot_index),
                leaf: tree.config.leaf.clone(),
            },
        };
        ((chunk - entry.first_chunk) as u32, stall)
    }
}
