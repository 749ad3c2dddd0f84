//! The thread that drives one job: socket and clock on one side, the state machine on the other.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use tokio::sync::oneshot;

use super::call::{Call, CollectiveError};
use super::mailbox::Mailbox;
use super::socket::DataSocket;
use crate::protocol::{
    Account, ChangeError, Closed, Completion, ConfigError, Endpoint, EndpointConfig, KeptChunk,
    NextGeneration, OperationSpec, Part, Stalled, Stats, TransmitBatch,
};

const SOCKET: Token = Token(0);
const WAKE: Token = Token(1);

/// Packets per batch: fills several system calls, and is short enough to look at arrivals in between.
const BATCH_PACKETS: usize = 64;

/// Received batches between looks at commands and timers.
const RECEIVE_BATCHES: usize = 4;

/// Why a driver can't be started.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The assignment makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A socket, poll or thread could not be made.
    #[error("setting up the data plane of job {job}: {what}")]
    Io {
        /// Name of the job.
        job: String,
        /// What failed.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What the driver is told.
#[derive(Debug)]
enum Command {
    Start(OperationSpec, Call),
    Cancel(u64),
    /// Stops the generation and tells what is finished, `None` if it is closed.
    Suspend(String, oneshot::Sender<Option<Vec<Vec<u64>>>>),
    /// Asks for what is kept of these slots.
    Kept(Vec<(usize, u32)>, oneshot::Sender<Vec<KeptChunk>>),
    /// Goes on in a later generation, with the trees' service addresses, after taking over chunks.
    Resume(Box<NextGeneration>, Vec<SocketAddr>, Vec<KeptChunk>, oneshot::Sender<Result<(), ChangeError>>),
    /// Asks what does not finish.
    Stalled(oneshot::Sender<Option<Stalled>>),
    /// Tells whom the group waits for.
    Missing(Vec<u32>),
    /// Ends the generation, after taking over chunks.
    Close(Closed, Vec<KeptChunk>),
    /// Ends it because the caller leaves, and tells what was done.
    Retire(oneshot::Sender<Account>),
    Stop,
}

/// A handle on a driver thread; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct DriverHandle {
    mailbox: Mailbox<Command>,
    shared: Arc<Mutex<Shared>>,
}

/// What the driver lets others see.
#[derive(Debug, Default)]
struct Shared {
    stats: Stats,
    send_errors: u64,
    closed: Option<Closed>,
    generation: u32,
    members: Arc<[u32]>,
    /// What the operation that succeeded last holds.
    parts: Vec<Part>,
}

/// Told once when the generation has ended for the endpoint, with what was done in it.
pub(crate) type OnClosed = Box<dyn FnOnce(&Closed, Account) + Send>;

/// Starts the driver of a job on its bound socket. `trees` are the service addresses of the configuration's trees, in order.
pub(crate) fn spawn(
    config: EndpointConfig,
    socket: UdpSocket,
    trees: Vec<SocketAddr>,
    on_closed: OnClosed,
) -> Result<(DriverHandle, JoinHandle<()>), DriverError> {
    let job: Arc<str> = config.job.as_str().into();
    let io = |what| {
        let job = job.to_string();
        move |source| DriverError::Io { job, what, source }
    };
    let endpoint = Endpoint::new(config, Instant::now())?;
    let socket = DataSocket::new(socket).map_err(io("preparing the socket"))?;
    let poll = Poll::new().map_err(io("creating a poll"))?;
    let waker = Waker::new(poll.registry(), WAKE).map_err(io("creating a waker"))?;
    poll.registry()
        .register(&mut SourceFd(&socket.socket().as_raw_fd()), SOCKET, Interest::READABLE)
        .map_err(io("polling the socket"))?;
    let (mailbox, receiver) = Mailbox::new(job.clone(), waker);
    let shared = Shared {
        generation: endpoint.config().generation,
        members: endpoint.members().into(),
        ..Shared::default()
    };
    let shared = Arc::new(Mutex::new(shared));
    let driver = Driver {
        endpoint,
        socket,
        poll,
        trees,
        commands: receiver,
        shared: shared.clone(),
        on_closed: Some(on_closed),
        batch: TransmitBatch::new(BATCH_PACKETS),
        next: 0,
        readable: true,
        awaits_room: false,
        stopping: false,
    };
    let thread = std::thread::Builder::new()
        .name(format!("inca {job}"))
        .spawn(move || driver.run())
        .map_err(io("starting the thread"))?;
    Ok((DriverHandle { mailbox, shared }, thread))
}

impl DriverHandle {
    /// Hands a call over; its end is told through the call itself, also when the driver is gone.
    pub(crate) fn start(&self, spec: OperationSpec, call: Call) {
        if let Err(Command::Start(_, call)) = self.mailbox.send(Command::Start(spec, call)) {
            call.finish(Err(self.gone()));
        }
    }

    /// Gives up the call with this token.
    pub(crate) fn cancel(&self, token: u64) {
        self.mailbox.tell(Command::Cancel(token));
    }

    /// Ends the generation, after taking over what others had finished.
    pub(crate) fn close(&self, closed: Closed, copies: Vec<KeptChunk>) {
        self.mailbox.tell(Command::Close(closed, copies));
    }

    /// Stops the generation; tells what is finished, `None` if it is closed.
    pub(crate) async fn suspend(&self, reason: String) -> Option<Vec<Vec<u64>>> {
        self.ask(|reply| Command::Suspend(reason, reply)).await.flatten()
    }

    /// What is kept of slots, given as tree and slot.
    pub(crate) async fn kept(&self, slots: Vec<(usize, u32)>) -> Vec<KeptChunk> {
        self.ask(|reply| Command::Kept(slots, reply)).await.unwrap_or_default()
    }

    /// What does not finish, if anything.
    pub(crate) async fn stalled(&self) -> Option<Stalled> {
        self.ask(Command::Stalled).await.flatten()
    }

    /// Whom the group waits for.
    pub(crate) fn note_missing(&self, ranks: Vec<u32>) {
        self.mailbox.tell(Command::Missing(ranks));
    }

    /// What the operation that succeeded last holds.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).parts.clone()
    }

    /// Goes on in a later generation.
    pub(crate) async fn resume(
        &self,
        next: NextGeneration,
        trees: Vec<SocketAddr>,
        copies: Vec<KeptChunk>,
    ) -> Result<(), ChangeError> {
        self.ask(|reply| Command::Resume(Box::new(next), trees, copies, reply)).await.unwrap_or(Ok(()))
    }

    /// Ends the generation because the caller leaves; tells what was done.
    pub(crate) async fn retire(&self) -> Account {
        self.ask(Command::Retire).await.unwrap_or_default()
    }

    /// `None` if the driver is gone.
    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.tell(command(reply));
        answer.await.ok()
    }

    /// Ends the thread; calls that are under way fail.
    pub(crate) fn stop(&self) {
        self.mailbox.tell(Command::Stop);
    }

    /// Counters, and how many sends the kernel refused.
    pub(crate) fn stats(&self) -> (Stats, u64) {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        (shared.stats, shared.send_errors)
    }

    /// Why the generation has ended, if it has.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).closed.clone()
    }

    /// The generation, and the ranks of the group in it.
    pub(crate) fn membership(&self) -> (u32, Arc<[u32]>) {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        (shared.generation, shared.members.clone())
    }

    /// The error of a call that the driver can't take or has dropped.
    pub(crate) fn gone(&self) -> CollectiveError {
        self.mailbox.gone(self.closed())
    }
}

struct Driver {
    endpoint: Endpoint<Call>,
    socket: DataSocket,
    poll: Poll,
    trees: Vec<SocketAddr>,
    commands: Receiver<Command>,
    shared: Arc<Mutex<Shared>>,
    on_closed: Option<OnClosed>,
    batch: TransmitBatch,
    /// First packet of the batch that has not left.
    next: usize,
    /// The socket may hold datagrams.
    readable: bool,
    /// The poll tells when the socket has room. Not always: it would wake the thread for every packet that leaves the host.
    awaits_room: bool,
    stopping: bool,
}

impl Driver {
    fn run(mut self) {
        let mut events = Events::with_capacity(8);
        loop {
            self.obey();
            if self.readable {
                self.readable = self.receive();
            }
            let now = Instant::now();
            self.endpoint.handle_timeout(now);
            let more_to_send = self.transmit(now);
            self.report();
            if self.stopping {
                return;
            }
            if self.readable || more_to_send {
                continue;
            }
            let timeout = self.endpoint.poll_timeout().map(|at| at.saturating_duration_since(Instant::now()));
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.give_up(format!("polling the data socket: {error}"));
                self.stopping = true;
            }
            // A timer counts as well, since an error in the middle of a batch may have hidden what came behind it.
            self.readable = events.is_empty() || events.iter().any(|event| event.token() == SOCKET);
        }
    }

    fn obey(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Start(spec, call)) => {
                    if let Err(rejected) = self.endpoint.start(spec, call) {
                        rejected.buffer.finish(Err(rejected.error.into()));
                    }
                }
                Ok(Command::Cancel(token)) => {
                    if let Some(id) = self.endpoint.find(|call| call.token() == token) {
                        self.endpoint.cancel(id);
                    }
                }
                Ok(Command::Suspend(reason, reply)) => {
                    let finished = self.endpoint.stop(&reason);
                    self.forget_batch();
                    let _ = reply.send(finished);
                }
                Ok(Command::Stalled(reply)) => {
                    let _ = reply.send(self.endpoint.stalled());
                }
                Ok(Command::Missing(ranks)) => self.endpoint.note_missing(ranks),
                Ok(Command::Kept(slots, reply)) => {
                    let kept = slots.into_iter().filter_map(|(tree, slot)| self.endpoint.kept(tree, slot));
                    let _ = reply.send(kept.collect());
                }
                Ok(Command::Resume(next, trees, copies, reply)) => {
                    let resumed = (self.endpoint.take_over(&copies))
                        .and_then(|()| self.endpoint.reopen(Instant::now(), *next));
                    if resumed.is_ok() {
                        self.trees = trees;
                        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                        shared.generation = self.endpoint.config().generation;
                        shared.members = self.endpoint.members().into();
                    }
                    let _ = reply.send(resumed);
                }
                Ok(Command::Close(closed, copies)) => {
                    if !copies.is_empty()
                        && self.endpoint.stop(&closed.reason).is_some()
                        && let Err(error) = self.endpoint.take_over(&copies)
                    {
                        tracing::warn!(job = %self.endpoint.config().job, %error, "taking over chunks");
                    }
                    // The controller knows: nothing is to be reported.
                    self.on_closed = None;
                    self.forget_batch();
                    self.endpoint.close(closed);
                }
                Ok(Command::Retire(reply)) => {
                    self.on_closed = None;
                    self.forget_batch();
                    self.endpoint.close(left());
                    let _ = reply.send(self.endpoint.account());
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    self.on_closed = None;
                    self.endpoint.close(left());
                    return;
                }
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    /// True if the socket may hold more.
    fn receive(&mut self) -> bool {
        for _ in 0..RECEIVE_BATCHES {
            let now = Instant::now();
            let Self { socket, endpoint, trees, .. } = self;
            // Whatever a packet says: results come from the switch that the contributions go to.
            let take = |from, datagram: &[u8]| match trees.contains(&from) {
                true => endpoint.handle_datagram(now, datagram),
                false => endpoint.ignore_stranger(),
            };
            match socket.receive(take) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    self.give_up(format!("receiving on the data socket: {error}"));
                    return false;
                }
            }
        }
        true
    }

    /// Sends until the socket is full, or for one batch; true if there is more and the socket takes it.
    fn transmit(&mut self, now: Instant) -> bool {
        if !self.flush() {
            // The poll tells when there is room again.
            return false;
        }
        let more = self.endpoint.poll_transmit(now, &mut self.batch);
        self.flush() && more
    }

    /// Sends what is in the batch; true if all of it left.
    fn flush(&mut self) -> bool {
        let all = self.socket.send(&self.batch, &mut self.next, &self.trees);
        if all {
            self.batch.clear();
            self.next = 0;
        }
        if all == self.awaits_room {
            self.await_room(!all);
        }
        all
    }

    /// Has the poll tell when the socket has room, or no longer.
    fn await_room(&mut self, wanted: bool) {
        let interest = if wanted { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let descriptor = self.socket.socket().as_raw_fd();
        match self.poll.registry().reregister(&mut SourceFd(&descriptor), SOCKET, interest) {
            Ok(()) => self.awaits_room = wanted,
            Err(error) => self.give_up(format!("polling the data socket: {error}")),
        }
    }

    /// Tells callers what has ended, and everyone the counters.
    fn report(&mut self) {
        let stats = self.endpoint.stats();
        {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.stats = stats;
            shared.send_errors = self.socket.errors().count;
            if shared.closed.is_none() {
                shared.closed = self.endpoint.closed().cloned();
            }
        }
        // Before the callers hear of it: one that leaves at once must not be taken for one that left in good order.
        if let Some(closed) = self.endpoint.closed()
            && let Some(on_closed) = self.on_closed.take()
        {
            on_closed(closed, self.endpoint.account());
        }
        while let Some(Completion { buffer, result, parts, .. }) = self.endpoint.poll_completion() {
            if result.is_ok() {
                self.shared.lock().unwrap_or_else(PoisonError::into_inner).parts = parts;
            }
            buffer.finish(result.map_err(CollectiveError::from));
        }
    }

    /// Packets of a generation that is over need not leave.
    fn forget_batch(&mut self) {
        self.batch.clear();
        self.next = 0;
    }

    fn give_up(&mut self, reason: String) {
        tracing::error!(reason, "giving up");
        self.endpoint.close(Closed { reason, missing_ranks: Vec::new() });
    }
}

fn left() -> Closed {
    Closed { reason: "this rank left the job".to_owned(), missing_ranks: Vec::new() }
}
