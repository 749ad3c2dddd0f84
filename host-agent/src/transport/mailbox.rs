//! The way to a thread that waits in a poll.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::Waker;

use super::call::CollectiveError;
use crate::protocol::Closed;

/// Hands commands to a job's thread and wakes it; cheap to clone.
#[derive(Debug)]
pub(crate) struct Mailbox<C> {
    job: Arc<str>,
    commands: Sender<C>,
    waker: Arc<Waker>,
}

impl<C> Clone for Mailbox<C> {
    fn clone(&self) -> Self {
        Self { job: self.job.clone(), commands: self.commands.clone(), waker: self.waker.clone() }
    }
}

impl<C> Mailbox<C> {
    /// For the thread that owns the waker's poll and the receiver.
    pub(crate) fn new(job: Arc<str>, waker: Waker) -> (Self, Receiver<C>) {
        let (commands, receiver) = channel();
        (Self { job, commands, waker: Arc::new(waker) }, receiver)
    }

    /// Hands the command over, or gives it back if the thread is gone.
    pub(crate) fn send(&self, command: C) -> Result<(), C> {
        self.commands.send(command).map_err(|error| error.0)?;
        if let Err(error) = self.waker.wake() {
            tracing::warn!(job = %self.job, %error, "waking the thread of the job");
        }
        Ok(())
    }

    /// Hands over what a thread that is gone need not do any more.
    pub(crate) fn tell(&self, command: C) {
        // Given back: there is nothing left to do.
        let _ = self.send(command);
    }

    /// The error of a call that the thread can't take or has dropped.
    pub(crate) fn gone(&self, closed: Option<Closed>) -> CollectiveError {
        CollectiveError::DriverGone { job: self.job.to_string(), reason: closed.map(|closed| closed.reason) }
    }
}
