//! Direct counters and meters: resources of table entries. Also the values of all counters and meters.

use inca_p4runtime::{
    info::TableInfo,
    p4v1::{
        self, CounterData, DirectCounterEntry, DirectMeterEntry, Entity, TableEntry, entity::Entity as Kind,
    },
    status::UpdateError,
};
use tonic::Code;

use super::{Operation, keys, tables};
use crate::{
    control::{CounterValue, EntryView, MeterConfig},
    p4runtime::{
        error::{Outcome, invalid},
        plane::Context,
    },
    program::TableId,
};

/// Sets the counter of an entry.
pub(in crate::p4runtime) fn apply_counter(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &DirectCounterEntry,
) -> Outcome {
    operation.must_modify("direct counter")?;
    let owner = owner(&entry.table_entry)?;
    let (table, handle) = keys::table(cx.pipeline, owner.table_id)?;
    has(table, "direct counter", table.direct_counter)?;
    not_default(table, owner)?;
    let key = tables::key(table, owner)?;
    match entry.data {
        Some(data) => {
            let value = counter_value(data.byte_count, data.packet_count)?;
            Ok(cx.switch.direct_counter_write(handle, &key, value)?)
        }
        // Without data the counter stays, if there is such an entry.
        None => Ok(cx.switch.table_get(handle, &key).map(drop)?),
    }
}

/// Sets the meter of an entry.
pub(in crate::p4runtime) fn apply_meter(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &DirectMeterEntry,
) -> Outcome {
    operation.must_modify("direct meter")?;
    let owner = owner(&entry.table_entry)?;
    let (table, handle) = keys::table(cx.pipeline, owner.table_id)?;
    has(table, "direct meter", table.direct_meter)?;
    not_default(table, owner)?;
    let key = tables::key(table, owner)?;
    if let Some(config) = &entry.config {
        check_meter(&table.name, config)?;
    }
    Ok(cx.switch.direct_meter_write(handle, &key, entry.config.as_ref().map(control_meter))?)
}

/// Counters of the entries that a pattern stands for.
pub(in crate::p4runtime) fn read_counters(
    cx: &mut Context<'_>,
    pattern: &DirectCounterEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    let has_counter = |table: &TableInfo| table.direct_counter.is_some();
    for (owner, view) in owners(cx, pattern.table_entry.as_ref(), "direct counter", has_counter)? {
        let data = view.counter.map(counter_data);
        found.push(Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(owner), data }).into());
    }
    Ok(())
}

/// Meters of the entries that a pattern stands for.
pub(in crate::p4runtime) fn read_meters(
    cx: &mut Context<'_>,
    pattern: &DirectMeterEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    let has_meter = |table: &TableInfo| table.direct_meter.is_some();
    for (owner, view) in owners(cx, pattern.table_entry.as_ref(), "direct meter", has_meter)? {
        let config = view.meter.map(meter_config);
        let entry = DirectMeterEntry { table_entry: Some(owner), config, counter_data: None };
        found.push(Kind::DirectMeterEntry(entry).into());
    }
    Ok(())
}

/// The entry that a direct resource belongs to.
pub(super) fn owner(entry: &Option<TableEntry>) -> Outcome<&TableEntry> {
    entry.as_ref().ok_or_else(|| invalid("the direct resource names no table entry"))
}

/// A counter as P4Runtime gives it.
pub(super) fn counter_data(value: CounterValue) -> CounterData {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    CounterData { byte_count: signed(value.bytes), packet_count: signed(value.packets) }
}

/// A counter as the switch holds it.
pub(super) fn counter_value(bytes: i64, packets: i64) -> Outcome<CounterValue> {
    match (u64::try_from(bytes), u64::try_from(packets)) {
        (Ok(bytes), Ok(packets)) => Ok(CounterValue { packets, bytes }),
        _ => Err(invalid(format!(
            "counter value of {packets} packets and {bytes} bytes given, expected 0 or more"
        ))),
    }
}

/// A meter's configuration as P4Runtime gives it.
pub(super) fn meter_config(config: MeterConfig) -> p4v1::MeterConfig {
    let MeterConfig { cir, cburst, pir, pburst } = config;
    p4v1::MeterConfig { cir, cburst, pir, pburst, eburst: 0 }
}

/// A meter's configuration as the switch holds it.
pub(super) fn control_meter(config: &p4v1::MeterConfig) -> MeterConfig {
    MeterConfig { cir: config.cir, cburst: config.cburst, pir: config.pir, pburst: config.pburst }
}

/// Two rates, three colours: the peak is at least the committed rate, nothing is negative, no excess burst.
pub(super) fn check_meter(name: &str, config: &p4v1::MeterConfig) -> Outcome {
    let p4v1::MeterConfig { cir, cburst, pir, pburst, eburst } = *config;
    if cir < 0 || cburst < 0 || pir < cir || pburst < 0 || eburst != 0 {
        return Err(invalid(format!(
            "{name}: meter of cir {cir}, cburst {cburst}, pir {pir}, pburst {pburst}, eburst {eburst} given, expected \
             0 <= cir <= pir, bursts of 0 or more, and eburst 0"
        )));
    }
    Ok(())
}

fn has(table: &TableInfo, what: &str, resource: Option<u32>) -> Outcome {
    match resource {
        Some(_) => Ok(()),
        None => Err(invalid(format!("table {} has no {what}", table.name))),
    }
}

fn not_default(table: &TableInfo, owner: &TableEntry) -> Outcome {
    if owner.is_default_action {
        let message =
            format!("table {}: this switch keeps no counter and no meter for its default entry", table.name);
        return Err(UpdateError::new(Code::Unimplemented, message));
    }
    Ok(())
}

/// The entries that a pattern stands for: each as the key that names it, with its resources.
fn owners(
    cx: &mut Context<'_>,
    pattern: Option<&TableEntry>,
    what: &str,
    has_resource: impl Fn(&TableInfo) -> bool,
) -> Outcome<Vec<(TableEntry, EntryView)>> {
    let everything = TableEntry::default();
    let pattern = pattern.unwrap_or(&everything);
    let mut found = Vec::new();
    let chosen: Vec<(&TableInfo, TableId)> = match pattern.table_id {
        0 => {
            let with = cx.pipeline.info.tables().filter(|table| has_resource(table));
            with.map(|table| keys::table(cx.pipeline, table.id)).collect::<Outcome<_>>()?
        }
        id => vec![keys::table(cx.pipeline, id)?],
    };
    for (table, handle) in chosen {
        if !has_resource(table) {
            return Err(invalid(format!("table {} has no {what}", table.name)));
        }
        not_default(table, pattern)?;
        let views = tables::selected(cx, (table, handle), pattern)?;
        if views.is_empty() && !pattern.r#match.is_empty() {
            return Err(UpdateError::new(
                Code::NotFound,
                format!("table {}: no entry with this key", table.name),
            ));
        }
        for view in views {
            let owner = TableEntry {
                table_id: table.id,
                r#match: keys::matches(table, &view.entry.keys),
                priority: view.entry.priority,
                ..Default::default()
            };
            found.push((owner, view));
        }
    }
    Ok(found)
}
