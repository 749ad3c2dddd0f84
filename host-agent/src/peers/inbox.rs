//! What has come from other ranks and was not asked for yet. No sockets, no clock.

use std::collections::{HashMap, VecDeque};

use super::frame::{Head, Kind};

/// Bytes that may wait here from one rank; one message always may.
const ROOM: u64 = 16 << 20;

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) head: Head,
    pub(crate) bytes: Vec<u8>,
}

/// All that has come.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    senders: HashMap<u32, Sender>,
}

#[derive(Debug, Default)]
struct Sender {
    messages: VecDeque<Message>,
    held: u64,
    /// Why nothing more will come.
    gone: Option<String>,
}

/// What there is of what was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It.
    Message(Message),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come any more.
    Gone(String),
}

impl Inbox {
    /// Whether a message of so many bytes may be read from that rank's connection now.
    pub(crate) fn has_room(&self, rank: u32, bytes: u64) -> bool {
        self.senders.get(&rank).is_none_or(|sender| sender.messages.is_empty() || sender.held + bytes <= ROOM)
    }

    pub(crate) fn put(&mut self, rank: u32, message: Message) {
        let sender = self.senders.entry(rank).or_default();
        sender.held += message.bytes.len() as u64;
        sender.messages.push_back(message);
    }

    /// That rank's connection has ended.
    pub(crate) fn end(&mut self, rank: u32, reason: String) {
        self.senders.entry(rank).or_default().gone.get_or_insert(reason);
    }

    /// The first message of that rank, kind and tag. Messages of one tag are taken in the order in which they were sent.
    pub(crate) fn take(&mut self, rank: u32, kind: Kind, tag: u32) -> Found {
        let Some(sender) = self.senders.get_mut(&rank) else { return Found::Nothing };
        let is_it = |message: &Message| (message.head.kind, message.head.tag) == (kind, tag);
        match sender.messages.iter().position(is_it).and_then(|at| sender.messages.remove(at)) {
            Some(message) => {
                sender.held -= message.bytes.len() as u64;
                Found::Message(message)
            }
            None => sender.gone.clone().map_or(Found::Nothing, Found::Gone),
        }
    }
}
