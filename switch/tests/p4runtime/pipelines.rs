//! Setting pipelines, and batches that fail as a whole.

use inca_p4runtime::{
    EntryBuilder, Pipeline,
    client::{CallError, delete, insert, modify, multicast_group},
    p4v1::{
        CounterData, CounterEntry, Index, TableEntry, entity::Entity as Kind,
        get_forwarding_pipeline_config_request::ResponseType, set_forwarding_pipeline_config_request::Action,
        write_request::Atomicity,
    },
    status::write_outcomes,
};
use tonic::Code;

use super::server::Server;

fn route(pipeline: &Pipeline, number: u32) -> TableEntry {
    EntryBuilder::new(&pipeline.info)
        .table("lpm_match")
        .lpm("key", number << 8, 24)
        .action("set_key", [("value", number.into())])
        .build()
        .expect("entry")
}

#[tokio::test]
async fn verify_changes_nothing() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    client.write(vec![insert(route(&pipeline, 1))]).await.expect("write");
    let other = Pipeline { cookie: 77, ..pipeline.clone() };
    client.push_pipeline(&other, Action::Verify).await.expect("verify");
    assert_eq!(client.pipeline_cookie().await.expect("cookie"), Some(pipeline.cookie));
    assert_eq!(client.read_table(route(&pipeline, 1).table_id).await.expect("read").len(), 1);

    let broken = Pipeline { device_config: b"{}".to_vec(), ..pipeline.clone() };
    for action in [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit, Action::ReconcileAndCommit]
    {
        let error = client.push_pipeline(&broken, action).await.expect_err("not a program");
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        let text = error.to_string();
        assert!(text.starts_with("switch s1: SetForwardingPipelineConfig "), "{text}");
        assert!(text.contains("p4_device_config: "), "{text}");
    }
    assert_eq!(client.read_table(route(&pipeline, 1).table_id).await.expect("read").len(), 1);
}

#[tokio::test]
async fn saved_pipelines_take_writes_that_commit_replays() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let table = route(&pipeline, 1).table_id;
    client.write(vec![insert(route(&pipeline, 1))]).await.expect("write");
    let next = Pipeline { cookie: 78, ..pipeline.clone() };
    let error = client.push_pipeline(&next, Action::Commit).await.expect_err("nothing saved");
    assert_eq!(error.code(), Code::NotFound);

    client.push_pipeline(&next, Action::VerifyAndSave).await.expect("save");
    assert_eq!(client.pipeline_cookie().await.expect("cookie"), Some(78));
    assert_eq!(client.read_table(table).await.expect("read"), [], "the saved pipeline is empty");
    client.write(vec![insert(route(&pipeline, 2)), insert(route(&pipeline, 3))]).await.expect("write");
    client.write(vec![insert(route(&pipeline, 3))]).await.expect_err("it is there already");
    client.write(vec![delete(route(&pipeline, 2))]).await.expect("write");

    client.push_pipeline(&next, Action::Commit).await.expect("commit");
    assert_eq!(client.pipeline_cookie().await.expect("cookie"), Some(78));
    assert_eq!(client.read_table(table).await.expect("read"), [route(&pipeline, 3)]);
    let again = client.push_pipeline(&next, Action::Commit).await.expect_err("committed already");
    assert_eq!(again.code(), Code::NotFound);
}

#[tokio::test]
async fn reconcile_keeps_the_state() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let seen = pipeline.info.counter("seen").expect("counter").id;
    let data = CounterData { byte_count: 5, packet_count: 9 };
    let counted = CounterEntry { counter_id: seen, index: Some(Index { index: 2 }), data: Some(data) };
    let default = EntryBuilder::new(&pipeline.info)
        .table("lpm_match")
        .default_entry()
        .action("set_key", [("value", 9u8.into())])
        .build()
        .expect("default entry");
    let updates = vec![
        insert(route(&pipeline, 1)),
        insert(multicast_group(5, [(1, 1)])),
        modify(Kind::CounterEntry(counted)),
        modify(default.clone()),
    ];
    client.write(updates).await.expect("write");

    let next = Pipeline { cookie: 79, ..pipeline.clone() };
    client.push_pipeline(&next, Action::ReconcileAndCommit).await.expect("reconcile");
    assert_eq!(client.pipeline_cookie().await.expect("cookie"), Some(79));
    assert_eq!(client.read_table(route(&pipeline, 1).table_id).await.expect("read"), [route(&pipeline, 1)]);
    assert_eq!(client.read_multicast_groups(0).await.expect("read").len(), 1);
    assert_eq!(client.read_counter(seen, Some(2)).await.expect("read")[0].data, Some(data));
    assert_eq!(client.read_default(default.table_id).await.expect("read"), Some(default));
}

#[tokio::test]
async fn parts_of_a_pipeline_are_read() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    for (part, info, device) in [
        (ResponseType::All, true, true),
        (ResponseType::CookieOnly, false, false),
        (ResponseType::P4infoAndCookie, true, false),
        (ResponseType::DeviceConfigAndCookie, false, true),
    ] {
        let config = client.pipeline_config(part).await.expect("read").expect("a pipeline");
        assert_eq!(config.cookie.map(|cookie| cookie.cookie), Some(pipeline.cookie));
        assert_eq!(config.p4info, info.then(|| pipeline.info.message().clone()));
        assert_eq!(config.p4_device_config == pipeline.device_config, device);
        assert_eq!(config.p4_device_config.is_empty(), !device);
    }
}

#[tokio::test]
async fn atomic_batches_are_all_or_nothing() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let seen = pipeline.info.counter("seen").expect("counter").id;
    let counter = |packets| {
        let data = Some(CounterData { byte_count: 0, packet_count: packets });
        modify(Kind::CounterEntry(CounterEntry { counter_id: seen, index: Some(Index { index: 1 }), data }))
    };
    let changed = |number: u32, value: u32| {
        let entry = EntryBuilder::new(&pipeline.info).table("lpm_match").lpm("key", number << 8, 24);
        entry.action("set_key", [("value", value.into())]).build().expect("entry")
    };
    client
        .write(vec![
            insert(route(&pipeline, 1)),
            insert(route(&pipeline, 2)),
            insert(multicast_group(5, [(1, 1), (2, 2)])),
            counter(10),
        ])
        .await
        .expect("before");
    let state = |client: inca_p4runtime::Client| async move {
        let table = client.read_table(0).await.expect("tables");
        let groups = client.read_multicast_groups(0).await.expect("groups");
        (table, groups, client.read_counter(seen, Some(1)).await.expect("counter"))
    };
    let before = state(client.clone()).await;
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let batch = vec![
            insert(route(&pipeline, 3)),
            modify(changed(1, 99)),
            delete(route(&pipeline, 2)),
            modify(multicast_group(5, [(7, 7)])),
            counter(20),
            insert(route(&pipeline, 3)),
            insert(route(&pipeline, 4)),
        ];
        let error = client.write_with(batch, atomicity).await.expect_err("the sixth update fails");
        let CallError::Status { status, .. } = &error else { panic!("{error}") };
        let codes: Vec<_> = write_outcomes(status)
            .expect("outcomes")
            .into_iter()
            .map(|outcome| outcome.err().map_or(Code::Ok, |error| error.code))
            .collect();
        let mut expected = [Code::Aborted; 7];
        expected[5] = Code::AlreadyExists;
        assert_eq!(codes, expected, "{atomicity:?}");
        let after = state(client.clone()).await;
        assert_eq!(sorted(after), sorted(before.clone()), "{atomicity:?}");
        let good = vec![insert(route(&pipeline, 8)), delete(route(&pipeline, 8))];
        client.write_with(good, atomicity).await.expect("a good batch is applied");
    }
}

type State = (Vec<TableEntry>, Vec<inca_p4runtime::p4v1::MulticastGroupEntry>, Vec<CounterEntry>);

/// Entries that were rolled back may come at another place.
fn sorted(mut state: State) -> State {
    state.0.sort_by_key(|entry| format!("{entry:?}"));
    state
}
