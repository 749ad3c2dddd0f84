//! What happens, numbered: the last events are remembered, everybody who watches gets the next ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use inca_p4runtime::northbound;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};

use crate::metrics::Metrics;

/// Events that are remembered.
const REMEMBERED: usize = 1024;
/// Events that may wait for one who watches; a slower one is told how many it missed.
const WAITING: usize = 256;

/// An event that has no number yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) switch: String,
    pub(crate) job: String,
    pub(crate) group: String,
    pub(crate) rank: Option<u16>,
}

/// The log.
#[derive(Debug)]
pub(crate) struct EventLog(Mutex<Remembered>, Arc<Metrics>);

#[derive(Debug)]
struct Remembered {
    events: VecDeque<northbound::Event>,
    last: u64,
    /// `None`: there will be no more.
    next: Option<broadcast::Sender<northbound::Event>>,
}

impl EventLog {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        let next = Some(broadcast::channel(WAITING).0);
        Self(Mutex::new(Remembered { events: VecDeque::new(), last: 0, next }), metrics)
    }

    /// Ends everybody's stream: the controller is ending.
    pub(crate) fn close(&self) {
        self.remembered().next = None;
    }

    /// Something happened.
    pub(crate) fn push(&self, draft: Draft) {
        self.1.event(draft.kind);
        let mut remembered = self.remembered();
        remembered.last += 1;
        let event = northbound::Event {
            number: remembered.last,
            time_ms: now_ms(),
            kind: draft.kind.to_owned(),
            message: draft.message,
            switch_name: draft.switch,
            job: draft.job,
            group: draft.group,
            rank: draft.rank.map(u32::from),
        };
        if remembered.events.len() == REMEMBERED {
            remembered.events.pop_front();
        }
        remembered.events.push_back(event.clone());
        // Under the lock, so that nobody who begins to watch gets it twice or not at all. Nobody watching is no error.
        if let Some(next) = &remembered.next {
            let _ = next.send(event);
        }
    }

    /// What is remembered of later than this number.
    pub(crate) fn since(&self, after: u64) -> Vec<northbound::Event> {
        let remembered = self.remembered();
        remembered.events.iter().filter(|event| event.number > after).cloned().collect()
    }

    /// What is remembered of later than this number, unless only new ones are wanted, and then whatever happens.
    pub(crate) fn watch(
        &self,
        after: u64,
        only_new: bool,
    ) -> impl Stream<Item = northbound::Event> + Send + use<> {
        let remembered = self.remembered();
        let old: Vec<_> = match only_new {
            true => Vec::new(),
            false => remembered.events.iter().filter(|event| event.number > after).cloned().collect(),
        };
        let next = match &remembered.next {
            Some(next) => next.subscribe(),
            // A receiver whose sender has gone: it is at its end.
            None => broadcast::channel(1).1,
        };
        drop(remembered);
        let next = BroadcastStream::new(next).map(|event| event.unwrap_or_else(missed));
        tokio_stream::iter(old).chain(next)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        // Nothing is left half done under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missed(error: BroadcastStreamRecvError) -> northbound::Event {
    let BroadcastStreamRecvError::Lagged(count) = error;
    northbound::Event {
        time_ms: now_ms(),
        kind: "missed".to_owned(),
        message: format!("{count} events were not delivered: this reader is too slow"),
        ..Default::default()
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
