//! A switch on packet threads of its own. Each owns a part of the [`Switch`], ports that it receives from, and all packets of some
//! values of the field that packets are ordered by; a frame that belongs to another thread is handed over, with others of its batch.
//! Threads share nothing that packets write, so no packet ever takes a lock.
//!
//! The control plane changes rules (tables, action profiles, value sets, groups, sessions) beside the packet path and hands the threads
//! a snapshot; whatever packets write too (registers, counters, meters) it gets at by a closure that the first thread runs between two
//! batches, while the others wait.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use thiserror::Error;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc as async_mpsc, oneshot};

use crate::control::DigestRecord;
use crate::ports::{Loss, PortError, PortSpec, PortStats, check};
use crate::program::{DigestId, Program};
use crate::switch::{Switch, SwitchConfig};

mod mailbox;
#[cfg(test)]
mod tests;
mod transmit;
mod worker;

use mailbox::{Command, Mailbox};

/// Packet-ins and digests that wait for the control plane; what is beyond is dropped and counted.
const EVENT_ROOM: usize = 4096;

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
    /// Frames dropped because the thread that they belong to was behind.
    pub handed_dropped: u64,
}

impl Stats {
    fn add(&mut self, other: &Self) {
        if self.ports.is_empty() {
            self.ports = other.ports.iter().map(|(port, _)| (*port, PortStats::default())).collect();
        }
        for ((_, sum), (_, stats)) in self.ports.iter_mut().zip(&other.ports) {
            *sum = sum.plus(*stats);
        }
        self.events_dropped += other.events_dropped;
        self.unknown_port += other.unknown_port;
        self.no_program += other.no_program;
        self.handed_dropped += other.handed_dropped;
    }
}

/// Most packet threads of a switch.
pub const MAX_THREADS: usize = 64;

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
    /// The packet threads have ended.
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
    /// A number of threads that can't be.
    #[error("{threads} packet threads given; valid are 1 to {MAX_THREADS}")]
    Threads {
        /// What was given.
        threads: usize,
    },
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

/// Opens the ports and starts the packet threads. Without a program, frames are dropped until one is loaded.
///
/// # Errors
/// Ports that do not exist or may not be opened; no threads, or too many.
pub fn start(
    config: SwitchConfig,
    ports: &[PortSpec],
    loss: &Loss,
    program: Option<Arc<Program>>,
) -> Result<Running, StartError> {
    check(ports, config.cpu_port, loss)?;
    let threads = config.threads;
    if !(1..=MAX_THREADS).contains(&threads) {
        return Err(StartError::Threads { threads });
    }
    let (event_sender, events) = async_mpsc::channel(EVENT_ROOM);
    let epoch = std::time::Instant::now();
    let (mailboxes, workers) = worker::open(epoch, &config, ports, loss, program.as_ref(), &event_sender)?;
    let mut others = Vec::new();
    let mut first = None;
    for (index, worker) in workers.into_iter().enumerate().rev() {
        let name = format!("switch-{}-{index}", config.device_id);
        let others =
            std::mem::take(&mut others).into_iter().chain(first.take()).collect::<Vec<JoinHandle<()>>>();
        first = Some(std::thread::Builder::new().name(name).spawn(move || {
            worker.run();
            others.into_iter().for_each(|thread| drop(thread.join()));
        })?);
    }
    let master = program.map(|program| Switch::rules_only(program, config.clone()));
    let handle = SwitchHandle {
        threads: mailboxes.into(),
        master: Arc::new(Mutex::new(master)),
        config: Arc::new(config),
        epoch,
    };
    let thread = first.ok_or(StartError::Threads { threads })?;
    Ok(Running { handle, events, thread })
}

/// Talks to a running switch; cheap to clone.
#[derive(Debug, Clone)]
pub struct SwitchHandle {
    /// One for each packet thread.
    threads: Arc<[Mailbox]>,
    /// The rules as the control plane has them (`None` until a program is loaded). Who changes a switch holds it until the packet
    /// threads have the change.
    master: Arc<Mutex<Option<Switch>>>,
    config: Arc<SwitchConfig>,
    epoch: std::time::Instant,
}

impl SwitchHandle {
    /// P4Runtime device id.
    pub fn device_id(&self) -> u64 {
        self.config.device_id
    }

    /// Port of packet-in and packet-out.
    pub fn cpu_port(&self) -> u16 {
        self.config.cpu_port
    }

    /// The switch's clock, in microseconds, as packets get it.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Changes rules (tables, action profiles, value sets, groups, sessions) beside the packet path: the closure runs here, on a
    /// switch that has nothing but rules, and then all packet threads take the result at once, each between two batches. Returns when
    /// they have it. What packets write too reads empty here: [`Self::with`] has it.
    ///
    /// # Errors
    /// The switch has stopped, or has no program.
    pub async fn with_rules<R>(&self, f: impl FnOnce(&mut Switch) -> R) -> Result<R, RuntimeError> {
        let mut master = self.master.lock().await;
        let switch = master.as_mut().ok_or(RuntimeError::NoProgram)?;
        let before = Arc::clone(&switch.machine.rules);
        switch.set_clock(self.now_us());
        let result = f(switch);
        if !Arc::ptr_eq(&before, &switch.machine.rules) {
            let mut taken = Vec::with_capacity(self.threads.len());
            for thread in &*self.threads {
                let (tx, rx) = oneshot::channel();
                thread.tell(Command::Rules(Arc::clone(&switch.machine.rules), tx))?;
                taken.push(rx);
            }
            for taken in taken {
                taken.await.map_err(|_| RuntimeError::Stopped)?;
            }
        }
        Ok(result)
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
        let master = Arc::clone(&self.master).lock_owned().await;
        let (tx, rx) = oneshot::channel();
        // The receiver may have gone (a cancelled call): nobody wants the result then.
        self.run(master, f, move |result| drop(tx.send(result)))?;
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
        let master = Arc::clone(&self.master).blocking_lock_owned();
        let (tx, rx) = mpsc::channel();
        self.run(master, f, move |result| drop(tx.send(result)))?;
        rx.recv().map_err(|_| RuntimeError::Stopped)?
    }

    fn run<R>(
        &self,
        mut master: OwnedMutexGuard<Option<Switch>>,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
        tell: impl FnOnce(Result<R, RuntimeError>) + Send + 'static,
    ) -> Result<(), RuntimeError> {
        self.threads[0].tell(Command::Run(Box::new(move |slot| {
            let result = slot.as_mut().map(f).ok_or(RuntimeError::NoProgram);
            if let (Some(switch), Some(master)) = (slot, &mut *master) {
                master.machine.rules = Arc::clone(&switch.machine.rules);
            }
            drop(master);
            tell(result);
        })))
    }

    /// Sets the program. All state of an earlier one goes. Returns once packets meet the new program.
    ///
    /// # Errors
    /// The switch has stopped.
    pub async fn load(&self, program: Arc<Program>) -> Result<(), RuntimeError> {
        let mut master = Arc::clone(&self.master).lock_owned().await;
        let (tx, rx) = oneshot::channel();
        // Made here: the packet threads should not wait for megabytes of registers.
        let mut parts = Switch::parts(&program, &self.config).into_iter();
        let mut fresh = parts.next().ok_or(RuntimeError::NoProgram)?;
        fresh.peers = parts.collect();
        let mut rules = Switch::rules_only(program, (*self.config).clone());
        rules.machine.rules = Arc::clone(&fresh.machine.rules);
        self.threads[0].tell(Command::Run(Box::new(move |slot| {
            if let Some(old) = slot {
                fresh.set_clock(old.now_us);
            }
            *slot = Some(fresh);
            *master = Some(rules);
            drop(master);
            let _ = tx.send(());
        })))?;
        rx.await.map_err(|_| RuntimeError::Stopped)
    }

    /// Counters of ports and events.
    ///
    /// # Errors
    /// The switch has stopped.
    pub async fn stats(&self) -> Result<Stats, RuntimeError> {
        let mut sum = Stats::default();
        for thread in &*self.threads {
            let (tx, rx) = oneshot::channel();
            thread.tell(Command::Stats(Box::new(move |stats| drop(tx.send(stats)))))?;
            sum.add(&rx.await.map_err(|_| RuntimeError::Stopped)?);
        }
        Ok(sum)
    }

    /// Processes a frame as if it had come in by this port (packet-out: the CPU port, headers of `packet_out` first).
    ///
    /// # Errors
    /// The switch has stopped.
    pub fn inject(&self, port: u16, frame: Vec<u8>) -> Result<(), RuntimeError> {
        self.threads[0].tell(Command::Inject(port, frame))
    }

    /// Ends the packet threads after the commands sent so far.
    ///
    /// # Errors
    /// The switch has stopped already.
    pub fn stop(&self) -> Result<(), RuntimeError> {
        // The first one ends the others: it may be waiting for their parts.
        self.threads[0].tell(Command::Stop)
    }
}
