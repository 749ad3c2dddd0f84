//! From a description of trees to the entries that the controller's typed tables make, and into an embedded switch.

use std::net::Ipv4Addr;

use inca_controller::program::node::{Child, Endpoint, Parent, Share, TreeNode};
use inca_controller::program::{
    self, Call, Entry, EntryAction, Match, arp_proxy, arp_sender, formats, ipv4_lpm, link, service,
    switch_address,
};
use inca_p4runtime::Value;
use inca_switch::Switch;
use inca_switch::control::{self, ActionCall, MatchKey, OneShotMember, Replica, TableError};
use inca_wire::address::{ANNOUNCE_ADDRESS, service_address, service_mac};
use inca_wire::packet::Format;

use crate::rig::{self, ChildKind, DEVICE_ID, Neighbour, PORTS, Tree};

/// The entries every switch has: number formats, its own addresses.
pub fn switch_entries(device_id: u16) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Format::ALL.into_iter().flat_map(formats::entries).collect();
    for dst_addr in [service_address(device_id), ANNOUNCE_ADDRESS] {
        entries.push(service::entry(service::Key { dst_addr }).into());
    }
    entries
}

/// The entries of these trees' parts at a switch. Their shares of its memory and ids follow each other in the order given.
pub fn tree_entries(device_id: u16, trees: &[Tree]) -> Vec<Entry> {
    let mut share = Share { first_slot: 0, first_word: 0, first_replica: 1, down_group: 1, up_group: 2 };
    let mut entries = Vec::new();
    for tree in trees {
        entries.extend(node(device_id, tree, share).entries());
        share = Share {
            first_slot: share.first_slot + tree.slots,
            first_word: share.first_word + tree.slots * u32::from(tree.words),
            first_replica: share.first_replica
                + TreeNode::replicas(tree.children.len(), tree.parent.is_none()),
            down_group: share.down_group + 2,
            up_group: share.up_group + 2,
        };
    }
    entries
}

fn node(device_id: u16, tree: &Tree, share: Share) -> TreeNode {
    let endpoint = |at: Neighbour| Endpoint { mac: at.mac, ip: at.ip };
    let child = |child: &rig::Child| match child.kind {
        ChildKind::Host { udp_port } => {
            Child::Host { rank: child.member, port: child.at.port, to: endpoint(child.at), udp_port }
        }
        ChildKind::Switch { .. } => Child::Switch { port: child.at.port, to: endpoint(child.at) },
    };
    let parent =
        |parent: rig::Parent| Parent { port: parent.at.port, to: endpoint(parent.at), index: parent.member };
    TreeNode {
        tree_id: tree.tree_id,
        generation: tree.generation,
        format: tree.format,
        world: tree.world,
        slots: tree.slots,
        words: tree.words,
        resend_interval: tree.resend_interval_us,
        share: Share { up_group: if tree.parent.is_some() { share.up_group } else { 0 }, ..share },
        own: Endpoint { mac: service_mac(device_id), ip: service_address(device_id) },
        children: tree.children.iter().map(child).collect(),
        parent: tree.parent.map(parent),
    }
}

/// Address that is routed to a port of the rig and to nothing else.
pub fn marker_address(port: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, port as u8)
}

/// Routes of the marker addresses, for switches that are fed step by step.
pub fn marker_entries() -> Vec<Entry> {
    let route = |port| {
        ipv4_lpm::entry(ipv4_lpm::Key { dst_addr: marker_address(port), prefix_len: 32 }, &[port]).into()
    };
    PORTS.map(route).collect()
}

/// The ports by which a switch's address may be the source of ordinary traffic.
const LINKS: [u16; 3] = [1, 4, 8];

/// The entries of the rig's ordinary traffic: routes to every neighbour, one with several next hops, known hosts, ARP.
pub fn rig_entries() -> Vec<Entry> {
    let mut entries = marker_entries();
    let mut route = |dst_addr, prefix_len, ports: &[u16]| {
        entries.push(ipv4_lpm::entry(ipv4_lpm::Key { dst_addr, prefix_len }, ports).into());
    };
    for port in PORTS {
        route(Neighbour::host(port).ip, 32, &[port]);
        route(Neighbour::switch(port).ip, 32, &[port]);
    }
    route(Ipv4Addr::new(172, 16, 0, 0), 15, &[5, 6, 7]);
    route(Ipv4Addr::new(172, 16, 2, 0), 24, &[8]);
    for port in PORTS {
        let host = Neighbour::host(port);
        let key = arp_sender::Key { ingress_port: port, sender_mac: host.mac, sender_ip: host.ip };
        entries.push(arp_sender::entry(key).into());
        let reply = arp_proxy::Action::Reply { mac: host.mac };
        entries.push(arp_proxy::entry(arp_proxy::Key { target_ip: host.ip }, reply).into());
    }
    for src_addr in PORTS.map(|port| Neighbour::switch(port).ip).chain([service_address(DEVICE_ID)]) {
        entries.push(switch_address::entry(switch_address::Key { src_addr }).into());
    }
    entries.extend(LINKS.map(|ingress_port| link::entry(link::Key { ingress_port }).into()));
    for target_ip in [service_address(DEVICE_ID), ANNOUNCE_ADDRESS] {
        let reply = arp_proxy::Action::Reply { mac: service_mac(DEVICE_ID) };
        entries.push(arp_proxy::entry(arp_proxy::Key { target_ip }, reply).into());
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

/// Removes an entry; one that is not there is as good as removed.
///
/// # Errors
/// If the program has no such table or field.
pub fn remove(switch: &mut Switch, entry: &Entry) -> Result<(), InstallError> {
    match entry {
        Entry::Multicast(group) => match switch.multicast_delete(group.id.into()) {
            Err(control::ReplicationError::NotFound { .. }) => {}
            result => result?,
        },
        Entry::Table(entry) => {
            let (table, control::TableEntry { keys, priority, .. }) = table_entry(switch, entry)?;
            match switch.table_delete(table, &control::EntryKey { keys, priority }) {
                Err(TableError::NotFound { .. }) => {}
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
            found
                .map(|(_, value): &(_, Value)| value.as_bytes().to_vec())
                .ok_or_else(|| unknown("parameter", &param.name))
        });
        Ok(ActionCall { action, args: args.collect::<Result<_, _>>()? })
    };
    let action = match &entry.action {
        EntryAction::Call(one) => control::EntryAction::Call(call(one)?),
        EntryAction::Select(calls) => {
            let members =
                calls.iter().map(|one| Ok(OneShotMember { call: call(one)?, weight: 1, watch_port: None }));
            control::EntryAction::OneShot(members.collect::<Result<_, InstallError>>()?)
        }
    };
    let entry = control::TableEntry {
        keys,
        priority: entry.priority,
        action,
        metadata: Vec::new(),
        idle_timeout_ns: 0,
    };
    Ok((table, entry))
}
