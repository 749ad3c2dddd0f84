use super::*;
use crate::graph::{Attachment, Port};
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
    (graph, Addresses { announce: Ipv4Addr::new(10, 255, 255, 254), services })
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
        for entry in entries.into_iter().chain(base(&addresses, device)) {
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
    assert_eq!(table(&base(&addresses, 1), "switch_address").len(), 4);
}
