//! Table `arp_sender`: hosts attached to this switch, so that only news reach the controller.

use std::net::Ipv4Addr;

use inca_wire::address::MacAddr;

use super::entry::{Call, TableEntry, exact};

/// A known host as it shows itself in ARP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Port the host is attached to.
    pub ingress_port: u16,
    /// Its Ethernet address.
    pub sender_mac: MacAddr,
    /// Its IPv4 address.
    pub sender_ip: Ipv4Addr,
}

/// The table's entry; its only action is `NoAction`.
pub fn entry(key: Key) -> TableEntry {
    exact(
        "arp_sender",
        [
            ("ingress_port", key.ingress_port.into()),
            ("sender_mac", key.sender_mac.0.into()),
            ("sender_ip", key.sender_ip.into()),
        ],
        Call::new("NoAction", []),
    )
}
