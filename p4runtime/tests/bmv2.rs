//! The client against BMv2's `simple_switch_grpc`, if it is on PATH.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use contract::Target;

mod contract;

/// A switch of its own, ended with the test.
struct Bmv2 {
    process: Child,
    target: Target,
}

impl Drop for Bmv2 {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a switch without program and ports; `None`, with the reason printed, if there is none to start.
async fn start() -> Option<Bmv2> {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
    let address = format!("127.0.0.1:{port}");
    let spawned = Command::new("simple_switch_grpc")
        .args(["--no-p4", "--device-id", "3", "--"])
        .args(["--grpc-server-addr", &address, "--cpu-port", "255"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let process = match spawned {
        Ok(process) => process,
        Err(error) => {
            println!("skipped: simple_switch_grpc can't be started: {error}");
            return None;
        }
    };
    let bmv2 =
        Bmv2 { process, target: Target { url: format!("http://{address}"), device_id: 3, is_bmv2: true } };
    let deadline = Instant::now() + Duration::from_secs(20);
    while tokio::net::TcpStream::connect(&address).await.is_err() {
        assert!(Instant::now() < deadline, "simple_switch_grpc does not listen at {address}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Some(bmv2)
}

macro_rules! contract {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            if let Some(bmv2) = start().await {
                contract::$name(bmv2.target.clone()).await;
            }
        }
    )*};
}

contract!(
    arbitration,
    cookie_gates_the_pipeline,
    wide_parameter_acts_on_packets,
    multicast_group_copies,
    counters_count,
    errors_carry_their_update,
    large_batches_are_split,
    registers,
);

#[tokio::test]
async fn closed_stream_is_noticed() {
    if let Some(bmv2) = start().await {
        let target = bmv2.target.clone();
        contract::closed_stream_is_noticed(target, move || drop(bmv2)).await;
    }
}

#[tokio::test]
async fn p4runtime_shell_session() {
    if let Some(bmv2) = start().await {
        contract::python::p4runtime_shell(bmv2.target.clone()).await;
    }
}

#[tokio::test]
async fn finsy_session() {
    if let Some(bmv2) = start().await {
        contract::python::finsy(bmv2.target.clone()).await;
    }
}

/// What BMv2 refuses and the embedded switch does: if one of these starts to work, the documents have to change.
#[tokio::test]
async fn known_gaps() {
    use inca_p4runtime::{
        client::{insert, multicast_group},
        p4v1::{
            MulticastGroupEntry, Replica, replica::PortKind, set_forwarding_pipeline_config_request::Action,
            write_request::Atomicity,
        },
    };
    use tonic::Code;

    let Some(bmv2) = start().await else { return };
    let (client, _events, pipeline) = bmv2.target.ready().await;
    let group = || vec![insert(multicast_group(5, [(1, 1)]))];
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let error = client.write_with(group(), atomicity).await.expect_err("not implemented");
        assert_eq!(error.code(), Code::Unimplemented, "{error}");
    }
    // Replicas are fine in the form of P4Runtime 1.4, too.
    let port = PortKind::Port(vec![3]);
    let replicas = vec![Replica { port_kind: Some(port), instance: 1, backup_replicas: Vec::new() }];
    let new_form = MulticastGroupEntry { multicast_group_id: 6, replicas, metadata: Vec::new() };
    client.write(vec![insert(new_form.clone())]).await.expect("write");
    assert_eq!(client.read_multicast_groups(0).await.expect("read"), [new_form]);

    let error =
        client.push_pipeline(&pipeline, Action::ReconcileAndCommit).await.expect_err("not implemented");
    assert_eq!(error.code(), Code::Unknown, "{error}");
    assert_eq!(client.read_multicast_groups(0).await.expect("read"), [], "and it wiped the state");
}
