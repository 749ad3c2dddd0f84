//! What a controller relies on, run against any server: BMv2's and the embedded switch's.
//!
//! The program is `tests/fixtures/p4runtime/objects.p4`. It needs no ports: a packet-out to port 510 goes through the tables,
//! and what is sent to port 255 comes back as a packet-in.

use std::{path::Path, time::Duration};

use inca_p4runtime::{
    Client, ClientConfig, DecodedAction, EntryBuilder, EntryKey, Pipeline,
    client::{
        ConnectError, Event, Events, Link, PipelineState, WriteError, delete, insert, modify, multicast_group,
    },
    p4v1::{Index, PacketIn, RegisterEntry, TableEntry, Update, entity::Entity as Kind},
};
use tonic::Code;

pub(crate) mod python;
mod venv;

/// Bound on everything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Egress port of a packet-out that means "through the tables".
const PIPELINE_PORT: u16 = 510;
/// EtherType that has a word behind it.
const WORD_KIND: u16 = 0x88B5;
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A server under test.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Its URL.
    pub(crate) url: String,
    /// Its device id.
    pub(crate) device_id: u64,
    /// It is BMv2, which is known to differ.
    pub(crate) is_bmv2: bool,
}

/// The program of these tests.
pub(crate) fn pipeline() -> Pipeline {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/p4runtime");
    Pipeline::from_files(fixtures.join("objects.p4info.txtpb"), fixtures.join("objects.json"))
        .expect("fixtures")
}

impl Target {
    /// Connects with this election id.
    pub(crate) async fn connect(&self, election_id: u128) -> Result<(Client, Events), ConnectError> {
        Client::connect(ClientConfig::new("s1", &self.url, self.device_id, election_id)).await
    }

    /// A primary client of a switch that runs the program.
    pub(crate) async fn ready(&self) -> (Client, Events, Pipeline) {
        let (client, events) = self.connect(1).await.expect("connect");
        assert!(client.is_primary());
        let pipeline = pipeline();
        client.ensure_pipeline(&pipeline).await.expect("pipeline");
        (client, events, pipeline)
    }
}

/// The next event that is not filtered out, in bounded time.
async fn next<T>(events: &mut Events, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
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

async fn next_packet(events: &mut Events) -> PacketIn {
    next(events, "packet-in", |event| match event {
        Event::PacketIn(packet) => Some(packet),
        _ => None,
    })
    .await
}

/// A frame for [`DESTINATION`], with a word of these bytes.
fn word_frame(word: &[u8; 256]) -> Vec<u8> {
    let mut frame = DESTINATION.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(WORD_KIND.to_be_bytes());
    frame.extend(word);
    frame
}

async fn inject(client: &Client, pipeline: &Pipeline, frame: Vec<u8>) {
    let fields = [("egress_port", PIPELINE_PORT.into()), ("replicate", 0u8.into())];
    let packet = pipeline.info.packet_out(frame, &fields).expect("packet-out");
    client.packet_out(packet).await.expect("send");
}

/// An entry that sends [`DESTINATION`] to the controller.
fn to_controller(pipeline: &Pipeline, reason: u8) -> TableEntry {
    EntryBuilder::new(&pipeline.info)
        .table("exact_match")
        .exact("dst", DESTINATION)
        .action("to_controller", [("reason", reason.into())])
        .build()
        .expect("entry")
}

pub(crate) async fn arbitration(target: Target) {
    let (first, mut first_events) = target.connect(10).await.expect("first");
    assert!(first.is_primary());
    let duplicate = target.connect(10).await.expect_err("an election id can't be used twice");
    let ConnectError::Refused { status, .. } = &duplicate else { panic!("{duplicate}") };
    assert_eq!(status.code(), Code::InvalidArgument, "{duplicate}");

    let (second, second_events) = target.connect((1 << 64) + 1).await.expect("second");
    assert!(second.is_primary(), "ids are 128 bits wide");
    let lost = next(&mut first_events, "loss of mastership", |event| match event {
        Event::Mastership(mastership) if !mastership.is_primary => Some(mastership),
        _ => None,
    })
    .await;
    assert_eq!(lost.election_id, (1 << 64) + 1);
    assert!(!first.is_primary());

    let pipeline = pipeline();
    let refused = first.ensure_pipeline(&pipeline).await.expect_err("a backup may not write");
    assert!(
        refused
            .to_string()
            .starts_with("switch s1: SetForwardingPipelineConfig VERIFY_AND_COMMIT: PERMISSION_DENIED")
    );
    second.ensure_pipeline(&pipeline).await.expect("the primary may");
    let Err(WriteError::Call { source, .. }) = first.write(vec![insert(to_controller(&pipeline, 1))]).await
    else {
        panic!("a backup may not write")
    };
    assert_eq!(source.code(), Code::PermissionDenied);

    drop((second, second_events));
    let told = next(&mut first_events, "news of the primary's end", |event| match event {
        Event::Mastership(mastership) => Some(mastership),
        _ => None,
    })
    .await;
    // BMv2 promotes the backup with its lower id; by the specification there is no primary now.
    assert_eq!(told.is_primary, target.is_bmv2);
    first.set_election_id((1 << 64) + 2).await.expect("higher id");
    next(&mut first_events, "promotion", |event| match event {
        Event::Mastership(mastership) if mastership.is_primary => Some(()),
        _ => None,
    })
    .await;
    first.write(vec![insert(to_controller(&pipeline, 1))]).await.expect("primary again");
}

pub(crate) async fn cookie_gates_the_pipeline(target: Target) {
    let (client, _events) = target.connect(1).await.expect("connect");
    assert!(!client.api_version().await.expect("capabilities").is_empty());
    assert_eq!(client.pipeline_cookie().await.expect("before"), None);
    let pipeline = pipeline();
    assert_eq!(client.ensure_pipeline(&pipeline).await.expect("first"), PipelineState::Pushed);
    client.write(vec![insert(to_controller(&pipeline, 1))]).await.expect("write");
    assert_eq!(client.ensure_pipeline(&pipeline).await.expect("again"), PipelineState::Kept);
    let table = pipeline.info.table("exact_match").expect("table").id;
    assert_eq!(client.read_table(table).await.expect("read").len(), 1, "a kept pipeline keeps its entries");
    let other = Pipeline { cookie: pipeline.cookie ^ 1, ..pipeline };
    assert_eq!(client.ensure_pipeline(&other).await.expect("other"), PipelineState::Pushed);
    assert_eq!(client.read_table(table).await.expect("read").len(), 0, "a pushed pipeline starts empty");
}

pub(crate) async fn wide_parameter_acts_on_packets(target: Target) {
    let (client, mut events, pipeline) = target.ready().await;
    let value: [u8; 256] = std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(1));
    let wide = EntryBuilder::new(&pipeline.info)
        .table("ternary_match")
        .exact("port", 255u8)
        .ternary("kind", WORD_KIND, 0xFFFFu16)
        .priority(7)
        .action("set_word", [("value", value.into())])
        .build()
        .expect("entry");
    client.write(vec![insert(to_controller(&pipeline, 42)), insert(wide.clone())]).await.expect("write");

    let read = client.read_table(wide.table_id).await.expect("read");
    assert_eq!(read.len(), 1);
    assert_eq!(EntryKey::from(&read[0]), EntryKey::from(&wide));
    let decoded = pipeline.info.decode_entry(&read[0]).expect("decode");
    let Some(DecodedAction::Call { params, .. }) = decoded.action else { panic!("an action: {decoded}") };
    assert_eq!(params["value"], value, "2048 bits survive");

    inject(&client, &pipeline, word_frame(&[0; 256])).await;
    let packet = next_packet(&mut events).await;
    assert_eq!(packet.payload, word_frame(&value));
    let fields = pipeline.info.packet_in_fields(&packet).expect("metadata");
    assert_eq!((fields["ingress_port"].as_slice(), fields["reason"].as_slice()), (&[255][..], &[42][..]));

    client.write(vec![delete(wide)]).await.expect("delete");
    inject(&client, &pipeline, word_frame(&[3; 256])).await;
    assert_eq!(
        next_packet(&mut events).await.payload,
        word_frame(&[3; 256]),
        "without the entry nothing changes"
    );
}

pub(crate) async fn multicast_group_copies(target: Target) {
    let (client, mut events, pipeline) = target.ready().await;
    client.write(vec![insert(multicast_group(5, [(255, 1), (255, 2), (255, 4)]))]).await.expect("insert");
    let groups = client.read_multicast_groups(0).await.expect("read");
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].multicast_group_id, 5);
    let mut instances: Vec<_> = groups[0].replicas.iter().map(|replica| replica.instance).collect();
    instances.sort_unstable();
    assert_eq!(instances, [1, 2, 4]);

    let frame = word_frame(&[9; 256]);
    let fields = [("egress_port", 5u8.into()), ("replicate", 1u8.into())];
    client.packet_out(pipeline.info.packet_out(frame.clone(), &fields).expect("packet")).await.expect("send");
    let mut copies = Vec::new();
    for _ in 0..3 {
        let packet = next_packet(&mut events).await;
        assert_eq!(packet.payload, frame);
        copies.push(pipeline.info.packet_in_fields(&packet).expect("metadata")["reason"][0]);
    }
    copies.sort_unstable();
    assert_eq!(copies, [1, 2, 4], "one copy per replica, each with its instance");

    client
        .upsert(vec![multicast_group(5, [(255, 8)]), multicast_group(6, [(255, 1)])])
        .await
        .expect("upsert");
    assert_eq!(client.read_multicast_groups(5).await.expect("read")[0].replicas.len(), 1);
    client.remove(vec![multicast_group(5, []), multicast_group(6, [])]).await.expect("remove");
    assert_eq!(client.read_multicast_groups(0).await.expect("read"), []);
}

pub(crate) async fn counters_count(target: Target) {
    let (client, mut events, pipeline) = target.ready().await;
    let entry = to_controller(&pipeline, 1);
    client.write(vec![insert(entry.clone())]).await.expect("write");
    for _ in 0..3 {
        inject(&client, &pipeline, word_frame(&[0; 256])).await;
        next_packet(&mut events).await;
    }
    let seen = pipeline.info.counter("seen").expect("counter").id;
    let cells = client.read_counter(seen, None).await.expect("read all");
    assert_eq!(cells.len(), 8);
    // Packets from port 255 count in cell 7, the packet-out header of two bytes included.
    let one = &client.read_counter(seen, Some(7)).await.expect("read one")[0];
    assert_eq!(one.index, Some(Index { index: 7 }));
    let data = one.data.expect("data");
    assert_eq!((data.packet_count, data.byte_count), (3, 3 * (2 + 14 + 256)));

    let entries = client.read_table_counters(entry.table_id).await.expect("entries");
    assert_eq!(entries[0].counter_data.expect("direct counter").packet_count, 3);
    let error = client.read_counter(seen, Some(8)).await.expect_err("one beyond the array");
    assert!(matches!(error.code(), Code::OutOfRange | Code::Unknown | Code::InvalidArgument), "{error}");
}

pub(crate) async fn errors_carry_their_update(target: Target) {
    let (client, _events, pipeline) = target.ready().await;
    let entry = |last: u8| {
        EntryBuilder::new(&pipeline.info)
            .table("exact_match")
            .exact("dst", [2, 0, 0, 0, 1, last])
            .action("forward", [("port", last.into())])
            .build()
            .expect("entry")
    };
    let unknown = TableEntry { table_id: 0x0200_0007, ..entry(2) };
    let batch: Vec<Update> = vec![insert(entry(1)), insert(unknown.clone()), insert(entry(3))];
    let error = client.write(batch).await.expect_err("one update is bad");
    let WriteError::Updates { switch, total, failures } = &error else {
        panic!("per-update errors: {error}")
    };
    assert_eq!((switch.as_str(), *total, failures.len()), ("s1", 3, 1), "{error}");
    assert_eq!(failures[0].index, 1);
    assert_eq!(failures[0].update, insert(unknown), "the error brings the update that caused it");
    let stored = client.read_table(entry(1).table_id).await.expect("read");
    assert_eq!(stored.len(), 2, "the good ones are applied");

    let codes = |error: WriteError| match error {
        WriteError::Updates { failures, .. } => failures.iter().map(|failure| failure.error.code).collect(),
        WriteError::Call { source, .. } => vec![source.code()],
    };
    let twice = client.write(vec![insert(entry(1))]).await.expect_err("insert twice");
    assert_eq!(codes(twice), [Code::AlreadyExists]);
    let missing = client.write(vec![modify(entry(9)), delete(entry(9))]).await.expect_err("nothing there");
    assert_eq!(codes(missing), [Code::NotFound, Code::NotFound]);

    client.upsert(vec![entry(1).into(), entry(4).into()]).await.expect("upsert is idempotent");
    client.upsert(vec![entry(1).into(), entry(4).into()]).await.expect("upsert is idempotent");
    client.remove((1..9).map(|last| entry(last).into()).collect()).await.expect("remove is idempotent");
    assert_eq!(client.read_table(entry(1).table_id).await.expect("read"), []);
}

pub(crate) async fn large_batches_are_split(target: Target) {
    let (client, _events, pipeline) = target.ready().await;
    let entry = |number: u32| {
        EntryBuilder::new(&pipeline.info)
            .table("lpm_match")
            .lpm("key", number << 8, 24)
            .action("set_key", [("value", number.into())])
            .build()
            .expect("entry")
    };
    client.write((1..=60).map(|number| insert(entry(number))).collect()).await.expect("write");
    assert_eq!(client.read_table(entry(1).table_id).await.expect("read").len(), 60);
    // Every entry exists: 300 errors come back, each at its place.
    let again = client.write((1..=60).cycle().take(300).map(|number| insert(entry(number))).collect()).await;
    let Err(WriteError::Updates { failures, total, .. }) = again else { panic!("{again:?}") };
    let places: Vec<_> = failures.iter().map(|failure| failure.index).collect();
    assert_eq!((total, places), (300, (0..300).collect()));
    assert!(failures.iter().all(|failure| failure.error.code == Code::AlreadyExists));
}

pub(crate) async fn registers(target: Target) {
    let (client, mut events, pipeline) = target.ready().await;
    let small = pipeline.info.register("small").expect("register").id;
    if target.is_bmv2 {
        let error = client.read_register(small, Some(0)).await.expect_err("BMv2 has no registers here");
        assert_eq!(error.code(), Code::Unimplemented);
        return;
    }
    client.write(vec![insert(to_controller(&pipeline, 1))]).await.expect("write");
    inject(&client, &pipeline, word_frame(&[0; 256])).await;
    next_packet(&mut events).await;
    let cell = |found: &[RegisterEntry]| found[0].data.clone().and_then(|data| data.data);
    let bits = |value: &[u8]| Some(inca_p4runtime::p4v1::p4_data::Data::Bitstring(value.to_vec()));
    let length = client.read_register(small, Some(7)).await.expect("read");
    assert_eq!(cell(&length), bits(&[1, 16]), "2 + 14 + 256 bytes, in shortest form");
    assert_eq!(client.read_register(small, None).await.expect("read all").len(), 8);

    let words = pipeline.info.register("words").expect("register").id;
    let value = vec![0xAB; 256];
    let write = Kind::RegisterEntry(RegisterEntry {
        register_id: words,
        index: Some(Index { index: 3 }),
        data: Some(inca_p4runtime::p4v1::P4Data { data: bits(&value) }),
    });
    client.write(vec![modify(write)]).await.expect("write a register");
    assert_eq!(cell(&client.read_register(words, Some(3)).await.expect("read")), bits(&value));
}

pub(crate) async fn closed_stream_is_noticed(target: Target, stop: impl FnOnce()) {
    let (client, mut events, pipeline) = target.ready().await;
    stop();
    next(&mut events, "end of the stream", |event| matches!(event, Event::Closed(_)).then_some(())).await;
    assert!(events.next().await.is_none());
    assert!(matches!(&*client.link().borrow(), Link::Closed(_)));
    let packet = pipeline.info.packet_out(vec![], &[("egress_port", 1u8.into()), ("replicate", 0u8.into())]);
    let error = client.packet_out(packet.expect("packet")).await.expect_err("no stream").to_string();
    assert!(error.starts_with("switch s1: sending packet-out: the stream is closed: "), "{error}");
    let error = client.read_table(0).await.expect_err("no switch").to_string();
    assert!(error.starts_with("switch s1: Read of 1 entities: "), "{error}");
    let error = target.connect(5).await.expect_err("no switch").to_string();
    assert!(error.starts_with(&format!("switch s1: connecting to {}: ", target.url)), "{error}");
}
