//! BMv2 as a [`Bench`]: `simple_switch_grpc`, programmed through P4Runtime, its frames through the gRPC stream that it offers in place
//! of interfaces. So no network namespace and no right is needed, frames may have any length and leave by any port, and the end
//! of the stream says that everything is processed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use inca_p4runtime::bytestring::canonical;
use inca_p4runtime::client::{insert, modify};
use inca_p4runtime::info::FieldInfo;
use inca_p4runtime::info::MatchKind;
use inca_p4runtime::p4v1::action_profile_group::Member as GroupMember;
use inca_p4runtime::p4v1::entity::Entity as Kind;
use inca_p4runtime::p4v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use inca_p4runtime::p4v1::replica::PortKind;
use inca_p4runtime::p4v1::table_action::Type as ActionType;
use inca_p4runtime::p4v1::{self, FieldMatch, packet_replication_engine_entry as pre};
use inca_p4runtime::{Client, ClientConfig, P4Info, Pipeline};
use inca_switch::control::{CounterValue, MatchKey, Replica};
use tonic::transport::Channel;

use super::{Action, Bench, BenchError, Call, CounterName, EntryName, Request, Sent};
use crate::bmv2::Process;

const DEVICE_ID: u64 = 1;
/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Frames in one stream: BMv2's queues hold 64 frames for a port and drop silently beyond.
const BATCH: usize = 32;

type Result<T> = std::result::Result<T, BenchError>;

fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Refused(error.to_string())
}

/// A frame into a port (`p4.bm.PacketStreamRequest` of BMv2's `dataplane_interface.proto`) or out of one.
#[derive(Clone, PartialEq, prost::Message)]
struct PacketStream {
    /// Returned with what the frame causes.
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    device_id: u64,
    #[prost(uint32, tag = "3")]
    port: u32,
    #[prost(bytes = "vec", tag = "4")]
    packet: Vec<u8>,
}

/// A BMv2 process with one program.
#[derive(Debug)]
pub struct Bmv2 {
    runtime: tokio::runtime::Runtime,
    frames: Channel,
    control: Option<(Client, Pipeline)>,
    inserted: Vec<p4v1::Entity>,
    groups: Vec<u32>,
    // Last: the process ends after its clients.
    process: Process,
}

impl Bmv2 {
    /// Starts the program. Without a P4Info nothing can be written.
    ///
    /// # Errors
    /// If it does not start or refuses the program.
    pub fn start(binary: &Path, json: &Path, info: Option<&Path>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(refused)?;
        let (frame_port, control_port) = free_ports().map_err(refused)?;
        let address = |port: u16| format!("127.0.0.1:{port}");
        let mut command = Command::new(binary);
        command.args(["--device-id", &DEVICE_ID.to_string(), "--log-level", "off"]);
        match info {
            Some(_) => command.arg("--no-p4"),
            None => command.arg(json),
        };
        command.args(["--", "--grpc-server-addr", &address(control_port)]);
        command.args(["--dp-grpc-server-addr", &address(frame_port)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process(command.spawn().map_err(refused)?);
        let frames = runtime.block_on(connect(&address(frame_port), &mut process))?;
        let control = match info {
            None => None,
            Some(info) => {
                let pipeline = Pipeline::from_files(info, json).map_err(refused)?;
                Some((runtime.block_on(program(&address(control_port), &pipeline))?, pipeline))
            }
        };
        // With a program, hence only now.
        runtime.block_on(ready(&frames))?;
        Ok(Self { runtime, frames, control, inserted: Vec::new(), groups: Vec::new(), process })
    }

    fn write(&self, update: p4v1::Update) -> Result<()> {
        let (client, _) = self.control()?;
        self.runtime.block_on(client.write(vec![update])).map_err(refused)
    }

    fn control(&self) -> Result<&(Client, Pipeline)> {
        self.control.as_ref().ok_or_else(|| BenchError::Cannot("there is no P4Info to write with".to_owned()))
    }

    fn entry(&self, name: &EntryName, action: Option<&Action>) -> Result<p4v1::TableEntry> {
        let info = &self.control()?.1.info;
        let table = info.table(&name.table).map_err(refused)?;
        let fields = table.fields.iter().zip(&name.keys).filter_map(|(field, key)| field_match(field, key));
        Ok(p4v1::TableEntry {
            table_id: table.id,
            r#match: fields.collect(),
            priority: if table.needs_priority { name.priority.max(1) } else { 0 },
            action: action.map(|action| table_action(info, action)).transpose()?,
            ..Default::default()
        })
    }

    async fn stream(channel: Channel, frames: Vec<PacketStream>) -> Result<Vec<PacketStream>> {
        let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(1 << 20);
        client.ready().await.map_err(refused)?;
        let path = "/p4.bm.DataplaneInterface/PacketStream".parse().map_err(refused)?;
        let codec = tonic_prost::ProstCodec::<PacketStream, PacketStream>::default();
        let request = tonic::Request::new(tokio_stream::iter(frames));
        let died = |status: tonic::Status| refused(format!("the switch died: {}", status.message()));
        let mut answers = client.streaming(request, path, codec).await.map_err(died)?.into_inner();
        let mut all = Vec::new();
        while let Some(answer) = answers.message().await.map_err(died)? {
            all.push(answer);
        }
        Ok(all)
    }
}

impl Bench for Bmv2 {
    fn apply(&mut self, request: &Request) -> Result<()> {
        let info = self.control()?.1.info.clone();
        let entity = match request {
            Request::Insert(name, action) => {
                let entity = Kind::TableEntry(self.entry(name, Some(action))?);
                self.inserted.push(entity.clone().into());
                entity
            }
            Request::Default(table, action) => {
                let entry = p4v1::TableEntry {
                    table_id: info.table(table).map_err(refused)?.id,
                    action: Some(table_action(&info, action)?),
                    is_default_action: true,
                    ..Default::default()
                };
                return self.write(modify(Kind::TableEntry(entry)));
            }
            Request::RemoveAll => {
                let (client, _) = self.control()?;
                let gone = client.remove(self.inserted.clone());
                self.runtime.block_on(gone).map_err(refused)?;
                self.inserted.clear();
                return Ok(());
            }
            Request::Member(profile, id, call) => Kind::ActionProfileMember(p4v1::ActionProfileMember {
                action_profile_id: info.profile(profile).map_err(refused)?.id,
                member_id: *id,
                action: Some(action_call(&info, call)?),
            }),
            Request::Group(profile, id, members) => {
                let members = members.iter().map(|(member, weight)| GroupMember {
                    member_id: *member,
                    weight: *weight as i32,
                    watch_kind: None,
                });
                Kind::ActionProfileGroup(p4v1::ActionProfileGroup {
                    action_profile_id: info.profile(profile).map_err(refused)?.id,
                    group_id: *id,
                    members: members.collect(),
                    max_size: 64,
                })
            }
            Request::Session(id, copies) => {
                replication(pre::Type::CloneSessionEntry(p4v1::CloneSessionEntry {
                    session_id: *id,
                    replicas: replicas(copies),
                    ..Default::default()
                }))
            }
            Request::Multicast(id, copies) => {
                let group = p4v1::MulticastGroupEntry {
                    multicast_group_id: *id,
                    replicas: replicas(copies),
                    ..Default::default()
                };
                let entity = replication(pre::Type::MulticastGroupEntry(group));
                if self.groups.contains(id) {
                    return self.write(modify(entity));
                }
                self.groups.push(*id);
                entity
            }
            Request::Register(..) => {
                return Err(BenchError::Cannot("BMv2 has no registers over P4Runtime".to_owned()));
            }
            Request::Counter(name, index, value) => {
                let data =
                    p4v1::CounterData { byte_count: value.bytes as i64, packet_count: value.packets as i64 };
                return self.write(modify(Kind::CounterEntry(p4v1::CounterEntry {
                    counter_id: info.counter(name).map_err(refused)?.id,
                    index: Some(p4v1::Index { index: *index as i64 }),
                    data: Some(data),
                })));
            }
            Request::Meter(name, index, config) => {
                let meter = info.meter(name).map_err(refused)?;
                let config = p4v1::MeterConfig {
                    cir: config.cir,
                    cburst: config.cburst,
                    pir: config.pir,
                    pburst: config.pburst,
                    ..Default::default()
                };
                for cell in index.map_or(0..meter.size as usize, |index| index..index + 1) {
                    self.write(modify(Kind::MeterEntry(p4v1::MeterEntry {
                        meter_id: meter.id,
                        index: Some(p4v1::Index { index: cell as i64 }),
                        config: Some(config),
                        counter_data: None,
                    })))?;
                }
                return Ok(());
            }
        };
        self.write(insert(entity))
    }

    fn process(&mut self, frames: &[(u16, Vec<u8>)]) -> Result<Vec<Sent>> {
        let mut all = vec![Sent::new(); frames.len()];
        for (batch, part) in frames.chunks(BATCH).enumerate() {
            let ids = 1 + (batch * BATCH) as u64..;
            let request = |(id, (port, frame)): (u64, &(u16, Vec<u8>))| PacketStream {
                id,
                device_id: DEVICE_ID,
                port: u32::from(*port),
                packet: frame.clone(),
            };
            let requests = ids.zip(part).map(request).collect();
            let exchange = Self::stream(self.frames.clone(), requests);
            let answers =
                match self.runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange).await }) {
                    Ok(Ok(answers)) => answers,
                    Ok(Err(error)) => return Err(error),
                    Err(_) => return Err(refused("the switch does not come to an end with a frame")),
                };
            if let Ok(Some(status)) = self.process.0.try_wait() {
                return Err(refused(format!("the switch died: {status}")));
            }
            for answer in answers {
                let sent = all.get_mut((answer.id as usize).wrapping_sub(1));
                let sent = sent.ok_or_else(|| refused("a frame that no frame caused"))?;
                sent.push((answer.port as u16, answer.packet));
            }
        }
        Ok(all)
    }

    fn counter(&mut self, name: &CounterName) -> Result<CounterValue> {
        let (client, pipeline) = self.control()?;
        let data = match name {
            CounterName::Cell(name, index) => {
                let id = pipeline.info.counter(name).map_err(refused)?.id;
                let read = client.read_counter(id, Some(*index as i64));
                let entries = self.runtime.block_on(read).map_err(refused)?;
                entries.into_iter().next().and_then(|entry| entry.data)
            }
            CounterName::Entry(name) => {
                let table_entry = Some(self.entry(name, None)?);
                let pattern = Kind::DirectCounterEntry(p4v1::DirectCounterEntry { table_entry, data: None });
                let found = self.runtime.block_on(client.read(vec![pattern.into()])).map_err(refused)?;
                found.into_iter().find_map(|entity| match entity.entity {
                    Some(Kind::DirectCounterEntry(entry)) => entry.data,
                    _ => None,
                })
            }
        };
        let data = data.ok_or_else(|| refused("the switch has no such counter"))?;
        Ok(CounterValue { packets: data.packet_count as u64, bytes: data.byte_count as u64 })
    }
}

/// Two ports that nobody listens on.
fn free_ports() -> std::io::Result<(u16, u16)> {
    let (one, other) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((one.local_addr()?.port(), other.local_addr()?.port()))
}

async fn connect(address: &str, process: &mut Process) -> Result<Channel> {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).map_err(refused)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(error) if Instant::now() >= deadline => return Err(refused(error)),
            // A process that has just started does not listen yet, and there is nothing to wait on.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
        if let Ok(Some(status)) = process.0.try_wait() {
            return Err(refused(format!("the switch does not take the program: {status}")));
        }
    }
}

/// Its server listens a little before its ports do.
async fn ready(frames: &Channel) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Bmv2::stream(frames.clone(), Vec::new()).await {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(5)).await,
            result => return result.map(drop),
        }
    }
}

async fn program(address: &str, pipeline: &Pipeline) -> Result<Client> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let config = ClientConfig::new("bmv2", format!("http://{address}"), DEVICE_ID, 1);
        match Client::connect(config).await {
            // Nothing is sent to the controller, so nobody listens.
            Ok((client, _)) => {
                client.ensure_pipeline(pipeline).await.map_err(refused)?;
                return Ok(client);
            }
            Err(error) if Instant::now() >= deadline => return Err(refused(error)),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn short(value: &[u8]) -> Vec<u8> {
    canonical(value).to_vec()
}

/// A field as P4Runtime has it: what does not matter is left out.
fn field_match(field: &FieldInfo, key: &MatchKey) -> Option<FieldMatch> {
    let kind = match (field.kind, key) {
        (_, MatchKey::Exact(value)) => FieldMatchType::Exact(Exact { value: short(value) }),
        (_, MatchKey::Lpm { prefix_len: 0, .. }) => return None,
        (_, MatchKey::Lpm { value, prefix_len }) => {
            FieldMatchType::Lpm(Lpm { value: short(value), prefix_len: *prefix_len as i32 })
        }
        (_, MatchKey::Ternary { mask, .. }) if mask.iter().all(|byte| *byte == 0) => return None,
        (MatchKind::Optional, MatchKey::Ternary { value, .. }) => {
            FieldMatchType::Optional(Optional { value: short(value) })
        }
        (_, MatchKey::Ternary { value, mask }) => {
            FieldMatchType::Ternary(Ternary { value: short(value), mask: short(mask) })
        }
        (_, MatchKey::Range { low, high }) => {
            FieldMatchType::Range(Range { low: short(low), high: short(high) })
        }
        (_, MatchKey::Optional(value)) => {
            FieldMatchType::Optional(Optional { value: short(value.as_ref()?) })
        }
    };
    Some(FieldMatch { field_id: field.id, field_match_type: Some(kind) })
}

fn table_action(info: &P4Info, action: &Action) -> Result<p4v1::TableAction> {
    let action = match action {
        Action::Call(call) => ActionType::Action(action_call(info, call)?),
        Action::Member(id) => ActionType::ActionProfileMemberId(*id),
        Action::Group(id) => ActionType::ActionProfileGroupId(*id),
    };
    Ok(p4v1::TableAction { r#type: Some(action) })
}

fn action_call(info: &P4Info, call: &Call) -> Result<p4v1::Action> {
    let action = info.action(&call.action).map_err(refused)?;
    let params = action.params.iter().zip(&call.args);
    let params = params.map(|(param, arg)| p4v1::action::Param { param_id: param.id, value: short(arg) });
    Ok(p4v1::Action { action_id: action.id, params: params.collect() })
}

#[allow(deprecated)] // BMv2 knows no other form of ports.
fn replicas(copies: &[Replica]) -> Vec<p4v1::Replica> {
    let replica = |copy: &Replica| p4v1::Replica {
        port_kind: Some(PortKind::EgressPort(copy.port.into())),
        instance: copy.instance.into(),
        backup_replicas: Vec::new(),
    };
    copies.iter().map(replica).collect()
}

fn replication(kind: pre::Type) -> Kind {
    Kind::PacketReplicationEngineEntry(p4v1::PacketReplicationEngineEntry { r#type: Some(kind) })
}

/// The program on PATH.
pub fn find() -> Option<PathBuf> {
    crate::bmv2::find()
}
