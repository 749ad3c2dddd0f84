//! Tables.

use std::sync::Arc;

use super::bytes;
use super::{
    ActionCall, CounterValue, EntryAction, EntryKey, EntryView, MatchKey, MeterConfig, OneShotMember,
    ProfileError, TableEntry, TableError,
};
use crate::exec::meter::Meter;
use crate::exec::table::{Entry, PackedKey, Target};
use crate::program::{ActionId, MatchKind, Program, TableId, TableInfo};
use crate::switch::Switch;

type Result<T> = std::result::Result<T, TableError>;

impl Switch {
    /// Adds an entry.
    ///
    /// # Errors
    /// Unknown handles, keys or arguments that do not fit, a priority where none may be or none where one must be, an
    /// entry that is there, a full table, const entries.
    pub fn table_insert(&mut self, table: TableId, entry: TableEntry) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        refuse_const(info)?;
        let key = canonical_key(info, &entry.keys, entry.priority)?;
        let state = &self.machine.rules.tables[table.index()];
        if state.find(&key).is_some() {
            return Err(TableError::AlreadyExists { table: info.name.clone() });
        }
        if state.len() >= info.size {
            return Err(TableError::Full { table: info.name.clone(), size: info.size });
        }
        check_timeout(info, &entry)?;
        let (action, target) = self.resolve_action(table, info, &entry.action, true)?;
        let packed = pack_key(&program, table, &key.keys);
        let entry = TableEntry { keys: key.keys.clone(), action, ..entry };
        let now_us = self.now_us;
        self.rules_mut().table_mut(table).insert(key, packed, new_entry(entry, target, false, now_us));
        Ok(())
    }

    /// Replaces action, metadata and timeout of the entry with the same keys and priority.
    ///
    /// # Errors
    /// As [`Switch::table_insert`]; no such entry.
    pub fn table_modify(&mut self, table: TableId, entry: TableEntry) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        refuse_const(info)?;
        let key = canonical_key(info, &entry.keys, entry.priority)?;
        let missing = || TableError::NotFound { table: info.name.clone() };
        let handle = self.machine.rules.tables[table.index()].find(&key).ok_or_else(missing)?;
        check_timeout(info, &entry)?;
        let (action, target) = self.resolve_action(table, info, &entry.action, true)?;
        let entry = TableEntry { keys: key.keys, action, ..entry };
        let now_us = self.now_us;
        self.rules_mut().table_mut(table).replace(handle, new_entry(entry, target, false, now_us));
        Ok(())
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// Unknown handle, keys that do not fit, no such entry, const entries.
    pub fn table_delete(&mut self, table: TableId, key: &EntryKey) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        refuse_const(info)?;
        let key = canonical_key(info, &key.keys, key.priority)?;
        let missing = TableError::NotFound { table: info.name.clone() };
        let packed = pack_key(&program, table, &key.keys);
        if self.rules_mut().table_mut(table).remove(&key, &packed) { Ok(()) } else { Err(missing) }
    }

    /// The entry with these keys and priority.
    ///
    /// # Errors
    /// Unknown handle, keys that do not fit, no such entry.
    pub fn table_get(&self, table: TableId, key: &EntryKey) -> Result<EntryView> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        let key = canonical_key(info, &key.keys, key.priority)?;
        let state = &self.machine.rules.tables[table.index()];
        let entry = state.find(&key).and_then(|handle| Some((handle, state.entry(handle)?)));
        let (handle, entry) = entry.ok_or_else(|| TableError::NotFound { table: info.name.clone() })?;
        Ok(self.view(table, info, handle, entry))
    }

    /// All entries, const ones too, in order of insertion.
    ///
    /// # Errors
    /// Unknown handle.
    pub fn table_entries(&self, table: TableId) -> Result<Vec<EntryView>> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        let entries = self.machine.rules.tables[table.index()].iter();
        Ok(entries.map(|(handle, entry)| self.view(table, info, handle, entry)).collect())
    }

    /// Number of entries.
    ///
    /// # Errors
    /// Unknown handle.
    pub fn table_len(&self, table: TableId) -> Result<usize> {
        info(self.program(), table)?;
        Ok(self.machine.rules.tables[table.index()].len())
    }

    /// The default action; `None` if there is none (a miss does nothing).
    ///
    /// # Errors
    /// Unknown handle.
    pub fn table_default(&self, table: TableId) -> Result<Option<EntryAction>> {
        info(self.program(), table)?;
        Ok(self.machine.rules.tables[table.index()].default_action.clone())
    }

    /// Sets the default action; `None` restores the program's.
    ///
    /// # Errors
    /// Unknown handles, arguments that do not fit, a default action that is const.
    pub fn table_set_default(&mut self, table: TableId, action: Option<EntryAction>) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        if info.const_default {
            return Err(TableError::ConstDefault { table: info.name.clone() });
        }
        let (action, target) = match &action {
            Some(action) => {
                let (action, target) = self.resolve_action(table, info, action, false)?;
                (Some(action), target)
            }
            None => self.program_default(table),
        };
        let state = self.rules_mut().table_mut(table);
        state.default = target;
        state.default_action = action;
        Ok(())
    }

    /// Sets an entry's direct counter.
    ///
    /// # Errors
    /// Unknown handle, no such entry, no direct counter.
    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        key: &EntryKey,
        value: CounterValue,
    ) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        if !info.has_counter {
            return Err(TableError::NoResource { table: info.name.clone(), what: "direct counter" });
        }
        let (handle, entry) = self.entry_for_write(table, key)?;
        // Threads add up, so one of them has it all.
        let mut rest = value;
        for state in self.states_mut() {
            state.hits_mut(table.index(), handle, &entry).counter = std::mem::take(&mut rest);
        }
        Ok(())
    }

    /// Sets an entry's direct meter; `None`: unlimited (every packet green).
    ///
    /// # Errors
    /// Unknown handle, no such entry, no direct meter, rates that contradict each other.
    pub fn direct_meter_write(
        &mut self,
        table: TableId,
        key: &EntryKey,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        if !info.has_meter {
            return Err(TableError::NoResource { table: info.name.clone(), what: "direct meter" });
        }
        if let Some(problem) = config.and_then(|c| super::state::meter_problem(&c)) {
            return Err(TableError::WrongActionSort { table: info.name.clone(), problem });
        }
        let now_us = self.now_us;
        let (handle, entry) = self.entry_for_write(table, key)?;
        let hits = self.machine.state.hits_mut(table.index(), handle, &entry);
        hits.meter = config.map(|c| Meter::new(c, now_us));
        Ok(())
    }

    /// Entries whose idle timeout has passed since their last hit and that were not reported since; in all tables.
    pub fn expired_entries(&mut self, now_us: u64) -> Vec<(TableId, EntryView)> {
        self.now_us = self.now_us.max(now_us);
        let program = self.program().clone();
        let mut expired = Vec::new();
        for (id, info) in program.tables().filter(|(_, info)| info.supports_timeout) {
            let rules = Arc::clone(&self.machine.rules);
            for (handle, entry) in rules.tables[id.index()].iter() {
                let since_us = self.idle_since(id, handle, entry);
                let idle_ns = u128::from(now_us.saturating_sub(since_us)) * 1000;
                let timeout = u128::try_from(entry.entry.idle_timeout_ns).unwrap_or(0);
                if timeout == 0 || idle_ns < timeout {
                    continue;
                }
                let reported = &mut self.machine.state.hits_mut(id.index(), handle, entry).reported_us;
                if reported.replace(since_us) != Some(since_us) {
                    expired.push((id, self.view(id, info, handle, entry)));
                }
            }
        }
        expired
    }

    /// An entry's handle and the entry, in the present snapshot.
    fn entry_for_write(&self, table: TableId, key: &EntryKey) -> Result<(u32, Arc<Entry>)> {
        let program = Arc::clone(self.program());
        let info = info(&program, table)?;
        let key = canonical_key(info, &key.keys, key.priority)?;
        let state = &self.machine.rules.tables[table.index()];
        let found = state.find(&key).and_then(|handle| Some((handle, state.shared_entry(handle)?)));
        found.ok_or_else(|| TableError::NotFound { table: info.name.clone() })
    }

    /// When an entry was hit last, or written.
    fn idle_since(&self, table: TableId, handle: u32, entry: &Entry) -> u64 {
        let last =
            self.threads().filter_map(|s| s.machine.state.hits(table, handle, entry)).map(|h| h.last_us);
        last.fold(entry.written_us, u64::max)
    }

    fn view(&self, table: TableId, info: &TableInfo, handle: u32, entry: &Entry) -> EntryView {
        let counters =
            self.threads().filter_map(|s| s.machine.state.hits(table, handle, entry)).map(|h| h.counter);
        let hits = self.machine.state.hits(table, handle, entry);
        let idle_us = self.now_us.saturating_sub(self.idle_since(table, handle, entry));
        EntryView {
            entry: entry.entry.clone(),
            counter: info.has_counter.then(|| counters.fold(CounterValue::default(), CounterValue::plus)),
            meter: hits.and_then(|h| h.meter.as_ref()).map(|m| m.config),
            is_const: entry.is_const,
            idle_ns: idle_us.saturating_mul(1000),
        }
    }

    /// Checks an entry's action and says what to run. `hit`: for an entry, not for the default.
    fn resolve_action(
        &self,
        table: TableId,
        info: &TableInfo,
        action: &EntryAction,
        hit: bool,
    ) -> Result<(EntryAction, Target)> {
        let wrong = |problem: &str| TableError::WrongActionSort {
            table: info.name.clone(),
            problem: problem.to_owned(),
        };
        match (action, info.profile) {
            (EntryAction::Call(call), None) => {
                let (call, target) = self.resolve_call(table, info, call, hit)?;
                Ok((EntryAction::Call(call), target))
            }
            (_, None) => Err(wrong("has no action profile: entries name an action")),
            (EntryAction::Call(_), Some(_)) => {
                Err(wrong("has an action profile: entries name a member, a group or a one-shot set"))
            }
            (EntryAction::Member(id), Some(profile)) => {
                let members = &self.machine.rules.profiles[profile.index()].members;
                let Some(member) = members.get(id) else {
                    return Err(self.missing(profile, "member", *id));
                };
                check_allowed(self.program(), info, member.member.call.action)?;
                Ok((action.clone(), Target::Member(*id)))
            }
            (EntryAction::Group(id), Some(profile)) => {
                if !self.machine.rules.profiles[profile.index()].groups.contains_key(id) {
                    return Err(self.missing(profile, "group", *id));
                }
                Ok((action.clone(), Target::Group(*id)))
            }
            (EntryAction::OneShot(members), Some(profile)) => {
                if !self.program().profile_info(profile).is_some_and(|p| p.has_selector) {
                    return Err(wrong(
                        "has an action profile without selector: one-shot sets are not possible",
                    ));
                }
                if members.is_empty() {
                    return Err(wrong("an empty one-shot set"));
                }
                let (mut canonical, mut slots) = (Vec::new(), Vec::new());
                for member in members {
                    if member.weight == 0 || slots.len() as u64 + u64::from(member.weight) > MAX_SLOTS {
                        return Err(wrong("weights are from 1, and 65536 at most in all"));
                    }
                    let (call, target) = self.resolve_call(table, info, &member.call, hit)?;
                    slots.extend(std::iter::repeat_n(target, member.weight as usize));
                    canonical.push(OneShotMember { call, ..member.clone() });
                }
                Ok((EntryAction::OneShot(canonical), Target::OneShot(slots.into())))
            }
        }
    }

    fn missing(&self, profile: crate::program::ProfileId, what: &'static str, id: u32) -> TableError {
        let name = self.program().profile_info(profile).map_or_else(String::new, |p| p.name.clone());
        TableError::Profile(ProfileError::NotFound { profile: name, what, id })
    }

    fn resolve_call(
        &self,
        table: TableId,
        info: &TableInfo,
        call: &ActionCall,
        hit: bool,
    ) -> Result<(ActionCall, Target)> {
        check_allowed(self.program(), info, call.action)?;
        let (call, code, args) = resolve_args(self.program(), call)?;
        let next = self.program().tables[table.index()].next_of(call.action.0, hit);
        Ok((call, Target::Call { code, next, args }))
    }

    fn program_default(&self, table: TableId) -> (Option<EntryAction>, Target) {
        let spec = &self.program().tables[table.index()];
        let Some((action, args)) = &spec.default else {
            return (None, Target::Nothing { next: spec.miss_next });
        };
        let action_spec = &self.program().actions[*action];
        let limbs: Vec<u64> = action_spec
            .params
            .iter()
            .zip(args)
            .flat_map(|(bits, arg)| arg.to_limbs(bits.div_ceil(64).max(1) as usize))
            .collect();
        let bytes =
            |arg: &crate::program::num::Num| bytes::shortest(&arg.to_limbs(arg.bits().div_ceil(64) as usize));
        let call = ActionCall { action: ActionId(*action as u32), args: args.iter().map(bytes).collect() };
        let next = spec.next_of(*action as u32, false);
        let target = Target::Call { code: action_spec.code, next, args: limbs.into() };
        (Some(EntryAction::Call(call)), target)
    }

    /// Installs the default actions and const entries of a program just loaded.
    pub(crate) fn install_program_entries(&mut self) {
        let program = Arc::clone(self.program());
        for (table, info) in program.tables() {
            let (action, target) = self.program_default(table);
            let state = self.rules_mut().table_mut(table);
            state.default = target;
            state.default_action = action;
            let spec = &program.tables[table.index()];
            for entry in &spec.entries {
                // BMv2 prefers the lower number, P4Runtime the higher.
                let priority = if info.needs_priority { i32::MAX - entry.priority } else { 0 };
                let keys: Vec<MatchKey> =
                    entry.keys.iter().zip(&info.fields).map(|(k, f)| tidy(k, f.bits)).collect();
                let args: Vec<Vec<u8>> = entry
                    .args
                    .iter()
                    .map(|a| bytes::shortest(&a.to_limbs(a.bits().div_ceil(64) as usize)))
                    .collect();
                let call = ActionCall { action: ActionId(entry.action as u32), args };
                let resolved = canonical_key(info, &keys, priority)
                    .and_then(|key| Ok((key, self.resolve_call(table, info, &call, true)?)));
                let (key, (call, target)) = match resolved {
                    Ok(r) => r,
                    Err(error) => {
                        tracing::warn!(table = info.name, %error, "const entry left out");
                        continue;
                    }
                };
                let state = self.rules_mut().table_mut(table);
                if state.find(&key).is_some() {
                    tracing::warn!(table = info.name, "const entry given twice, the first stays");
                    continue;
                }
                let entry = TableEntry {
                    keys: key.keys.clone(),
                    priority,
                    action: EntryAction::Call(call),
                    metadata: Vec::new(),
                    idle_timeout_ns: 0,
                };
                let packed = pack_key(&program, table, &key.keys);
                state.insert(key, packed, new_entry(entry, target, true, 0));
            }
        }
    }
}

/// Largest sum of weights of a one-shot set or a group.
pub(super) const MAX_SLOTS: u64 = 1 << 16;

fn new_entry(entry: TableEntry, target: Target, is_const: bool, now_us: u64) -> Entry {
    Entry { target, is_const, entry, serial: 0, written_us: now_us }
}

fn info(program: &Program, table: TableId) -> Result<&TableInfo> {
    program.table_info(table).ok_or(TableError::UnknownTable(table.0))
}

fn refuse_const(info: &TableInfo) -> Result<()> {
    if info.const_entries {
        return Err(TableError::ConstEntries { table: info.name.clone() });
    }
    Ok(())
}

fn check_timeout(info: &TableInfo, entry: &TableEntry) -> Result<()> {
    if entry.idle_timeout_ns != 0 && !info.supports_timeout {
        return Err(TableError::NoResource { table: info.name.clone(), what: "idle timeout" });
    }
    Ok(())
}

fn check_allowed(program: &Program, info: &TableInfo, action: ActionId) -> Result<()> {
    let action_info = program.action_info(action).ok_or(TableError::UnknownAction(action.0))?;
    if info.actions.contains(&action) {
        return Ok(());
    }
    Err(TableError::ActionNotInTable { table: info.name.clone(), action: action_info.name.clone() })
}

/// Checks the arguments of a call; returns it in shortest form, the action's code, and the arguments as limbs.
pub(super) fn resolve_args(program: &Program, call: &ActionCall) -> Result<(ActionCall, u32, Box<[u64]>)> {
    let info = program.action_info(call.action).ok_or(TableError::UnknownAction(call.action.0))?;
    if info.params.len() != call.args.len() {
        return Err(TableError::ArgCount {
            action: info.name.clone(),
            expected: info.params.len(),
            given: call.args.len(),
        });
    }
    let (mut args, mut limbs) = (Vec::new(), Vec::new());
    for (param, arg) in info.params.iter().zip(&call.args) {
        let arg = bytes::canonical(arg, param.bits).map_err(|problem| TableError::BadArg {
            action: info.name.clone(),
            param: param.name.clone(),
            problem,
        })?;
        limbs.extend(bytes::limbs(&arg, param.bits.div_ceil(64).max(1) as usize));
        args.push(arg);
    }
    Ok((ActionCall { action: call.action, args }, program.actions[call.action.index()].code, limbs.into()))
}

/// A const entry's key, without bits that its mask or prefix hides.
fn tidy(key: &MatchKey, bits: u32) -> MatchKey {
    match key {
        MatchKey::Ternary { value, mask } => {
            MatchKey::Ternary { value: bytes::and(value, mask), mask: mask.clone() }
        }
        MatchKey::Lpm { value, prefix_len } => {
            let value = bytes::and(value, &bytes::prefix_mask(bits, *prefix_len));
            MatchKey::Lpm { value, prefix_len: *prefix_len }
        }
        other => other.clone(),
    }
}

/// Checks keys and priority; returns them in shortest form.
fn canonical_key(info: &TableInfo, keys: &[MatchKey], priority: i32) -> Result<EntryKey> {
    if keys.len() != info.fields.len() || keys.is_empty() {
        return Err(TableError::KeyCount {
            table: info.name.clone(),
            expected: info.fields.len(),
            given: keys.len(),
        });
    }
    let bad_priority =
        |expected| TableError::BadPriority { table: info.name.clone(), given: priority, expected };
    if info.needs_priority && priority < 1 {
        return Err(bad_priority("valid are 1 and more, since a field is ternary, optional or range"));
    }
    if !info.needs_priority && priority != 0 {
        return Err(bad_priority("valid is 0, since no field is ternary, optional or range"));
    }
    let keys = keys.iter().zip(&info.fields).map(|(key, field)| {
        let bad =
            |problem| TableError::BadKey { table: info.name.clone(), field: field.name.clone(), problem };
        let fit = |bytes: &[u8]| bytes::canonical(bytes, field.bits).map_err(bad);
        Ok(match (field.kind, key) {
            (MatchKind::Exact | MatchKind::Valid, MatchKey::Exact(value)) => MatchKey::Exact(fit(value)?),
            (MatchKind::Lpm, MatchKey::Lpm { value, prefix_len }) => {
                let value = fit(value)?;
                if *prefix_len > field.bits {
                    return Err(bad(format!("prefix length {prefix_len}, valid are 0 to {}", field.bits)));
                }
                if bytes::and(&value, &bytes::prefix_mask(field.bits, *prefix_len)) != value {
                    return Err(bad(format!("bits set below the prefix of {prefix_len}")));
                }
                MatchKey::Lpm { value, prefix_len: *prefix_len }
            }
            (MatchKind::Ternary, MatchKey::Ternary { value, mask }) => {
                let (value, mask) = (fit(value)?, fit(mask)?);
                if bytes::and(&value, &mask) != value {
                    return Err(bad("bits of the value set outside the mask".to_owned()));
                }
                MatchKey::Ternary { value, mask }
            }
            (MatchKind::Ternary, MatchKey::Optional(value)) => match value {
                Some(value) => {
                    MatchKey::Ternary { value: fit(value)?, mask: bytes::prefix_mask(field.bits, field.bits) }
                }
                None => MatchKey::Ternary { value: vec![0], mask: vec![0] },
            },
            (MatchKind::Range, MatchKey::Range { low, high }) => {
                let (low, high) = (fit(low)?, fit(high)?);
                if bytes::compare(&low, &high).is_gt() {
                    return Err(bad("a range whose low end is above its high end".to_owned()));
                }
                MatchKey::Range { low, high }
            }
            (kind, key) => {
                return Err(TableError::KeyKind {
                    table: info.name.clone(),
                    field: field.name.clone(),
                    expected: kind_name(kind),
                    given: key_name(key),
                });
            }
        })
    });
    Ok(EntryKey { keys: keys.collect::<Result<_>>()?, priority })
}

fn kind_name(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact | MatchKind::Valid => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
    }
}

fn key_name(key: &MatchKey) -> &'static str {
    match key {
        MatchKey::Exact(_) => "exact",
        MatchKey::Lpm { .. } => "lpm",
        MatchKey::Ternary { .. } => "ternary",
        MatchKey::Range { .. } => "range",
        MatchKey::Optional(_) => "optional",
    }
}

/// Keys in the form the table's index wants.
fn pack_key(program: &Program, table: TableId, keys: &[MatchKey]) -> PackedKey {
    let spec = &program.tables[table.index()];
    let mut packed = PackedKey {
        value: vec![0; spec.key_limbs],
        mask: vec![0; spec.key_limbs],
        prefix_len: 0,
        ranges: Vec::new(),
    };
    for ((key, part), bits) in keys.iter().zip(&spec.parts).zip(&spec.field_bits) {
        let ones = |n: u32| bytes::prefix_mask(*bits, n);
        match key {
            MatchKey::Exact(value) => {
                part.put(&mut packed.value, value);
                part.put(&mut packed.mask, &ones(*bits));
            }
            MatchKey::Lpm { value, prefix_len } => {
                part.put(&mut packed.value, value);
                part.put(&mut packed.mask, &ones(*prefix_len));
                packed.prefix_len = *prefix_len;
            }
            MatchKey::Ternary { value, mask } => {
                part.put(&mut packed.value, value);
                part.put(&mut packed.mask, mask);
            }
            MatchKey::Range { low, high } => {
                let n = usize::from(part.limbs);
                packed.ranges.push((bytes::limbs(low, n), bytes::limbs(high, n)));
            }
            // Canonical keys have none.
            MatchKey::Optional(_) => {}
        }
    }
    for (limb, mask) in packed.value.iter_mut().zip(&spec.static_mask) {
        *limb &= mask;
    }
    packed
}
