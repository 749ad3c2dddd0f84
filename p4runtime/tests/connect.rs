//! Connecting to what is no switch: an error in bounded time that names the switch, the place and the step.

use std::time::{Duration, Instant};

use inca_p4runtime::{Client, ClientConfig, client::ConnectError};
use tokio::net::TcpListener;

fn config(target: &str) -> ClientConfig {
    let config = ClientConfig::new("leaf1", target, 0, 1);
    ClientConfig { connect_timeout: Duration::from_millis(300), ..config }
}

async fn refused(config: ClientConfig) -> String {
    Client::connect(config).await.expect_err("no switch there").to_string()
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let target = format!("http://{}", listener.local_addr().expect("address"));
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            kept.push(socket);
        }
    });
    let started = Instant::now();
    let error = Client::connect(config(&target)).await.expect_err("nobody answers");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
    assert!(
        error.to_string().starts_with(&format!("switch leaf1: {target} did not answer within 300ms")),
        "{error}"
    );
    silent.abort();
}

#[tokio::test]
async fn a_closed_port_names_the_target() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let target = format!("http://{}", listener.local_addr().expect("address"));
    drop(listener);
    let error = refused(config(&target)).await;
    assert!(error.starts_with(&format!("switch leaf1: connecting to {target}: ")), "{error}");
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_server_of_something_else_is_no_switch() {
    use tokio::io::AsyncWriteExt as _;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let target = format!("http://{}", listener.local_addr().expect("address"));
    let other = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            // What comes next is up to the client.
            let _ = socket.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await;
        }
    });
    let error = refused(config(&target)).await;
    assert!(error.starts_with("switch leaf1: "), "{error}");
    assert!(error.contains(&target), "{error}");
    other.abort();
}

#[tokio::test]
async fn bad_configurations_are_refused_at_once() {
    let error = refused(config("not a url")).await;
    assert!(
        error.starts_with("switch leaf1: target \"not a url\" is not a url like http://127.0.0.1:9559: "),
        "{error}"
    );
    let zero = ClientConfig { election_id: 0, ..config("http://127.0.0.1:1") };
    assert_eq!(refused(zero).await, "switch leaf1: election id 0 given, expected above 0");
}
