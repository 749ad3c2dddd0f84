//! The command `inca-controller`.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use inca_controller::cli::Target;
use inca_controller::cli::status::{self, StatusArgs};
use inca_controller::control::Controller;
use inca_controller::inventory::Inventory;
use tracing_subscriber::EnvFilter;

/// Controls the switches of an inca fabric.
///
/// Connects to every switch of the inventory over P4Runtime, pushes the P4 program where it differs, finds links and hosts,
/// routes ordinary traffic, and gives jobs their reduction trees. Agents and operators reach it over gRPC (proto/inca/v1), people and scripts over REST at the same address
/// (http://ADDRESS/docs) or with the command `inca`.
///
/// It runs until it is interrupted (Ctrl-C, SIGTERM) and may be restarted at any time: ordinary traffic and sums go on meanwhile. With
/// --store the next one takes over running groups; without, they end with an error at all their ranks.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "An inventory:

  switches:
    - {name: leaf1, target: 127.0.0.1:9559, device_id: 1}
    - {name: leaf2, target: 127.0.0.1:9560, device_id: 2, ports: [1, 2, 3]}
  # Everything below is optional; these are the defaults.
  listen: [127.0.0.1:50051]
  service_subnet: 10.255.0.0/16        # service address of device d: address number d
  announce_address: 10.255.255.254     # default: the subnet's last one
  discovery: {ports: 32, probe_interval_ms: 200, link_timeout_ms: 1400}
  trees: {slots_per_tree: 16, stripes: 1, resend_interval_ms: 3, leave_linger_ms: 1500}
  failure: {attach_grace_ms: 500, report_timeout_ms: 2000, patience_ms: 8000}
  # Remembers groups and topology for the next controller; default: none.
  # store: controller.redb
  # What one tenant may have at a time: groups, and slots of any one switch; default 0: no limit.
  # limits: {groups_per_tenant: 8, slots_per_tenant: 1024}
  # Tokens, TLS, who changed what: docs/security.md; default: none of it.
  # security: {tokens: tokens.yaml, audit: audit.jsonl}
  # Instead of the program built in:
  # pipeline: {json: inca.json, p4info: inca.p4info.txtpb}
  # Hosts that shall not be learnt:
  # hosts: [{name: h1, address: 10.0.0.1, mac: '02:00:00:00:00:01', switch: leaf1, port: 3}]

Logs go to the standard error; RUST_LOG chooses what (default: info). The standard output gets one line per listen address
and `ready: N switches, M links` once every switch is under control and no more links are found."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The inventory: a YAML file, see below.
    #[arg(long, value_name = "FILE", required = true)]
    inventory: Option<PathBuf>,
    /// Where the northbound API listens, instead of the inventory's addresses; may be repeated.
    #[arg(long, value_name = "IP:PORT")]
    listen: Vec<SocketAddr>,
    /// The file in which this controller remembers running groups and the topology, so that the next one takes them over: a
    /// redb database, made if it is not there [default: the inventory's `store`, or none: a restart ends all groups]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Stand by while another controller is in charge of the switches, and take over when it has gone
    #[arg(long)]
    standby: bool,
    /// How logs are written.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// One line per event, for people.
    Text,
    /// One JSON object per event, for programs.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check an inventory and start nothing.
    Check {
        /// The inventory.
        file: PathBuf,
    },
    /// Show switches, links, hosts and jobs, or wait for them; `inca status` is the same.
    Status {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        args: StatusArgs,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Check { file }) => check(&file),
        Some(Command::Status { target, args }) => status::run(&target, args).await.map_err(Failure::from),
        None => run(cli.run).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn check(file: &std::path::Path) -> Result<(), Failure> {
    let inventory = Inventory::from_file(file)?;
    inca_controller::program::load(inventory.pipeline.as_ref())?;
    inca_controller::api::check_files(&inventory.security)?;
    println!(
        "{}: {} switches, {} hosts: ok",
        file.display(),
        inventory.switches.len(),
        inventory.hosts.len()
    );
    Ok(())
}

async fn run(args: RunArgs) -> Result<(), Failure> {
    start_logs(args.log_format);
    let file = args.inventory.ok_or("--inventory is missing")?;
    let mut inventory = Inventory::from_file(file)?;
    if !args.listen.is_empty() {
        inventory.listen = args.listen;
    }
    inventory.store = args.store.or(inventory.store);
    inventory.standby = args.standby;
    let settle = inventory.discovery.probe_interval.max(Duration::from_millis(500));
    let controller = Controller::start(inventory).await?;
    for address in controller.addresses() {
        println!("listening on {address}");
    }
    let interrupted = interrupted()?;
    tokio::pin!(interrupted);
    tokio::select! {
        (switches, links) = controller.ready(settle) => {
            println!("ready: {switches} switches, {links} links");
            interrupted.await;
        }
        () = &mut interrupted => {}
    }
    tracing::info!("ending");
    controller.stop().await;
    Ok(())
}

/// Resolves on Ctrl-C or SIGTERM.
fn interrupted() -> Result<impl Future<Output = ()>, std::io::Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

fn start_logs(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().init(),
    }
}
