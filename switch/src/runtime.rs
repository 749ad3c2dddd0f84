//! A switch on a packet thread of its own. The thread owns the [`Switch`]; others send it closures, which it runs
//! between two batches of packets, so no packet ever takes a lock.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use mio::Waker;
use thiserror::Error;
use tokio::sync::{mpsc as async_mpsc, oneshot};

use crate::control::DigestRecord;
use crate::ports::{Loss, PortError, PortSpec, PortStats, check};
use crate::program::{DigestId, Program};
use crate::switch::{Switch, SwitchConfig};

#[cfg(test)]
mod tests;
mod worker;

use worker::Worker;

/// Packet-ins and digests that wait for the control plane; what is beyond is dropped and counted.
const EVENT_ROOM: usize = 4096;

/// Something to do with the slot that holds the switch.
type Operation = dyn FnOnce(&mut Option<Switch>) + Send;

/// What the packet thread is asked to do.
enum Command {
    /// Run a closure on the slot that holds the switch (`None` until a program is loaded).
    Run(Box<Operation>),
    /// Run a closure on the counters of the ports.
    Stats(Box<dyn FnOnce(Stats) + Send>),
    /// Process a frame as if it had come in by this port.
    Inject(u16, Vec<u8>),
    /// End the thread.
    Stop,
}

/// Counters of a running switch.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Ports in order of their numbers.
    pub ports: Vec<(u16, PortStats)>,
    /// Packet-ins and digests dropped because the control plane did not take them.
    pub events_dropped: u64,
    /// Frames sent to a port that does not exist.
    pub unknown_port: u64,
    /// Frames received while no program was loaded.
    pub no_program: u64,
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

/// Why a switch could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// A port can't be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The system refuses a thread, or the means to wait for packets.
    #[error("can't start the packet thread: {0}")]
    System(#[from] std::io::Error),
}

/// A running switch.
#[derive(Debug)]
pub struct Running {
    /// Talks to it.
    pub handle: SwitchHandle,
    /// What it tells the control plane.
    pub events: async_mpsc::Receiver<Event>,
    /// Ends after [`SwitchHandle::stop`].
    pub thread: JoinHandle<()>,
}

/// Opens the ports and starts the packet thread. Without a program, frames are dropped until one is loaded.
///
/// # Errors
/// Ports that do not exist or may not be opened; no thread.
pub fn start(
    config: SwitchConfig,
    ports: &[PortSpec],
    loss: &Loss,
    program: Option<Arc<Program>>,
) -> Result<Running, StartError> {
    check(ports, config.cpu_port, loss)?;
    let (commands, receiver) = mpsc::channel();
    let (event_sender, events) = async_mpsc::channel(EVENT_ROOM);
    let (device_id, cpu_port) = (config.device_id, config.cpu_port);
    let epoch = std::time::Instant::now();
    let (worker, waker) = Worker::new(epoch, config.clone(), ports, loss, program, receiver, event_sender)?;
    let thread =
        std::thread::Builder::new().name(format!("switch-{device_id}")).spawn(move || worker.run())?;
    let handle = SwitchHandle {
        commands,
        waker: Arc::new(waker),
        device_id,
        cpu_port,
        config: Arc::new(config),
        epoch,
    };
    Ok(Running { handle, events, thread })
}

/// Talks to a running switch; cheap to clone.
#[derive(Debug, Clone)]
pub struct SwitchHandle {
    commands: mpsc::Sender<Command>,
    waker: Arc<Waker>,
    device_id: u64,
    cpu_port: u16,
    config: Arc<SwitchConfig>,
    epoch: std::time::Instant,
}

impl SwitchHandle {
    /// P4Runtime device id.
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    /// Port of packet-in and packet-out.
    pub fn cpu_port(&self) -> u16 {
        self.cpu_port
    }

    /// The switch's clock, in microseconds, as packets get it.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Runs a closure on the switch between two batches of packets and returns its result.
    /// Whole requests belong in one closure: it is atomic towards packets.
    ///
    /// # Errors
    /// The switch has stopped, or has no program.
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
    ///
    /// # Errors
    /// The switch has stopped, or has no program.
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
    ///
    /// # Errors
    /// The switch has stopped.
    pub async fn load(&self, program: Arc<Program>) -> Result<(), RuntimeError> {
        let (tx, rx) = oneshot::channel();
        let config = Arc::clone(&self.config);
        // Made here: the packet thread should not wait for megabytes of registers.
        let mut fresh = Switch::new(program, (*config).clone());
        self.command(Command::Run(Box::new(move |slot| {
            if let Some(old) = slot {
                fresh.set_clock(old.now_us);
            }
            *slot = Some(fresh);
            let _ = tx.send(());
        })))?;
        rx.await.map_err(|_| RuntimeError::Stopped)
    }

    /// Counters of ports and events.
    ///
    /// # Errors
    /// The switch has stopped.
    pub async fn stats(&self) -> Result<Stats, RuntimeError> {
        let (tx, rx) = oneshot::channel();
        self.command(Command::Stats(Box::new(move |stats| drop(tx.send(stats)))))?;
        rx.await.map_err(|_| RuntimeError::Stopped)
    }

    /// Processes a frame as if it had come in by this port (packet-out: the CPU port, headers of `packet_out` first).
    ///
    /// # Errors
    /// The switch has stopped.
    pub fn inject(&self, port: u16, frame: Vec<u8>) -> Result<(), RuntimeError> {
        self.command(Command::Inject(port, frame))
    }

    /// Ends the packet thread after the commands sent so far.
    ///
    /// # Errors
    /// The switch has stopped already.
    pub fn stop(&self) -> Result<(), RuntimeError> {
        self.command(Command::Stop)
    }

    fn command(&self, command: Command) -> Result<(), RuntimeError> {
        self.commands.send(command).map_err(|_| RuntimeError::Stopped)?;
        self.waker.wake().map_err(|_| RuntimeError::Stopped)
    }
}
