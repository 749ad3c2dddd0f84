//! Table `ipv4_lpm`: routes; equal-cost next hops are chosen by the selector's hash.

use std::net::Ipv4Addr;

use super::entry::{Call, EntryAction, Match, TableEntry};

/// Most next hops of one route: the size of a selector group in the P4 program.
pub const MAX_NEXT_HOPS: usize = 16;

/// A prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Network address; bits below the prefix are cleared.
    pub dst_addr: Ipv4Addr,
    /// Bits that count, 0 to 32.
    pub prefix_len: u8,
}

impl Key {
    /// The route of a single address.
    pub const fn host(dst_addr: Ipv4Addr) -> Self {
        Self { dst_addr, prefix_len: 32 }
    }
}

/// The table's entry: forwards by one of the ports, of which the first [`MAX_NEXT_HOPS`] count.
pub fn entry(key: Key, ports: &[u16]) -> TableEntry {
    let mask = u32::MAX.checked_shl(32 - u32::from(key.prefix_len.min(32))).unwrap_or(0);
    let network = Ipv4Addr::from(u32::from(key.dst_addr) & mask);
    let calls = ports.iter().take(MAX_NEXT_HOPS).map(|&port| Call::new("forward", [("port", port.into())]));
    TableEntry {
        table: "ipv4_lpm",
        matches: vec![("dst_addr", Match::Lpm(network.into(), key.prefix_len))],
        action: EntryAction::Select(calls.collect()),
        priority: 0,
    }
}
