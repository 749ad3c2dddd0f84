//! Table `service`: the addresses a switch answers to itself.

use std::net::Ipv4Addr;

use super::entry::{Call, TableEntry, exact};

/// A reduction packet to this address is for this switch: its service address, or the announce address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// IPv4 destination.
    pub dst_addr: Ipv4Addr,
}

/// The table's entry; its only action is `NoAction`.
pub fn entry(key: Key) -> TableEntry {
    exact("service", [("dst_addr", key.dst_addr.into())], Call::new("NoAction", []))
}
