//! Cases of controllers that do the unusual: R1 to R6.

use inca_p4runtime::{
    Client, EntryBuilder, Pipeline,
    client::{ConnectError, Event, WriteError, delete, insert, modify},
    p4v1::{
        FieldMatch, PacketMetadata, PacketOut, TableEntry, Update, field_match::FieldMatchType,
        stream_error::Details, table_action,
    },
    status::UpdateError,
};
use tonic::Code;

use super::server::{Server, next_event};

/// An entry of the exact table.
fn forward(pipeline: &Pipeline, last: u8, port: u16) -> TableEntry {
    EntryBuilder::new(&pipeline.info)
        .table("exact_match")
        .exact("dst", [2, 0, 0, 0, 1, last])
        .action("forward", [("port", port.into())])
        .build()
        .expect("entry")
}

/// The error of each update, by its place.
async fn outcomes(client: &Client, updates: Vec<Update>) -> Vec<Option<UpdateError>> {
    let mut outcomes = vec![None; updates.len()];
    match client.write(updates).await {
        Ok(()) => {}
        Err(WriteError::Updates { failures, .. }) => {
            for failure in failures {
                outcomes[failure.index] = Some(failure.error);
            }
        }
        Err(error) => panic!("{error}"),
    }
    outcomes
}

async fn codes(client: &Client, updates: Vec<Update>) -> Vec<Code> {
    let code = |outcome: Option<UpdateError>| outcome.map_or(Code::Ok, |error| error.code);
    outcomes(client, updates).await.into_iter().map(code).collect()
}

/// The message of the one update that has to be refused with INVALID_ARGUMENT.
async fn refused(client: &Client, entry: TableEntry) -> String {
    let error = outcomes(client, vec![insert(entry)]).await.remove(0).expect("refused");
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    error.message
}

#[tokio::test]
async fn r1_insert_twice_delete_twice_modify_missing() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let entry = || forward(&pipeline, 1, 3);
    assert_eq!(codes(&client, vec![insert(entry()), insert(entry())]).await, [Code::Ok, Code::AlreadyExists]);
    assert_eq!(codes(&client, vec![delete(entry()), delete(entry())]).await, [Code::Ok, Code::NotFound]);
    assert_eq!(codes(&client, vec![modify(entry())]).await, [Code::NotFound]);

    // A controller that starts again writes what is there already, under another election id.
    client.upsert(vec![entry().into()]).await.expect("first life");
    drop((client, _events));
    let (client, _events) = server.target().connect(2).await.expect("second life");
    assert!(client.is_primary());
    client.ensure_pipeline(&pipeline).await.expect("kept");
    client.upsert(vec![entry().into()]).await.expect("second life");
    assert_eq!(client.read_table(entry().table_id).await.expect("read"), [entry()]);
}

/// Replaces the value of the first match field.
fn with_match(mut entry: TableEntry, value: &[u8]) -> TableEntry {
    let Some(FieldMatchType::Exact(exact)) = &mut entry.r#match[0].field_match_type else {
        panic!("an exact match")
    };
    exact.value = value.to_vec();
    entry
}

/// Replaces the value of the first parameter.
fn with_param(mut entry: TableEntry, value: &[u8]) -> TableEntry {
    let Some(table_action::Type::Action(action)) =
        entry.action.as_mut().and_then(|action| action.r#type.as_mut())
    else {
        panic!("an action")
    };
    action.params[0].value = value.to_vec();
    entry
}

#[tokio::test]
async fn r2_byte_strings_are_canonical_padded_too_large_empty() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let canonical = with_param(with_match(forward(&pipeline, 1, 3), &[7]), &[3]);
    let padded = with_param(with_match(forward(&pipeline, 1, 3), &[0, 0, 0, 0, 0, 0, 0, 7]), &[0, 0, 3]);
    assert_eq!(codes(&client, vec![insert(padded.clone())]).await, [Code::Ok]);
    assert_eq!(
        codes(&client, vec![insert(canonical.clone())]).await,
        [Code::AlreadyExists],
        "it is the same entry"
    );
    let read = client.read_table(canonical.table_id).await.expect("read");
    assert_eq!(read, *std::slice::from_ref(&canonical), "reads return the shortest form");
    assert_eq!(client.read_entries(padded).await.expect("read"), *std::slice::from_ref(&canonical));

    assert_eq!(
        refused(&client, with_match(canonical.clone(), &[1, 0, 0, 0, 0, 0, 0])).await,
        "table ObjectsIngress.exact_match, field dst: value of 49 bits does not fit 48 bits"
    );
    assert_eq!(
        refused(&client, with_match(canonical.clone(), &[])).await,
        "table ObjectsIngress.exact_match, field dst: empty byte string, expected 1 to 6 bytes"
    );
    let other = with_match(canonical, &[8]);
    assert_eq!(
        refused(&client, with_param(other.clone(), &[2, 0])).await,
        "action ObjectsIngress.forward, parameter port: value of 10 bits does not fit 9 bits"
    );
    assert_eq!(
        refused(&client, with_param(other, &[])).await,
        "action ObjectsIngress.forward, parameter port: empty byte string, expected 1 to 2 bytes"
    );
}

#[tokio::test]
async fn r3_priorities_and_masks_are_checked() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let good = EntryBuilder::new(&pipeline.info)
        .table("ternary_match")
        .exact("port", 1u8)
        .ternary("kind", 0x0800u16, 0xFF00u16)
        .priority(5)
        .action("NoAction", [])
        .build()
        .expect("entry");
    assert_eq!(
        refused(&client, TableEntry { priority: 0, ..good.clone() }).await,
        "table ObjectsIngress.ternary_match: priority 0 given, expected above 0: a field is ternary, range or optional"
    );
    let mut outside = good.clone();
    let Some(FieldMatchType::Ternary(ternary)) = &mut outside.r#match[1].field_match_type else {
        panic!("ternary")
    };
    ternary.value = vec![0x08, 0x01];
    assert_eq!(
        refused(&client, outside.clone()).await,
        "table ObjectsIngress.ternary_match, field kind: the value has bits set outside of its mask"
    );
    let Some(FieldMatchType::Ternary(ternary)) = &mut outside.r#match[1].field_match_type else {
        panic!("ternary")
    };
    (ternary.value, ternary.mask) = (vec![0], vec![0, 0]);
    assert_eq!(
        refused(&client, outside).await,
        "table ObjectsIngress.ternary_match, field kind: matches everything: leave the field out"
    );
    assert_eq!(
        refused(&client, TableEntry { priority: 1, ..forward(&pipeline, 1, 1) }).await,
        "table ObjectsIngress.exact_match: priority 1 given, expected 0: every field is exact or lpm"
    );
    // The same match at another priority is another entry.
    let higher = TableEntry { priority: 6, ..good.clone() };
    assert_eq!(
        codes(&client, vec![insert(good.clone()), insert(higher), insert(good)]).await,
        [Code::Ok, Code::Ok, Code::AlreadyExists]
    );
}

#[tokio::test]
async fn r3_other_malformed_matches_name_the_field() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let entry = forward(&pipeline, 1, 1);
    let mut missing = entry.clone();
    missing.r#match.clear();
    assert_eq!(
        refused(&client, missing).await,
        "table ObjectsIngress.exact_match: exact match field dst is missing"
    );
    let mut unknown = entry.clone();
    unknown.r#match[0].field_id = 9;
    assert_eq!(
        refused(&client, unknown).await,
        "table ObjectsIngress.exact_match has no match field with id 9; valid are 1 (dst)"
    );
    let mut twice = entry.clone();
    twice.r#match.push(twice.r#match[0].clone());
    assert_eq!(refused(&client, twice).await, "table ObjectsIngress.exact_match, field dst: given twice");
    let mut empty = entry.clone();
    empty.r#match[0] = FieldMatch { field_id: 1, field_match_type: None };
    assert_eq!(
        refused(&client, empty).await,
        "table ObjectsIngress.exact_match, field dst: is matched as exact, no match given"
    );
    assert_eq!(
        refused(&client, TableEntry { action: None, ..entry.clone() }).await,
        "table ObjectsIngress.exact_match: the entry has no action"
    );
    assert_eq!(
        refused(&client, TableEntry { is_const: true, ..entry }).await,
        "table ObjectsIngress.exact_match: is_const is set by the switch alone"
    );
}

#[tokio::test]
async fn r4_packet_out_metadata() {
    let server = Server::start().await;
    let (client, mut events, pipeline) = server.target().ready().await;
    let metadata = |fields: &[(u32, u8)]| -> Vec<PacketMetadata> {
        fields
            .iter()
            .map(|&(metadata_id, value)| PacketMetadata { metadata_id, value: vec![value] })
            .collect()
    };
    // Straight to the CPU port, in two orders: the same packet comes back.
    let frame = vec![2; 64];
    let mut packets = Vec::new();
    for fields in [[(1, 255), (2, 0), (3, 0)], [(3, 0), (1, 255), (2, 0)]] {
        let out = PacketOut { payload: frame.clone(), metadata: metadata(&fields) };
        client.packet_out(out).await.expect("send");
        packets.push(
            next_event(&mut events, "packet-in", |event| match event {
                Event::PacketIn(packet) => Some(packet),
                _ => None,
            })
            .await,
        );
    }
    assert_eq!(packets[0], packets[1]);
    assert_eq!(packets[0].payload, frame);

    for (fields, problem) in [
        (&[(1, 255), (2, 0)][..], "metadata field pad is given 0 times, expected once"),
        (
            &[(1, 255), (2, 0), (3, 0), (9, 0)],
            "no metadata field with id 9; valid are 1 (egress_port), 2 (replicate), 3 (pad)",
        ),
        (&[(1, 255), (2, 2), (3, 0)], "metadata field replicate: value of 2 bits does not fit 1 bits"),
    ] {
        let out = PacketOut { payload: frame.clone(), metadata: metadata(fields) };
        client.packet_out(out.clone()).await.expect("send");
        let error = next_event(&mut events, "stream error", |event| match event {
            Event::Error(error) => Some(error),
            _ => None,
        })
        .await;
        assert_eq!((error.canonical_code, error.message.as_str()), (Code::InvalidArgument as i32, problem));
        let Some(Details::PacketOut(details)) = error.details else { panic!("packet-out details") };
        assert_eq!(details.packet_out, Some(out), "the error brings the packet that caused it");
    }
    let still = client.read_table(0).await.expect("the switch is up");
    assert_eq!(still.len(), 2, "the program's own entries: {still:?}");
    drop(pipeline);
}

#[tokio::test]
async fn r5_a_bad_update_leaves_the_good_ones() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let bad = TableEntry { table_id: 0x0200_0001, ..forward(&pipeline, 2, 2) };
    let batch = vec![insert(forward(&pipeline, 1, 1)), insert(bad), insert(forward(&pipeline, 3, 3))];
    let outcomes = outcomes(&client, batch).await;
    assert!(outcomes[0].is_none() && outcomes[2].is_none());
    let error = outcomes[1].as_ref().expect("the bad one");
    assert_eq!(error.code, Code::NotFound);
    assert!(
        error.message.starts_with("no table with id 33554433 in this program; valid are ObjectsIngress.")
    );
    let mut read = client.read_table(forward(&pipeline, 1, 1).table_id).await.expect("read");
    read.sort_by_key(|entry| entry.r#match[0].clone().field_match_type.map(|field| format!("{field:?}")));
    assert_eq!(read, [forward(&pipeline, 1, 1), forward(&pipeline, 3, 3)]);
}

#[tokio::test]
async fn r6_errors_come_in_the_order_of_the_specification() {
    let server = Server::start().await;
    let mut wrong = server.target();
    wrong.device_id = 10;
    let refused = wrong.connect(1).await.expect_err("no such device");
    let ConnectError::Refused { status, .. } = refused else { panic!("{refused}") };
    assert_eq!((status.code(), status.message()), (Code::NotFound, "device 10 given, this is device 3"));

    let mut raw = server.raw().await;
    use inca_p4runtime::p4v1::{
        GetForwardingPipelineConfigRequest, ReadRequest, SetForwardingPipelineConfigRequest, WriteRequest,
    };
    let write = |device_id, low| WriteRequest {
        device_id,
        election_id: Some(u128::from(low as u64).into()),
        ..WriteRequest::default()
    };
    // The device comes first, then the office, then the pipeline.
    assert_eq!(raw.write(write(10, 1)).await.expect_err("device").code(), Code::NotFound);
    assert_eq!(raw.write(write(3, 1)).await.expect_err("nobody is primary").code(), Code::PermissionDenied);
    let (client, _events) = server.target().connect(7).await.expect("connect");
    assert_eq!(raw.write(write(3, 1)).await.expect_err("not the primary's").code(), Code::PermissionDenied);
    assert_eq!(raw.write(write(3, 7)).await.expect_err("no pipeline").code(), Code::FailedPrecondition);
    let unknown_role = WriteRequest { role: "painter".into(), ..write(3, 7) };
    assert_eq!(raw.write(unknown_role).await.expect_err("no such role").code(), Code::NotFound);

    let read = |device_id| ReadRequest { device_id, ..ReadRequest::default() };
    assert_eq!(raw.read(read(10)).await.expect_err("device").code(), Code::NotFound);
    assert_eq!(raw.read(read(3)).await.expect_err("no pipeline").code(), Code::FailedPrecondition);

    let get = |device_id| GetForwardingPipelineConfigRequest { device_id, response_type: 0 };
    assert_eq!(raw.get_forwarding_pipeline_config(get(10)).await.expect_err("device").code(), Code::NotFound);
    let none =
        raw.get_forwarding_pipeline_config(get(3)).await.expect("no pipeline is no error").into_inner();
    assert_eq!(none.config, None);

    let set = |device_id, low: u64| SetForwardingPipelineConfigRequest {
        device_id,
        election_id: Some(u128::from(low).into()),
        ..SetForwardingPipelineConfigRequest::default()
    };
    assert_eq!(
        raw.set_forwarding_pipeline_config(set(10, 7)).await.expect_err("device").code(),
        Code::NotFound
    );
    assert_eq!(
        raw.set_forwarding_pipeline_config(set(3, 1)).await.expect_err("not primary").code(),
        Code::PermissionDenied
    );
    assert_eq!(
        raw.set_forwarding_pipeline_config(set(3, 7)).await.expect_err("no action").code(),
        Code::InvalidArgument
    );
    assert_eq!(client.api_version().await.expect("capabilities"), "1.5.0");
}
