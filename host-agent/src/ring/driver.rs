//! The thread that drives a ring: TCP connections and clock on one side, the state machine on the other.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener as StdListener};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token, Waker};

use super::{Lost, Ring, RingConfig};
use crate::protocol::{Closed, Completion, OperationSpec, Stats};
use crate::transport::{Call, CollectiveError, Mailbox};

const WAKE: Token = Token(0);
const LISTENER: Token = Token(1);
const NEXT: Token = Token(2);
const BEFORE: Token = Token(3);
/// Connections that have not said who they are; their tokens follow.
const STRANGERS: usize = 4;
const MOST_STRANGERS: usize = 16;
/// A stranger says who it is in this time.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);
/// How long the next rank is tried to be reached.
const REACH: Duration = Duration::from_secs(8);
/// After a leave: how long what others still need may take to get out.
const LINGER: Duration = Duration::from_secs(2);
const READ_BYTES: usize = 64 << 10;
/// Reads of one connection between looks at the others.
const READS: usize = 16;

/// What the thread is told.
#[derive(Debug)]
enum Command {
    Start(OperationSpec, Call),
    Cancel(u64),
    Close(Closed),
    Stop,
}

/// Talks to a ring's thread; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RingHandle {
    mailbox: Mailbox<Command>,
    shared: Arc<Mutex<Shared>>,
    generation: u32,
    ranks: Arc<[u32]>,
}

#[derive(Debug, Default)]
struct Shared {
    stats: Stats,
    closed: Option<Closed>,
}

/// Told once when the generation has ended.
pub(crate) type OnClosed = Box<dyn FnOnce(&Closed) + Send>;

/// Starts a rank of a ring. `members` are where all ranks listen; `listener` is this rank's.
pub(crate) fn spawn(
    config: RingConfig,
    listener: StdListener,
    members: &[SocketAddr],
    on_closed: OnClosed,
) -> io::Result<(RingHandle, JoinHandle<()>)> {
    let job: Arc<str> = config.job.as_str().into();
    let poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), WAKE)?;
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let (mailbox, receiver) = Mailbox::new(job.clone(), waker);
    let shared = Arc::new(Mutex::new(Shared::default()));
    let now = Instant::now();
    let (generation, ranks) = (config.generation, (0..config.world()).collect());
    let driver = Driver {
        next_address: members[config.after() as usize],
        ring: Ring::new(config.clone(), now),
        config,
        poll,
        listener,
        strangers: Vec::new(),
        next_stranger: STRANGERS,
        before: None,
        backward: Vec::new(),
        next: Next::Idle { retry: now, last: "not tried yet".to_owned() },
        from_next: Vec::new(),
        born: now,
        commands: receiver,
        shared: shared.clone(),
        on_closed: Some(on_closed),
        leaving: None,
    };
    let name = format!("inca ring {job}");
    let thread = std::thread::Builder::new().name(name).spawn(move || driver.run())?;
    Ok((RingHandle { mailbox, shared, generation, ranks }, thread))
}

impl RingHandle {
    /// Hands a call over; its end is told through the call itself.
    pub(crate) fn start(&self, spec: OperationSpec, call: Call) {
        if let Err(Command::Start(_, call)) = self.mailbox.send(Command::Start(spec, call)) {
            call.finish(Err(self.gone()));
        }
    }

    /// Gives up the call with this token.
    pub(crate) fn cancel(&self, token: u64) {
        self.mailbox.tell(Command::Cancel(token));
    }

    /// Ends the generation.
    pub(crate) fn close(&self, closed: Closed) {
        self.mailbox.tell(Command::Close(closed));
    }

    /// Leaves and ends the thread; calls that are under way fail.
    pub(crate) fn stop(&self) {
        self.mailbox.tell(Command::Stop);
    }

    /// Counters; a packet is a frame here.
    pub(crate) fn stats(&self) -> Stats {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).stats
    }

    /// Why the generation has ended, if it has.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).closed.clone()
    }

    /// The generation, and the ranks of the group.
    pub(crate) fn membership(&self) -> (u32, Arc<[u32]>) {
        (self.generation, self.ranks.clone())
    }

    /// The error of a call that the thread can't take or has dropped.
    pub(crate) fn gone(&self) -> CollectiveError {
        self.mailbox.gone(self.closed())
    }
}

/// The connection to the next rank.
#[derive(Debug)]
enum Next {
    /// To be tried (again) then.
    Idle {
        retry: Instant,
        last: String,
    },
    Connecting(TcpStream),
    Connected(TcpStream),
    Gone,
}

/// A connection that has not said who it is.
#[derive(Debug)]
struct Stranger {
    stream: TcpStream,
    bytes: Vec<u8>,
    since: Instant,
}

struct Driver {
    ring: Ring<Call>,
    config: RingConfig,
    poll: Poll,
    listener: TcpListener,
    strangers: Vec<Stranger>,
    next_stranger: usize,
    /// The rank before: we read from it, and tell it only of the end.
    before: Option<TcpStream>,
    backward: Vec<u8>,
    next: Next,
    next_address: SocketAddr,
    from_next: Vec<u8>,
    born: Instant,
    commands: Receiver<Command>,
    shared: Arc<Mutex<Shared>>,
    on_closed: Option<OnClosed>,
    /// Since when this rank leaves.
    leaving: Option<Instant>,
}

impl Driver {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        loop {
            self.obey();
            let now = Instant::now();
            self.accept(now);
            self.connect(now);
            // Both directions before any verdict: who says why it ends is heard before its end is seen.
            let more = self.read_before(now) | self.read_next();
            self.ring.handle_timeout(now);
            let flushed = self.write_next() & self.write_before();
            self.report();
            if let Some(since) = self.leaving
                && (flushed || now >= since + LINGER)
            {
                self.farewell();
                return;
            }
            let timeout = match more {
                true => Some(Duration::ZERO),
                false => self.timeout(),
            };
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.ring.close(Closed {
                    reason: format!("polling the ring: {error}"),
                    missing_ranks: Vec::new(),
                });
                self.report();
                return;
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let retry = match &self.next {
            Next::Idle { retry, .. } => Some(*retry),
            Next::Connecting(_) => Some(self.born + REACH),
            _ => None,
        };
        let strangers = self.strangers.iter().map(|stranger| stranger.since + PATIENCE);
        let wake = strangers.chain(retry).chain(self.ring.poll_timeout());
        let wake = wake.chain(self.leaving.map(|since| since + LINGER)).min()?;
        Some(wake.saturating_duration_since(Instant::now()))
    }

    fn obey(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Start(spec, call)) => {
                    if let Err(rejected) = self.ring.start(Instant::now(), spec, call) {
                        rejected.buffer.finish(Err(rejected.error.into()));
                    }
                }
                Ok(Command::Cancel(token)) => {
                    if let Some(id) = self.ring.find(|call| call.token() == token) {
                        self.ring.cancel(id);
                    }
                }
                Ok(Command::Close(closed)) => self.ring.close(closed),
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    if self.leaving.is_none() {
                        self.leaving = Some(Instant::now());
                        self.ring.leave();
                    }
                    return;
                }
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    /// Takes connections, and finds the rank before among them.
    fn accept(&mut self, now: Instant) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let token = Token(self.next_stranger);
            self.next_stranger += 1;
            let is_welcome = self.strangers.len() < MOST_STRANGERS && self.before.is_none();
            if is_welcome && self.poll.registry().register(&mut stream, token, Interest::READABLE).is_ok() {
                self.strangers.push(Stranger { stream, bytes: Vec::new(), since: now });
            }
        }
        let mut found = None;
        let config = &self.config;
        self.strangers.retain_mut(|stranger| {
            let end = read(&mut stranger.stream, &mut stranger.bytes, 1);
            match Ring::<Call>::greets(config, &stranger.bytes) {
                Some(true) if found.is_none() => {
                    found = Some((stranger.bytes.clone(), stranger.since));
                    true
                }
                Some(_) => false,
                None => end == Ended::No && now < stranger.since + PATIENCE,
            }
        });
        let Some((bytes, _)) = found else { return };
        let at = self.strangers.iter().position(|stranger| stranger.bytes == bytes);
        if let Some(mut stranger) = at.map(|at| self.strangers.swap_remove(at)) {
            self.strangers.clear();
            let _ = stranger.stream.set_nodelay(true);
            let both = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().reregister(&mut stranger.stream, BEFORE, both).is_ok() {
                self.before = Some(stranger.stream);
                self.ring.handle_bytes(now, &bytes);
            }
        }
    }

    /// Reaches the next rank, again and again: it may be starting.
    fn connect(&mut self, now: Instant) {
        match &self.next {
            Next::Idle { last, .. } if now >= self.born + REACH => {
                let lost = Lost::Unreachable(last.clone());
                self.next = Next::Gone;
                self.ring.disconnected(false, &lost);
            }
            Next::Idle { retry, .. } if now >= *retry => {
                self.next = match open(self.next_address, self.poll.registry()) {
                    Ok(stream) => Next::Connecting(stream),
                    Err(error) => Next::Idle { retry: now + RETRY, last: error.to_string() },
                };
            }
            Next::Connecting(stream) => {
                let state = match stream.take_error() {
                    Ok(Some(error)) | Err(error) => Err(error),
                    Ok(None) => match stream.peer_addr() {
                        Ok(_) => Ok(true),
                        Err(error)
                            if error.kind() == io::ErrorKind::NotConnected && now < self.born + REACH =>
                        {
                            Ok(false)
                        }
                        Err(error) => Err(error),
                    },
                };
                match state {
                    Ok(false) => {}
                    Ok(true) => {
                        if let Next::Connecting(stream) = std::mem::replace(&mut self.next, Next::Gone) {
                            let _ = stream.set_nodelay(true);
                            self.next = Next::Connected(stream);
                        }
                    }
                    Err(error) => self.next = Next::Idle { retry: now + RETRY, last: error.to_string() },
                }
            }
            _ => {}
        }
    }

    /// True if there may be more.
    fn read_before(&mut self, now: Instant) -> bool {
        let Some(stream) = &mut self.before else { return false };
        let mut bytes = Vec::new();
        let end = read(stream, &mut bytes, READS);
        if !bytes.is_empty() {
            self.ring.handle_bytes(now, &bytes);
        }
        match end {
            Ended::No => bytes.len() >= READS * READ_BYTES,
            Ended::Yes(reason) => {
                self.before = None;
                // The next one may know better why it all ends.
                self.read_next();
                self.ring.disconnected(true, &Lost::Ended(reason));
                false
            }
        }
    }

    fn read_next(&mut self) -> bool {
        let Next::Connected(stream) = &mut self.next else { return false };
        let end = read(stream, &mut self.from_next, READS);
        if !self.from_next.is_empty() {
            self.ring.handle_backward(&self.from_next);
            // Nothing but an end comes this way; a whole one has been taken.
            self.from_next.truncate(READ_BYTES);
        }
        if let Ended::Yes(reason) = end {
            self.next = Next::Gone;
            self.ring.disconnected(false, &Lost::Ended(reason));
        }
        false
    }

    /// True if nothing is left to be sent, or nobody to send it to.
    fn write_next(&mut self) -> bool {
        loop {
            let Next::Connected(stream) = &mut self.next else {
                return matches!(self.next, Next::Gone) || self.leaving.is_some() && self.ring.world() == 1;
            };
            let bytes = self.ring.poll_send();
            if bytes.is_empty() {
                return true;
            }
            match stream.write(bytes) {
                Ok(written) => self.ring.sent(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // What it said before it went is still to be read.
                    let _ = read(stream, &mut self.from_next, READS);
                    self.ring.handle_backward(&self.from_next);
                    self.next = Next::Gone;
                    self.ring.disconnected(false, &Lost::Ended(error.to_string()));
                }
            }
        }
    }

    fn write_before(&mut self) -> bool {
        self.backward.extend(self.ring.poll_backward());
        let Some(stream) = &mut self.before else { return true };
        while !self.backward.is_empty() {
            match stream.write(&self.backward) {
                Ok(written) => drop(self.backward.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => self.backward.clear(),
            }
        }
        true
    }

    /// Tells callers what has ended, and everyone the counters.
    fn report(&mut self) {
        {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.stats = self.ring.stats();
            if shared.closed.is_none() {
                shared.closed = self.ring.closed().cloned();
            }
        }
        // Before the callers hear of it: one that leaves at once must not be taken for one that left in good order.
        if let Some(closed) = self.ring.closed()
            && let Some(on_closed) = self.on_closed.take()
        {
            on_closed(closed);
        }
        while let Some(Completion { buffer, result, .. }) = self.ring.poll_completion() {
            buffer.finish(result.map_err(CollectiveError::from));
        }
    }

    /// Ends the connections so that what was sent still arrives: a socket that is closed with bytes unread resets the other side.
    fn farewell(&mut self) {
        let mut rest = Vec::new();
        if let Next::Connected(stream) = &mut self.next {
            let _ = stream.shutdown(Shutdown::Write);
            read(stream, &mut rest, READS);
        }
        if let Some(stream) = &mut self.before {
            let _ = stream.shutdown(Shutdown::Write);
            read(stream, &mut rest, READS);
        }
    }
}

fn open(address: SocketAddr, registry: &Registry) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    registry.register(&mut stream, NEXT, Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    No,
    Yes(String),
}

/// Reads what is there, so many times at most.
fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>, reads: usize) -> Ended {
    for _ in 0..reads {
        let start = bytes.len();
        bytes.resize(start + READ_BYTES, 0);
        let result = stream.read(&mut bytes[start..]);
        bytes.truncate(start + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => return Ended::Yes("closed by the other side".to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ended::No,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ended::Yes(error.to_string()),
        }
    }
    Ended::No
}
