//! Which ports face each other and where hosts are, learnt from probes and from what hosts say: a pure state machine.
//!
//! Neither P4Runtime nor BMv2 tells of ports or links, so a probe leaves by every port of every switch. The switch at the other
//! end hands it to the controller: that is one direction of a link. A direction is down when too many probes in a row did not
//! come back; counting probes rather than seconds, a controller that was held up does not take the fabric for broken.
//!
//! Hosts are learnt from ARP of a sender that its switch does not know yet and from ANNOUNCE packets, at ports that are not
//! links. Nothing else makes a host: no IPv6 chatter, no multicast, no address probes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use inca_wire::address::{MAC_PREFIX, MacAddr, service_mac};
use inca_wire::frame::{Arp, ArpOperation, UdpFrame};
use inca_wire::lldp::LinkProbe;
use inca_wire::packet::Opcode;

use crate::graph::{Attachment, DeviceId, Graph, Port};
use crate::inventory::{Inventory, SwitchSpec};
use crate::program::Reason;

#[cfg(test)]
mod tests;

/// Most probes a second, answers not counted: what one core sends, takes back and looks at beside its other work.
pub const PROBES_PER_SECOND: u32 = 4000;
/// Ports without a known link are probed in every so many rounds, after the first few rounds of a switch.
const IDLE_ROUNDS: u64 = 10;
/// Rounds after a switch came up in which all its ports are probed.
const EAGER_ROUNDS: u64 = 5;
/// Rounds in which ports that lost their link are probed like links: it may come back.
const MOURNING_ROUNDS: u64 = 300;
/// How many rounds an address that was asked for, and that nobody has, is looked for.
const SEARCH_ROUNDS: u32 = 20;
/// Addresses looked for at a time: what hosts ask for is not to be trusted.
const MAX_SEARCHES: usize = 256;

/// What happens to discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A switch can be used.
    SwitchUp(DeviceId),
    /// A switch can't be used any more.
    SwitchDown(DeviceId),
    /// A switch handed a packet to the controller.
    PacketIn {
        /// The switch.
        device: DeviceId,
        /// Port the packet came in by.
        port: u16,
        /// Why it was handed over.
        reason: Reason,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Time has passed; due at [`Discovery::next_timeout`].
    Tick,
}

/// What discovery wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a frame out of a port.
    PacketOut {
        /// From where.
        from: Port,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Tell the operator.
    Report(Change),
}

/// A change of the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Probes arrive over this direction of a link.
    LinkUp(Port, Port),
    /// They do not any more.
    LinkDown(Port, Port),
    /// A host is here, newly or instead of elsewhere.
    HostFound(Ipv4Addr, Attachment),
    /// A host was taken back: its port turned out to be a link.
    HostLost(Ipv4Addr, Attachment),
}

/// The state machine.
#[derive(Debug)]
pub struct Discovery {
    nonce: u64,
    interval: Duration,
    /// Probes in a row that may get lost.
    patience: u32,
    switches: BTreeMap<DeviceId, Switch>,
    /// Directions of links by the receiving port.
    links: BTreeMap<Port, Link>,
    /// Ports that lost their link, and the round in which they become ports like others.
    lost: BTreeMap<Port, u64>,
    hosts: BTreeMap<Ipv4Addr, Host>,
    /// Addresses asked for that nobody has: who asked, and rounds left.
    searches: BTreeMap<Ipv4Addr, (Arp, u32)>,
    reserved: Reserved,
    next_tick: Instant,
    round: u64,
    /// Ports that are still to be probed in this round.
    unprobed: VecDeque<Port>,
}

#[derive(Debug)]
struct Switch {
    ports: Vec<u16>,
    is_up: bool,
    up_in_round: u64,
}

#[derive(Debug)]
struct Link {
    from: Port,
    unanswered: u32,
}

#[derive(Debug)]
struct Host {
    attachment: Attachment,
    /// Given by the inventory: not to be learnt elsewhere.
    is_fixed: bool,
}

/// Addresses that are the fabric's own.
#[derive(Debug)]
struct Reserved {
    announce: Ipv4Addr,
    services: BTreeMap<Ipv4Addr, DeviceId>,
}

impl Discovery {
    /// A fabric of which nothing is known yet. `nonce` marks this controller's probes; it must be hard to guess.
    pub fn new(now: Instant, inventory: &Inventory, nonce: u64) -> Self {
        let settings = inventory.discovery;
        let patience = settings.link_timeout.as_micros().div_ceil(settings.probe_interval.as_micros().max(1));
        let port_of = |name: &str, port| {
            let switch: Option<&SwitchSpec> = inventory.switches.iter().find(|switch| switch.name == name);
            switch.map(|switch| Port { device: switch.device_id, port })
        };
        Self {
            nonce,
            interval: settings.probe_interval,
            patience: patience.clamp(1, 1 << 20) as u32,
            switches: inventory
                .switches
                .iter()
                .map(|switch| {
                    let ports = switch.ports.clone();
                    (switch.device_id, Switch { ports, is_up: false, up_in_round: 0 })
                })
                .collect(),
            links: BTreeMap::new(),
            lost: BTreeMap::new(),
            hosts: inventory
                .hosts
                .iter()
                .filter_map(|host| {
                    let attachment = Attachment { at: port_of(&host.switch, host.port)?, mac: host.mac };
                    Some((host.address, Host { attachment, is_fixed: true }))
                })
                .collect(),
            searches: BTreeMap::new(),
            reserved: Reserved {
                announce: inventory.announce_address,
                services: inventory
                    .switches
                    .iter()
                    .map(|switch| (switch.service_address, switch.device_id))
                    .collect(),
            },
            next_tick: now,
            round: 0,
            unprobed: VecDeque::new(),
        }
    }

    /// When [`Event::Tick`] is due.
    pub fn next_timeout(&self) -> Instant {
        self.next_tick
    }

    /// Takes an event.
    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::SwitchUp(device) => self.switch_up(device, &mut actions),
            Event::SwitchDown(device) => self.switch_down(device, &mut actions),
            Event::PacketIn { device, port, reason, frame } => {
                let at = Port { device, port };
                match reason {
                    Reason::LinkProbe => self.link_probe(at, &frame, &mut actions),
                    Reason::Arp => self.arp(at, &frame, &mut actions),
                    Reason::Announce => self.announce(at, &frame, &mut actions),
                }
            }
            Event::Tick if now >= self.next_tick => self.tick(now, &mut actions),
            Event::Tick => {}
        }
        actions
    }

    /// Takes over hosts that an earlier controller knew: they do not announce themselves again.
    pub fn restore_hosts(&mut self, hosts: impl Iterator<Item = (Ipv4Addr, Attachment)>) {
        for (address, attachment) in hosts {
            if self.is_host(address, attachment.mac) && self.switches.contains_key(&attachment.at.device) {
                self.hosts.entry(address).or_insert(Host { attachment, is_fixed: false });
            }
        }
    }

    /// Usable switches, links that work both ways between them, and hosts attached to them.
    pub fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        let is_up = |device| self.switches.get(&device).is_some_and(|switch| switch.is_up);
        for (&device, switch) in &self.switches {
            if switch.is_up {
                graph.add_switch(device);
            }
        }
        for (&to, link) in &self.links {
            let works_back = self.links.get(&link.from).is_some_and(|back| back.from == to);
            if works_back && is_up(to.device) && is_up(link.from.device) {
                graph.add_link(link.from, to);
            }
        }
        for (&address, host) in &self.hosts {
            if is_up(host.attachment.at.device) {
                graph.add_host(address, host.attachment);
            }
        }
        graph
    }

    /// Directions of links, sending port first.
    pub fn links(&self) -> impl Iterator<Item = (Port, Port)> + '_ {
        self.links.iter().map(|(&to, link)| (link.from, to))
    }

    /// Hosts known, at switches that are away too.
    pub fn hosts(&self) -> impl Iterator<Item = (Ipv4Addr, Attachment)> + '_ {
        self.hosts.iter().map(|(&address, host)| (address, host.attachment))
    }

    fn switch_up(&mut self, device: DeviceId, actions: &mut Vec<Action>) {
        let round = self.round;
        let Some(switch) = self.switches.get_mut(&device) else { return };
        switch.is_up = true;
        switch.up_in_round = round;
        let ports = switch.ports.clone();
        for port in ports {
            self.probe(Port { device, port }, actions);
        }
    }

    fn switch_down(&mut self, device: DeviceId, actions: &mut Vec<Action>) {
        let Some(switch) = self.switches.get_mut(&device) else { return };
        switch.is_up = false;
        let gone: Vec<_> = self
            .links
            .iter()
            .filter(|(to, link)| to.device == device || link.from.device == device)
            .map(|(to, _)| *to)
            .collect();
        for to in gone {
            self.drop_link(to, actions);
        }
    }

    fn drop_link(&mut self, to: Port, actions: &mut Vec<Action>) {
        if let Some(link) = self.links.remove(&to) {
            for end in [link.from, to] {
                self.lost.insert(end, self.round + MOURNING_ROUNDS);
            }
            actions.push(Action::Report(Change::LinkDown(link.from, to)));
        }
    }

    /// One round, or what of it may be sent at a time.
    fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        // A round that comes late is not made up for.
        self.next_tick = now + self.interval;
        if self.unprobed.is_empty() {
            self.begin_round(actions);
        }
        let share = (self.interval.as_secs_f64() * f64::from(PROBES_PER_SECOND)).max(1.0) as usize;
        let share = share.min(self.unprobed.len());
        for from in self.unprobed.drain(..share).collect::<Vec<_>>() {
            // It may have gone since the round began.
            if self.switches.get(&from.device).is_some_and(|switch| switch.is_up) {
                self.probe(from, actions);
            }
        }
    }

    /// Whom a round probes: links always, other ports now and then.
    fn begin_round(&mut self, actions: &mut Vec<Action>) {
        self.round += 1;
        let silent: Vec<_> = self
            .links
            .iter()
            .filter(|(_, link)| link.unanswered >= self.patience)
            .map(|(to, _)| *to)
            .collect();
        for to in silent {
            self.drop_link(to, actions);
        }
        let round = self.round;
        self.lost.retain(|_, until| round < *until);
        let mut senders: BTreeSet<Port> = self.links.values().map(|link| link.from).collect();
        senders.extend(self.lost.keys());
        let idle_too = self.round.is_multiple_of(IDLE_ROUNDS);
        for (&device, switch) in self.switches.iter().filter(|(_, switch)| switch.is_up) {
            let all = idle_too || self.round - switch.up_in_round <= EAGER_ROUNDS;
            let ports = switch.ports.iter().map(|&port| Port { device, port });
            self.unprobed.extend(ports.filter(|port| all || senders.contains(port)));
        }
        for link in self.links.values_mut() {
            link.unanswered += 1;
        }
        self.search_round(actions);
    }

    fn probe(&self, from: Port, actions: &mut Vec<Action>) {
        let ttl = (self.interval * self.patience).as_secs().clamp(1, u16::MAX.into()) as u16;
        let probe = LinkProbe {
            src_mac: service_mac(from.device),
            device_id: from.device.into(),
            port: from.port.into(),
            nonce: self.nonce,
            ttl,
        };
        actions.push(Action::PacketOut { from, frame: probe.emit() });
    }

    fn link_probe(&mut self, to: Port, frame: &[u8], actions: &mut Vec<Action>) {
        // LLDP of others, probes of an earlier controller: nothing to learn.
        let Ok(probe) = LinkProbe::parse(frame) else { return };
        if probe.nonce != self.nonce {
            return;
        }
        let (Ok(device), Ok(port)) = (u16::try_from(probe.device_id), u16::try_from(probe.port)) else {
            return;
        };
        let from = Port { device, port };
        // A probe in flight while its switch went down must not bring the link back.
        let both_up =
            [from, to].iter().all(|end| self.switches.get(&end.device).is_some_and(|switch| switch.is_up));
        if from == to || !both_up {
            return;
        }
        match self.links.get_mut(&to) {
            Some(link) if link.from == from => {
                link.unanswered = 0;
                return;
            }
            Some(_) => self.drop_link(to, actions),
            None => {}
        }
        self.links.insert(to, Link { from, unanswered: 0 });
        actions.push(Action::Report(Change::LinkUp(from, to)));
        let phantoms: Vec<_> = self
            .hosts
            .iter()
            .filter(|(_, host)| host.attachment.at == to && !host.is_fixed)
            .map(|(ip, _)| *ip)
            .collect();
        for address in phantoms {
            if let Some(host) = self.hosts.remove(&address) {
                actions.push(Action::Report(Change::HostLost(address, host.attachment)));
            }
        }
        // The way back is known as soon as the answer arrives, rather than in the next round.
        if !self.links.contains_key(&from) {
            self.probe(to, actions);
        }
    }

    fn arp(&mut self, at: Port, frame: &[u8], actions: &mut Vec<Action>) {
        let Ok(arp) = Arp::parse(frame) else { return };
        let is_new = self.learn(at, arp.sender_ip, arp.sender_mac, actions);
        if !is_new && self.hosts.get(&arp.sender_ip).is_none_or(|host| host.attachment.at != at) {
            return;
        }
        if arp.operation != ArpOperation::Request || arp.target_ip == arp.sender_ip {
            return;
        }
        // The switch answers for known targets once it knows the sender; this one packet it gave to us instead.
        match self.mac_of(at.device, arp.target_ip) {
            Some(mac) => actions.push(Action::PacketOut { from: at, frame: arp.reply(mac).emit() }),
            None => self.search(arp, actions),
        }
    }

    fn announce(&mut self, at: Port, frame: &[u8], actions: &mut Vec<Action>) {
        let Ok((addresses, header, _)) = UdpFrame::parse_reduction(frame) else { return };
        if header.opcode == Opcode::Announce {
            self.learn(at, addresses.src_ip, addresses.src_mac, actions);
        }
    }

    /// Whether the host is news.
    fn learn(&mut self, at: Port, address: Ipv4Addr, mac: MacAddr, actions: &mut Vec<Action>) -> bool {
        let attachment = Attachment { at, mac };
        if !self.is_host(address, mac)
            || self.links.contains_key(&at)
            || !self.switches.contains_key(&at.device)
        {
            return false;
        }
        self.searches.remove(&address);
        match self.hosts.get_mut(&address) {
            Some(host) if host.is_fixed || host.attachment == attachment => false,
            Some(host) => {
                host.attachment = attachment;
                actions.push(Action::Report(Change::HostFound(address, attachment)));
                true
            }
            None => {
                self.hosts.insert(address, Host { attachment, is_fixed: false });
                actions.push(Action::Report(Change::HostFound(address, attachment)));
                true
            }
        }
    }

    fn is_host(&self, address: Ipv4Addr, mac: MacAddr) -> bool {
        let usable = !(address.is_unspecified()
            || address.is_loopback()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_link_local());
        let ours = address == self.reserved.announce
            || self.reserved.services.contains_key(&address)
            || mac.0.starts_with(&MAC_PREFIX);
        usable && !ours && !mac.is_multicast() && mac != MacAddr::default()
    }

    /// What a switch would answer for this address.
    fn mac_of(&self, asked: DeviceId, address: Ipv4Addr) -> Option<MacAddr> {
        if address == self.reserved.announce {
            return Some(service_mac(asked));
        }
        match self.reserved.services.get(&address) {
            Some(&device) => Some(service_mac(device)),
            None => self.hosts.get(&address).map(|host| host.attachment.mac),
        }
    }

    /// Asks every port that is not a link for an address; the switch there hands us the answer, since it does not know its sender.
    fn search(&mut self, arp: Arp, actions: &mut Vec<Action>) {
        if self.is_host(arp.target_ip, arp.sender_mac)
            && (self.searches.len() < MAX_SEARCHES || self.searches.contains_key(&arp.target_ip))
        {
            self.searches.insert(arp.target_ip, (arp, SEARCH_ROUNDS));
            self.ask_everywhere(&arp, actions);
        }
    }

    fn search_round(&mut self, actions: &mut Vec<Action>) {
        self.searches.retain(|_, (_, rounds)| {
            *rounds = rounds.saturating_sub(1);
            *rounds > 0
        });
        let open: Vec<_> = self.searches.values().map(|(arp, _)| *arp).collect();
        for arp in open {
            self.ask_everywhere(&arp, actions);
        }
    }

    fn ask_everywhere(&self, arp: &Arp, actions: &mut Vec<Action>) {
        for (&device, switch) in self.switches.iter().filter(|(_, switch)| switch.is_up) {
            for &port in &switch.ports {
                let from = Port { device, port };
                if !self.links.contains_key(&from) {
                    let question = Arp::request(arp.sender_mac, arp.sender_ip, arp.target_ip);
                    actions.push(Action::PacketOut { from, frame: question.emit() });
                }
            }
        }
    }
}
