//! How fast the controller finds a fabric and installs trees: 20 embedded switches in this process (16 leaves, 4 spines), 64 hosts, 8 jobs
//! of 8 ranks. The cables are virtual Ethernet in a network namespace of its own; hosts are frames that come in by their ports. Then how
//! it bears a large one: see [`large`].
//!
//! `make bench-controller` runs it and writes `target/reports/bench-controller.json`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use inca_controller::control::Controller;
use inca_controller::inventory::Inventory;
use inca_p4runtime::northbound as api;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::join_event::Event;
use inca_switch::ports::{Loss, PortSpec, Receive};
use inca_switch::runtime::{self, SwitchHandle};
use inca_switch::{SwitchConfig, p4runtime};
use inca_wire::address::MacAddr;
use inca_wire::frame::Arp;
use serde_json::json;
use tonic::transport::Channel;

mod large;

const LEAVES: u16 = 16;
const SPINES: u16 = 4;
const HOSTS_PER_LEAF: u16 = 4;
const JOBS: u16 = 8;
const RANKS: u16 = 8;
/// Set in the process that runs inside the namespace.
const INSIDE: &str = "INCA_BENCH_CONTROLLER_INSIDE";
/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Hosts announce themselves so often until they are known, as agents do.
const ANNOUNCE: Duration = Duration::from_millis(250);
/// Goals, in seconds.
const DISCOVERY_GOAL: f64 = 5.0;
const INSTALL_GOAL: f64 = 2.0;

/// Times the controller on 20 embedded switches with 64 hosts and 8 jobs, then looks at its memory and its probes with 200 simulated
/// switches and 2,000 hosts. Needs root, for a network namespace of its own.
///
/// Writes target/reports/bench-controller.json.
#[derive(Debug, Parser)]
struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Runs; the report has each of them, the table the slowest
    #[arg(long, default_value_t = 3, value_name = "N")]
    runs: u32,
    /// What is measured
    #[arg(long, value_enum, default_value_t = Part::All)]
    part: Part,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Both
    All,
    /// 20 embedded switches
    Small,
    /// 200 simulated switches
    Large,
}

/// One promise.
#[derive(Debug, serde::Serialize)]
struct Check {
    name: &'static str,
    value: f64,
    target: String,
    holds: bool,
}

impl Check {
    fn at_most(name: &'static str, value: f64, target: f64) -> Self {
        Self { name, value, target: format!("<= {target}"), holds: value <= target }
    }
}

#[derive(Debug, Clone, Copy)]
struct Times {
    /// Until all switches hold the program.
    ready: f64,
    /// Until all links and hosts are known as well.
    discovery: f64,
    /// From the first join of 64 to the last assignment: trees are installed and read back then.
    install: f64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match std::env::var_os(INSIDE) {
        None => outside(),
        Some(_) => inside(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Runs this program again in fresh namespaces.
fn outside() -> Result<ExitCode, Box<dyn Error>> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]).arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    let status = command.env(INSIDE, "1").status().map_err(|error| format!("unshare: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn inside(args: &Args) -> Result<(), Box<dyn Error>> {
    wire()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (mut checks, mut rows) = (Vec::new(), Vec::new());
    let mut report = json!({});
    if args.part != Part::Large {
        let mut times = Vec::new();
        for run in 1..=args.runs.max(1) {
            eprintln!("20 switches, run {run} of {} ...", args.runs.max(1));
            times.push(runtime.block_on(run_once())?);
        }
        report["small"] = small(&times, &mut checks, &mut rows);
    }
    if args.part != Part::Small {
        eprintln!("200 switches ...");
        let large = runtime.block_on(large::run())?;
        report["large"] = large.report;
        checks.extend(large.checks);
        rows.push(("200 simulated switches, 2,000 hosts".to_owned(), None));
        rows.extend(large.rows.into_iter().map(|(name, value, unit)| (name, Some((value, unit)))));
    }
    report["checks"] = serde_json::to_value(&checks)?;
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/reports/bench-controller.json"));
    std::fs::create_dir_all(file.parent().unwrap_or(&file))?;
    std::fs::write(&file, format!("{report:#}\n"))?;
    if args.json {
        println!("{report:#}");
        return Ok(());
    }
    for (name, value) in rows {
        match value {
            None => println!("\n{name}"),
            Some((value, unit)) => println!("  {name:<52} {value:>9.3} {unit}"),
        }
    }
    println!();
    for Check { name, value, target, holds } in &checks {
        let holds = if *holds { "holds" } else { "NO" };
        println!("{holds:<6} {name:<72} {value:>8.2} {target}");
    }
    Ok(())
}

/// A line of the table: a heading, or a value with its unit.
type Row = (String, Option<(f64, &'static str)>);

fn small(times: &[Times], checks: &mut Vec<Check>, rows: &mut Vec<Row>) -> serde_json::Value {
    let worst = |of: fn(&Times) -> f64| times.iter().map(of).fold(0.0, f64::max);
    let (ready, discovery, install) =
        (worst(|times| times.ready), worst(|times| times.discovery), worst(|times| times.install));
    rows.push((
        format!(
            "{} embedded switches, {} links, {} hosts, {JOBS} jobs of {RANKS} ranks; slowest of {} runs",
            LEAVES + SPINES,
            LEAVES * SPINES,
            LEAVES * HOSTS_PER_LEAF,
            times.len()
        ),
        None,
    ));
    rows.push(("all switches hold the program".to_owned(), Some((ready, "s"))));
    rows.push(("all links and hosts are known".to_owned(), Some((discovery, "s"))));
    rows.push(("trees of all jobs, first join to last assignment".to_owned(), Some((install, "s"))));
    checks.push(Check::at_most("discovery of 20 switches and 64 hosts, s", discovery, DISCOVERY_GOAL));
    checks.push(Check::at_most("installation of the trees of 8 jobs, s", install, INSTALL_GOAL));
    let runs: Vec<_> = times
        .iter()
        .map(|times| json!({"ready_s": times.ready, "discovery_s": times.discovery, "install_s": times.install}))
        .collect();
    json!({
        "switches": LEAVES + SPINES, "links": LEAVES * SPINES, "hosts": LEAVES * HOSTS_PER_LEAF,
        "jobs": JOBS, "ranks_per_job": RANKS, "runs": runs,
        "worst": {"ready_s": ready, "discovery_s": discovery, "install_s": install},
    })
}

fn cable(leaf: u16, spine: u16) -> (String, String) {
    (format!("l{leaf}s{spine}"), format!("s{spine}l{leaf}"))
}

fn wire() -> Result<(), Box<dyn Error>> {
    let mut batch = "link set lo up\n".to_owned();
    for leaf in 1..=LEAVES {
        for spine in 1..=SPINES {
            let (a, b) = cable(leaf, spine);
            let _ = writeln!(batch, "link add {a} type veth peer name {b}\nlink set {a} up\nlink set {b} up");
        }
    }
    // Nobody but the switches is to speak.
    let _ = Command::new("sysctl")
        .args(["-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"])
        .stderr(Stdio::null())
        .status();
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    ip.stdin.take().ok_or("ip: no input")?.write_all(batch.as_bytes())?;
    match ip.wait()?.success() {
        true => Ok(()),
        false => Err("ip could not make the cables".into()),
    }
}

/// Ends its switch.
struct Switch {
    handle: SwitchHandle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        let _ = self.handle.stop();
    }
}

async fn switch(device_id: u16, interfaces: Vec<String>) -> Result<(Switch, SocketAddr), Box<dyn Error>> {
    let config = SwitchConfig { device_id: device_id.into(), ..SwitchConfig::default() };
    let ports: Vec<_> = (1..)
        .zip(interfaces)
        .map(|(port, interface)| PortSpec { port, interface, receive: Receive::default() })
        .collect();
    let running = runtime::start(config, &ports, &Loss::default(), None)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (address, server) = p4runtime::bind(running.handle.clone(), running.events, any, stopped).await?;
    tokio::spawn(server);
    Ok((Switch { handle: running.handle, stop: Some(stop) }, address))
}

fn host(number: u16) -> (Ipv4Addr, MacAddr) {
    (Ipv4Addr::from(0x0A00_0001 + u32::from(number)), MacAddr([2, 0, 0, 0, 0, number as u8]))
}

async fn run_once() -> Result<Times, Box<dyn Error>> {
    let mut switches = Vec::new();
    let mut text =
        format!("listen: ['127.0.0.1:0']\ndiscovery: {{ports: {}}}\nswitches:\n", LEAVES + HOSTS_PER_LEAF);
    for device in 1..=LEAVES + SPINES {
        let interfaces = match device.checked_sub(LEAVES) {
            None | Some(0) => (1..=SPINES).map(|spine| cable(device, spine).0).collect(),
            Some(spine) => (1..=LEAVES).map(|leaf| cable(leaf, spine).1).collect(),
        };
        let (switch, address) = switch(device, interfaces).await?;
        switches.push(switch);
        let _ = writeln!(text, "  - {{name: s{device}, target: '{address}', device_id: {device}}}");
    }
    let begun = Instant::now();
    let controller = Controller::start(Inventory::from_text("bench", &text)?).await?;
    let (ready, discovery) = found(&controller, &switches, begun).await?;
    let install = installed(controller.addresses()[0]).await?;
    controller.stop().await;
    Ok(Times { ready, discovery, install })
}

/// Waits until everything is known; hosts announce themselves until they are.
async fn found(
    controller: &Controller,
    switches: &[Switch],
    begun: Instant,
) -> Result<(f64, f64), Box<dyn Error>> {
    let (mut ready, mut announced) = (None, None::<Instant>);
    while begun.elapsed() < PATIENCE {
        let status = controller.status().await.ok_or("the controller has ended")?;
        if ready.is_none() && status.switches.iter().all(|switch| switch.state == "ready") {
            ready = Some(begun.elapsed().as_secs_f64());
        }
        let hosts = usize::from(LEAVES * HOSTS_PER_LEAF);
        if let Some(ready) = ready
            && status.links.len() == usize::from(2 * LEAVES * SPINES)
            && status.hosts.len() == hosts
        {
            return Ok((ready, begun.elapsed().as_secs_f64()));
        }
        if announced.is_none_or(|at| at.elapsed() >= ANNOUNCE) && status.hosts.len() < hosts {
            announced = Some(Instant::now());
            for number in 0..LEAVES * HOSTS_PER_LEAF {
                let (address, mac) = host(number);
                let port = SPINES + 1 + number % HOSTS_PER_LEAF;
                let frame = Arp::request(mac, address, address).emit();
                switches[usize::from(number / HOSTS_PER_LEAF)].handle.inject(port, frame)?;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err("not everything was found".into())
}

/// All ranks of all jobs join at once; returns when each has its trees.
async fn installed(address: SocketAddr) -> Result<f64, Box<dyn Error>> {
    let client = ControllerClient::connect(format!("http://{address}")).await?;
    let begun = Instant::now();
    let mut ranks = tokio::task::JoinSet::new();
    for job in 0..JOBS {
        for rank in 0..RANKS {
            // A job's ranks are at leaves of their own.
            let (address, _) = host(rank * JOBS + job);
            ranks.spawn(tokio::time::timeout(PATIENCE, join(client.clone(), job, rank, address)));
        }
    }
    let mut streams = Vec::new();
    while let Some(joined) = ranks.join_next().await {
        streams.push(joined??.map_err(|error| -> Box<dyn Error> { error.into() })?);
    }
    Ok(begun.elapsed().as_secs_f64())
}

async fn join(
    mut client: ControllerClient<Channel>,
    job: u16,
    rank: u16,
    address: Ipv4Addr,
) -> Result<tonic::Streaming<api::JoinEvent>, String> {
    let request = api::JoinRequest {
        job: format!("job{job}"),
        rank: rank.into(),
        world_size: RANKS.into(),
        format: api::Format::Bfp16.into(),
        chunk_words: 5,
        host_address: address.to_string(),
        host_udp_port: 4000,
        protocol_version: inca_wire::packet::VERSION.into(),
        ..Default::default()
    };
    let mut stream = client.join(request).await.map_err(|status| status.to_string())?.into_inner();
    loop {
        match stream.message().await.map_err(|status| status.to_string())?.and_then(|event| event.event) {
            Some(Event::Assignment(_)) => return Ok(stream),
            Some(Event::Waiting(_) | Event::Membership(_)) => {}
            other => return Err(format!("{other:?}")),
        }
    }
}
