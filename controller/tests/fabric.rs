//! Discovery, routing and jobs over real links: two leaves and a spine on virtual Ethernet in a network namespace of their own,
//! hosts in namespaces within it. Skipped without root.

mod rig;

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use inca_controller::control::Controller;
use inca_controller::inventory::Inventory;
use inca_p4runtime::northbound as api;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use rig::*;
use tonic::transport::Channel;

/// A port and the interface behind it.
type Cabled = (u16, &'static str);

/// Name, device id, and ports of the switches.
const SWITCHES: [(&str, u64, &[Cabled]); 3] = [
    ("leaf1", 1, &[(1, "l1s"), (2, "sw1"), (3, "sw2")]),
    ("leaf2", 2, &[(1, "l2s"), (2, "sw3")]),
    ("spine", 3, &[(1, "sl1"), (2, "sl2")]),
];
const HOSTS: usize = 3;
/// Set in the process that runs inside the namespace.
const INSIDE: &str = "INCA_FABRIC_TEST_INSIDE";

#[test]
fn two_leaves_and_a_spine_of_embedded_switches() {
    outside("two_leaves_and_a_spine_of_embedded_switches", Kind::Embedded);
}

#[test]
fn two_leaves_and_a_spine_of_bmv2() {
    outside("two_leaves_and_a_spine_of_bmv2", Kind::Bmv2);
}

/// Runs this test again in fresh namespaces, where it does its work.
fn outside(test: &str, kind: Kind) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(inside(kind));
    }
    if !kind.is_here() {
        return;
    }
    let may = Command::new("unshare").args(["--net", "--mount", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        println!("skipped: making a network namespace takes root, and the command unshare");
        return;
    }
    let output = Command::new("unshare")
        .args(["--net", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

fn sh(script: &str) {
    let output = Command::new("sh").args(["-e", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Cables, hosts, and no chatter.
fn wire() {
    sh("mount -t tmpfs tmpfs /run && mkdir -p /run/netns && ip link set lo up \
        && sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 || true");
    let quiet = "tx off tso off gso off gro off";
    for (a, b) in [("l1s", "sl1"), ("l2s", "sl2")] {
        sh(&format!(
            "ip link add {a} type veth peer name {b}; for i in {a} {b}; do ip link set $i mtu 9500 up; ethtool -K $i {quiet}; done"
        ));
    }
    for host in 1..=HOSTS {
        sh(&format!(
            "ip netns add h{host}; ip link add sw{host} type veth peer name eth0 netns h{host}
             ip link set sw{host} up; ethtool -K sw{host} {quiet}
             ip -n h{host} link set lo up; ip -n h{host} link set eth0 address 02:00:00:00:00:0{host} up
             ip -n h{host} addr add 10.0.0.{host}/8 dev eth0; ip netns exec h{host} ethtool -K eth0 {quiet}"
        ));
    }
}

fn inventory_of(addresses: &[SocketAddr]) -> Inventory {
    let mut text =
        "listen: ['127.0.0.1:0']\ndiscovery: {ports: 4, probe_interval_ms: 100}\nswitches:\n".to_owned();
    for ((name, id, _), address) in SWITCHES.iter().zip(addresses) {
        text += &format!("  - {{name: {name}, target: '{address}', device_id: {id}}}\n");
    }
    Inventory::from_text("test", &text).unwrap()
}

async fn ping(from: usize, to: &str) -> bool {
    let (namespace, to) = (format!("h{from}"), to.to_owned());
    let ping = move || {
        Command::new("ip")
            .args(["netns", "exec", &namespace, "ping", "-c", "1", "-W", "3", &to])
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    tokio::task::spawn_blocking(ping).await.unwrap()
}

/// Looks until the status is as wanted.
async fn until(controller: &Controller, what: &str, wanted: impl Fn(&api::StatusResponse) -> bool) {
    let look = async {
        while !controller.status().await.is_some_and(|status| wanted(&status)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(what, look).await;
}

async fn join_all(client: &mut ControllerClient<Channel>) -> Vec<tonic::Streaming<api::JoinEvent>> {
    let mut streams = Vec::new();
    for rank in 0..HOSTS as u32 {
        let request = api::JoinRequest { world_size: HOSTS as u32, ..request(rank) };
        streams.push(client.join(request).await.unwrap().into_inner());
    }
    streams
}

async fn inside(kind: Kind) {
    wire();
    let mut switches = Vec::new();
    for (_, id, ports) in SWITCHES {
        switches.push(Switch::start(kind, id, ports).await);
    }
    let addresses: Vec<_> = switches.iter().map(|switch| switch.address).collect();
    let (controller, mut client) = start(inventory_of(&addresses)).await;

    until(&controller, "links", |status| status.links.len() == 4).await;
    let status = controller.status().await.unwrap();
    assert!(status.switches.iter().all(|switch| switch.state == "ready"), "{status:?}");
    assert!(status.hosts.is_empty(), "{:?}", status.hosts);

    // Nobody has spoken yet: the first question is answered by the search it starts, and both hosts are known then.
    assert!(ping(1, "10.0.0.3").await);
    assert!(ping(2, "10.0.0.1").await);
    let hosts = |status: &api::StatusResponse| -> Vec<(String, String, u32)> {
        status.hosts.iter().map(|host| (host.address.clone(), host.switch_name.clone(), host.port)).collect()
    };
    let at = |host: u32, switch: &str, port| (format!("10.0.0.{host}"), switch.to_owned(), port);
    let status = controller.status().await.unwrap();
    assert_eq!(hosts(&status), [at(1, "leaf1", 2), at(2, "leaf1", 3), at(3, "leaf2", 2)]);
    assert!(ping(3, "10.0.0.2").await && ping(2, "10.0.0.3").await);

    let mut streams = join_all(&mut client).await;
    let assignment = assignment(&mut streams[2]).await;
    assert_eq!(assignment.trees[0].service_address, "10.255.0.2");
    assert_eq!(assignment.trees[0].levels, 2);
    let info = info();
    for (switch, members) in switches.iter().zip([3, 2, 2]) {
        // Children and the parent.
        assert_eq!(switch.entries(&info, "membership").await.len(), members, "switch {}", switch.device_id);
    }

    // A broken link stops the job and the routes over it; the network and the job go on with the link.
    sh("ip link set l2s down");
    for (rank, stream) in (0..).zip(&mut streams) {
        let reason = report(&mut client, stream, rank).await.reason;
        assert!(reason.contains("leaf2 port 1") && reason.contains("spine port 2"), "{reason}");
    }
    until(&controller, "two directions", |status| status.links.len() == 2).await;
    assert!(ping(1, "10.0.0.2").await);
    sh("ip link set l2s up");
    until(&controller, "the link again", |status| status.links.len() == 4).await;
    for stream in &mut streams {
        assert!(rig::assignment(stream).await.resume.is_some());
    }
    let healed = async { while !ping(3, "10.0.0.1").await {} };
    soon("a ping", healed).await;
    controller.stop().await;
}
