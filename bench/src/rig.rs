//! A switch process with the program of a case, at the cables of the namespace.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inca_controller::program::formats;
use inca_controller::program::node::{Child, Endpoint, Parent, Share, TreeNode};
use inca_controller::program::{Entry, service};
use inca_p4runtime::client::{Events, multicast_group};
use inca_p4runtime::{Client, ClientConfig, EntryBuilder, Pipeline};
use inca_tests::bmv2;
use inca_wire::packet::{Format, MAX_WORDS, UDP_PORT};

use crate::ends::{Load, Role, neighbour};
use crate::report::Case;
use crate::scheduling;

/// Device id of the switch under test.
pub(crate) const DEVICE_ID: u16 = 1;
const GRPC: &str = "127.0.0.1:9559";
const MTU: u32 = 9500;
const PATIENCE: Duration = Duration::from_secs(20);

/// A switch to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SwitchKind {
    /// `simple_switch_grpc`.
    Bmv2,
    /// `inca-switch`.
    Embedded,
    /// The embedded switch as a library in the generator's own thread, no network between them.
    InProcess,
}

/// A P4 program to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// inca's.
    Inca,
    /// One register operation per element, plainly written.
    PerElement,
    /// The same, tuned for BMv2.
    Tuned,
}

impl SwitchKind {
    /// The switches that are on this machine.
    pub(crate) fn available() -> Result<Vec<Self>> {
        let embedded = embedded()?.is_file().then_some(Self::Embedded);
        Ok(bmv2::find().map(|_| Self::Bmv2).into_iter().chain(embedded).chain([Self::InProcess]).collect())
    }
}

impl fmt::Display for SwitchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bmv2 => "bmv2",
            Self::Embedded => "embedded",
            Self::InProcess => "in process",
        })
    }
}

impl Program {
    /// Its name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inca => "inca",
            Self::PerElement => "per_element",
            Self::Tuned => "per_element_tuned",
        }
    }

    /// Folder and stem of the compiled files.
    pub(crate) fn compiled(self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        match self {
            Self::Inca => root.join("p4/compiled/inca"),
            Self::PerElement => root.join("bench/baseline/per_element/compiled/per_element"),
            Self::Tuned => root.join("bench/baseline/tuned/compiled/tuned"),
        }
    }
}

/// The embedded switch's binary: it stands beside this one.
fn embedded() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("inca-switch"))
}

/// Makes the cables; the generator's ends by name, in order of the switch's ports.
pub(crate) fn cables(count: usize) -> Result<Vec<String>> {
    (1..=count)
        .map(|port| {
            bmv2::namespace::cable(&format!("p{port}"), MTU)
                .with_context(|| format!("making the cable of port {port}"))?;
            Ok(format!("p{port}-far"))
        })
        .collect()
}

/// Each switch at its best: BMv2's ring takes only single datagrams, the embedded switch takes them joined. The generator sends the
/// same either way; where they may not stay joined, the kernel takes them apart.
fn set_offloads(switch: SwitchKind, ports: usize) -> Result<()> {
    let state = if switch == SwitchKind::Embedded { "on" } else { "off" };
    for port in 1..=ports {
        for end in [format!("p{port}"), format!("p{port}-far")] {
            let features = ["tx", state, "tx-udp-segmentation", state];
            let status =
                Command::new("ethtool").arg("-K").arg(&end).args(features).stdout(Stdio::null()).status();
            ensure!(status.context("running ethtool")?.success(), "ethtool -K {end} {}", features.join(" "));
        }
    }
    Ok(())
}

/// A running, programmed switch; it ends with this value.
pub(crate) struct Rig {
    process: Process,
    // The stream keeps the client primary.
    _client: (Client, Events),
    _runtime: tokio::runtime::Runtime,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after this.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Rig {
    /// Starts the case's switch, pushes its program and installs the load's tree.
    /// `inca` is the stem of a compiled program to take in place of inca's own.
    pub(crate) fn start(case: &Case, load: &Load, inca: Option<&Path>) -> Result<Self> {
        set_offloads(case.switch, load.ports())?;
        let process = command(case, load.ports())?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("spawning the {} switch", case.switch))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let stem = match inca {
            Some(stem) if case.program == Program::Inca => stem.to_path_buf(),
            _ => case.program.compiled(),
        };
        let pipeline =
            Pipeline::from_files(stem.with_extension("p4info.txtpb"), stem.with_extension("json"))?;
        let client = runtime.block_on(async {
            let (client, events) = connect().await?;
            client.ensure_pipeline(&pipeline).await?;
            let entities = match case.program {
                Program::Inca => {
                    let entries = tree_entries(load);
                    entries.iter().map(|entry| entry.entity(&pipeline.info)).collect::<Result<Vec<_>, _>>()?
                }
                Program::PerElement | Program::Tuned => {
                    let job = EntryBuilder::new(&pipeline.info)
                        .table("job")
                        .exact("tree_id", load.tree_id)
                        .action(
                            "set_job",
                            [("workers", (load.children as u32).into()), ("group", 1u16.into())],
                        )
                        .build()?;
                    let copies = (1..=load.children).map(|port| (number(port).into(), port as u32));
                    vec![job.into(), multicast_group(1, copies)]
                }
            };
            client.upsert(entities).await?;
            anyhow::Ok((client, events))
        })?;
        Ok(Self { process, _client: client, _runtime: runtime })
    }
}

/// The number that a switch knows its n-th port by. BMv2 has four egress threads and gives a port to the one that its number says,
/// modulo four: here one does it all, since threads beyond the number of cores only wake each other up.
pub(crate) fn number(port: usize) -> u16 {
    4 * port as u16
}

/// Place, from 0, of the port with this number.
pub(crate) fn index_of(number: u16) -> Option<usize> {
    usize::from(number / 4).checked_sub(1)
}

fn command(case: &Case, ports: usize) -> Result<Command> {
    let mut arguments: Vec<String> = match case.switch {
        SwitchKind::Bmv2 => ["--no-p4", "--log-level", "off"].map(String::from).into(),
        SwitchKind::Embedded => ["--p4runtime-addr", GRPC].map(String::from).into(),
        SwitchKind::InProcess => anyhow::bail!("a switch in this process has no command"),
    };
    arguments.extend(["--device-id".to_owned(), DEVICE_ID.to_string()]);
    if case.threads > 1 {
        let threads = case.threads.to_string();
        arguments.extend(["--threads", &threads, "--order-by", "inca.slot"].map(String::from));
    }
    for port in 1..=ports {
        arguments.extend(["-i".to_owned(), format!("{}@p{port}", number(port))]);
    }
    let program = if case.switch == SwitchKind::Bmv2 {
        arguments.extend(["--", "--grpc-server-addr", GRPC, "--cpu-port", "255"].map(String::from));
        bmv2::find().context("simple_switch_grpc is not on PATH")?
    } else {
        embedded()?
    };
    let mut command = if case.one_core {
        let mut command = Command::new("taskset");
        command.args(["-c", &scheduling::SWITCH_CORE.to_string()]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments);
    Ok(command)
}

async fn connect() -> Result<(Client, Events)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Client::connect(ClientConfig::new("switch", format!("http://{GRPC}"), DEVICE_ID.into(), 1))
            .await
        {
            Ok(connected) => return Ok(connected),
            Err(error) if Instant::now() >= deadline => return Err(error.into()),
            // A process that has just started does not listen yet, and there is nothing to wait on.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Everything the switch needs for the load's tree.
pub(crate) fn tree_entries(load: &Load) -> Vec<Entry> {
    let endpoint = |port: usize| {
        let (mac, ip) = neighbour(port);
        Endpoint { mac, ip }
    };
    let children = (0..load.children).map(|index| {
        let port = number(index + 1);
        let to = endpoint(index + 1);
        match load.role {
            Role::Root => Child::Switch { port, to },
            Role::Single | Role::Leaf => Child::Host { rank: index as u16, port, to, udp_port: UDP_PORT },
        }
    });
    let parent = (load.role == Role::Leaf).then(|| Parent {
        port: number(load.ports()),
        to: endpoint(load.ports()),
        index: 0,
    });
    let node = TreeNode {
        tree_id: load.tree_id,
        generation: load.generation,
        format: Format::Bfp16,
        world: load.world(),
        slots: load.slots,
        words: MAX_WORDS as u8,
        resend_interval: 1000,
        share: Share {
            first_slot: 0,
            first_word: 0,
            first_replica: 1,
            down_group: 1,
            up_group: if parent.is_some() { 2 } else { 0 },
        },
        own: Endpoint { mac: load.service.0, ip: load.service.1 },
        children: children.collect(),
        parent,
    };
    let own = Entry::Table(service::entry(service::Key { dst_addr: load.service.1 }));
    formats::entries(Format::Bfp16).into_iter().chain([own]).chain(node.entries()).collect()
}
