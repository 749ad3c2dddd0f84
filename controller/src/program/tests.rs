//! The typed tables against the compiled program: every name, width and number.

use std::net::Ipv4Addr;

use inca_p4runtime::P4Info;
use inca_wire::address::MacAddr;
use inca_wire::packet::{self, Format, PARENT_MEMBER};

use super::*;

fn info() -> P4Info {
    built_in().unwrap().info
}

/// One entry of every table and action.
fn samples() -> Vec<TableEntry> {
    let (ip, mac) = (Ipv4Addr::new(10, 0, 0, 1), MacAddr([2, 0, 0, 0, 0, 1]));
    let addresses = replica::Addresses { dst_mac: mac, dst_ip: ip, dst_port: 9, member: u16::MAX };
    let tree = membership::Parameters {
        generation: u32::MAX,
        slots: 16,
        first_slot: 4080,
        first_word: 32000,
        words: 32,
        format: Format::Bfp16,
        guard: 15,
        all_children: u64::MAX,
        mixed: false,
        world: u16::MAX,
        up_group: 1,
        down_group: 2,
        resend_interval: 10_000,
        own_mac: mac,
        own_ip: ip,
    };
    let mixed = membership::Parameters { mixed: true, ..tree };
    let member = |member| membership::Key { tree_id: 1, ingress_port: 254, member };
    vec![
        service::entry(service::Key { dst_addr: ip }),
        switch_address::entry(switch_address::Key { src_addr: ip }),
        link::entry(link::Key { ingress_port: 511 }),
        arp_sender::entry(arp_sender::Key { ingress_port: 1, sender_mac: mac, sender_ip: ip }),
        arp_proxy::entry(arp_proxy::Key { target_ip: ip }, arp_proxy::Action::Reply { mac }),
        arp_proxy::entry(arp_proxy::Key { target_ip: ip }, arp_proxy::Action::Unknown),
        ipv4_lpm::entry(ipv4_lpm::Key::host(ip), &[1, 2]),
        ipv4_lpm::entry(ipv4_lpm::Key { dst_addr: ip, prefix_len: 8 }, &[3]),
        tree::entry(tree::Key { tree_id: 7 }),
        membership::entry(member(0), &tree, membership::Action::Host { child: 1 << 63, replica: 5 }),
        membership::entry(member(2), &mixed, membership::Action::Host { child: 2, replica: 7 }),
        membership::entry(member(1), &mixed, membership::Action::Switch { child: 1, replica: 6 }),
        membership::entry(member(PARENT_MEMBER), &tree, membership::Action::Parent),
        replica::entry(replica::Key { replica: 1, egress_port: 254 }, &replica::Action::ToChild(addresses)),
        replica::entry(
            replica::Key { replica: 2, egress_port: 254 },
            &replica::Action::ToParentLow(addresses),
        ),
        replica::entry(
            replica::Key { replica: 3, egress_port: 254 },
            &replica::Action::ToParentHigh(addresses),
        ),
        normalize::entry(
            normalize::Key { format: Format::I32, value: 1, mask: 1 },
            &normalize::Action::Overflow,
        ),
    ]
}

#[test]
fn every_typed_entry_fits_the_compiled_program() {
    let info = info();
    for entry in samples() {
        entry.message(&info).unwrap_or_else(|error| panic!("{entry:?}: {error}"));
    }
    for format in Format::ALL {
        for entry in formats::entries(format) {
            entry.entity(&info).unwrap_or_else(|error| panic!("{format}: {error}"));
        }
    }
}

#[test]
fn every_table_and_action_of_the_program_has_a_type() {
    let info = info();
    let mut entries: Vec<_> = samples();
    for format in Format::ALL {
        entries.extend(formats::entries(format).into_iter().filter_map(|entry| match entry {
            Entry::Table(entry) => Some(entry),
            Entry::Multicast(_) => None,
        }));
    }
    let used = |table: &str, action: &str| {
        entries.iter().filter(|entry| entry.table == table).any(|entry| match &entry.action {
            EntryAction::Call(call) => call.action == action,
            EntryAction::Select(calls) => calls.iter().any(|call| call.action == action),
        })
    };
    use inca_p4runtime::p4config::action_ref::Scope;
    for table in info.tables() {
        for action in table.actions.iter().filter(|action| action.scope != Scope::DefaultOnly) {
            let action = &info.action_by_id(action.id).unwrap().name;
            // The default of `replica`: no entry of ours says it.
            if action != "unknown_replica" {
                assert!(used(&table.name, action), "table {}, action {action}", table.name);
            }
        }
    }
}

#[test]
fn lpm_keys_lose_their_host_bits() {
    let entry = ipv4_lpm::entry(ipv4_lpm::Key { dst_addr: Ipv4Addr::new(10, 1, 2, 3), prefix_len: 0 }, &[1]);
    assert_eq!(entry.matches[0].1, Match::Lpm(Ipv4Addr::UNSPECIFIED.into(), 0));
}

/// The value of `name` in `p4/constants.p4`.
fn constant(name: &str) -> u64 {
    let source = include_str!("../../../p4/constants.p4");
    let value = source.lines().find_map(|line| {
        let words: Vec<_> =
            line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    });
    let value = value.unwrap_or_else(|| panic!("{name} is not in constants.p4"));
    let parsed = value.strip_prefix("0x").map_or_else(|| value.parse(), |hex| u64::from_str_radix(hex, 16));
    parsed.unwrap_or_else(|_| panic!("{name} is {value}"))
}

#[test]
fn numbers_agree_with_the_p4_source() {
    assert_eq!(constant("SLOTS"), u64::from(SLOTS));
    assert_eq!(constant("SLOT_WORDS"), u64::from(SLOT_WORDS));
    assert_eq!(constant("CPU_PORT"), u64::from(CPU_PORT));
    assert_eq!(constant("MAX_WORDS"), packet::MAX_WORDS as u64);
    assert_eq!(constant("INCA_UDP_PORT"), u64::from(packet::UDP_PORT));
    assert_eq!(constant("INCA_VERSION"), u64::from(packet::VERSION));
    assert_eq!(constant("PARENT_MEMBER"), u64::from(PARENT_MEMBER));
    for (name, reason) in
        [("LINK_PROBE", Reason::LinkProbe), ("ARP", Reason::Arp), ("ANNOUNCE", Reason::Announce)]
    {
        assert_eq!(Reason::from_number(constant(&format!("REASON_{name}"))), Some(reason));
    }
    let tree_table = info();
    assert_eq!(tree_table.table("tree").unwrap().size, MAX_TREES as i64);
    assert_eq!(tree_table.table("replica").unwrap().size, i64::from(MAX_REPLICAS));
}

#[test]
fn events_are_named() {
    let find =
        |name: &str| events().iter().find(|(_, event)| event == name).map(|(index, _)| u64::from(*index));
    assert_eq!(find("forwarded"), Some(constant("EVENT_FORWARDED")));
    assert_eq!(find("drop_no_route"), Some(constant("DROP_NO_ROUTE")));
    let counter = info().counter("events").unwrap().size;
    assert!(
        events().len() > 20 && events().iter().all(|(index, _)| (1..counter).contains(&i64::from(*index)))
    );
}
