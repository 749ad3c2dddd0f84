//! The rig around a real BMv2: `simple_switch_grpc` in a network namespace of its own, raw sockets at its ports, programmed through
//! the P4Runtime client with the entries that the embedded switch gets.
//!
//! No step waits for time to pass. After each frame, by the same port and hence behind it, goes one marker for every output
//! port; what a port sends before its marker is the frame's doing. Frames for the controller are counted off by link probes
//! in the same way.

pub mod namespace;

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use inca_controller::program::Entry;
use inca_p4runtime::client::Event;
use inca_p4runtime::{Client, ClientConfig, Pipeline};
use inca_wire::address::{MacAddr, service_mac};
use inca_wire::frame::{ETHERTYPE_ARP, OUTER_LEN, UdpFrame};
use inca_wire::lldp::ETHERTYPE_LLDP;
use inca_wire::packet::Opcode;

use self::namespace::{RawSocket, cable, in_fresh_namespace, wait_readable};
use crate::install::marker_address;
use crate::rig::{CPU_PORT, DEVICE_ID, Neighbour, PORTS};
use crate::target::{Sent, Target, compiled};

/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Room for the largest packets.
const MTU: u32 = 9500;
/// Plus the device id.
const GRPC_PORT: u16 = 9558;
/// Steps after which packet-ins are counted off even if none is expected.
const CPU_CHECK: u64 = 64;

/// Runs `work` with a fresh BMv2, the rig's switch, or says why it is skipped.
///
/// # Panics
/// If BMv2 is there but can't be started or programmed.
pub fn with_bmv2<R: Send>(work: impl FnOnce(&mut Bmv2) -> R + Send) -> Option<R> {
    with_bmv2s(1, |mut switches| work(&mut switches[0]))
}

/// Runs `work` with so many fresh BMv2, with device ids from 1, or says why it is skipped.
///
/// # Panics
/// If BMv2 is there but can't be started or programmed.
pub fn with_bmv2s<R: Send>(count: u16, work: impl FnOnce(Vec<Bmv2>) -> R + Send) -> Option<R> {
    isolated(move |binary| {
        let start = |device_id| {
            Bmv2::start(binary, device_id)
                .unwrap_or_else(|error| panic!("starting {}: {error}", binary.display()))
        };
        work((DEVICE_ID..DEVICE_ID + count).map(start).collect())
    })
}

/// Runs `work` with a fresh BMv2 that runs another program on these ports, or says why it is skipped.
///
/// # Panics
/// If BMv2 is there but can't be started or programmed.
pub fn with_program<R: Send>(
    info: &str,
    json: &str,
    ports: RangeInclusive<u16>,
    work: impl FnOnce(&mut OtherProgram) -> R + Send,
) -> Option<R> {
    isolated(move |binary| {
        let pipeline = Pipeline::from_files(info, json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let started = start(binary, DEVICE_ID, ports.clone(), &pipeline)
            .unwrap_or_else(|error| panic!("starting {}: {error}", binary.display()));
        work(&mut OtherProgram { ports, started, buffer: vec![0; 1 << 16] })
    })
}

fn isolated<R: Send>(work: impl FnOnce(&PathBuf) -> R + Send) -> Option<R> {
    let Some(binary) = find() else {
        println!("skipped: simple_switch_grpc not found");
        return None;
    };
    // SAFETY: geteuid takes nothing and only reads.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: making a network namespace for simple_switch_grpc takes root");
        return None;
    }
    let run = move || work(&binary);
    Some(in_fresh_namespace(run).unwrap_or_else(|error| panic!("making a network namespace: {error}")))
}

/// The program on PATH.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("simple_switch_grpc")).find(|file| file.is_file())
}

/// A running BMv2 and the far ends of its ports.
#[derive(Debug)]
pub struct Bmv2 {
    sockets: Vec<RawSocket>,
    runtime: tokio::runtime::Runtime,
    client: Client,
    events: inca_p4runtime::client::Events,
    pipeline: Pipeline,
    steps: u64,
    buffer: Vec<u8>,
    // Last: the process ends after its client.
    _process: Process,
}

/// A running BMv2 with a program that knows nothing of markers: whoever uses it knows which frames come.
pub struct OtherProgram {
    ports: RangeInclusive<u16>,
    started: Started,
    buffer: Vec<u8>,
}

impl OtherProgram {
    fn socket(&self, port: u16) -> &RawSocket {
        &self.started.sockets[usize::from(port - self.ports.start())]
    }

    /// Makes a multicast group of (port, instance).
    ///
    /// # Panics
    /// If the switch refuses it.
    pub fn multicast(&mut self, group: u32, replicas: &[(u32, u32)]) {
        let entry = inca_p4runtime::client::multicast_group(group, replicas.iter().copied());
        let written = self.started.runtime.block_on(self.started.client.upsert(vec![entry]));
        written.unwrap_or_else(|error| panic!("multicast group {group}: {error}"));
    }

    /// Sends a frame into a port.
    ///
    /// # Panics
    /// If the socket fails.
    pub fn send(&mut self, port: u16, frame: &[u8]) {
        self.socket(port).send(frame).unwrap_or_else(|error| panic!("port {port}: {error}"));
    }

    /// The next so many frames out of a port.
    ///
    /// # Panics
    /// If they don't come.
    pub fn receive(&mut self, port: u16, count: usize) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        let mut frames = Vec::new();
        while frames.len() < count {
            let socket = &self.started.sockets[usize::from(port - self.ports.start())];
            match socket.receive(&mut self.buffer) {
                Ok(Some(length)) => frames.push(self.buffer[..length].to_vec()),
                Ok(None) => {
                    let waited = wait_readable(std::slice::from_ref(socket), deadline);
                    assert!(waited.unwrap_or(false), "port {port}: {} of {count} frames came", frames.len());
                }
                Err(error) => panic!("port {port}: {error}"),
            }
        }
        frames
    }

    /// Nothing is left to be received.
    ///
    /// # Panics
    /// If something is.
    pub fn expect_silence(&mut self) {
        for port in self.ports.clone() {
            let socket = &self.started.sockets[usize::from(port - self.ports.start())];
            let length =
                socket.receive(&mut self.buffer).unwrap_or_else(|error| panic!("port {port}: {error}"));
            assert_eq!(length.map(|length| self.buffer[..length].to_vec()), None, "port {port}");
        }
    }
}

/// A BMv2 that ends with this value.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after this.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process with a pipeline, and the far ends of its ports.
struct Started {
    sockets: Vec<RawSocket>,
    runtime: tokio::runtime::Runtime,
    client: Client,
    events: inca_p4runtime::client::Events,
    process: Process,
}

fn start(
    binary: &PathBuf,
    device_id: u16,
    ports: RangeInclusive<u16>,
    pipeline: &Pipeline,
) -> Result<Started, Box<dyn std::error::Error>> {
    let interface = |port: u16| format!("s{device_id}p{port}");
    let grpc = format!("127.0.0.1:{}", GRPC_PORT + device_id);
    let sockets = ports.clone().map(|port| cable(&interface(port), MTU)).collect::<io::Result<Vec<_>>>()?;
    let mut command = Command::new(binary);
    command.args(["--device-id", &device_id.to_string(), "--no-p4", "--log-level", "off"]);
    for port in ports {
        command.args(["-i", &format!("{port}@{}", interface(port))]);
    }
    command.args(["--", "--grpc-server-addr", &grpc, "--cpu-port", &CPU_PORT.to_string()]);
    let process = Process(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);

    // Its thread is started by this one, hence in the namespace too; it moves the stream while this one waits for frames.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (client, events) = runtime.block_on(async {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let config = ClientConfig::new("bmv2", format!("http://{grpc}"), device_id.into(), 1);
            match Client::connect(config).await {
                Ok(connected) => break Ok(connected),
                Err(error) if Instant::now() >= deadline => break Err(error),
                // A process that has just started does not listen yet, and there is nothing to wait on.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })?;
    runtime.block_on(client.ensure_pipeline(pipeline))?;
    Ok(Started { sockets, runtime, client, events, process })
}

impl Bmv2 {
    fn start(binary: &PathBuf, device_id: u16) -> Result<Self, Box<dyn std::error::Error>> {
        let (info, json) = (compiled().join("inca.p4info.txtpb"), compiled().join("inca.json"));
        let pipeline = Pipeline::from_files(info, json)?;
        let Started { sockets, runtime, client, events, process } =
            start(binary, device_id, PORTS, &pipeline)?;
        let buffer = vec![0; 1 << 16];
        Ok(Self { sockets, runtime, client, events, pipeline, steps: 0, buffer, _process: process })
    }

    fn socket(&self, port: u16) -> &RawSocket {
        &self.sockets[usize::from(port - PORTS.start())]
    }

    fn packet_out(&self, egress_port: u16, payload: Vec<u8>) {
        let fields = [("egress_port", egress_port.into())];
        let packet =
            self.pipeline.info.packet_out(payload, &fields).expect("the program has such packet-outs");
        self.runtime.block_on(self.client.packet_out(packet)).expect("the stream is open");
    }

    /// Sends the frame, then whatever tells when its effects are complete.
    fn feed(&self, port: u16, frame: &[u8], count_packet_ins: bool) -> io::Result<()> {
        if port == CPU_PORT {
            let egress_port = u16::from_be_bytes([frame[0], frame[1]]) >> 7;
            self.packet_out(egress_port, frame[2..].to_vec());
            for out in PORTS {
                self.packet_out(out, marker(out, self.steps));
            }
            return Ok(());
        }
        let socket = self.socket(port);
        socket.send(frame)?;
        for out in PORTS {
            socket.send(&marker(out, self.steps))?;
        }
        if count_packet_ins { socket.send(&cpu_marker(self.steps)) } else { Ok(()) }
    }

    /// Everything the ports send up to the markers of this step.
    fn collect(&mut self) -> io::Result<Sent> {
        let deadline = Instant::now() + PATIENCE;
        let mut sent = Sent::new();
        let mut open: Vec<u16> = PORTS.collect();
        while !open.is_empty() {
            let mut idle = true;
            for port in PORTS {
                let socket = &self.sockets[usize::from(port - PORTS.start())];
                while let Some(length) = socket.receive(&mut self.buffer)? {
                    idle = false;
                    let frame = &self.buffer[..length];
                    match marked(frame) {
                        Some((out, step)) if out == port && step == self.steps => {
                            open.retain(|&open| open != port)
                        }
                        Some(other) => panic!("marker {other:?} at port {port} in step {}", self.steps),
                        None => sent.push((port, frame.to_vec())),
                    }
                }
            }
            if idle && !wait_readable(&self.sockets, deadline)? {
                panic!(
                    "step {}: no marker from ports {open:?} within {PATIENCE:?}; got {sent:?}",
                    self.steps
                );
            }
        }
        Ok(sent)
    }

    /// Everything for the controller up to this step's marker, as the switch's CPU port would send it.
    fn collect_packet_ins(&mut self) -> Sent {
        let info = &self.pipeline.info;
        let (events, steps) = (&mut self.events, self.steps);
        let collect = async {
            let mut sent = Sent::new();
            loop {
                let Some(event) = events.next().await else { panic!("the stream ended in step {steps}") };
                let Event::PacketIn(packet) = event else { continue };
                let fields = info.packet_in_fields(&packet).expect("packet-ins are the program's");
                let field =
                    |name| fields.get(name).and_then(|value| inca_p4runtime::bytestring::to_u64(value));
                let (port, reason) = (field("ingress_port").unwrap_or(0), field("reason").unwrap_or(0));
                match cpu_marked(&packet.payload) {
                    Some(step) if step == steps => return sent,
                    Some(step) => panic!("link probe of step {step} in step {steps}"),
                    None => {
                        let mut frame = ((port << 7 | reason) as u16).to_be_bytes().to_vec();
                        frame.extend(packet.payload);
                        sent.push((CPU_PORT, frame));
                    }
                }
            }
        };
        let collected = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, collect).await });
        collected
            .unwrap_or_else(|_| panic!("step {steps}: no link probe at the controller within {PATIENCE:?}"))
    }
}

impl Target for Bmv2 {
    fn install(&mut self, entries: &[Entry]) {
        let entities = entries.iter().map(|entry| entry.entity(&self.pipeline.info));
        let entities = entities.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}"));
        self.runtime.block_on(self.client.upsert(entities)).unwrap_or_else(|error| panic!("{error}"));
    }

    fn remove(&mut self, entries: &[Entry]) {
        let entities = entries.iter().map(|entry| entry.entity(&self.pipeline.info));
        let entities = entities.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}"));
        self.runtime.block_on(self.client.remove(entities)).unwrap_or_else(|error| panic!("{error}"));
    }

    fn step(&mut self, port: u16, frame: &[u8]) -> Sent {
        self.steps += 1;
        let count = port != CPU_PORT && (may_reach_controller(frame) || self.steps.is_multiple_of(CPU_CHECK));
        self.feed(port, frame, count).unwrap_or_else(|error| panic!("step {}: {error}", self.steps));
        let mut sent = self.collect().unwrap_or_else(|error| panic!("step {}: {error}", self.steps));
        if count {
            sent.extend(self.collect_packet_ins());
        }
        sent.sort();
        sent
    }

    fn event_counts(&mut self) -> BTreeMap<u32, u64> {
        let counter = self.pipeline.info.counter("events").expect("the program counts events").id;
        let read = self.runtime.block_on(self.client.read_counter(counter, None));
        let entries = read.unwrap_or_else(|error| panic!("{error}"));
        let count = |entry: inca_p4runtime::p4v1::CounterEntry| {
            let index = entry.index.map_or(0, |index| index.index as u32);
            (index, entry.data.map_or(0, |data| data.packet_count as u64))
        };
        entries.into_iter().map(count).filter(|(_, packets)| *packets > 0).collect()
    }
}

fn may_reach_controller(frame: &[u8]) -> bool {
    let ethertype = frame.get(12..14).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let opcode = frame.get(OUTER_LEN + 1).copied();
    matches!(ethertype, ETHERTYPE_ARP | ETHERTYPE_LLDP) || opcode == Some(Opcode::Announce.into())
}

fn marker(out: u16, step: u64) -> Vec<u8> {
    let from = Neighbour::host(out);
    let to = (service_mac(DEVICE_ID), marker_address(out));
    let addresses = UdpFrame { src_port: 9, dst_port: 9, ..UdpFrame::to_switch((from.mac, from.ip), to) };
    addresses.emit(&step.to_be_bytes()).expect("eight bytes fit a datagram")
}

/// Port and step of a marker.
fn marked(frame: &[u8]) -> Option<(u16, u64)> {
    let (to, payload) = UdpFrame::parse(frame).ok()?;
    let out = PORTS.into_iter().find(|&port| marker_address(port) == to.dst_ip)?;
    Some((out, u64::from_be_bytes(payload.try_into().ok()?)))
}

const CPU_MARK: [u8; 8] = *b"inca end";

fn cpu_marker(step: u64) -> Vec<u8> {
    let mut frame = [MacAddr::LLDP.0, service_mac(0).0].concat();
    frame.extend(ETHERTYPE_LLDP.to_be_bytes());
    frame.extend(CPU_MARK);
    frame.extend(step.to_be_bytes());
    frame
}

fn cpu_marked(frame: &[u8]) -> Option<u64> {
    let (mark, step) = frame.get(14..30)?.split_at(8);
    (mark == CPU_MARK).then(|| u64::from_be_bytes(step.try_into().expect("eight bytes are left")))
}
