//! Requests of strangers to a controller that has a switch: joins that get trees, joins that don't, leaves, questions.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use inca_controller::control::Controller;
use inca_controller::inventory::Inventory;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::{
    self, InfoRequest, JoinEvent, JoinRequest, LeaveRequest, StatusRequest, join_event::Event,
};
use prost::Message;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{Target, parts, pieces, serve_switch};

pub(super) const TARGET: Target = Target { name: "northbound", run, seeds, words: WORDS, usual: 200 };

const WORDS: &[&[u8]] = &[
    b"10.0.0.1",
    b"10.0.0.2",
    b"10.255.0.1",
    b"255.255.255.255",
    &[0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
    &[0x20, 0x00],
    &[0x28, 0x02],
    &[0x30, 0x20],
    &[0x40, 0x01],
];
/// Bound on one input, and on how long a group takes to be taken down.
const PATIENCE: Duration = Duration::from_secs(30);

const JOIN: u8 = 0;
const LEAVE: u8 = 1;
const STATUS: u8 = 2;
const INFO: u8 = 3;
/// The stream of the oldest join that is still open is dropped.
const VANISH: u8 = 4;
const KINDS: u8 = 5;

struct World {
    runtime: Runtime,
    client: ControllerClient<Channel>,
    // Dropping it would end it.
    _controller: Controller,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (client, controller) = runtime.block_on(async {
            let address = serve_switch(1).await;
            let controller = Controller::start(inventory(address)).await.expect("a controller");
            controller.ready(Duration::ZERO).await;
            let url = format!("http://{}", controller.addresses()[0]);
            (ControllerClient::connect(url).await.expect("a connection"), controller)
        });
        World { runtime, client, _controller: controller }
    })
}

/// One switch with three hosts. The times are short: nothing waits for real hosts.
fn inventory(switch: std::net::SocketAddr) -> Inventory {
    let mut text =
        format!("listen: ['127.0.0.1:0']\nswitches: [{{name: s1, target: '{switch}', device_id: 1}}]\n");
    text += "trees: {slots_per_tree: 16, leave_linger_ms: 20}\nfailure: {attach_grace_ms: 5, report_timeout_ms: 20, patience_ms: 50}\nhosts:\n";
    for host in 1..=3 {
        text += &format!(
            "  - {{name: h{host}, address: 10.0.0.{host}, mac: '02:00:00:00:00:0{host}', switch: s1, port: {host}}}\n"
        );
    }
    Inventory::from_text("fuzz", &text).expect("a valid inventory")
}

fn run(input: &[u8]) {
    let world = world();
    world.runtime.block_on(async {
        let conversation = converse(world.client.clone(), input);
        tokio::time::timeout(PATIENCE, conversation).await.expect("the controller answers in time");
    });
}

async fn converse(mut client: ControllerClient<Channel>, input: &[u8]) {
    let mut streams = Vec::new();
    // Can't be guessed either: by job, group and rank.
    let mut tokens: HashMap<(String, String, u32), String> = HashMap::new();
    for (kind, bytes) in parts(input) {
        match kind % KINDS {
            JOIN => {
                let Ok(request) = JoinRequest::decode(bytes) else { continue };
                let who = (request.job.clone(), request.group.clone(), request.rank);
                if let Some(stream) = judge(client.join(request).await) {
                    let mut stream = stream.into_inner();
                    let told = tokio::time::timeout(Duration::from_millis(5), stream.message()).await;
                    if let Ok(Ok(Some(JoinEvent { event: Some(Event::Membership(membership)) }))) = told {
                        tokens.insert(who, membership.token);
                    }
                    // Enough to let the group come to its trees; a rank that waits is told within a second.
                    let _ = tokio::time::timeout(Duration::from_millis(5), stream.message()).await;
                    streams.push(stream);
                }
            }
            LEAVE => {
                let Ok(request) = LeaveRequest::decode(bytes) else { continue };
                let mut request = with_generation(&mut client, request).await;
                if request.member_token.is_empty() {
                    let who = (request.job.clone(), request.group.clone(), request.rank);
                    request.member_token = tokens.get(&who).cloned().unwrap_or_default();
                }
                judge(client.leave(request).await);
            }
            STATUS => {
                let Ok(request) = StatusRequest::decode(bytes) else { continue };
                judge(client.status(request).await);
            }
            INFO => {
                let Ok(request) = InfoRequest::decode(bytes) else { continue };
                judge(client.info(request).await);
            }
            _ => {
                if !streams.is_empty() {
                    drop(streams.remove(0));
                }
            }
        }
    }
    drop(streams);
    // Once everybody has gone nothing may be left: no group, no slot.
    let give_up = Instant::now() + PATIENCE / 2;
    loop {
        let status =
            client.status(StatusRequest::default()).await.expect("the controller still answers").into_inner();
        let open = status.jobs.iter().filter(|job| !job.state.starts_with("closed")).count();
        let slots: u32 = status.switches.iter().map(|switch| switch.slots_used).sum();
        if open == 0 && slots == 0 {
            return;
        }
        assert!(Instant::now() < give_up, "{open} groups and {slots} slots are left: {:?}", status.jobs);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A generation can't be guessed: 0 stands for the current one.
async fn with_generation(client: &mut ControllerClient<Channel>, mut request: LeaveRequest) -> LeaveRequest {
    if request.generation == 0
        && let Ok(status) = client.status(StatusRequest::default()).await
    {
        let is_meant = |job: &&northbound::Job| job.name == request.job && job.group == request.group;
        request.generation = status.get_ref().jobs.iter().find(is_meant).map_or(0, |job| job.generation);
    }
    request
}

/// A refusal is fine; a failure of the controller is not.
fn judge<T>(result: Result<T, Status>) -> Option<T> {
    match result {
        Ok(response) => Some(response),
        Err(status) => {
            let broken = [Code::Internal, Code::Unavailable, Code::Unknown, Code::DataLoss, Code::Cancelled];
            assert!(!broken.contains(&status.code()), "the controller failed: {status:?}");
            None
        }
    }
}

/// Jobs of one, two and three ranks, complete and not, that end in every way.
fn seeds() -> Vec<Vec<u8>> {
    let join = |job: &str, rank: u32, world_size: u32| {
        let request = JoinRequest {
            job: job.to_owned(),
            rank,
            world_size,
            format: northbound::Format::Bfp16.into(),
            chunk_words: 5,
            host_address: format!("10.0.0.{}", rank + 1),
            host_udp_port: 4000 + rank,
            protocol_version: 1,
            mtu: 1500,
            ..Default::default()
        };
        (JOIN, request.encode_to_vec())
    };
    let leave = |job: &str, rank: u32, failure: &str| {
        let missing_ranks = if failure.is_empty() { vec![] } else { vec![1, 2, 70_000] };
        let request = LeaveRequest {
            job: job.to_owned(),
            rank,
            failure: failure.to_owned(),
            missing_ranks,
            ..Default::default()
        };
        (LEAVE, request.encode_to_vec())
    };
    let status = || (STATUS, StatusRequest { counters: true }.encode_to_vec());
    vec![
        pieces([join("a", 0, 1), status(), leave("a", 0, "")]),
        pieces([join("a", 0, 2), join("a", 1, 2), status(), leave("a", 0, ""), leave("a", 1, "")]),
        pieces([join("a", 0, 2), join("a", 1, 2), leave("a", 1, "a deadline"), join("a", 0, 2)]),
        pieces([
            join("a", 0, 3),
            join("a", 1, 3),
            (VANISH, vec![]),
            join("a", 0, 3),
            join("a", 2, 3),
            status(),
        ]),
        pieces([join("a", 0, 1), join("b", 0, 1), join("a", 0, 1), (VANISH, vec![]), join("a", 0, 1)]),
        pieces([join("a", 0, 2), join("a", 0, 2), join("a", 5, 2), join("a", 1, 4), (INFO, vec![])]),
    ]
}

#[cfg(test)]
mod tests {
    use inca_p4runtime::northbound::join_event::Event;

    use super::*;

    /// A seed that does not get as far as trees would leave most of the controller alone.
    #[test]
    fn the_first_seed_gets_a_tree() {
        let world = world();
        let seeds = seeds();
        let (kind, bytes) = parts(&seeds[0]).next().expect("a part");
        assert_eq!(kind, JOIN);
        let request = JoinRequest::decode(bytes).expect("a request");
        let mut client = world.client.clone();
        let assigned = world.runtime.block_on(async {
            let mut stream = client.join(request).await.expect("admitted").into_inner();
            while let Some(message) = stream.message().await.expect("an open stream") {
                if let Some(Event::Assignment(assignment)) = message.event {
                    return assignment.trees.len();
                }
            }
            0
        });
        assert_eq!(assigned, 1);
    }
}
