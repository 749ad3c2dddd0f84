//! A packet thread.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use tokio::sync::mpsc as async_mpsc;

use super::mailbox::{Command, Frames, Mailbox, Operation};
use super::transmit::Transmit;
use super::{Event, StartError, Stats};
use crate::ports::{Loss, Port, PortSpec, RxBatch};
use crate::program::Program;
use crate::switch::{Switch, SwitchConfig};

/// Token of the waker; ports have their positions.
const WAKE: Token = Token(usize::MAX);

/// Commands that run before ports are read again.
const COMMANDS: usize = 16;

pub(super) struct Worker {
    switch: Option<Switch>,
    poll: Poll,
    /// This thread's ends of all ports.
    ports: Vec<Port>,
    /// Ports of this thread's group that may have frames to read. Readiness is told once, so it is remembered here.
    readable: Vec<bool>,
    commands: mpsc::Receiver<Command>,
    /// Commands may wait: the waker tells once.
    behind: bool,
    tx: Transmit,
    started: Instant,
    no_program: u64,
    /// This thread's place among all.
    index: usize,
    threads: Vec<Mailbox>,
    /// Frames of the batch at hand that belong to other threads.
    handed: Vec<Frames>,
    handed_dropped: u64,
}

/// The threads of a switch, and how to reach them.
pub(super) fn open(
    started: Instant,
    config: &SwitchConfig,
    specs: &[PortSpec],
    loss: &Loss,
    program: Option<&Arc<Program>>,
    events: &async_mpsc::Sender<Event>,
) -> Result<(Vec<Mailbox>, Vec<Worker>), StartError> {
    let mut ports: Vec<Vec<Port>> = (0..config.threads).map(|_| Vec::new()).collect();
    let mut sorted: Vec<&PortSpec> = specs.iter().collect();
    sorted.sort_by_key(|s| s.port);
    for (i, spec) in sorted.into_iter().enumerate() {
        let ends = Port::open(spec, loss, config.threads, i % config.threads)?;
        for (thread, end) in ports.iter_mut().zip(ends) {
            thread.push(end);
        }
    }
    let mut ways = Vec::new();
    for _ in 0..config.threads {
        let poll = Poll::new()?;
        let (mailbox, commands) = Mailbox::new(Waker::new(poll.registry(), WAKE)?);
        ways.push((poll, mailbox, commands));
    }
    let threads: Vec<Mailbox> = ways.iter().map(|(_, mailbox, _)| mailbox.clone()).collect();
    let mut parts: Vec<Option<Switch>> = match program {
        Some(program) => Switch::parts(program, config).into_iter().map(Some).collect(),
        None => (0..config.threads).map(|_| None).collect(),
    };
    let mut workers = Vec::new();
    for (index, ((poll, _, commands), ports)) in ways.into_iter().zip(ports).enumerate() {
        for (i, port) in ports.iter().enumerate() {
            let receives = i % config.threads == index;
            let interest =
                if receives { Interest::READABLE | Interest::WRITABLE } else { Interest::WRITABLE };
            poll.registry().register(&mut SourceFd(&port.fd()), Token(i), interest)?;
        }
        workers.push(Worker {
            switch: parts[index].take(),
            poll,
            readable: (0..ports.len()).map(|i| i % config.threads == index).collect(),
            tx: Transmit::new(&ports, config.cpu_port, events.clone()),
            ports,
            commands,
            behind: false,
            started,
            no_program: 0,
            index,
            handed: threads.iter().map(|_| Frames::default()).collect(),
            threads: threads.clone(),
            handed_dropped: 0,
        });
    }
    Ok((threads, workers))
}

impl Worker {
    pub(super) fn run(mut self) {
        self.serve();
        if self.index == 0 {
            for thread in &self.threads[1..] {
                let _ = thread.tell(Command::Stop);
            }
        }
    }

    fn serve(&mut self) {
        let mut events = Events::with_capacity(128);
        let mut batch = RxBatch::default();
        loop {
            let busy = self.behind || self.readable.contains(&true);
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
                    if (event.is_readable() || event.is_error()) && i % self.threads.len() == self.index {
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
        self.behind = false;
        for _ in 0..COMMANDS {
            match self.commands.try_recv() {
                Ok(Command::Run(f)) => self.operate(f),
                Ok(Command::Lend { lent, back }) => {
                    if lent.send(self.switch.take()).is_ok()
                        && let Ok(switch) = back.recv()
                    {
                        self.switch = switch;
                    }
                }
                Ok(Command::Rules(rules, taken)) => {
                    if let Some(switch) = &mut self.switch {
                        switch.machine.rules = rules;
                    }
                    let _ = taken.send(());
                }
                Ok(Command::Stats(f)) => f(self.stats()),
                Ok(Command::Inject(port, frame)) => {
                    let now_us = self.now_us();
                    self.process(port, &frame, now_us);
                    self.transmit();
                }
                Ok(Command::Frames(frames)) => {
                    let now_us = self.now_us();
                    for (port, frame) in frames.iter() {
                        self.process(port, frame, now_us);
                    }
                    self.transmit();
                    self.threads[self.index].took(frames.len());
                }
                Ok(Command::Stop) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
        self.behind = true;
        true
    }

    /// Runs a closure on the switch, with the parts of the other threads.
    fn operate(&mut self, f: Box<Operation>) {
        let mut backs = Vec::new();
        let mut peers = Vec::new();
        for thread in &self.threads[1..] {
            let ((lent, part), (back, waits)) = (mpsc::channel(), mpsc::channel());
            if thread.tell(Command::Lend { lent, back: waits }).is_ok() {
                peers.extend(part.recv().ok().flatten());
            }
            backs.push(back);
        }
        let now_us = self.now_us();
        if let Some(switch) = &mut self.switch {
            switch.set_clock(now_us);
            switch.peers = peers;
        }
        f(&mut self.switch);
        let mut parts = Vec::new();
        if let Some(switch) = &mut self.switch {
            parts = std::mem::take(&mut switch.peers);
            for part in &mut parts {
                part.machine.rules = Arc::clone(&switch.machine.rules);
            }
        }
        let mut parts = parts.into_iter();
        for back in backs {
            // It may have ended.
            let _ = back.send(parts.next());
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
            handed_dropped: self.handed_dropped,
        }
    }

    /// Processes a frame, or puts it aside for the thread that it belongs to.
    fn process(&mut self, port: u16, frame: &[u8], now_us: u64) {
        match &mut self.switch {
            Some(switch) => {
                if let Err(owner) = switch.process_own(port, frame, now_us, &mut self.tx) {
                    self.handed[owner].push(port, frame);
                }
            }
            None => self.no_program += 1,
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
            if self.ports[i].admit(frame, cut) {
                self.process(number, frame, now_us);
            }
        });
        self.transmit();
        got > 0
    }

    /// Sends what the last packets left: to the ports, and to other threads.
    fn transmit(&mut self) {
        self.tx.flush(&mut self.ports);
        for (thread, frames) in self.threads.iter().zip(&mut self.handed) {
            if frames.len() > 0 {
                self.handed_dropped += thread.hand_over(std::mem::take(frames));
            }
        }
    }
}
