//! Small programs made in code, in the JSON that p4c writes.

#![allow(dead_code)]

use inca_switch::{Program, Switch, SwitchConfig};
use serde_json::{Value, json};

/// A small generator of random numbers, so that failures repeat.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// Fields of a header type: name, width, signed.
pub(crate) type Fields<'a> = &'a [(&'a str, u32, bool)];

fn header_type(id: usize, name: &str, fields: Fields) -> Value {
    let mut list: Vec<Value> = fields.iter().map(|(n, w, s)| json!([n, w, s])).collect();
    let total: u32 = fields.iter().map(|(_, w, _)| w).sum();
    if !total.is_multiple_of(8) {
        list.push(json!(["_padding", 8 - total % 8, false]));
    }
    json!({"name": name, "id": id, "fields": list})
}

pub(crate) const STANDARD_METADATA: Fields = &[
    ("ingress_port", 9, false),
    ("egress_spec", 9, false),
    ("egress_port", 9, false),
    ("instance_type", 32, false),
    ("packet_length", 32, false),
    ("ingress_global_timestamp", 48, false),
    ("egress_global_timestamp", 48, false),
    ("mcast_grp", 16, false),
    ("egress_rid", 16, false),
    ("checksum_error", 1, false),
    ("parser_error", 32, false),
    ("priority", 3, false),
];

/// A program under construction.
pub(crate) struct Builder {
    pub(crate) json: Value,
}

impl Builder {
    /// Nothing but the standard metadata, an empty parser and empty pipelines.
    pub(crate) fn new() -> Self {
        let json = json!({
            "__meta__": {"version": [2, 23]},
            "header_types": [header_type(0, "standard_metadata", STANDARD_METADATA)],
            "headers": [{"name": "standard_metadata", "id": 0, "header_type": "standard_metadata", "metadata": true}],
            "header_stacks": [], "errors": [["NoError", 0], ["PacketTooShort", 1], ["NoMatch", 2],
                ["StackOutOfBounds", 3], ["HeaderTooShort", 4], ["ParserTimeout", 5], ["ParserInvalidArgument", 6]],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
                {"name": "start", "id": 0, "parser_ops": [], "transition_key": [],
                 "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}]}]}],
            "deparsers": [{"name": "deparser", "id": 0, "order": []}],
            "actions": [], "calculations": [], "checksums": [], "counter_arrays": [], "meter_arrays": [],
            "register_arrays": [], "learn_lists": [], "field_lists": [], "extern_instances": [],
            "field_aliases": [
                ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
                ["intrinsic_metadata.egress_rid", ["standard_metadata", "egress_rid"]],
                ["intrinsic_metadata.ingress_global_timestamp", ["standard_metadata", "ingress_global_timestamp"]],
                ["intrinsic_metadata.egress_global_timestamp", ["standard_metadata", "egress_global_timestamp"]]],
            "pipelines": [
                {"name": "ingress", "id": 0, "init_table": null, "tables": [], "action_profiles": [], "conditionals": []},
                {"name": "egress", "id": 1, "init_table": null, "tables": [], "action_profiles": [], "conditionals": []}],
        });
        Self { json }
    }

    fn push(&mut self, list: &str, value: Value) -> usize {
        let list = self.json[list].as_array_mut().unwrap();
        list.push(value);
        list.len() - 1
    }

    /// A header of a type of its own.
    pub(crate) fn header(&mut self, name: &str, fields: Fields, metadata: bool) {
        let id = self.json["header_types"].as_array().unwrap().len();
        let ty = format!("{name}_t");
        self.push("header_types", header_type(id, &ty, fields));
        let id = self.json["headers"].as_array().unwrap().len();
        self.push("headers", json!({"name": name, "id": id, "header_type": ty, "metadata": metadata}));
        if !metadata {
            self.json["deparsers"][0]["order"].as_array_mut().unwrap().push(json!(name));
        }
    }

    /// A stack of headers of one type.
    pub(crate) fn stack(&mut self, name: &str, fields: Fields, size: usize) {
        let id = self.json["header_types"].as_array().unwrap().len();
        let ty = format!("{name}_t");
        self.push("header_types", header_type(id, &ty, fields));
        let mut ids = Vec::new();
        for i in 0..size {
            let id = self.json["headers"].as_array().unwrap().len();
            let element = format!("{name}[{i}]");
            self.push("headers", json!({"name": element, "id": id, "header_type": ty, "metadata": false}));
            self.json["deparsers"][0]["order"].as_array_mut().unwrap().push(json!(element));
            ids.push(id);
        }
        let id = self.json["header_stacks"].as_array().unwrap().len();
        self.push("header_stacks", json!({"name": name, "id": id, "header_type": ty, "header_ids": ids}));
    }

    /// Replaces the parser's states.
    pub(crate) fn states(&mut self, states: Value) {
        self.json["parsers"][0]["parse_states"] = states;
    }

    /// An action; returns its id.
    pub(crate) fn action(&mut self, name: &str, params: &[(&str, u32)], primitives: Vec<Value>) -> usize {
        let id = self.json["actions"].as_array().unwrap().len();
        let data: Vec<Value> = params.iter().map(|(n, w)| json!({"name": n, "bitwidth": w})).collect();
        self.push("actions", json!({"name": name, "id": id, "runtime_data": data, "primitives": primitives}))
    }

    /// A table without key that runs an action, appended to a pipeline (0: ingress, 1: egress).
    pub(crate) fn run(&mut self, pipeline: usize, action: usize) {
        let action_name = self.json["actions"][action]["name"].as_str().unwrap().to_owned();
        let name = format!("tbl_{action_name}");
        self.table(
            pipeline,
            json!({"name": name, "key": [], "match_type": "exact", "type": "simple", "max_size": 1,
                "with_counters": false, "support_timeout": false, "direct_meters": null,
                "action_ids": [action], "actions": [action_name], "base_default_next": null,
                "next_tables": {action_name: null},
                "default_entry": {"action_id": action, "action_const": true, "action_data": [],
                    "action_entry_const": true}}),
        );
    }

    /// Appends a table to a pipeline: the tables before lead to it, whatever they did.
    pub(crate) fn table(&mut self, pipeline: usize, mut table: Value) {
        let name = table["name"].clone();
        let pipeline = &mut self.json["pipelines"][pipeline];
        let tables = pipeline["tables"].as_array_mut().unwrap();
        table["id"] = json!(tables.len());
        if let Some(last) = tables.last_mut() {
            last["base_default_next"] = name.clone();
            for next in last["next_tables"].as_object_mut().unwrap().values_mut() {
                *next = name.clone();
            }
        }
        tables.push(table);
        if pipeline["init_table"].is_null() {
            pipeline["init_table"] = name;
        }
    }

    pub(crate) fn program(&self) -> Program {
        Program::from_json(&self.json.to_string()).unwrap()
    }

    pub(crate) fn switch(&self) -> Switch {
        Switch::new(self.program(), SwitchConfig::default())
    }
}

pub(crate) fn field(header: &str, name: &str) -> Value {
    json!({"type": "field", "value": [header, name]})
}

pub(crate) fn hex(value: &str) -> Value {
    json!({"type": "hexstr", "value": value})
}

pub(crate) fn number(value: u64) -> Value {
    hex(&format!("0x{value:x}"))
}

/// An operator node, to be wrapped by [`expression`] at the top.
pub(crate) fn op(name: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": name, "left": left, "right": right}})
}

pub(crate) fn expression(inner: Value) -> Value {
    json!({"type": "expression", "value": inner})
}

pub(crate) fn call(name: &str, params: Vec<Value>) -> Value {
    json!({"op": name, "parameters": params})
}

pub(crate) fn assign(header: &str, name: &str, value: Value) -> Value {
    call("assign", vec![field(header, name), value])
}

/// A parser state; `next`: the state that follows in any case.
pub(crate) fn state(name: &str, ops: Vec<Value>, next: Option<&str>) -> Value {
    json!({"name": name, "id": 0, "parser_ops": ops, "transition_key": [],
        "transitions": [{"type": "default", "value": null, "mask": null, "next_state": next}]})
}

pub(crate) fn extract(header: &str) -> Value {
    json!({"op": "extract", "parameters": [{"type": "regular", "value": header}]})
}

/// Frames that one frame causes.
pub(crate) fn process(switch: &mut Switch, port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut out = Vec::new();
    switch.process(port, frame, 1_000, &mut out);
    out
}

/// A switch running one of the programs under `programs/`.
pub(crate) fn load(json: &str) -> Switch {
    Switch::new(Program::from_json(json).unwrap(), SwitchConfig::default())
}
