//! What a switch holds, and the updates that lead from there to what it should hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use inca_p4runtime::p4v1::{
    self, Entity, MulticastGroupEntry, TableEntry, Update, entity, packet_replication_engine_entry as engine,
    table_action, update,
};
use inca_p4runtime::{EntryError, EntryKey, P4Info, bytestring};

use crate::program::Entry;

/// What makes an entity the same entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A multicast group by its id.
    Group(u32),
    /// A table entry.
    Entry(EntryKey),
}

/// Entities by key, each in a normal form, so that what was written equals what is read back. What a switch should hold, what it
/// holds, and what all switches hold alike share one copy.
pub type State = BTreeMap<Arc<Key>, Arc<Entity>>;

/// One update of one entity.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is done.
    pub kind: update::Type,
    /// To what.
    pub key: Arc<Key>,
    /// As it is afterwards, or was before it went.
    pub entity: Arc<Entity>,
}

impl Step {
    /// The message.
    pub fn update(&self) -> Update {
        Update { r#type: self.kind.into(), entity: Some(Entity::clone(&self.entity)) }
    }
}

/// Entries as a state, checked against the program.
pub fn state(info: &P4Info, entries: &[Entry]) -> Result<State, EntryError> {
    let mut state = State::new();
    for entry in entries {
        state.extend(shared(entry.entity(info)?));
    }
    Ok(state)
}

/// As [`normal`], ready for a [`State`].
pub fn shared(entity: Entity) -> Option<(Arc<Key>, Arc<Entity>)> {
    normal(entity).map(|(key, entity)| (Arc::new(key), Arc::new(entity)))
}

/// The key and the normal form of an entity: shortest byte strings, parameters and alternatives in order, nothing but what the
/// controller writes. `None` for entities that it does not write, and for default entries.
pub fn normal(entity: Entity) -> Option<(Key, Entity)> {
    match entity.entity? {
        entity::Entity::TableEntry(entry) if !entry.is_default_action && !entry.is_const => {
            let entry = normal_entry(entry);
            Some((Key::Entry(EntryKey::from(&entry)), entry.into()))
        }
        entity::Entity::PacketReplicationEngineEntry(entry) => match entry.r#type? {
            engine::Type::MulticastGroupEntry(group) => {
                Some((Key::Group(group.multicast_group_id), normal_group(group)))
            }
            engine::Type::CloneSessionEntry(_) => None,
        },
        _ => None,
    }
}

fn normal_entry(entry: TableEntry) -> TableEntry {
    let mut fields = entry.r#match;
    fields.sort_by_key(|field| field.field_id);
    for field in &mut fields {
        use p4v1::field_match::FieldMatchType as Match;
        match &mut field.field_match_type {
            Some(Match::Exact(exact)) => shorten(&mut exact.value),
            Some(Match::Lpm(lpm)) => shorten(&mut lpm.value),
            Some(Match::Ternary(ternary)) => {
                shorten(&mut ternary.value);
                shorten(&mut ternary.mask);
            }
            _ => {}
        }
    }
    let action = entry.action.and_then(|action| action.r#type).map(|action| match action {
        table_action::Type::Action(action) => table_action::Type::Action(normal_action(action)),
        table_action::Type::ActionProfileActionSet(set) => {
            let mut actions: Vec<_> = set
                .action_profile_actions
                .into_iter()
                .map(|one| p4v1::ActionProfileAction {
                    action: one.action.map(normal_action),
                    weight: one.weight,
                    watch_kind: None,
                })
                .collect();
            actions.sort_by_cached_key(prost::Message::encode_to_vec);
            let set = p4v1::ActionProfileActionSet { action_profile_actions: actions, ..Default::default() };
            table_action::Type::ActionProfileActionSet(set)
        }
        other => other,
    });
    TableEntry {
        table_id: entry.table_id,
        r#match: fields,
        action: action.map(|action| p4v1::TableAction { r#type: Some(action) }),
        priority: entry.priority,
        ..Default::default()
    }
}

fn normal_action(mut action: p4v1::Action) -> p4v1::Action {
    action.params.sort_by_key(|param| param.param_id);
    action.params.iter_mut().for_each(|param| shorten(&mut param.value));
    action
}

fn normal_group(group: MulticastGroupEntry) -> Entity {
    use p4v1::replica::PortKind;
    #[allow(deprecated)] // The form that every server takes.
    let port = |kind| match kind {
        Some(PortKind::EgressPort(port)) => port,
        Some(PortKind::Port(port)) => bytestring::to_u64(&port).unwrap_or(u64::MAX) as u32,
        None => 0,
    };
    let mut copies: Vec<_> =
        group.replicas.into_iter().map(|replica| (port(replica.port_kind), replica.instance)).collect();
    copies.sort_unstable();
    inca_p4runtime::client::multicast_group(group.multicast_group_id, copies)
}

fn shorten(bytes: &mut Vec<u8>) {
    let excess = bytes.len() - bytestring::canonical(bytes).len().min(bytes.len());
    bytes.drain(..excess);
}

/// The steps from what is installed to what should be, in an order in which nothing refers to what is not there (yet, or any
/// more): groups, replicas, members, trees, everything else; and back. What should be comes in parts without a common key.
pub fn steps<'a>(
    info: &P4Info,
    installed: &State,
    desired: impl Iterator<Item = &'a State> + Clone,
) -> Vec<Step> {
    let rank = |key: &Key| match key {
        Key::Group(_) => 0,
        Key::Entry(key) => match info.table_by_id(key.table_id).map(|table| table.name.as_str()) {
            Ok("replica") => 1,
            Ok("membership") => 2,
            Ok("tree") => 3,
            _ => 4,
        },
    };
    let step =
        |kind, key: &Arc<Key>, entity: &Arc<Entity>| Step { kind, key: key.clone(), entity: entity.clone() };
    let wanted = |key| desired.clone().any(|part| part.contains_key(key));
    let gone = installed.iter().filter(|(key, _)| !wanted(*key));
    let mut gone: Vec<_> = gone.map(|(key, entity)| step(update::Type::Delete, key, entity)).collect();
    gone.sort_by_key(|step| std::cmp::Reverse(rank(&step.key)));
    let mut changed: Vec<_> = desired
        .clone()
        .flatten()
        .filter_map(|(key, entity)| match installed.get(key) {
            Some(there) if Arc::ptr_eq(there, entity) || there == entity => None,
            Some(_) => Some(step(update::Type::Modify, key, entity)),
            None => Some(step(update::Type::Insert, key, entity)),
        })
        .collect();
    changed.sort_by_key(|step| rank(&step.key));
    gone.extend(changed);
    gone
}

/// What an entity is, for messages.
pub fn describe(info: &P4Info, key: &Key) -> String {
    match key {
        Key::Group(id) => format!("multicast group {id}"),
        Key::Entry(key) => {
            let table = info.table_by_id(key.table_id).ok();
            let name = table
                .map_or_else(|| format!("table {}", key.table_id), |table| format!("table {}", table.name));
            let fields: Vec<String> = key
                .fields
                .iter()
                .map(|(id, value)| {
                    let field = table.and_then(|table| table.field_by_id(*id));
                    format!("{}={value}", field.map_or("?", |field| field.name.as_str()))
                })
                .collect();
            format!("{name} [{}]", fields.join(" "))
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
