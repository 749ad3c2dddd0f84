//! Simulated switches: P4Runtime servers that keep the keys of what is written and carry probes over cables, and nothing else. They
//! cost little beside the controller that is measured, which can't tell them from switches.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inca_p4runtime::p4v1::{
    CapabilitiesRequest, CapabilitiesResponse, Entity, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse, MasterArbitrationUpdate,
    PacketIn, PacketMetadata, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, WriteRequest,
    WriteResponse, entity,
    forwarding_pipeline_config::Cookie,
    p4_runtime_server::{P4Runtime, P4RuntimeServer},
    stream_message_request as request, stream_message_response as response, update,
};
use inca_p4runtime::{EntryKey, P4Info, bytestring};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

/// Messages that wait for the controller.
const QUEUE: usize = 4096;
/// `REASON_LINK_PROBE` and `REASON_ARP` of the program.
const LINK_PROBE: u8 = 1;
const ARP: u8 = 2;

/// A port: switch, port.
pub(super) type End = (u16, u16);
type Sender = mpsc::Sender<Result<StreamMessageResponse, Status>>;

/// All switches and the cables between them.
pub(super) struct Fabric {
    switches: BTreeMap<u16, Switch>,
    cables: Mutex<HashMap<End, End>>,
    ids: Ids,
    /// Probes that were sent, and those that found the controller's queue full.
    pub(super) probes: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// What of the program the switches know.
struct Ids {
    info: P4Info,
    egress_port: u32,
    ingress_port: u32,
    reason: u32,
}

#[derive(Default)]
struct Switch {
    cookie: Mutex<Option<Cookie>>,
    stream: Mutex<Option<Sender>>,
    /// Keys by table; 0: multicast groups.
    tables: Mutex<HashMap<u32, HashSet<u64>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fabric {
    /// Switches with these cables.
    pub(super) fn new(
        info: P4Info,
        devices: impl Iterator<Item = u16>,
        cables: &[(End, End)],
    ) -> Result<Self, String> {
        let id = |header: &str, name: &str| -> Result<u32, String> {
            let headers = &info.message().controller_packet_metadata;
            let header = headers
                .iter()
                .find(|found| found.preamble.as_ref().is_some_and(|preamble| preamble.name == header));
            let field = header.and_then(|header| header.metadata.iter().find(|field| field.name == name));
            field.map(|field| field.id).ok_or_else(|| format!("the program has no {header:?} {name}"))
        };
        let ids = Ids {
            egress_port: id("packet_out", "egress_port")?,
            ingress_port: id("packet_in", "ingress_port")?,
            reason: id("packet_in", "reason")?,
            info,
        };
        let cables = cables.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        Ok(Self {
            switches: devices.map(|device| (device, Switch::default())).collect(),
            cables: Mutex::new(cables),
            ids,
            probes: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Serves one switch; returns where.
    pub(super) async fn serve(self: &Arc<Self>, device: u16) -> std::io::Result<SocketAddr> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service = P4RuntimeServer::new(Service { fabric: self.clone(), device });
        let service = service.max_decoding_message_size(inca_p4runtime::client::MAX_MESSAGE);
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Ok(address)
    }

    /// Takes a cable out.
    pub(super) fn cut(&self, a: End, b: End) {
        let mut cables = lock(&self.cables);
        cables.remove(&a);
        cables.remove(&b);
    }

    /// A host says who it is by ARP; a switch that knows it already keeps that to itself.
    pub(super) fn announce(&self, at: End, address: Ipv4Addr, frame: Vec<u8>) {
        if self.count_key(at.0, "arp_proxy", |key| proxy_key(key, address)) {
            return;
        }
        self.packet_in(at, ARP, frame);
    }

    fn count_key(&self, device: u16, table: &str, key: impl Fn(u32) -> u64) -> bool {
        let Ok(table) = self.ids.info.table(table) else { return false };
        let Some(switch) = self.switches.get(&device) else { return false };
        lock(&switch.tables).get(&table.id).is_some_and(|keys| keys.contains(&key(table.id)))
    }

    /// Entries of a table in each switch: fewest and most.
    pub(super) fn entries(&self, table: &str) -> (usize, usize) {
        let Ok(table) = self.ids.info.table(table) else { return (0, 0) };
        let counts = self.switches.values().map(|switch| {
            let tables = lock(&switch.tables);
            tables.get(&table.id).map_or(0, HashSet::len)
        });
        counts.fold((usize::MAX, 0), |(least, most), count| (least.min(count), most.max(count)))
    }

    fn packet_in(&self, (device, port): End, reason: u8, payload: Vec<u8>) {
        let stream = self.switches.get(&device).and_then(|switch| lock(&switch.stream).clone());
        let Some(stream) = stream else { return };
        let metadata = vec![
            PacketMetadata { metadata_id: self.ids.ingress_port, value: port.to_be_bytes().to_vec() },
            PacketMetadata { metadata_id: self.ids.reason, value: vec![reason] },
        ];
        let update = Some(response::Update::Packet(PacketIn { payload, metadata }));
        if stream.try_send(Ok(StreamMessageResponse { update })).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn hashed(key: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The key that an ARP entry for an address has.
fn proxy_key(table_id: u32, address: Ipv4Addr) -> u64 {
    use inca_p4runtime::p4v1::{FieldMatch, TableEntry, field_match};
    let exact = field_match::Exact { value: address.octets().to_vec() };
    let field = FieldMatch { field_id: 1, field_match_type: Some(field_match::FieldMatchType::Exact(exact)) };
    hashed(EntryKey::from(&TableEntry { table_id, r#match: vec![field], ..Default::default() }))
}

/// Table (0: multicast groups) and key of an entity.
fn key(entity: Option<Entity>) -> Result<(u32, u64), Status> {
    match entity.and_then(|entity| entity.entity) {
        Some(entity::Entity::TableEntry(entry)) => Ok((entry.table_id, hashed(EntryKey::from(&entry)))),
        Some(entity::Entity::PacketReplicationEngineEntry(entry)) => Ok((0, hashed(format!("{entry:?}")))),
        other => Err(Status::unimplemented(format!("{other:?}"))),
    }
}

struct Service {
    fabric: Arc<Fabric>,
    device: u16,
}

impl Service {
    fn switch(&self) -> Result<&Switch, Status> {
        self.fabric.switches.get(&self.device).ok_or_else(|| Status::not_found("no such switch"))
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Responses<ReadResponse>;
    type StreamChannelStream = Responses<StreamMessageResponse>;

    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let mut tables = lock(&self.switch()?.tables);
        for update in request.into_inner().updates {
            let kind = update.r#type();
            let (table, key) = key(update.entity)?;
            let keys = tables.entry(table).or_default();
            // A controller that believes something else of its switch is wrong.
            let fits = match kind {
                update::Type::Insert => keys.insert(key),
                update::Type::Modify => keys.contains(&key),
                _ => keys.remove(&key),
            };
            if !fits {
                return Err(Status::internal(format!("{} does not fit table {table}", kind.as_str_name())));
            }
        }
        Ok(Response::new(WriteResponse {}))
    }

    async fn read(&self, _: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        Err(Status::unimplemented("only what is written at the start is measured"))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        *lock(&self.switch()?.cookie) = request.into_inner().config.and_then(|config| config.cookie);
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let cookie = *lock(&self.switch()?.cookie);
        let config =
            cookie.map(|cookie| ForwardingPipelineConfig { cookie: Some(cookie), ..Default::default() });
        Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        *lock(&self.switch()?.stream) = Some(sender.clone());
        let (fabric, device, mut incoming) = (self.fabric.clone(), self.device, request.into_inner());
        tokio::spawn(async move {
            while let Some(Ok(message)) = incoming.next().await {
                match message.update {
                    Some(request::Update::Arbitration(arbitration)) => {
                        let update =
                            MasterArbitrationUpdate { status: Some(Default::default()), ..arbitration };
                        let update = Some(response::Update::Arbitration(update));
                        let _ = sender.send(Ok(StreamMessageResponse { update })).await;
                    }
                    Some(request::Update::Packet(packet)) => {
                        fabric.probes.fetch_add(1, Ordering::Relaxed);
                        let port = packet
                            .metadata
                            .iter()
                            .find(|field| field.metadata_id == fabric.ids.egress_port)
                            .and_then(|field| u16::try_from(bytestring::to_u64(&field.value)?).ok());
                        let to = port.and_then(|port| lock(&fabric.cables).get(&(device, port)).copied());
                        if let Some(to) = to {
                            fabric.packet_in(to, LINK_PROBE, packet.payload);
                        }
                    }
                    _ => {}
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn capabilities(
        &self,
        _: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        Ok(Response::new(CapabilitiesResponse {
            p4runtime_api_version: "1.5.0".to_owned(),
            experimental: None,
        }))
    }
}
