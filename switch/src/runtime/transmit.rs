//! Frames on their way out, gathered over a batch.

use tokio::sync::mpsc;

use super::Event;
use crate::control::DigestRecord;
use crate::ports::Port;
use crate::program::DigestId;
use crate::switch::Output;

/// Where a thread's packets go: to its queues, port by port, and to the control plane.
pub(super) struct Transmit {
    /// One for each port.
    queues: Vec<Queue>,
    /// Place of each port number.
    by_number: Vec<Option<usize>>,
    cpu_port: u16,
    events: mpsc::Sender<Event>,
    pub(super) events_dropped: u64,
    pub(super) unknown_port: u64,
}

/// Frames on their way out of one port.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl Output for Transmit {
    fn send(&mut self, port: u16, frame: &[u8]) {
        if port == self.cpu_port {
            self.event(Event::PacketIn(frame.to_vec()));
            return;
        }
        let place = self.by_number.get(usize::from(port)).copied().flatten();
        let Some(queue) = place.and_then(|place| self.queues.get_mut(place)) else {
            self.unknown_port += 1;
            return;
        };
        queue.bytes.extend_from_slice(frame);
        queue.ends.push(queue.bytes.len());
    }

    fn digest(&mut self, digest: DigestId, record: DigestRecord) {
        self.event(Event::Digest(digest, record));
    }
}

impl Transmit {
    pub(super) fn new(ports: &[Port], cpu_port: u16, events: mpsc::Sender<Event>) -> Self {
        let mut by_number = vec![None; 512];
        for (place, port) in ports.iter().enumerate() {
            by_number[usize::from(port.number)] = Some(place);
        }
        let queues = ports.iter().map(|_| Queue::default()).collect();
        Self { queues, by_number, cpu_port, events, events_dropped: 0, unknown_port: 0 }
    }

    fn event(&mut self, event: Event) {
        self.events_dropped += u64::from(self.events.try_send(event).is_err());
    }

    /// Sends what the last packets left, port by port, in order.
    pub(super) fn flush(&mut self, ports: &mut [Port]) {
        for (port, queue) in ports.iter_mut().zip(&mut self.queues) {
            if queue.ends.is_empty() {
                continue;
            }
            let mut frames: Vec<&[u8]> = Vec::with_capacity(queue.ends.len());
            let mut start = 0;
            for end in &queue.ends {
                if !port.loses() {
                    frames.push(&queue.bytes[start..*end]);
                }
                start = *end;
            }
            port.send(&frames);
            queue.bytes.clear();
            queue.ends.clear();
        }
    }
}
