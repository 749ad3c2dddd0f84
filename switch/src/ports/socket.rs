//! A packet socket (AF_PACKET, raw) bound to one interface.

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::{PortError, PortSpec, PortStats};

/// Frames a system call moves.
pub(crate) const BATCH: usize = 32;
/// Room for one frame. Larger than any MTU, since a sender with segmentation offload hands over up to 64 KiB at once.
const FRAME_ROOM: usize = 66 * 1024;
/// Receive buffer asked for, in bytes: a burst must wait here while the switch is at work.
const RECEIVE_BUFFER: usize = 64 << 20;
const SEND_BUFFER: usize = 16 << 20;

/// A bound socket.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: Socket,
}

/// Buffers that one call fills.
pub(crate) struct RxBatch {
    room: Vec<u8>,
    /// Length and whether the frame was cut, of each frame.
    frames: Vec<(usize, bool)>,
}

impl RxBatch {
    pub(crate) fn new() -> Self {
        Self { room: vec![0; BATCH * FRAME_ROOM], frames: Vec::with_capacity(BATCH) }
    }

    /// Frames of the last call, and whether each was cut.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.room.chunks_exact(FRAME_ROOM).zip(&self.frames).map(|(room, (len, cut))| (&room[..*len], *cut))
    }
}

fn set_option<T>(socket: &Socket, level: i32, option: i32, value: &T) -> io::Result<()> {
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
    pub(crate) fn open(spec: &PortSpec) -> Result<Self, PortError> {
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
        Ok(Self { socket })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Reads up to a batch of frames. Returns how many messages came; own frames are left out of the batch.
    pub(crate) fn receive(&self, batch: &mut RxBatch) -> io::Result<usize> {
        batch.frames.clear();
        // SAFETY: all-zero is a valid value of these plain structures.
        let (mut messages, mut addresses) = unsafe {
            (
                MaybeUninit::<[libc::mmsghdr; BATCH]>::zeroed().assume_init(),
                MaybeUninit::<[libc::sockaddr_ll; BATCH]>::zeroed().assume_init(),
            )
        };
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        let rooms = batch.room.chunks_exact_mut(FRAME_ROOM);
        for (((message, address), part), room) in
            messages.iter_mut().zip(&mut addresses).zip(&mut parts).zip(rooms)
        {
            part.iov_base = room.as_mut_ptr().cast();
            part.iov_len = FRAME_ROOM;
            message.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: every message points to one part and one address of the arrays above and the parts into `room`, all of
        // which live through the call; their lengths are given.
        let got = unsafe {
            libc::recvmmsg(
                self.fd(),
                messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let got = got as usize;
        let mut kept = 0;
        for i in 0..got {
            if addresses[i].sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            let len = messages[i].msg_len as usize;
            if kept != i {
                let from = i * FRAME_ROOM;
                batch.room.copy_within(from..from + len.min(FRAME_ROOM), kept * FRAME_ROOM);
            }
            batch.frames.push((len.min(FRAME_ROOM), len > FRAME_ROOM));
            kept += 1;
        }
        Ok(got)
    }

    /// Sends frames. Returns how many are done with: sent, or refused for good (and counted). The rest should be tried
    /// again when the socket is writable.
    pub(crate) fn send(&self, frames: &[&[u8]], stats: &mut PortStats) -> usize {
        let mut done = 0;
        while done < frames.len() {
            let chunk = &frames[done..frames.len().min(done + BATCH)];
            match self.send_batch(chunk) {
                Ok(0) => break,
                Ok(sent) => {
                    stats.tx_frames += sent as u64;
                    stats.tx_bytes += chunk[..sent].iter().map(|f| f.len() as u64).sum::<u64>();
                    done += sent;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e)
                    if e.kind() == io::ErrorKind::WouldBlock || e.raw_os_error() == Some(libc::ENOBUFS) =>
                {
                    break;
                }
                Err(_) => {
                    // Link down, larger than the MTU: this frame never goes.
                    stats.tx_failed += 1;
                    done += 1;
                }
            }
        }
        done
    }

    fn send_batch(&self, frames: &[&[u8]]) -> io::Result<usize> {
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        let n = frames.len().min(BATCH);
        for ((message, part), frame) in messages.iter_mut().zip(&mut parts).zip(frames) {
            // The system only reads what is sent.
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `n` messages point to one part each, the parts to the frames, all of which live through the call.
        let sent = unsafe { libc::sendmmsg(self.fd(), messages.as_mut_ptr(), n as u32, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}
