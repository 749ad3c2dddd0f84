//! Ordinary traffic: what every switch must know so that hosts reach each other and every service address, and so that no ARP is
//! flooded. A pure function of the topology.
//!
//! With many hosts this is by far the most of what switches hold: a route and an ARP entry for every host at every switch. So no
//! list of it is kept. A [`Network`] is one snapshot that all switches share; [`Network::changes`] derives what two of them differ
//! by for one switch. A host that appears shares the paths of the snapshot before, and costs its own entries alone.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use inca_wire::address::{MacAddr, service_mac};
use inca_wire::packet::Format;

use crate::graph::DeviceId;
use crate::inventory::Inventory;
use crate::program::node::Endpoint;
use crate::program::{Entry, formats, service, switch_address};

mod network;
mod paths;
#[cfg(test)]
mod tests;

pub use network::{Change, Network, Rule};

/// The fabric's own addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    announce: Option<Ipv4Addr>,
    services: BTreeMap<DeviceId, Ipv4Addr>,
}

impl Addresses {
    /// As the inventory has them.
    pub fn of(inventory: &Inventory) -> Self {
        let switches = inventory.switches.iter();
        Self {
            announce: Some(inventory.announce_address),
            services: switches.map(|switch| (switch.device_id, switch.service_address)).collect(),
        }
    }

    /// Service addresses of a switch of the inventory.
    pub fn service(&self, device: DeviceId) -> Option<Endpoint> {
        self.services.get(&device).map(|&ip| Endpoint { mac: service_mac(device), ip })
    }

    /// What a switch answers ARP with for each of them.
    fn proxies(&self, device: DeviceId) -> impl Iterator<Item = (Ipv4Addr, MacAddr)> + '_ {
        let announce = self.announce.map(|address| (address, service_mac(device)));
        announce.into_iter().chain(self.services.iter().map(|(&other, &ip)| (ip, service_mac(other))))
    }
}

/// What every switch needs whatever the topology is: number formats, and the addresses that only switches have.
pub fn base(addresses: &Addresses) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Format::ALL.into_iter().flat_map(formats::entries).collect();
    entries.extend(addresses.announce.map(|dst_addr| service::entry(service::Key { dst_addr }).into()));
    let of_switch = |&src_addr| switch_address::entry(switch_address::Key { src_addr }).into();
    entries.extend(addresses.services.values().map(of_switch));
    entries
}

/// What one switch needs besides: its own service address.
pub fn own(addresses: &Addresses, device: DeviceId) -> Vec<Entry> {
    let own = addresses.service(device).map(|own| service::entry(service::Key { dst_addr: own.ip }).into());
    own.into_iter().collect()
}
