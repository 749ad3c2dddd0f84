//! Entities that the contract does not use: default entries, action profiles, meters, value sets, clone sessions, wildcards.

use inca_p4runtime::{
    Client, EntryBuilder, Pipeline, action_call,
    client::{WriteError, delete, insert, modify},
    p4v1::{
        ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterData, CounterEntry,
        DirectCounterEntry, DirectMeterEntry, Entity, FieldMatch, Index, MeterConfig, MeterEntry,
        MulticastGroupEntry, PacketReplicationEngineEntry, Replica, TableEntry, Update, ValueSetEntry,
        ValueSetMember, action_profile_group::Member, entity::Entity as Kind, field_match::Exact,
        field_match::FieldMatchType, packet_replication_engine_entry as pre, replica::PortKind,
    },
};
use tonic::Code;

use super::server::Server;

async fn code(client: &Client, update: Update) -> Code {
    match client.write(vec![update]).await {
        Ok(()) => Code::Ok,
        Err(WriteError::Updates { failures, .. }) => failures[0].error.code,
        Err(WriteError::Call { source, .. }) => source.code(),
    }
}

async fn read(client: &Client, pattern: Kind) -> Vec<Entity> {
    client.read(vec![pattern.into()]).await.expect("read")
}

fn default_of(pipeline: &Pipeline, table: &str, value: u32) -> TableEntry {
    EntryBuilder::new(&pipeline.info)
        .table(table)
        .default_entry()
        .action("set_key", [("value", value.into())])
        .build()
        .expect("entry")
}

#[tokio::test]
async fn default_entries_are_modified_and_reset() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let entry = default_of(&pipeline, "lpm_match", 5);
    let original = client.read_default(entry.table_id).await.expect("read").expect("a default entry");
    assert!(original.is_default_action && original.action.is_some());
    for update in [insert(entry.clone()), delete(entry.clone())] {
        assert_eq!(code(&client, update).await, Code::InvalidArgument);
    }
    assert_eq!(code(&client, modify(entry.clone())).await, Code::Ok);
    assert_eq!(client.read_default(entry.table_id).await.expect("read"), Some(entry.clone()));
    assert_eq!(client.read_table(entry.table_id).await.expect("read"), [], "it is no entry like the others");
    let reset = TableEntry { action: None, ..entry.clone() };
    assert_eq!(code(&client, modify(reset)).await, Code::Ok);
    assert_eq!(client.read_default(entry.table_id).await.expect("read"), Some(original));

    assert_eq!(
        code(&client, modify(TableEntry { priority: 1, ..entry.clone() })).await,
        Code::InvalidArgument
    );
    let constant = TableEntry { table_id: pipeline.info.table("fixed").expect("table").id, ..entry };
    assert_eq!(code(&client, modify(constant)).await, Code::PermissionDenied);
    let all =
        read(&client, Kind::TableEntry(TableEntry { is_default_action: true, ..Default::default() })).await;
    assert_eq!(all.len(), pipeline.info.tables().len());
}

#[tokio::test]
async fn const_entries_are_read_and_not_written() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let fixed = pipeline.info.table("fixed").expect("table").id;
    let entries = client.read_table(fixed).await.expect("read");
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.is_const));
    let own = TableEntry { is_const: false, ..entries[0].clone() };
    for update in [insert(own.clone()), modify(own.clone()), delete(own.clone())] {
        assert_eq!(code(&client, update).await, Code::PermissionDenied);
    }
    assert_eq!(client.read_table(fixed).await.expect("read"), entries);
}

#[tokio::test]
async fn a_full_table_says_so() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let entry = |last: u8| {
        let entry = EntryBuilder::new(&pipeline.info).table("exact_match").exact("dst", last);
        insert(entry.action("drop", []).build().expect("entry"))
    };
    client.write((0..16).map(entry).collect()).await.expect("16 entries fit");
    assert_eq!(code(&client, entry(16)).await, Code::ResourceExhausted);
}

#[tokio::test]
async fn action_profiles_have_members_groups_and_one_shots() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let paths = pipeline.info.profile("paths").expect("profile").id;
    let member = |member_id, port: u16| {
        let action = action_call(&pipeline.info, "send_by", [("port", port.into())]).expect("action");
        ActionProfileMember { action_profile_id: paths, member_id, action: Some(action) }
    };
    let group = |members: &[(u32, i32)]| ActionProfileGroup {
        action_profile_id: paths,
        group_id: 1,
        members: members
            .iter()
            .map(|&(member_id, weight)| Member { member_id, weight, watch_kind: None })
            .collect(),
        max_size: 4,
    };
    let by_group =
        EntryBuilder::new(&pipeline.info).table("by_path").exact("src", 1u8).group(1).build().expect("entry");
    assert_eq!(code(&client, insert(by_group.clone())).await, Code::NotFound, "no such group yet");
    client
        .write(vec![
            insert(Kind::ActionProfileMember(member(1, 1))),
            insert(Kind::ActionProfileMember(member(2, 2))),
            insert(Kind::ActionProfileGroup(group(&[(1, 1), (2, 3)]))),
            insert(by_group.clone()),
        ])
        .await
        .expect("members, group, entry");
    assert_eq!(client.read_members(0).await.expect("read"), [member(1, 1), member(2, 2)]);
    assert_eq!(client.read_groups(paths).await.expect("read"), [group(&[(1, 1), (2, 3)])]);
    assert_eq!(client.read_table(by_group.table_id).await.expect("read"), *std::slice::from_ref(&by_group));

    let twice = insert(Kind::ActionProfileMember(member(1, 1)));
    assert_eq!(code(&client, twice).await, Code::AlreadyExists);
    let used = delete(Kind::ActionProfileMember(member(1, 1)));
    assert_eq!(code(&client, used).await, Code::FailedPrecondition);
    assert_eq!(code(&client, delete(Kind::ActionProfileGroup(group(&[])))).await, Code::FailedPrecondition);
    let absent = modify(Kind::ActionProfileGroup(group(&[(9, 1)])));
    assert_eq!(code(&client, absent).await, Code::NotFound);
    let weightless = modify(Kind::ActionProfileGroup(group(&[(1, 0)])));
    assert_eq!(code(&client, weightless).await, Code::InvalidArgument);
    client.write(vec![modify(Kind::ActionProfileMember(member(2, 7)))]).await.expect("modify");
    assert_eq!(client.read_members(paths).await.expect("read")[1], member(2, 7));

    let one_shot = EntryBuilder::new(&pipeline.info)
        .table("by_path")
        .exact("src", 2u8)
        .one_of("send_by", [("port", 1u8.into())], 1)
        .one_of("send_by", [("port", 2u8.into())], 2)
        .build()
        .expect("entry");
    assert_eq!(code(&client, insert(one_shot.clone())).await, Code::InvalidArgument, "the modes don't mix");
    client.write(vec![delete(by_group)]).await.expect("delete");
    client.write(vec![delete(Kind::ActionProfileGroup(group(&[])))]).await.expect("delete");
    for id in [1, 2] {
        client.write(vec![delete(Kind::ActionProfileMember(member(id, 0)))]).await.expect("delete");
    }
    client.write(vec![insert(one_shot.clone())]).await.expect("one-shot");
    assert_eq!(client.read_table(one_shot.table_id).await.expect("read"), *std::slice::from_ref(&one_shot));
    assert_eq!(client.read_members(paths).await.expect("read"), [], "a one-shot set shows no members");
    let mixed = insert(Kind::ActionProfileMember(member(1, 1)));
    assert_eq!(code(&client, mixed).await, Code::InvalidArgument, "the modes don't mix");
}

#[tokio::test]
async fn counters_are_written_one_and_all() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let seen = pipeline.info.counter("seen").expect("counter").id;
    let cell = |index: Option<i64>, packets| {
        let data = Some(CounterData { byte_count: packets * 100, packet_count: packets });
        Kind::CounterEntry(CounterEntry { counter_id: seen, index: index.map(|index| Index { index }), data })
    };
    client.write(vec![modify(cell(None, 4)), modify(cell(Some(1), 5))]).await.expect("write");
    let packets: Vec<_> = client
        .read_counter(seen, None)
        .await
        .expect("read")
        .iter()
        .filter_map(|c| c.data)
        .map(|d| d.packet_count)
        .collect();
    assert_eq!(packets, [4, 5, 4, 4, 4, 4, 4, 4]);
    assert_eq!(code(&client, modify(cell(Some(-1), 1))).await, Code::InvalidArgument);
    assert_eq!(code(&client, modify(cell(Some(8), 1))).await, Code::OutOfRange);
    assert_eq!(code(&client, insert(cell(Some(1), 1))).await, Code::InvalidArgument);
    assert_eq!(code(&client, modify(cell(Some(1), -1))).await, Code::InvalidArgument);
}

#[tokio::test]
async fn direct_counters_and_meters_belong_to_entries() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let counted = EntryBuilder::new(&pipeline.info).table("exact_match").exact("dst", 1u8).action("drop", []);
    let counted = counted.build().expect("entry");
    let data = CounterData { byte_count: 7, packet_count: 3 };
    client
        .write(vec![insert(TableEntry { counter_data: Some(data), ..counted.clone() })])
        .await
        .expect("insert");
    let key = TableEntry { action: None, ..counted.clone() };
    let direct = |data| DirectCounterEntry { table_entry: Some(key.clone()), data };
    let found = read(&client, Kind::DirectCounterEntry(DirectCounterEntry::default())).await;
    assert_eq!(found, [Entity::from(Kind::DirectCounterEntry(direct(Some(data))))]);
    let more = CounterData { byte_count: 70, packet_count: 30 };
    client.write(vec![modify(Kind::DirectCounterEntry(direct(Some(more))))]).await.expect("write");
    assert_eq!(client.read_table_counters(counted.table_id).await.expect("read")[0].counter_data, Some(more));
    assert_eq!(
        client.read_table(counted.table_id).await.expect("read")[0].counter_data,
        None,
        "nobody asked"
    );
    assert_eq!(
        code(&client, insert(Kind::DirectCounterEntry(direct(Some(more))))).await,
        Code::InvalidArgument
    );

    let policed = EntryBuilder::new(&pipeline.info)
        .table("range_match")
        .range("kind", 1u8, 9u8)
        .optional("port", 3u8)
        .priority(2)
        .action("police", [])
        .build()
        .expect("entry");
    let config = MeterConfig { cir: 1000, cburst: 100, pir: 2000, pburst: 200, eburst: 0 };
    client
        .write(vec![insert(TableEntry { meter_config: Some(config), ..policed.clone() })])
        .await
        .expect("insert");
    assert_eq!(client.read_table(policed.table_id).await.expect("read"), *std::slice::from_ref(&policed));
    let key = TableEntry { action: None, ..policed.clone() };
    let direct = |config| DirectMeterEntry { table_entry: Some(key.clone()), config, counter_data: None };
    let meters = Kind::DirectMeterEntry(DirectMeterEntry::default());
    assert_eq!(read(&client, meters.clone()).await, [Kind::DirectMeterEntry(direct(Some(config))).into()]);
    client.write(vec![modify(policed.clone())]).await.expect("modify without meter");
    assert_eq!(
        read(&client, meters).await,
        [Kind::DirectMeterEntry(direct(None)).into()],
        "back to its default"
    );
    let upside_down = MeterConfig { pir: 1, ..config };
    assert_eq!(
        code(&client, modify(Kind::DirectMeterEntry(direct(Some(upside_down))))).await,
        Code::InvalidArgument
    );
    let wrong = DirectCounterEntry { table_entry: Some(key), data: Some(data) };
    assert_eq!(code(&client, modify(Kind::DirectCounterEntry(wrong))).await, Code::InvalidArgument);
}

#[tokio::test]
async fn meters_are_set_and_reset() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let rate = pipeline.info.meter("rate").expect("meter").id;
    let config = MeterConfig { cir: 10, cburst: 5, pir: 20, pburst: 5, eburst: 0 };
    let cell = |index, config| {
        Kind::MeterEntry(MeterEntry {
            meter_id: rate,
            index: Some(Index { index }),
            config,
            counter_data: None,
        })
    };
    client.write(vec![modify(cell(2, Some(config)))]).await.expect("write");
    assert_eq!(read(&client, cell(2, None)).await, [cell(2, Some(config)).into()]);
    let all = read(&client, Kind::MeterEntry(MeterEntry { meter_id: rate, ..Default::default() })).await;
    assert_eq!(all.len(), 8);
    client.write(vec![modify(cell(2, None))]).await.expect("reset");
    assert_eq!(read(&client, cell(2, None)).await, [cell(2, None).into()]);
    assert_eq!(code(&client, modify(cell(8, None))).await, Code::OutOfRange);
}

#[tokio::test]
async fn value_sets_are_replaced_whole() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let special = pipeline.info.value_set("special").expect("value set").id;
    let set = |values: &[&[u8]]| {
        let member = |value: &&[u8]| {
            let exact = FieldMatchType::Exact(Exact { value: value.to_vec() });
            ValueSetMember { r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact) }] }
        };
        Kind::ValueSetEntry(ValueSetEntry {
            value_set_id: special,
            members: values.iter().map(member).collect(),
        })
    };
    // A set has no order; ours are read in ascending order.
    let two: &[&[u8]] = &[&[7], &[0x12, 0x34]];
    client.write(vec![modify(set(two))]).await.expect("write");
    assert_eq!(read(&client, set(&[])).await, [set(two).into()]);
    assert_eq!(code(&client, modify(set(&[&[1], &[2], &[3], &[4], &[5]]))).await, Code::ResourceExhausted);
    assert_eq!(code(&client, modify(set(&[&[1], &[0, 1]]))).await, Code::AlreadyExists);
    assert_eq!(code(&client, modify(set(&[&[1, 0, 0]]))).await, Code::InvalidArgument);
    assert_eq!(code(&client, insert(set(&[&[1]]))).await, Code::InvalidArgument);
    assert_eq!(read(&client, set(&[])).await, [set(two).into()]);
}

#[tokio::test]
async fn replication_keeps_the_form_of_ports() {
    let server = Server::start().await;
    let (client, _events, _pipeline) = server.target().ready().await;
    let new = |port: &[u8], instance| Replica {
        port_kind: Some(PortKind::Port(port.to_vec())),
        instance,
        backup_replicas: vec![],
    };
    #[allow(deprecated)]
    let old = |port, instance| Replica {
        port_kind: Some(PortKind::EgressPort(port)),
        instance,
        backup_replicas: vec![],
    };
    let group = |id, replicas| MulticastGroupEntry { multicast_group_id: id, replicas, metadata: vec![1, 2] };
    let mixed = group(4, vec![new(&[3], 1), old(3, 2)]);
    client.write(vec![insert(mixed.clone())]).await.expect("insert");
    assert_eq!(client.read_multicast_groups(4).await.expect("read"), [mixed]);
    assert_eq!(code(&client, insert(group(0, vec![]))).await, Code::InvalidArgument);
    assert_eq!(code(&client, insert(group(5, vec![new(&[3], 1), old(3, 1)]))).await, Code::InvalidArgument);
    assert_eq!(code(&client, insert(group(5, vec![new(&[], 1)]))).await, Code::InvalidArgument);
    assert_eq!(code(&client, insert(group(5, vec![old(1, 1 << 16)]))).await, Code::InvalidArgument);
    assert_eq!(code(&client, modify(group(6, vec![]))).await, Code::NotFound);
    let backed = Replica { backup_replicas: vec![Default::default()], ..old(1, 1) };
    assert_eq!(code(&client, insert(group(5, vec![backed]))).await, Code::Unimplemented);

    let session = CloneSessionEntry {
        session_id: 9,
        replicas: vec![new(&[3], 1)],
        class_of_service: 2,
        packet_length_bytes: 64,
    };
    let entity = |session| {
        let r#type = Some(pre::Type::CloneSessionEntry(session));
        Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type })
    };
    client.write(vec![insert(entity(session.clone()))]).await.expect("insert");
    assert_eq!(read(&client, entity(CloneSessionEntry::default())).await, [entity(session.clone()).into()]);
    assert_eq!(code(&client, insert(entity(session.clone()))).await, Code::AlreadyExists);
    assert_eq!(code(&client, delete(entity(session.clone()))).await, Code::Ok);
    assert_eq!(code(&client, delete(entity(session))).await, Code::NotFound);
}

#[tokio::test]
async fn wildcards_find_everything_once() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let ternary = |kind: u16, priority| {
        let entry = EntryBuilder::new(&pipeline.info).table("ternary_match").exact("port", 1u8);
        entry
            .ternary("kind", kind, 0xFFFFu16)
            .priority(priority)
            .action("NoAction", [])
            .build()
            .expect("entry")
    };
    let entries = [ternary(1, 5), ternary(1, 6), ternary(2, 5)];
    client.write(entries.iter().cloned().map(insert).collect()).await.expect("write");
    assert_eq!(client.read_table(0).await.expect("read").len(), 3 + 2, "two are the program's own");
    let pattern = |entry: &TableEntry| TableEntry { action: None, ..entry.clone() };
    assert_eq!(client.read_entries(pattern(&entries[0])).await.expect("read"), [entries[0].clone()]);
    let any_priority = TableEntry { priority: 0, ..pattern(&entries[0]) };
    assert_eq!(client.read_entries(any_priority).await.expect("read").len(), 2);
    let at_five = TableEntry { table_id: entries[0].table_id, priority: 5, ..Default::default() };
    assert_eq!(client.read_entries(at_five).await.expect("read").len(), 2);
    assert_eq!(client.read_entries(pattern(&ternary(9, 9))).await.expect("read"), []);

    let error = client.read(vec![Entity::default()]).await.expect_err("an empty entity is no wildcard");
    assert_eq!(error.code(), Code::InvalidArgument);
    let error = client.read_table(0x0200_0001).await.expect_err("no such table");
    assert_eq!(error.code(), Code::NotFound);
}

#[tokio::test]
async fn metadata_and_idle_timeouts_come_back() {
    let server = Server::start().await;
    let (client, _events, pipeline) = server.target().ready().await;
    let entry = EntryBuilder::new(&pipeline.info)
        .table("exact_match")
        .exact("dst", 1u8)
        .action("drop", [])
        .metadata([9, 9])
        .idle_timeout_ns(3_600_000_000_000)
        .build()
        .expect("entry");
    client.write(vec![insert(entry.clone())]).await.expect("insert");
    assert_eq!(client.read_table(entry.table_id).await.expect("read"), *std::slice::from_ref(&entry));
    // MODIFY sets the whole entry, and keeps the action where none is given.
    let plain = TableEntry { metadata: vec![], idle_timeout_ns: 0, ..entry.clone() };
    client.write(vec![modify(TableEntry { action: None, ..plain.clone() })]).await.expect("modify");
    assert_eq!(client.read_table(entry.table_id).await.expect("read"), [plain]);
    let route =
        EntryBuilder::new(&pipeline.info).table("lpm_match").lpm("key", 0u8, 8).action("NoAction", []);
    let timed = TableEntry { idle_timeout_ns: 5, ..route.build().expect("entry") };
    assert_eq!(code(&client, insert(timed)).await, Code::InvalidArgument, "that table has no idle timeout");
}
