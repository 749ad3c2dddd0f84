//! Other people's clients: schemathesis asks the REST API for everything there is, p4runtime-shell and finsy read what the controller
//! wrote into a switch. Each has a virtual environment of its own (`tests/python/run_in_venv.py`).

mod rig;
#[path = "../../p4runtime/tests/contract/venv.rs"]
mod venv;

use std::net::SocketAddr;
use std::time::Duration;

use inca_controller::control::Controller;
use inca_p4runtime::northbound as api;
use rig::*;

/// The first run installs the packages.
const INSTALLS: Duration = Duration::from_secs(360);
/// What schemathesis may take.
const SECONDS: &str = "12";

on_both!(p4runtime_shell_reads_what_the_controller_says, finsy_reads_what_the_controller_says);

/// A switch and its controller, with the job "test" at work.
async fn at_work(kind: Kind) -> (Switch, Controller, Vec<tonic::Streaming<api::JoinEvent>>) {
    let switch = Switch::start(kind, 1, &[]).await;
    let (controller, mut client) = start(inventory(&[(1, switch.address)], "")).await;
    ready(&controller).await;
    let mut streams = Vec::new();
    for rank in 0..2 {
        streams.push(client.join(request(rank)).await.unwrap().into_inner());
    }
    for stream in &mut streams {
        assignment(stream).await;
    }
    (switch, controller, streams)
}

async fn p4runtime_shell_reads_what_the_controller_says(kind: Kind) {
    let (switch, controller, _streams) = at_work(kind).await;
    reads("requirements-shell.txt", "controller_shell_session.py", &switch, &controller).await;
}

async fn finsy_reads_what_the_controller_says(kind: Kind) {
    let (switch, controller, _streams) = at_work(kind).await;
    reads("requirements-finsy.txt", "controller_finsy_session.py", &switch, &controller).await;
}

async fn reads(requirements: &str, script: &str, switch: &Switch, controller: &Controller) {
    let api: SocketAddr = controller.addresses()[0];
    let (address, device) = (switch.address.to_string(), switch.device_id.to_string());
    venv::session(requirements, script, &[&address, &device, &api.to_string(), "test"], INSTALLS).await;
}

#[tokio::test]
async fn schemathesis_finds_no_question_that_the_rest_api_fails_at() {
    let (_switch, controller, _streams) = at_work(Kind::Embedded).await;
    let address = controller.addresses()[0].to_string();
    venv::session("requirements-schemathesis.txt", "api_schemathesis.py", &[&address, SECONDS], INSTALLS)
        .await;
    assert!(controller.status().await.is_some(), "it goes on after all that");
}
