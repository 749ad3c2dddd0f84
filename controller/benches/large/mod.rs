//! A large fabric: 200 simulated switches in this process, 2,000 hosts, and the controller as the process that people run. Its memory
//! is that process's alone, as the kernel counts it.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use inca_controller::program;
use inca_p4runtime::northbound as api;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_wire::address::MacAddr;
use inca_wire::frame::Arp;
use serde_json::{Value, json};
use tonic::transport::Channel;

use simulated::{End, Fabric};

mod simulated;

/// Leaves and spines, all cabled to each other, and hosts, spread over the leaves.
const LEAVES: u16 = 192;
const SPINES: u16 = 8;
const HOSTS: u16 = 2000;
/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(100);
/// Hosts announce themselves so often until they are known.
const ANNOUNCE: Duration = Duration::from_secs(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// How long nothing happens, while no link may seem lost.
const QUIET: Duration = Duration::from_secs(10);
/// Goal: resident memory of the controller, in megabytes.
const MEMORY_GOAL: f64 = 100.0;

/// Ends its process.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was measured.
pub(super) struct Large {
    pub(super) report: Value,
    pub(super) rows: Vec<(String, f64, &'static str)>,
    pub(super) checks: Vec<super::Check>,
}

fn leaf_port(host: u16) -> End {
    (host % LEAVES + 1, SPINES + 1 + host / LEAVES)
}

fn host(number: u16) -> (Ipv4Addr, MacAddr) {
    let [high, low] = number.to_be_bytes();
    (Ipv4Addr::from(0x0A00_0001 + u32::from(number)), MacAddr([2, 0, 0, 1, high, low]))
}

/// Brings all of it up, lets it rest, adds a host, cuts a cable.
pub(super) async fn run() -> Result<Large, Box<dyn Error>> {
    let devices = 1..=LEAVES + SPINES;
    let cables: Vec<(End, End)> = (1..=LEAVES)
        .flat_map(|leaf| (1..=SPINES).map(move |spine| ((leaf, spine), (LEAVES + spine, leaf))))
        .collect();
    let fabric = Arc::new(Fabric::new(program::built_in()?.info, devices.clone(), &cables)?);
    let mut text = "listen: ['127.0.0.1:0']\nswitches:\n".to_owned();
    for device in devices {
        let address = fabric.serve(device).await?;
        let ports = if device > LEAVES { LEAVES } else { SPINES + HOSTS.div_ceil(LEAVES) + 1 };
        let ports: Vec<_> = (1..=ports).collect();
        let _ = writeln!(
            text,
            "  - {{name: s{device}, target: '{address}', device_id: {device}, ports: {ports:?}}}"
        );
    }
    let file = std::env::temp_dir().join(format!("inca-bench-{}.yaml", std::process::id()));
    std::fs::write(&file, text)?;
    let begun = Instant::now();
    let started = start(&file);
    let (process, address) = started?;
    let client = ControllerClient::connect(format!("http://{address}")).await?;
    let client = client.max_decoding_message_size(64 << 20);

    let directions = 2 * cables.len();
    let found = found(&client, &fabric, begun, directions).await?;
    let installed = installed(&fabric, usize::from(HOSTS), begun).await?;
    let _ = std::fs::remove_file(&file);
    let settled = memory(process.0.id())?;
    eprintln!("{found:.1} s: all is found, {installed:.1} s: all is installed; now nothing happens ...");

    let (probes, cpu) = (fabric.probes.load(Ordering::Relaxed), cpu_seconds(process.0.id())?);
    let quiet = Instant::now();
    tokio::time::sleep(QUIET).await;
    let took = quiet.elapsed().as_secs_f64();
    let probes = (fabric.probes.load(Ordering::Relaxed) - probes) as f64 / took;
    let cpu = (cpu_seconds(process.0.id())? - cpu) / took;
    let lost = events(address, "link_down")?;

    // One more host: what it costs is its own.
    let (number, appeared) = (HOSTS, Instant::now());
    announce(&fabric, number);
    let one_more = self::installed(&fabric, usize::from(HOSTS) + 1, appeared).await?;

    let cut = Instant::now();
    fabric.cut(cables[0].0, cables[0].1);
    while events(address, "link_down")? < lost + 2.0 {
        within(cut)?;
        tokio::time::sleep(LOOK).await;
    }
    let noticed = cut.elapsed().as_secs_f64();
    let peak = memory(process.0.id())?;
    let entries: usize = ["ipv4_lpm", "arp_proxy"].iter().map(|table| fabric.entries(table).1).sum();

    let rows = vec![
        ("all links and hosts are known".to_owned(), found, "s"),
        ("all switches hold all routes".to_owned(), installed, "s"),
        ("one more host: all switches hold its routes".to_owned(), one_more, "s"),
        ("a cut link is noticed".to_owned(), noticed, "s"),
        ("probes while nothing happens".to_owned(), probes, "/s"),
        ("processor while nothing happens".to_owned(), 100.0 * cpu, "% of a core"),
        ("controller's memory, resident".to_owned(), settled.0, "MB"),
        ("controller's memory, at its peak".to_owned(), peak.1, "MB"),
    ];
    let checks = vec![
        super::Check::at_most(
            "controller's memory at its peak, 200 switches and 2,000 hosts, MB",
            peak.1,
            MEMORY_GOAL,
        ),
        super::Check::at_most("links taken for broken while none was, 200 switches", lost, 0.0),
    ];
    let report = json!({
        "switches": LEAVES + SPINES, "links": cables.len(), "hosts": HOSTS, "entries_per_switch": entries,
        "found_s": found, "installed_s": installed, "one_more_host_s": one_more, "cut_noticed_s": noticed,
        "links_lost": lost, "probes_per_s": probes, "processor": cpu,
        "packets_dropped": fabric.dropped.load(Ordering::Relaxed),
        "resident_mb": settled.0, "peak_mb": peak.1,
    });
    Ok(Large { report, rows, checks })
}

/// The controller in a process of its own, and where its API is.
fn start(inventory: &std::path::Path) -> Result<(Process, SocketAddr), Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inca-controller"));
    command.arg("--inventory").arg(inventory).env("RUST_LOG", "error").stdout(Stdio::piped());
    let mut process = Process(command.spawn()?);
    let mut lines = BufReader::new(process.0.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let address =
        line.trim().strip_prefix("listening on ").ok_or("the controller does not listen")?.parse()?;
    // Whatever it says later must find a reader.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    Ok((process, address))
}

fn within(begun: Instant) -> Result<(), Box<dyn Error>> {
    match begun.elapsed() < PATIENCE {
        true => Ok(()),
        false => Err(format!("not within {PATIENCE:?}").into()),
    }
}

fn announce(fabric: &Fabric, number: u16) {
    let (address, mac) = host(number);
    fabric.announce(leaf_port(number), address, Arp::request(mac, address, address).emit());
}

async fn found(
    client: &ControllerClient<Channel>,
    fabric: &Fabric,
    begun: Instant,
    directions: usize,
) -> Result<f64, Box<dyn Error>> {
    let mut announced = None::<Instant>;
    loop {
        within(begun)?;
        let asked = client.clone().status(api::StatusRequest::default()).await;
        let status = asked.map_err(|status| status.to_string())?.into_inner();
        let ready = status.switches.iter().filter(|switch| switch.state == "ready").count();
        if ready == status.switches.len()
            && status.links.len() == directions
            && status.hosts.len() == usize::from(HOSTS)
        {
            return Ok(begun.elapsed().as_secs_f64());
        }
        if announced.is_none_or(|at| at.elapsed() >= ANNOUNCE) && ready == status.switches.len() {
            announced = Some(Instant::now());
            eprintln!(
                "{ready} switches, {} directions of links, {} hosts",
                status.links.len(),
                status.hosts.len()
            );
            (0..HOSTS).for_each(|number| announce(fabric, number));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until every switch has a route and an ARP entry for so many hosts and all other switches.
async fn installed(fabric: &Fabric, hosts: usize, begun: Instant) -> Result<f64, Box<dyn Error>> {
    let switches = usize::from(LEAVES + SPINES);
    // The announce address has no route, nor has a switch one to itself.
    let (routes, proxies) = (hosts + switches - 1, hosts + switches + 1);
    while fabric.entries("ipv4_lpm") != (routes, routes) || fabric.entries("arp_proxy") != (proxies, proxies)
    {
        if begun.elapsed() > PATIENCE {
            return Err(format!(
                "{:?} routes and {:?} arp entries where {routes} and {proxies} should be",
                fabric.entries("ipv4_lpm"),
                fabric.entries("arp_proxy")
            )
            .into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Resident memory and its peak so far, in megabytes of 10^6 bytes.
fn memory(pid: u32) -> Result<(f64, f64), Box<dyn Error>> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<f64, Box<dyn Error>> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
        let kib: f64 = line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024.0 / 1e6)
    };
    Ok((field("VmRSS")?, field("VmHWM")?))
}

/// Processor time that a process has had.
fn cpu_seconds(pid: u32) -> Result<f64, Box<dyn Error>> {
    /// Linux counts in hundredths of a second, whatever its clock is (proc(5), `sysconf(_SC_CLK_TCK)`).
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / TICKS)
}

/// How often something happened, from the controller's metrics.
fn events(address: SocketAddr, kind: &str) -> Result<f64, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if !text.contains("inca_events_total") {
        return Err(format!("no metrics: {}", text.lines().next().unwrap_or("")).into());
    }
    let name = format!("inca_events_total{{kind=\"{kind}\"}} ");
    Ok(text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0.0))
}
