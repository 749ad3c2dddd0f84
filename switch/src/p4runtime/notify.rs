//! What the switch tells controllers on its own: packets, digests, entries that were not hit.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use inca_p4runtime::{
    P4Info, bytestring,
    p4config::p4_data_type_spec::TypeSpec,
    p4v1::{
        DigestList, DigestListAck, IdleTimeoutNotification, P4Data, P4StructLike, p4_data::Data,
        stream_message_response as response,
    },
};
use tokio::sync::mpsc;

use super::{entity::tables, packet, service::Shared};
use crate::{control::DigestRecord, program::DigestId, runtime::Event};

/// How often entries with an idle timeout are looked at.
const IDLE_PERIOD: Duration = Duration::from_millis(100);

/// Digests on their way to controllers.
#[derive(Debug, Default)]
pub(super) struct Digests {
    next_list: u64,
    /// Messages that were sent and not acknowledged, with their list and when they were sent.
    unacknowledged: HashMap<Message, (u64, Instant)>,
}

/// Id of the digest, and its fields.
type Message = (u32, Vec<Vec<u8>>);

impl Digests {
    /// A controller has seen a list: its messages may be sent again.
    pub(super) fn acknowledge(&mut self, ack: &DigestListAck) {
        self.unacknowledged.retain(|(digest, _), (list, _)| (*digest, *list) != (ack.digest_id, ack.list_id));
    }

    /// The pipeline changed.
    pub(super) fn forget(&mut self) {
        self.unacknowledged.clear();
    }

    /// The id of the list to send; `None` while the same message waits for its acknowledgement.
    fn list(&mut self, digest: u32, fields: &[Vec<u8>], ack_timeout: Duration, now: Instant) -> Option<u64> {
        self.unacknowledged.retain(|_, (_, sent)| now.duration_since(*sent) < ack_timeout);
        let key = (digest, fields.to_vec());
        if self.unacknowledged.contains_key(&key) {
            return None;
        }
        self.next_list += 1;
        if !ack_timeout.is_zero() {
            self.unacknowledged.insert(key, (self.next_list, now));
        }
        Some(self.next_list)
    }
}

/// Forwards events of the packet thread until it ends.
pub(super) async fn run(shared: Arc<Shared>, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        match event {
            Event::PacketIn(frame) => packet_in(&shared, frame),
            Event::Digest(digest, record) => digest_message(&shared, digest, &record),
        }
    }
}

/// Reports entries whose idle timeout has passed.
pub(super) async fn watch_idle_entries(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(IDLE_PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(plane) = shared.running() else { continue };
        if !plane.pipeline.info.tables().any(|table| table.idle_timeout) {
            continue;
        }
        let now_us = shared.handle.now_us();
        let expired = plane.with(move |cx| {
            let expired = cx.switch.expired_entries(now_us);
            let entries = expired.iter().map(|(table, view)| tables::idle_entry(cx.pipeline, *table, view));
            entries.filter_map(Result::ok).collect::<Vec<_>>()
        });
        match expired.await {
            Ok(table_entry) if !table_entry.is_empty() => {
                let idle = IdleTimeoutNotification { table_entry, timestamp: timestamp() };
                to_primaries(&shared, &response::Update::IdleTimeoutNotification(idle));
            }
            Ok(_) => {}
            // The switch has ended.
            Err(_) => return,
        }
    }
}

fn packet_in(shared: &Shared, frame: Vec<u8>) {
    let Some(plane) = shared.running() else { return };
    match packet::packet_in(&plane.pipeline.info, frame) {
        Some(packet) => to_primaries(shared, &response::Update::Packet(packet)),
        None => tracing::debug!("a frame for the controller is shorter than the packet_in header: dropped"),
    }
}

fn digest_message(shared: &Shared, digest: DigestId, record: &DigestRecord) {
    let Some(plane) = shared.running() else { return };
    let Some(id) = plane.pipeline.digest_id(digest) else { return };
    let entry = plane.notes.lock().unwrap_or_else(PoisonError::into_inner).digests.get(&id).copied();
    // Digests that nobody asked for are not sent.
    let Some(entry) = entry else { return };
    let ack_timeout = u64::try_from(entry.config.unwrap_or_default().ack_timeout_ns).unwrap_or(0);
    let list = shared.digests.lock().unwrap_or_else(PoisonError::into_inner).list(
        id,
        &record.fields,
        Duration::from_nanos(ack_timeout),
        Instant::now(),
    );
    let Some(list_id) = list else { return };
    let data = vec![digest_data(&plane.pipeline.info, id, record)];
    let list = DigestList { digest_id: id, list_id, data, timestamp: timestamp() };
    to_primaries(shared, &response::Update::Digest(list));
}

/// The fields of a digest in the shape that the P4Info declares.
fn digest_data(info: &P4Info, id: u32, record: &DigestRecord) -> P4Data {
    let declared =
        info.message().digests.iter().find(|digest| digest.preamble.as_ref().is_some_and(|p| p.id == id));
    let shape =
        declared.and_then(|digest| digest.type_spec.as_ref()).and_then(|spec| spec.type_spec.as_ref());
    let bits = |value: &Vec<u8>| Data::Bitstring(bytestring::canonical(value).to_vec());
    let members = || P4StructLike {
        members: record.fields.iter().map(|value| P4Data { data: Some(bits(value)) }).collect(),
    };
    let data = match shape {
        Some(TypeSpec::Tuple(_)) => Data::Tuple(members()),
        Some(TypeSpec::Bitstring(_)) if record.fields.len() == 1 => bits(&record.fields[0]),
        _ => Data::Struct(members()),
    };
    P4Data { data: Some(data) }
}

fn to_primaries(shared: &Shared, update: &response::Update) {
    let elections = shared.elections();
    let mut streams = shared.streams();
    for primary in elections.primaries() {
        streams.send(primary, update.clone());
    }
}

/// Nanoseconds since 1970.
fn timestamp() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
