//! The fabric as planning sees it: switches, links that carry traffic both ways, and where hosts are attached.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use inca_wire::address::MacAddr;

/// P4Runtime device id of a switch.
pub type DeviceId = u16;

/// A port of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Port {
    /// The switch.
    pub device: DeviceId,
    /// Its port.
    pub port: u16,
}

/// Where a host is attached, and its address there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Attachment {
    /// The switch port.
    pub at: Port,
    /// The host's Ethernet address.
    #[serde(with = "mac")]
    pub mac: MacAddr,
}

/// Switches, links and hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Every switch with the ports that lead to other switches: own port, and the port at the other end.
    switches: BTreeMap<DeviceId, BTreeMap<u16, Port>>,
    hosts: BTreeMap<Ipv4Addr, Attachment>,
}

impl Graph {
    /// Adds a switch without links.
    pub fn add_switch(&mut self, device: DeviceId) {
        self.switches.entry(device).or_default();
    }

    /// Adds a link that carries traffic both ways; its switches too.
    pub fn add_link(&mut self, a: Port, b: Port) {
        self.switches.entry(a.device).or_default().insert(a.port, b);
        self.switches.entry(b.device).or_default().insert(b.port, a);
    }

    /// Adds a host, or moves it.
    pub fn add_host(&mut self, address: Ipv4Addr, attachment: Attachment) {
        self.hosts.insert(address, attachment);
    }

    /// Adds everything of another graph; where they differ, the other one is right.
    pub fn merge(&mut self, other: &Self) {
        for (device, links) in &other.switches {
            self.switches.entry(*device).or_default().extend(links);
        }
        self.hosts.extend(&other.hosts);
    }

    /// Removes a switch, its links and its hosts.
    pub fn remove_switch(&mut self, device: DeviceId) {
        self.switches.remove(&device);
        self.switches.values_mut().for_each(|links| links.retain(|_, end| end.device != device));
        self.hosts.retain(|_, attachment| attachment.at.device != device);
    }

    /// All switches, in order.
    pub fn switches(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.switches.keys().copied()
    }

    /// Whether there is such a switch.
    pub fn has_switch(&self, device: DeviceId) -> bool {
        self.switches.contains_key(&device)
    }

    /// Whether another graph has the same switches and links.
    pub fn same_links(&self, other: &Self) -> bool {
        self.switches == other.switches
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = (Ipv4Addr, Attachment)> + '_ {
        self.hosts.iter().map(|(address, attachment)| (*address, *attachment))
    }

    /// Where a host is attached.
    pub fn host(&self, address: Ipv4Addr) -> Option<Attachment> {
        self.hosts.get(&address).copied()
    }

    /// Ports of a switch that lead to other switches, with the other end.
    pub fn links(&self, device: DeviceId) -> impl Iterator<Item = (u16, Port)> + '_ {
        self.switches.get(&device).into_iter().flatten().map(|(port, end)| (*port, *end))
    }

    /// Neighbouring switches, each once.
    pub fn neighbours(&self, device: DeviceId) -> BTreeSet<DeviceId> {
        self.links(device).map(|(_, end)| end.device).filter(|end| *end != device).collect()
    }

    /// The links from one switch to a neighbour: own port and the other end.
    pub fn links_between(&self, from: DeviceId, to: DeviceId) -> impl Iterator<Item = (u16, Port)> + '_ {
        self.links(from).filter(move |(_, end)| end.device == to)
    }

    /// Whether what leaves by one port comes in by the other: over one link, or through one switch whose only links to the two are
    /// these, so that it has no other way.
    pub fn leads_to(&self, from: Port, to: Port) -> bool {
        let end = |port: Port| self.switches.get(&port.device)?.get(&port.port).copied();
        let (Some(there), Some(back)) = (end(from), end(to)) else { return false };
        let only = |port: Port| {
            self.links_between(there.device, port.device).eq([(end(port).map_or(0, |end| end.port), port)])
        };
        there == to || there.device == back.device && from.device != to.device && only(from) && only(to)
    }

    /// Hops from a switch to every switch it can reach.
    pub fn distances(&self, from: DeviceId) -> BTreeMap<DeviceId, u32> {
        let mut distances = BTreeMap::new();
        if !self.has_switch(from) {
            return distances;
        }
        distances.insert(from, 0);
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((device, distance)) = queue.pop_front() {
            for next in self.neighbours(device) {
                if let std::collections::btree_map::Entry::Vacant(vacant) = distances.entry(next) {
                    vacant.insert(distance + 1);
                    queue.push_back((next, distance + 1));
                }
            }
        }
        distances
    }

    /// Switches that can reach each other, in groups.
    pub fn components(&self) -> Vec<BTreeSet<DeviceId>> {
        let mut components: Vec<BTreeSet<DeviceId>> = Vec::new();
        for device in self.switches() {
            if !components.iter().any(|component| component.contains(&device)) {
                components.push(self.distances(device).into_keys().collect());
            }
        }
        components
    }
}

/// An Ethernet address as six numbers.
mod mac {
    use inca_wire::address::MacAddr;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(mac: &MacAddr, serializer: S) -> Result<S::Ok, S::Error> {
        mac.0.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MacAddr, D::Error> {
        Ok(MacAddr(Deserialize::deserialize(deserializer)?))
    }
}
