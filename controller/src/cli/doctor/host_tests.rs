use super::*;

#[test]
fn offloads_that_are_on_and_can_be_off_are_named() {
    let text = "Features for eth1:
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
tcp-segmentation-offload: off
generic-segmentation-offload: on
generic-receive-offload: off
large-receive-offload: off [fixed]
";
    assert_eq!(offloads(text), ["tx", "gso"]);
    assert_eq!(offloads(&text.replace(": on", ": off")), Vec::<&str>::new());
}

#[test]
fn answers_of_a_ping_are_counted() {
    let end = |received| {
        format!(
            "\n--- 10.0.0.2 ping statistics ---\n5 packets transmitted, {received} received, 0% packet loss, time 4ms\n"
        )
    };
    assert_eq!(received(&end(3)), 3);
    assert_eq!(received(&end(0)), 0);
    let errors = "2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 201ms";
    assert_eq!(received(errors), 0);
    assert_eq!(received("ping: local error: message too long, mtu=1500"), 0);
}

#[test]
fn a_narrow_path_tells_how_many_words_get_through() {
    let finding = too_narrow("10.0.0.2", "eth1", 9500, 1500);
    assert!(finding.what.contains("1500 bytes") && finding.what.contains("9500"), "{finding:?}");
    assert!(finding.remedy.contains("at most 5 words") && finding.remedy.contains("not 32"), "{finding:?}");
}

#[test]
fn a_host_is_an_address() {
    let error = path("h1; true", &[]).unwrap_err();
    assert!(error.to_string().contains("must be an IPv4 address"), "{error}");
}

#[test]
fn a_namespace_without_a_process_is_stale() {
    let folder = std::env::temp_dir().join(format!("inca-doctor-{}", std::process::id()));
    let (names, own) = (folder.join("netns"), Path::new("/proc"));
    std::fs::create_dir_all(&names).unwrap();
    std::fs::write(names.join("forgotten"), "").unwrap();
    std::os::unix::fs::symlink("/proc/self/ns/net", names.join("mine")).unwrap();
    let findings = stale(&names, own).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0].what.contains("forgotten") && findings[0].remedy.contains("ip netns del forgotten"),
        "{findings:?}"
    );
    assert!(stale(Path::new("/nowhere"), own).unwrap().is_empty());
}

#[test]
fn the_largest_packet_is_found_whatever_it_is() {
    for mtu in [576, 1500, 1501, 9000, 9500, 65_535] {
        for limit in [68, 575, 1279, 1280, 1281, 1499, 1500, 1501, 4000, 8999, 9000, 9001]
            .into_iter()
            .filter(|limit| *limit < mtu)
        {
            let mut asked = 0;
            let found = largest::<()>(mtu, |size| {
                asked += 1;
                assert!((LEAST_MTU..mtu).contains(&size));
                Ok(size <= limit)
            });
            assert_eq!(found, Ok(limit), "MTU {mtu}");
            assert!(asked <= 20, "{asked} questions");
            assert!(limit != 1500 || asked <= 3, "{asked} questions");
        }
    }
}
