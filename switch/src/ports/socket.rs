//! A packet socket (AF_PACKET, raw) bound to one interface.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};

use super::offload::{self, Joined, VNET_HEADER, VnetHeader};
use super::ring::{self, Content, Ring, Taken};
use super::{PortError, PortSpec, PortStats, Receive};

/// Frames a system call moves.
pub(crate) const BATCH: usize = 32;
/// Slots of a receive ring in one batch.
const RING_BATCH: usize = 64;
/// How often reading a frame is tried again after an error that is not the frame's.
const RETRIES: usize = 8;
/// Pieces of frames that a system call sends.
const PARTS: usize = 512;
/// Room for one frame. Larger than any MTU, since a sender with segmentation offload hands over up to 64 KiB at once.
const FRAME_ROOM: usize = 66 * 1024;
/// Receive buffer asked for, in bytes: a burst must wait here while the switch is at work.
const RECEIVE_BUFFER: usize = 64 << 20;
const SEND_BUFFER: usize = 16 << 20;
/// Linux's `PACKET_VNET_HDR`: a header about segments and checksums before each frame.
const PACKET_VNET_HDR: libc::c_int = 15;

/// A bound socket.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
    /// False once the kernel refused joined datagrams: those before Linux 6.2 don't know them.
    joins: Cell<bool>,
    /// Where frames arrive, if not in the socket's queue alone.
    ring: Option<Arc<Ring>>,
    /// The ring's slot that the kernel fills next.
    next: Cell<usize>,
    /// The last look at the ring found nothing.
    idle: Cell<bool>,
    /// Frames that the kernel dropped, as far as it was asked.
    dropped: Cell<u64>,
}

/// A batch of received frames.
#[derive(Debug)]
pub struct RxBatch {
    room: Vec<u8>,
    vnet: [VnetHeader; BATCH],
    /// Frames in `room`: in which part of it.
    frames: Vec<Frame>,
    /// Slots of a ring. Those whose frame is larger stand for the next of `frames`.
    taken: Option<Taken>,
}

/// Where a frame is.
#[derive(Debug, Clone, Copy)]
struct Frame {
    place: usize,
    len: usize,
    cut: bool,
}

impl Default for RxBatch {
    fn default() -> Self {
        Self {
            room: vec![0; BATCH * FRAME_ROOM],
            vnet: [[0; VNET_HEADER]; BATCH],
            frames: Vec::with_capacity(BATCH),
            taken: None,
        }
    }
}

impl RxBatch {
    /// Empties the batch into `each`: every frame of the last call, and whether it was cut. What came as one frame by segmentation
    /// offload comes apart here.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8], bool)) {
        let Self { room, vnet, frames, taken } = self;
        let mut frames = frames.drain(..);
        let mut read = |Frame { place, len, cut }: Frame, each: &mut _| {
            hand(&vnet[place], &mut room[place * FRAME_ROOM..][..len], cut, each);
        };
        let Some(mut taken) = taken.take() else {
            return frames.for_each(|frame| read(frame, &mut each));
        };
        while taken.next(|content| match content {
            Content::Frame(vnet, frame) => hand(vnet, frame, false, &mut each),
            Content::Cut(frame) => each(frame, true),
            Content::Queued => {
                if let Some(frame) = frames.next() {
                    read(frame, &mut each);
                }
            }
            Content::Own { queued } => drop(queued.then(|| frames.next())),
        }) {}
    }

    /// Forgets what it holds; slots of a ring go back to the kernel.
    fn clear(&mut self) {
        self.frames.clear();
        self.taken = None;
    }
}

/// Calls `each` with what came as this frame.
fn hand(vnet: &VnetHeader, frame: &mut [u8], cut: bool, each: &mut impl FnMut(&[u8], bool)) {
    if cut { each(frame, true) } else { offload::split(vnet, frame, |f| each(f, false)) }
}

pub(super) fn set_option<T>(socket: &Socket, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` lives through the call and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl PacketSocket {
    /// Opens and binds a socket: promiscuous, not blocking, without the switch's own frames.
    ///
    /// # Errors
    /// If there is no such interface, or the system refuses.
    pub fn open(spec: &PortSpec) -> Result<Self, PortError> {
        let fail = |step: &'static str| {
            move |source: io::Error| PortError::System {
                port: spec.port,
                interface: spec.interface.clone(),
                step,
                source,
            }
        };
        let name = CString::new(spec.interface.as_str())
            .map_err(|_| fail("interface name")(io::ErrorKind::InvalidInput.into()))?;
        // SAFETY: `name` is a string that ends in 0 and lives through the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(fail("no such interface")(io::Error::last_os_error()));
        }
        // Protocol 0: nothing arrives before the socket is bound to its interface.
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))
            .map_err(fail("opening a packet socket (needs CAP_NET_RAW)"))?;
        socket.set_nonblocking(true).map_err(fail("making the socket non-blocking"))?;
        // Own frames would come back. Kernels before 4.20 lack the option; `receive` drops them too.
        let _ = set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32);
        for (force, plain, size) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER),
        ] {
            // Without CAP_NET_ADMIN the system's limit holds.
            let _ = set_option(&socket, libc::SOL_SOCKET, force, &(size as i32))
                .or_else(|_| set_option(&socket, libc::SOL_SOCKET, plain, &(size as i32)));
        }
        set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)
            .map_err(fail("asking for segmentation offload (PACKET_VNET_HDR)"))?;
        let ring = match spec.receive {
            Receive::Calls => None,
            Receive::Ring => ring::mtu(&socket, &name).and_then(|mtu| Ring::make(&socket, mtu)).map_or_else(
                |error| {
                    tracing::warn!(port = spec.port, interface = spec.interface, %error, "no receive ring: frames are read by calls");
                    None
                },
                |ring| Some(Arc::new(ring)),
            ),
        };
        let membership = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
            .map_err(fail("setting promiscuous mode"))?;
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        // SAFETY: `address` lives through the call and its size is given.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if bound != 0 {
            return Err(fail("binding")(io::Error::last_os_error()));
        }
        Ok(Self {
            socket,
            joins: Cell::new(true),
            ring,
            next: Cell::new(0),
            idle: Cell::new(true),
            dropped: Cell::new(0),
        })
    }

    /// The same socket for another thread, which only sends: frames arrive at the first one.
    ///
    /// # Errors
    /// The system refuses another file descriptor.
    pub(crate) fn twin(&self, spec: &PortSpec) -> Result<Self, PortError> {
        let fail = |source| PortError::System {
            port: spec.port,
            interface: spec.interface.clone(),
            step: "another file descriptor",
            source,
        };
        let socket = self.socket.try_clone().map_err(fail)?;
        let (joins, ring, next) = (self.joins.clone(), None, Cell::new(0));
        Ok(Self { socket, joins, ring, next, idle: Cell::new(true), dropped: Cell::new(0) })
    }

    /// For waiting on it.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether frames arrive in a receive ring.
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Frames that the kernel dropped because they were taken too late, since the socket was opened.
    pub fn dropped(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: both live through the call, and the size is that of the structure. Asking sets the kernel's counters to 0.
        let result = unsafe {
            libc::getsockopt(
                self.fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut size,
            )
        };
        if result == 0 {
            self.dropped.set(self.dropped.get() + u64::from(stats.tp_drops));
        }
        self.dropped.get()
    }

    /// Reads up to a batch of frames. Returns how many messages came; own frames are left out of the batch.
    ///
    /// # Errors
    /// Nothing is there ([`io::ErrorKind::WouldBlock`]), or the link is down.
    pub fn receive(&self, batch: &mut RxBatch) -> io::Result<usize> {
        batch.clear();
        match &self.ring {
            Some(ring) => self.take(ring, batch),
            None => self.read(batch, BATCH),
        }
    }

    /// Takes what is in the ring, and from the socket's queue what belongs to it.
    fn take(&self, ring: &Arc<Ring>, batch: &mut RxBatch) -> io::Result<usize> {
        let Some(taken) = ring.take(self.next.get(), RING_BATCH, BATCH) else {
            // Nothing again: an error may be what there is to read. It would fail the next frame that is sent.
            if self.idle.replace(true)
                && let Some(error) = self.socket.take_error()?
            {
                return Err(error);
            }
            return Err(io::ErrorKind::WouldBlock.into());
        };
        self.idle.set(false);
        let slots = taken.len();
        self.next.set((self.next.get() + slots) % ring.slots());
        let mut retries = RETRIES;
        while batch.frames.len() < taken.queued {
            let have = batch.frames.len();
            match self.read(batch, taken.queued - have) {
                Ok(_) => {}
                // An error of the link comes once, before the frame.
                Err(e) if retries > 0 && e.raw_os_error() != Some(libc::EINVAL) => retries -= 1,
                // The kernel could not describe this one's segments: it is gone.
                Err(_) => batch.frames.push(Frame { place: have, len: 0, cut: true }),
            }
        }
        batch.taken = Some(taken);
        Ok(slots)
    }

    /// Reads up to `most` frames from the socket's queue, behind those that the batch has. Returns how many messages came.
    fn read(&self, batch: &mut RxBatch, most: usize) -> io::Result<usize> {
        let first = batch.frames.len();
        // SAFETY: all-zero is a valid value of these plain structures.
        let (mut messages, mut addresses) = unsafe {
            (
                MaybeUninit::<[libc::mmsghdr; BATCH]>::zeroed().assume_init(),
                MaybeUninit::<[libc::sockaddr_ll; BATCH]>::zeroed().assume_init(),
            )
        };
        let mut parts = [[libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2]; BATCH];
        let rooms = batch.room.chunks_exact_mut(FRAME_ROOM).zip(&mut batch.vnet).skip(first).take(most);
        for (((message, address), parts), (room, vnet)) in
            messages.iter_mut().zip(&mut addresses).zip(&mut parts).zip(rooms)
        {
            parts[0].iov_base = vnet.as_mut_ptr().cast();
            parts[0].iov_len = VNET_HEADER;
            parts[1].iov_base = room.as_mut_ptr().cast();
            parts[1].iov_len = FRAME_ROOM;
            message.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = 2;
        }
        // SAFETY: every message points to two parts and one address of the arrays above and the parts into `vnet` and `room`, all
        // of which live through the call; their lengths are given.
        let got = unsafe {
            libc::recvmmsg(
                self.fd(),
                messages.as_mut_ptr(),
                most.min(BATCH - first) as u32,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let got = got as usize;
        for i in 0..got {
            if addresses[i].sll_pkttype != libc::PACKET_OUTGOING {
                let len = (messages[i].msg_len as usize).saturating_sub(VNET_HEADER);
                let (len, cut) = (len.min(FRAME_ROOM), len > FRAME_ROOM);
                batch.frames.push(Frame { place: first + i, len, cut });
            }
        }
        Ok(got)
    }

    /// Sends frames. Returns how many are done with: sent, or refused for good (and counted). The rest should be tried
    /// again when the socket is writable.
    pub fn send(&self, frames: &[&[u8]], stats: &mut PortStats) -> usize {
        let (mut done, mut retried) = (0, false);
        while done < frames.len() {
            match self.send_batch(&frames[done..]) {
                Ok(0) => break,
                Ok(sent) => {
                    stats.tx_frames += sent as u64;
                    stats.tx_bytes += frames[done..done + sent].iter().map(|f| f.len() as u64).sum::<u64>();
                    done += sent;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e)
                    if e.kind() == io::ErrorKind::WouldBlock || e.raw_os_error() == Some(libc::ENOBUFS) =>
                {
                    break;
                }
                // That may have been told late: the link can be up again.
                Err(e) if e.raw_os_error() == Some(libc::ENETDOWN) && !retried => retried = true,
                Err(e) => {
                    let joined = self.joined(&frames[done..]).frames;
                    if joined > 1 && e.raw_os_error() == Some(libc::EINVAL) {
                        self.joins.set(false);
                        continue;
                    }
                    // Link down, larger than the MTU: these never go.
                    stats.tx_failed += joined as u64;
                    done += joined;
                }
            }
        }
        done
    }

    fn joined(&self, frames: &[&[u8]]) -> Joined {
        Joined::first_of(if self.joins.get() { frames } else { &frames[..1] })
    }

    /// Sends as many as one call takes, what can be joined as one. Returns how many were sent.
    fn send_batch(&self, frames: &[&[u8]]) -> io::Result<usize> {
        // SAFETY: all-zero is a valid value of these plain structures.
        let (mut messages, mut parts) = unsafe {
            (
                MaybeUninit::<[libc::mmsghdr; BATCH]>::zeroed().assume_init(),
                MaybeUninit::<[libc::iovec; PARTS]>::zeroed().assume_init(),
            )
        };
        // The system only reads what is sent.
        let part =
            |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut joined = [const { MaybeUninit::<Joined>::uninit() }; BATCH];
        let (mut rest, mut used, mut count) = (frames, 0, 0);
        let mut counts = [0usize; BATCH];
        while let Some(first) = rest.first().filter(|_| count < BATCH) {
            let head = joined[count].write(self.joined(rest));
            if used + 2 + head.frames > PARTS {
                break;
            }
            let from = used;
            parts[used] = part(&head.vnet);
            used += 1;
            if head.frames == 1 {
                parts[used] = part(first);
                used += 1;
            } else {
                parts[used] = part(&head.headers);
                used += 1;
                for frame in &rest[..head.frames] {
                    parts[used] = part(&frame[Joined::HEADERS..]);
                    used += 1;
                }
            }
            messages[count].msg_hdr.msg_iov = &raw mut parts[from];
            messages[count].msg_hdr.msg_iovlen = used - from;
            counts[count] = head.frames;
            rest = &rest[head.frames..];
            count += 1;
        }
        // SAFETY: the first `count` messages point into `parts`, those into the frames and into `joined`, all of which live through
        // the call and are not touched until it returns.
        let sent =
            unsafe { libc::sendmmsg(self.fd(), messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(counts[..sent as usize].iter().sum()) }
    }
}
