//! Ports on network interfaces: packet sockets read and written in batches, with seeded loss on demand.

mod loss;
mod offload;
mod ring;
mod socket;

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use thiserror::Error;

pub(crate) use loss::Dice;
pub use loss::{Direction, Loss, LossError, LossRule};
pub use socket::{PacketSocket, RxBatch};

/// A port and the interface behind it, as on BMv2's command line: `1@eth1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// Port number, 0 to 510.
    pub port: u16,
    /// Interface name.
    pub interface: String,
    /// How frames come in.
    pub receive: Receive,
}

/// How frames come from the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Receive {
    /// In a ring in shared memory, 2 to 4 MiB a port; by calls where the system has none to give.
    #[default]
    Ring,
    /// Read in batches with a system call each.
    Calls,
}

impl std::str::FromStr for Receive {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, PortError> {
        match text {
            "ring" => Ok(Self::Ring),
            "calls" => Ok(Self::Calls),
            _ => Err(PortError::Receive { given: text.to_owned() }),
        }
    }
}

/// Why a port can't be used.
#[derive(Debug, Error)]
pub enum PortError {
    /// Not of the form `PORT@INTERFACE`.
    #[error("port {given:?}: expected PORT@INTERFACE with a port from 0 to 510, as in 1@eth1")]
    Form {
        /// What was given.
        given: String,
    },
    /// No way to receive frames.
    #[error("receive {given:?}: valid are ring and calls")]
    Receive {
        /// What was given.
        given: String,
    },
    /// The same port or interface twice.
    #[error("port {port}@{interface}: {what} is given twice")]
    Twice {
        /// Port number.
        port: u16,
        /// Interface name.
        interface: String,
        /// `the port` or `the interface`.
        what: &'static str,
    },
    /// The CPU port is the control plane's.
    #[error(
        "port {port}@{interface}: {port} is the cpu port (--cpu-port): give the interface or the cpu port another number"
    )]
    Cpu {
        /// Port number.
        port: u16,
        /// Interface name.
        interface: String,
    },
    /// Loss for a port without interface.
    #[error("loss on port {port}: there is no such port; ports are {ports:?}")]
    Loss {
        /// What was given.
        port: u16,
        /// The ports there are.
        ports: Vec<u16>,
    },
    /// The system refuses.
    #[error("port {port}@{interface}: {step}: {source}")]
    System {
        /// Port number.
        port: u16,
        /// Interface name.
        interface: String,
        /// What was being done.
        step: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

impl std::str::FromStr for PortSpec {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, PortError> {
        let form = || PortError::Form { given: text.to_owned() };
        let (port, interface) = text.split_once('@').ok_or_else(form)?;
        let port: u16 = port.parse().ok().filter(|p| *p <= 510).ok_or_else(form)?;
        if interface.is_empty() {
            return Err(form());
        }
        Ok(Self { port, interface: interface.to_owned(), receive: Receive::default() })
    }
}

/// What passed a port since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received and processed.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames dropped by loss injection on the way in.
    pub rx_lost: u64,
    /// Frames dropped by loss injection on the way out.
    pub tx_lost: u64,
    /// Frames that the system did not take: link down, larger than the MTU, backlog full.
    pub tx_failed: u64,
    /// Frames larger than the receive buffer.
    pub rx_truncated: u64,
    /// Frames that the kernel dropped because the switch took them too late.
    pub rx_dropped: u64,
}

impl PortStats {
    /// The sum of two.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            rx_frames: self.rx_frames + other.rx_frames,
            rx_bytes: self.rx_bytes + other.rx_bytes,
            tx_frames: self.tx_frames + other.tx_frames,
            tx_bytes: self.tx_bytes + other.tx_bytes,
            rx_lost: self.rx_lost + other.rx_lost,
            tx_lost: self.tx_lost + other.tx_lost,
            tx_failed: self.tx_failed + other.tx_failed,
            rx_truncated: self.rx_truncated + other.rx_truncated,
            rx_dropped: self.rx_dropped + other.rx_dropped,
        }
    }
}

/// One thread's end of a port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    pub(crate) socket: PacketSocket,
    pub(crate) stats: PortStats,
    rx_dice: Dice,
    tx_dice: Dice,
    /// Frames that the system had no room for yet.
    backlog: std::collections::VecDeque<Vec<u8>>,
    /// Since when the first of them is refused.
    refused_since: Option<Instant>,
    /// Length in bytes of the last frame that was given up: one as long is not waited for again.
    too_long: usize,
}

/// How long a frame is offered to a system that has no room for it. A queue moves on within this time even at 0.1 Mbit/s; a link
/// whose far end takes no frame of this length refuses it with the same error for ever.
const REFUSED: Duration = Duration::from_millis(200);

/// Frames kept while a socket is full; what is beyond is dropped and counted.
const MAX_BACKLOG: usize = 16 * 1024;

impl Port {
    /// Opens a port: for each thread an end of the same socket, one of which receives.
    pub(crate) fn open(
        spec: &PortSpec,
        loss: &Loss,
        threads: usize,
        receiver: usize,
    ) -> Result<Vec<Self>, PortError> {
        let first = PacketSocket::open(spec)?;
        let mut sockets = (1..threads).map(|_| first.twin(spec)).collect::<Result<Vec<_>, _>>()?;
        sockets.insert(receiver, first);
        let end = |(thread, socket)| Self::new(spec.port, socket, loss.dice(spec.port, thread));
        Ok(sockets.into_iter().enumerate().map(end).collect())
    }

    fn new(number: u16, socket: PacketSocket, (rx_dice, tx_dice): (Dice, Dice)) -> Self {
        let backlog = std::collections::VecDeque::new();
        let (stats, refused_since) = (PortStats::default(), None);
        Self { number, socket, stats, rx_dice, tx_dice, backlog, refused_since, too_long: usize::MAX }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    /// What passed so far.
    pub(crate) fn stats(&self) -> PortStats {
        PortStats { rx_dropped: self.socket.dropped(), ..self.stats }
    }

    /// Counts a received frame; false if it is to be lost.
    pub(crate) fn admit(&mut self, frame: &[u8], truncated: bool) -> bool {
        if truncated {
            self.stats.rx_truncated += 1;
            return false;
        }
        if self.rx_dice.lose() {
            self.stats.rx_lost += 1;
            return false;
        }
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += frame.len() as u64;
        true
    }

    /// True if loss injection takes this frame on its way out.
    pub(crate) fn loses(&mut self) -> bool {
        let lost = self.tx_dice.lose();
        self.stats.tx_lost += u64::from(lost);
        lost
    }

    /// Sends frames, after those that still wait.
    pub(crate) fn send(&mut self, frames: &[&[u8]]) {
        self.flush();
        let mut rest = frames;
        if self.backlog.is_empty() {
            rest = &rest[self.socket.send(rest, &mut self.stats)..];
        }
        for frame in rest {
            if self.backlog.len() >= MAX_BACKLOG {
                self.stats.tx_failed += 1;
            } else {
                self.backlog.push_back(frame.to_vec());
            }
        }
    }

    /// Sends what waits, as far as the system takes it. True if nothing waits any more.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(first) = self.backlog.front().map(Vec::len) {
            let frames: Vec<&[u8]> = self.backlog.iter().take(socket::BATCH).map(Vec::as_slice).collect();
            let sent = self.socket.send(&frames, &mut self.stats);
            if frames[..sent].iter().any(|frame| frame.len() >= self.too_long) {
                self.too_long = usize::MAX;
            }
            if sent > 0 {
                self.refused_since = None;
                self.backlog.drain(..sent);
            } else if self.gives_up(first) {
                self.stats.tx_failed += 1;
                self.backlog.pop_front();
            } else {
                return false;
            }
        }
        true
    }

    /// Whether a frame of this length, which was just refused, has been offered for long enough.
    fn gives_up(&mut self, len: usize) -> bool {
        let since = *self.refused_since.get_or_insert_with(Instant::now);
        if len < self.too_long && since.elapsed() < REFUSED {
            return false;
        }
        (self.too_long, self.refused_since) = (self.too_long.min(len), None);
        true
    }
}

/// Checks that no port or interface is given twice, that none is the CPU port, and that losses are on ports that exist.
pub(crate) fn check(specs: &[PortSpec], cpu_port: u16, loss: &Loss) -> Result<(), PortError> {
    let (mut ports, mut interfaces) = (BTreeMap::new(), BTreeMap::new());
    for spec in specs {
        let twice = |what| PortError::Twice { port: spec.port, interface: spec.interface.clone(), what };
        if spec.port == cpu_port {
            return Err(PortError::Cpu { port: spec.port, interface: spec.interface.clone() });
        }
        if ports.insert(spec.port, ()).is_some() {
            return Err(twice("the port"));
        }
        if interfaces.insert(spec.interface.as_str(), ()).is_some() {
            return Err(twice("the interface"));
        }
    }
    match loss.ports().find(|port| !ports.contains_key(port)) {
        Some(port) => Err(PortError::Loss { port, ports: ports.into_keys().collect() }),
        None => Ok(()),
    }
}
