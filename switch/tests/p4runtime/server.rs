//! A server on a free port of the loopback interface, ended with the test.

use std::time::Duration;

use inca_p4runtime::{
    client::{Event, Events},
    p4v1::p4_runtime_client::P4RuntimeClient,
};
use inca_switch::{SwitchConfig, p4runtime, ports::Loss, runtime};
use tokio::sync::oneshot;
use tonic::transport::Channel;

use super::contract::Target;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Server {
    address: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    handle: runtime::SwitchHandle,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let config = SwitchConfig { device_id: 3, ..SwitchConfig::default() };
        let running = runtime::start(config, &[], &Loss::default(), None).expect("packet thread");
        let handle = running.handle;
        let (stop, stopped) = oneshot::channel::<()>();
        let any = "127.0.0.1:0".parse().expect("address");
        let stopped = async move {
            // The sender's end is a stop, too.
            let _ = stopped.await;
        };
        let (address, serve) =
            p4runtime::bind(handle.clone(), running.events, any, stopped).await.expect("bind");
        tokio::spawn(serve);
        Self { address, stop: Some(stop), handle }
    }

    pub(crate) fn target(&self) -> Target {
        Target { url: format!("http://{}", self.address), device_id: 3, is_bmv2: false }
    }

    /// The generated client, for what ours does not do.
    pub(crate) async fn raw(&self) -> P4RuntimeClient<Channel> {
        P4RuntimeClient::connect(self.target().url).await.expect("connect")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.handle.stop();
    }
}

/// The next event that is not filtered out, in bounded time.
pub(crate) async fn next_event<T>(
    events: &mut Events,
    what: &str,
    mut wanted: impl FnMut(Event) -> Option<T>,
) -> T {
    let wait = async {
        loop {
            match events.next().await {
                Some(event) => {
                    if let Some(found) = wanted(event) {
                        return found;
                    }
                }
                None => panic!("the stream ended while waiting for {what}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("no {what} in time"))
}
