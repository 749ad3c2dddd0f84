use std::net::Ipv4Addr;

use super::*;
use crate::program::{self, Entry, MulticastGroup, arp_proxy, ipv4_lpm, tree};
use inca_wire::address::MacAddr;

fn info() -> P4Info {
    program::built_in().unwrap().info
}

fn state(info: &P4Info, entries: &[Entry]) -> State {
    super::state(info, entries).unwrap()
}

fn updates(info: &P4Info, installed: &State, desired: &State) -> Vec<Update> {
    steps(info, installed, [desired].into_iter()).iter().map(Step::update).collect()
}

fn proxy(last: u8, mac: u8) -> Entry {
    let key = arp_proxy::Key { target_ip: Ipv4Addr::new(10, 0, 0, last) };
    arp_proxy::entry(key, arp_proxy::Action::Reply { mac: MacAddr([2, 0, 0, 0, 0, mac]) }).into()
}

/// Types of the updates, and applies them.
fn applied(installed: &mut State, updates: Vec<Update>) -> Vec<&'static str> {
    updates
        .into_iter()
        .map(|update| {
            let (key, entity) = shared(update.entity.clone().unwrap()).unwrap();
            let known = match update.r#type() {
                p4v1::update::Type::Delete => installed.remove(&key).is_some(),
                _ => installed.insert(key, entity).is_some(),
            };
            let name = update.r#type().as_str_name();
            assert_eq!(known, name != "INSERT", "{update:?}");
            name
        })
        .collect()
}

#[test]
fn only_differences_are_written() {
    let info = info();
    let mut installed = state(&info, &[proxy(1, 1), proxy(2, 2), proxy(3, 3)]);
    let desired = state(&info, &[proxy(2, 2), proxy(3, 9), proxy(4, 4)]);
    let steps = updates(&info, &installed, &desired);
    assert_eq!(applied(&mut installed, steps), ["DELETE", "MODIFY", "INSERT"]);
    assert_eq!(installed, desired);
    assert!(updates(&info, &installed, &desired).is_empty());
}

#[test]
fn groups_come_before_trees_and_go_after_them() {
    let info = info();
    let group = Entry::Multicast(MulticastGroup { id: 3, replicas: vec![(1, 1)] });
    let entries = [tree::entry(tree::Key { tree_id: 1 }).into(), group];
    let (empty, full) = (State::new(), state(&info, &entries));
    let is_group = |update: &Update| normal(update.entity.clone().unwrap()).unwrap().0 == Key::Group(3);
    let order = |from, to| updates(&info, from, to).iter().map(is_group).collect::<Vec<_>>();
    assert_eq!(order(&empty, &full), [true, false]);
    assert_eq!(order(&full, &empty), [false, true]);
}

#[test]
fn padding_and_order_make_no_difference() {
    let info = info();
    let route = ipv4_lpm::entry(ipv4_lpm::Key::host(Ipv4Addr::new(0, 0, 1, 2)), &[1, 2]);
    let one = route.message(&info).unwrap();
    let mut other =
        ipv4_lpm::entry(ipv4_lpm::Key::host(Ipv4Addr::new(0, 0, 1, 2)), &[2, 1]).message(&info).unwrap();
    if let Some(p4v1::field_match::FieldMatchType::Lpm(lpm)) = &mut other.r#match[0].field_match_type {
        lpm.value = vec![0, 0, 1, 2];
    }
    other.counter_data = Some(p4v1::CounterData { byte_count: 1, packet_count: 1 });
    assert_eq!(normal(one.into()), normal(other.into()));
    let mut zero = proxy(0, 0).entity(&info).unwrap();
    if let Some(entity::Entity::TableEntry(entry)) = &mut zero.entity
        && let Some(p4v1::field_match::FieldMatchType::Exact(exact)) = &mut entry.r#match[0].field_match_type
    {
        exact.value = vec![0, 10, 0, 0, 0];
    }
    assert_eq!(normal(zero), normal(proxy(0, 0).entity(&info).unwrap()));
}

#[test]
fn default_entries_are_left_alone() {
    let entry = TableEntry { is_default_action: true, ..Default::default() };
    assert_eq!(normal(entry.into()), None);
}

#[test]
fn entities_are_described_by_names() {
    let info = info();
    let (key, _) = normal(proxy(1, 1).entity(&info).unwrap()).unwrap();
    let text = describe(&info, &key);
    assert!(text.starts_with("table arp_proxy [target_ip="), "{text}");
}
