//! The command `inca`, and `inca-controller status`: what the northbound API says, as tables for people and as JSON for programs.

use std::path::PathBuf;

use clap::Args;
use inca_p4runtime::access::{Access, Line};
use inca_p4runtime::chain;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::operator_client::OperatorClient;
use serde::Serialize;
use thiserror::Error;
use tonic::transport::Endpoint;

pub mod command;
mod doctor;
mod draw;
mod events;
mod plan;
mod show;
pub mod status;
mod table;

/// Largest answer: some 100,000 hosts.
const MAX_ANSWER: usize = 64 << 20;

/// The controller to ask, and how to answer.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// The controller's API; `http://` may come before it, `https://` must where it speaks TLS
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:50051",
        env = "INCA_CONTROLLER"
    )]
    controller: String,
    /// The bearer token, where the controller wants one
    #[arg(long, global = true, value_name = "TOKEN", env = "INCA_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The authority of the controller's certificate (PEM), with https://
    #[arg(long, global = true, value_name = "FILE", env = "INCA_CA")]
    ca: Option<PathBuf>,
    /// This client's certificate (PEM), where the controller wants one
    #[arg(long, global = true, value_name = "FILE", env = "INCA_CERT", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, global = true, value_name = "FILE", env = "INCA_KEY", requires = "cert")]
    key: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

/// Why a command fails.
#[derive(Debug, Error)]
pub enum CliError {
    /// Nothing answers there.
    #[error("controller {controller}: {reason}")]
    Connect {
        /// As given.
        controller: String,
        /// What was tried, and what came of it.
        reason: String,
    },
    /// The controller refused.
    #[error("controller {controller}: {message}")]
    Refused {
        /// As given.
        controller: String,
        /// What it says.
        message: String,
    },
    /// What was waited for did not come.
    #[error("gave up after {after:?}: {missing}")]
    GaveUp {
        /// The time given.
        after: std::time::Duration,
        /// What was missing last.
        missing: String,
    },
    /// An option's value.
    #[error("{0}")]
    Option(String),
    /// The checks found something; it has been printed.
    #[error("{0} findings")]
    Findings(usize),
    /// The standard output.
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
}

/// A connection to the controller.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    name: String,
    pub(crate) controller: ControllerClient<Line>,
    pub(crate) operator: OperatorClient<Line>,
}

impl Target {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Client, CliError> {
        let failed = |reason| CliError::Connect { controller: self.controller.clone(), reason };
        let access = Access {
            token: self.token.clone(),
            ca: self.ca.clone(),
            identity: self.cert.clone().zip(self.key.clone()),
        };
        let target = match self.controller.split_once("://") {
            Some(_) => self.controller.clone(),
            None => format!("http://{}", self.controller),
        };
        let endpoint = Endpoint::from_shared(target).map_err(|error| failed(chain(&error)))?;
        let endpoint = access.secure(endpoint).map_err(|error| failed(error.to_string()))?;
        let channel = endpoint.connect().await.map_err(|error| failed(chain(&error)))?;
        let bearer = access.bearer().map_err(|error| failed(error.to_string()))?;
        let line = Line::new(channel, bearer);
        Ok(Client {
            name: self.controller.clone(),
            controller: ControllerClient::new(line.clone()).max_decoding_message_size(MAX_ANSWER),
            operator: OperatorClient::new(line).max_decoding_message_size(MAX_ANSWER),
        })
    }
}

impl Client {
    /// An answer, or what the controller says against it.
    pub(crate) fn taken<T>(&self, answer: Result<tonic::Response<T>, tonic::Status>) -> Result<T, CliError> {
        answer.map(tonic::Response::into_inner).map_err(|status| self.refused(&status))
    }

    pub(crate) fn refused(&self, status: &tonic::Status) -> CliError {
        CliError::Refused { controller: self.name.clone(), message: status.message().to_owned() }
    }
}

/// Prints text. A reader that has enough, as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    use std::io::Write;
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints a document, one key a line.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), CliError> {
    // The API's documents have string keys and no floats: they always serialise.
    let text = serde_json::to_string_pretty(document).map_err(std::io::Error::other)?;
    print(&(text + "\n"))
}
