//! P4Runtime's entities on the control API of the switch: one module per kind, each with `apply`, `read` and `find`.
//!
//! `find` returns the one entity of a key, whole, so that an update can be undone.

pub(super) mod arrays;
pub(super) mod direct;
mod keys;
pub(super) mod profiles;
pub(super) mod replication;
pub(super) mod tables;
mod values;

use inca_p4runtime::{
    p4v1::{Entity, Update, entity::Entity as Kind, packet_replication_engine_entry as pre, update::Type},
    status::UpdateError,
};
use tonic::Code;

use super::{
    error::{Outcome, invalid},
    plane::Context,
};

/// What an update does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Insert,
    Modify,
    Delete,
}

impl Operation {
    /// For entities that are always there: only MODIFY applies.
    fn must_modify(self, what: &str) -> Outcome {
        match self {
            Self::Modify => Ok(()),
            Self::Insert | Self::Delete => {
                Err(invalid(format!("{what}: only MODIFY applies, it is always there")))
            }
        }
    }
}

/// Applies one update.
pub(super) fn apply(cx: &mut Context<'_>, update: &Update) -> Outcome {
    let operation = operation(update)?;
    match kind(update.entity.as_ref())? {
        Kind::TableEntry(entry) => tables::apply(cx, operation, entry),
        Kind::DirectCounterEntry(entry) => direct::apply_counter(cx, operation, entry),
        Kind::DirectMeterEntry(entry) => direct::apply_meter(cx, operation, entry),
        Kind::ActionProfileMember(member) => profiles::apply_member(cx, operation, member),
        Kind::ActionProfileGroup(group) => profiles::apply_group(cx, operation, group),
        Kind::CounterEntry(entry) => arrays::apply_counter(cx, operation, entry),
        Kind::MeterEntry(entry) => arrays::apply_meter(cx, operation, entry),
        Kind::RegisterEntry(entry) => arrays::apply_register(cx, operation, entry),
        Kind::ValueSetEntry(entry) => values::apply_value_set(cx, operation, entry),
        Kind::DigestEntry(entry) => values::apply_digest(cx, operation, entry),
        Kind::PacketReplicationEngineEntry(entry) => match &entry.r#type {
            Some(pre::Type::MulticastGroupEntry(group)) => replication::apply_group(cx, operation, group),
            Some(pre::Type::CloneSessionEntry(session)) => replication::apply_session(cx, operation, session),
            None => {
                Err(invalid("the replication entry is empty: expected a multicast group or a clone session"))
            }
        },
        Kind::ExternEntry(_) => {
            Err(UpdateError::new(Code::Unimplemented, "extern entries are not supported"))
        }
    }
}

/// Everything that a pattern stands for.
pub(super) fn read(cx: &mut Context<'_>, pattern: &Entity, found: &mut Vec<Entity>) -> Outcome {
    match kind(Some(pattern))? {
        Kind::TableEntry(entry) => tables::read(cx, entry, found),
        Kind::DirectCounterEntry(entry) => direct::read_counters(cx, entry, found),
        Kind::DirectMeterEntry(entry) => direct::read_meters(cx, entry, found),
        Kind::ActionProfileMember(member) => profiles::read_members(cx, member, found),
        Kind::ActionProfileGroup(group) => profiles::read_groups(cx, group, found),
        Kind::CounterEntry(entry) => arrays::read_counters(cx, entry, found),
        Kind::MeterEntry(entry) => arrays::read_meters(cx, entry, found),
        Kind::RegisterEntry(entry) => arrays::read_registers(cx, entry, found),
        Kind::ValueSetEntry(entry) => values::read_value_sets(cx, entry, found),
        Kind::DigestEntry(entry) => values::read_digests(cx, entry, found),
        Kind::PacketReplicationEngineEntry(entry) => match &entry.r#type {
            Some(pre::Type::MulticastGroupEntry(group)) => {
                replication::read_groups(cx, group.multicast_group_id, found);
                Ok(())
            }
            Some(pre::Type::CloneSessionEntry(session)) => {
                replication::read_sessions(cx, session.session_id, found);
                Ok(())
            }
            None => {
                replication::read_groups(cx, 0, found);
                replication::read_sessions(cx, 0, found);
                Ok(())
            }
        },
        // No extern is known, so a wildcard stands for nothing.
        Kind::ExternEntry(entry) if entry.extern_type_id == 0 => Ok(()),
        Kind::ExternEntry(_) => {
            Err(UpdateError::new(Code::Unimplemented, "extern entries are not supported"))
        }
    }
}

/// Updates that bring back what `update` changes; to be asked for before it is applied.
pub(super) fn undo(cx: &mut Context<'_>, update: &Update) -> Outcome<Vec<Update>> {
    let operation = operation(update)?;
    if operation == Operation::Insert {
        return Ok(vec![Update { r#type: Type::Delete.into(), entity: update.entity.clone() }]);
    }
    let kind = kind(update.entity.as_ref())?;
    let r#type = if operation == Operation::Delete { Type::Insert } else { Type::Modify };
    Ok(before(cx, kind)?
        .into_iter()
        .map(|entity| Update { r#type: r#type.into(), entity: Some(entity) })
        .collect())
}

/// Every entity that an update of this one may change, as it is now.
fn before(cx: &mut Context<'_>, kind: &Kind) -> Outcome<Vec<Entity>> {
    let mut found = Vec::new();
    match kind {
        Kind::TableEntry(entry) => found.extend(tables::find(cx, entry)?),
        // The entry brings its counter and its meter along.
        Kind::DirectCounterEntry(entry) => {
            found.extend(tables::find(cx, direct::owner(&entry.table_entry)?)?)
        }
        Kind::DirectMeterEntry(entry) => found.extend(tables::find(cx, direct::owner(&entry.table_entry)?)?),
        // The rest is named by what it is read by; a wildcard index names all cells.
        other => read(cx, &Entity { entity: Some(other.clone()) }, &mut found)?,
    }
    Ok(found)
}

fn operation(update: &Update) -> Outcome<Operation> {
    match Type::try_from(update.r#type) {
        Ok(Type::Insert) => Ok(Operation::Insert),
        Ok(Type::Modify) => Ok(Operation::Modify),
        Ok(Type::Delete) => Ok(Operation::Delete),
        Ok(Type::Unspecified) | Err(_) => {
            Err(invalid(format!("update type {} given, valid are INSERT, MODIFY and DELETE", update.r#type)))
        }
    }
}

fn kind(entity: Option<&Entity>) -> Outcome<&Kind> {
    entity.and_then(|entity| entity.entity.as_ref()).ok_or_else(|| invalid("the entity is empty"))
}
