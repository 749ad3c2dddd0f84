//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use inca_p4runtime::client::{Client, ClientConfig, Pipeline};
use inca_switch::SwitchConfig;
use inca_switch::ports::{Loss, LossRule, PortSpec, Receive};
use inca_switch::runtime::{MAX_THREADS, Stats};

/// A software switch for programs that p4c compiled for BMv2 (v1model), with a P4Runtime server.
///
/// Give each port a network interface (needs CAP_NET_RAW). Without --json the switch waits for a controller to set the
/// forwarding pipeline. Turn offloads off first, or frames arrive without checksums and in lumps:
/// `ethtool -K eth1 tx off tso off gso off gro off`.
///
/// Example: inca-switch --device-id 1 -i 1@eth1 -i 2@eth2 --p4runtime-addr 127.0.0.1:9559
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// P4Runtime device id
    #[arg(long, default_value_t = 0)]
    pub(crate) device_id: u64,

    /// A port and its interface, as in 1@eth1; may be repeated. Ports are 0 to 510
    #[arg(short = 'i', long = "interface", value_name = "PORT@IFACE")]
    pub(crate) interfaces: Vec<PortSpec>,

    /// Where the P4Runtime server listens (gRPC); port 0: any free port
    #[arg(long, default_value = "127.0.0.1:9559", value_name = "ADDR:PORT")]
    pub(crate) p4runtime_addr: SocketAddr,

    /// How frames come in: ring (memory shared with the kernel, 2 to 4 MiB a port) or calls (a system call for each batch)
    #[arg(long, default_value = "ring", env = "INCA_SWITCH_RECEIVE", value_name = "ring|calls")]
    receive: Receive,

    /// P4Runtime over TLS: this server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "json")]
    tls_cert: Option<PathBuf>,

    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The authority whose certificates controllers must show (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// Port of packet-in and packet-out
    #[arg(long, default_value_t = 255, value_parser = clap::value_parser!(u16).range(1..=510))]
    pub(crate) cpu_port: u16,

    /// Packet threads; more than one need --order-by
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_THREADS as u64))]
    threads: usize,

    /// Header field that decides which thread processes a packet, as in inca.slot: packets of one value stay in order and share
    /// registers. Packets without it are the first thread's
    #[arg(long, value_name = "HEADER.FIELD", requires = "threads")]
    order_by: Option<String>,

    /// Run this program from the start: the JSON that p4c-bm2-ss wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The program's P4Info, so that controllers find the pipeline set
    #[arg(long, value_name = "FILE", requires = "json")]
    pub(crate) p4info: Option<PathBuf>,

    /// Lose frames with this probability, on every port and in both directions
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    loss: f64,

    /// Loss of one direction of one port, as in 1:rx:0.1; may be repeated
    #[arg(long, value_name = "PORT:rx|tx:P")]
    loss_port: Vec<LossRule>,

    /// Seed of the losses: the same seed loses the same frames of each port and direction
    #[arg(long, default_value_t = 1, value_name = "N")]
    loss_seed: u64,

    /// Seed of the program's random()
    #[arg(long, default_value_t = 0, value_name = "N")]
    random_seed: u64,

    /// What to log, to standard error: error, warn, info, debug, trace, or filters as in inca_switch=debug
    #[arg(long, default_value = "info", env = "INCA_SWITCH_LOG")]
    pub(crate) log: String,
}

impl Args {
    /// More threads than one must know what they may share.
    pub(crate) fn check(&self) -> Result<(), clap::Error> {
        if self.threads > 1 && self.order_by.is_none() {
            let message = format!(
                "--threads {} needs --order-by: the header field whose values the threads share, as in --order-by inca.slot\n",
                self.threads
            );
            return Err(clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, message));
        }
        Ok(())
    }

    /// TLS of the P4Runtime server, if it is asked for.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<tonic::transport::ServerTlsConfig>> {
        use tonic::transport::{Certificate, Identity, ServerTlsConfig};
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| path.display().to_string());
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let config = ServerTlsConfig::new().identity(Identity::from_pem(read(cert)?, read(key)?));
        Ok(Some(match &self.tls_client_ca {
            None => config,
            Some(path) => config.client_ca_root(Certificate::from_pem(read(path)?)),
        }))
    }

    pub(crate) fn switch_config(&self) -> SwitchConfig {
        SwitchConfig {
            device_id: self.device_id,
            cpu_port: self.cpu_port,
            seed: self.random_seed,
            threads: self.threads,
            order_by: self.order_by.clone(),
            ..SwitchConfig::default()
        }
    }

    /// The ports, and how they receive.
    pub(crate) fn ports(&self) -> Vec<PortSpec> {
        let receive = self.receive;
        self.interfaces.iter().map(|spec| PortSpec { receive, ..spec.clone() }).collect()
    }

    pub(crate) fn loss(&self) -> anyhow::Result<Loss> {
        Loss::new(self.loss, &self.loss_port, self.loss_seed).context("--loss")
    }
}

/// Sets the pipeline of this switch's own server, as a controller would, so that others find it set.
pub(crate) async fn push_pipeline(address: SocketAddr, device_id: u64, args: &Args) -> anyhow::Result<()> {
    let (Some(json), Some(p4info)) = (&args.json, &args.p4info) else { return Ok(()) };
    let pipeline = Pipeline::from_files(p4info, json)?;
    // The lowest election id: any controller may take over.
    let config = ClientConfig::new("inca-switch", format!("http://{}", reachable(address)), device_id, 1);
    let (client, _events) = Client::connect(config).await.context("--p4info")?;
    client.ensure_pipeline(&pipeline).await.context("--p4info")?;
    Ok(())
}

/// Where a server that listens at any address can be reached from here.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback: std::net::IpAddr = match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(loopback, address.port())
    } else {
        address
    }
}

/// Logs the counters, at the end.
pub(crate) fn report(stats: &Stats) {
    for (port, s) in &stats.ports {
        tracing::info!(
            port,
            rx = s.rx_frames,
            tx = s.tx_frames,
            rx_lost = s.rx_lost,
            tx_lost = s.tx_lost,
            tx_failed = s.tx_failed,
            rx_truncated = s.rx_truncated,
            rx_dropped = s.rx_dropped,
            "frames"
        );
    }
    if stats.events_dropped + stats.unknown_port + stats.no_program + stats.handed_dropped > 0 {
        tracing::info!(
            events_dropped = stats.events_dropped,
            unknown_port = stats.unknown_port,
            no_program = stats.no_program,
            handed_dropped = stats.handed_dropped,
            "dropped"
        );
    }
}
