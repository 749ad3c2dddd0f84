//! What the names in a script mean in a compiled program. p4c's runner takes any suffix of a name that is unique, so this does too.

use std::collections::HashMap;

use inca_p4runtime::P4Info;
use inca_p4runtime::info::MatchKind;
use inca_switch::control::{MatchKey, MeterConfig, Replica};
use serde_json::Value;

use super::random::OPTIONAL;
use super::script::{Statement, WrittenCall};
use super::{Action, Call, CounterName, EntryName, Request, number};

/// Names and shapes of a compiled program, read from its JSON alone.
#[derive(Debug, Default)]
pub struct Names {
    pub(super) tables: Vec<Table>,
    /// Name; name and width of each parameter.
    pub(super) actions: Vec<(String, Vec<(String, u32)>)>,
    pub(super) profiles: Vec<String>,
    arrays: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// Name, kind of match, width in bits.
    pub(super) keys: Vec<(String, String, u32)>,
    /// Indices into the program's actions.
    pub(super) actions: Vec<usize>,
    pub(super) prioritised: bool,
    counter: bool,
    /// Action profile, and whether it has a selector.
    pub(super) profile: Option<(String, bool)>,
    pub(super) const_entries: bool,
    pub(super) const_default: bool,
}

/// Groups, nodes and entries that a script has named so far.
#[derive(Debug, Default)]
pub struct Memory {
    entries: HashMap<String, EntryName>,
    nodes: Vec<Vec<Replica>>,
    groups: HashMap<u32, Vec<Replica>>,
    added: usize,
}

impl Names {
    /// Reads a program.
    ///
    /// # Errors
    /// If it is not what p4c writes.
    pub fn new(json: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let widths = widths(&document);
        let mut names = Self::default();
        let mut ids = HashMap::new();
        for action in items(&document["actions"]) {
            let params = items(&action["runtime_data"]);
            let params = params.map(|p| (text(&p["name"]), p["bitwidth"].as_u64().unwrap_or(1) as u32));
            ids.insert(action["id"].as_i64(), names.actions.len());
            names.actions.push((text(&action["name"]), params.collect()));
        }
        for pipeline in items(&document["pipelines"]) {
            names.profiles.extend(items(&pipeline["action_profiles"]).map(|profile| text(&profile["name"])));
            for table in items(&pipeline["tables"]) {
                let keys = items(&table["key"]).map(|key| {
                    let target: Vec<String> = match &key["target"] {
                        Value::String(header) => vec![header.clone(), "$valid$".to_owned()],
                        parts => items(parts).map(text).collect(),
                    };
                    let name = key["name"].as_str().map_or_else(|| target.join("."), str::to_owned);
                    (name, text(&key["match_type"]), widths.get(&target.join(".")).copied().unwrap_or(1))
                });
                names.tables.push(Table {
                    name: text(&table["name"]),
                    keys: keys.collect(),
                    actions: items(&table["action_ids"])
                        .filter_map(|id| ids.get(&id.as_i64()))
                        .copied()
                        .collect(),
                    prioritised: matches!(table["match_type"].as_str(), Some("ternary" | "range")),
                    counter: table["with_counters"].as_bool().unwrap_or(false),
                    profile: table["action_profile"]
                        .as_str()
                        .map(|profile| (profile.to_owned(), table["type"] == "indirect_ws")),
                    const_entries: !table["entries"].is_null(),
                    const_default: table["default_entry"]["action_const"].as_bool().unwrap_or(false)
                        || table["default_entry"]["action_entry_const"].as_bool().unwrap_or(false),
                });
            }
        }
        for arrays in ["counter_arrays", "meter_arrays", "register_arrays"] {
            names.arrays.extend(items(&document[arrays]).map(|array| text(&array["name"])));
        }
        Ok(names)
    }

    /// Takes from the P4Info which ternary fields are optional ones.
    pub fn learn(&mut self, info: &P4Info) {
        for table in &mut self.tables {
            let Ok(known) = info.table(&table.name) else { continue };
            for ((_, kind, _), field) in table.keys.iter_mut().zip(&known.fields) {
                if field.kind == MatchKind::Optional {
                    OPTIONAL.clone_into(kind);
                }
            }
        }
    }

    /// What a statement asks of the control plane; nothing for packets, expectations and checks.
    ///
    /// # Errors
    /// If a name is not there, or several have that end, or a value is no number.
    pub fn request(&self, statement: &Statement, memory: &mut Memory) -> Result<Option<Request>, String> {
        Ok(Some(match statement {
            Statement::Add { table, priority, keys, call, handle } => {
                let table = self.table(table)?;
                memory.added += 1;
                let priority = match (table.prioritised, priority) {
                    (false, _) => 0,
                    // Unlike P4Runtime a script may say 0.
                    (true, Some(given)) => number::small(given)? as i32 + 1,
                    (true, None) => return Err(format!("table {} needs a priority", table.name)),
                };
                let name = EntryName { table: table.name.clone(), keys: table.keys(keys)?, priority };
                if let Some(handle) = handle {
                    memory.entries.insert(handle.trim_start_matches('$').to_owned(), name.clone());
                }
                Request::Insert(name, self.action(table, call)?)
            }
            Statement::SetDefault(table, call) => {
                let table = self.table(table)?;
                Request::Default(table.name.clone(), self.action(table, call)?)
            }
            Statement::RemoveAll => Request::RemoveAll,
            Statement::Member(profile, id, call) => {
                let actions: Vec<usize> = (0..self.actions.len()).collect();
                Request::Member(find(&self.profiles, profile, "profile")?, *id, self.call(&actions, call)?)
            }
            Statement::Group(profile, id, members) => Request::Group(
                find(&self.profiles, profile, "profile")?,
                *id,
                members.iter().map(|member| (*member, 1)).collect(),
            ),
            Statement::Mirror(session, port) => {
                Request::Session(*session, vec![Replica { port: *port, instance: 0 }])
            }
            Statement::MirrorGroup(session, group) => {
                Request::Session(*session, memory.groups.get(group).cloned().unwrap_or_default())
            }
            Statement::GroupCreate(group) => {
                memory.groups.insert(*group, Vec::new());
                return Ok(None);
            }
            Statement::NodeCreate(instance, ports) => {
                let replicas = ports.iter().map(|port| Replica { port: *port, instance: *instance });
                memory.nodes.push(replicas.collect());
                return Ok(None);
            }
            Statement::NodeAssociate(group, node) => {
                let node = memory.nodes.get(*node).ok_or_else(|| format!("there is no node {node}"))?;
                let replicas =
                    memory.groups.get_mut(group).ok_or_else(|| format!("there is no group {group}"))?;
                replicas.extend(node);
                Request::Multicast(*group, replicas.clone())
            }
            Statement::Register(name, index, value) => {
                Request::Register(find(&self.arrays, name, "register")?, *index, number::plain(value)?)
            }
            Statement::CounterWrite(name, index, packets, bytes) => {
                let value = inca_switch::control::CounterValue { packets: *packets, bytes: *bytes };
                Request::Counter(find(&self.arrays, name, "counter")?, *index, value)
            }
            Statement::Meter(name, index, rates) => {
                Request::Meter(find(&self.arrays, name, "meter")?, *index, meter(rates))
            }
            Statement::Packet(..)
            | Statement::Expect(..)
            | Statement::CheckCounter(..)
            | Statement::Nothing => return Ok(None),
        }))
    }

    /// The counter that a check names: of an entry with this handle, of the only entry, or a cell of an array.
    ///
    /// # Errors
    /// If there is none.
    pub fn counter(&self, name: &str, index: &str, memory: &Memory) -> Result<CounterName, String> {
        if let Some(entry) = memory.entries.get(index.trim_start_matches('$')) {
            let table = self.tables.iter().find(|table| table.name == entry.table);
            if table.is_some_and(|table| table.counter) {
                return Ok(CounterName::Entry(entry.clone()));
            }
        }
        let cell = number::small(index).map_err(|_| format!("no entry is called {index}"))?;
        Ok(CounterName::Cell(find(&self.arrays, name, "counter")?, cell as usize))
    }

    fn table(&self, name: &str) -> Result<&Table, String> {
        let names: Vec<String> = self.tables.iter().map(|table| table.name.clone()).collect();
        let found = find(&names, name, "table")?;
        self.tables.iter().find(|table| table.name == found).ok_or(found)
    }

    fn action(&self, table: &Table, call: &WrittenCall) -> Result<Action, String> {
        let id = || -> Result<u32, String> {
            let (_, value) =
                call.1.iter().find(|(name, _)| name == "id").ok_or("the argument id is missing")?;
            Ok(number::small(value)? as u32)
        };
        match call.0.as_str() {
            "$member" => Ok(Action::Member(id()?)),
            "$group" => Ok(Action::Group(id()?)),
            _ => Ok(Action::Call(self.call(&table.actions, call)?)),
        }
    }

    fn call(&self, among: &[usize], (name, args): &WrittenCall) -> Result<Call, String> {
        let mut names: Vec<String> = among.iter().map(|action| self.actions[*action].0.clone()).collect();
        names.sort();
        names.dedup();
        let action = find(&names, name, "action")?;
        let known = among.iter().map(|action| &self.actions[*action]).find(|(known, _)| *known == action);
        let params = known.map_or(&[][..], |(_, params)| params);
        if let Some((arg, _)) = args.iter().find(|(arg, _)| params.iter().all(|(param, _)| param != arg)) {
            return Err(format!("action {action} has no parameter {arg}"));
        }
        let value = |(param, _): &(String, u32)| {
            let (_, value) =
                args.iter().find(|(arg, _)| arg == param).ok_or_else(|| format!("{action} needs {param}"))?;
            number::plain(value)
        };
        let args = params.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Call { action, args })
    }
}

impl Table {
    fn keys(&self, given: &[(String, String)]) -> Result<Vec<MatchKey>, String> {
        let mut values: Vec<Option<&str>> = vec![None; self.keys.len()];
        for (field, value) in given {
            values[self.key(field)?] = Some(value);
        }
        let keys = self.keys.iter().zip(values);
        keys.map(|((name, kind, bits), value)| match (kind.as_str(), value) {
            ("ternary" | OPTIONAL, None) => Ok(MatchKey::Ternary { value: vec![0], mask: vec![0] }),
            ("ternary" | OPTIONAL, Some(value)) => {
                let (value, mask) = number::masked(value)?;
                Ok(MatchKey::Ternary { value: value.clone(), mask: cut(mask, *bits) })
            }
            ("lpm", None) => Ok(MatchKey::Lpm { value: vec![0], prefix_len: 0 }),
            ("lpm", Some(value)) => {
                let (mut value, prefix_len) = number::prefix(value)?;
                clear_low(&mut value, bits.saturating_sub(prefix_len));
                Ok(MatchKey::Lpm { value, prefix_len })
            }
            ("range", _) => {
                let (low, high) = value
                    .and_then(|value| value.split_once(".."))
                    .ok_or_else(|| format!("{name} is matched by range: it needs a value as 0x01..0x0f"))?;
                Ok(MatchKey::Range { low: number::plain(low)?, high: number::plain(high)? })
            }
            ("valid", value) => {
                let on = matches!(value, Some("1" | "true" | "0x1" | "0b1"));
                Ok(MatchKey::Exact(vec![u8::from(on)]))
            }
            (_, value) => Ok(MatchKey::Exact(number::plain(value.unwrap_or("0"))?)),
        })
        .collect()
    }

    /// Position of a field: by its name, by a name that ends so, or as a validity.
    fn key(&self, field: &str) -> Result<usize, String> {
        let field = stack_element(field);
        let at = |wanted: &dyn Fn(&str) -> bool| self.keys.iter().position(|(name, ..)| wanted(name));
        at(&|name| name == field)
            .or_else(|| at(&|name| name == format!("{field}$")))
            .or_else(|| at(&|name| name == format!("{field}.$valid$")))
            .or_else(|| {
                let header = field.strip_suffix(".valid")?;
                at(&|name| name == format!("{header}.$valid$"))
            })
            .or_else(|| {
                at(&|name| name.ends_with(&format!(".{field}")) || name.ends_with(&format!(".{field}$")))
            })
            .or_else(|| (field == "valid").then(|| at(&|name| name.ends_with("$valid$"))).flatten())
            .ok_or_else(|| format!("table {} has no field {field}", self.name))
    }
}

/// `a$1.b` as `a[1].b`.
fn stack_element(field: &str) -> String {
    let Some((head, tail)) = field.split_once('$') else { return field.to_owned() };
    let digits = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 { field.to_owned() } else { format!("{head}[{}]{}", &tail[..digits], &tail[digits..]) }
}

/// Clears the bits beyond a field's width.
fn cut(mut mask: Vec<u8>, bits: u32) -> Vec<u8> {
    for (index, byte) in mask.iter_mut().rev().enumerate() {
        let left = bits.saturating_sub(8 * index as u32);
        if left < 8 {
            *byte &= (1u16 << left).wrapping_sub(1) as u8;
        }
    }
    mask
}

/// Clears so many bits from the lowest.
pub(super) fn clear_low(value: &mut [u8], count: u32) {
    for (index, byte) in value.iter_mut().rev().enumerate() {
        let here = count.saturating_sub(8 * index as u32).min(8);
        *byte &= (0xffu16 << here) as u8;
    }
}

/// Committed rate first; a script's rates are units a microsecond.
fn meter(rates: &[(f64, u64)]) -> MeterConfig {
    let at =
        |index: usize| rates.get(index).map_or((0, 0), |(rate, burst)| ((rate * 1e6) as i64, *burst as i64));
    let ((cir, cburst), (pir, pburst)) = (at(0), at(1));
    MeterConfig { cir, cburst, pir, pburst }
}

/// The name itself, or the only one that ends so.
fn find(names: &[String], name: &str, what: &str) -> Result<String, String> {
    if names.iter().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let mut ends = names.iter().filter(|known| known.ends_with(name));
    match (ends.next(), ends.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(one), Some(other)) => Err(format!("{what} {name} may be {one} or {other}")),
        (None, _) => Err(format!("the program has no {what} {name}")),
    }
}

/// Width of each header field, by `header.field`.
fn widths(document: &Value) -> HashMap<String, u32> {
    let mut types: HashMap<String, Vec<(String, u32)>> = HashMap::new();
    for ty in items(&document["header_types"]) {
        let fields = items(&ty["fields"]);
        let fields = fields.map(|field| (text(&field[0]), field[1].as_u64().unwrap_or(1) as u32));
        types.insert(text(&ty["name"]), fields.collect());
    }
    let mut widths = HashMap::new();
    for header in items(&document["headers"]) {
        for (field, bits) in types.get(&text(&header["header_type"])).into_iter().flatten() {
            widths.insert(format!("{}.{field}", text(&header["name"])), *bits);
        }
    }
    widths
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
