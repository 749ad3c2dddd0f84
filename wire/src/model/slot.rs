//! One switch's slot protocol: the table of `docs/protocol.md`, "What a switch keeps per slot", in the words of that page.
//!
//! A differential test feeds the same packets to this model and to the P4 program and compares what happened ([`Event`], whose
//! values are the indices of the program's counter `events`) and every packet sent.

mod broken;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::format::Format;
use crate::packet::{Flags, Header, Opcode, PARENT_MEMBER, PLANE_BOTH};

pub(in crate::model) use broken::Broken;
use state::Slot;

/// One tree's part at this switch, as the controller installs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TreeConfig {
    /// Tree id in packets.
    pub tree_id: u16,
    /// The tree's generation; packets of any other are dropped.
    pub generation: u32,
    /// Number format.
    pub format: Format,
    /// Guard bits.
    pub guard: u8,
    /// Ranks of the whole group.
    pub world: u16,
    /// Number of slots.
    pub slots: u32,
    /// Most words in a packet.
    pub words: u8,
    /// The children; the place here is the child's bit. At most 64.
    pub children: Vec<Child>,
    /// None: this switch is the root.
    pub parent: Option<Parent>,
    /// Least time between two resends of a slot's sum, microseconds.
    pub resend_interval_us: u32,
    /// The rule that this switch breaks.
    #[cfg(test)]
    pub(in crate::model) broken: Option<Broken>,
}

/// A child of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Child {
    /// The port it is reached by.
    pub port: u16,
    /// Field `member` of its packets; a host's also of what is sent to it.
    pub member: u16,
    /// Host or switch.
    pub kind: ChildKind,
}

/// What a child is, hence what it may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChildKind {
    /// Sends contributions.
    Host,
    /// Sends partial sums, one packet per plane.
    Switch,
}

/// The parent of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parent {
    /// The port it is reached by.
    pub port: u16,
    /// Field `member` of what is sent to it: this switch's index at the parent.
    pub member: u16,
}

/// What became of a packet. The values are those of the P4 program's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Event {
    /// Dropped: no such tree here.
    UnknownTree = 4,
    /// Dropped: another generation.
    StaleGeneration = 5,
    /// Dropped: no such slot.
    BadSlot = 6,
    /// Dropped: another number format, more words than the tree takes, words where there must be none or none where
    /// there must be some, flags that no sender may set, or a host that claims to be several ranks.
    BadFormat = 7,
    /// Dropped: the sender is no member at this port.
    NotAdmitted = 8,
    /// Dropped: not what this kind of member sends.
    BadOpcode = 9,
    /// Dropped: neither the current, the next nor the stored sequence.
    BadSequence = 10,
    /// Dropped: contributed already, and siblings are still missing.
    Duplicate = 11,
    /// Dropped: the sum was sent up less than an interval ago.
    ResendLimited = 12,
    /// Dropped: a result that is not awaited.
    ResultIgnored = 13,
    /// Dropped: what is asked for has another number of words than the packet that asks.
    ReplayMisfit = 14,
    /// Added, or flagged; siblings are still missing.
    Contribution = 31,
    /// The last contribution: the sum went up, or at the root the result went down.
    Completed = 48,
    /// The stored result was sent to this child.
    Replay = 49,
    /// The stored sum was sent up again.
    Resend = 50,
    /// The parent's result was stored and sent down.
    Result = 51,
    /// A probe was answered.
    Probe = 52,
}

/// A packet that the switch sends.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sent {
    /// The port it leaves by.
    pub port: u16,
    /// Its header.
    pub header: Header,
    /// Its words.
    pub words: Vec<u8>,
}

/// What a packet did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What became of it.
    pub event: Event,
    /// What was sent: copies of a result in the order of the children, the planes of a sum in their order.
    pub sent: Vec<Sent>,
}

impl From<Event> for Outcome {
    fn from(event: Event) -> Self {
        Self { event, sent: Vec::new() }
    }
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SwitchModel {
    trees: BTreeMap<u16, TreeConfig>,
    /// By tree id and slot. Entries come and go, registers stay.
    slots: BTreeMap<(u16, u32), Slot>,
}

/// Who sent the packet.
#[derive(Debug, Clone, Copy)]
enum Sender {
    Child(usize, ChildKind),
    Parent,
}

impl SwitchModel {
    /// A switch that takes part in these trees.
    pub fn new(trees: impl IntoIterator<Item = TreeConfig>) -> Self {
        let mut switch = Self::default();
        trees.into_iter().for_each(|config| switch.install(config));
        switch
    }

    /// Installs a tree, or changes it. Slots are left as they are: a new generation is what renews them. Generation 0 is never
    /// valid: registers that were never written hold it.
    pub fn install(&mut self, config: TreeConfig) {
        self.trees.insert(config.tree_id, config);
    }

    /// Removes a tree's entries; its slots keep what they hold.
    pub fn remove(&mut self, tree_id: u16) {
        self.trees.remove(&tree_id);
    }

    /// Takes a packet that arrived by `port` and whose lengths agree.
    pub fn handle(&mut self, now_us: u64, port: u16, header: &Header, words: &[u8]) -> Outcome {
        let Some(config) = self.trees.get(&header.tree_id) else { return Event::UnknownTree.into() };
        let sender = match config.admit(port, header) {
            Ok(sender) => sender,
            Err(event) => return event.into(),
        };
        let slot = self.slots.entry((header.tree_id, header.slot)).or_default();
        if slot.generation != config.generation
            && (slot.generation == 0 || !config.breaks(Broken::KeepsSlots))
        {
            *slot = Slot::fresh(config.generation);
        }
        // The switch's clock has 32 bits.
        dispatch(config, slot, now_us as u32, sender, header, words)
    }
}

impl TreeConfig {
    fn admit(&self, port: u16, header: &Header) -> Result<Sender, Event> {
        let sender = self.sender(port, header).ok_or(Event::NotAdmitted)?;
        if header.generation != self.generation && !self.breaks(Broken::TakesAnyGeneration) {
            Err(Event::StaleGeneration)
        } else if header.slot >= self.slots {
            Err(Event::BadSlot)
        } else if header.format != self.format || header.words > self.words {
            Err(Event::BadFormat)
        } else {
            Ok(sender)
        }
    }

    fn sender(&self, port: u16, header: &Header) -> Option<Sender> {
        if header.member == PARENT_MEMBER {
            return self.parent.filter(|parent| parent.port == port).map(|_| Sender::Parent);
        }
        let child =
            self.children.iter().position(|child| child.port == port && child.member == header.member)?;
        Some(Sender::Child(child, self.children[child].kind))
    }

    fn all_children(&self) -> u64 {
        self.children.iter().enumerate().fold(0, |bits, (child, _)| bits | 1 << child)
    }

    fn to_child(&self, child: &Child, header: &Header, words: &[u8]) -> Sent {
        let member = if child.kind == ChildKind::Host { child.member } else { PARENT_MEMBER };
        Sent { port: child.port, header: Header { member, ..*header }, words: words.to_vec() }
    }

    fn down(&self, header: &Header, words: &[u8]) -> Vec<Sent> {
        self.children.iter().map(|child| self.to_child(child, header, words)).collect()
    }
}

fn dispatch(
    config: &TreeConfig,
    slot: &mut Slot,
    now: u32,
    sender: Sender,
    header: &Header,
    words: &[u8],
) -> Outcome {
    match (header.opcode, sender) {
        (Opcode::Result, Sender::Parent) => slot.take_result(config, header, words),
        (Opcode::Probe, Sender::Child(child, _)) => {
            let reply = slot.probe_reply(header);
            Outcome { event: Event::Probe, sent: vec![config.to_child(&config.children[child], &reply, &[])] }
        }
        (Opcode::Contribution, Sender::Child(child, ChildKind::Host)) if header.plane == PLANE_BOTH => {
            slot.take_contribution(config, now, child, &[0, 1], header, words)
        }
        (Opcode::Partial, Sender::Child(child, ChildKind::Switch)) if header.plane < PLANE_BOTH => {
            slot.take_contribution(config, now, child, &[usize::from(header.plane)], header, words)
        }
        _ => Event::BadOpcode.into(),
    }
}

/// Flags that a contribution or a partial sum may carry.
fn sender_may_set(flags: Flags) -> bool {
    (Flags::MISMATCH | Flags::RANGE | Flags::NONFINITE | Flags::OVERFLOW).contains(flags)
}
