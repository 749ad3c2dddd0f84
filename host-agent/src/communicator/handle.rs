//! Operations under way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::protocol::Tensor;
use crate::transport::{CollectiveError, Ended, Engine, Keeper, block_on, block_until};

/// An operation that was started on a tensor of its own. Wait for it with [`OperationHandle::wait`] or by awaiting it on any runtime.
///
/// Dropping the handle lets the operation go on; its result is lost.
#[derive(Debug)]
pub struct OperationHandle {
    call: Started,
}

impl OperationHandle {
    pub(super) fn new(token: u64, done: oneshot::Receiver<Ended>, driver: Engine) -> Self {
        Self { call: Started { token, done, driver } }
    }

    /// Blocks until the operation has ended; the tensor holds the result.
    pub fn wait(self) -> Result<Tensor, CollectiveError> {
        block_on(self)
    }

    /// Gives the operation up. The other ranks can't finish it either, so this ends the generation for all of them.
    pub fn cancel(&self) {
        self.call.driver.cancel(self.call.token);
    }
}

impl Future for OperationHandle {
    type Output = Result<Tensor, CollectiveError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.call).poll(context).map(|ended| match ended {
            Ended { result: Err(error), .. } => Err(error),
            Ended { tensor: Some(tensor), .. } => Ok(tensor),
            // A call that brought a tensor along gets one back.
            Ended { .. } => Err(self.call.driver.gone()),
        })
    }
}

/// An operation that was started on memory of the caller, see [`super::Communicator::start_raw`].
///
/// Dropping the handle lets the operation go on; its memory is kept until it has ended.
#[derive(Debug)]
pub struct RawHandle {
    call: Started,
}

impl RawHandle {
    pub(super) fn new(token: u64, done: oneshot::Receiver<Ended>, driver: Engine) -> Self {
        Self { call: Started { token, done, driver } }
    }

    /// Blocks until the operation has ended or the time has come: `None`. When it has ended, the memory is not used any more; what kept
    /// it alive is given back. Must not be called again after that.
    pub fn wait_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Option<(Result<(), CollectiveError>, Option<Keeper>)> {
        let ended = block_until(Pin::new(&mut self.call), deadline)?;
        Some((ended.result, ended.keeper))
    }

    /// What gives the operation up while another thread waits for it.
    pub fn canceller(&self) -> Canceller {
        Canceller { token: self.call.token, driver: self.call.driver.clone() }
    }
}

/// Gives an operation up.
#[derive(Debug, Clone)]
pub struct Canceller {
    token: u64,
    driver: Engine,
}

impl Canceller {
    /// Gives it up, if it has not ended. The other ranks can't finish it either, so this ends the generation for all of them.
    pub fn cancel(&self) {
        self.driver.cancel(self.token);
    }
}

/// A call, and where its end is told.
#[derive(Debug)]
struct Started {
    token: u64,
    done: oneshot::Receiver<Ended>,
    driver: Engine,
}

impl Future for Started {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        // A dropped sender means that the driver is gone.
        let gone = |driver: &Engine| Ended { result: Err(driver.gone()), tensor: None, keeper: None };
        Pin::new(&mut self.done).poll(context).map(|told| told.unwrap_or_else(|_| gone(&self.driver)))
    }
}
