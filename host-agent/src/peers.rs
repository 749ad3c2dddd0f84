//! Host to host: messages between two ranks, and the exchange of parts between all of them, over TCP through the same fabric.
//!
//! What no switch can save traffic at goes straight: send and receive, and all-to-all. Every rank listens at its data address; who sends
//! connects when it first has something to say, and shows the number that the receiver gave to its group (through the reduction tree), so that
//! nobody else is listened to. A connection carries messages one way, in order.
//!
//! * `frame`: what is on a connection;
//! * `inbox`: what has come and was not asked for yet: bounded, so that who sends too much waits;
//! * `link`: sockets and threads.

mod error;
mod frame;
mod inbox;
mod link;
#[cfg(test)]
mod tests;

pub use error::PeerError;
pub(crate) use frame::{Card, Kind};
pub(crate) use link::{Limit, Peers};
