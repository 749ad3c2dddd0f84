//! Sockets and threads: one thread accepts, one for each connection reads; who sends writes on its own thread.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::error::PeerError;
use super::frame::{self, Card, GREETING_BYTES, HEADER_BYTES, Head, Kind};
use super::inbox::{Found, Inbox, Message};
use crate::protocol::{Closed, TensorMut, TensorRef};

/// A stranger says who it is in this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between looks at whether the group still lives.
const GLANCE: Duration = Duration::from_millis(100);

/// One rank's links to all others.
#[derive(Debug)]
pub(crate) struct Peers {
    job: String,
    rank: u32,
    card: Card,
    shared: Arc<Shared>,
    cards: BTreeMap<u32, Card>,
    outgoing: Mutex<HashMap<u32, Arc<Mutex<Option<TcpStream>>>>>,
    /// Of the acceptor's socket.
    listener: TcpListener,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
    stopping: AtomicBool,
    /// What is to be cut at the end.
    incoming: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
}

/// How long something may take.
#[derive(Clone, Copy)]
pub(crate) struct Limit<'a> {
    pub(crate) deadline: Duration,
    /// When that is over; None: never.
    pub(crate) end: Option<Instant>,
    /// Why the group has ended, if it has.
    pub(crate) closed: &'a (dyn Fn() -> Option<Closed> + Sync),
}

impl<'a> Limit<'a> {
    pub(crate) fn new(deadline: Duration, closed: &'a (dyn Fn() -> Option<Closed> + Sync)) -> Self {
        Self { deadline, end: Instant::now().checked_add(deadline), closed }
    }

    /// How long to wait before the next glance; none if the time is over.
    fn next(&self) -> Option<Duration> {
        let left = self.end.map_or(GLANCE, |end| end.saturating_duration_since(Instant::now()));
        (!left.is_zero()).then_some(left.min(GLANCE))
    }
}

impl Peers {
    /// Listens at this rank's data address.
    pub(crate) fn listen(job: &str, rank: u32, address: Ipv4Addr) -> Result<Self, PeerError> {
        let failed = |what| {
            move |error: io::Error| PeerError::System { job: job.to_owned(), what, reason: error.to_string() }
        };
        let listener = TcpListener::bind((address, 0)).map_err(failed("listening for other ranks"))?;
        let port = listener.local_addr().map_err(failed("listening for other ranks"))?.port();
        let mut secret = [0; 8];
        let random =
            std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut secret));
        random.map_err(failed("drawing a number"))?;
        let card = Card { address: SocketAddrV4::new(address, port), secret: u64::from_le_bytes(secret) };
        let shared = Arc::new(Shared::default());
        let (accepting, kept) =
            (shared.clone(), listener.try_clone().map_err(failed("duplicating a socket"))?);
        let acceptor = std::thread::Builder::new()
            .name(format!("inca peers {job}"))
            .spawn(move || accept(&listener, &accepting, card.secret))
            .map_err(failed("starting a thread"))?;
        Ok(Self {
            job: job.to_owned(),
            rank,
            card,
            shared,
            cards: BTreeMap::new(),
            outgoing: Mutex::default(),
            listener: kept,
            acceptor: Some(acceptor),
        })
    }

    /// What the other ranks must know.
    pub(crate) fn card(&self) -> Card {
        self.card
    }

    /// What they told.
    pub(crate) fn introduce(&mut self, cards: BTreeMap<u32, Card>) {
        self.cards = cards;
    }

    fn card_of(&self, rank: u32) -> Result<Card, PeerError> {
        self.cards.get(&rank).copied().filter(|_| rank != self.rank).ok_or_else(|| PeerError::Rank {
            job: self.job.clone(),
            rank,
            members: self.cards.keys().copied().collect(),
        })
    }

    fn lost(&self, rank: u32, card: Card, reason: impl ToString) -> PeerError {
        let (job, address) = (self.job.clone(), card.address.to_string());
        PeerError::Lost { job, rank, address, reason: reason.to_string() }
    }

    /// Sends a tensor; returns when the system has taken all of it.
    pub(crate) fn send(
        &self,
        to: u32,
        (kind, tag): (Kind, u32),
        tensor: &TensorRef<'_>,
        limit: Limit<'_>,
    ) -> Result<(), PeerError> {
        let card = self.card_of(to)?;
        let mut message = vec![0; HEADER_BYTES];
        let mut payload = Vec::new();
        tensor.write_le_bytes(&mut payload);
        let (dtype, elements) = (tensor.dtype().code(), tensor.len() as u64);
        let head = Head { kind, dtype, tag, elements, bytes: payload.len() as u64 };
        message.copy_from_slice(&head.to_bytes());
        message.append(&mut payload);

        let link =
            self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).entry(to).or_default().clone();
        // One message after the other.
        let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
        if link.is_none() {
            let mut stream = self.connect(to, card, limit)?;
            self.write(&mut stream, &frame::greeting(card.secret, self.rank), (to, tag, card), limit)?;
            *link = Some(stream);
        }
        let Some(stream) = link.as_mut() else { return Ok(()) };
        let sent = self.write(stream, &message, (to, tag, card), limit);
        if sent.is_err() {
            // Half a message: nothing may follow it.
            let _ = stream.shutdown(Shutdown::Both);
            *link = None;
        }
        sent
    }

    fn connect(&self, to: u32, card: Card, limit: Limit<'_>) -> Result<TcpStream, PeerError> {
        let longest =
            limit.end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        let stream =
            TcpStream::connect_timeout(&SocketAddr::V4(card.address), longest.max(Duration::from_millis(1)))
                .and_then(|stream| {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(GLANCE))?;
                    Ok(stream)
                });
        stream.map_err(|error| self.lost(to, card, error))
    }

    fn write(
        &self,
        stream: &mut TcpStream,
        mut bytes: &[u8],
        (to, tag, card): (u32, u32, Card),
        limit: Limit<'_>,
    ) -> Result<(), PeerError> {
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(0) => return Err(self.lost(to, card, "it takes no more bytes")),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    self.check(limit)?;
                    if limit.next().is_none() {
                        return Err(self.late("sending to", to, tag, limit));
                    }
                }
                Err(error) => return Err(self.lost(to, card, error)),
            }
        }
        Ok(())
    }

    fn late(&self, what: &'static str, rank: u32, tag: u32, limit: Limit<'_>) -> PeerError {
        PeerError::DeadlineExceeded { job: self.job.clone(), what, rank, tag, deadline: limit.deadline }
    }

    fn check(&self, limit: Limit<'_>) -> Result<(), PeerError> {
        match (limit.closed)() {
            None => Ok(()),
            Some(closed) => Err(PeerError::Closed { job: self.job.clone(), closed }),
        }
    }

    /// Receives a tensor. Its type and length must be those that were sent.
    pub(crate) fn receive(
        &self,
        from: u32,
        (kind, tag): (Kind, u32),
        mut tensor: TensorMut<'_>,
        limit: Limit<'_>,
    ) -> Result<(), PeerError> {
        let card = self.card_of(from)?;
        let mut inbox = self.shared.inbox();
        let Message { head, bytes } = loop {
            match inbox.take(from, kind, tag) {
                Found::Message(message) => break message,
                Found::Gone(reason) => return Err(self.lost(from, card, reason)),
                Found::Nothing => {}
            }
            self.check(limit)?;
            let Some(longest) = limit.next() else {
                return Err(self.late("receiving from", from, tag, limit));
            };
            inbox =
                self.shared.changed.wait_timeout(inbox, longest).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(inbox);
        // There is room for the next one.
        self.shared.changed.notify_all();
        let (awaited, awaited_dtype) = (tensor.as_ref().len() as u64, tensor.as_ref().dtype());
        let fits =
            (head.dtype, head.elements) == (awaited_dtype.code(), awaited) && tensor.read_le_bytes(&bytes);
        if fits {
            return Ok(());
        }
        let known = crate::protocol::Dtype::ALL.into_iter().find(|dtype| dtype.code() == head.dtype);
        Err(PeerError::Shape {
            job: self.job.clone(),
            rank: from,
            tag,
            sent: head.elements,
            sent_dtype: known.map_or_else(|| format!("(type {})", head.dtype), |dtype| dtype.to_string()),
            awaited,
            awaited_dtype,
        })
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = socket2::SockRef::from(&self.listener).shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for (stream, _) in &*self.shared.incoming() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Who waits for room sees that it ends.
        drop(self.shared.inbox());
        self.shared.changed.notify_all();
        for (_, reader) in self.shared.incoming().drain(..) {
            let _ = reader.join();
        }
    }
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incoming(&self) -> MutexGuard<'_, Vec<(TcpStream, JoinHandle<()>)>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// Takes connections until the end.
fn accept(listener: &TcpListener, shared: &Arc<Shared>, secret: u64) {
    loop {
        let accepted = listener.accept();
        if shared.is_stopping() {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or cut off while it was waiting: the next one may fare better.
            std::thread::sleep(GLANCE);
            continue;
        };
        let Ok(kept) = stream.try_clone() else { continue };
        let reading = shared.clone();
        let reader = std::thread::Builder::new()
            .name("inca peer".to_owned())
            .spawn(move || read(stream, &reading, secret));
        let mut incoming = shared.incoming();
        incoming.retain(|(_, reader)| !reader.is_finished());
        if let Ok(reader) = reader {
            incoming.push((kept, reader));
        }
    }
}

/// Reads one connection to its end.
fn read(mut stream: TcpStream, shared: &Shared, secret: u64) {
    let mut greeting = [0; GREETING_BYTES];
    let greeted = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.read_exact(&mut greeting));
    let Some(rank) = greeted.ok().and_then(|()| frame::greets(&greeting, secret)) else { return };
    let reason = match stream.set_read_timeout(None).and_then(|()| read_messages(&mut stream, shared, rank)) {
        Ok(()) => "its connection ended".to_owned(),
        Err(error) => format!("its connection broke: {error}"),
    };
    shared.inbox().end(rank, reason);
    shared.changed.notify_all();
}

fn read_messages(stream: &mut TcpStream, shared: &Shared, rank: u32) -> io::Result<()> {
    loop {
        let mut header = [0; HEADER_BYTES];
        match stream.read(&mut header[..1]) {
            Ok(0) => return Ok(()),
            Ok(_) => stream.read_exact(&mut header[1..])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let head = Head::parse(&header).ok_or_else(|| io::Error::other("it sends what is no message"))?;
        let mut inbox = shared.inbox();
        while !inbox.has_room(rank, head.bytes) {
            if shared.is_stopping() {
                return Ok(());
            }
            inbox = shared.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        drop(inbox);
        // Memory grows with what comes, not with what is announced.
        let mut bytes = Vec::new();
        Read::by_ref(stream).take(head.bytes).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != head.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        shared.inbox().put(rank, Message { head, bytes });
        shared.changed.notify_all();
    }
}
