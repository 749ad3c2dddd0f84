//! `inca doctor`: what is not as it should be, each with a remedy.
//!
//! Three looks: at what the controller sees, always; at the switches themselves, by P4Runtime (`--switches`); from a host at its
//! interface and at the paths to other hosts (`--interface`, `--host`).

mod host;
mod switches;

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::plan::PATIENCE;
use super::table::table;
use super::{CliError, Target, print, print_json, show, status};
use crate::api::model::Status;
use crate::api::now_ms;

/// Clocks may differ by so much: more, and logs of several machines can't be compared.
const CLOCK: Duration = Duration::from_secs(1);
/// Slots of a switch in use above which new jobs may find no room, in percent.
const FULL: u32 = 90;

/// Options of `inca doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  inca doctor                                        what the controller sees
  inca doctor --switches                             and what each switch says, where its P4Runtime is reached from here
  inca doctor --local --interface eth1 --host all    on a host, also without a controller: offloads, reachability, MTU of each path")]
pub(super) struct DoctorArgs {
    /// Ask each switch at its P4Runtime address (in clear text): does it answer, and is its program the one of this version
    #[arg(long, conflicts_with = "local")]
    switches: bool,
    /// A data-plane interface of this machine: are offloads and IPv6 off; may be repeated
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Hosts by their data-plane addresses, separated by commas or repeated: are they reached, with packets of which size; `all`
    /// are those that the controller knows
    #[arg(long = "host", value_name = "ADDRESS", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Look at this machine alone, without a controller
    #[arg(long)]
    local: bool,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    what: String,
    remedy: String,
}

impl Finding {
    fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// Event counters that should stay at 0, and what moves them.
const COUNTERS: [(&str, &str); 3] = [
    (
        "drop_bad_length",
        "MTUs differ along a path (inca doctor --host all, on a host), or offloads are on: ethtool -K IF tso off gso off gro off lro off tx off rx off sg off",
    ),
    ("drop_bad_version", "an agent of another version sends: install the same version everywhere"),
    (
        "drop_not_admitted",
        "a host moved to another port, or packets are forged: compare `inca hosts` with the cabling",
    ),
];

/// Prints findings; their number is the error.
pub(super) async fn doctor(target: &Target, args: &DoctorArgs) -> Result<(), CliError> {
    let (mut findings, mut looked) = (Vec::new(), Vec::new());
    let mut hosts = args.hosts.clone();
    if !args.local {
        let asked = now_ms();
        let status = status::look(target, true, Instant::now() + PATIENCE).await?;
        findings.extend(examine(&status, (asked, now_ms())));
        let (switches, known) = (status.switches.len(), status.hosts.len());
        looked.push(format!("{switches} switches, {known} hosts, {} links", links(&status)));
        if args.switches {
            findings.extend(switches::examine(&status.switches).await?);
            looked.push(format!("P4Runtime and program of {switches} switches"));
        }
        if hosts.iter().any(|host| host == "all") {
            hosts = status.hosts.into_iter().map(|host| host.address).collect();
        }
    }
    if hosts.iter().any(|host| host == "all") {
        return Err(CliError::Option(
            "--host all takes a controller that knows them: leave --local out".into(),
        ));
    }
    let is_host = args.local || !args.interfaces.is_empty() || !hosts.is_empty();
    if is_host {
        let interfaces = args.interfaces.clone();
        let examined = tokio::task::spawn_blocking(move || host::examine(&interfaces, &hosts)).await;
        let (found, seen) = examined.map_err(std::io::Error::other)??;
        findings.extend(found);
        looked.extend(seen);
    }
    if target.json {
        print_json(&findings)?;
    } else if findings.is_empty() {
        print(&format!("{}: nothing is wrong\n", looked.join("; ")))?;
    } else {
        let rows = findings.iter().map(|finding| vec![finding.what.clone(), finding.remedy.clone()]);
        print(&table(&["FINDING", "REMEDY"], rows))?;
    }
    if findings.is_empty() { Ok(()) } else { Err(CliError::Findings(findings.len())) }
}

fn links(status: &Status) -> usize {
    show::cables(&status.links).len()
}

/// What is wrong. `asked`: this machine's clock before and after the answer, in milliseconds since 1970.
fn examine(status: &Status, asked: (u64, u64)) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |what: String, remedy: &str| findings.push(Finding::new(what, remedy));
    if !status.in_charge {
        find("this controller stands by".to_owned(), "ask the one that is in charge, or stop that one");
    }
    if status.controller_version != env!("CARGO_PKG_VERSION") {
        let (there, here) = (&status.controller_version, env!("CARGO_PKG_VERSION"));
        find(
            format!("the controller is version {there}, this command {here}"),
            "install the same version of both",
        );
    }
    let limit = CLOCK.as_millis() as u64;
    if status.time_ms + limit < asked.0 || status.time_ms > asked.1 + limit {
        let apart = status.time_ms.abs_diff(asked.0) / 1000;
        find(
            format!("the controller's clock is {apart} s from this machine's"),
            "synchronise both, as by chrony",
        );
    }
    for switch in &status.switches {
        let name = &switch.name;
        // What a controller that stands by has of its switches is said above.
        let left_alone = !status.in_charge && switch.state.starts_with("standby");
        if switch.state != "ready" && !left_alone {
            let remedy = "is its process running, and its P4Runtime address right in the inventory?";
            find(format!("switch {name}: {}", switch.state), remedy);
        }
        let linked = status.links.iter().any(|link| [&link.from_switch, &link.to_switch].contains(&name));
        if switch.state == "ready" && status.switches.len() > 1 && !linked {
            find(
                format!("switch {name} has no link to another switch"),
                "is it cabled to one, are its interfaces up, and is the process of the switch at the other end alive?",
            );
        }
        if switch.slots_used * 100 > switch.slots_total * FULL {
            let share = format!("{} of {} slots are in use", switch.slots_used, switch.slots_total);
            find(
                format!("switch {name}: {share}"),
                "lower trees.slots_per_tree, or end jobs: inca jobs, inca end JOB",
            );
        }
        for (counter, remedy) in COUNTERS {
            if let Some(count) = switch.counters.get(counter).filter(|count| **count > 0) {
                find(format!("switch {name}: {count} packets ended as {counter}"), remedy);
            }
        }
    }
    let both = show::cables(&status.links);
    for link in &status.links {
        let (from, to) = ((link.from_switch.clone(), link.from_port), (link.to_switch.clone(), link.to_port));
        if !both.contains(&(from.clone(), to.clone())) && !both.contains(&(to.clone(), from.clone())) {
            let what = format!(
                "the link from {} port {} to {} port {} works one way only",
                from.0, from.1, to.0, to.1
            );
            find(what, "look at the cable, and at both interfaces: are they up, with the same MTU?");
        }
    }
    if status.hosts.is_empty() {
        find("no host is known".to_owned(), "hosts are learnt when they speak: ping something from each");
    }
    for job in &status.jobs {
        let name = &job.name;
        if job.state.starts_with("waiting") {
            find(format!("job {name}: {}", job.state), "start the missing ranks, or end it: inca end JOB");
        }
        if !job.fallback.is_empty() && !job.state.starts_with("closed") {
            find(
                format!("job {name} has no tree: {}", job.fallback),
                "see the reason; it runs as a ring of its hosts",
            );
        }
    }
    findings
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
