//! Table `arp_proxy`: every address of the fabric, answered by the switch.

use std::net::Ipv4Addr;

use inca_wire::address::MacAddr;

use super::entry::{Call, TableEntry, exact};

/// The address asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// ARP target.
    pub target_ip: Ipv4Addr,
}

/// What the switch does with the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Answers with this address.
    Reply {
        /// Ethernet address of the target.
        mac: MacAddr,
    },
    /// Drops it.
    Unknown,
}

/// The table's entry.
pub fn entry(key: Key, action: Action) -> TableEntry {
    let call = match action {
        Action::Reply { mac } => Call::new("reply", [("mac", mac.0.into())]),
        Action::Unknown => Call::new("unknown", []),
    };
    exact("arp_proxy", [("target_ip", key.target_ip.into())], call)
}
