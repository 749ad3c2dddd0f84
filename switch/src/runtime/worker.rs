//! The packet thread.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use tokio::sync::mpsc as async_mpsc;

use super::{Command, Event, StartError, Stats};
use crate::control::DigestRecord;
use crate::ports::{Loss, Port, PortSpec, RxBatch};
use crate::program::{DigestId, Program};
use crate::switch::{Output, Switch, SwitchConfig};

/// Token of the waker; ports have their positions.
const WAKE: Token = Token(usize::MAX);

pub(super) struct Worker {
    switch: Option<Switch>,
    poll: Poll,
    ports: Vec<Port>,
    /// Ports that may have frames to read. Readiness is told once, so it is remembered here.
    readable: Vec<bool>,
    commands: mpsc::Receiver<Command>,
    tx: Transmit,
    started: Instant,
    no_program: u64,
}

/// Frames on their way out, gathered over a batch.
struct Transmit {
    /// One for each port.
    queues: Vec<Queue>,
    /// Place of each port number.
    by_number: Vec<Option<usize>>,
    cpu_port: u16,
    events: async_mpsc::Sender<Event>,
    events_dropped: u64,
    unknown_port: u64,
}

/// Frames on their way out of one port.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl Output for Transmit {
    fn send(&mut self, port: u16, frame: &[u8]) {
        if port == self.cpu_port {
            self.event(Event::PacketIn(frame.to_vec()));
            return;
        }
        let place = self.by_number.get(usize::from(port)).copied().flatten();
        let Some(queue) = place.and_then(|place| self.queues.get_mut(place)) else {
            self.unknown_port += 1;
            return;
        };
        queue.bytes.extend_from_slice(frame);
        queue.ends.push(queue.bytes.len());
    }

    fn digest(&mut self, digest: DigestId, record: DigestRecord) {
        self.event(Event::Digest(digest, record));
    }
}

impl Transmit {
    fn event(&mut self, event: Event) {
        self.events_dropped += u64::from(self.events.try_send(event).is_err());
    }
}

impl Worker {
    pub(super) fn new(
        started: Instant,
        config: SwitchConfig,
        specs: &[PortSpec],
        loss: &Loss,
        program: Option<Arc<Program>>,
        commands: mpsc::Receiver<Command>,
        events: async_mpsc::Sender<Event>,
    ) -> Result<(Self, Waker), StartError> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let mut ports = Vec::new();
        let mut by_number = vec![None; 512];
        let mut sorted: Vec<&PortSpec> = specs.iter().collect();
        sorted.sort_by_key(|s| s.port);
        for (i, spec) in sorted.into_iter().enumerate() {
            let port = Port::open(spec, loss)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut SourceFd(&port.fd()), Token(i), interest)?;
            by_number[usize::from(spec.port)] = Some(i);
            ports.push(port);
        }
        let cpu_port = config.cpu_port;
        let queues = ports.iter().map(|_| Queue::default()).collect();
        let worker = Self {
            switch: program.map(|p| Switch::new(p, config)),
            readable: vec![true; ports.len()],
            poll,
            ports,
            commands,
            tx: Transmit { queues, by_number, cpu_port, events, events_dropped: 0, unknown_port: 0 },
            started,
            no_program: 0,
        };
        Ok((worker, waker))
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(128);
        let mut batch = RxBatch::default();
        loop {
            let busy = self.readable.contains(&true);
            match self.poll.poll(&mut events, busy.then_some(std::time::Duration::ZERO)) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "waiting for packets failed, the switch stops");
                    return;
                }
            }
            for event in &events {
                let Token(i) = event.token();
                if let Some(port) = self.ports.get_mut(i) {
                    if event.is_readable() || event.is_error() {
                        self.readable[i] = true;
                    }
                    if event.is_writable() {
                        port.flush();
                    }
                }
            }
            if !self.obey() {
                return;
            }
            for i in 0..self.ports.len() {
                if self.readable[i] {
                    self.readable[i] = self.receive(i, &mut batch);
                }
            }
        }
    }

    /// Runs the commands that wait. False: stop.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Run(f)) => {
                    let now_us = self.now_us();
                    if let Some(switch) = &mut self.switch {
                        switch.set_clock(now_us);
                    }
                    f(&mut self.switch);
                }
                Ok(Command::Stats(f)) => f(self.stats()),
                Ok(Command::Inject(port, frame)) => {
                    let now_us = self.now_us();
                    match &mut self.switch {
                        Some(switch) => switch.process(port, &frame, now_us, &mut self.tx),
                        None => self.no_program += 1,
                    }
                    self.transmit();
                }
                Ok(Command::Stop) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn stats(&self) -> Stats {
        Stats {
            ports: self.ports.iter().map(|p| (p.number, p.stats())).collect(),
            events_dropped: self.tx.events_dropped,
            unknown_port: self.tx.unknown_port,
            no_program: self.no_program,
        }
    }

    /// Processes one batch of a port. True if more may wait.
    fn receive(&mut self, i: usize, batch: &mut RxBatch) -> bool {
        let port = &mut self.ports[i];
        let got = match port.socket.receive(batch) {
            Ok(got) => got,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => return true,
            // Joined frames of a kind that the kernel can't describe: that one is gone, others may wait.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                port.stats.rx_truncated += 1;
                return true;
            }
            // Nothing there; or the link is down, and the next event says when it is up.
            Err(_) => return false,
        };
        let now_us = self.started.elapsed().as_micros() as u64;
        let number = port.number;
        batch.drain(|frame, cut| {
            if !port.admit(frame, cut) {
                return;
            }
            match &mut self.switch {
                Some(switch) => switch.process(number, frame, now_us, &mut self.tx),
                None => self.no_program += 1,
            }
        });
        self.transmit();
        got > 0
    }

    /// Sends what the last packets left, port by port, in order.
    fn transmit(&mut self) {
        for (port, queue) in self.ports.iter_mut().zip(&mut self.tx.queues) {
            if queue.ends.is_empty() {
                continue;
            }
            let mut frames: Vec<&[u8]> = Vec::with_capacity(queue.ends.len());
            let mut start = 0;
            for end in &queue.ends {
                if !port.loses() {
                    frames.push(&queue.bytes[start..*end]);
                }
                start = *end;
            }
            port.send(&frames);
            queue.bytes.clear();
            queue.ends.clear();
        }
    }
}
