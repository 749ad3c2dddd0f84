//! The UDP socket of the data plane: batches in, batches out.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

use crate::protocol::{OutgoingPacket, TransmitBatch};

/// What the kernel is asked to queue for us; it may grant less (`net.core.rmem_max`).
const RECEIVE_BUFFER: usize = 8 << 20;
const SEND_BUFFER: usize = 4 << 20;

/// Largest UDP payload; a coalesced receive is as long at most.
const MAX_DATAGRAM: usize = 65_535;

/// Most bytes of one send: what an IPv4 packet holds besides its headers.
const MAX_SEND: usize = MAX_DATAGRAM - 20 - 8;

/// A switch port takes bursts of some tens of packets, so one system call hands over no more than this many.
const MAX_BURST: usize = 16;

/// An unprivileged, non-blocking UDP socket with the buffers for batches.
#[derive(Debug)]
pub(super) struct DataSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<Box<[u8]>>,
    metas: Vec<RecvMeta>,
    errors: SendErrors,
}

/// Sends that the kernel refused. Each is as good as a loss, and repeated as one.
#[derive(Debug, Default, Clone)]
pub(super) struct SendErrors {
    pub(super) count: u64,
    pub(super) last: Option<String>,
}

impl DataSocket {
    /// Binds to a free port of the host's data-plane address.
    pub(super) fn bind(address: Ipv4Addr) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        // Beyond the system's limit only with privileges, which hosts of an emulated network often have. Best effort in any case.
        if setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER).is_err() {
            let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        }
        let _ = socket.set_send_buffer_size(SEND_BUFFER);
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddrV4::new(address, 0).into())?;
        tracing::debug!(receive_buffer = socket.recv_buffer_size().unwrap_or(0), "data socket bound");
        Ok(socket.into())
    }

    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        // Without coalescing a datagram is never longer than a packet, but a foreign one may be: it must not be cut to fit.
        let size = if state.gro_segments() > 1 { MAX_DATAGRAM } else { 16 << 10 };
        Ok(Self {
            buffers: (0..BATCH_SIZE).map(|_| vec![0; size].into_boxed_slice()).collect(),
            metas: vec![RecvMeta::default(); BATCH_SIZE],
            errors: SendErrors::default(),
            state,
            socket,
        })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(super) fn errors(&self) -> &SendErrors {
        &self.errors
    }

    /// Hands one batch of received datagrams to `take`, each with its sender; false if that was all there was.
    pub(super) fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<bool> {
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        for (slice, buffer) in slices.iter_mut().zip(&mut self.buffers) {
            *slice = IoSliceMut::new(buffer);
        }
        let count = loop {
            match self.state.recv((&self.socket).into(), &mut slices, &mut self.metas) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An ICMP error of an earlier send: as good as a loss.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        };
        for (meta, buffer) in self.metas[..count].iter().zip(&self.buffers) {
            let received = &buffer[..meta.len];
            match meta.stride {
                0 => take(meta.addr, received),
                stride => received.chunks(stride).for_each(|datagram| take(meta.addr, datagram)),
            }
        }
        // The kernel returns fewer than it could where there are no more: asking again would only hear so.
        Ok(count == BATCH_SIZE)
    }

    /// Sends the batch's packets from `next` on and advances it; false if the socket is full before the end.
    pub(super) fn send(&mut self, batch: &TransmitBatch, next: &mut usize, trees: &[SocketAddr]) -> bool {
        while let Some(run) = run(&batch.packets()[*next..], self.state.max_gso_segments().min(MAX_BURST)) {
            let first = &run[0];
            let bytes: usize = run.iter().map(|packet| packet.len).sum();
            let transmit = Transmit {
                destination: trees[first.tree],
                ecn: None,
                contents: &batch.bytes()[first.start..first.start + bytes],
                segment_size: (run.len() > 1).then_some(first.len),
                src_ip: None,
            };
            match self.state.try_send((&self.socket).into(), &transmit) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    if self.errors.count == 0 {
                        tracing::warn!(%error, destination = %trees[first.tree], bytes, "sending failed; will be repeated");
                    }
                    self.errors.count += 1;
                    self.errors.last = Some(error.to_string());
                }
            }
            *next += run.len();
        }
        true
    }
}

/// The longest prefix that can leave in one system call: one destination, equal sizes, of which only the last may be smaller.
fn run(packets: &[OutgoingPacket], most: usize) -> Option<&[OutgoingPacket]> {
    let first = packets.first()?;
    let most = most.min(MAX_SEND / first.len).max(1);
    let mut len = 1;
    while len < most && len < packets.len() {
        let packet = &packets[len];
        if packet.tree != first.tree || packet.len > first.len {
            break;
        }
        len += 1;
        if packet.len < first.len {
            break;
        }
    }
    Some(&packets[..len])
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
