//! Pipelines: action profiles, tables, conditions, control flow.

use std::collections::HashMap;

use super::super::ast::{
    CalcInput, Calculation, ConstEntry, FieldRef, FlowNode, Next, Pipeline, Table, TableKey, VALID,
};
use super::super::info::{MatchFieldInfo, MatchKind, ProfileInfo, TableInfo};
use super::super::json::Node;
use super::super::num::Num;
use super::super::{ActionId, ProfileId, TableId};
use super::expr::Scope;
use super::state::hash_algorithm;
use super::{MAX_SIZE, Reader, Result, match_kind};
use crate::control::MatchKey;

/// Names of the nodes of one pipeline.
type NodeNames = HashMap<String, usize>;

impl Reader {
    pub(super) fn pipelines(&mut self, root: &Node) -> Result<()> {
        for node in root.get("pipelines").items()? {
            let pipeline = self.pipeline(&node)?;
            match node.get("name").string()? {
                "ingress" => self.ast.ingress = Some(pipeline),
                "egress" => self.ast.egress = Some(pipeline),
                _ => return node.get("name").wrong("ingress or egress"),
            }
        }
        if self.ast.ingress.is_none() || self.ast.egress.is_none() {
            return root.get("pipelines").wrong("the pipelines ingress and egress");
        }
        Ok(())
    }

    fn pipeline(&mut self, node: &Node) -> Result<Pipeline> {
        for profile in node.get("action_profiles").items()? {
            self.action_profile(&profile)?;
        }
        let tables = node.get("tables").items()?;
        let conditions = node.get("conditionals").items()?;
        let calls = node.get("action_calls").items()?;
        let mut names = NodeNames::new();
        for n in tables.iter().chain(&conditions).chain(&calls) {
            let name = n.get("name").string()?;
            let index = names.len();
            if names.insert(name.to_owned(), index).is_some() {
                return n.get("name").wrong("a name that no other node of the pipeline has");
            }
        }
        let mut pipeline = Pipeline { nodes: Vec::new(), paths: Vec::new(), start: None };
        for table in &tables {
            let index = self.table(table, &names)?;
            pipeline.nodes.push(FlowNode::Table(index));
            pipeline.paths.push(table.path());
        }
        for condition in &conditions {
            pipeline.nodes.push(FlowNode::Condition {
                expr: self.boolean(&condition.get("expression"), Scope::NONE)?,
                then: next(&condition.get("true_next"), &names)?,
                other: next(&condition.get("false_next"), &names)?,
            });
            pipeline.paths.push(condition.path());
        }
        for call in &calls {
            let action = self.action_by_id(&call.get("action_id"))?;
            if !self.ast.actions[action].params.is_empty() {
                return call.get("action_id").wrong("an action without parameters");
            }
            pipeline.nodes.push(FlowNode::Call { action, next: next(&call.get("next_node"), &names)? });
            pipeline.paths.push(call.path());
        }
        pipeline.start = next(&node.get("init_table"), &names)?;
        Ok(pipeline)
    }

    fn action_profile(&mut self, node: &Node) -> Result<()> {
        let name = node.get("name").string()?.to_owned();
        let size = node.get("max_size").bounded(MAX_SIZE)?;
        let selector = node.get("selector");
        let calculation = match selector.is_null() {
            true => None,
            false => {
                let mut input = Vec::new();
                for i in selector.get("input").items()? {
                    match self.calc_input(&i)? {
                        Some(i @ CalcInput::Field(_)) => input.push(i),
                        _ => return i.wrong("a field"),
                    }
                }
                let algorithm = hash_algorithm(&selector.get("algo"))?;
                self.ast.calculations.push(Calculation { algorithm, input, with_payload: false });
                Some(self.ast.calculations.len() as u32 - 1)
            }
        };
        self.names.profiles.insert(name.clone(), self.objects.profiles.len() as u32);
        self.objects.profiles.push(ProfileInfo {
            name,
            size,
            has_selector: calculation.is_some(),
            tables: Vec::new(),
        });
        self.ast.selectors.push(calculation);
        Ok(())
    }

    fn table(&mut self, node: &Node, names: &NodeNames) -> Result<usize> {
        let name = node.get("name").string()?.to_owned();
        let id = TableId(self.objects.tables.len() as u32);
        let keys = self.table_keys(node)?;
        let kind = match_kind(&node.get("match_type"))?;
        let is_range = kind == MatchKind::Range;
        let needs_priority = matches!(kind, MatchKind::Range | MatchKind::Ternary);
        for (key, n) in keys.iter().zip(node.get("key").items()?) {
            let fits = match key.kind {
                MatchKind::Exact | MatchKind::Valid => true,
                MatchKind::Lpm => kind != MatchKind::Exact,
                MatchKind::Ternary => needs_priority,
                MatchKind::Range => is_range,
            };
            if !fits {
                return n.wrong(format!("a field that a table of match_type {kind:?} can have"));
            }
        }
        if keys.iter().filter(|k| k.kind == MatchKind::Lpm).count() > 1 {
            return node.get("key").wrong("at most one lpm field");
        }
        let (actions, next_nodes, hit_next, miss_next) = self.table_actions(node, names)?;
        let profile = self.table_profile(node, id)?;
        let entries_node = node.get("entries");
        let const_entries = node.has("entries");
        if const_entries && profile.is_some() {
            return entries_node.wrong("entries in simple tables only");
        }
        let entries = self.const_entries(&entries_node, node, &keys, &actions)?;
        let size = match node.get("max_size") {
            n if n.is_null() => entries.len(),
            n => n.bounded(MAX_SIZE)?.max(entries.len()),
        };
        let default_node = node.get("default_entry");
        let default = match default_node.is_null() {
            true => None,
            false => Some(self.default_entry(&default_node, &actions)?),
        };
        let entry_const = default_node.get("action_entry_const").flag(false)?;
        let direct_meter = match node.get("direct_meters").optional_string()? {
            None => None,
            Some(name) => {
                let meter = self.names.meters.get(name).copied();
                let meter = meter.ok_or_else(|| node.get("direct_meters").dangling("meter array", name))?;
                if self.ast.meters[meter as usize].direct_target.is_none() {
                    return node.get("direct_meters").wrong("a direct meter array");
                }
                Some(meter)
            }
        };
        self.objects.tables.push(TableInfo {
            name,
            fields: keys
                .iter()
                .map(|k| MatchFieldInfo {
                    name: k.name.clone(),
                    kind: k.kind,
                    bits: self.field_bits(k.target),
                })
                .collect(),
            actions: actions.iter().map(|a| ActionId(*a as u32)).collect(),
            size,
            profile,
            needs_priority,
            has_counter: node.get("with_counters").flag(false)?,
            has_meter: direct_meter.is_some(),
            supports_timeout: node.get("support_timeout").flag(false)?,
            const_entries,
            const_default: entry_const || default_node.get("action_const").flag(false)?,
        });
        self.ast.tables.push(Table {
            keys,
            is_range,
            actions,
            next: next_nodes,
            hit_next,
            miss_next,
            base_next: next(&node.get("base_default_next"), names)?,
            default,
            entries,
            direct_meter,
        });
        Ok(id.index())
    }

    fn table_keys(&self, node: &Node) -> Result<Vec<TableKey>> {
        let mut keys = Vec::new();
        for key in node.get("key").items()? {
            let kind = match_kind(&key.get("match_type"))?;
            let target_node = key.get("target");
            let target = match kind {
                MatchKind::Valid => FieldRef { header: self.header(&target_node)?, field: VALID },
                _ => self.field(&target_node)?,
            };
            if self.is_variable(target) {
                return Err(target_node.unsupported("a variable-length field in a table key"));
            }
            let mask = key.get("mask");
            let bytes = self.field_bits(target).div_ceil(8) as usize;
            let mask = match mask.is_null() {
                true => None,
                false => match mask.hex()?.to_bytes(bytes) {
                    Some(m) => Some(m),
                    None => return mask.wrong(format!("a mask of at most {bytes} bytes")),
                },
            };
            let default_name = || {
                let header = &self.ast.headers[target.header as usize];
                let ty = &self.ast.types[header.ty];
                let field = ty.fields.get(target.field as usize).map_or("$valid$", |f| f.name.as_str());
                format!("{}.{field}", header.name)
            };
            let name = key.get("name").optional_string()?.map_or_else(default_name, str::to_owned);
            keys.push(TableKey { kind, target, name, mask });
        }
        Ok(keys)
    }

    #[allow(clippy::type_complexity)]
    fn table_actions(
        &self,
        node: &Node,
        names: &NodeNames,
    ) -> Result<(Vec<usize>, Vec<Next>, Option<Next>, Option<Next>)> {
        let mut actions = Vec::new();
        if node.has("action_ids") {
            for id in node.get("action_ids").items()? {
                actions.push(self.action_by_id(&id)?);
            }
        } else {
            for n in node.get("actions").items()? {
                let name = n.string()?;
                let found = self.ast.actions.iter().position(|a| a.name == name);
                actions.push(found.ok_or_else(|| n.dangling("action", name))?);
            }
        }
        let next_tables = node.get("next_tables");
        if next_tables.has("__HIT__") || next_tables.has("__MISS__") {
            let hit = next(&next_tables.get("__HIT__"), names)?;
            let miss = next(&next_tables.get("__MISS__"), names)?;
            let none = vec![None; actions.len()];
            return Ok((actions, none, Some(hit), Some(miss)));
        }
        let mut nodes = Vec::new();
        for action in &actions {
            let name = &self.ast.actions[*action].name;
            if !next_tables.has(name) {
                return next_tables.wrong(format!("a key for action {name:?}"));
            }
            nodes.push(next(&next_tables.get_dynamic(name), names)?);
        }
        Ok((actions, nodes, None, None))
    }

    fn table_profile(&mut self, node: &Node, id: TableId) -> Result<Option<ProfileId>> {
        let ty = node.get("type");
        match ty.string()? {
            "simple" => Ok(None),
            kind @ ("indirect" | "indirect_ws") => {
                let name = node.get("action_profile");
                let profile = self.names.profiles.get(name.string()?).copied();
                let profile =
                    profile.ok_or_else(|| name.dangling("action profile", name.string().unwrap_or("")))?;
                let info = &mut self.objects.profiles[profile as usize];
                if (kind == "indirect_ws") != info.has_selector {
                    return name
                        .wrong("indirect_ws with a profile that has a selector, indirect with one without");
                }
                info.tables.push(id);
                Ok(Some(ProfileId(profile)))
            }
            _ => ty.wrong("simple, indirect or indirect_ws"),
        }
    }

    fn default_entry(&self, node: &Node, actions: &[usize]) -> Result<(usize, Vec<Num>)> {
        let action = self.action_by_id(&node.get("action_id"))?;
        if !actions.contains(&action) {
            return node.get("action_id").wrong("an action of the table");
        }
        Ok((action, self.action_data(&node.get("action_data"), action)?))
    }

    fn action_data(&self, node: &Node, action: usize) -> Result<Vec<Num>> {
        let params = &self.ast.actions[action].params;
        let items = node.items()?;
        if items.len() != params.len() {
            return node.wrong(format!("{} arguments", params.len()));
        }
        items.iter().map(Node::hex).collect()
    }

    fn const_entries(
        &self,
        node: &Node,
        table: &Node,
        keys: &[TableKey],
        actions: &[usize],
    ) -> Result<Vec<ConstEntry>> {
        let mut entries = Vec::new();
        for entry in node.items()? {
            let match_key = entry.get("match_key");
            let fields = match_key.items()?;
            if fields.len() != keys.len() {
                return match_key.wrong(format!("{} fields, as the table's key", keys.len()));
            }
            let mut values = Vec::new();
            for (field, key) in fields.iter().zip(keys) {
                let bytes = self.field_bits(key.target).div_ceil(8) as usize;
                if match_kind(&field.get("match_type"))? != key.kind {
                    return field.get("match_type").wrong(format!("{:?}, as in the table's key", key.kind));
                }
                values.push(const_key(field, key.kind, bytes)?);
            }
            let call = entry.get("action_entry");
            let action = self.action_by_id(&call.get("action_id"))?;
            if !actions.contains(&action) {
                return call.get("action_id").wrong("an action of the table");
            }
            let args = self.action_data(&call.get("action_data"), action)?;
            let priority = match entry.get("priority") {
                n if n.is_null() => 0,
                n => n.bounded(1 << 30)? as i32,
            };
            entries.push(ConstEntry { keys: values, priority, action, args });
        }
        if !entries.is_empty() && keys.is_empty() {
            return table.get("key").wrong("a key, since the table has entries");
        }
        Ok(entries)
    }

    fn action_by_id(&self, node: &Node) -> Result<usize> {
        let id = node.integer()?;
        self.names.action_ids.get(&id).copied().ok_or_else(|| node.dangling("action with id", id))
    }
}

fn const_key(node: &Node, kind: MatchKind, bytes: usize) -> Result<MatchKey> {
    let read = |key: &'static str| -> Result<Vec<u8>> {
        let n = node.get(key);
        match n.hex()?.to_bytes(bytes) {
            Some(b) => Ok(b),
            None => n.wrong(format!("a value of at most {bytes} bytes")),
        }
    };
    Ok(match kind {
        MatchKind::Exact => MatchKey::Exact(read("key")?),
        MatchKind::Valid => MatchKey::Exact(vec![u8::from(node.get("key").flag(false)?)]),
        MatchKind::Lpm => {
            let prefix_len = node.get("prefix_length").bounded(bytes as u64 * 8)? as u32;
            MatchKey::Lpm { value: read("key")?, prefix_len }
        }
        MatchKind::Ternary => MatchKey::Ternary { value: read("key")?, mask: read("mask")? },
        MatchKind::Range => MatchKey::Range { low: read("start")?, high: read("end")? },
    })
}

fn next(node: &Node, names: &NodeNames) -> Result<Next> {
    match node.optional_string()? {
        None => Ok(None),
        Some(name) => match names.get(name) {
            Some(index) => Ok(Some(*index)),
            None => Err(node.dangling("table or condition", name)),
        },
    }
}
