//! Counters of an endpoint.

use std::time::Duration;

/// What an endpoint has sent, received and ignored since the generation began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Contributions sent, repetitions included.
    pub transmissions: u64,
    /// Contributions sent again after a timeout.
    pub retransmissions: u64,
    /// Probes sent.
    pub probes: u64,
    /// Probe replies received.
    pub probe_replies: u64,
    /// Results accepted, all passes.
    pub results: u64,
    /// Chunks finished.
    pub chunks: u64,
    /// Passes beyond the first.
    pub extra_passes: u64,
    /// UDP payload bytes of contributions sent.
    pub sent_bytes: u64,
    /// UDP payload bytes of results accepted.
    pub received_bytes: u64,
    /// Datagrams that are no well-formed packet, or not as long as the chunk.
    pub garbage: u64,
    /// Packets of another tree, generation, member, format or kind.
    pub foreign: u64,
    /// Results that are not awaited (any more): duplicates and late ones.
    pub stale: u64,
    /// Results that lack contributions.
    pub incomplete: u64,
    /// Times a window was halved.
    pub window_reductions: u64,
    /// Slots that may be in flight now, over all trees.
    pub window: u64,
    /// Largest smoothed round-trip time of the trees.
    pub smoothed_rtt: Option<Duration>,
}
