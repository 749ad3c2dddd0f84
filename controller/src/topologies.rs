//! Networks of many shapes, for tests: discovery must find exactly what is there, and trees must be right on all of them.
//!
//! Everything is in virtual time: wires carry what the state machine sends, in an order that a seed decides.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use inca_wire::address::MacAddr;
use inca_wire::frame::Arp;
use proptest::prelude::*;

use crate::discovery::{Action, Change, Discovery, Event};
use crate::graph::{Attachment, DeviceId, Graph, Port};
use crate::inventory::Inventory;
use crate::jobs::{self, Jobs};
use crate::program::Reason;
use crate::routing::{Addresses, Network, Rule};
use crate::tree::{self, Child, Member, Tree};

/// Switches 1 to `switches`, cables by device ids, and at which switch each host is.
#[derive(Debug, Clone)]
struct Shape {
    name: &'static str,
    switches: u16,
    cables: Vec<(DeviceId, DeviceId)>,
    hosts: Vec<DeviceId>,
}

/// Every shape, with about 20 switches where it comes in sizes.
fn shapes() -> Vec<Shape> {
    let mut shapes = vec![leaf_spine(), fat_tree(), dragonfly(), torus()];
    let every = |switches: u16| (1..=switches).collect::<Vec<_>>();
    shapes.push(Shape { name: "line", switches: 20, cables: line(20), hosts: every(20) });
    let mut ring = line(20);
    ring.push((20, 1));
    shapes.push(Shape { name: "ring", switches: 20, cables: ring, hosts: every(20) });
    let mut parallel = line(10);
    parallel.extend(line(10));
    parallel.extend([(3, 4), (3, 4)]);
    shapes.push(Shape { name: "parallel links", switches: 10, cables: parallel, hosts: every(10) });
    shapes.push(Shape { name: "single", switches: 1, cables: Vec::new(), hosts: vec![1; 8] });
    shapes
}

fn line(switches: u16) -> Vec<(DeviceId, DeviceId)> {
    (1..switches).map(|device| (device, device + 1)).collect()
}

/// 16 leaves with 4 hosts each, 4 spines.
fn leaf_spine() -> Shape {
    let cables = (1..=16).flat_map(|leaf| (17..=20).map(move |spine| (leaf, spine))).collect();
    Shape { name: "leaf-spine", switches: 20, cables, hosts: (1..=16).flat_map(|leaf| [leaf; 4]).collect() }
}

/// k = 4: 4 pods of 2 edge and 2 aggregation switches, 4 cores, 16 hosts.
fn fat_tree() -> Shape {
    let mut cables = Vec::new();
    for pod in 0..4 {
        let (edges, aggregations) = ([1 + 4 * pod, 2 + 4 * pod], [3 + 4 * pod, 4 + 4 * pod]);
        for edge in edges {
            cables.extend(aggregations.map(|aggregation| (edge, aggregation)));
        }
        cables.extend([
            (aggregations[0], 17),
            (aggregations[0], 18),
            (aggregations[1], 19),
            (aggregations[1], 20),
        ]);
    }
    let hosts = (0..4).flat_map(|pod| [1 + 4 * pod, 1 + 4 * pod, 2 + 4 * pod, 2 + 4 * pod]).collect();
    Shape { name: "fat-tree", switches: 20, cables, hosts }
}

/// 5 groups of 4 switches, all within a group connected, one cable between any two groups.
fn dragonfly() -> Shape {
    let mut cables = Vec::new();
    for group in 0..5 {
        for a in 0..4 {
            cables.extend((a + 1..4).map(|b| (group * 4 + a + 1, group * 4 + b + 1)));
        }
        for other in group + 1..5 {
            // Spread over the groups' switches.
            cables.push((group * 4 + (other - 1) % 4 + 1, other * 4 + group % 4 + 1));
        }
    }
    Shape { name: "dragonfly", switches: 20, cables, hosts: (1..=20).collect() }
}

/// 4 x 5, both rings closed.
fn torus() -> Shape {
    let at = |row: u16, column: u16| row % 4 * 5 + column % 5 + 1;
    let cables = (0..4)
        .flat_map(|row| (0..5).map(move |column| (row, column)))
        .flat_map(|(row, column)| {
            [(at(row, column), at(row + 1, column)), (at(row, column), at(row, column + 1))]
        })
        .collect();
    Shape { name: "torus", switches: 20, cables, hosts: (1..=20).collect() }
}

/// A shape with ports: who is cabled to whom.
struct Net {
    now: Instant,
    discovery: Discovery,
    inventory: Inventory,
    wires: BTreeMap<Port, Port>,
    hosts: Vec<(Ipv4Addr, Attachment)>,
    changes: Vec<Change>,
    packets: usize,
    rng: u64,
}

impl Net {
    fn new(shape: &Shape, seed: u64) -> Self {
        let mut text = "discovery: {ports: 24, probe_interval_ms: 200}\nswitches:\n".to_owned();
        for id in 1..=shape.switches {
            text += &format!("  - {{name: s{id}, target: 'h:{id}', device_id: {id}}}\n");
        }
        let inventory = Inventory::from_text("test", &text).unwrap();
        let mut ports: BTreeMap<DeviceId, u16> = BTreeMap::new();
        let mut next = |device| {
            let port = ports.entry(device).or_default();
            *port += 1;
            Port { device, port: *port }
        };
        let mut wires = BTreeMap::new();
        for &(a, b) in &shape.cables {
            let (a, b) = (next(a), next(b));
            wires.extend([(a, b), (b, a)]);
        }
        let hosts = (0..).zip(&shape.hosts).map(|(number, &device)| {
            let mac = MacAddr([2, 0, 0, 0, (number >> 8) as u8, number as u8]);
            (host(number), Attachment { at: next(device), mac })
        });
        let hosts = hosts.collect();
        let now = Instant::now();
        let discovery = Discovery::new(now, &inventory, seed);
        Self { now, discovery, inventory, wires, hosts, changes: Vec::new(), packets: 0, rng: seed | 1 }
    }

    /// All switches come up, in any order, and hosts speak.
    fn up(shape: &Shape, seed: u64) -> Self {
        let mut net = Self::new(shape, seed);
        let mut order: Vec<DeviceId> = (1..=shape.switches).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, net.random(at + 1));
        }
        for device in order {
            net.event(Event::SwitchUp(device));
        }
        net.rounds(2);
        for (address, attachment) in net.hosts.clone() {
            let frame = Arp::request(attachment.mac, address, address).emit();
            let Port { device, port } = attachment.at;
            net.event(Event::PacketIn { device, port, reason: Reason::Arp, frame });
        }
        net
    }

    fn random(&mut self, below: usize) -> usize {
        // xorshift64
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        (self.rng % below as u64) as usize
    }

    /// An event, and everything that follows from it; packets in flight overtake each other.
    fn event(&mut self, event: Event) {
        let mut flying: Vec<(Port, Vec<u8>)> = Vec::new();
        let mut actions = self.discovery.handle(self.now, event);
        loop {
            for action in actions {
                match action {
                    Action::PacketOut { from, frame } => flying.push((from, frame)),
                    Action::Report(change) => self.changes.push(change),
                }
            }
            if flying.is_empty() {
                return;
            }
            self.packets += 1;
            assert!(self.packets < 100_000, "a storm");
            let at = self.random(flying.len());
            let (from, frame) = flying.swap_remove(at);
            actions = match self.wires.get(&from) {
                Some(&Port { device, port }) => self
                    .discovery
                    .handle(self.now, Event::PacketIn { device, port, reason: Reason::LinkProbe, frame }),
                None => Vec::new(),
            };
        }
    }

    fn rounds(&mut self, count: u32) {
        for _ in 0..count {
            self.now = self.discovery.next_timeout();
            self.event(Event::Tick);
        }
    }

    /// The network as it was declared, without directions that stand alone.
    fn declared(&self) -> Graph {
        let mut graph = Graph::default();
        self.inventory.switches.iter().for_each(|switch| graph.add_switch(switch.device_id));
        for (&a, &b) in &self.wires {
            if self.wires.get(&b) == Some(&a) {
                graph.add_link(a, b);
            }
        }
        self.hosts.iter().for_each(|(address, attachment)| graph.add_host(*address, *attachment));
        graph
    }

    fn members(&self) -> Vec<Member> {
        (0..).zip(&self.hosts).map(|(rank, (address, _))| Member { rank, address: *address }).collect()
    }
}

fn host(number: u16) -> Ipv4Addr {
    Ipv4Addr::from(0x0A00_0001 + u32::from(number))
}

/// Everything that a tree must be: complete, connected over links that there are, every switch once, and as shallow as any.
fn check(tree: &Tree, graph: &Graph, members: &[Member], name: &str) {
    let mut ranks: Vec<u16> = tree.nodes.iter().flat_map(|node| node.ranks().map(|(rank, _)| rank)).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, members.iter().map(|member| member.rank).collect::<Vec<_>>(), "{name}");
    let devices: BTreeSet<DeviceId> = tree.nodes.iter().map(|node| node.device).collect();
    assert_eq!(devices.len(), tree.nodes.len(), "{name}: a switch twice");
    assert_eq!(tree.links().count() + 1, tree.nodes.len(), "{name}");
    for (child, parent) in tree.links() {
        assert!(
            graph.links(child.device).any(|link| link == (child.port, parent)),
            "{name}: {child:?} {parent:?}"
        );
        let node = tree.node(parent.device).unwrap();
        assert!(node.children.contains(&Child::Switch { device: child.device, port: parent.port }), "{name}");
    }
    for node in &tree.nodes {
        let mut ports: Vec<u16> = node
            .children
            .iter()
            .map(|child| match *child {
                Child::Rank { port, .. } | Child::Switch { port, .. } => port,
            })
            .chain(node.parent.map(|uplink| uplink.port))
            .collect();
        let count = ports.len();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), count, "{name}: a port of switch {} is used twice", node.device);
    }
    let leaves: BTreeSet<DeviceId> =
        members.iter().map(|member| graph.host(member.address).unwrap().at.device).collect();
    let depth = |root| {
        let distances = graph.distances(root);
        leaves.iter().map(|leaf| distances.get(leaf).copied().unwrap_or(u32::MAX)).max().unwrap()
    };
    let best = graph.switches().map(depth).min().unwrap();
    assert_eq!(tree.levels(), best + 1, "{name}: not as shallow as could be");
}

#[test]
fn discovery_is_exact_and_stable_on_every_shape_in_any_order() {
    for shape in shapes() {
        for run in 0..10 {
            let mut net = Net::up(&shape, 0x9E37_79B9 * (run + 1));
            let (name, declared) = (shape.name, net.declared());
            assert_eq!(net.discovery.graph(), declared, "{name}, run {run}");
            // Found once, and nothing comes or goes afterwards.
            assert_eq!(net.changes.len(), net.wires.len() + net.hosts.len(), "{name}: {:?}", net.changes);
            net.changes.clear();
            net.packets = 0;
            net.rounds(25);
            assert!(net.changes.is_empty(), "{name}: {:?}", net.changes);
            // 25 rounds: a probe for each direction of a link, and for every port in the three rounds after the start and in each tenth.
            let ports = usize::from(shape.switches) * 24;
            assert_eq!(net.packets, 20 * net.wires.len() + 5 * ports, "{name}");
            assert_eq!(net.discovery.graph(), declared, "{name}");
        }
    }
}

#[test]
fn trees_are_right_on_every_shape() {
    for shape in shapes() {
        let net = Net::up(&shape, 7);
        let (graph, members) = (net.discovery.graph(), net.members());
        let tree = tree::plan(&graph, &members, &BTreeSet::new()).unwrap();
        check(&tree, &graph, &members, shape.name);
        // The other root is as near where the shape has one.
        let root = tree.root().unwrap().device;
        let other = tree::plan(&graph, &members, &BTreeSet::from([root])).unwrap();
        check(&other, &graph, &members, shape.name);
        let has_another = ["leaf-spine", "fat-tree", "torus", "ring", "line"].contains(&shape.name);
        assert!(!has_another || other.root().unwrap().device != root, "{}", shape.name);
    }
}

#[test]
fn a_direction_that_brings_nothing_is_no_link() {
    for shape in shapes().into_iter().filter(|shape| !shape.cables.is_empty()) {
        let mut net = Net::new(&shape, 3);
        let (&from, &to) = net.wires.iter().next().unwrap();
        net.wires.remove(&to);
        (1..=shape.switches).for_each(|device| net.event(Event::SwitchUp(device)));
        net.rounds(20);
        assert_eq!(
            net.discovery.links().filter(|(a, b)| (*a, *b) == (from, to)).count(),
            1,
            "{}",
            shape.name
        );
        let graph = net.discovery.graph();
        assert!(graph.links(from.device).all(|(port, _)| port != from.port), "{}", shape.name);
        let declared = net.declared();
        assert!(
            graph.switches().all(|device| graph.links(device).eq(declared.links(device))),
            "{}",
            shape.name
        );
    }
}

#[test]
fn slots_are_given_out_until_they_are_used_up_and_then_the_refusal_has_the_numbers() {
    // Jobs of one rank per leaf.
    let net = Net::up(&leaf_spine(), 5);
    let mut jobs = Jobs::new(&net.inventory, 0);
    jobs.topology(net.now, net.discovery.graph());
    let hosts: Vec<Ipv4Addr> = (0..16).map(|leaf| host(4 * leaf)).collect();
    let mut member = 0;
    let mut running = 0;
    let refused = loop {
        let name = format!("job{running}");
        let mut last = Vec::new();
        for (rank, address) in (0..).zip(&hosts) {
            member += 1;
            let request = inca_p4runtime::northbound::JoinRequest {
                job: name.clone(),
                rank,
                world_size: 16,
                format: 2,
                chunk_words: 32,
                host_address: address.to_string(),
                host_udp_port: 4000,
                protocol_version: inca_wire::packet::VERSION.into(),
                ..Default::default()
            };
            last = jobs.join(net.now, member, &request).unwrap();
        }
        if !last.iter().any(|action| matches!(action, jobs::Action::Install { .. })) {
            break format!("{last:?}");
        }
        running += 1;
        assert!(running < 1000);
    };
    // 16 slots of 32 words: 32768 - 31 words hold 63 such trees.
    assert_eq!(running, 63);
    assert!(
        refused.contains("has no room for the group: 512 words are needed in a row, 481 are free"),
        "{refused}"
    );
}

/// Where a frame for a switch goes that leaves by a port, by the routes that the switches hold.
fn arrives(net: &Net, network: &Network, from: Port, to: DeviceId) -> Port {
    let service = network.addresses().service(to).unwrap().ip;
    let mut end = net.wires[&from];
    for _ in 0..20 {
        if end.device == to {
            return end;
        }
        let rules = network.rules(end.device);
        let ports = rules.iter().find_map(|rule| match rule {
            Rule::Route(address, ports) if *address == service => Some(ports.clone()),
            _ => None,
        });
        let ports = ports.unwrap();
        assert_eq!(ports.len(), 1, "which way it takes is not known: {ports:?}");
        end = net.wires[&Port { device: end.device, port: ports[0] }];
    }
    panic!("it does not arrive");
}

#[test]
fn switches_that_cannot_add_up_are_passed_through_and_routes_lead_where_the_tree_expects() {
    let mut passed = BTreeMap::<&str, usize>::new();
    for shape in shapes() {
        let net = Net::up(&shape, 13);
        let (graph, members) = (net.discovery.graph(), net.members());
        let network = Network::new(Addresses::of(&net.inventory)).next(&graph, true);
        let tree = tree::plan(&graph, &members, &BTreeSet::new()).unwrap();
        for node in &tree.nodes {
            let Some(other) = tree.passing(&graph, node.device) else {
                // The other direction of this: what carries ranks is never passed through.
                let has_ranks = node.ranks().next().is_some();
                assert!(has_ranks || shape.name == "fat-tree", "{}: switch {}", shape.name, node.device);
                continue;
            };
            *passed.entry(shape.name).or_default() += 1;
            assert_eq!(node.ranks().count(), 0);
            assert!(other.node(node.device).is_none());
            assert_eq!(other.nodes.len() + 1, tree.nodes.len());
            assert_eq!(other.links().count() + 1, other.nodes.len());
            let mut ranks: Vec<u16> =
                other.nodes.iter().flat_map(|node| node.ranks().map(|(rank, _)| rank)).collect();
            ranks.sort_unstable();
            assert!(ranks.iter().eq(members.iter().map(|member| &member.rank)));
            let mut done = BTreeSet::new();
            for node in &other.nodes {
                assert!(node.switches().all(|(child, _)| done.contains(&child)), "children first");
                done.insert(node.device);
                let Some(uplink) = node.parent else { continue };
                let from = Port { device: node.device, port: uplink.port };
                let parent = other.node(uplink.to.device).unwrap();
                let child = Child::Switch { device: node.device, port: uplink.to.port };
                assert_eq!(parent.children[usize::from(uplink.index)], child);
                // Sums up, results down.
                assert_eq!(arrives(&net, &network, from, uplink.to.device), uplink.to);
                assert_eq!(arrives(&net, &network, uplink.to, node.device), from);
            }
        }
    }
    assert_eq!(passed.get("leaf-spine"), Some(&1), "{passed:?}");
    assert!(passed.get("fat-tree").is_some_and(|count| *count >= 1), "{passed:?}");
}

#[test]
fn parallel_links_at_a_switch_are_not_passed_through() {
    // Two leaves, two cables from one of them to the spine: which one a result takes is not known.
    let shape = |cables: Vec<(u16, u16)>| Shape { name: "", switches: 3, cables, hosts: vec![1, 2] };
    for (cables, passes) in [(vec![(1, 3), (2, 3)], true), (vec![(1, 3), (1, 3), (2, 3)], false)] {
        let net = Net::up(&shape(cables), 1);
        let (graph, members) = (net.discovery.graph(), net.members());
        let tree = tree::plan(&graph, &members, &BTreeSet::new()).unwrap();
        assert!(tree.node(3).is_some());
        assert_eq!(tree.passing(&graph, 3).is_some(), passes);
    }
}

#[test]
fn a_group_goes_around_a_switch_without_room_or_through_it() {
    for (spines, devices) in [(2, vec![1, 2, 6]), (1, vec![1, 2])] {
        let cables = (1..=4).flat_map(|leaf| (0..spines).map(move |spine| (leaf, 5 + spine))).collect();
        let shape = Shape { name: "full", switches: 4 + spines, cables, hosts: vec![1, 2, 3, 4] };
        let mut net = Net::up(&shape, 1);
        // One tree fills most of a switch.
        net.inventory.trees.slots_per_tree = 3000;
        let mut jobs = Jobs::new(&net.inventory, 0);
        jobs.topology(net.now, net.discovery.graph());
        let mut member = 0;
        let mut install = |name: &str, hosts: [u16; 2]| {
            let mut last = Vec::new();
            for (rank, number) in (0..).zip(hosts) {
                member += 1;
                let request = inca_p4runtime::northbound::JoinRequest {
                    job: name.to_owned(),
                    rank,
                    world_size: 2,
                    format: 2,
                    chunk_words: 5,
                    host_address: host(number).to_string(),
                    host_udp_port: 4000,
                    protocol_version: inca_wire::packet::VERSION.into(),
                    ..Default::default()
                };
                last = jobs.join(net.now, member, &request).unwrap();
            }
            let nodes = last.into_iter().find_map(|action| match action {
                jobs::Action::Install { nodes, .. } => Some(nodes),
                _ => None,
            });
            nodes.unwrap().into_iter().map(|(device, _)| device).collect::<Vec<_>>()
        };
        let mut first = install("first", [2, 3]);
        first.sort_unstable();
        assert_eq!(first, [3, 4, 5]);
        let mut second = install("second", [0, 1]);
        second.sort_unstable();
        assert_eq!(second, devices, "{spines} spines");
        // The topology has not changed for either.
        let actions = jobs.topology(net.now, net.discovery.graph());
        assert_eq!(actions, [], "{spines} spines");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_networks_are_found_and_have_trees(
        switches in 2u16..=20,
        more in prop::collection::vec((0u16..20, 0u16..20), 0..30),
        below in prop::collection::vec(any::<prop::sample::Index>(), 19),
        places in prop::collection::vec(0u16..20, 1..40),
        seed in 1u64..,
    ) {
        // A random tree makes it connected, then cables at will; parallel ones and rings included.
        let mut cables: Vec<_> = (2..=switches).zip(&below).map(|(device, index)| (device, 1 + index.index(usize::from(device - 1)) as u16)).collect();
        cables.extend(more.iter().map(|(a, b)| (a % switches + 1, b % switches + 1)).filter(|(a, b)| a != b));
        // 24 ports a switch.
        let mut used: BTreeMap<u16, usize> = BTreeMap::new();
        cables.retain(|(a, b)| {
            let fits = [a, b].iter().all(|end| used.get(end).copied().unwrap_or(0) < 16);
            [a, b].iter().for_each(|end| *used.entry(**end).or_default() += usize::from(fits));
            fits
        });
        let mut hosts: Vec<_> = places.iter().map(|place| place % switches + 1).collect();
        let mut count: BTreeMap<u16, usize> = BTreeMap::new();
        hosts.retain(|device| { let count = count.entry(*device).or_default(); *count += 1; *count <= 8 });
        let net = Net::up(&Shape { name: "random", switches, cables, hosts }, seed);
        let graph = net.discovery.graph();
        prop_assert_eq!(&graph, &net.declared());
        // Cables that did not fit may have cut it.
        if graph.components().len() == 1 {
            let members = net.members();
            check(&tree::plan(&graph, &members, &BTreeSet::new()).unwrap(), &graph, &members, "random");
        }
    }
}

#[test]
fn a_cut_cable_is_noticed_in_time_on_every_shape() {
    for shape in shapes().into_iter().filter(|shape| !shape.cables.is_empty()) {
        let mut net = Net::up(&shape, 11);
        let (&a, &b) = net.wires.iter().next().unwrap();
        net.wires.remove(&a);
        net.wires.remove(&b);
        net.changes.clear();
        let cut = net.now;
        while net.changes.len() < 2 {
            net.rounds(1);
            assert!(net.now - cut < Duration::from_secs(2), "{}", shape.name);
        }
        assert_eq!(net.discovery.graph(), net.declared(), "{}", shape.name);
    }
}
