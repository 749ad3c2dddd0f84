//! `inca topo` and `inca plan`.

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use inca_p4runtime::northbound as api;

use super::{CliError, Target, draw, print, print_json, status};
use crate::api::model::{Plan, format_number};

/// How a graph is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people.
    #[default]
    Text,
    /// For Graphviz: `inca topo -o dot | dot -Tsvg`.
    Dot,
    /// For programs; as `--json`.
    Json,
}

/// Options of `inca topo`.
#[derive(Debug, Args)]
pub(super) struct TopoArgs {
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Options of `inca plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// A job that is there, instead of --host: its ranks, format and chunks are taken where they are not given
    #[arg(long, default_value = "", required_unless_present = "hosts")]
    job: String,
    /// The group inside the job
    #[arg(long, default_value = "")]
    group: String,
    /// Data-plane addresses, one per rank in order; separated by commas, or repeated
    #[arg(long = "host", value_name = "ADDRESS", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Number format [default: the group's, or bfp16]
    #[arg(long, default_value = "", hide_default_value = true)]
    format: String,
    /// Words of 2048 bits per chunk [default: the group's, or 5]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    chunk_words: u32,
    /// Elements of one sum [default: one chunk]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    elements: u64,
    /// Plan anew with what is free now, instead of showing the trees that the group has. Nothing is installed either way
    #[arg(long)]
    dry_run: bool,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// How long one answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The network.
pub(super) async fn topo(target: &Target, args: &TopoArgs) -> Result<(), CliError> {
    let status = status::look(target, false, Instant::now() + PATIENCE).await?;
    let topology = draw::Topology::from(status);
    match args.output {
        Output::Json => print_json(&topology),
        _ if target.json => print_json(&topology),
        Output::Text => print(&topology.text()),
        Output::Dot => print(&topology.dot()),
    }
}

/// Trees, and what a sum puts on each link.
pub(super) async fn plan(target: &Target, args: PlanArgs) -> Result<(), CliError> {
    let format = format_number(&args.format);
    let format =
        format.ok_or_else(|| CliError::Option(format!("--format {:?}: there is none", args.format)))?;
    let request = api::PlanRequest {
        job: args.job,
        group: args.group,
        hosts: args.hosts,
        format,
        chunk_words: args.chunk_words,
        elements: args.elements,
        dry_run: args.dry_run,
    };
    let mut client = target.connect().await?;
    let answer = client.operator.plan(request).await;
    let plan = Plan::from(client.taken(answer)?);
    match args.output {
        Output::Json => print_json(&plan),
        _ if target.json => print_json(&plan),
        Output::Text => print(&draw::plan_text(&plan)),
        Output::Dot => print(&draw::plan_dot(&plan)),
    }
}
