//! The stream: packets, arbitration, notifications.

use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tonic::{Code, Streaming};

use super::{Client, Link, Mastership};
use crate::{
    p4v1::{
        DigestList, DigestListAck, IdleTimeoutNotification, MasterArbitrationUpdate, PacketIn, PacketOut,
        StreamError, StreamMessageRequest, StreamMessageResponse, stream_message_request as request,
        stream_message_response as response,
    },
    status::code_name,
};

/// Events that wait for their reader; packet-ins beyond that are dropped, as a switch would.
pub(super) const EVENTS: usize = 4096;

/// What the switch sends on its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Who is primary changed.
    Mastership(Mastership),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// Digest messages; to be acknowledged by [`Client::acknowledge`].
    Digest(DigestList),
    /// Entries that were not hit for their idle timeout.
    Idle(IdleTimeoutNotification),
    /// Something that this client sent on the stream could not be done.
    Error(StreamError),
    /// The stream ended, for this reason; the last event.
    Closed(String),
}

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Events {
    received: mpsc::Receiver<Event>,
}

impl Events {
    pub(super) fn new(received: mpsc::Receiver<Event>) -> Self {
        Self { received }
    }

    /// The next event; `None` after [`Event::Closed`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        self.received.recv().await
    }

    /// The next event if there is one now.
    pub fn try_next(&mut self) -> Option<Event> {
        self.received.try_recv().ok()
    }
}

/// Why a message did not get onto the stream.
#[derive(Debug, Clone, Error)]
pub enum SendError {
    /// The stream has ended.
    #[error("switch {switch}: sending {what}: the stream is closed: {reason}")]
    Closed {
        /// Name of the switch.
        switch: String,
        /// What was sent.
        what: &'static str,
        /// Why the stream ended.
        reason: String,
    },
    /// The switch does not take messages off the stream.
    #[error("switch {switch}: sending {what}: the stream is stuck for {timeout:?}")]
    Stuck {
        /// Name of the switch.
        switch: String,
        /// What was sent.
        what: &'static str,
        /// How long the client waited.
        timeout: std::time::Duration,
    },
}

impl Client {
    /// Sends a packet-out. Returns once it is queued; a switch that can't send it answers with [`Event::Error`] (BMv2 drops it).
    pub async fn packet_out(&self, packet: PacketOut) -> Result<(), SendError> {
        self.send("packet-out", request::Update::Packet(packet)).await
    }

    /// Acknowledges digest messages.
    pub async fn acknowledge(&self, list: &DigestList) -> Result<(), SendError> {
        let ack = DigestListAck { digest_id: list.digest_id, list_id: list.list_id };
        self.send("digest acknowledgement", request::Update::DigestAck(ack)).await
    }

    pub(super) async fn send(&self, what: &'static str, update: request::Update) -> Result<(), SendError> {
        let switch = || self.inner.config.name.clone();
        if let Link::Closed(reason) = &*self.inner.link.borrow() {
            return Err(SendError::Closed { switch: switch(), what, reason: reason.clone() });
        }
        let timeout = self.inner.config.call_timeout;
        let message = StreamMessageRequest { update: Some(update) };
        match self.inner.requests.send_timeout(message, timeout).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                Err(SendError::Stuck { switch: switch(), what, timeout })
            }
            Err(mpsc::error::SendTimeoutError::Closed(_)) => {
                let reason = "the switch ended it".into();
                Err(SendError::Closed { switch: switch(), what, reason })
            }
        }
    }
}

/// Takes messages off the stream until it ends.
pub(super) struct Reader {
    pub(super) switch: String,
    pub(super) link: watch::Sender<Link>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Reader {
    pub(super) async fn run(self, mut incoming: Streaming<StreamMessageResponse>) {
        let reason = loop {
            match incoming.message().await {
                Ok(Some(message)) => self.message(message.update),
                Ok(None) => break "the switch closed the stream".to_owned(),
                Err(status) => break format!("{}: {}", code_name(status.code()), status.message()),
            }
        };
        tracing::debug!(switch = self.switch, reason, "stream closed");
        self.link.send_replace(Link::Closed(reason.clone()));
        // The last event has to arrive; nobody is held up by waiting for a slow reader any more.
        let _ = self.events.send(Event::Closed(reason)).await;
    }

    fn message(&self, update: Option<response::Update>) {
        let event = match update {
            Some(response::Update::Arbitration(update)) => {
                let mastership = mastership(update);
                self.link.send_replace(Link::Open(mastership.clone()));
                Event::Mastership(mastership)
            }
            Some(response::Update::Packet(packet)) => Event::PacketIn(packet),
            Some(response::Update::Digest(list)) => Event::Digest(list),
            Some(response::Update::IdleTimeoutNotification(idle)) => Event::Idle(idle),
            Some(response::Update::Error(error)) => Event::Error(error),
            Some(response::Update::Other(_)) | None => return,
        };
        // Never wait: a reader that is busy must not keep mastership from being noticed.
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            tracing::warn!(switch = self.switch, ?event, "event dropped: {EVENTS} are waiting already");
        }
    }
}

pub(super) fn mastership(update: MasterArbitrationUpdate) -> Mastership {
    // Without status the message is a grant.
    let status = update.status.unwrap_or_default();
    Mastership {
        is_primary: status.code == Code::Ok as i32,
        has_primary: status.code != Code::NotFound as i32,
        election_id: update.election_id.unwrap_or_default().into(),
        message: status.message,
    }
}
