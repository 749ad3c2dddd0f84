//! The thin shell around [`crate::protocol`]: a UDP socket, a clock and a thread per job.
//!
//! ```text
//!  callers ──Start/Cancel──► driver thread ◄──► Endpoint (pure)
//!     ▲                        │      ▲
//!     └── oneshot per call ────┘      └── UDP socket: GSO runs out, recvmmsg/GRO batches in
//! ```

mod call;
mod driver;
mod engine;
mod interface;
mod mailbox;
mod socket;

pub use call::{CollectiveError, Keeper};
pub use driver::DriverError;
pub use interface::{DataInterface, InterfaceError};

pub(crate) use call::{Call, Ended, LentTensor, block_on, block_until};
pub(crate) use driver::{OnClosed, spawn};
pub(crate) use engine::Engine;
pub(crate) use mailbox::Mailbox;

/// Binds the data socket of a job to a free port of the host's data-plane address.
pub(crate) fn bind(address: std::net::Ipv4Addr) -> std::io::Result<std::net::UdpSocket> {
    socket::DataSocket::bind(address)
}

/// Packets with a payload of `len` bytes that the socket's receive buffer holds, roughly: the kernel charges up to twice their size. More
/// results in flight than that could be lost in the host itself.
pub(crate) fn receive_room(socket: &std::net::UdpSocket, len: usize) -> usize {
    let bytes = socket2::SockRef::from(socket).recv_buffer_size().unwrap_or(usize::MAX);
    // Small packets are charged for a page of memory at least.
    (bytes / (2 * len).max(4096)).max(1)
}
