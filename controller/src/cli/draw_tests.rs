use super::*;
use crate::api::model::{LinkLoad, SlotShare, TreeNode};

fn link(from: (&str, u32), to: (&str, u32)) -> Link {
    Link { from_switch: from.0.into(), from_port: from.1, to_switch: to.0.into(), to_port: to.1 }
}

/// `leaf` and `spine` with two cables, one of which works one way; a host at the leaf.
fn topology() -> Topology {
    let switch = |name: &str, state: &str| Switch {
        name: name.into(),
        device_id: 1,
        target: String::new(),
        state: state.into(),
        ports: Vec::new(),
        counters: Default::default(),
        service_address: String::new(),
        slots_used: 16,
        slots_total: 4096,
    };
    let status = Status {
        controller_version: String::new(),
        time_ms: 0,
        in_charge: true,
        switches: vec![switch("leaf", "ready"), switch("spine", "connecting")],
        links: vec![
            link(("leaf", 1), ("spine", 2)),
            link(("spine", 2), ("leaf", 1)),
            link(("leaf", 3), ("spine", 4)),
        ],
        hosts: vec![Host {
            address: "10.0.0.1".into(),
            mac: "02:00:00:00:00:01".into(),
            switch_name: "leaf".into(),
            port: 10,
        }],
        jobs: Vec::new(),
    };
    status.into()
}

#[test]
fn text_lists_what_is_behind_each_port() {
    let expected = "leaf (ready, 16/4096 slots)
    1 -- spine:2
    3 -> spine:4 (one way only)
   10 -- host 10.0.0.1 (02:00:00:00:00:01)
spine (connecting, 16/4096 slots)
    2 -- leaf:1
";
    assert_eq!(topology().text(), expected);
}

#[test]
fn dot_has_each_cable_once() {
    let dot = topology().dot();
    assert!(dot.starts_with("graph inca {\n") && dot.ends_with("}\n"), "{dot}");
    assert_eq!(dot.matches(" -- ").count(), 3, "{dot}");
    assert!(dot.contains("  \"leaf\" -- \"spine\" [taillabel=\"1\" headlabel=\"2\"];\n"), "{dot}");
    assert!(dot.contains("taillabel=\"3\" headlabel=\"4\" dir=forward style=dashed"), "{dot}");
    assert_eq!(quote("a\"b\\c"), "\"a\\\"b\\\\c\"");
}

#[test]
fn json_tells_cables_and_lone_directions_apart() {
    let json = serde_json::to_value(topology()).unwrap();
    assert_eq!(json["cables"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["one_way"][0]["from_port"], 3);
}

#[test]
fn a_plan_shows_its_links_and_whether_it_fits() {
    let mut plan = Plan {
        world_size: 1,
        format: "bfp16".into(),
        chunk_words: 5,
        elements: 640,
        chunks: 1,
        installed: false,
        refusal: String::new(),
        tree: vec![TreeNode {
            tree_id: 7,
            switch_name: "leaf".into(),
            parent: String::new(),
            ranks: vec![0],
            child_switches: Vec::new(),
            port: 0,
            parent_port: 0,
        }],
        links: vec![LinkLoad {
            from: "10.0.0.1".into(),
            from_port: 0,
            to: "leaf".into(),
            to_port: 10,
            packets: 1,
            bytes: 1362,
        }],
        slots: vec![SlotShare { switch_name: "leaf".into(), needed: 16, used: 0, total: 4096 }],
    };
    let text = plan_text(&plan);
    assert!(text.contains("there is room for it"), "{text}");
    assert!(text.contains("\ntree 7: leaf[0]\n"), "{text}");
    assert!(text.contains("10.0.0.1  leaf:10  1        1362"), "{text}");
    assert!(plan_dot(&plan).contains("\"10.0.0.1\" -> \"leaf\" [label=\"1362 B\"];"));
    let hop = LinkLoad {
        from: "leaf".into(),
        from_port: 1,
        to: "between".into(),
        to_port: 2,
        packets: 2,
        bytes: 9,
    };
    plan.links.push(hop);
    let dot = plan_dot(&plan);
    assert!(
        dot.contains("  \"between\" [shape=box style=dashed];\n")
            && dot.contains("  \"leaf\" [shape=box style=bold];\n"),
        "{dot}"
    );
    plan.refusal = "leaf has no room".into();
    assert!(plan_text(&plan).contains("; leaf has no room\n"));
}
