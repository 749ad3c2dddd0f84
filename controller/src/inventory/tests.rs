use super::*;

const GOOD: &str = "switches:\n  - {name: s1, target: '127.0.0.1:9559', device_id: 1}\n  - {name: s2, target: 'h:9560', device_id: 2}\n";

fn parse(text: &str) -> Result<Inventory, InventoryError> {
    Inventory::from_text("inca.yaml", text)
}

/// The message must begin with file, line and column, and hold each of the words.
#[track_caller]
fn refused(text: &str, place: &str, words: &[&str]) {
    let message = parse(text).expect_err("must be refused").to_string();
    assert!(message.starts_with(&format!("inca.yaml:{place}: ")), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

#[test]
fn defaults_are_filled_in() {
    let inventory = parse(GOOD).unwrap();
    assert_eq!(inventory.listen, ["127.0.0.1:50051".parse().unwrap()]);
    assert_eq!(inventory.announce_address, inca_wire::address::ANNOUNCE_ADDRESS);
    assert_eq!(inventory.trees.slots_per_tree, 16);
    assert_eq!(inventory.discovery.link_timeout, Duration::from_millis(1400));
    assert_eq!(inventory.failure.attach_grace, Duration::from_millis(500));
    let s2 = &inventory.switches[1];
    assert_eq!((s2.device_id, s2.service_address), (2, inca_wire::address::service_address(2)));
    assert_eq!(s2.ports, (1..=32).collect::<Vec<_>>());
}

#[test]
fn every_key_is_heard() {
    let text = "\
switches:
  - {name: s1, target: '[::1]:9559', device_id: 7, ports: [1, 3]}
hosts:
  - {name: h1, address: 10.0.0.1, mac: '02:00:00:00:00:01', switch: s1, port: 3}
listen: ['0.0.0.0:1', '[::1]:2']
service_subnet: 172.16.0.0/24
announce_address: 172.16.1.1
discovery: {ports: 8, probe_interval_ms: 100, link_timeout_ms: 250}
trees: {slots_per_tree: 64, stripes: 2, resend_interval_ms: 5, leave_linger_ms: 0}
failure: {attach_grace_ms: 1, report_timeout_ms: 2, patience_ms: 3}
pipeline: {json: a.json, p4info: a.txtpb}
";
    let inventory = parse(text).unwrap();
    assert_eq!(inventory.switches[0].ports, [1, 3]);
    let milliseconds = Duration::from_millis;
    let failure = inventory.failure;
    assert_eq!((failure.attach_grace, failure.report_timeout), (milliseconds(1), milliseconds(2)));
    assert_eq!(failure.patience, milliseconds(3));
    assert_eq!(inventory.switches[0].service_address, Ipv4Addr::new(172, 16, 0, 7));
    assert_eq!(inventory.hosts[0].port, 3);
    assert_eq!(inventory.listen.len(), 2);
    assert_eq!(inventory.announce_address, Ipv4Addr::new(172, 16, 1, 1));
    assert_eq!(inventory.discovery.probe_interval, Duration::from_millis(100));
    assert_eq!(inventory.trees.stripes, 2);
    assert_eq!(inventory.pipeline.unwrap().json, PathBuf::from("a.json"));
}

#[test]
fn m4_a_key_twice_is_refused() {
    refused(&format!("{GOOD}trees: {{}}\ntrees: {{}}\n"), "5:1", &["duplicate", "trees"]);
    refused("switches:\n  - name: s1\n    target: a:1\n    name: s2\n", "4:5", &["duplicate", "name"]);
}

#[test]
fn m4_a_switch_or_host_twice_is_refused() {
    let host = |name: &str, address: &str| {
        format!("  - {{name: {name}, address: {address}, mac: '02:00:00:00:00:01', switch: s1, port: 3}}\n")
    };
    let hosts =
        |a: (&str, &str), b: (&str, &str)| format!("{GOOD}hosts:\n{}{}", host(a.0, a.1), host(b.0, b.1));
    refused(
        &hosts(("h1", "10.0.0.1"), ("h1", "10.0.0.2")),
        "6:12",
        &["name h1", "twice", "line 5, column 12"],
    );
    refused(&hosts(("h1", "10.0.0.1"), ("h2", "10.0.0.1")), "6:25", &["address 10.0.0.1", "twice"]);
    refused(&format!("{GOOD}  - {{name: s1, target: 'a:1', device_id: 3}}\n"), "4:12", &["name s1", "twice"]);
    refused(
        &format!("{GOOD}  - {{name: s3, target: 'h:9560', device_id: 3}}\n"),
        "4:24",
        &["target h:9560 is used twice", "line 3"],
    );
    refused(
        &format!("{GOOD}  - {{name: s3, target: 'a:1', device_id: 2}}\n"),
        "4:42",
        &["device_id 2", "twice"],
    );
}

#[test]
fn m4_tab_indent_is_refused() {
    refused("switches:\n\t- name: s1\n", "2:1", &["tab", "spaces"]);
    refused("switches:\n  - name: s1\n  \ttarget: x\n", "3:3", &["tab"]);
}

#[test]
fn m4_unknown_keys_are_refused_with_the_known_ones() {
    refused(&format!("{GOOD}wokers: 3\n"), "4:1", &["wokers", "switches", "trees"]);
    refused("switches:\n  - {name: s1, target: 'a:1', device: 1}\n", "2:31", &["device", "device_id"]);
    refused(&format!("{GOOD}trees: {{slots: 3}}\n"), "4:9", &["slots", "slots_per_tree"]);
}

#[test]
fn m4_empty_files_are_refused() {
    for empty in ["", "\n", "# nothing\n", "\u{feff}", "\r\n"] {
        refused(empty, "1:1", &["empty", "switches"]);
    }
    refused("switches: []\n", "1:11", &["at least one"]);
    assert!(parse("---\n").is_err());
    assert!(parse("just text\n").is_err());
}

#[test]
fn m4_crlf_and_byte_order_mark_change_nothing() {
    let expected = parse(GOOD).unwrap();
    assert_eq!(parse(&GOOD.replace('\n', "\r\n")).unwrap(), expected);
    assert_eq!(parse(&format!("\u{feff}{GOOD}")).unwrap(), expected);
    assert_eq!(parse(&format!("\u{feff}{}", GOOD.replace('\n', "\r\n"))).unwrap(), expected);
}

#[test]
fn m5_names_the_kernel_would_refuse_are_refused() {
    for name in ["a-name-of-16-char", "schalter-ü", "1s", "s 1", "s/1", "''", "\"s\\n\""] {
        refused(
            &format!("switches:\n  - {{name: {name}, target: 'a:1', device_id: 1}}\n"),
            "2:12",
            &["name", "15"],
        );
    }
    let host = "hosts:\n  - {name: s1, address: 10.0.0.1, mac: '02:00:00:00:00:01', switch: s1, port: 3}\n";
    refused(&format!("{GOOD}{host}"), "5:12", &["name s1", "twice"]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let switch = |target: &str, id: &str| {
        format!("switches:\n  - {{name: s1, target: '{target}', device_id: {id}}}\n")
    };
    for target in ["localhost", ":1", "a:0", "a:70000", "a:"] {
        refused(&switch(target, "1"), "2:24", &["target", "host:port"]);
    }
    for id in ["65534", "65535", "65536", "99999999999"] {
        refused(&switch("a:1", id), "2:42", &["device_id", "0 to 65533", "10.255.255.254"]);
    }
    assert!(parse(&switch("a:1", "-1")).is_err());
    assert!(parse(&switch("a:1", "one")).is_err());
    refused(&format!("{GOOD}trees: {{slots_per_tree: 0}}\n"), "4:25", &["slots_per_tree", "1 to 4096"]);
    refused(&format!("{GOOD}discovery: {{ports: 255}}\n"), "4:20", &["discovery.ports", "254"]);
    refused(&format!("{GOOD}listen: [localhost]\n"), "4:10", &["localhost", "ip:port"]);
    for subnet in ["10.255.0.0", "10.255.0.1/16", "10.0.0.0/31", "x/8"] {
        refused(&format!("{GOOD}service_subnet: {subnet}\n"), "4:17", &["service_subnet", "10.255.0.0/16"]);
    }
    let host = "hosts:\n  - {name: h1, address: 10.0.0.1, mac: '2:3', switch: s9, port: 255}\n";
    refused(&format!("{GOOD}{host}"), "5:55", &["s9", "s1, s2"]);
    refused(&format!("{GOOD}{}", host.replace("s9", "s1")), "5:40", &["2:3"]);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let message = Inventory::from_file("/nonexistent/inca.yaml").unwrap_err().to_string();
    assert!(message.contains("/nonexistent/inca.yaml"), "{message}");
}

#[test]
fn values_of_the_wrong_kind_are_named_with_their_key() {
    for (more, message) in [
        ("trees: {slots_per_tree: many}", "slots_per_tree is many: must be a whole number, not below 0"),
        ("trees: {slots_per_tree: -3}", "slots_per_tree is -3: must be a whole number, not below 0"),
        ("discovery:\n  ports: 1.5 # of 32", "ports is 1.5: must be a whole number, not below 0"),
        (
            "hosts: [{name: h, address: 10.0.0, mac: '02:00:00:00:00:01', switch: s1, port: 1}]",
            "address is 10.0.0: must be a dotted IPv4 address",
        ),
        (
            "hosts: [{name: h, address: 10.0.0.1, mac: '02:00:00:00:00:01', switch: s1, port: x}]",
            "port is x: must be a whole number, not below 0",
        ),
        ("security: {requests_per_second: fast}", "requests_per_second is fast: must be a whole number"),
    ] {
        let error = Inventory::from_text("i.yaml", &format!("{GOOD}{more}\n")).unwrap_err().to_string();
        assert!(error.contains(message), "no {message:?} in {error:?}");
    }
    let list = GOOD.replace("device_id: 1}", "device_id: 1, ports: [1, -2]}");
    let error = Inventory::from_text("i.yaml", &list).unwrap_err().to_string();
    assert!(error.contains("ports is -2"), "{error}");
}
