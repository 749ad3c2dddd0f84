//! Ordinary traffic: what every switch must know so that hosts reach each other and every service address, and so that no ARP is
//! flooded. A pure function of the topology; what changes in the switches is found by comparing.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use inca_wire::address::{MacAddr, service_mac};
use inca_wire::packet::Format;

use crate::graph::{DeviceId, Graph};
use crate::inventory::Inventory;
use crate::program::node::Endpoint;
use crate::program::{Entry, arp_proxy, arp_sender, formats, ipv4_lpm, link, service, switch_address};

#[cfg(test)]
mod tests;

/// The fabric's own addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    announce: Ipv4Addr,
    services: BTreeMap<DeviceId, Ipv4Addr>,
}

impl Addresses {
    /// As the inventory has them.
    pub fn of(inventory: &Inventory) -> Self {
        let switches = inventory.switches.iter();
        Self {
            announce: inventory.announce_address,
            services: switches.map(|switch| (switch.device_id, switch.service_address)).collect(),
        }
    }

    /// Service addresses of a switch of the inventory.
    pub fn service(&self, device: DeviceId) -> Option<Endpoint> {
        self.services.get(&device).map(|&ip| Endpoint { mac: service_mac(device), ip })
    }
}

/// What a switch needs whatever the topology is: number formats, its own addresses and those of all switches.
pub fn base(addresses: &Addresses, device: DeviceId) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Format::ALL.into_iter().flat_map(formats::entries).collect();
    let own = addresses.service(device).map(|service| service.ip);
    for dst_addr in own.into_iter().chain([addresses.announce]) {
        entries.push(service::entry(service::Key { dst_addr }).into());
    }
    let of_switch = |&src_addr| switch_address::entry(switch_address::Key { src_addr }).into();
    entries.extend(addresses.services.values().map(of_switch));
    entries
}

/// Routes, links and ARP of every switch.
pub fn routes(graph: &Graph, addresses: &Addresses) -> BTreeMap<DeviceId, Vec<Entry>> {
    let mut tables: BTreeMap<DeviceId, Vec<Entry>> =
        graph.switches().map(|device| (device, arp(graph, addresses, device))).collect();
    for (&device, table) in &mut tables {
        table.extend(
            graph.links(device).map(|(ingress_port, _)| link::entry(link::Key { ingress_port }).into()),
        );
    }
    // Everything behind one switch shares its next hops.
    let mut behind: BTreeMap<DeviceId, Vec<Ipv4Addr>> = BTreeMap::new();
    for (address, attachment) in graph.hosts() {
        let device = attachment.at.device;
        behind.entry(device).or_default().push(address);
        if let Some(table) = tables.get_mut(&device) {
            table.push(ipv4_lpm::entry(ipv4_lpm::Key::host(address), &[attachment.at.port]).into());
        }
    }
    for (&device, &address) in &addresses.services {
        behind.entry(device).or_default().push(address);
    }
    for (target, addresses) in behind {
        let distances = graph.distances(target);
        for (&device, &distance) in distances.iter().filter(|(_, distance)| **distance > 0) {
            let nearer = |next: &DeviceId| distances.get(next) == Some(&(distance - 1));
            let ports: Vec<u16> =
                graph.links(device).filter(|(_, end)| nearer(&end.device)).map(|(port, _)| port).collect();
            if let Some(table) = tables.get_mut(&device) {
                let route =
                    |address: &Ipv4Addr| ipv4_lpm::entry(ipv4_lpm::Key::host(*address), &ports).into();
                table.extend(addresses.iter().map(route));
            }
        }
    }
    tables
}

fn arp(graph: &Graph, addresses: &Addresses, device: DeviceId) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut answer = |target_ip, mac: MacAddr| {
        entries.push(arp_proxy::entry(arp_proxy::Key { target_ip }, arp_proxy::Action::Reply { mac }).into());
    };
    answer(addresses.announce, service_mac(device));
    for (&other, &address) in &addresses.services {
        answer(address, service_mac(other));
    }
    for (address, attachment) in graph.hosts() {
        answer(address, attachment.mac);
    }
    for (sender_ip, attachment) in graph.hosts().filter(|(_, attachment)| attachment.at.device == device) {
        let key = arp_sender::Key { ingress_port: attachment.at.port, sender_mac: attachment.mac, sender_ip };
        entries.push(arp_sender::entry(key).into());
    }
    entries
}
