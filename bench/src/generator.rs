//! A closed loop of workers: each sends its next contribution to a slot when the slot's result is back.
//!
//! The same loop drives every program and switch, so that only they differ.

use std::time::{Duration, Instant};

use anyhow::Result;
use inca_switch::ports::{PacketSocket, PortSpec, PortStats, Receive, RxBatch};

use crate::ends::{Ends, Load};
use crate::socket::wait;

/// How long nothing may come back before everything outstanding is sent again. Long: a baseline without a protocol counts twice what
/// comes twice.
const RETRY: Duration = Duration::from_millis(250);

/// Between two looks at what has come in, so that packets come and go in batches, as they do at a network card that moderates its
/// interrupts. Short beside the time that a switch takes for the packets in flight.
const MODERATION: Duration = Duration::from_micros(100);

/// What was counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Contributions a second that became part of a result.
    pub(crate) packets_per_s: f64,
    /// Slots that had to be sent again, over the whole run.
    pub(crate) repeats: u64,
}

impl Rate {
    /// From `finished` sequences of all slots and children in this time.
    pub(crate) fn of(load: &Load, finished: u64, time: Duration, repeats: u64) -> Self {
        let packets = finished as f64 * load.role.packets_per_sequence() as f64;
        Self { packets_per_s: packets / time.as_secs_f64(), repeats }
    }
}

/// Runs the loop for `warm_up` and then for `time`, on interfaces in order of the switch's ports.
pub(crate) fn run(load: &Load, interfaces: &[String], warm_up: Duration, time: Duration) -> Result<Rate> {
    let sockets = interfaces
        .iter()
        .enumerate()
        .map(|(port, name)| {
            let (port, interface) = (port as u16, name.clone());
            PacketSocket::open(&PortSpec { port, interface, receive: Receive::Calls })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut ends = Ends::new(load)?;
    let all: Vec<u32> = (0..load.slots).collect();
    let send_all = |ends: &Ends, stats: &mut PortStats| {
        for (index, socket) in sockets[..load.children].iter().enumerate() {
            send(socket, ends.frames(index, &all), stats);
        }
    };
    let (mut finished, mut repeats) = (0u64, 0u64);
    let mut stats = PortStats::default();
    let begin = Instant::now();
    let mut measured_from = None;

    send_all(&ends, &mut stats);
    let mut due: Vec<u32> = Vec::with_capacity(64);
    let mut batch = RxBatch::default();
    let mut ready = vec![false; sockets.len()];
    loop {
        let now = Instant::now();
        if measured_from.is_none() && now - begin >= warm_up {
            measured_from = Some((now, finished));
        }
        if let Some((from, before)) = measured_from
            && now - from >= time
        {
            return Ok(Rate::of(load, finished - before, now - from, repeats));
        }
        std::thread::sleep(MODERATION);
        if !wait(&sockets, &mut ready, RETRY)? {
            // Lost in a full queue: everything outstanding again.
            repeats += 1;
            anyhow::ensure!(repeats < 8 || finished > 0, "the switch answers nothing");
            send_all(&ends, &mut stats);
            continue;
        }
        for (index, socket) in sockets.iter().enumerate().filter(|(index, _)| ready[*index]) {
            due.clear();
            while socket.receive(&mut batch).is_ok_and(|got| got > 0) {
                batch.drain(|frame, _| due.extend(ends.take(index, frame)));
            }
            if index < load.children {
                finished += due.len() as u64;
            }
            send(socket, ends.frames(index, &due), &mut stats);
        }
    }
}

/// Sends these frames; a full queue is left to the loss recovery.
fn send<'a>(socket: &PacketSocket, frames: impl Iterator<Item = &'a [u8]>, stats: &mut PortStats) {
    let frames: Vec<&[u8]> = frames.collect();
    socket.send(&frames, stats);
}
