//! A controller's connection to one switch.
//!
//! Every call is bounded in time and every error names the switch and what was tried. A [`Client`] is cheap to clone; the
//! connection ends when the last clone is dropped.
//!
//! Works with BMv2's server too, which differs from the specification: it ignores roles, may promote a backup with a lower
//! election id, never says that there is no primary, and reports per-update errors only with CONTINUE_ON_ERROR. So whether
//! this client is primary is what the switch last said, not what the ids suggest.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{mpsc, watch};
use tonic::{Code, transport::Channel};

use crate::access::Access;
use crate::{
    p4v1::{self, Uint128, p4_runtime_client::P4RuntimeClient, stream_message_request as request},
    status::code_name,
};

mod connect;
mod pipeline;
mod read;
mod stream;
mod write;

pub use connect::ConnectError;
pub use pipeline::{Pipeline, PipelineError, PipelineFileError, PipelineState};
pub use stream::{Event, Events, SendError};
pub use write::{UpdateFailure, WriteError, delete, insert, modify, multicast_group};

/// Largest message accepted: a pipeline or a big read, far above gRPC's 4 MiB.
pub const MAX_MESSAGE: usize = 256 << 20;

/// How to reach a switch and how long to wait for it.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The switch's name, for errors and logs.
    pub name: String,
    /// Where its server is, for example `http://127.0.0.1:9559`.
    pub target: String,
    /// P4Runtime device id.
    pub device_id: u64,
    /// Election id, above 0; the highest of all controllers is primary.
    pub election_id: u128,
    /// Bound on connecting, the first arbitration reply included.
    pub connect_timeout: Duration,
    /// Bound on each call.
    pub call_timeout: Duration,
    /// Bound on setting a pipeline: a switch compiles it.
    pub pipeline_timeout: Duration,
    /// Updates per Write: its errors travel in gRPC's trailers, which are small.
    pub batch: usize,
    /// Certificates, where the target is `https://`.
    pub access: Access,
}

impl ClientConfig {
    /// A configuration with default times: 5 s to connect, 10 s a call, 60 s for a pipeline.
    pub fn new(
        name: impl Into<String>,
        target: impl Into<String>,
        device_id: u64,
        election_id: u128,
    ) -> Self {
        Self {
            name: name.into(),
            target: target.into(),
            device_id,
            election_id,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
            pipeline_timeout: Duration::from_secs(60),
            batch: 128,
            access: Access::default(),
        }
    }
}

/// What the switch last said about who is in charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mastership {
    /// Whether this client may write.
    pub is_primary: bool,
    /// Whether any client may; BMv2's server never says that there is none.
    pub has_primary: bool,
    /// Highest election id that the switch knows.
    pub election_id: u128,
    /// What the switch said, if this client is not primary.
    pub message: String,
}

/// Whether the stream to the switch lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// It lives.
    Open(Mastership),
    /// It ended, for this reason.
    Closed(String),
}

/// A call to a switch that failed as a whole.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// No answer in time.
    #[error("switch {switch}: {call}: no answer within {timeout:?}")]
    Timeout {
        /// Name of the switch.
        switch: String,
        /// What was tried.
        call: String,
        /// How long the client waited.
        timeout: Duration,
    },
    /// The switch, or the transport, refused.
    #[error("switch {switch}: {call}: {}: {}", code_name(.status.code()), .status.message())]
    Status {
        /// Name of the switch.
        switch: String,
        /// What was tried.
        call: String,
        /// The answer.
        status: Box<tonic::Status>,
    },
}

impl CallError {
    /// The gRPC code; DEADLINE_EXCEEDED for a time-out.
    pub fn code(&self) -> Code {
        match self {
            Self::Timeout { .. } => Code::DeadlineExceeded,
            Self::Status { status, .. } => status.code(),
        }
    }

    /// Whether another try may work without anyone changing the request: the switch is away or slow.
    pub fn is_transient(&self) -> bool {
        matches!(self.code(), Code::DeadlineExceeded | Code::Unavailable | Code::Cancelled)
    }
}

/// A connection to one switch. See the [module](self).
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    rpc: P4RuntimeClient<Channel>,
    election_id: Mutex<u128>,
    requests: mpsc::Sender<p4v1::StreamMessageRequest>,
    link: watch::Receiver<Link>,
    reader: tokio::task::AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl Client {
    /// The configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// The switch's name.
    pub fn name(&self) -> &str {
        &self.inner.config.name
    }

    /// State of the stream, with what the switch last said about mastership; can be awaited for changes.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.inner.link.clone()
    }

    /// Whether the switch last said that this client is primary.
    pub fn is_primary(&self) -> bool {
        matches!(&*self.inner.link.borrow(), Link::Open(mastership) if mastership.is_primary)
    }

    /// The election id in use.
    pub fn election_id(&self) -> u128 {
        *self.inner.election_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in the election with another id. The outcome arrives as an [`Event`] and in [`Self::link`].
    pub async fn set_election_id(&self, election_id: u128) -> Result<(), SendError> {
        *self.inner.election_id.lock().unwrap_or_else(PoisonError::into_inner) = election_id;
        let arbitration = arbitration(self.inner.config.device_id, election_id);
        self.send("arbitration", request::Update::Arbitration(arbitration)).await
    }

    /// The version of P4Runtime that the switch speaks.
    pub async fn api_version(&self) -> Result<String, CallError> {
        let request = p4v1::CapabilitiesRequest { device_id: self.inner.config.device_id };
        let mut rpc = self.rpc();
        let call = async move { rpc.capabilities(request).await };
        let response = self.call("Capabilities".into(), self.inner.config.call_timeout, call).await?;
        Ok(response.into_inner().p4runtime_api_version)
    }

    fn rpc(&self) -> P4RuntimeClient<Channel> {
        self.inner.rpc.clone()
    }

    /// Bounds a call and names it in errors.
    async fn call<T>(
        &self,
        name: String,
        timeout: Duration,
        call: impl Future<Output = Result<T, tonic::Status>>,
    ) -> Result<T, CallError> {
        let switch = || self.inner.config.name.clone();
        match tokio::time::timeout(timeout, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(status)) => {
                Err(CallError::Status { switch: switch(), call: name, status: Box::new(status) })
            }
            Err(_) => Err(CallError::Timeout { switch: switch(), call: name, timeout }),
        }
    }
}

fn arbitration(device_id: u64, election_id: u128) -> p4v1::MasterArbitrationUpdate {
    p4v1::MasterArbitrationUpdate {
        device_id,
        election_id: Some(election_id.into()),
        role: None,
        status: None,
    }
}

impl From<u128> for Uint128 {
    fn from(value: u128) -> Self {
        Self { high: (value >> 64) as u64, low: value as u64 }
    }
}

impl From<Uint128> for u128 {
    fn from(value: Uint128) -> Self {
        u128::from(value.high) << 64 | u128::from(value.low)
    }
}
