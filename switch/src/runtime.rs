//! A switch on a packet thread of its own. The thread owns the [`Switch`]; others send it closures, which it runs
//! between two batches of packets, so no packet ever takes a lock.

use std::sync::{Arc, mpsc};

use thiserror::Error;
use tokio::sync::oneshot;

use crate::control::DigestRecord;
use crate::program::{DigestId, Program};
use crate::switch::Switch;

/// What the packet thread is asked to do.
enum Command {
    /// Run a closure on the slot that holds the switch (`None` until a program is loaded).
    Run(Box<dyn FnOnce(&mut Option<Switch>) + Send>),
    /// Process a frame as if it had come in by this port.
    Inject(u16, Vec<u8>),
    /// End the thread.
    Stop,
}

/// What the switch tells the control plane, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A frame left by the CPU port: headers of `packet_in` first.
    PacketIn(Vec<u8>),
    /// A digest message.
    Digest(DigestId, DigestRecord),
}

/// Error of an operation on a running switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RuntimeError {
    /// The packet thread has ended.
    #[error("the switch has stopped")]
    Stopped,
    /// No program was loaded yet.
    #[error("no forwarding pipeline is set")]
    NoProgram,
}

/// Talks to a running switch; cheap to clone.
#[derive(Debug, Clone)]
pub struct SwitchHandle {
    commands: mpsc::Sender<Command>,
    wake: Arc<dyn Wake>,
    epoch: std::time::Instant,
    device_id: u64,
    cpu_port: u16,
}

/// Interrupts the packet thread's wait for packets.
pub(crate) trait Wake: Send + Sync + std::fmt::Debug {
    fn wake(&self);
}

impl SwitchHandle {
    /// P4Runtime device id.
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    /// The switch's clock, in microseconds, as packets get it.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Port of packet-in and packet-out.
    pub fn cpu_port(&self) -> u16 {
        self.cpu_port
    }

    /// Runs a closure on the switch between two batches of packets and returns its result.
    /// Whole requests belong in one closure: it is atomic towards packets.
    pub async fn with<R, F>(&self, f: F) -> Result<R, RuntimeError>
    where
        F: FnOnce(&mut Switch) -> R + Send + 'static,
        R: Send + 'static,
    {
        let (tx, rx) = oneshot::channel();
        self.command(Command::Run(Box::new(move |slot| {
            // The receiver may have gone (a cancelled call): nobody wants the result then.
            let _ = tx.send(slot.as_mut().map(f).ok_or(RuntimeError::NoProgram));
        })))?;
        rx.await.map_err(|_| RuntimeError::Stopped)?
    }

    /// [`Self::with`] for callers outside an async runtime.
    pub fn with_blocking<R, F>(&self, f: F) -> Result<R, RuntimeError>
    where
        F: FnOnce(&mut Switch) -> R + Send + 'static,
        R: Send + 'static,
    {
        let (tx, rx) = mpsc::channel();
        self.command(Command::Run(Box::new(move |slot| {
            let _ = tx.send(slot.as_mut().map(f).ok_or(RuntimeError::NoProgram));
        })))?;
        rx.recv().map_err(|_| RuntimeError::Stopped)?
    }

    /// Sets the program. All state of an earlier one goes. Returns once packets meet the new program.
    pub async fn load(&self, program: Arc<Program>) -> Result<(), RuntimeError> {
        let _ = program;
        unimplemented!("being written")
    }

    /// Processes a frame as if it had come in by this port (packet-out: the CPU port, headers of `packet_out` first).
    pub fn inject(&self, port: u16, frame: Vec<u8>) -> Result<(), RuntimeError> {
        self.command(Command::Inject(port, frame))
    }

    /// Ends the packet thread after the commands sent so far.
    pub fn stop(&self) -> Result<(), RuntimeError> {
        self.command(Command::Stop)
    }

    fn command(&self, command: Command) -> Result<(), RuntimeError> {
        self.commands.send(command).map_err(|_| RuntimeError::Stopped)?;
        self.wake.wake();
        Ok(())
    }
}
