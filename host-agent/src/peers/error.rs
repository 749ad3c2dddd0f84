//! Why messages between hosts fail.

use std::time::Duration;

use crate::protocol::{Closed, Dtype};

/// Why a message could not be sent or received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// Ranks do not know each other's addresses yet.
    #[error(
        "job {job}: the ranks do not know each other's addresses: all of them must call connect_peers first"
    )]
    NotConnected {
        /// Name of the job.
        job: String,
    },
    /// Nobody to talk to.
    #[error("job {job}: rank {rank} is not another rank of the group, whose ranks are {members:?}")]
    Rank {
        /// Name of the job.
        job: String,
        /// The rank given.
        rank: u32,
        /// The group's ranks.
        members: Vec<u32>,
    },
    /// The other rank could not be reached, or its connection broke.
    #[error("job {job}: rank {rank} at {address}: {reason}")]
    Lost {
        /// Name of the job.
        job: String,
        /// The other rank.
        rank: u32,
        /// Where it listens.
        address: String,
        /// What happened.
        reason: String,
    },
    /// The deadline passed.
    #[error("job {job}: {what} rank {rank} (tag {tag}) exceeded its deadline of {deadline:?}")]
    DeadlineExceeded {
        /// Name of the job.
        job: String,
        /// `sending to` or `receiving from`.
        what: &'static str,
        /// The other rank.
        rank: u32,
        /// The message's tag.
        tag: u32,
        /// How long it was tried.
        deadline: Duration,
    },
    /// The message is not what was asked for. It is lost.
    #[error(
        "job {job}: rank {rank} sent {sent} {sent_dtype} elements (tag {tag}), this rank awaits {awaited} {awaited_dtype} elements"
    )]
    Shape {
        /// Name of the job.
        job: String,
        /// The sender.
        rank: u32,
        /// The message's tag.
        tag: u32,
        /// Elements sent.
        sent: u64,
        /// Their type.
        sent_dtype: String,
        /// Elements awaited.
        awaited: u64,
        /// Their type.
        awaited_dtype: Dtype,
    },
    /// Buffers that are no equal parts.
    #[error(
        "job {job}: all-to-all in a group of {world} ranks, of {input} elements to {output}: both must be as many for each rank"
    )]
    Parts {
        /// Name of the job.
        job: String,
        /// Ranks of the group.
        world: usize,
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// An exchange between all ranks failed at some of them: it has failed for all.
    #[error("job {job}: the all-to-all failed at ranks {ranks:?}{}", own.as_ref().map(|own| format!(": {own}")).unwrap_or_default())]
    Exchange {
        /// Name of the job.
        job: String,
        /// Where it failed.
        ranks: Vec<u32>,
        /// Why it failed here, if it did.
        own: Option<String>,
    },
    /// The group has ended.
    #[error("job {job}: {closed}; join again")]
    Closed {
        /// Name of the job.
        job: String,
        /// Why.
        closed: Closed,
    },
    /// No socket or thread could be made.
    #[error("job {job}: {what}: {reason}")]
    System {
        /// Name of the job.
        job: String,
        /// What failed.
        what: &'static str,
        /// Why.
        reason: String,
    },
}
