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
