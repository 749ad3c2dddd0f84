use super::*;

fn link(from: (&str, u32), to: (&str, u32)) -> api::Link {
    api::Link { from_switch: from.0.into(), from_port: from.1, to_switch: to.0.into(), to_port: to.1 }
}

fn switch(name: &str, state: &str) -> api::Switch {
    api::Switch { name: name.into(), state: state.into(), ..Default::default() }
}

/// Two switches, a link that works, one that works one way, one job over both switches.
fn response() -> Status {
    let node = |name: &str, parent: &str, ranks: &[u32]| api::TreeNode {
        tree_id: 1,
        switch_name: name.into(),
        parent: parent.into(),
        ranks: ranks.to_vec(),
        ..Default::default()
    };
    let response = api::StatusResponse {
        switches: vec![switch("s1", "ready"), switch("s2", "connecting")],
        links: vec![link(("s1", 1), ("s2", 2)), link(("s2", 2), ("s1", 1)), link(("s2", 3), ("s1", 9))],
        hosts: vec![api::Host { address: "10.0.0.1".into(), ..Default::default() }],
        jobs: vec![api::Job {
            name: "train".into(),
            world_size: 3,
            joined_ranks: vec![0, 1],
            format: api::Format::I32.into(),
            state: "running".into(),
            tree: vec![node("s2", "s1", &[2]), node("s1", "", &[0, 1])],
            ..Default::default()
        }],
        ..Default::default()
    };
    response.into()
}

#[test]
fn waiting_names_what_is_missing() {
    let args = |switches, links, hosts| StatusArgs {
        counters: false,
        wait_switches: switches,
        wait_links: links,
        wait_hosts: hosts,
        timeout: 1.0,
    };
    let response = response();
    assert_eq!(args(None, None, None).missing(&response), None);
    assert_eq!(args(Some(1), Some(1), Some(1)).missing(&response), None);
    assert_eq!(
        args(Some(2), None, None).missing(&response).unwrap(),
        "1 switches are ready (s2: connecting)"
    );
    assert_eq!(args(None, Some(2), None).missing(&response).unwrap(), "1 links work both ways");
    assert_eq!(args(None, None, Some(2)).missing(&response).unwrap(), "1 hosts are known");
}

#[test]
fn tables_show_each_cable_once_and_trees_from_the_root() {
    let text = show::status(&response(), false);
    assert!(text.contains("\ns1:1  s2:2  both ways\n"), "{text}");
    assert!(text.contains("\ns2:3  s1:9  one way only\n"), "{text}");
    assert_eq!(text.matches("both ways").count(), 1);
    assert!(text.contains("s1[0 1](s2[2])"), "{text}");
    assert!(text.contains("  2/3  "), "{text}");
}

#[test]
fn json_has_the_names_of_the_api() {
    let value = serde_json::to_value(response()).unwrap();
    assert_eq!(value["links"][0]["from_switch"], "s1");
    assert_eq!(value["jobs"][0]["format"], "i32");
    assert_eq!(value["switches"].as_array().map(Vec::len), Some(2));
}
