//! Why joining or leaving failed.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::protocol::Closed;
use crate::transport::{DriverError, InterfaceError};

/// Why a rank could not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The options make no sense.
    #[error("{what}")]
    Options {
        /// What is wrong, and what would be valid.
        what: String,
    },
    /// The data interface can't be used.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// No socket on the data address.
    #[error("binding a UDP socket to {address}")]
    Bind {
        /// The host's data-plane address.
        address: Ipv4Addr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The controller's address is no URI.
    #[error("controller {controller:?}: must be like http://192.0.2.1:9559")]
    Uri {
        /// What was given.
        controller: String,
    },
    /// The controller did not answer in time.
    #[error("controller {controller} not reached within {timeout:?}: {reason}")]
    Unreachable {
        /// Its address.
        controller: String,
        /// How long it was tried.
        timeout: Duration,
        /// The last failure.
        reason: String,
    },
    /// The controller speaks another version.
    #[error("controller {controller} speaks protocol version {theirs}, this agent {ours}")]
    Version {
        /// Its address.
        controller: String,
        /// Its version.
        theirs: u32,
        /// Our version.
        ours: u32,
    },
    /// The controller refused.
    #[error("controller refused rank {rank} of job {job}: {message} ({code:?})")]
    Refused {
        /// Name of the job.
        job: String,
        /// This rank.
        rank: u32,
        /// gRPC status.
        code: tonic::Code,
        /// The controller's words.
        message: String,
    },
    /// The generation ended before it began.
    #[error("job {job}: {closed}")]
    Closed {
        /// Name of the job.
        job: String,
        /// Why.
        closed: Closed,
    },
    /// Not all ranks came, or the network does not know this host.
    #[error("job {job}: not started after {timeout:?}: {waiting_for}")]
    Timeout {
        /// Name of the job.
        job: String,
        /// How long it was waited for.
        timeout: Duration,
        /// In words.
        waiting_for: String,
        /// Ranks that were missing at last.
        missing_ranks: Vec<u32>,
    },
    /// The controller's assignment makes no sense.
    #[error("job {job}: the controller's assignment is unusable: {what}")]
    Assignment {
        /// Name of the job.
        job: String,
        /// What is wrong.
        what: String,
    },
    /// The data plane could not be started.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A thread or runtime could not be made.
    #[error("job {job}: {what}")]
    System {
        /// Name of the job.
        job: String,
        /// What failed.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Why leaving was not orderly. The rank has left all the same: its stream to the controller is closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The controller did not confirm.
    #[error("job {job}: the controller did not confirm that rank {rank} left: {reason}")]
    Unconfirmed {
        /// Name of the job.
        job: String,
        /// This rank.
        rank: u32,
        /// Why.
        reason: String,
    },
}
