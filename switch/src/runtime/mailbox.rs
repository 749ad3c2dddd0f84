//! What packet threads are told by the control plane, and by each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use mio::Waker;
use tokio::sync::oneshot;

use super::{RuntimeError, Stats};
use crate::exec::rules::Rules;
use crate::switch::Switch;

/// Something to do with the slot that holds the switch.
pub(super) type Operation = dyn FnOnce(&mut Option<Switch>) + Send;

/// What a packet thread is asked to do, between two batches.
pub(super) enum Command {
    /// First thread: run a closure on the slot that holds the switch (`None` until a program is loaded), with the parts of all
    /// threads.
    Run(Box<Operation>),
    /// Other threads: lend the part of the switch, and wait for it.
    Lend { lent: mpsc::Sender<Option<Switch>>, back: mpsc::Receiver<Option<Switch>> },
    /// From now on these rules hold.
    Rules(Arc<Rules>, oneshot::Sender<()>),
    /// Say the counters.
    Stats(Box<dyn FnOnce(Stats) + Send>),
    /// Process a frame as if it had come in by this port.
    Inject(u16, Vec<u8>),
    /// Process frames that another thread received.
    Frames(Frames),
    /// End the thread.
    Stop,
}

/// Frames that one thread hands over to another.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// Port of each, and where it ends.
    frames: Vec<(u16, usize)>,
}

impl Frames {
    pub(super) fn push(&mut self, port: u16, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.frames.push((port, self.bytes.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Ports and frames, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut start = 0;
        self.frames.iter().map(move |(port, end)| {
            let frame = &self.bytes[start..*end];
            start = *end;
            (*port, frame)
        })
    }
}

/// Frames that may wait for a thread; what is beyond is dropped and counted, as on a full port.
const WAITING: usize = 32 * 1024;

/// Way to a packet thread; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Mailbox {
    commands: mpsc::Sender<Command>,
    waker: Arc<Waker>,
    /// Frames handed over and not processed yet.
    waiting: Arc<AtomicUsize>,
}

impl Mailbox {
    pub(super) fn new(waker: Waker) -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel();
        (Self { commands, waker: Arc::new(waker), waiting: Arc::default() }, receiver)
    }

    pub(super) fn tell(&self, command: Command) -> Result<(), RuntimeError> {
        self.commands.send(command).map_err(|_| RuntimeError::Stopped)?;
        self.waker.wake().map_err(|_| RuntimeError::Stopped)
    }

    /// Hands frames over. Returns how many were dropped.
    pub(super) fn hand_over(&self, frames: Frames) -> u64 {
        let count = frames.len();
        if self.waiting.fetch_add(count, Ordering::Relaxed) + count > WAITING
            || self.tell(Command::Frames(frames)).is_err()
        {
            self.took(count);
            return count as u64;
        }
        0
    }

    /// So many frames wait no more.
    pub(super) fn took(&self, frames: usize) {
        self.waiting.fetch_sub(frames, Ordering::Relaxed);
    }
}
