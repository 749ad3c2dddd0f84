//! The thin shell around [`crate::protocol`]: a UDP socket, a clock and a thread per job.
//!
//! ```text
//!  callers ──Start/Cancel──► driver thread ◄──► Endpoint (pure)
//!     ▲                        │      ▲
//!     └── oneshot per call ────┘      └── UDP socket: GSO runs out, recvmmsg/GRO batches in
//! ```

mod call;
mod driver;
mod interface;
mod socket;

pub use call::AllreduceError;
pub use driver::DriverError;
pub use interface::{DataInterface, InterfaceError};

pub(crate) use call::{Call, CallResult, LentTensor, block_on};
pub(crate) use driver::{DriverHandle, OnClosed, spawn};

/// Binds the data socket of a job to a free port of the host's data-plane address.
pub(crate) fn bind(address: std::net::Ipv4Addr) -> std::io::Result<std::net::UdpSocket> {
    socket::DataSocket::bind(address)
}
