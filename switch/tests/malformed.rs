//! Documents that are not programs: an error that says where, never a panic.

mod common;

use common::Builder;
use inca_switch::{LoadError, Program, Switch, SwitchConfig};
use proptest::prelude::*;
use serde_json::{Value, json};

const PROGRAMS: [&str; 4] = [
    include_str!("programs/replication.json"),
    include_str!("programs/tables.json"),
    include_str!("programs/parsing.json"),
    include_str!("programs/sums.json"),
];

fn error(text: &str) -> String {
    Program::from_json(text).unwrap_err().to_string()
}

#[test]
fn errors_say_where_and_what() {
    assert!(matches!(Program::from_json("").unwrap_err(), LoadError::Syntax(_)));
    assert!(matches!(Program::from_json("{").unwrap_err(), LoadError::Syntax(_)));
    assert_eq!(error("[]"), "$: expected the object that p4c-bm2-ss writes, found an array of 0");
    let deep = "[".repeat(100_000);
    assert!(matches!(Program::from_json(&deep).unwrap_err(), LoadError::TooDeep { byte: 1000 }));
    let mut b = Builder::new();
    b.action(
        "broken",
        &[],
        vec![json!({"op": "assign", "parameters": [{"type": "field", "value": ["x", "y"]}]})],
    );
    assert_eq!(
        error(&b.json.to_string()),
        "$.actions[0 \"broken\"].primitives[0 \"assign\"].parameters: expected an array of exactly 2, found an array of 1"
    );
    let mut b = Builder::new();
    b.action("broken", &[], vec![json!({"op": "fly", "parameters": []})]);
    assert_eq!(
        error(&b.json.to_string()),
        "$.actions[0 \"broken\"].primitives[0 \"fly\"].op: primitive \"fly\" is not supported"
    );
    let mut b = Builder::new();
    b.json["headers"][0]["header_type"] = json!("nothing");
    assert_eq!(
        error(&b.json.to_string()),
        "$.headers[0 \"standard_metadata\"].header_type: no header type \"nothing\""
    );
    for (part, expected) in [
        ("parsers", "at least one parser"),
        ("deparsers", "at least one deparser"),
        ("pipelines", "the pipelines ingress and egress"),
    ] {
        let mut b = Builder::new();
        b.json[part] = json!([]);
        assert_eq!(error(&b.json.to_string()), format!("$.{part}: expected {expected}, found an array of 0"));
    }
    let mut b = Builder::new();
    b.json["__meta__"]["version"] = json!([3, 0]);
    assert!(error(&b.json.to_string()).contains("major version 2"));
}

/// BMv2 would never come back from these.
#[test]
fn endless_loops_end() {
    let mut b = Builder::new();
    b.states(json!([common::state("start", vec![], Some("start"))]));
    let mut switch = b.switch();
    switch.process(1, &[1, 2, 3], 0, &mut Vec::new());
    assert_eq!(switch.faults().loops_cut, 1);
    let mut b = Builder::new();
    let action = b.action("nothing", &[], vec![]);
    b.run(0, action);
    b.json["pipelines"][0]["tables"][0]["next_tables"]["nothing"] = json!("tbl_nothing");
    let mut switch = b.switch();
    let mut out = Vec::new();
    switch.process(1, &[1, 2, 3], 0, &mut out);
    assert_eq!(switch.faults().loops_cut, 1);
    assert!(out.is_empty());
}

/// Number of values inside a document, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(a) => a.iter().map(count).sum(),
        Value::Object(o) => o.values().map(count).sum(),
        _ => 0,
    }
}

/// The n-th value of a document, in order.
fn nth<'a>(value: &'a mut Value, n: &mut usize) -> Option<&'a mut Value> {
    if *n == 0 {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Array(a) => a.iter_mut().find_map(|v| nth(v, n)),
        Value::Object(o) => o.values_mut().find_map(|v| nth(v, n)),
        _ => None,
    }
}

fn replacement(choice: u32, old: &Value) -> Value {
    match choice % 14 {
        0 => Value::Null,
        1 => json!(0),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!("0x"),
        5 => json!("0xffffffffffffffffffffffffffffffffffffffff"),
        6 => json!(""),
        7 => json!([]),
        8 => json!({}),
        9 => json!(true),
        10 => json!([old, old]),
        11 => json!(["a", "b", "c"]),
        12 => json!(1.5),
        _ => json!({"type": "expression", "value": {"op": "+", "left": old, "right": old}}),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// One or two values replaced: refused, or run on packets without a panic.
    #[test]
    fn mutated_programs_never_panic(
        which in 0usize..4,
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..3),
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 3),
    ) {
        let mut document: Value = serde_json::from_str(PROGRAMS[which]).unwrap();
        for (place, choice) in places {
            let mut n = place.index(count(&document));
            if let Some(value) = nth(&mut document, &mut n) {
                *value = replacement(choice, &value.clone());
            }
        }
        if let Ok(program) = Program::from_json(&document.to_string()) {
            let mut switch = Switch::new(program, SwitchConfig { max_passes: 4, ..SwitchConfig::default() });
            for frame in frames {
                let mut out = Vec::new();
                switch.process(1, &frame, 5, &mut out);
            }
        }
    }

    /// Text cut or changed anywhere.
    #[test]
    fn damaged_text_never_panics(which in 0usize..4, at in any::<prop::sample::Index>(), byte in 32u8..127, cut: bool) {
        let mut text = PROGRAMS[which].as_bytes().to_vec();
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] = byte }
        let _ = Program::from_json(&String::from_utf8_lossy(&text));
    }
}
