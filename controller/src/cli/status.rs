//! `inca-controller status`: tables for people, JSON for programs, waiting for scripts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clap::Args;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::{self as api, StatusResponse};
use inca_wire::packet::Format;
use serde_json::{Value, json};
use tonic::transport::Channel;

/// Time between two looks while waiting.
const LOOK: Duration = Duration::from_millis(100);

/// What to show, or to wait for.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The controller's API; `http://` may come before it.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051", env = "INCA_CONTROLLER")]
    controller: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
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
pub(crate) async fn run(args: StatusArgs) -> Result<(), Box<dyn std::error::Error>> {
    let timeout = Duration::try_from_secs_f64(args.timeout)
        .map_err(|_| format!("--timeout is {}: must be a number of seconds from 0", args.timeout))?;
    let deadline = Instant::now() + timeout;
    let waits = args.wait_switches.is_some() || args.wait_links.is_some() || args.wait_hosts.is_some();
    let response = loop {
        let problem = match look(&args, deadline).await {
            Ok(response) => match args.missing(&response) {
                None => break response,
                Some(missing) => missing,
            },
            Err(error) if !waits => return Err(error.into()),
            Err(error) => error,
        };
        if Instant::now() + LOOK > deadline {
            return Err(format!("gave up after {timeout:?}: {problem}").into());
        }
        tokio::time::sleep(LOOK).await;
    };
    if args.json {
        println!("{:#}", to_json(&response));
    } else {
        print!("{}", tables(&response, args.counters));
    }
    Ok(())
}

async fn look(args: &StatusArgs, deadline: Instant) -> Result<StatusResponse, String> {
    let target = format!("http://{}", args.controller.trim_start_matches("http://"));
    let call = async {
        let endpoint = Channel::from_shared(target)
            .map_err(|error| format!("controller {}: {error}", args.controller))?;
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| format!("controller {}: {}", args.controller, chain(&error)))?;
        let mut client = ControllerClient::new(channel).max_decoding_message_size(64 << 20);
        let response = client.status(api::StatusRequest { counters: args.counters }).await;
        response
            .map(tonic::Response::into_inner)
            .map_err(|status| format!("controller {}: {}", args.controller, status.message()))
    };
    let patience = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(500));
    let slow = |_| format!("controller {}: no answer within {patience:?}", args.controller);
    tokio::time::timeout(patience, call).await.map_err(slow)?
}

/// An error with its causes: the transport's own says no more than "transport error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl StatusArgs {
    /// What is waited for and not there yet.
    fn missing(&self, response: &StatusResponse) -> Option<String> {
        let ready = response.switches.iter().filter(|switch| switch.state == "ready").count();
        if self.wait_switches.is_some_and(|wanted| ready < wanted) {
            let others = response.switches.iter().filter(|switch| switch.state != "ready");
            let others: Vec<_> = others.map(|switch| format!("{}: {}", switch.name, switch.state)).collect();
            return Some(format!("{ready} switches are ready ({})", others.join("; ")));
        }
        let links = cables(response).len();
        if self.wait_links.is_some_and(|wanted| links < wanted) {
            return Some(format!("{links} links work both ways"));
        }
        let hosts = response.hosts.len();
        self.wait_hosts.is_some_and(|wanted| hosts < wanted).then(|| format!("{hosts} hosts are known"))
    }
}

type End = (String, u32);

/// Links that work both ways, each once.
fn cables(response: &StatusResponse) -> BTreeSet<(End, End)> {
    let directions: BTreeSet<(End, End)> = response
        .links
        .iter()
        .map(|link| ((link.from_switch.clone(), link.from_port), (link.to_switch.clone(), link.to_port)))
        .collect();
    let both = directions.iter().filter(|(a, b)| a < b && directions.contains(&(b.clone(), a.clone())));
    both.cloned().collect()
}

fn tables(response: &StatusResponse, counters: bool) -> String {
    let mut text = String::new();
    let switches = response.switches.iter().map(|switch| {
        let slots = format!("{}/{}", switch.slots_used, switch.slots_total);
        vec![
            switch.name.clone(),
            switch.device_id.to_string(),
            switch.target.clone(),
            switch.service_address.clone(),
            slots,
            switch.state.clone(),
        ]
    });
    text += &table(&["SWITCH", "DEVICE", "TARGET", "SERVICE ADDRESS", "SLOTS", "STATE"], switches);
    let both = cables(response);
    let links = response.links.iter().filter_map(|link| {
        let from = (link.from_switch.clone(), link.from_port);
        let to = (link.to_switch.clone(), link.to_port);
        let works = both.contains(&(from.clone(), to.clone())) || both.contains(&(to.clone(), from.clone()));
        let note = if works { "both ways" } else { "one way only" };
        // Each cable once.
        (!works || from < to)
            .then(|| vec![format!("{}:{}", from.0, from.1), format!("{}:{}", to.0, to.1), note.to_owned()])
    });
    text += &table(&["LINK", "TO", "STATE"], links);
    let hosts = response.hosts.iter().map(|host| {
        vec![host.address.clone(), host.mac.clone(), format!("{}:{}", host.switch_name, host.port)]
    });
    text += &table(&["HOST", "MAC", "AT"], hosts);
    let jobs = response.jobs.iter().map(|job| {
        let name =
            if job.group.is_empty() { job.name.clone() } else { format!("{}/{}", job.name, job.group) };
        vec![
            name,
            job.generation.to_string(),
            format!("{}/{}", job.joined_ranks.len(), job.world_size),
            format_name(job.format()).to_owned(),
            job.chunk_words.to_string(),
            job.state.clone(),
            tree(job),
        ]
    });
    text += &table(&["JOB", "GENERATION", "RANKS", "FORMAT", "WORDS", "STATE", "TREE"], jobs);
    if counters {
        let rows = response.switches.iter().flat_map(|switch| {
            let mut counters: Vec<_> = switch.counters.iter().filter(|(_, count)| **count > 0).collect();
            counters.sort();
            counters
                .into_iter()
                .map(|(name, count)| vec![switch.name.clone(), name.clone(), count.to_string()])
        });
        text += &table(&["SWITCH", "EVENT", "PACKETS"], rows);
    }
    text
}

/// `spine1(leaf1[0 1] leaf2[2])`: the root first, ranks in brackets.
fn tree(job: &api::Job) -> String {
    fn draw(job: &api::Job, node: &api::TreeNode) -> String {
        let below: Vec<_> = job
            .tree
            .iter()
            .filter(|child| child.tree_id == node.tree_id && child.parent == node.switch_name)
            .map(|child| draw(job, child))
            .collect();
        let ranks: Vec<_> = node.ranks.iter().map(u32::to_string).collect();
        let ranks = if ranks.is_empty() { String::new() } else { format!("[{}]", ranks.join(" ")) };
        let below = if below.is_empty() { String::new() } else { format!("({})", below.join(" ")) };
        format!("{}{ranks}{below}", node.switch_name)
    }
    let roots = job.tree.iter().filter(|node| node.parent.is_empty());
    roots.map(|root| draw(job, root)).collect::<Vec<_>>().join(" ")
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|title| (*title).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text.push('\n');
    text
}

fn format_name(format: api::Format) -> &'static str {
    let format = u8::try_from(i32::from(format)).ok().and_then(|number| Format::try_from(number).ok());
    format.map_or("?", Format::name)
}

/// The field names of the API.
fn to_json(response: &StatusResponse) -> Value {
    let switches = response.switches.iter().map(|switch| {
        json!({
            "name": switch.name, "device_id": switch.device_id, "target": switch.target, "state": switch.state,
            "ports": switch.ports, "counters": switch.counters, "service_address": switch.service_address,
            "slots_used": switch.slots_used, "slots_total": switch.slots_total,
        })
    });
    let links = response.links.iter().map(|link| {
        json!({
            "from_switch": link.from_switch, "from_port": link.from_port,
            "to_switch": link.to_switch, "to_port": link.to_port,
        })
    });
    let hosts = response.hosts.iter().map(|host| {
        json!({ "address": host.address, "mac": host.mac, "switch_name": host.switch_name, "port": host.port })
    });
    let jobs = response.jobs.iter().map(|job| {
        let tree = job.tree.iter().map(|node| {
            json!({
                "tree_id": node.tree_id, "switch_name": node.switch_name, "parent": node.parent,
                "ranks": node.ranks, "child_switches": node.child_switches,
            })
        });
        json!({
            "name": job.name, "group": job.group, "world_size": job.world_size, "format": format_name(job.format()),
            "chunk_words": job.chunk_words, "generation": job.generation, "state": job.state,
            "joined_ranks": job.joined_ranks, "tree": tree.collect::<Vec<_>>(), "fallback": job.fallback,
        })
    });
    json!({
        "switches": switches.collect::<Vec<_>>(), "links": links.collect::<Vec<_>>(),
        "hosts": hosts.collect::<Vec<_>>(), "jobs": jobs.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
