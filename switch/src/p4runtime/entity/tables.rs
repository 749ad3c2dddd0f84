//! Table entries.

use inca_p4runtime::{
    info::TableInfo,
    p4v1::{
        self, ActionProfileAction, ActionProfileActionSet, CounterData, Entity, TableAction,
        action_profile_action, table_action, table_entry::IdleTimeout,
    },
    status::UpdateError,
};
use tonic::Code;

use super::{
    Operation, direct,
    keys::{self, Use},
    profiles,
};
use crate::{
    control::{EntryAction, EntryKey, EntryView, OneShotMember, TableEntry},
    p4runtime::{
        error::{Outcome, invalid},
        pipeline::Pipeline,
        plane::Context,
    },
    program::TableId,
};

/// Inserts, modifies or deletes an entry, or sets a default entry.
pub(in crate::p4runtime) fn apply(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &p4v1::TableEntry,
) -> Outcome {
    let (table, handle) = keys::table(cx.pipeline, entry.table_id)?;
    if entry.is_const {
        return Err(invalid(format!("table {}: is_const is set by the switch alone", table.name)));
    }
    if entry.is_default_action {
        return apply_default(cx, operation, (table, handle), entry);
    }
    let key = key(table, entry)?;
    if table.is_const {
        let unchanged = operation == Operation::Modify && entry.action.is_none();
        if !unchanged {
            let message = format!("table {}: its entries are const in the program", table.name);
            return Err(UpdateError::new(Code::PermissionDenied, message));
        }
    }
    match operation {
        Operation::Insert => {
            if table.fields.is_empty() {
                return Err(invalid(format!("table {} has no key: it has a default entry only", table.name)));
            }
            let action = required_action(cx, (table, handle), entry)?;
            check_resources(table, entry)?;
            cx.switch.table_insert(handle, control_entry(&key, entry, action))?;
            write_resources(cx, handle, &key, entry, Operation::Insert)
        }
        Operation::Modify => {
            check_resources(table, entry)?;
            let old = cx.switch.table_get(handle, &key)?;
            if let Some(action) = &entry.action {
                let action = entry_action(cx, (table, handle), action)?;
                cx.switch.table_modify(handle, control_entry(&key, entry, action))?;
            } else if !table.is_const {
                cx.switch.table_modify(handle, control_entry(&key, entry, old.entry.action))?;
            }
            write_resources(cx, handle, &key, entry, Operation::Modify)
        }
        Operation::Delete => Ok(cx.switch.table_delete(handle, &key)?),
    }
}

/// Entries that a pattern stands for: table 0 is every table, no match is every entry.
pub(in crate::p4runtime) fn read(
    cx: &mut Context<'_>,
    pattern: &p4v1::TableEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    if pattern.table_id == 0 && !pattern.r#match.is_empty() {
        return Err(invalid("a match is given and no table"));
    }
    let tables: Vec<u32> = match pattern.table_id {
        0 => cx.pipeline.info.tables().map(|table| table.id).collect(),
        id => vec![id],
    };
    for id in tables {
        let (table, handle) = keys::table(cx.pipeline, id)?;
        if pattern.is_default_action {
            let default = default_entry(cx, (table, handle))?;
            found.push(default.into());
            continue;
        }
        for view in selected(cx, (table, handle), pattern)? {
            let resources = Resources::asked_by(pattern);
            found.push(p4_entry(cx.pipeline, table, &view, resources)?.into());
        }
    }
    Ok(())
}

/// The one entry of a key, with its counter and its meter.
pub(in crate::p4runtime) fn find(cx: &mut Context<'_>, entry: &p4v1::TableEntry) -> Outcome<Option<Entity>> {
    let (table, handle) = keys::table(cx.pipeline, entry.table_id)?;
    if entry.is_default_action {
        return Ok(Some(default_entry(cx, (table, handle))?.into()));
    }
    let key = key(table, entry)?;
    match cx.switch.table_get(handle, &key) {
        Ok(view) => Ok(Some(p4_entry(cx.pipeline, table, &view, Resources::ALL)?.into())),
        Err(error) if error.kind() == crate::control::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Keys and priority, checked.
pub(super) fn key(table: &TableInfo, entry: &p4v1::TableEntry) -> Outcome<EntryKey> {
    keys::check_priority(table, entry.priority)?;
    Ok(EntryKey { keys: keys::keys(table, &entry.r#match)?, priority: entry.priority })
}

/// Entries of one table that a pattern stands for.
pub(super) fn selected(
    cx: &mut Context<'_>,
    (table, handle): (&TableInfo, TableId),
    pattern: &p4v1::TableEntry,
) -> Outcome<Vec<EntryView>> {
    if !pattern.r#match.is_empty() && (pattern.priority != 0) == table.needs_priority {
        // A whole key.
        let key = key(table, pattern)?;
        return match cx.switch.table_get(handle, &key) {
            Ok(view) => Ok(vec![view]),
            Err(error) if error.kind() == crate::control::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        };
    }
    let mut views = cx.switch.table_entries(handle)?;
    if pattern.priority != 0 {
        views.retain(|view| view.entry.priority == pattern.priority);
    }
    if !pattern.r#match.is_empty() {
        // The same match at any priority.
        let wanted = keys::matches(table, &keys::keys(table, &pattern.r#match)?);
        views.retain(|view| keys::matches(table, &view.entry.keys) == wanted);
    }
    Ok(views)
}

/// Which of an entry's resources are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resources {
    counter: bool,
    meter: bool,
    idle: bool,
}

impl Resources {
    const ALL: Self = Self { counter: true, meter: true, idle: false };

    fn asked_by(pattern: &p4v1::TableEntry) -> Self {
        Self {
            counter: pattern.counter_data.is_some(),
            meter: pattern.meter_config.is_some(),
            idle: pattern.time_since_last_hit.is_some(),
        }
    }
}

/// The whole entry of a notification: an entry that was not hit.
pub(in crate::p4runtime) fn idle_entry(
    pipeline: &Pipeline,
    table: TableId,
    view: &EntryView,
) -> Outcome<p4v1::TableEntry> {
    let id = pipeline.table_id(table).ok_or_else(|| invalid("the table is not in the p4info"))?;
    let (table, _) = keys::table(pipeline, id)?;
    p4_entry(pipeline, table, view, Resources { counter: false, meter: false, idle: true })
}

fn p4_entry(
    pipeline: &Pipeline,
    table: &TableInfo,
    view: &EntryView,
    resources: Resources,
) -> Outcome<p4v1::TableEntry> {
    let idle = || IdleTimeout { elapsed_ns: i64::try_from(view.idle_ns).unwrap_or(i64::MAX) };
    Ok(p4v1::TableEntry {
        table_id: table.id,
        r#match: keys::matches(table, &view.entry.keys),
        action: Some(table_action(pipeline, &view.entry.action)?),
        priority: view.entry.priority,
        metadata: view.entry.metadata.clone(),
        idle_timeout_ns: view.entry.idle_timeout_ns,
        is_const: view.is_const,
        counter_data: view.counter.filter(|_| resources.counter).map(direct::counter_data),
        meter_config: view.meter.filter(|_| resources.meter).map(direct::meter_config),
        time_since_last_hit: (resources.idle && table.idle_timeout).then(idle),
        ..Default::default()
    })
}

fn default_entry(cx: &Context<'_>, (table, handle): (&TableInfo, TableId)) -> Outcome<p4v1::TableEntry> {
    let action = match cx.switch.table_default(handle)? {
        Some(action) => Some(table_action(cx.pipeline, &action)?),
        None => None,
    };
    Ok(p4v1::TableEntry {
        table_id: table.id,
        action,
        is_default_action: true,
        is_const: table.const_default_action.is_some(),
        ..Default::default()
    })
}

fn apply_default(
    cx: &mut Context<'_>,
    operation: Operation,
    (table, handle): (&TableInfo, TableId),
    entry: &p4v1::TableEntry,
) -> Outcome {
    let what = format!("default entry of table {}", table.name);
    operation.must_modify(&what)?;
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return Err(invalid(format!("{what}: has neither match fields nor priority")));
    }
    if table.const_default_action.is_some() {
        return Err(UpdateError::new(Code::PermissionDenied, format!("{what}: is const in the program")));
    }
    if entry.counter_data.is_some() || entry.meter_config.is_some() {
        let message = format!("{what}: this switch keeps no counter and no meter for it");
        return Err(UpdateError::new(Code::Unimplemented, message));
    }
    if table.profile.is_some() {
        let message = format!("{what}: tables with an action profile have a fixed one");
        return Err(UpdateError::new(Code::PermissionDenied, message));
    }
    let action = match &entry.action {
        None => None,
        Some(TableAction { r#type: Some(table_action::Type::Action(action)) }) => {
            Some(EntryAction::Call(keys::call(cx.pipeline, (table, handle), action, Use::Default)?))
        }
        Some(_) => return Err(invalid(format!("{what}: expected an action"))),
    };
    Ok(cx.switch.table_set_default(handle, action)?)
}

fn control_entry(key: &EntryKey, entry: &p4v1::TableEntry, action: EntryAction) -> TableEntry {
    TableEntry {
        keys: key.keys.clone(),
        priority: key.priority,
        action,
        metadata: entry.metadata.clone(),
        idle_timeout_ns: entry.idle_timeout_ns,
    }
}

fn required_action(
    cx: &Context<'_>,
    (table, handle): (&TableInfo, TableId),
    entry: &p4v1::TableEntry,
) -> Outcome<EntryAction> {
    match &entry.action {
        Some(action) => entry_action(cx, (table, handle), action),
        None => Err(invalid(format!("table {}: the entry has no action", table.name))),
    }
}

fn entry_action(
    cx: &Context<'_>,
    (table, handle): (&TableInfo, TableId),
    action: &TableAction,
) -> Outcome<EntryAction> {
    let pipeline = cx.pipeline;
    let profile = table.profile.map(|id| pipeline.info.profile_by_id(id)).transpose();
    let profile = profile.map_err(super::super::error::unknown)?;
    let wrong =
        |expected: &str| invalid(format!("table {}: the entry's action must be {expected}", table.name));
    match (&action.r#type, profile) {
        (None, _) => Err(invalid(format!("table {}: the entry's action is empty", table.name))),
        (Some(table_action::Type::Action(action)), None) => {
            Ok(EntryAction::Call(keys::call(pipeline, (table, handle), action, Use::Entry)?))
        }
        (Some(_), None) => Err(wrong("an action: the table has no action profile")),
        (Some(table_action::Type::ActionProfileMemberId(id)), Some(_)) => Ok(EntryAction::Member(*id)),
        (Some(table_action::Type::ActionProfileGroupId(id)), Some(profile)) if profile.with_selector => {
            Ok(EntryAction::Group(*id))
        }
        (Some(table_action::Type::ActionProfileActionSet(set)), Some(profile)) if profile.with_selector => {
            profiles::check_one_shot(cx, profile)?;
            one_shot(pipeline, (table, handle), set)
        }
        (Some(_), Some(profile)) if profile.with_selector => {
            Err(wrong("a member, a group or a one-shot set"))
        }
        (Some(_), Some(_)) => Err(wrong("a member: its action profile has no selector")),
    }
}

fn one_shot(
    pipeline: &Pipeline,
    (table, handle): (&TableInfo, TableId),
    set: &ActionProfileActionSet,
) -> Outcome<EntryAction> {
    let members = set.action_profile_actions.iter().map(|one| {
        let action = one.action.as_ref();
        let action =
            action.ok_or_else(|| invalid(format!("table {}: a one-shot action is empty", table.name)))?;
        let call = keys::call(pipeline, (table, handle), action, Use::Entry)?;
        let watch_port = match &one.watch_kind {
            Some(action_profile_action::WatchKind::WatchPort(port)) => Some(port.clone()),
            #[allow(deprecated)]
            Some(action_profile_action::WatchKind::Watch(port)) => Some(port.to_be_bytes().to_vec()),
            None => None,
        };
        Ok(OneShotMember { call, weight: weight(&table.name, one.weight)?, watch_port })
    });
    let members: Vec<_> = members.collect::<Outcome<_>>()?;
    if members.is_empty() {
        return Err(invalid(format!("table {}: the one-shot set has no actions", table.name)));
    }
    Ok(EntryAction::OneShot(members))
}

/// A weight of a member, above 0.
pub(super) fn weight(owner: &str, weight: i32) -> Outcome<u32> {
    u32::try_from(weight)
        .ok()
        .filter(|&weight| weight > 0)
        .ok_or_else(|| invalid(format!("{owner}: weight {weight} given, expected above 0")))
}

fn table_action(pipeline: &Pipeline, action: &EntryAction) -> Outcome<TableAction> {
    let kind = match action {
        EntryAction::Call(call) => table_action::Type::Action(keys::action(pipeline, call)?),
        EntryAction::Member(id) => table_action::Type::ActionProfileMemberId(*id),
        EntryAction::Group(id) => table_action::Type::ActionProfileGroupId(*id),
        EntryAction::OneShot(members) => {
            let actions = members.iter().map(|member| {
                Ok(ActionProfileAction {
                    action: Some(keys::action(pipeline, &member.call)?),
                    weight: member.weight as i32,
                    watch_kind: member.watch_port.clone().map(action_profile_action::WatchKind::WatchPort),
                })
            });
            let action_profile_actions = actions.collect::<Outcome<_>>()?;
            let set = ActionProfileActionSet { action_profile_actions, ..Default::default() };
            table_action::Type::ActionProfileActionSet(set)
        }
    };
    Ok(TableAction { r#type: Some(kind) })
}

/// Counters and meters are for tables that have them.
fn check_resources(table: &TableInfo, entry: &p4v1::TableEntry) -> Outcome {
    let missing = |what| invalid(format!("table {} has no {what}", table.name));
    if entry.counter_data.is_some() && table.direct_counter.is_none() {
        return Err(missing("direct counter"));
    }
    // All is checked before anything is changed.
    if let Some(CounterData { byte_count, packet_count }) = entry.counter_data {
        direct::counter_value(byte_count, packet_count).map_err(|error| {
            UpdateError::new(error.code, format!("table {}: {}", table.name, error.message))
        })?;
    }
    if (entry.meter_config.is_some() || entry.meter_counter_data.is_some()) && table.direct_meter.is_none() {
        return Err(missing("direct meter"));
    }
    if entry.meter_counter_data.is_some() {
        let message = format!("table {}: meters do not count here", table.name);
        return Err(UpdateError::new(Code::Unimplemented, message));
    }
    if entry.idle_timeout_ns < 0 {
        return Err(invalid(format!(
            "table {}: idle timeout {} ns given",
            table.name, entry.idle_timeout_ns
        )));
    }
    entry.meter_config.as_ref().map_or(Ok(()), |config| direct::check_meter(&table.name, config))
}

fn write_resources(
    cx: &mut Context<'_>,
    handle: TableId,
    key: &EntryKey,
    entry: &p4v1::TableEntry,
    operation: Operation,
) -> Outcome {
    if let Some(CounterData { byte_count, packet_count }) = entry.counter_data {
        let value = direct::counter_value(byte_count, packet_count)?;
        cx.switch.direct_counter_write(handle, key, value)?;
    }
    let has_meter =
        cx.pipeline.info.table_by_id(entry.table_id).is_ok_and(|table| table.direct_meter.is_some());
    match &entry.meter_config {
        Some(config) => cx.switch.direct_meter_write(handle, key, Some(direct::control_meter(config)))?,
        // An absent configuration is the default one.
        None if has_meter && operation == Operation::Modify => {
            cx.switch.direct_meter_write(handle, key, None)?
        }
        None => {}
    }
    Ok(())
}
