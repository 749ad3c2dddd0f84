use super::*;

const PROGRESS: api::Progress =
    api::Progress { chunks: 7, transmissions: 17, retransmissions: 3, sent_bytes: 9000 };

fn status() -> api::StatusResponse {
    let counters = [("completed".to_owned(), 5), ("drop_duplicate".to_owned(), 2)];
    api::StatusResponse {
        switches: vec![api::Switch {
            name: "leaf1".into(),
            state: "ready".into(),
            slots_used: 16,
            slots_total: 4096,
            counters: counters.into(),
            ..Default::default()
        }],
        jobs: ["running", "waiting for rank 1", "closed: rank 0 left", "changing trees: a link is down"]
            .map(|state| api::Job {
                name: "train".into(),
                state: state.into(),
                joined_ranks: vec![0],
                progress: (state == "running").then_some(PROGRESS),
                ..Default::default()
            })
            .into(),
        in_charge: true,
        ..Default::default()
    }
}

#[test]
fn a_page_has_what_was_counted_and_what_is_seen() {
    let metrics = Metrics::default();
    metrics.event("group_ready");
    metrics.event("group_ready");
    metrics.p4runtime("leaf1", Operation::Write, Instant::now(), true);
    metrics.request("GET", "/v1/jobs", "200", Duration::from_millis(3));
    let page = metrics.page(&status());
    for line in [
        "inca_events_total{kind=\"group_ready\"} 2",
        "inca_p4runtime_request_duration_seconds_count{switch=\"leaf1\",operation=\"write\"} 1",
        "inca_p4runtime_request_errors_total{switch=\"leaf1\",operation=\"write\"} 1",
        "inca_api_requests_total{method=\"GET\",route=\"/v1/jobs\",code=\"200\"} 1",
        "inca_api_request_duration_seconds_bucket{le=\"0.005\",method=\"GET\",route=\"/v1/jobs\"} 1",
        "inca_in_charge 1",
        "inca_switch_slots_used{switch=\"leaf1\"} 16",
        "inca_switch_packets_total{switch=\"leaf1\",event=\"completed\"} 5",
        "inca_switch_dropped_packets_total{switch=\"leaf1\",reason=\"duplicate\"} 2",
        "inca_groups{state=\"running\"} 1",
        "inca_groups{state=\"waiting\"} 1",
        "inca_groups{state=\"changing\"} 1",
        "inca_ranks 3",
        "inca_group_chunks_total{name=\"train\",group=\"\"} 7",
        "inca_group_transmissions_total{name=\"train\",group=\"\"} 17",
        "inca_group_retransmissions_total{name=\"train\",group=\"\"} 3",
        "inca_group_sent_bytes_total{name=\"train\",group=\"\"} 9000",
    ] {
        assert!(page.lines().any(|other| other == line), "no {line} in\n{page}");
    }
    assert!(page.ends_with("# EOF\n"));
}

#[test]
fn names_keep_the_conventions() {
    let metrics = Metrics::default();
    metrics.event("link_up");
    metrics.p4runtime("s", Operation::Open, Instant::now(), false);
    metrics.request("POST", "/v1/plan", "200", Duration::ZERO);
    let page = metrics.page(&status());
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(types.insert(name, kind).is_none(), "{name} is there twice");
        assert!(
            name.starts_with("inca_")
                && name.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '4')),
            "{name}"
        );
        assert!(kind != "histogram" || name.ends_with("_seconds"), "{name}");
        assert!(page.contains(&format!("# HELP {name} ")), "{name} has no help");
    }
    assert!(types.len() > 14, "{types:?}");
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let base = name.trim_end_matches("_total");
        if types.get(base) == Some(&"counter") {
            assert!(name.ends_with("_total"), "{line}");
        }
    }
}
