//! Table `replica`: the addresses of each copy a switch sends.

use std::net::Ipv4Addr;

use inca_p4runtime::Value;
use inca_wire::address::MacAddr;

use super::entry::{Call, TableEntry, exact};

/// A copy: a replica id, together with the port unique in the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// 1 to 65535.
    pub replica: u16,
    /// Port the copy leaves by.
    pub egress_port: u16,
}

/// What a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A result, to a host or to a switch below.
    ToChild(Addresses),
    /// A sum's low plane, to the switch above.
    ToParentLow(Addresses),
    /// A sum's high plane.
    ToParentHigh(Addresses),
}

/// The addresses of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The receiver's MAC.
    pub dst_mac: MacAddr,
    /// The receiver's address.
    pub dst_ip: Ipv4Addr,
    /// The receiver's UDP port; [`UDP_PORT`](inca_wire::packet::UDP_PORT) for a switch.
    pub dst_port: u16,
    /// Header field `member`: in a result the receiver's rank, or 0xFFFF for a switch; in a sum the sender's index.
    pub member: u16,
}

impl Addresses {
    fn params(&self) -> [(&'static str, Value); 4] {
        [
            ("dst_mac", self.dst_mac.0.into()),
            ("dst_ip", self.dst_ip.into()),
            ("dst_port", self.dst_port.into()),
            ("member", self.member.into()),
        ]
    }
}

/// The table's entry.
pub fn entry(key: Key, action: &Action) -> TableEntry {
    let call = match action {
        Action::ToChild(addresses) => Call::new("to_child", addresses.params()),
        Action::ToParentLow(addresses) => Call::new("to_parent_low", addresses.params()),
        Action::ToParentHigh(addresses) => Call::new("to_parent_high", addresses.params()),
    };
    exact("replica", [("replica", key.replica.into()), ("egress_port", key.egress_port.into())], call)
}
