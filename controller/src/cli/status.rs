//! `inca status` and `inca-controller status`: everything at once, and waiting for scripts.

use std::time::{Duration, Instant};

use clap::Args;
use inca_p4runtime::northbound as api;

use super::{CliError, Target, print, print_json, show};
use crate::api::model::Status;

/// Time between two looks while waiting.
const LOOK: Duration = Duration::from_millis(100);

/// What to show, or to wait for.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Also read the switches' event counters.
    #[arg(long)]
    counters: bool,
    /// Wait until so many switches are ready.
    #[arg(long, value_name = "N")]
    wait_switches: Option<usize>,
    /// Wait until so many links work both ways.
    #[arg(long, value_name = "N")]
    wait_links: Option<usize>,
    /// Wait until so many hosts are known.
    #[arg(long, value_name = "N")]
    wait_hosts: Option<usize>,
    /// Give up after so many seconds, with an error that says what is missing.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    timeout: f64,
}

/// Runs the command.
pub async fn run(target: &Target, args: StatusArgs) -> Result<(), CliError> {
    let timeout = Duration::try_from_secs_f64(args.timeout).map_err(|_| {
        CliError::Option(format!("--timeout is {}: must be a number of seconds from 0", args.timeout))
    })?;
    let deadline = Instant::now() + timeout;
    let waits = args.wait_switches.is_some() || args.wait_links.is_some() || args.wait_hosts.is_some();
    let status = loop {
        let missing = match look(target, args.counters, deadline).await {
            Ok(status) => match args.missing(&status) {
                None => break status,
                Some(missing) => missing,
            },
            Err(error) if !waits => return Err(error),
            Err(error) => error.to_string(),
        };
        if Instant::now() + LOOK > deadline {
            return Err(CliError::GaveUp { after: timeout, missing });
        }
        tokio::time::sleep(LOOK).await;
    };
    match target.json {
        true => print_json(&status),
        false => print(&show::status(&status, args.counters)),
    }
}

/// One look, which takes no longer than until the deadline, or half a second.
pub(super) async fn look(target: &Target, counters: bool, deadline: Instant) -> Result<Status, CliError> {
    let patience = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(500));
    let call = async {
        let mut client = target.connect().await?;
        let answer = client.controller.status(api::StatusRequest { counters }).await;
        client.taken(answer).map(Status::from)
    };
    let reason = format!("no answer within {patience:?}");
    let slow = |_| CliError::Connect { controller: target.controller.clone(), reason };
    tokio::time::timeout(patience, call).await.map_err(slow)?
}

impl StatusArgs {
    /// What is waited for and not there yet.
    fn missing(&self, status: &Status) -> Option<String> {
        let ready = status.switches.iter().filter(|switch| switch.state == "ready").count();
        if self.wait_switches.is_some_and(|wanted| ready < wanted) {
            let others = status.switches.iter().filter(|switch| switch.state != "ready");
            let others: Vec<_> = others.map(|switch| format!("{}: {}", switch.name, switch.state)).collect();
            return Some(format!("{ready} switches are ready ({})", others.join("; ")));
        }
        let links = show::cables(&status.links).len();
        if self.wait_links.is_some_and(|wanted| links < wanted) {
            return Some(format!("{links} links work both ways"));
        }
        let hosts = status.hosts.len();
        self.wait_hosts.is_some_and(|wanted| hosts < wanted).then(|| format!("{hosts} hosts are known"))
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
