//! Switches for tests of the whole controller: embedded ones in this process, and BMv2 where `simple_switch_grpc` is on PATH.

// Each test file uses its part.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod http;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use inca_controller::control::Controller;
use inca_controller::inventory::Inventory;
use inca_controller::program;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::{self as api, join_event::Event};
use inca_p4runtime::{Client, ClientConfig, DecodedEntry, P4Info};
use inca_switch::ports::{Loss, PortSpec, Receive};
use inca_switch::runtime::{self, SwitchHandle};
use inca_switch::{SwitchConfig, p4runtime};
use tokio::sync::oneshot;
use tonic::transport::Channel;

/// Bound on everything that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something, not for ever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("no {what} within {PATIENCE:?}"))
}

/// Which switch a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The embedded switch, in this process.
    Embedded,
    /// `simple_switch_grpc`, if it is on PATH.
    Bmv2,
}

impl Kind {
    /// Whether it is here; says so if not.
    pub fn is_here(self) -> bool {
        let here = self == Self::Embedded || bmv2().is_some();
        if !here {
            println!("skipped: simple_switch_grpc not found");
        }
        here
    }
}

fn bmv2() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("simple_switch_grpc")).find(|file| file.is_file())
}

/// One test per switch for a function that takes the kind.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod embedded {$(
            #[tokio::test]
            async fn $name() {
                super::$name($crate::rig::Kind::Embedded).await;
            }
        )*}
        mod bmv2 {$(
            #[tokio::test]
            async fn $name() {
                if $crate::rig::Kind::Bmv2.is_here() {
                    super::$name($crate::rig::Kind::Bmv2).await;
                }
            }
        )*}
    };
}

/// An address nobody listens at.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A switch; it ends with this value.
pub struct Switch {
    pub address: SocketAddr,
    pub device_id: u64,
    inner: Inner,
}

enum Inner {
    Process(Child),
    Thread { handle: SwitchHandle, stop: Option<oneshot::Sender<()>> },
}

impl Switch {
    /// A switch with these ports on network interfaces.
    pub async fn start(kind: Kind, device_id: u64, ports: &[(u16, &str)]) -> Self {
        Self::start_at(kind, device_id, ports, free_address()).await
    }

    pub async fn start_at(kind: Kind, device_id: u64, ports: &[(u16, &str)], address: SocketAddr) -> Self {
        let inner = match kind {
            Kind::Bmv2 => Inner::Process(bmv2_process(device_id, ports, address)),
            Kind::Embedded => embedded(device_id, ports, address, None).await,
        };
        Self { address, device_id, inner }
    }

    /// An embedded switch without ports that speaks TLS: certificate and key, and the authority of its clients.
    pub async fn start_tls(device_id: u64, identity: &(PathBuf, PathBuf), client_ca: &PathBuf) -> Self {
        use tonic::transport::{Certificate, Identity, ServerTlsConfig};
        let read = |path| std::fs::read(path).unwrap();
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(read(&identity.0), read(&identity.1)))
            .client_ca_root(Certificate::from_pem(read(client_ca)));
        let address = free_address();
        let inner = embedded(device_id, &[], address, Some(tls)).await;
        Self { address, device_id, inner }
    }

    /// A connection for reading. Election ids must differ, and be below the controllers'.
    async fn reader(&self) -> (Client, inca_p4runtime::client::Events) {
        static ELECTION_ID: AtomicU64 = AtomicU64::new(1);
        let election_id = ELECTION_ID.fetch_add(1, Ordering::Relaxed);
        let target = format!("http://{}", self.address);
        Client::connect(ClientConfig::new("reader", target, self.device_id, election_id.into()))
            .await
            .unwrap()
    }

    /// Everything in a table, by names.
    pub async fn entries(&self, info: &P4Info, table: &str) -> Vec<DecodedEntry> {
        let (client, _events) = self.reader().await;
        let entries = client.read_table(info.table(table).unwrap().id).await.unwrap();
        entries.iter().map(|entry| info.decode_entry(entry).unwrap()).collect()
    }

    /// The number of multicast groups.
    pub async fn groups(&self) -> usize {
        let (client, _events) = self.reader().await;
        client.read_multicast_groups(0).await.unwrap().len()
    }
}

fn bmv2_process(device_id: u64, ports: &[(u16, &str)], address: SocketAddr) -> Child {
    let mut command = Command::new(bmv2().unwrap());
    command.args(["--no-p4", "--device-id", &device_id.to_string(), "--log-level", "off"]);
    for (port, interface) in ports {
        command.args(["-i", &format!("{port}@{interface}")]);
    }
    command.args(["--", "--grpc-server-addr", &address.to_string(), "--cpu-port", "255"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

async fn embedded(
    device_id: u64,
    ports: &[(u16, &str)],
    address: SocketAddr,
    tls: Option<tonic::transport::ServerTlsConfig>,
) -> Inner {
    let config = SwitchConfig { device_id, ..SwitchConfig::default() };
    let ports: Vec<_> = ports
        .iter()
        .map(|(port, interface)| PortSpec {
            port: *port,
            interface: (*interface).to_owned(),
            receive: Receive::default(),
        })
        .collect();
    let running = runtime::start(config, &ports, &Loss::default(), None).unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async {
        let _ = stopped.await;
    };
    let (_, server) =
        p4runtime::bind_with(running.handle.clone(), running.events, address, tls, stopped).await.unwrap();
    tokio::spawn(server);
    Inner::Thread { handle: running.handle, stop: Some(stop) }
}

impl Drop for Switch {
    fn drop(&mut self) {
        match &mut self.inner {
            Inner::Process(process) => {
                let _ = process.kill();
                let _ = process.wait();
            }
            Inner::Thread { handle, stop } => {
                stop.take().map(|stop| stop.send(()));
                let _ = handle.stop();
            }
        }
    }
}

/// An inventory of these switches, with hosts 10.0.0.1 and 10.0.0.2 at ports 1 and 2 of the first.
pub fn inventory(switches: &[(u64, SocketAddr)], more: &str) -> Inventory {
    let mut text = "listen: ['127.0.0.1:0']\nswitches:\n".to_owned();
    for (id, address) in switches {
        text += &format!("  - {{name: s{id}, target: '{address}', device_id: {id}}}\n");
    }
    text += "hosts:\n";
    for host in 1..=2 {
        text += &format!(
            "  - {{name: h{host}, address: 10.0.0.{host}, mac: '02:00:00:00:00:0{host}', switch: s{}, port: {host}}}\n",
            switches[0].0
        );
    }
    Inventory::from_text("test", &(text + more)).unwrap()
}

pub async fn start(inventory: Inventory) -> (Controller, ControllerClient<Channel>) {
    let controller = Controller::start(inventory).await.unwrap();
    let address = controller.addresses()[0];
    let client = ControllerClient::connect(format!("http://{address}")).await.unwrap();
    (controller, client)
}

pub async fn ready(controller: &Controller) {
    soon("readiness", controller.ready(Duration::ZERO)).await;
}

pub fn info() -> P4Info {
    program::built_in().unwrap().info
}

pub fn request(rank: u32) -> api::JoinRequest {
    api::JoinRequest {
        job: "test".to_owned(),
        group: String::new(),
        rank,
        world_size: 2,
        format: api::Format::Bfp16.into(),
        chunk_words: 5,
        host_address: format!("10.0.0.{}", rank + 1),
        host_udp_port: 4000,
        protocol_version: 1,
        mtu: 1500,
        ..Default::default()
    }
}

thread_local! {
    /// Member tokens by rank: each test has a thread of its own.
    static TOKENS: RefCell<BTreeMap<u32, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// What a rank shows as a member, once its assignment was read.
pub fn member_token(rank: u32) -> String {
    TOKENS.with_borrow(|tokens| tokens.get(&rank).cloned().unwrap_or_default())
}

/// Reads a rank's stream up to its assignment.
pub async fn assignment(stream: &mut tonic::Streaming<api::JoinEvent>) -> api::Assignment {
    let mut shown = None;
    loop {
        match soon("assignment", stream.message()).await.unwrap().and_then(|event| event.event) {
            Some(Event::Assignment(assignment)) => {
                if let (Some(token), Some(tree)) = (shown, assignment.trees.first()) {
                    TOKENS.with_borrow_mut(|tokens| tokens.insert(tree.member, token));
                }
                return assignment;
            }
            Some(Event::Membership(membership)) => shown = Some(membership.token),
            Some(Event::Waiting(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Reads a rank's stream up to a stop, and reports that nothing is finished.
pub async fn report(
    client: &mut ControllerClient<Channel>,
    stream: &mut tonic::Streaming<api::JoinEvent>,
    rank: u32,
) -> api::Stop {
    loop {
        match soon("stop", stream.message()).await.unwrap().and_then(|event| event.event) {
            Some(Event::Stop(stop)) => {
                let (job, attempt, finished) = ("test".to_owned(), stop.attempt, vec![0; 16]);
                let member_token = member_token(rank);
                let report =
                    api::ReportRequest { job, rank, attempt, finished, member_token, ..Default::default() };
                client.report(report).await.unwrap();
                return stop;
            }
            Some(Event::Membership(membership)) => {
                TOKENS.with_borrow_mut(|tokens| tokens.insert(rank, membership.token));
            }
            Some(Event::Waiting(_) | Event::Assignment(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Reads a rank's stream up to its end.
pub async fn closed(stream: &mut tonic::Streaming<api::JoinEvent>) -> api::Closed {
    loop {
        match soon("end of the group", stream.message()).await.unwrap().and_then(|event| event.event) {
            Some(Event::Closed(closed)) => return closed,
            Some(_) => {}
            None => panic!("the stream ended without a reason"),
        }
    }
}
