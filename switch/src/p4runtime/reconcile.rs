//! RECONCILE_AND_COMMIT: a switch's state carried over to another pipeline, by ids.

use inca_p4runtime::{
    p4v1::{
        ActionProfileGroup, ActionProfileMember, CounterData, CounterEntry, DigestEntry, Entity, MeterConfig,
        MeterEntry, PacketReplicationEngineEntry, RegisterEntry, TableEntry, Update, ValueSetEntry,
        entity::Entity as Kind, p4_data::Data, update::Type,
    },
    status::UpdateError,
};
use tonic::Code;

use super::{entity, error::Outcome, plane::Context};

/// Updates that bring a fresh switch of the same pipeline to the state of this one, in an order that works.
pub(super) fn state(cx: &mut Context<'_>) -> Outcome<Vec<Update>> {
    let whole_entry = TableEntry {
        counter_data: Some(CounterData::default()),
        meter_config: Some(MeterConfig::default()),
        ..TableEntry::default()
    };
    let patterns = [
        (Type::Insert, Kind::ActionProfileMember(ActionProfileMember::default())),
        (Type::Insert, Kind::ActionProfileGroup(ActionProfileGroup::default())),
        (Type::Insert, Kind::TableEntry(whole_entry)),
        (Type::Modify, Kind::TableEntry(TableEntry { is_default_action: true, ..TableEntry::default() })),
        (Type::Insert, Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry::default())),
        (Type::Insert, Kind::DigestEntry(DigestEntry::default())),
        (Type::Modify, Kind::CounterEntry(CounterEntry::default())),
        (Type::Modify, Kind::MeterEntry(MeterEntry::default())),
        (Type::Modify, Kind::RegisterEntry(RegisterEntry::default())),
        (Type::Modify, Kind::ValueSetEntry(ValueSetEntry::default())),
    ];
    let mut updates = Vec::new();
    for (r#type, pattern) in patterns {
        let mut found = Vec::new();
        entity::read(cx, &pattern.into(), &mut found)?;
        let kept = found.into_iter().filter(|entity| differs_from_fresh(cx, entity));
        updates.extend(kept.map(|entity| Update { r#type: r#type.into(), entity: Some(entity) }));
    }
    Ok(updates)
}

/// Applies the state to a fresh switch of the new pipeline; returns the updates as they fitted.
pub(super) fn fit(cx: &mut Context<'_>, state: Vec<Update>) -> Outcome<Vec<Update>> {
    state
        .into_iter()
        .map(|update| match entity::apply(cx, &update) {
            Ok(()) => Ok(update),
            // The new program brings the entry along.
            Err(UpdateError { code: Code::AlreadyExists, .. }) => {
                let update = Update { r#type: Type::Modify.into(), ..update };
                entity::apply(cx, &update).map(|()| update)
            }
            Err(error) => Err(error),
        })
        .collect()
}

/// Whether an entity says more than a fresh switch of the same pipeline has.
fn differs_from_fresh(cx: &Context<'_>, entity: &Entity) -> bool {
    match &entity.entity {
        Some(Kind::TableEntry(entry)) if entry.is_default_action => {
            let table = cx.pipeline.info.table_by_id(entry.table_id);
            entry.action.is_some()
                && table.is_ok_and(|table| table.const_default_action.is_none() && table.profile.is_none())
        }
        Some(Kind::TableEntry(entry)) => !entry.is_const,
        Some(Kind::CounterEntry(counter)) => counter.data.is_some_and(|data| data != CounterData::default()),
        Some(Kind::MeterEntry(meter)) => meter.config.is_some(),
        Some(Kind::RegisterEntry(register)) => {
            let value = register.data.as_ref().and_then(|data| data.data.as_ref());
            !matches!(value, Some(Data::Bitstring(bytes)) if bytes == &[0])
        }
        Some(Kind::ValueSetEntry(set)) => !set.members.is_empty(),
        Some(_) => true,
        None => false,
    }
}
