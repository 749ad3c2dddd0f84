//! What the switch tells controllers on its own: packets, digests, entries that were not hit.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use inca_p4runtime::{
    P4Info, bytestring,
    p4config::p4_data_type_spec::TypeSpec,
    p4v1::{
        DigestList, DigestListAck, IdleTimeoutNotification, P4Data, P4StructLike, digest_entry::Config,
        p4_data::Data, stream_message_response as response,
    },
};
use tokio::sync::mpsc;

use super::{entity::tables, packet, service::Shared};
use crate::{control::DigestRecord, program::DigestId, runtime::Event};

/// How often entries with an idle timeout are looked at.
const IDLE_PERIOD: Duration = Duration::from_millis(100);

/// Most messages in a list, if the controller names no number.
const LIST: usize = 256;

/// Digests on their way to controllers.
#[derive(Debug, Default)]
pub(super) struct Digests {
    next_list: u64,
    /// Messages that were sent and not acknowledged, with their list and when they were sent.
    unacknowledged: HashMap<Message, (u64, Instant)>,
    /// Lists that wait for more, by digest.
    pending: HashMap<u32, Pending>,
}

/// A list that is not full yet.
#[derive(Debug)]
struct Pending {
    list: DigestList,
    /// When it is sent all the same.
    deadline: Instant,
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
        self.pending.clear();
    }

    /// A message with its data; returns the list to send, if one is full now. None too while the same message waits for its
    /// acknowledgement.
    fn add(
        &mut self,
        digest: u32,
        (fields, data): (&[Vec<u8>], P4Data),
        config: Config,
        now: Instant,
    ) -> Option<DigestList> {
        let span = |ns: i64| Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
        self.unacknowledged.retain(|_, (_, sent)| now.duration_since(*sent) < span(config.ack_timeout_ns));
        let key = (digest, fields.to_vec());
        if self.unacknowledged.contains_key(&key) {
            return None;
        }
        let pending = self.pending.entry(digest).or_insert_with(|| {
            self.next_list += 1;
            let list = DigestList { digest_id: digest, list_id: self.next_list, ..Default::default() };
            Pending { list, deadline: now + span(config.max_timeout_ns) }
        });
        if config.ack_timeout_ns > 0 {
            self.unacknowledged.insert(key, (pending.list.list_id, now));
        }
        pending.list.data.push(data);
        let full = match usize::try_from(config.max_list_size) {
            Ok(size @ 1..) => size,
            _ => LIST,
        };
        if pending.list.data.len() < full && now < pending.deadline {
            return None;
        }
        self.pending.remove(&digest).map(|pending| pending.list)
    }

    /// When the next list is due.
    fn deadline(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.deadline).min()
    }

    /// The lists whose time has come.
    fn due(&mut self, now: Instant) -> Vec<DigestList> {
        let due: Vec<u32> =
            self.pending.iter().filter(|(_, p)| p.deadline <= now).map(|(digest, _)| *digest).collect();
        due.iter().filter_map(|digest| self.pending.remove(digest)).map(|pending| pending.list).collect()
    }
}

/// Forwards events of the packet thread until it ends.
pub(super) async fn run(shared: Arc<Shared>, mut events: mpsc::Receiver<Event>) {
    loop {
        let due = digests(&shared).deadline();
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = events.recv() => event,
            () = wait => {
                let lists = digests(&shared).due(Instant::now());
                lists.into_iter().for_each(|list| send_digests(&shared, list));
                continue;
            }
        };
        match event {
            Some(Event::PacketIn(frame)) => packet_in(&shared, frame),
            Some(Event::Digest(digest, record)) => digest_message(&shared, digest, &record),
            None => return,
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
    let data = digest_data(&plane.pipeline.info, id, record);
    let message = (record.fields.as_slice(), data);
    let list = digests(shared).add(id, message, entry.config.unwrap_or_default(), Instant::now());
    if let Some(list) = list {
        send_digests(shared, list);
    }
}

fn digests(shared: &Shared) -> MutexGuard<'_, Digests> {
    shared.digests.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send_digests(shared: &Shared, list: DigestList) {
    let list = DigestList { timestamp: timestamp(), ..list };
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
