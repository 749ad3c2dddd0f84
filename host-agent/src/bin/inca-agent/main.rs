//! `inca-agent`: one rank of a job, as a command.

mod allreduce;
mod args;
mod check;
mod data;
mod perf;
mod pipe;
mod report;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};
use inca_host_agent::communicator::LeaveError;
use inca_host_agent::{CollectiveError, JoinError, SchemeError};

/// Why the command failed; each kind has an exit code, listed in `--help`.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// Joining failed.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An operation failed.
    #[error(transparent)]
    Operation(#[from] CollectiveError),
    /// A file could not be read or written.
    #[error("{what} {path}: {reason}")]
    File {
        /// What was done with it.
        what: &'static str,
        /// Which file.
        path: String,
        /// Why it failed.
        reason: String,
    },
    /// The results were not the expected ones.
    #[error("{wrong} of {checked} checked elements are wrong; first: element {first}")]
    Wrong {
        /// Elements whose bits differ.
        wrong: u64,
        /// Elements checked.
        checked: u64,
        /// The first one.
        first: String,
    },
    /// Options that contradict each other.
    #[error("{0}")]
    Usage(String),
}

impl From<SchemeError> for Failure {
    fn from(error: SchemeError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Wrong { .. } => 1,
            Self::Usage(_) | Self::Join(JoinError::Options { .. } | JoinError::Uri { .. }) => 2,
            Self::Join(_) => 3,
            Self::Operation(_) => 4,
            Self::File { .. } => 5,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    init_log(args.log.as_deref().unwrap_or(if args.command.is_quiet() { "warn" } else { "info" }));
    let result = match args.command {
        Command::Allreduce(args) => allreduce::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::Pipe(args) => pipe::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", inca_host_agent::with_causes(&failure));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn init_log(filter: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

/// Leaves; what could go wrong there changes nothing about the results.
fn leave(group: inca_host_agent::Communicator) {
    if let Err(error @ LeaveError::Unconfirmed { .. }) = group.leave() {
        tracing::warn!(%error, "leaving");
    }
}
