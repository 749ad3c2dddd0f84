//! Table `switch_address`: who may not be forged. Ordinary packets with such a source pass only by a [`link`](super::link).

use std::net::Ipv4Addr;

use super::entry::{Call, TableEntry, exact};

/// A switch's service address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// IPv4 source.
    pub src_addr: Ipv4Addr,
}

/// The table's entry; its only action is `NoAction`.
pub fn entry(key: Key) -> TableEntry {
    exact("switch_address", [("src_addr", key.src_addr.into())], Call::new("NoAction", []))
}
