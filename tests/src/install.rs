//! From a description of trees to the entries that the controller's typed tables make, and into an embedded switch.

use std::net::Ipv4Addr;

use inca_controller::program::{
    self, Call, Entry, EntryAction, Match, MulticastGroup, arp_proxy, arp_sender, formats, ipv4_lpm, membership,
    replica, service, tree,
};
use inca_p4runtime::Value;
use inca_switch::Switch;
use inca_switch::control::{self, ActionCall, MatchKey, OneShotMember, Replica, TableError};
use inca_wire::address::{ANNOUNCE_ADDRESS, service_address, service_mac};
use inca_wire::packet::{Format, PARENT_MEMBER, UDP_PORT};

use crate::rig::{ChildKind, DEVICE_ID, Neighbour, PORTS, Tree};

/// Replica ids per tree: children from 1, then one per plane of the parent.
const REPLICAS_PER_TREE: u16 = 66;

/// The entries every switch has: number formats, its own addresses.
pub fn switch_entries(device_id: u16) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Format::ALL.into_iter().flat_map(formats::entries).collect();
    for dst_addr in [service_address(device_id), ANNOUNCE_ADDRESS] {
        entries.push(Entry::Table(service::entry(service::Key { dst_addr })));
    }
    entries
}

/// The entries of these trees' parts at a switch. Slot ranges follow each other in the order given.
pub fn tree_entries(device_id: u16, trees: &[Tree]) -> Vec<Entry> {
    let (mut first_slot, mut first_word) = (0, 0);
    let mut entries = Vec::new();
    for (tree, index) in trees.iter().zip(0u16..) {
        let ids = Ids { replicas: index * REPLICAS_PER_TREE, up: 2 * index + 1, down: 2 * index + 2 };
        entries.extend(children_entries(device_id, tree, &ids));
        entries.extend(parent_entries(device_id, tree, &ids));
        entries.push(tree_entry(tree, first_slot, first_word, &ids));
        first_slot += tree.slots;
        first_word += tree.slots * u32::from(tree.words);
    }
    entries
}

struct Ids {
    replicas: u16,
    up: u16,
    down: u16,
}

impl Ids {
    fn child(&self, child: usize) -> u16 {
        self.replicas + 1 + child as u16
    }

    fn plane(&self, plane: u16) -> u16 {
        self.replicas + REPLICAS_PER_TREE - 1 + plane
    }
}

fn tree_entry(tree: &Tree, first_slot: u32, first_word: u32, ids: &Ids) -> Entry {
    let action = tree::Action {
        generation: tree.generation,
        slots: tree.slots,
        first_slot,
        first_word,
        words: tree.words,
        format: tree.format,
        guard: tree.guard.into(),
        all_children: tree.all_children(),
        world: tree.world,
        is_root: tree.parent.is_none(),
        up_group: if tree.parent.is_some() { ids.up } else { 0 },
        down_group: ids.down,
        resend_interval: tree.resend_interval_us,
    };
    Entry::Table(tree::entry(tree::Key { tree_id: tree.tree_id }, &action))
}

fn children_entries(device_id: u16, tree: &Tree, ids: &Ids) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut copies = Vec::new();
    for (index, child) in tree.children.iter().enumerate() {
        let (bit, id) = (1 << index, ids.child(index));
        let (action, dst_port) = match child.kind {
            ChildKind::Host { udp_port } => (membership::Action::HostChild { child: bit, replica: id }, udp_port),
            ChildKind::Switch { .. } => (membership::Action::SwitchChild { child: bit, replica: id }, UDP_PORT),
        };
        let key = membership::Key { tree_id: tree.tree_id, ingress_port: child.at.port, member: child.member };
        entries.push(Entry::Table(membership::entry(key, action)));
        let addresses = addresses(device_id, child.at, dst_port, child.member);
        let key = replica::Key { replica: id };
        entries.push(Entry::Table(replica::entry(key, &replica::Action::ToChild(addresses))));
        copies.push((child.at.port, id));
    }
    entries.push(Entry::Multicast(MulticastGroup { id: ids.down, replicas: copies }));
    entries
}

fn parent_entries(device_id: u16, tree: &Tree, ids: &Ids) -> Vec<Entry> {
    let Some(parent) = tree.parent else { return Vec::new() };
    let key = membership::Key { tree_id: tree.tree_id, ingress_port: parent.at.port, member: PARENT_MEMBER };
    let addresses = addresses(device_id, parent.at, UDP_PORT, parent.member);
    let (low, high) = (ids.plane(0), ids.plane(1));
    let group = MulticastGroup { id: ids.up, replicas: vec![(parent.at.port, low), (parent.at.port, high)] };
    vec![
        Entry::Table(membership::entry(key, membership::Action::Parent)),
        Entry::Table(replica::entry(replica::Key { replica: low }, &replica::Action::ToParentLow(addresses))),
        Entry::Table(replica::entry(replica::Key { replica: high }, &replica::Action::ToParentHigh(addresses))),
        Entry::Multicast(group),
    ]
}

fn addresses(device_id: u16, to: Neighbour, dst_port: u16, member: u16) -> replica::Addresses {
    replica::Addresses {
        src_mac: service_mac(device_id),
        dst_mac: to.mac,
        src_ip: service_address(device_id),
        dst_ip: to.ip,
        dst_port,
        member,
    }
}

/// Address that is routed to a port of the rig and to nothing else.
pub fn marker_address(port: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, port as u8)
}

/// The entries of the rig's ordinary traffic: routes to every neighbour, one with several next hops, known hosts, ARP.
pub fn rig_entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut route = |dst_addr, prefix_len, ports: &[u16]| {
        entries.push(Entry::Table(ipv4_lpm::entry(ipv4_lpm::Key { dst_addr, prefix_len }, ports)));
    };
    for port in PORTS {
        route(Neighbour::host(port).ip, 32, &[port]);
        route(marker_address(port), 32, &[port]);
        route(Neighbour::switch(port).ip, 32, &[port]);
    }
    route(Ipv4Addr::new(172, 16, 0, 0), 15, &[5, 6, 7]);
    route(Ipv4Addr::new(172, 16, 2, 0), 24, &[8]);
    for port in PORTS {
        let host = Neighbour::host(port);
        let key = arp_sender::Key { ingress_port: port, sender_mac: host.mac, sender_ip: host.ip };
        entries.push(Entry::Table(arp_sender::entry(key)));
        let reply = arp_proxy::Action::Reply { mac: host.mac };
        entries.push(Entry::Table(arp_proxy::entry(arp_proxy::Key { target_ip: host.ip }, reply)));
    }
    for target_ip in [service_address(DEVICE_ID), ANNOUNCE_ADDRESS] {
        let reply = arp_proxy::Action::Reply { mac: service_mac(DEVICE_ID) };
        entries.push(Entry::Table(arp_proxy::entry(arp_proxy::Key { target_ip }, reply)));
    }
    entries
}

/// Why an entry can't be installed in an embedded switch.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The program has no object of this name.
    #[error("the program has no {what} {name}")]
    Unknown {
        /// `table`, `action of that table`, `match field` or `parameter`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The switch refuses the table entry.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The switch refuses the multicast group.
    #[error(transparent)]
    Replication(#[from] control::ReplicationError),
}

/// Installs an entry; one with the same key is replaced.
///
/// # Errors
/// If the program has no such table, field, action or parameter, or a value does not fit.
pub fn install(switch: &mut Switch, entry: &Entry) -> Result<(), InstallError> {
    match entry {
        Entry::Multicast(group) => {
            let replicas: Vec<Replica> =
                group.replicas.iter().map(|&(port, instance)| Replica { port, instance }).collect();
            if switch.multicast_get(group.id.into()).is_some() {
                switch.multicast_modify(group.id.into(), replicas)?;
            } else {
                switch.multicast_insert(group.id.into(), replicas)?;
            }
        }
        Entry::Table(entry) => {
            let (table, entry) = table_entry(switch, entry)?;
            match switch.table_insert(table, entry.clone()) {
                Err(TableError::AlreadyExists { .. }) => switch.table_modify(table, entry)?,
                result => result?,
            }
        }
    }
    Ok(())
}

fn table_entry(
    switch: &Switch,
    entry: &program::TableEntry,
) -> Result<(inca_switch::program::TableId, control::TableEntry), InstallError> {
    let program = switch.program();
    let unknown = |what, name: &str| InstallError::Unknown { what, name: name.to_owned() };
    let table = program.table(entry.table).ok_or_else(|| unknown("table", entry.table))?;
    let info = program.table_info(table).ok_or_else(|| unknown("table", entry.table))?;
    let mut keys = Vec::new();
    for field in &info.fields {
        let found = entry.matches.iter().find(|(name, _)| *name == field.name);
        let (_, given) = found.ok_or_else(|| unknown("match field", &field.name))?;
        keys.push(match given {
            Match::Exact(value) => MatchKey::Exact(value.as_bytes().to_vec()),
            Match::Lpm(value, prefix_len) => {
                MatchKey::Lpm { value: value.as_bytes().to_vec(), prefix_len: u32::from(*prefix_len) }
            }
            Match::Ternary(value, mask) => {
                MatchKey::Ternary { value: value.as_bytes().to_vec(), mask: mask.as_bytes().to_vec() }
            }
        });
    }
    let call = |call: &Call| -> Result<ActionCall, InstallError> {
        let action = program
            .table_action(table, call.action)
            .ok_or_else(|| unknown("action of that table", call.action))?;
        let params = &program.action_info(action).ok_or_else(|| unknown("action", call.action))?.params;
        let args = params.iter().map(|param| {
            let found = call.params.iter().find(|(name, _)| *name == param.name);
            found.map(|(_, value): &(_, Value)| value.as_bytes().to_vec()).ok_or_else(|| unknown("parameter", &param.name))
        });
        Ok(ActionCall { action, args: args.collect::<Result<_, _>>()? })
    };
    let action = match &entry.action {
        EntryAction::Call(one) => control::EntryAction::Call(call(one)?),
        EntryAction::Select(calls) => {
            let members = calls.iter().map(|one| Ok(OneShotMember { call: call(one)?, weight: 1, watch_port: None }));
            control::EntryAction::OneShot(members.collect::<Result<_, InstallError>>()?)
        }
    };
    let entry =
        control::TableEntry { keys, priority: entry.priority, action, metadata: Vec::new(), idle_timeout_ns: 0 };
    Ok((table, entry))
}
