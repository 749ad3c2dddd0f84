//! What goes wrong before anything runs: no switch needed.

mod rig;

use std::process::{Command, Output};

use inca_p4runtime::northbound as api;
use rig::*;

fn controller(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_inca-controller"))
        .args(args)
        .env_remove("INCA_CONTROLLER")
        .output()
        .unwrap()
}

fn error(args: &[&str]) -> String {
    let output = controller(args);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A file that goes with this value.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("inca-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn m4_check_names_the_place_and_starts_nothing() {
    let file = File::new("bad.yaml", "switches:\n  - {name: s1, target: 'h:1', device_id: 1}\nwokers: 3\n");
    let message = error(&["check", file.path()]);
    assert!(message.starts_with(&format!("error: {}:3:1: ", file.path())), "{message}");
    assert!(message.contains("wokers"), "{message}");
    assert!(error(&["--inventory", file.path()]).contains(":3:1: "));
}

#[test]
fn check_accepts_what_is_right() {
    let file = File::new("good.yaml", "switches: [{name: s1, target: 'h:1', device_id: 1}]\n");
    let output = controller(&["check", file.path()]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().ends_with(": 1 switches, 0 hosts: ok\n"));
}

#[test]
fn the_example_of_the_help_is_right() {
    let help = String::from_utf8(controller(&["--help"]).stdout).unwrap();
    let (_, rest) = help.split_once("An inventory:\n").unwrap();
    let (example, _) = rest.split_once("Logs go").unwrap();
    // Indented by two; hosts are shown as a comment.
    let lines = example.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
    let text: Vec<_> = lines
        .map(|line| line.strip_prefix("# hosts:").map_or(line.to_owned(), |rest| format!("hosts:{rest}")))
        .collect();
    let file = File::new("example.yaml", &text.join("\n"));
    let output = controller(&["check", file.path()]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().ends_with(": 2 switches, 1 hosts: ok\n"));
}

#[test]
fn a_missing_inventory_and_a_taken_address_are_named() {
    assert!(error(&["--inventory", "/nonexistent.yaml"]).contains("/nonexistent.yaml"));
    assert!(error(&[]).contains("--inventory"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = File::new("taken.yaml", "switches: [{name: s1, target: '127.0.0.1:1', device_id: 1}]\n");
    let message = error(&["--inventory", file.path(), "--listen", &address]);
    assert!(message.contains(&format!("listening on {address}")), "{message}");
}

#[test]
fn status_says_that_nobody_answers() {
    let address = free_address().to_string();
    let message = error(&["status", "--controller", &address]);
    assert!(message.contains(&address) && message.contains("refused"), "{message}");
    let message = error(&["status", "--controller", &address, "--wait-switches", "1", "--timeout", "0.3"]);
    assert!(message.contains("gave up after 300ms"), "{message}");
}

#[tokio::test]
async fn an_unreachable_switch_is_named_with_what_was_tried() {
    let address = free_address();
    let (controller, mut client) = start(inventory(&[(7, address)], "")).await;
    let state = async {
        loop {
            let state = controller.status().await.unwrap().switches[0].state.clone();
            if state != "connecting" {
                return state;
            }
            tokio::task::yield_now().await;
        }
    };
    let state = soon("state", state).await;
    assert!(state.starts_with("unreachable: connecting to http://127.0.0.1:"), "{state}");
    assert!(state.contains("refused"), "{state}");
    // A script that waits learns the same.
    let api_address = controller.addresses()[0].to_string();
    let waited = tokio::task::spawn_blocking(move || {
        error(&["status", "--controller", &api_address, "--wait-switches", "1", "--timeout", "0.5"])
    });
    let message = waited.await.unwrap();
    assert!(message.contains("0 switches are ready (s7: unreachable: connecting to"), "{message}");
    // Jobs wait, and say for what.
    let mut stream =
        client.join(api::JoinRequest { world_size: 1, ..request(0) }).await.unwrap().into_inner();
    let event = soon("event", stream.message()).await.unwrap().unwrap().event.unwrap();
    assert!(matches!(event, api::join_event::Event::Membership(_)), "{event:?}");
    let event = soon("event", stream.message()).await.unwrap().unwrap().event.unwrap();
    assert!(
        matches!(event, api::join_event::Event::Waiting(api::Waiting { host_unknown: true, .. })),
        "{event:?}"
    );
}

#[tokio::test]
async fn refused_joins_have_codes_and_reasons() {
    let (_controller, mut client) = start(inventory(&[(1, free_address())], "")).await;
    let _first = client.join(request(0)).await.unwrap();
    let mut code = async |request| {
        let status = client.join(request).await.unwrap_err();
        (status.code(), status.message().to_owned())
    };
    use tonic::Code;
    let (taken, message) = code(request(0)).await;
    assert_eq!(taken, Code::AlreadyExists, "{message}");
    let (terms, message) = code(api::JoinRequest { world_size: 3, ..request(1) }).await;
    assert_eq!(terms, Code::FailedPrecondition, "{message}");
    let (words, message) = code(api::JoinRequest { chunk_words: 64, ..request(1) }).await;
    assert_eq!(words, Code::InvalidArgument, "{message}");
    assert!(message.contains("64") && message.contains("32"), "{message}");
    let leave = api::LeaveRequest { job: "other".to_owned(), ..Default::default() };
    assert_eq!(client.leave(leave).await.unwrap_err().code(), Code::NotFound);
    let info = client.info(api::InfoRequest {}).await.unwrap().into_inner();
    assert_eq!(
        (info.protocol_version, info.udp_port, info.announce_address.as_str()),
        (1, 18766, "10.255.255.254")
    );
}
