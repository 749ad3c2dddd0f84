use inca_wire::packet::{Format, Header};
use proptest::prelude::*;

use super::*;

const NONCE: u64 = 0xC0FFEE;

/// A switch and its port.
type End = (DeviceId, u16);

/// Switches 1 to n with ports 1 to 4, and the wires between them: a probe sent into a wire comes out at the other end.
struct Net {
    now: Instant,
    discovery: Discovery,
    /// Directions: from, to.
    wires: BTreeMap<Port, Port>,
    reports: Vec<Change>,
    sent: Vec<(Port, Vec<u8>)>,
}

fn port(device: DeviceId, port: u16) -> Port {
    Port { device, port }
}

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

impl Net {
    fn new(switches: u16, wires: &[(End, End)]) -> Self {
        let mut text =
            "discovery: {ports: 4, probe_interval_ms: 1000, link_timeout_ms: 3000}\nswitches:\n".to_owned();
        for id in 1..=switches {
            text += &format!("  - {{name: s{id}, target: 'h:{id}', device_id: {id}}}\n");
        }
        let inventory = Inventory::from_text("test", &text).unwrap();
        let now = Instant::now();
        let mut net = Self {
            now,
            discovery: Discovery::new(now, &inventory, NONCE),
            wires: BTreeMap::new(),
            reports: Vec::new(),
            sent: Vec::new(),
        };
        for &((a, p), (b, q)) in wires {
            net.wires.insert(port(a, p), port(b, q));
            net.wires.insert(port(b, q), port(a, p));
        }
        net
    }

    fn up(switches: u16, wires: &[(End, End)]) -> Self {
        let mut net = Self::new(switches, wires);
        (1..=switches).for_each(|id| net.event(Event::SwitchUp(id)));
        net.rounds(1);
        net
    }

    /// Takes an event and carries all probes that follow from it.
    fn event(&mut self, event: Event) {
        let mut pending = vec![event];
        while let Some(event) = pending.pop() {
            for action in self.discovery.handle(self.now, event) {
                match action {
                    Action::Report(change) => self.reports.push(change),
                    Action::PacketOut { from, frame } => {
                        if LinkProbe::parse(&frame).is_ok()
                            && let Some(&Port { device, port }) = self.wires.get(&from)
                        {
                            pending.push(Event::PacketIn { device, port, reason: Reason::LinkProbe, frame });
                        } else {
                            self.sent.push((from, frame));
                        }
                    }
                }
            }
        }
    }

    fn rounds(&mut self, rounds: u32) {
        for _ in 0..rounds {
            self.now = self.discovery.next_timeout().max(self.now);
            self.event(Event::Tick);
        }
    }

    fn arp(&mut self, at: Port, arp: &Arp) {
        self.sent.clear();
        let Port { device, port } = at;
        self.event(Event::PacketIn { device, port, reason: Reason::Arp, frame: arp.emit() });
    }

    fn hosts(&self) -> Vec<Ipv4Addr> {
        self.discovery.graph().hosts().map(|(address, _)| address).collect()
    }

    fn links(&self) -> Vec<(Port, Port)> {
        let graph = self.discovery.graph();
        graph
            .switches()
            .flat_map(|device| {
                graph.links(device).map(move |(own, end)| (port(device, own), end)).collect::<Vec<_>>()
            })
            .collect()
    }
}

#[test]
fn links_are_found_both_ways_as_soon_as_both_ends_are_up() {
    let mut net = Net::new(2, &[((1, 1), (2, 3))]);
    net.event(Event::SwitchUp(1));
    assert_eq!(net.links(), []);
    // Its own probes find the first direction, the answer to them the second: no round is waited for.
    net.event(Event::SwitchUp(2));
    assert_eq!(net.links(), [(port(1, 1), port(2, 3)), (port(2, 3), port(1, 1))]);
}

#[test]
fn a_link_goes_after_three_lost_probes_and_comes_back() {
    let mut net = Net::up(2, &[((1, 1), (2, 1))]);
    net.wires.clear();
    net.reports.clear();
    net.rounds(3);
    assert_eq!(net.links().len(), 2, "three probes lost");
    net.rounds(1);
    assert_eq!(net.links(), []);
    assert_eq!(net.reports.len(), 2);
    net.wires = BTreeMap::from([(port(1, 1), port(2, 1)), (port(2, 1), port(1, 1))]);
    // Its ports are probed as if it were still there.
    net.rounds(1);
    assert_eq!(net.links().len(), 2);
}

#[test]
fn a_link_that_works_one_way_carries_nothing() {
    let mut net = Net::up(2, &[((1, 1), (2, 1))]);
    net.wires.remove(&port(2, 1));
    net.rounds(4);
    assert_eq!(net.discovery.links().collect::<Vec<_>>(), [(port(1, 1), port(2, 1))]);
    assert_eq!(net.links(), []);
}

#[test]
fn a_held_up_controller_keeps_its_links() {
    let mut net = Net::up(2, &[((1, 1), (2, 1))]);
    net.now += Duration::from_secs(3600);
    net.event(Event::Tick);
    assert_eq!(net.links().len(), 2);
}

#[test]
fn a_cable_moved_to_another_port_is_followed() {
    let mut net = Net::up(3, &[((1, 1), (2, 1))]);
    net.wires = BTreeMap::from([(port(1, 1), port(3, 1)), (port(3, 1), port(1, 1))]);
    net.rounds(1);
    assert_eq!(net.links(), [(port(1, 1), port(3, 1)), (port(3, 1), port(1, 1))]);
}

#[test]
fn a_switch_that_goes_takes_its_links_and_hosts_along() {
    let mut net = Net::up(2, &[((1, 1), (2, 1))]);
    net.arp(port(2, 2), &Arp::request(mac(1), ip(1), ip(9)));
    net.event(Event::SwitchDown(2));
    assert_eq!((net.links(), net.hosts()), (vec![], vec![]));
    net.event(Event::SwitchUp(2));
    assert_eq!((net.links().len(), net.hosts()), (2, vec![ip(1)]));
}

#[test]
fn probes_of_others_are_not_believed() {
    let mut net = Net::up(2, &[]);
    let probe = |nonce, device_id| LinkProbe { src_mac: mac(1), device_id, port: 1, nonce, ttl: 3 }.emit();
    for frame in
        [probe(NONCE + 1, 1), probe(NONCE, 9), probe(NONCE, 1 << 40), probe(NONCE, 2), vec![0; 60], vec![]]
    {
        net.event(Event::PacketIn { device: 2, port: 1, reason: Reason::LinkProbe, frame });
    }
    assert_eq!(net.discovery.links().count(), 0);
}

#[test]
fn hosts_come_from_arp_and_from_announcements() {
    let mut net = Net::up(1, &[]);
    net.arp(port(1, 2), &Arp::request(mac(1), ip(1), ip(1)));
    let header = Header::new(Opcode::Announce, Format::I32, 0, 0);
    let frame = UdpFrame::to_switch((mac(2), ip(2)), (service_mac(1), net.discovery.reserved.announce));
    let frame = frame.emit_reduction(&header, &[]).unwrap();
    net.event(Event::PacketIn { device: 1, port: 3, reason: Reason::Announce, frame });
    assert_eq!(net.hosts(), [ip(1), ip(2)]);
    assert_eq!(net.discovery.graph().host(ip(2)), Some(Attachment { at: port(1, 3), mac: mac(2) }));
    // A host that moves.
    net.reports.clear();
    net.arp(port(1, 4), &Arp::request(mac(2), ip(2), ip(2)));
    assert_eq!(net.reports, [Change::HostFound(ip(2), Attachment { at: port(1, 4), mac: mac(2) })]);
}

#[test]
fn m6_nothing_else_makes_a_host() {
    let mut net = Net::up(2, &[((1, 1), (2, 1))]);
    // At a link; no address yet (duplicate address detection); our own addresses; addresses no host has.
    net.arp(port(1, 1), &Arp::request(mac(1), ip(1), ip(2)));
    for sender in [
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.251",
        "255.255.255.255",
        "169.254.1.1",
        "10.255.0.1",
        "10.255.255.254",
    ] {
        net.arp(port(1, 2), &Arp::request(mac(1), sender.parse().unwrap(), ip(2)));
    }
    for sender in [MacAddr::default(), MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 1]), service_mac(2)] {
        net.arp(port(1, 2), &Arp::request(sender, ip(1), ip(2)));
    }
    // A router solicitation and mDNS, should a switch ever hand them over.
    let ipv6 = [&[0x33, 0x33, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD][..], &[0x60; 56]].concat();
    let mdns = UdpFrame {
        src_mac: mac(1),
        dst_mac: MacAddr([1, 0, 0x5e, 0, 0, 0xfb]),
        src_ip: ip(1),
        dst_ip: Ipv4Addr::new(224, 0, 0, 251),
        src_port: 5353,
        dst_port: 5353,
        ttl: 255,
    };
    for frame in [ipv6, mdns.emit(&[0; 40]).unwrap()] {
        for reason in [Reason::Arp, Reason::Announce, Reason::LinkProbe] {
            net.event(Event::PacketIn { device: 1, port: 2, reason, frame: frame.clone() });
        }
    }
    assert_eq!(net.hosts(), [] as [Ipv4Addr; 0]);
}

#[test]
fn a_host_at_a_port_that_becomes_a_link_is_taken_back() {
    let mut net = Net::up(2, &[]);
    net.arp(port(1, 1), &Arp::request(mac(1), ip(1), ip(2)));
    net.wires = BTreeMap::from([(port(1, 1), port(2, 1)), (port(2, 1), port(1, 1))]);
    net.rounds(IDLE_ROUNDS as u32);
    assert_eq!(net.hosts(), [] as [Ipv4Addr; 0]);
    assert!(net.reports.contains(&Change::HostLost(ip(1), Attachment { at: port(1, 1), mac: mac(1) })));
}

#[test]
fn a_new_hosts_first_question_is_answered() {
    let mut net = Net::up(2, &[((1, 1), (2, 1))]);
    net.arp(port(2, 2), &Arp::request(mac(2), ip(2), ip(2)));
    let ask = |target| Arp::request(mac(1), ip(1), target);
    for (target, owner) in [
        (ip(2), mac(2)),
        (Ipv4Addr::new(10, 255, 0, 2), service_mac(2)),
        (Ipv4Addr::new(10, 255, 255, 254), service_mac(1)),
    ] {
        net.arp(port(1, 2), &ask(target));
        assert_eq!(net.sent, [(port(1, 2), ask(target).reply(owner).emit())], "{target}");
    }
}

#[test]
fn an_unknown_target_is_looked_for_at_every_port_but_links() {
    let mut net = Net::up(2, &[((1, 1), (2, 1))]);
    let question = Arp::request(mac(1), ip(1), ip(7));
    net.arp(port(1, 2), &question);
    let asked: Vec<_> = net.sent.iter().map(|(from, _)| *from).collect();
    assert_eq!(asked, [port(1, 2), port(1, 3), port(1, 4), port(2, 2), port(2, 3), port(2, 4)]);
    assert!(net.sent.iter().all(|(_, frame)| *frame == question.emit()));
    // Its answer makes it known and ends the search.
    net.arp(port(2, 4), &question.reply(mac(7)));
    assert_eq!(net.hosts(), [ip(1), ip(7)]);
    net.sent.clear();
    net.rounds(1);
    assert!(net.sent.iter().all(|(_, frame)| Arp::parse(frame).is_err()));
}

#[test]
fn a_search_ends() {
    let mut net = Net::up(1, &[]);
    net.arp(port(1, 2), &Arp::request(mac(1), ip(1), ip(7)));
    net.rounds(SEARCH_ROUNDS);
    net.sent.clear();
    net.rounds(10);
    assert!(net.sent.iter().all(|(_, frame)| Arp::parse(frame).is_err()));
}

#[test]
fn fixed_hosts_stay_where_the_inventory_says() {
    let text = "switches: [{name: s1, target: 'h:1', device_id: 1}]\n\
                hosts: [{name: h1, address: 10.0.0.1, mac: '02:00:00:00:00:01', switch: s1, port: 2}]\n";
    let inventory = Inventory::from_text("test", text).unwrap();
    let now = Instant::now();
    let mut discovery = Discovery::new(now, &inventory, NONCE);
    discovery.handle(now, Event::SwitchUp(1));
    let frame = Arp::request(mac(9), ip(1), ip(1)).emit();
    discovery.handle(now, Event::PacketIn { device: 1, port: 3, reason: Reason::Arp, frame });
    assert_eq!(discovery.graph().host(ip(1)), Some(Attachment { at: port(1, 2), mac: mac(1) }));
}

#[test]
fn more_ports_than_the_budget_are_probed_in_turns_and_every_link_is_found() {
    // 250 switches with 4 ports in a ring: 1000 ports, 500 directions; at 10 ms that is 40 probes a tick.
    let mut text =
        "discovery: {ports: 4, probe_interval_ms: 10, link_timeout_ms: 70}\nswitches:\n".to_owned();
    for id in 1..=250 {
        text += &format!("  - {{name: s{id}, target: 'h:{id}', device_id: {id}}}\n");
    }
    let mut net = Net::new(1, &[]);
    net.discovery = Discovery::new(net.now, &Inventory::from_text("test", &text).unwrap(), NONCE);
    for id in 1..=250 {
        net.wires.insert(port(id, 1), port(id % 250 + 1, 2));
        net.wires.insert(port(id % 250 + 1, 2), port(id, 1));
    }
    (1..=250).for_each(|id| net.event(Event::SwitchUp(id)));
    assert_eq!(net.links().len(), 500);
    net.reports.clear();
    let begun = net.now;
    for _ in 0..300 {
        net.now = net.discovery.next_timeout();
        let probes = net.discovery.handle(net.now, Event::Tick);
        assert!(probes.len() <= 40, "{}", probes.len());
        for action in probes {
            let Action::PacketOut { from, frame } = action else { panic!("{action:?}") };
            if let Some(&Port { device, port }) = net.wires.get(&from) {
                net.event(Event::PacketIn { device, port, reason: Reason::LinkProbe, frame });
            }
        }
    }
    assert!(net.now - begun >= Duration::from_millis(2990));
    assert_eq!(net.reports, [], "no link seems lost while it waits for its turn");
    // Seven probes in a row are lost, whenever their turns are: a round of 500 takes 13 ticks, one of 1000 takes 25.
    net.wires.remove(&port(9, 1));
    net.rounds(9 * 25);
    assert_eq!(net.reports, [Change::LinkDown(port(9, 1), port(10, 2))]);
}

proptest! {
    /// Whatever comes up, goes down, gets lost or is said: links are only ever those that are wired, and after quiet rounds all of
    /// them.
    #[test]
    fn links_are_those_that_are_wired(steps in prop::collection::vec((0u8..4, 1u16..=3, 1u16..=4, 1u16..=3, 1u16..=4), 0..40)) {
        let mut net = Net::up(3, &[((1, 1), (2, 1)), ((2, 2), (3, 2))]);
        for (step, a, p, b, q) in steps {
            match step {
                0 => net.event(Event::SwitchDown(a)),
                1 => net.event(Event::SwitchUp(a)),
                2 => net.rounds(1),
                _ => {
                    let (from, to) = (port(a, p), port(b, q));
                    for end in [from, to] {
                        if let Some(other) = net.wires.remove(&end) {
                            net.wires.remove(&other);
                        }
                    }
                    if from != to {
                        net.wires.insert(from, to);
                        net.wires.insert(to, from);
                    }
                }
            }
        }
        (1..=3).for_each(|id| net.event(Event::SwitchUp(id)));
        net.rounds(IDLE_ROUNDS as u32 + 2);
        let wired: Vec<_> = net.wires.iter().map(|(from, to)| (*from, *to)).collect();
        prop_assert_eq!(net.links(), wired);
    }
}
