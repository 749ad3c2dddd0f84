//! What moves a job's tensors: reduction trees in the switches, or a ring of the hosts.

use std::net::SocketAddr;
use std::sync::Arc;

use super::call::{Call, CollectiveError};
use super::driver::DriverHandle;
use crate::protocol::{
    Account, ChangeError, Closed, KeptChunk, NextGeneration, OperationSpec, Part, Stalled, Stats,
};
use crate::ring::driver::RingHandle;

/// A handle on the thread that does it; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    /// Trees.
    Tree(DriverHandle),
    /// A ring. It has one generation: nothing of it can be handed over or gone on with.
    Ring(RingHandle),
}

impl Engine {
    /// Hands a call over; its end is told through the call itself, also when the thread is gone.
    pub(crate) fn start(&self, spec: OperationSpec, call: Call) {
        match self {
            Self::Tree(driver) => driver.start(spec, call),
            Self::Ring(ring) => ring.start(spec, call),
        }
    }

    /// Gives up the call with this token.
    pub(crate) fn cancel(&self, token: u64) {
        match self {
            Self::Tree(driver) => driver.cancel(token),
            Self::Ring(ring) => ring.cancel(token),
        }
    }

    /// Ends the generation, after taking over what others had finished.
    pub(crate) fn close(&self, closed: Closed, copies: Vec<KeptChunk>) {
        match self {
            Self::Tree(driver) => driver.close(closed, copies),
            Self::Ring(ring) => ring.close(closed),
        }
    }

    /// Stops the generation; tells what is finished, `None` if it is closed or can't be gone on with.
    pub(crate) async fn suspend(&self, reason: String) -> Option<Vec<Vec<u64>>> {
        match self {
            Self::Tree(driver) => driver.suspend(reason).await,
            Self::Ring(_) => None,
        }
    }

    /// What is kept of slots, given as tree and slot.
    pub(crate) async fn kept(&self, slots: Vec<(usize, u32)>) -> Vec<KeptChunk> {
        match self {
            Self::Tree(driver) => driver.kept(slots).await,
            Self::Ring(_) => Vec::new(),
        }
    }

    /// Goes on in a later generation.
    pub(crate) async fn resume(
        &self,
        next: NextGeneration,
        trees: Vec<SocketAddr>,
        copies: Vec<KeptChunk>,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Tree(driver) => driver.resume(next, trees, copies).await,
            Self::Ring(_) => Ok(()),
        }
    }

    /// What does not finish, if anything; a ring tells by its deadline only.
    pub(crate) async fn stalled(&self) -> Option<Stalled> {
        match self {
            Self::Tree(driver) => driver.stalled().await,
            Self::Ring(_) => None,
        }
    }

    /// Whom the group waits for.
    pub(crate) fn note_missing(&self, ranks: Vec<u32>) {
        match self {
            Self::Tree(driver) => driver.note_missing(ranks),
            Self::Ring(_) => {}
        }
    }

    /// What the operation that succeeded last holds; nothing is told of a ring, which holds all or fails.
    pub(crate) fn parts(&self) -> Vec<Part> {
        match self {
            Self::Tree(driver) => driver.parts(),
            Self::Ring(_) => Vec::new(),
        }
    }

    /// Ends the generation because the caller leaves; tells what was done.
    pub(crate) async fn retire(&self) -> Account {
        match self {
            Self::Tree(driver) => driver.retire().await,
            // What others still need of it leaves before its thread ends.
            Self::Ring(_) => Account::default(),
        }
    }

    /// Ends the thread; calls that are under way fail.
    pub(crate) fn stop(&self) {
        match self {
            Self::Tree(driver) => driver.stop(),
            Self::Ring(ring) => ring.stop(),
        }
    }

    /// Counters, and how many sends the kernel refused.
    pub(crate) fn stats(&self) -> (Stats, u64) {
        match self {
            Self::Tree(driver) => driver.stats(),
            Self::Ring(ring) => (ring.stats(), 0),
        }
    }

    /// Why the generation has ended, if it has.
    pub(crate) fn closed(&self) -> Option<Closed> {
        match self {
            Self::Tree(driver) => driver.closed(),
            Self::Ring(ring) => ring.closed(),
        }
    }

    /// The generation, and the ranks of the group in it.
    pub(crate) fn membership(&self) -> (u32, Arc<[u32]>) {
        match self {
            Self::Tree(driver) => driver.membership(),
            Self::Ring(ring) => ring.membership(),
        }
    }

    /// The error of a call that the thread can't take or has dropped.
    pub(crate) fn gone(&self) -> CollectiveError {
        match self {
            Self::Tree(driver) => driver.gone(),
            Self::Ring(ring) => ring.gone(),
        }
    }
}
