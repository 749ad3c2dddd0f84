//! Opening a connection: transport, stream, arbitration.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

use super::{
    Client, ClientConfig, Events, Inner, Link, MAX_MESSAGE, arbitration,
    stream::{EVENTS, Reader, mastership},
};
use crate::{
    chain,
    p4v1::{
        StreamMessageRequest, p4_runtime_client::P4RuntimeClient, stream_message_request as request,
        stream_message_response as response,
    },
    status::code_name,
};

/// Room for errors of a whole batch in gRPC's trailers.
const MAX_HEADERS: u32 = 4 << 20;
/// Stream messages that may wait to be sent.
const REQUESTS: usize = 1024;

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Not a URL.
    #[error("switch {switch}: target {target:?} is not a url like http://127.0.0.1:9559: {source}")]
    Target {
        /// Name of the switch.
        switch: String,
        /// What was given.
        target: String,
        /// What is wrong.
        source: tonic::transport::Error,
    },
    /// Election id 0 is not valid.
    #[error("switch {switch}: election id 0 given, expected above 0")]
    ElectionId {
        /// Name of the switch.
        switch: String,
    },
    /// Nothing answers there.
    #[error("switch {switch}: connecting to {target}: {reason}")]
    Transport {
        /// Name of the switch.
        switch: String,
        /// Where it should be.
        target: String,
        /// What the transport says.
        reason: String,
    },
    /// The server refused the stream or the arbitration.
    #[error("switch {switch}: arbitration at {target} with election id {election_id}: {}: {}",
        code_name(.status.code()), .status.message())]
    Refused {
        /// Name of the switch.
        switch: String,
        /// Where it is.
        target: String,
        /// Election id given.
        election_id: u128,
        /// The answer.
        status: Box<tonic::Status>,
    },
    /// Something answered, but not with P4Runtime's arbitration.
    #[error("switch {switch}: arbitration at {target}: {problem}")]
    Protocol {
        /// Name of the switch.
        switch: String,
        /// Where it is.
        target: String,
        /// What came instead.
        problem: String,
    },
    /// Too slow.
    #[error("switch {switch}: {target} did not answer within {timeout:?} ({step})")]
    Timeout {
        /// Name of the switch.
        switch: String,
        /// Where it should be.
        target: String,
        /// How long the client waited.
        timeout: Duration,
        /// What it waited for.
        step: &'static str,
    },
}

impl Client {
    /// Connects and takes part in the election. Returns once the switch said who is primary, which need not be this client.
    pub async fn connect(config: ClientConfig) -> Result<(Self, Events), ConnectError> {
        let switch = config.name.clone();
        let target = config.target.clone();
        if config.election_id == 0 {
            return Err(ConnectError::ElectionId { switch });
        }
        let deadline = Instant::now() + config.connect_timeout;
        let slow = |step| ConnectError::Timeout {
            switch: switch.clone(),
            target: target.clone(),
            timeout: config.connect_timeout,
            step,
        };
        let refused = |status| ConnectError::Refused {
            switch: switch.clone(),
            target: target.clone(),
            election_id: config.election_id,
            status: Box::new(status),
        };
        let protocol = |problem: String| ConnectError::Protocol {
            switch: switch.clone(),
            target: target.clone(),
            problem,
        };

        let endpoint = Endpoint::from_shared(config.target.clone())
            .map_err(|source| ConnectError::Target {
                switch: switch.clone(),
                target: target.clone(),
                source,
            })?
            .http2_max_header_list_size(MAX_HEADERS)
            // A switch that vanished without a word ends the stream. Pings of HTTP/2 would be answered by BMv2's server with
            // the end of the connection: it takes one in five minutes.
            .tcp_keepalive(Some(Duration::from_secs(10)))
            .tcp_keepalive_interval(Some(Duration::from_secs(5)))
            .tcp_keepalive_retries(Some(3))
            .tcp_nodelay(true);
        let endpoint = config.access.secure(endpoint).map_err(|error| ConnectError::Transport {
            switch: switch.clone(),
            target: target.clone(),
            reason: error.to_string(),
        })?;
        let channel = timeout_at(deadline, endpoint.connect())
            .await
            .map_err(|_| slow("transport"))?
            .map_err(|error| ConnectError::Transport {
                switch: switch.clone(),
                target: target.clone(),
                reason: chain(&error),
            })?;
        let rpc = P4RuntimeClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);

        let (requests, outgoing) = mpsc::channel(REQUESTS);
        // A server answers the call only after the first message, so it has to be in the stream before the call is awaited.
        let first = request::Update::Arbitration(arbitration(config.device_id, config.election_id));
        let first = StreamMessageRequest { update: Some(first) };
        requests.try_send(first).map_err(|error| protocol(error.to_string()))?;
        let mut caller = rpc.clone();
        let mut incoming = timeout_at(deadline, caller.stream_channel(ReceiverStream::new(outgoing)))
            .await
            .map_err(|_| slow("stream"))?
            .map_err(refused)?
            .into_inner();
        let reply = timeout_at(deadline, incoming.message()).await.map_err(|_| slow("arbitration"))?;
        let reply = reply.map_err(refused)?.and_then(|message| message.update);
        let granted = match reply {
            Some(response::Update::Arbitration(update)) => mastership(update),
            Some(other) => {
                return Err(protocol(format!("expected an arbitration update, the switch sent {other:?}")));
            }
            None => return Err(protocol("the switch closed the stream".into())),
        };
        tracing::debug!(switch, primary = granted.is_primary, "connected");

        let (set_link, link) = watch::channel(Link::Open(granted));
        let (events, received) = mpsc::channel(EVENTS);
        let reader = tokio::spawn(Reader { switch, link: set_link, events }.run(incoming)).abort_handle();
        let election_id = Mutex::new(config.election_id);
        let inner = Inner { config, rpc, election_id, requests, link, reader };
        Ok((Self { inner: Arc::new(inner) }, Events::new(received)))
    }
}
