//! The command `inca`: one word for each thing that the controller knows.

use std::time::Instant;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use inca_p4runtime::northbound as api;

use super::doctor::DoctorArgs;
use super::events::EventsArgs;
use super::plan::{PATIENCE, PlanArgs, TopoArgs};
use super::status::{self, StatusArgs};
use super::{CliError, Target, doctor, events, plan, print, print_json, show};
use crate::api::model::{Ended, Slots, Submitted, Tree, trees};
use crate::api::{Role, make_token};

/// Asks an inca controller: switches, links, hosts, jobs and their reduction trees.
#[derive(Debug, Parser)]
#[command(
    name = "inca",
    version,
    after_help = "Answers are tables, or with --json the documents of the REST API. Exit codes: 0 as asked, 1 not (the reason \
                  is on the standard error), 2 bad options."
)]
pub struct Cli {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The switches of the inventory, and their states
    Switches,
    /// Links between switches
    Links,
    /// Hosts that are known, and where they are attached
    Hosts,
    /// Groups of ranks that are there, then those that ended last
    Jobs {
        /// Only this job's
        job: Option<String>,
    },
    /// Reduction trees
    Trees {
        /// Only this job's
        job: Option<String>,
    },
    /// Slots in use, by switch
    Slots,
    /// Packets by switch and event
    Counters {
        /// Only this switch's
        switch: Option<String>,
    },
    /// The network as a graph
    Topo(TopoArgs),
    /// The trees that a group has or would get, and the bytes of a sum on each link
    Plan(PlanArgs),
    /// What happened, and what happens
    Events(EventsArgs),
    /// Keep a job's name for ranks that show the token which is printed: `inca-agent --job-token`, or INCA_JOB_TOKEN
    Submit {
        /// The job
        job: String,
        /// The name is free again once no rank has been there for so many seconds [default: a day]
        #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "SECONDS")]
        idle: u32,
    },
    /// End a job: each of its ranks gets an error with the reason
    End {
        /// The job
        job: String,
        /// Only this group of it; "" is the job's world
        #[arg(long)]
        group: Option<String>,
        /// What its ranks are told
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Everything at once, or wait for it
    Status(StatusArgs),
    /// Find out what is wrong, and what helps; exits with 1 if anything is
    Doctor(DoctorArgs),
    /// Make a token: it goes to the standard output, its entry for the token file to the standard error
    Token {
        /// Its name, for the audit log
        #[arg(long)]
        name: String,
        /// Whose jobs it is for; everybody's, if not given
        #[arg(long)]
        tenant: Option<String>,
        /// What it is good for
        #[arg(long, value_enum)]
        role: Role,
    },
    /// Print the OpenAPI document of the REST API
    Openapi,
    /// Print completions for a shell: source <(inca completions bash)
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Runs the command.
pub async fn run(cli: Cli) -> Result<(), CliError> {
    let target = &cli.target;
    match cli.command {
        Command::Switches => noun(target, false, |status| (status.switches, show::switches)).await,
        Command::Links => noun(target, false, |status| (status.links, show::links)).await,
        Command::Hosts => noun(target, false, |status| (status.hosts, show::hosts)).await,
        Command::Jobs { job } => {
            let wanted = |name: &str| job.as_deref().is_none_or(|job| job == name);
            noun(target, false, |mut status| {
                status.jobs.retain(|group| wanted(&group.name));
                (status.jobs, show::jobs)
            })
            .await
        }
        Command::Trees { job } => {
            let wanted = |tree: &Tree| job.as_deref().is_none_or(|job| job == tree.job);
            noun(target, false, |status| {
                let trees: Vec<_> = status.jobs.iter().flat_map(trees).filter(wanted).collect();
                (trees, show::tree_table)
            })
            .await
        }
        Command::Slots if target.json => {
            let status = status::look(target, false, Instant::now() + PATIENCE).await?;
            print_json(&status.switches.iter().map(Slots::from).collect::<Vec<_>>())
        }
        Command::Slots => noun(target, false, |status| (status.switches, show::slots)).await,
        Command::Counters { switch } => {
            let wanted = |name: &str| switch.as_deref().is_none_or(|switch| switch == name);
            noun(target, true, |mut status| {
                status.switches.retain(|switch| wanted(&switch.name));
                (status.switches, show::counters)
            })
            .await
        }
        Command::Topo(args) => plan::topo(target, &args).await,
        Command::Plan(args) => plan::plan(target, args).await,
        Command::Events(args) => events::events(target, &args).await,
        Command::Submit { job, idle } => submit(target, job, idle).await,
        Command::End { job, group, reason } => end(target, job, group, reason).await,
        Command::Status(args) => status::run(target, args).await,
        Command::Doctor(args) => doctor::doctor(target, &args).await,
        Command::Token { name, tenant, role } => {
            let (token, entry) = make_token(&name, tenant.as_deref(), role)?;
            eprintln!("{entry}");
            print(&(token + "\n"))
        }
        Command::Openapi => print_json(&crate::api::openapi()),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "inca", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
    }
}

/// One part of the status, as a table or as JSON.
async fn noun<T: serde::Serialize>(
    target: &Target,
    counters: bool,
    part: impl FnOnce(crate::api::model::Status) -> (Vec<T>, fn(&[T]) -> String),
) -> Result<(), CliError> {
    let (list, table) = part(status::look(target, counters, Instant::now() + PATIENCE).await?);
    match target.json {
        true => print_json(&list),
        false => print(&table(&list)),
    }
}

async fn submit(target: &Target, job: String, idle_seconds: u32) -> Result<(), CliError> {
    let mut client = target.connect().await?;
    let answer = client.operator.submit(api::SubmitRequest { job, idle_seconds }).await;
    let submitted = Submitted::from(client.taken(answer)?);
    match target.json {
        true => print_json(&submitted),
        false => print(&(submitted.job_token + "\n")),
    }
}

async fn end(target: &Target, job: String, group: Option<String>, reason: String) -> Result<(), CliError> {
    let mut client = target.connect().await?;
    let answer = client.operator.end_job(api::EndJobRequest { job: job.clone(), group, reason }).await;
    let groups = client.taken(answer)?.groups;
    match target.json {
        true => print_json(&Ended { job, groups }),
        false => print(&match groups.len() {
            0 => format!("{job}: its name is free, no rank had joined\n"),
            1 => format!("{job}: 1 group ends\n"),
            many => format!("{job}: {many} groups end\n"),
        }),
    }
}
