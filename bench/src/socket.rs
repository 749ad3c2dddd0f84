//! Raw sockets that send and receive frames in batches, so that the generator takes little of the switch's time.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Frames per system call.
const BATCH: usize = 64;
/// How much of a frame is received: all headers. The rest would only be copied.
const FRAME_ROOM: usize = 128;
/// Linux's `PACKET_IGNORE_OUTGOING`.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// A packet socket on one interface, with its receive buffers.
pub(crate) struct BatchSocket {
    fd: OwnedFd,
    buffers: Vec<u8>,
    lengths: [usize; BATCH],
}

impl BatchSocket {
    /// Opens the interface; frames sent by this side are not received.
    pub(crate) fn open(interface: &str) -> io::Result<Self> {
        let name = CString::new(interface)?;
        // SAFETY: `name` ends with a zero byte and outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, protocol.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for (level, name, value) in [
            (libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1),
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20),
            (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 32 << 20),
        ] {
            let length = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: the pointer is to a c_int of that length that outlives the call.
            if unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), length) }
                != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointer is to a sockaddr_ll of that length that outlives the call.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { fd, buffers: vec![0; BATCH * FRAME_ROOM], lengths: [0; BATCH] })
    }

    /// Receives what is there, at most one batch; the frames are then at [`frame`](Self::frame).
    pub(crate) fn receive(&mut self) -> io::Result<usize> {
        // SAFETY: all-zero bytes are valid iovec and mmsghdr values.
        let (mut parts, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for (index, buffer) in self.buffers.chunks_exact_mut(FRAME_ROOM).enumerate() {
            parts[index].iov_base = buffer.as_mut_ptr().cast();
            parts[index].iov_len = buffer.len();
            headers[index].msg_hdr.msg_iov = &raw mut parts[index];
            headers[index].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: headers and what they point to live until the call returns, with the lengths given.
        let got = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        for (length, header) in self.lengths.iter_mut().zip(&headers[..got as usize]) {
            *length = (header.msg_len as usize).min(FRAME_ROOM);
        }
        Ok(got as usize)
    }

    /// Frame `index` of the batch received last, its headers at least.
    pub(crate) fn frame(&self, index: usize) -> &[u8] {
        &self.buffers[index * FRAME_ROOM..][..self.lengths[index]]
    }

    /// Sends these frames; a full queue is left to the loss recovery.
    pub(crate) fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        // SAFETY: all-zero bytes are valid iovec and mmsghdr values.
        let (mut parts, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut frames = frames.peekable();
        while frames.peek().is_some() {
            let mut count = 0;
            for frame in frames.by_ref().take(BATCH) {
                parts[count].iov_base = frame.as_ptr().cast_mut().cast();
                parts[count].iov_len = frame.len();
                headers[count].msg_hdr.msg_iov = &raw mut parts[count];
                headers[count].msg_hdr.msg_iovlen = 1;
                count += 1;
            }
            // SAFETY: headers and what they point to live until the call returns; the kernel only reads the frames.
            let sent = unsafe {
                libc::sendmmsg(self.fd.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT)
            };
            if sent < 0 {
                let error = io::Error::last_os_error();
                if !matches!(error.kind(), io::ErrorKind::WouldBlock)
                    && error.raw_os_error() != Some(libc::ENOBUFS)
                {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Waits until one of the sockets can be read and marks which can; false after the time.
pub(crate) fn wait(sockets: &[BatchSocket], ready: &mut [bool], time: Duration) -> io::Result<bool> {
    let mut waits: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd { fd: socket.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: pointer and length are those of a mutable vector that outlives the call.
    let count = unsafe {
        libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, time.as_millis() as libc::c_int)
    };
    for (ready, wait) in ready.iter_mut().zip(&waits) {
        *ready = wait.revents != 0;
    }
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count > 0) }
}
