//! An allreduce under way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::protocol::Tensor;
use crate::transport::{AllreduceError, CallResult, Engine, block_on};

/// An allreduce that was started. Wait for it with [`AllreduceHandle::wait`] or by awaiting it on any runtime.
///
/// Dropping the handle lets the operation go on; its result is lost.
#[derive(Debug)]
pub struct AllreduceHandle {
    token: u64,
    done: oneshot::Receiver<CallResult>,
    driver: Engine,
}

impl AllreduceHandle {
    pub(super) fn new(token: u64, done: oneshot::Receiver<CallResult>, driver: Engine) -> Self {
        Self { token, done, driver }
    }

    /// Blocks until the operation has ended; the tensor holds the reduction.
    pub fn wait(self) -> Result<Tensor, AllreduceError> {
        block_on(self)
    }

    /// Gives the operation up. The other ranks can't finish it either, so this ends the generation for all of them.
    pub fn cancel(&self) {
        self.driver.cancel(self.token);
    }
}

impl Future for AllreduceHandle {
    type Output = Result<Tensor, AllreduceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.done).poll(context).map(|told| match told {
            Ok((Some(tensor), Ok(()))) => Ok(tensor),
            Ok((_, Err(error))) => Err(error),
            // A call that brought a tensor along gets one back; a dropped sender means that the driver is gone.
            Ok((None, Ok(()))) | Err(_) => Err(self.driver.gone()),
        })
    }
}
