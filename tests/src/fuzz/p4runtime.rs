//! Requests of strangers to the embedded switch's P4Runtime server, over a real connection.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use inca_p4runtime::client::{insert, multicast_group};
use inca_p4runtime::p4v1::p4_runtime_client::P4RuntimeClient;
use inca_p4runtime::p4v1::{
    self, CapabilitiesRequest, Entity, GetForwardingPipelineConfigRequest, MasterArbitrationUpdate,
    PacketOut, ReadRequest, SetForwardingPipelineConfigRequest, StreamMessageRequest, WriteRequest,
    entity::Entity as Kind, set_forwarding_pipeline_config_request::Action,
    stream_message_request::Update as StreamUpdate,
};
use inca_p4runtime::{EntryBuilder, Pipeline};
use prost::Message;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{Target, parts, pieces, serve_switch};

pub(super) const TARGET: Target = Target { name: "p4runtime", run, seeds, words: WORDS, usual: 3000 };

/// Protobuf: lengths and varints at their limits, empty and nested messages.
const WORDS: &[&[u8]] = &[
    &[0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
    &[0x0A, 0x00],
    &[0x12, 0x00],
    &[0x1A, 0x00],
    &[0x22, 0x02, 0x0A, 0x00],
    &[0x18, 0x00],
    &[0x50, 0x01],
    &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
];
const DEVICE: u64 = 3;
/// Bound on one call.
const PATIENCE: Duration = Duration::from_secs(20);

/// The kinds of parts; with `FOREIGN` added the message goes out with whatever device and office it names.
const WRITE: u8 = 0;
const READ: u8 = 1;
const SET: u8 = 2;
const GET: u8 = 3;
const CAPABILITIES: u8 = 4;
const STREAM: u8 = 5;
const KINDS: u8 = 6;
const FOREIGN: u8 = 0x80;

struct Server {
    runtime: Runtime,
    client: P4RuntimeClient<Channel>,
    pipeline: Pipeline,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(async {
            let address = serve_switch(DEVICE).await;
            P4RuntimeClient::connect(format!("http://{address}")).await.expect("a connection")
        });
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/p4runtime/objects");
        let pipeline = Pipeline::from_files(format!("{fixtures}.p4info.txtpb"), format!("{fixtures}.json"));
        Server { runtime, client, pipeline: pipeline.expect("fixtures") }
    })
}

fn run(input: &[u8]) {
    let server = server();
    server.runtime.block_on(async {
        let conversation = converse(server, input);
        tokio::time::timeout(PATIENCE, conversation).await.expect("the server answers in time");
    });
}

/// Becomes primary, sets the program, says what the input says, and makes sure that the server is as well as before.
async fn converse(server: &Server, input: &[u8]) {
    // Each input has a higher election id than what came before can have left behind.
    static ELECTION: AtomicU64 = AtomicU64::new(1);
    let election = ELECTION.fetch_add(1, Ordering::Relaxed);
    let election_id = Some(p4v1::Uint128 { high: u64::MAX, low: election });
    let mut client = server.client.clone();
    let (say, said) = mpsc::channel(64);
    let arbitration = MasterArbitrationUpdate { device_id: DEVICE, role: None, election_id, status: None };
    let first = StreamMessageRequest { update: Some(StreamUpdate::Arbitration(arbitration)) };
    say.send(first).await.expect("room for one message");
    let mut stream = client.stream_channel(ReceiverStream::new(said)).await.expect("a stream").into_inner();
    stream.message().await.expect("an answer").expect("an answer to the arbitration");

    let mut config = SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        election_id,
        action: Action::VerifyAndCommit.into(),
        config: Some(p4v1::ForwardingPipelineConfig {
            p4info: Some(server.pipeline.info.message().clone()),
            p4_device_config: server.pipeline.device_config.clone(),
            cookie: None,
        }),
        ..Default::default()
    };
    client.set_forwarding_pipeline_config(config.clone()).await.expect("a known program");

    for (kind, bytes) in parts(input) {
        let ours = kind & FOREIGN == 0;
        match (kind & !FOREIGN) % KINDS {
            WRITE => {
                let Ok(mut request) = WriteRequest::decode(bytes) else { continue };
                if ours {
                    (request.device_id, request.election_id) = (DEVICE, election_id);
                    request.role.clear();
                }
                judge(client.write(request).await);
            }
            READ => {
                let Ok(mut request) = ReadRequest::decode(bytes) else { continue };
                if ours {
                    request.device_id = DEVICE;
                }
                if let Some(found) = judge(client.read(request).await) {
                    let mut found = found.into_inner();
                    while let Ok(Some(_)) = found.message().await {}
                }
            }
            SET => {
                let Ok(mut request) = SetForwardingPipelineConfigRequest::decode(bytes) else { continue };
                if ours {
                    (request.device_id, request.election_id) = (DEVICE, election_id);
                    // The right program with the input's action: saved, committed, reconciled.
                    request.config = request.config.and(config.config.clone());
                    request.role.clear();
                }
                judge(client.set_forwarding_pipeline_config(request).await);
            }
            GET => {
                let Ok(mut request) = GetForwardingPipelineConfigRequest::decode(bytes) else { continue };
                if ours {
                    request.device_id = DEVICE;
                }
                judge(client.get_forwarding_pipeline_config(request).await);
            }
            CAPABILITIES => {
                let Ok(request) = CapabilitiesRequest::decode(bytes) else { continue };
                judge(client.capabilities(request).await);
            }
            _ => {
                let Ok(request) = StreamMessageRequest::decode(bytes) else { continue };
                // A stream that was ended takes nothing more.
                let _ = say.send(request).await;
            }
        }
    }
    drop((say, stream));
    config.election_id = Some(p4v1::Uint128 { high: u64::MAX, low: u64::MAX });
    let refused = client.set_forwarding_pipeline_config(config).await.expect_err("no office, no program");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    client.capabilities(CapabilitiesRequest { device_id: DEVICE }).await.expect("the server still answers");
}

/// A refusal is fine; a failure of the server is not.
fn judge<T>(result: Result<T, Status>) -> Option<T> {
    match result {
        Ok(response) => Some(response),
        Err(status) => {
            let broken = [Code::Internal, Code::Unavailable, Code::DataLoss, Code::Cancelled];
            assert!(!broken.contains(&status.code()), "the server failed: {status:?}");
            None
        }
    }
}

/// Writes, reads and stream messages of every kind, as a controller sends them.
fn seeds() -> Vec<Vec<u8>> {
    let server = server();
    let info = &server.pipeline.info;
    let entries = [
        EntryBuilder::new(info)
            .table("exact_match")
            .exact("dst", [2, 0, 0, 0, 0, 9])
            .action("forward", [("port", 2u8.into())]),
        EntryBuilder::new(info)
            .table("lpm_match")
            .lpm("key", 0x0A00_0000u32, 8)
            .action("set_key", [("value", 7u32.into())]),
        EntryBuilder::new(info)
            .table("ternary_match")
            .exact("port", 255u8)
            .ternary("kind", 0x88B5u16, 0xFFFFu16)
            .priority(7)
            .action("set_word", [("value", [9u8; 256].into())]),
    ];
    let entries: Vec<_> = entries.into_iter().map(|entry| entry.build().expect("a valid entry")).collect();
    let write = |updates: Vec<p4v1::Update>| {
        (WRITE, WriteRequest { device_id: DEVICE, updates, ..Default::default() }.encode_to_vec())
    };
    let read = |entities: Vec<Kind>| {
        let entities = entities.into_iter().map(|entity| Entity { entity: Some(entity) }).collect();
        (READ, ReadRequest { device_id: DEVICE, entities, ..Default::default() }.encode_to_vec())
    };
    let stream = |update| (STREAM, StreamMessageRequest { update: Some(update) }.encode_to_vec());
    let set = |action: Action| {
        let request = SetForwardingPipelineConfigRequest {
            action: action.into(),
            config: (action != Action::Commit).then(p4v1::ForwardingPipelineConfig::default),
            ..Default::default()
        };
        (SET, request.encode_to_vec())
    };
    let wild = vec![
        Kind::TableEntry(Default::default()),
        Kind::ActionProfileMember(Default::default()),
        Kind::ActionProfileGroup(Default::default()),
        Kind::CounterEntry(Default::default()),
        Kind::MeterEntry(Default::default()),
        Kind::RegisterEntry(Default::default()),
        Kind::DirectCounterEntry(Default::default()),
        Kind::DirectMeterEntry(Default::default()),
        Kind::DigestEntry(Default::default()),
        Kind::ValueSetEntry(Default::default()),
        Kind::PacketReplicationEngineEntry(Default::default()),
    ];
    let register = p4v1::RegisterEntry {
        register_id: info.register("words").expect("a register").id,
        index: Some(p4v1::Index { index: 3 }),
        data: Some(p4v1::P4Data { data: Some(p4v1::p4_data::Data::Bitstring(vec![0xAB; 256])) }),
    };
    let member = p4v1::ActionProfileMember {
        action_profile_id: info.table("by_path").map_or(0, |table| table.id),
        member_id: 1,
        action: inca_p4runtime::action_call(info, "forward", [("port", 2u8.into())]).ok(),
    };
    let fields = [("egress_port", 510u16.into()), ("replicate", 0u8.into())];
    let packet = info.packet_out(vec![0x55; 60], &fields).expect("a packet-out");
    let inserts: Vec<_> = entries.iter().cloned().map(insert).collect();
    vec![
        pieces([write(inserts.clone()), read(wild.clone())]),
        pieces([write(vec![insert(multicast_group(5, [(255, 1), (3, 2)]))]), read(wild.clone())]),
        pieces([
            write(vec![inca_p4runtime::client::modify(Kind::RegisterEntry(register))]),
            read(wild.clone()),
        ]),
        pieces([write(vec![insert(Kind::ActionProfileMember(member))]), read(wild)]),
        pieces([set(Action::VerifyAndSave), write(inserts.clone()), set(Action::Commit)]),
        pieces([write(inserts.clone()), set(Action::ReconcileAndCommit), write(inserts)]),
        pieces([
            stream(StreamUpdate::Packet(packet.clone())),
            stream(StreamUpdate::Packet(PacketOut { metadata: Vec::new(), ..packet })),
            stream(StreamUpdate::DigestAck(Default::default())),
            stream(StreamUpdate::Arbitration(Default::default())),
        ]),
        pieces([(GET, Vec::new()), (CAPABILITIES, Vec::new()), (GET | FOREIGN, vec![0x08, 9])]),
    ]
}
