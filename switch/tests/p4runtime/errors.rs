//! The exact texts of the errors for a list of bad requests, held to `errors.txt`. `INCA_RECORD=1` writes the file anew, to be read
//! by a human before it is committed.

use std::fmt::Write as _;
use std::path::PathBuf;

use inca_p4runtime::client::{CallError, Event, delete, insert, modify};
use inca_p4runtime::p4v1::{self, *};
use inca_p4runtime::p4v1::{
    action_profile_group::Member as GroupMember,
    entity::Entity as Kind,
    field_match::{Exact, FieldMatchType as Match, Lpm, Optional, Range, Ternary},
    packet_replication_engine_entry::Type as Pre,
    replica::PortKind,
    stream_message_request::Update as Message,
    table_action::Type as ActionType,
    write_request::Atomicity,
};
use inca_p4runtime::status::{code_name, write_outcomes};
use inca_p4runtime::{Client, P4Info, Pipeline};
use tonic::{Code, Status};

use super::server::{Server, next_event};

/// What the bad requests are made from.
struct Objects<'a>(&'a P4Info);

impl Objects<'_> {
    fn table(&self, name: &str) -> u32 {
        self.0.table(name).expect("table").id
    }

    fn call(&self, name: &str, params: &[(u32, &[u8])]) -> Action {
        let params = params.iter().map(|(id, value)| action::Param { param_id: *id, value: value.to_vec() });
        Action { action_id: self.0.action(name).expect("action").id, params: params.collect() }
    }

    /// An entry with these fields and an action.
    fn entry(&self, table: &str, fields: &[(u32, Match)], action: Option<ActionType>) -> TableEntry {
        let fields = fields
            .iter()
            .map(|(id, kind)| FieldMatch { field_id: *id, field_match_type: Some(kind.clone()) });
        TableEntry {
            table_id: self.table(table),
            r#match: fields.collect(),
            action: action.map(|action| TableAction { r#type: Some(action) }),
            ..Default::default()
        }
    }

    fn act(&self, name: &str, params: &[(u32, &[u8])]) -> Option<ActionType> {
        Some(ActionType::Action(self.call(name, params)))
    }

    fn forward(&self) -> TableEntry {
        self.entry("exact_match", &[(1, exact(&[1]))], self.act("forward", &[(1, &[1])]))
    }

    fn ternary(&self, value: &[u8], mask: &[u8], priority: i32) -> TableEntry {
        let fields =
            [(1, exact(&[1])), (2, Match::Ternary(Ternary { value: value.to_vec(), mask: mask.to_vec() }))];
        TableEntry { priority, ..self.entry("ternary_match", &fields, self.act("NoAction", &[])) }
    }

    fn lpm(&self, value: &[u8], prefix_len: i32) -> TableEntry {
        let field = Match::Lpm(Lpm { value: value.to_vec(), prefix_len });
        self.entry("lpm_match", &[(1, field)], self.act("NoAction", &[]))
    }

    fn range(&self, low: &[u8], high: &[u8]) -> TableEntry {
        let field = Match::Range(Range { low: low.to_vec(), high: high.to_vec() });
        TableEntry { priority: 1, ..self.entry("range_match", &[(1, field)], self.act("NoAction", &[])) }
    }

    fn default(&self, table: &str, action: &str, params: &[(u32, &[u8])]) -> TableEntry {
        TableEntry { is_default_action: true, ..self.entry(table, &[], self.act(action, params)) }
    }

    fn member(&self, profile: &str, member_id: u32, action: Option<Action>) -> Kind {
        let action_profile_id = self.0.profile(profile).expect("profile").id;
        Kind::ActionProfileMember(ActionProfileMember { action_profile_id, member_id, action })
    }

    fn group(&self, profile: &str, group_id: u32, members: &[(u32, i32)], max_size: i32) -> Kind {
        let action_profile_id = self.0.profile(profile).expect("profile").id;
        let members =
            members.iter().map(|&(member_id, weight)| GroupMember { member_id, weight, watch_kind: None });
        Kind::ActionProfileGroup(ActionProfileGroup {
            action_profile_id,
            group_id,
            members: members.collect(),
            max_size,
        })
    }

    fn counter(&self, index: Option<i64>, packets: i64) -> Kind {
        Kind::CounterEntry(CounterEntry {
            counter_id: self.0.counter("seen").expect("counter").id,
            index: index.map(|index| Index { index }),
            data: Some(CounterData { byte_count: 0, packet_count: packets }),
        })
    }

    fn meter(&self, index: i64, cir: i64, pir: i64) -> Kind {
        Kind::MeterEntry(MeterEntry {
            meter_id: self.0.meter("rate").expect("meter").id,
            index: Some(Index { index }),
            config: Some(MeterConfig { cir, cburst: 1, pir, pburst: 1, eburst: 0 }),
            counter_data: None,
        })
    }

    fn register(&self, index: i64, data: Option<p4_data::Data>) -> Kind {
        Kind::RegisterEntry(RegisterEntry {
            register_id: self.0.register("small").expect("register").id,
            index: Some(Index { index }),
            data: data.map(|data| P4Data { data: Some(data) }),
        })
    }

    fn value_set(&self, members: &[&[(u32, Match)]]) -> Kind {
        let member = |fields: &&[(u32, Match)]| ValueSetMember {
            r#match: fields
                .iter()
                .map(|(id, kind)| FieldMatch { field_id: *id, field_match_type: Some(kind.clone()) })
                .collect(),
        };
        Kind::ValueSetEntry(ValueSetEntry {
            value_set_id: self.0.value_sets().next().expect("value set").id,
            members: members.iter().map(member).collect(),
        })
    }

    fn digest(&self, ack_timeout_ns: i64) -> Kind {
        let config = digest_entry::Config { ack_timeout_ns, ..Default::default() };
        Kind::DigestEntry(DigestEntry {
            digest_id: self.0.digest("learn_t").expect("digest").id,
            config: Some(config),
        })
    }
}

fn exact(value: &[u8]) -> Match {
    Match::Exact(Exact { value: value.to_vec() })
}

fn pre(kind: Option<Pre>) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: kind })
}

fn replica(port: &[u8], instance: u32) -> Replica {
    Replica { port_kind: Some(PortKind::Port(port.to_vec())), instance, backup_replicas: Vec::new() }
}

fn multicast(multicast_group_id: u32, replicas: Vec<Replica>) -> Kind {
    pre(Some(Pre::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id,
        replicas,
        metadata: Vec::new(),
    })))
}

fn session(session_id: u32, replicas: Vec<Replica>, packet_length_bytes: i32) -> Kind {
    pre(Some(Pre::CloneSessionEntry(CloneSessionEntry {
        session_id,
        replicas,
        class_of_service: 0,
        packet_length_bytes,
    })))
}

/// Updates that are refused, in this order on one switch.
#[rustfmt::skip]
fn bad_updates(o: &Objects<'_>) -> Vec<(&'static str, Update)> {
    let with = |change: &dyn Fn(&mut TableEntry)| { let mut one = o.forward(); change(&mut one); insert(one) };
    let no_port = Replica { port_kind: None, instance: 1, backup_replicas: Vec::new() };
    let backup = Replica { backup_replicas: vec![BackupReplica { port: vec![2], instance: 1 }], ..replica(&[1], 1) };
    vec![
        ("update without type", Update { r#type: 0, entity: Some(o.forward().into()) }),
        ("update of an unknown type", Update { r#type: 9, entity: Some(o.forward().into()) }),
        ("update without entity", Update { r#type: update::Type::Insert.into(), entity: None }),
        ("entity that is empty", Update { r#type: update::Type::Insert.into(), entity: Some(Entity { entity: None }) }),
        ("extern", insert(Kind::ExternEntry(ExternEntry { extern_type_id: 0x8100_0000, ..Default::default() }))),
        ("table that is unknown", with(&|one| one.table_id = 0x0200_0001)),
        ("table 0", with(&|one| one.table_id = 0)),
        ("table by the id of an action", with(&|one| one.table_id = 0x0100_0001)),
        ("field that is missing", with(&|one| one.r#match.clear())),
        ("field that is unknown", with(&|one| one.r#match[0].field_id = 7)),
        ("field given twice", with(&|one| one.r#match.push(one.r#match[0].clone()))),
        ("field without match", with(&|one| one.r#match[0].field_match_type = None)),
        ("field of another kind", with(&|one| one.r#match[0].field_match_type = Some(Match::Lpm(Lpm { value: vec![1], prefix_len: 48 })))),
        ("exact value too wide", with(&|one| one.r#match[0].field_match_type = Some(exact(&[1, 0, 0, 0, 0, 0, 0])))),
        ("exact value empty", with(&|one| one.r#match[0].field_match_type = Some(exact(&[])))),
        ("priority where none may be", with(&|one| one.priority = 5)),
        ("priority below 0", insert(o.ternary(&[8, 0], &[0xff, 0], -1))),
        ("priority missing", insert(o.ternary(&[8, 0], &[0xff, 0], 0))),
        ("ternary value outside its mask", insert(o.ternary(&[8, 1], &[0xff, 0], 1))),
        ("ternary mask 0", insert(o.ternary(&[0], &[0], 1))),
        ("ternary mask empty", insert(o.ternary(&[0], &[], 1))),
        ("ternary value too wide", insert(o.ternary(&[1, 0, 0], &[0xff, 0], 1))),
        ("lpm with a prefix of 0", insert(o.lpm(&[0], 0))),
        ("lpm with a prefix too long", insert(o.lpm(&[10, 0, 0, 0], 33))),
        ("lpm with a negative prefix", insert(o.lpm(&[10, 0, 0, 0], -1))),
        ("lpm with bits below the prefix", insert(o.lpm(&[10, 0, 0, 1], 8))),
        ("range from above to below", insert(o.range(&[9], &[8]))),
        ("range of everything", insert(o.range(&[0], &[0xff, 0xff]))),
        ("optional value too wide", insert(TableEntry { priority: 1, ..o.entry("range_match", &[(2, Match::Optional(Optional { value: vec![4, 0] }))], o.act("NoAction", &[])) })),
        ("entry without action", with(&|one| one.action = None)),
        ("action that is empty", with(&|one| one.action = Some(TableAction { r#type: None }))),
        ("action that is unknown", with(&|one| one.action = Some(TableAction { r#type: Some(ActionType::Action(Action { action_id: 0x0100_0001, params: vec![] })) }))),
        ("action of another table", insert(o.entry("exact_match", &[(1, exact(&[1]))], o.act("set_key", &[(1, &[1])])))),
        ("action for the default entry only", insert(o.entry("lpm_match", &[(1, Match::Lpm(Lpm { value: vec![10, 0, 0, 0], prefix_len: 8 }))], o.act("drop", &[])))),
        ("parameter missing", insert(o.entry("exact_match", &[(1, exact(&[1]))], o.act("forward", &[])))),
        ("parameter unknown", insert(o.entry("exact_match", &[(1, exact(&[1]))], o.act("forward", &[(2, &[1])])))),
        ("parameter given twice", insert(o.entry("exact_match", &[(1, exact(&[1]))], o.act("forward", &[(1, &[1]), (1, &[1])])))),
        ("parameter too wide", insert(o.entry("exact_match", &[(1, exact(&[1]))], o.act("forward", &[(1, &[2, 0])])))),
        ("parameter empty", insert(o.entry("exact_match", &[(1, exact(&[1]))], o.act("forward", &[(1, &[])])))),
        ("const set by a controller", with(&|one| one.is_const = true)),
        ("insert of an entry that is there", insert(o.ternary(&[8, 0], &[0xff, 0], 77))),
        ("modify of an entry that is not there", modify(o.forward())),
        ("delete of an entry that is not there", delete(o.forward())),
        ("insert into a table with const entries", insert(o.entry("fixed", &[(1, exact(&[1]))], o.act("NoAction", &[])))),
        ("delete of a const entry", delete(o.entry("fixed", &[(1, exact(&[8, 0]))], None))),
        ("modify of a const entry", modify(o.entry("fixed", &[(1, exact(&[8, 0]))], o.act("NoAction", &[])))),
        ("idle timeout below 0", with(&|one| one.idle_timeout_ns = -1)),
        ("idle timeout of a table without", insert(TableEntry { idle_timeout_ns: 1, ..o.lpm(&[10, 0, 0, 0], 8) })),
        ("counter of a table without", insert(TableEntry { counter_data: Some(CounterData::default()), ..o.lpm(&[10, 0, 0, 0], 8) })),
        ("meter of a table without", insert(TableEntry { meter_config: Some(p4v1::MeterConfig::default()), ..o.lpm(&[10, 0, 0, 0], 8) })),
        ("counter below 0", with(&|one| one.counter_data = Some(CounterData { byte_count: -1, packet_count: 0 }))),
        ("counters of a meter", insert(TableEntry { meter_counter_data: Some(MeterCounterData::default()), ..o.range(&[1], &[2]) })),
        ("member for a table with actions", with(&|one| one.action = Some(TableAction { r#type: Some(ActionType::ActionProfileMemberId(1)) }))),
        ("action for a table with members", insert(o.entry("by_profile", &[(1, exact(&[1]))], o.act("send_by", &[(1, &[1])])))),
        ("group for a table without selector", insert(o.entry("by_profile", &[(1, exact(&[1]))], Some(ActionType::ActionProfileGroupId(1))))),
        ("member that is not there", insert(o.entry("by_path", &[(1, exact(&[1]))], Some(ActionType::ActionProfileMemberId(99))))),
        ("group that is not there", insert(o.entry("by_path", &[(1, exact(&[1]))], Some(ActionType::ActionProfileGroupId(99))))),
        ("one-shot set that is empty", insert(o.entry("by_path", &[(1, exact(&[1]))], Some(ActionType::ActionProfileActionSet(ActionProfileActionSet::default()))))),
        ("one-shot weight 0", insert(o.entry("by_path", &[(1, exact(&[1]))], Some(ActionType::ActionProfileActionSet(ActionProfileActionSet { action_profile_actions: vec![ActionProfileAction { action: Some(o.call("send_by", &[(1, &[1])])), weight: 0, watch_kind: None }], ..Default::default() }))))),
        ("default entry inserted", insert(o.default("lpm_match", "NoAction", &[]))),
        ("default entry deleted", delete(o.default("lpm_match", "NoAction", &[]))),
        ("default entry with a match", modify(TableEntry { r#match: o.lpm(&[10, 0, 0, 0], 8).r#match, ..o.default("lpm_match", "NoAction", &[]) })),
        ("default entry with a priority", modify(TableEntry { priority: 1, ..o.default("lpm_match", "NoAction", &[]) })),
        ("default entry that is const", modify(o.default("ternary_match", "NoAction", &[]))),
        ("default entry of an action profile's table", modify(o.default("by_path", "NoAction", &[]))),
        ("default action of another table", modify(o.default("lpm_match", "learn", &[]))),
        ("default entry with a counter", modify(TableEntry { counter_data: Some(CounterData::default()), ..o.default("exact_match", "drop", &[]) })),
        ("profile that is unknown", insert(Kind::ActionProfileMember(ActionProfileMember { action_profile_id: 0x1100_0001, member_id: 1, action: None }))),
        ("member without action", insert(o.member("paths", 2, None))),
        ("member's action of another profile", insert(o.member("paths", 2, Some(o.call("learn", &[]))))),
        ("member that is there", insert(o.member("paths", 1, Some(o.call("send_by", &[(1, &[1])]))))),
        ("modify of a member that is not there", modify(o.member("paths", 3, Some(o.call("send_by", &[(1, &[1])]))))),
        ("delete of a member that is not there", delete(o.member("paths", 3, None))),
        ("delete of a member in use", delete(o.member("paths", 1, None))),
        ("group of a profile without selector", insert(o.group("shared", 1, &[], 0))),
        ("group with an unknown member", insert(o.group("paths", 2, &[(9, 1)], 4))),
        ("group with a weight of 0", insert(o.group("paths", 2, &[(1, 0)], 4))),
        ("group with a member twice", insert(o.group("paths", 2, &[(1, 1), (1, 1)], 4))),
        ("group with more than its size", insert(o.group("paths", 2, &[(1, 5)], 4))),
        ("group with a negative size", insert(o.group("paths", 2, &[(1, 1)], -1))),
        ("group that is there", insert(o.group("paths", 1, &[(1, 1)], 4))),
        ("delete of a group in use", delete(o.group("paths", 1, &[], 0))),
        ("delete of a group that is not there", delete(o.group("paths", 7, &[], 0))),
        ("counter that is unknown", modify(Kind::CounterEntry(CounterEntry { counter_id: 1, index: None, data: None }))),
        ("counter inserted", insert(o.counter(Some(0), 1))),
        ("counter beyond the array", modify(o.counter(Some(8), 1))),
        ("counter with a negative index", modify(o.counter(Some(-1), 1))),
        ("counter set below 0", modify(o.counter(Some(0), -1))),
        ("meter deleted", delete(o.meter(0, 1, 2))),
        ("meter beyond the array", modify(o.meter(8, 1, 2))),
        ("meter with a negative rate", modify(o.meter(0, -1, 2))),
        ("meter with a peak below its rate", modify(o.meter(0, 3, 2))),
        ("direct counter without entry", modify(Kind::DirectCounterEntry(DirectCounterEntry::default()))),
        ("direct counter of a table without", modify(Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(o.lpm(&[10, 0, 0, 0], 8)), data: None }))),
        ("direct counter of no entry", modify(Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(o.forward()), data: None }))),
        ("direct meter of the default entry", modify(Kind::DirectMeterEntry(DirectMeterEntry { table_entry: Some(o.default("range_match", "NoAction", &[])), ..Default::default() }))),
        ("register inserted", insert(o.register(0, Some(p4_data::Data::Bitstring(vec![1]))))),
        ("register beyond the array", modify(o.register(8, Some(p4_data::Data::Bitstring(vec![1]))))),
        ("register without data", modify(o.register(0, None))),
        ("register with data too wide", modify(o.register(0, Some(p4_data::Data::Bitstring(vec![1, 0, 0, 0, 0]))))),
        ("register with data of another sort", modify(o.register(0, Some(p4_data::Data::Bool(true))))),
        ("value set inserted", insert(o.value_set(&[]))),
        ("value set too full", modify(o.value_set(&[&[(1, exact(&[1]))], &[(1, exact(&[2]))], &[(1, exact(&[3]))], &[(1, exact(&[4]))], &[(1, exact(&[5]))]]))),
        ("value set with a member twice", modify(o.value_set(&[&[(1, exact(&[1]))], &[(1, exact(&[0, 1]))]]))),
        ("value set's member without field", modify(o.value_set(&[&[]]))),
        ("value set's member too wide", modify(o.value_set(&[&[(1, exact(&[1, 0, 0]))]]))),
        ("digest that is unknown", insert(Kind::DigestEntry(DigestEntry { digest_id: 5, config: None }))),
        ("digest with a negative time", insert(o.digest(-1))),
        ("digest that is off, deleted", delete(o.digest(0))),
        ("replication entry that is empty", insert(pre(None))),
        ("multicast group 0", insert(multicast(0, vec![replica(&[1], 1)]))),
        ("multicast group too high", insert(multicast(0x10000, vec![replica(&[1], 1)]))),
        ("multicast group that is there", insert(multicast(5, vec![replica(&[1], 1)]))),
        ("multicast group with a replica twice", insert(multicast(6, vec![replica(&[1], 1), replica(&[0, 1], 1)]))),
        ("replica without port", insert(multicast(6, vec![no_port]))),
        ("replica's port empty", insert(multicast(6, vec![replica(&[], 1)]))),
        ("replica's port too wide", insert(multicast(6, vec![replica(&[1, 0, 0], 1)]))),
        ("replica's instance too high", insert(multicast(6, vec![replica(&[1], 0x10000)]))),
        ("replica with a backup", insert(multicast(6, vec![backup]))),
        ("modify of a group that is not there", modify(multicast(9, vec![replica(&[1], 1)]))),
        ("clone session 0", insert(session(0, vec![replica(&[1], 1)], 0))),
        ("clone session too high", insert(session(0x8000, vec![replica(&[1], 1)], 0))),
        ("clone session with a negative length", insert(session(3, vec![replica(&[1], 1)], -1))),
        ("delete of a session that is not there", delete(session(9, vec![], 0))),
    ]
}

/// What the bad requests presume to be there.
fn before(o: &Objects<'_>) -> Vec<Update> {
    vec![
        insert(o.ternary(&[8, 0], &[0xff, 0], 77)),
        insert(o.member("paths", 1, Some(o.call("send_by", &[(1, &[1])])))),
        insert(o.group("paths", 1, &[(1, 1)], 4)),
        insert(o.entry("by_path", &[(1, exact(&[3]))], Some(ActionType::ActionProfileGroupId(1)))),
        insert(multicast(5, vec![replica(&[1], 1)])),
    ]
}

#[rustfmt::skip]
fn bad_reads(o: &Objects<'_>) -> Vec<(&'static str, Kind)> {
    vec![
        ("read of an unknown table", Kind::TableEntry(TableEntry { table_id: 0x0200_0001, ..Default::default() })),
        ("read of a match without table", Kind::TableEntry(TableEntry { table_id: 0, ..o.forward() })),
        ("read of an unknown field", Kind::TableEntry(o.entry("exact_match", &[(9, exact(&[1]))], None))),
        ("read of an unknown counter", Kind::CounterEntry(CounterEntry { counter_id: 1, ..Default::default() })),
        ("read of a counter beyond the array", o.counter(Some(8), 0)),
        ("read of a register beyond the array", o.register(8, None)),
        ("read of an unknown profile", Kind::ActionProfileMember(ActionProfileMember { action_profile_id: 1, ..Default::default() })),
        ("read of an extern", Kind::ExternEntry(ExternEntry { extern_type_id: 1, ..Default::default() })),
        ("read of a table's counters without", Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(o.lpm(&[10, 0, 0, 0], 8)), data: None })),
    ]
}

/// Calls that are refused as a whole.
async fn bad_calls(server: &Server, pipeline: &Pipeline, lines: &mut String) {
    let mut raw = server.raw().await;
    let write = WriteRequest { device_id: 3, election_id: Some(1u128.into()), ..Default::default() };
    for (label, request) in [
        ("write to another device", WriteRequest { device_id: 4, ..write.clone() }),
        ("write without election id", WriteRequest { election_id: None, ..write.clone() }),
        ("write of another's election id", WriteRequest { election_id: Some(9u128.into()), ..write.clone() }),
        ("write in an unknown role", WriteRequest { role: "guest".into(), ..write.clone() }),
        ("write of an unknown atomicity", WriteRequest { atomicity: 7, ..write }),
    ] {
        line(lines, label, &raw.write(request).await.expect_err(label));
    }
    let set = SetForwardingPipelineConfigRequest {
        device_id: 3,
        election_id: Some(1u128.into()),
        ..Default::default()
    };
    let config = ForwardingPipelineConfig {
        p4info: Some(pipeline.info.message().clone()),
        p4_device_config: pipeline.device_config.clone(),
        cookie: None,
    };
    use set_forwarding_pipeline_config_request::Action as Do;
    let act = |action: Do, config: Option<ForwardingPipelineConfig>| SetForwardingPipelineConfigRequest {
        action: action.into(),
        config,
        ..set.clone()
    };
    let no_info = ForwardingPipelineConfig { p4info: None, ..config.clone() };
    let garbage = ForwardingPipelineConfig { p4_device_config: b"garbage".to_vec(), ..config.clone() };
    let other =
        ForwardingPipelineConfig { p4_device_config: b"{\"header_types\": []}".to_vec(), ..config.clone() };
    for (label, request) in [
        ("pipeline without action", act(Do::Unspecified, Some(config.clone()))),
        ("pipeline without config", act(Do::VerifyAndCommit, None)),
        ("commit with a config", act(Do::Commit, Some(config.clone()))),
        ("commit of nothing", act(Do::Commit, None)),
        ("pipeline without p4info", act(Do::Verify, Some(no_info))),
        ("pipeline that is no json", act(Do::Verify, Some(garbage))),
        ("pipeline of another program", act(Do::Verify, Some(other))),
    ] {
        line(lines, label, &raw.set_forwarding_pipeline_config(request).await.expect_err(label));
    }
    let get = GetForwardingPipelineConfigRequest { device_id: 3, response_type: 9 };
    let label = "pipeline asked for in an unknown form";
    line(lines, label, &raw.get_forwarding_pipeline_config(get).await.expect_err(label));
    let label = "capabilities of another device";
    line(lines, label, &raw.capabilities(CapabilitiesRequest { device_id: 4 }).await.expect_err(label));
}

/// Arbitration that ends the stream.
async fn bad_streams(server: &Server, lines: &mut String) {
    let arbitration = MasterArbitrationUpdate { device_id: 3, ..Default::default() };
    let other = MasterArbitrationUpdate { device_id: 4, ..arbitration.clone() };
    let taken = MasterArbitrationUpdate { election_id: Some(1u128.into()), ..arbitration.clone() };
    let role = Role { name: "painter".into(), config: Some(Default::default()), ..Default::default() };
    let configured = MasterArbitrationUpdate { role: Some(role), ..arbitration };
    for (label, update) in [
        ("arbitration for another device", other),
        ("arbitration with an id in use", taken),
        ("arbitration with a role configuration", configured),
    ] {
        let request = StreamMessageRequest { update: Some(Message::Arbitration(update)) };
        // The stream stays open on this side; the switch ends it.
        let requests = tokio_stream::StreamExt::chain(tokio_stream::iter([request]), tokio_stream::pending());
        let mut raw = server.raw().await;
        let mut answers = raw.stream_channel(requests).await.expect(label).into_inner();
        line(lines, label, &answers.message().await.expect_err(label));
    }
}

fn line(lines: &mut String, label: &str, status: &Status) {
    error(lines, label, status.code(), status.message());
}

fn error(lines: &mut String, label: &str, code: Code, message: &str) {
    writeln!(lines, "{label}: {} {message}", code_name(code)).expect("a string takes everything");
}

async fn refused(client: &Client, lines: &mut String, label: &str, update: Update) {
    match client.write_with(vec![update], Atomicity::ContinueOnError).await {
        Ok(()) => writeln!(lines, "{label}: taken").expect("a string takes everything"),
        Err(CallError::Status { status, .. }) => {
            let outcome = write_outcomes(&status).and_then(|outcomes| outcomes.into_iter().next());
            let Some(Err(problem)) = outcome else { panic!("{label}: {status}") };
            error(lines, label, problem.code, &problem.message);
        }
        Err(problem) => panic!("{label}: {problem}"),
    }
}

#[tokio::test]
async fn error_texts_are_as_recorded() {
    let server = Server::start().await;
    let (client, mut events, pipeline) = server.target().ready().await;
    let objects = Objects(&pipeline.info);
    client.write(before(&objects)).await.expect("what has to be there");
    let mut lines = String::new();
    for (label, update) in bad_updates(&objects) {
        refused(&client, &mut lines, label, update).await;
    }
    for (label, pattern) in bad_reads(&objects) {
        match client.read(vec![pattern.into()]).await {
            Err(CallError::Status { status, .. }) => line(&mut lines, label, &status),
            other => panic!("{label}: {other:?}"),
        }
    }
    bad_calls(&server, &pipeline, &mut lines).await;
    bad_streams(&server, &mut lines).await;
    for (label, packet) in [
        ("packet-out without metadata", PacketOut::default()),
        (
            "packet-out with metadata twice",
            PacketOut {
                payload: vec![0; 64],
                metadata: [1, 1, 2, 3]
                    .map(|metadata_id| PacketMetadata { metadata_id, value: vec![0] })
                    .to_vec(),
            },
        ),
    ] {
        client.packet_out(packet).await.expect("the stream is open");
        let wanted = |event| if let Event::Error(error) = event { Some(error) } else { None };
        let problem = next_event(&mut events, label, wanted).await;
        error(&mut lines, label, Code::from(problem.canonical_code), &problem.message);
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/p4runtime/errors.txt");
    if std::env::var("INCA_RECORD").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &lines).expect("errors.txt");
    }
    let recorded = std::fs::read_to_string(&path).expect("errors.txt");
    for (ours, recorded) in lines.lines().zip(recorded.lines()) {
        assert_eq!(ours, recorded);
    }
    assert_eq!(lines.lines().count(), recorded.lines().count());
    assert!(!lines.contains(": taken\n"), "a bad request was taken:\n{lines}");
}
