use super::*;
use crate::api::model::{Group, Host, Link, Switch};

fn healthy() -> Status {
    let switch = |name: &str| Switch {
        name: name.into(),
        device_id: 1,
        target: String::new(),
        state: "ready".into(),
        ports: Vec::new(),
        counters: [("drop_bad_length".to_owned(), 0), ("completed".to_owned(), 9)].into(),
        service_address: String::new(),
        slots_used: 0,
        slots_total: 4096,
    };
    let link = |from: (&str, u32), to: (&str, u32)| Link {
        from_switch: from.0.into(),
        from_port: from.1,
        to_switch: to.0.into(),
        to_port: to.1,
    };
    Status {
        controller_version: env!("CARGO_PKG_VERSION").into(),
        time_ms: 100_000,
        in_charge: true,
        switches: vec![switch("s1"), switch("s2")],
        links: vec![link(("s1", 1), ("s2", 1)), link(("s2", 1), ("s1", 1))],
        hosts: vec![Host {
            address: "10.0.0.1".into(),
            mac: String::new(),
            switch_name: "s1".into(),
            port: 2,
        }],
        jobs: Vec::new(),
    }
}

#[test]
fn a_healthy_network_has_no_findings() {
    assert_eq!(examine(&healthy(), (99_990, 100_010)), []);
}

#[test]
fn each_ailment_is_found_with_a_remedy() {
    let group = |state: &str, fallback: &str| Group {
        name: "train".into(),
        group: String::new(),
        world_size: 2,
        format: "i32".into(),
        chunk_words: 5,
        generation: 0,
        state: state.into(),
        joined_ranks: Vec::new(),
        tree: Vec::new(),
        fallback: fallback.into(),
        progress: None,
        queue_position: 0,
    };
    type Ailment = fn(&mut Status);
    let ailments: [(Ailment, &str); 9] = [
        (|status| status.in_charge = false, "stands by"),
        (|status| status.controller_version = "0.0.1".into(), "0.0.1"),
        (|status| status.time_ms += 5000, "clock is 5 s"),
        (|status| status.switches[1].state = "unreachable: refused".into(), "s2: unreachable"),
        (|status| status.switches[0].slots_used = 4000, "4000 of 4096"),
        (
            |status| status.switches[0].counters.extend([("drop_bad_length".to_owned(), 3)]),
            "3 packets ended as drop_bad_length",
        ),
        (|status| status.links.truncate(1), "s1 port 1 to s2 port 1 works one way"),
        (|status| status.hosts.clear(), "no host"),
        (|status| status.time_ms -= 5000, "clock"),
    ];
    for (ail, expected) in ailments {
        let mut status = healthy();
        ail(&mut status);
        let findings = examine(&status, (100_000, 100_000));
        assert_eq!(findings.len(), 1, "{expected}: {findings:?}");
        assert!(findings[0].what.contains(expected) && !findings[0].remedy.is_empty(), "{findings:?}");
    }
    let mut status = healthy();
    status.links.clear();
    let findings = examine(&status, (100_000, 100_000));
    assert!(
        findings.len() == 2 && findings[1].what == "switch s2 has no link to another switch",
        "{findings:?}"
    );
    status.switches.truncate(1);
    assert_eq!(examine(&status, (100_000, 100_000)), []);
    let mut status = healthy();
    status.jobs =
        vec![group("waiting for rank 1", ""), group("running", "no room"), group("closed: x", "no room")];
    assert_eq!(examine(&status, (100_000, 100_000)).len(), 2);
}
