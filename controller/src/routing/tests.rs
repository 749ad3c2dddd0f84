use inca_p4runtime::p4v1::update;
use proptest::prelude::*;

use super::*;
use crate::graph::{Attachment, Graph, Port};
use crate::program::{EntryAction, Match, TableEntry};

fn port(device: DeviceId, port: u16) -> Port {
    Port { device, port }
}

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

/// Two leaves (1, 2), two spines (3, 4), host 1 at leaf 1, host 2 at leaf 2.
fn leaf_spine() -> (Graph, Addresses) {
    let mut graph = Graph::default();
    for (leaf, spine) in [(1, 3), (1, 4), (2, 3), (2, 4)] {
        graph.add_link(port(leaf, spine), port(spine, leaf));
    }
    for host in [1, 2] {
        let attachment = Attachment { at: port(host, 9), mac: MacAddr([2, 0, 0, 0, 0, host as u8]) };
        graph.add_host(ip(host as u8), attachment);
    }
    let services = (1..=4).map(|device| (device, Ipv4Addr::new(10, 255, 0, device as u8))).collect();
    (graph, Addresses { announce: Some(Ipv4Addr::new(10, 255, 255, 254)), services })
}

fn network(graph: &Graph, addresses: &Addresses) -> Network {
    Network::new(addresses.clone()).next(graph, true)
}

fn routes(graph: &Graph, addresses: &Addresses) -> BTreeMap<DeviceId, Vec<Entry>> {
    let network = network(graph, addresses);
    graph.switches().map(|device| (device, network.rules(device).iter().map(Rule::entry).collect())).collect()
}

fn table(entries: &[Entry], name: &str) -> Vec<TableEntry> {
    entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Table(entry) if entry.table == name => Some(entry.clone()),
            _ => None,
        })
        .collect()
}

/// Ports by which a switch forwards to an address.
fn ports(entries: &[Entry], address: Ipv4Addr) -> Vec<u64> {
    let routes = table(entries, "ipv4_lpm");
    let to = |entry: &&TableEntry| entry.matches[0].1 == Match::Lpm(address.into(), 32);
    let found: Vec<_> = routes.iter().filter(to).collect();
    assert!(found.len() <= 1, "{found:?}");
    let Some(entry) = found.first() else { return Vec::new() };
    let EntryAction::Select(calls) = &entry.action else { panic!("{entry:?}") };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    calls.iter().map(|call| number(call.params[0].1.as_bytes())).collect()
}

#[test]
fn equal_paths_are_shared_and_nothing_is_routed_back() {
    let (graph, addresses) = leaf_spine();
    let routes = routes(&graph, &addresses);
    assert_eq!(ports(&routes[&1], ip(1)), [9]);
    assert_eq!(ports(&routes[&1], ip(2)), [3, 4]);
    assert_eq!(ports(&routes[&3], ip(2)), [2]);
    assert_eq!(ports(&routes[&1], addresses.services[&3]), [3]);
    assert_eq!(ports(&routes[&3], addresses.services[&4]), [1, 2]);
    assert_eq!(ports(&routes[&1], addresses.services[&1]), [0; 0], "its own");
}

#[test]
fn a_lost_link_leaves_the_other_path() {
    let (full, addresses) = leaf_spine();
    let mut graph = Graph::default();
    for (leaf, spine) in [(1, 4), (2, 3), (2, 4)] {
        graph.add_link(port(leaf, spine), port(spine, leaf));
    }
    full.hosts().for_each(|(address, attachment)| graph.add_host(address, attachment));
    let routes = routes(&graph, &addresses);
    assert_eq!(ports(&routes[&1], ip(2)), [4]);
    assert_eq!(ports(&routes[&3], ip(1)), [2], "around");
}

#[test]
fn unreachable_addresses_have_no_route() {
    let (full, addresses) = leaf_spine();
    let mut graph = Graph::default();
    full.switches().for_each(|device| graph.add_switch(device));
    full.hosts().for_each(|(address, attachment)| graph.add_host(address, attachment));
    let routes = routes(&graph, &addresses);
    assert_eq!(ports(&routes[&1], ip(2)), [0; 0]);
    assert_eq!(ports(&routes[&1], ip(1)), [9]);
}

#[test]
fn arp_is_answered_for_every_address_and_known_senders_stay_with_their_switch() {
    let (graph, addresses) = leaf_spine();
    let routes = routes(&graph, &addresses);
    for entries in routes.values() {
        assert_eq!(table(entries, "arp_proxy").len(), 2 + 4 + 1);
    }
    assert_eq!(table(&routes[&1], "arp_sender").len(), 1);
    assert_eq!(table(&routes[&3], "arp_sender").len(), 0);
}

#[test]
fn no_key_occurs_twice_and_every_entry_fits_the_program() {
    let (graph, addresses) = leaf_spine();
    let info = crate::program::built_in().unwrap().info;
    for (device, entries) in routes(&graph, &addresses) {
        let mut keys = std::collections::HashSet::new();
        for entry in entries.into_iter().chain(base(&addresses)).chain(own(&addresses, device)) {
            let Entry::Table(entry) = entry else { panic!("{entry:?}") };
            let message = entry.message(&info).unwrap();
            assert!(keys.insert(inca_p4runtime::EntryKey::from(&message)), "{entry:?}");
        }
    }
}

#[test]
fn switches_may_be_the_source_at_links_alone() {
    let (graph, addresses) = leaf_spine();
    let routes = routes(&graph, &addresses);
    let links = |device| -> Vec<Match> {
        table(&routes[&device], "link").iter().map(|entry| entry.matches[0].1.clone()).collect()
    };
    assert_eq!(links(1), [Match::Exact(3_u16.into()), Match::Exact(4_u16.into())], "not the host's port 9");
    assert_eq!(table(&base(&addresses), "switch_address").len(), 4);
}

#[test]
fn a_host_that_appears_costs_its_own_entries_alone() {
    let (mut graph, addresses) = leaf_spine();
    let before = network(&graph, &addresses);
    graph.add_host(ip(3), Attachment { at: port(1, 8), mac: MacAddr([2, 0, 0, 0, 0, 3]) });
    let after = before.next(&graph, false);
    let of = |device| after.changes(&before, device);
    // ARP and a route everywhere, and at its own switch how it shows itself.
    assert_eq!([1, 2, 3, 4].map(|device| of(device).len()), [3, 2, 2, 2]);
    assert!((1..=4).flat_map(of).all(|change| change.kind == update::Type::Insert));
    assert_eq!(before.changes(&after, 2).len(), 2);
    assert!(before.changes(&after, 2).iter().all(|change| change.kind == update::Type::Delete));
    assert_eq!(after.changes(&after, 1), []);
}

#[test]
fn many_hosts_have_fewer_next_hops_each_and_use_all_of_them_together() {
    // 16 ways from leaf to leaf.
    let mut graph = Graph::default();
    for spine in 0..16 {
        for leaf in 1..=2 {
            graph.add_link(port(leaf, spine + 1), port(100 + spine, leaf));
        }
    }
    let addresses = Addresses::default();
    for (hosts, most) in [(200, 16), (257, 8), (1000, 4), (2000, 2), (3000, 1)] {
        let mut graph = graph.clone();
        for number in 0..hosts {
            let [high, low] = u16::to_be_bytes(number);
            let attachment = Attachment { at: port(2, 100 + number), mac: MacAddr([2, 0, 0, 0, high, low]) };
            graph.add_host(Ipv4Addr::new(10, 0, high, low), attachment);
        }
        let rules = network(&graph, &addresses).rules(1);
        let mut used = BTreeMap::<u16, usize>::new();
        let mut members = 0;
        for rule in &rules {
            if let Rule::Route(_, ports) = rule {
                assert_eq!(ports.len(), most, "{hosts} hosts");
                members += ports.len();
                ports.iter().for_each(|port| *used.entry(*port).or_default() += 1);
            }
        }
        assert!(members <= 4096, "{hosts} hosts: {members}");
        let (least, largest) = (used.values().min().unwrap(), used.values().max().unwrap());
        assert_eq!(used.len(), 16, "{hosts} hosts");
        assert!(*largest <= 2 * least, "{hosts} hosts: {used:?}");
    }
}

/// Six switches with any links and hosts.
fn any_graph() -> impl Strategy<Value = Graph> {
    let links = prop::collection::vec((1u16..=6, 1u16..=6), 0..12);
    let hosts = prop::collection::vec((1u8..20, 1u16..=6, 40u16..44, 0u8..3), 0..12);
    (links, hosts, 0u16..=6).prop_map(|(links, hosts, missing)| {
        let mut graph = Graph::default();
        (1..=6).for_each(|device| graph.add_switch(device));
        for (number, (a, b)) in (0..).zip(links) {
            graph.add_link(port(a, 2 * number), port(b, 2 * number + 1));
        }
        for (address, device, at, mac) in hosts {
            graph.add_host(
                ip(address),
                Attachment { at: port(device, at), mac: MacAddr([2, 0, 0, 0, 0, mac]) },
            );
        }
        graph.remove_switch(missing);
        graph
    })
}

proptest! {
    /// Changes lead from what one topology asks for to what another does, whatever they are.
    #[test]
    fn changes_lead_from_any_topology_to_any_other(before in any_graph(), after in any_graph()) {
        let (_, addresses) = leaf_spine();
        let info = crate::program::built_in().unwrap().info;
        let key = |rule: &Rule| {
            let Entry::Table(entry) = rule.entry() else { panic!("{rule:?}") };
            inca_p4runtime::EntryKey::from(&entry.message(&info).unwrap())
        };
        let known = network(&before, &addresses);
        let next = known.next(&after, !before.same_links(&after));
        for device in 1..=6 {
            let held = |network: &Network| -> BTreeMap<_, _> {
                network.rules(device).into_iter().map(|rule| (key(&rule), rule)).collect()
            };
            let (mut holds, wanted) = (held(&known), held(&next));
            prop_assert_eq!(wanted.len(), next.rules(device).len(), "a key twice");
            let mut went = true;
            for change in next.changes(&known, device) {
                let key = key(&change.rule);
                match change.kind {
                    update::Type::Delete => {
                        prop_assert!(went, "it goes after others have come");
                        prop_assert_eq!(holds.remove(&key), Some(change.rule));
                    }
                    kind => {
                        went = false;
                        let old = holds.insert(key, change.rule.clone());
                        prop_assert_eq!(old.is_some(), kind == update::Type::Modify);
                        prop_assert_ne!(old, Some(change.rule), "nothing changes");
                    }
                }
            }
            prop_assert_eq!(&holds, &wanted);
            // The same as if nothing had been known.
            prop_assert_eq!(&held(&network(&after, &addresses)), &wanted);
        }
    }
}
