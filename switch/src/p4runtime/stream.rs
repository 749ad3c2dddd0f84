//! Streams: what controllers send on them, and the way back.

use std::{collections::HashMap, sync::Arc};

use inca_p4runtime::p4v1::{
    DigestListAckError, MasterArbitrationUpdate, PacketOut, PacketOutError, StreamError,
    StreamMessageRequest, StreamMessageResponse, StreamOtherError, stream_error::Details,
    stream_message_request as request, stream_message_response as response,
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{
    arbitration::{ConnectionId, Notice},
    packet,
    service::Shared,
};

/// Messages that may wait for a controller.
const QUEUE: usize = 4096;
/// Of these, kept for other messages than packet-ins.
const RESERVE: usize = 256;

type Sender = mpsc::Sender<Result<StreamMessageResponse, Status>>;

/// The open streams.
pub(super) struct Streams {
    senders: HashMap<ConnectionId, Sender>,
    stop: watch::Sender<bool>,
    /// Packet-ins that found a controller's queue full.
    dropped: u64,
}

impl Default for Streams {
    fn default() -> Self {
        Self { senders: HashMap::new(), stop: watch::Sender::new(false), dropped: 0 }
    }
}

impl Streams {
    /// Sends a message to a controller, if there is room for it.
    pub(super) fn send(&mut self, to: ConnectionId, update: response::Update) {
        let Some(sender) = self.senders.get(&to) else { return };
        let is_packet = matches!(update, response::Update::Packet(_));
        let full = sender.capacity() <= if is_packet { RESERVE } else { 0 };
        if full || sender.try_send(Ok(StreamMessageResponse { update: Some(update) })).is_err() {
            self.dropped += 1;
            if self.dropped.is_power_of_two() {
                tracing::warn!(
                    dropped = self.dropped,
                    "a controller does not keep up: messages to it are dropped"
                );
            }
        }
    }

    /// Ends every stream.
    pub(super) fn close(&mut self) {
        self.stop.send_replace(true);
        self.senders.clear();
    }
}

/// Starts to serve a stream; returns what goes back on it.
pub(super) fn open(
    shared: Arc<Shared>,
    connection: ConnectionId,
    incoming: Streaming<StreamMessageRequest>,
) -> ReceiverStream<Result<StreamMessageResponse, Status>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let stop = {
        let mut streams = shared.streams();
        if !*streams.stop.borrow() {
            streams.senders.insert(connection, sender.clone());
        }
        streams.stop.subscribe()
    };
    tokio::spawn(serve(shared, connection, incoming, sender, stop));
    ReceiverStream::new(receiver)
}

async fn serve(
    shared: Arc<Shared>,
    connection: ConnectionId,
    mut incoming: Streaming<StreamMessageRequest>,
    sender: Sender,
    mut stop: watch::Receiver<bool>,
) {
    let outcome = loop {
        let message = tokio::select! {
            message = incoming.message() => message,
            _ = stop.wait_for(|stop| *stop) => break Err(Status::unavailable("the switch is stopping")),
            () = sender.closed() => break Ok(()),
        };
        match message {
            Ok(Some(StreamMessageRequest { update })) => {
                if let Err(status) = handle(&shared, connection, update).await {
                    break Err(status);
                }
            }
            Ok(None) | Err(_) => break Ok(()),
        }
    };
    shared.streams().senders.remove(&connection);
    // A controller that is gone leaves the office to others, but its writes come first.
    let gate = shared.quiesce().await;
    notify(&shared, |elections| Ok(elections.leave(connection))).unwrap_or_default();
    drop(gate);
    if let Err(status) = outcome {
        // A full queue belongs to a controller that does not read: it will see the end of the stream.
        let _ = sender.try_send(Err(status));
    }
}

async fn handle(
    shared: &Shared,
    connection: ConnectionId,
    update: Option<request::Update>,
) -> Result<(), Status> {
    match update {
        Some(request::Update::Arbitration(update)) => arbitrate(shared, connection, update).await?,
        Some(request::Update::Packet(packet)) => {
            if let Err((code, message)) = packet_out(shared, connection, &packet) {
                let details = Details::PacketOut(PacketOutError { packet_out: Some(packet) });
                error(shared, connection, code, message, details);
            }
        }
        Some(request::Update::DigestAck(ack)) => {
            let known = shared.running().is_some_and(|plane| plane.pipeline.digest(ack.digest_id).is_some());
            if known {
                shared.digests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).acknowledge(&ack);
            } else {
                let message = format!("no digest with id {}", ack.digest_id);
                let details = Details::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) });
                error(shared, connection, Code::InvalidArgument, message, details);
            }
        }
        Some(request::Update::Other(other)) => {
            let message = format!("messages of type {:?} are not supported", other.type_url);
            let details = Details::Other(StreamOtherError { other: Some(other) });
            error(shared, connection, Code::Unimplemented, message, details);
        }
        None => {
            let details = Details::Other(StreamOtherError::default());
            error(shared, connection, Code::InvalidArgument, "the message is empty".into(), details);
        }
    }
    Ok(())
}

async fn arbitrate(
    shared: &Shared,
    connection: ConnectionId,
    update: MasterArbitrationUpdate,
) -> Result<(), Status> {
    let _gate = shared.quiesce().await;
    notify(shared, |elections| elections.arbitrate(connection, update))
}

/// Changes the elections and tells the controllers, in one go so that news keep their order.
fn notify(
    shared: &Shared,
    change: impl FnOnce(&mut super::arbitration::Elections) -> Result<Vec<Notice>, Status>,
) -> Result<(), Status> {
    let mut elections = shared.elections();
    let notices = change(&mut elections)?;
    let mut streams = shared.streams();
    for Notice { to, update } in notices {
        streams.send(to, response::Update::Arbitration(update));
    }
    Ok(())
}

fn packet_out(shared: &Shared, connection: ConnectionId, packet: &PacketOut) -> Result<(), (Code, String)> {
    if !shared.elections().is_primary(connection) {
        return Err((Code::PermissionDenied, "only the primary controller may send packets".into()));
    }
    let plane =
        shared.running().ok_or((Code::FailedPrecondition, "no forwarding pipeline is set".to_owned()))?;
    let frame =
        packet::frame(&plane.pipeline.info, packet).map_err(|problem| (Code::InvalidArgument, problem))?;
    shared
        .handle
        .inject(shared.handle.cpu_port(), frame)
        .map_err(|error| (Code::Unavailable, error.to_string()))
}

fn error(shared: &Shared, to: ConnectionId, code: Code, message: String, details: Details) {
    let error = StreamError {
        canonical_code: code as i32,
        message,
        details: Some(details),
        ..StreamError::default()
    };
    shared.streams().send(to, response::Update::Error(error));
}
