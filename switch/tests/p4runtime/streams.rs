//! Streams: who gets packets, digests and notifications.

use inca_p4runtime::{
    Client, EntryBuilder, Pipeline, action_call,
    client::{Event, Events, delete, insert},
    p4v1::{
        ActionProfileMember, DigestEntry, P4Data, P4StructLike, TableEntry, digest_entry,
        entity::Entity as Kind, p4_data::Data,
    },
};
use tonic::Code;

use super::server::{Server, next_event};

const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 9];

async fn inject(client: &Client, pipeline: &Pipeline) {
    let mut frame = DESTINATION.to_vec();
    frame.extend(SOURCE);
    frame.extend([0x12, 0x34]);
    frame.resize(60, 0);
    let fields = [("egress_port", 510u16.into()), ("replicate", 0u8.into())];
    client.packet_out(pipeline.info.packet_out(frame, &fields).expect("packet")).await.expect("send");
}

fn to_controller(pipeline: &Pipeline) -> TableEntry {
    let entry = EntryBuilder::new(&pipeline.info).table("exact_match").exact("dst", DESTINATION);
    entry.action("to_controller", [("reason", 1u8.into())]).build().expect("entry")
}

async fn packet(events: &mut Events) {
    next_event(events, "packet-in", |event| matches!(event, Event::PacketIn(_)).then_some(())).await;
}

#[tokio::test]
async fn packets_go_to_the_primary_alone() {
    let server = Server::start().await;
    let (first, mut first_events, pipeline) = server.target().ready().await;
    first.write(vec![insert(to_controller(&pipeline))]).await.expect("write");
    let (second, mut second_events) = server.target().connect(5).await.expect("second");
    assert!(second.is_primary());
    next_event(&mut first_events, "news", |event| matches!(event, Event::Mastership(_)).then_some(())).await;

    inject(&first, &pipeline).await;
    let error = next_event(&mut first_events, "refusal", |event| match event {
        Event::Error(error) => Some(error),
        _ => None,
    })
    .await;
    assert_eq!(error.canonical_code, Code::PermissionDenied as i32, "a backup may not send packets");

    inject(&second, &pipeline).await;
    packet(&mut second_events).await;
    first.set_election_id(9).await.expect("take over");
    next_event(&mut first_events, "promotion", |event| match event {
        Event::PacketIn(_) => panic!("a backup gets no packets"),
        Event::Mastership(mastership) => mastership.is_primary.then_some(()),
        _ => None,
    })
    .await;
    inject(&first, &pipeline).await;
    packet(&mut first_events).await;
}

/// Makes packets of `SOURCE` send a digest, once digests are asked for; returns the digest's id.
async fn learning(client: &Client, pipeline: &Pipeline) -> u32 {
    let shared = pipeline.info.profile("shared").expect("profile").id;
    let learn = action_call(&pipeline.info, "learn", []).expect("action");
    let member = ActionProfileMember { action_profile_id: shared, member_id: 1, action: Some(learn) };
    let entry = EntryBuilder::new(&pipeline.info).table("by_profile").exact("src", SOURCE).member(1);
    client
        .write(vec![insert(Kind::ActionProfileMember(member)), insert(entry.build().expect("entry"))])
        .await
        .expect("write");
    pipeline.info.digest("learn_t").expect("digest").id
}

#[tokio::test]
async fn digests_are_sent_once_until_acknowledged() {
    let server = Server::start().await;
    let (client, mut events, pipeline) = server.target().ready().await;
    let digest_id = learning(&client, &pipeline).await;
    let config = digest_entry::Config { ack_timeout_ns: 3_600_000_000_000, ..Default::default() };
    let digest = DigestEntry { digest_id, config: Some(config) };
    client.write(vec![insert(to_controller(&pipeline))]).await.expect("write");
    // Nobody asked for digests yet: the packet comes alone.
    inject(&client, &pipeline).await;
    next_event(&mut events, "packet-in", |event| match event {
        Event::Digest(_) => panic!("digests are off"),
        event => matches!(event, Event::PacketIn(_)).then_some(()),
    })
    .await;

    client.write(vec![insert(Kind::DigestEntry(digest))]).await.expect("digest on");
    let found = client.read(vec![Kind::DigestEntry(DigestEntry::default()).into()]).await.expect("read");
    assert_eq!(found, [Kind::DigestEntry(digest).into()]);
    let next_digest = |event| match event {
        Event::Digest(list) => Some(list),
        _ => None,
    };
    inject(&client, &pipeline).await;
    let list = next_event(&mut events, "digest", next_digest).await;
    let bits = |value: &[u8]| P4Data { data: Some(Data::Bitstring(value.to_vec())) };
    let learnt =
        P4Data { data: Some(Data::Struct(P4StructLike { members: vec![bits(&SOURCE), bits(&[255])] })) };
    assert_eq!((list.digest_id, list.data.as_slice()), (digest_id, &[learnt][..]));

    // The same message again, before and after its acknowledgement.
    inject(&client, &pipeline).await;
    packet(&mut events).await;
    inject(&client, &pipeline).await;
    next_event(&mut events, "packet-in", |event| match event {
        Event::Digest(_) => panic!("the message was sent and not acknowledged yet"),
        event => matches!(event, Event::PacketIn(_)).then_some(()),
    })
    .await;
    client.acknowledge(&list).await.expect("acknowledge");
    inject(&client, &pipeline).await;
    let again = next_event(&mut events, "digest", next_digest).await;
    assert!(again.list_id > list.list_id);
    client.write(vec![delete(Kind::DigestEntry(digest))]).await.expect("digest off");
}

/// Lists are filled up to their size, and sent when their time has come.
#[tokio::test]
async fn digests_are_sent_in_lists() {
    let server = Server::start().await;
    let (client, mut events, pipeline) = server.target().ready().await;
    let digest_id = learning(&client, &pipeline).await;
    let digest = |max_timeout_ns, max_list_size| {
        let config = digest_entry::Config { max_timeout_ns, max_list_size, ack_timeout_ns: 0 };
        Kind::DigestEntry(DigestEntry { digest_id, config: Some(config) })
    };
    let hour = 3_600_000_000_000;
    client.write(vec![insert(digest(hour, 3))]).await.expect("write");
    let next_digest = |event| match event {
        Event::Digest(list) => Some(list),
        _ => None,
    };
    for _ in 0..6 {
        inject(&client, &pipeline).await;
    }
    let first = next_event(&mut events, "a full list", next_digest).await;
    let second = next_event(&mut events, "the next full list", next_digest).await;
    assert_eq!((first.data.len(), second.data.len()), (3, 3));
    assert!(second.list_id > first.list_id);

    client.write(vec![inca_p4runtime::client::modify(digest(50_000_000, 3))]).await.expect("a shorter time");
    inject(&client, &pipeline).await;
    inject(&client, &pipeline).await;
    let late = next_event(&mut events, "a list whose time has come", next_digest).await;
    assert_eq!(late.data.len(), 2);
}

#[tokio::test]
async fn idle_entries_are_reported() {
    let server = Server::start().await;
    let (client, mut events, pipeline) = server.target().ready().await;
    let entry = EntryBuilder::new(&pipeline.info)
        .table("exact_match")
        .exact("dst", 1u8)
        .action("drop", [])
        .idle_timeout_ns(1_000_000)
        .build()
        .expect("entry");
    client.write(vec![insert(entry.clone())]).await.expect("insert");
    let idle = next_event(&mut events, "idle notification", |event| match event {
        Event::Idle(idle) => Some(idle),
        _ => None,
    })
    .await;
    assert_eq!(idle.table_entry.len(), 1);
    assert_eq!(idle.table_entry[0].r#match, entry.r#match);
    assert!(idle.table_entry[0].time_since_last_hit.expect("elapsed").elapsed_ns >= 1_000_000);
}

#[tokio::test]
async fn unknown_acknowledgements_are_errors() {
    let server = Server::start().await;
    let (client, mut events, _pipeline) = server.target().ready().await;
    let list = inca_p4runtime::p4v1::DigestList { digest_id: 1, ..Default::default() };
    client.acknowledge(&list).await.expect("send");
    let error = next_event(&mut events, "stream error", |event| match event {
        Event::Error(error) => Some(error),
        _ => None,
    })
    .await;
    assert_eq!(
        (error.canonical_code, error.message.as_str()),
        (Code::InvalidArgument as i32, "no digest with id 1")
    );
}
