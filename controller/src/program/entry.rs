//! Entries by the names of the P4 program, before they are P4Runtime messages.

use inca_p4runtime::client::multicast_group;
use inca_p4runtime::{EntryBuilder, EntryError, P4Info, Value, p4v1};

use super::Word;

/// One thing the controller installs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A table entry.
    Table(TableEntry),
    /// A multicast group.
    Multicast(MulticastGroup),
}

impl From<TableEntry> for Entry {
    fn from(entry: TableEntry) -> Self {
        Self::Table(entry)
    }
}

impl Entry {
    /// The P4Runtime message, checked against the program.
    pub fn entity(&self, info: &P4Info) -> Result<p4v1::Entity, EntryError> {
        Ok(match self {
            Self::Table(entry) => entry.message(info)?.into(),
            Self::Multicast(group) => {
                let copies = group.replicas.iter().map(|&(port, replica)| (port.into(), replica.into()));
                multicast_group(group.id.into(), copies)
            }
        })
    }
}

/// A table entry by names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The table.
    pub table: &'static str,
    /// One per key of the table, by name.
    pub matches: Vec<(&'static str, Match)>,
    /// What a hit does.
    pub action: EntryAction,
    /// At least 1 where a key is ternary, 0 elsewhere.
    pub priority: i32,
}

impl TableEntry {
    /// The P4Runtime message, checked against the program.
    pub fn message(&self, info: &P4Info) -> Result<p4v1::TableEntry, EntryError> {
        let mut builder = EntryBuilder::new(info).table(self.table).priority(self.priority);
        for (field, value) in &self.matches {
            builder = match value {
                Match::Exact(value) => builder.exact(field, value.clone()),
                Match::Lpm(value, prefix_len) => builder.lpm(field, value.clone(), (*prefix_len).into()),
                Match::Ternary(value, mask) => builder.ternary(field, value.clone(), mask.clone()),
            };
        }
        match &self.action {
            EntryAction::Call(call) => builder.action(call.action, call.params.iter().cloned()).build(),
            EntryAction::Select(calls) => calls
                .iter()
                .fold(builder, |builder, call| builder.one_of(call.action, call.params.iter().cloned(), 1))
                .build(),
        }
    }
}

/// How a key is matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// The whole value.
    Exact(Value),
    /// The highest bits, so many of them.
    Lpm(Value, u8),
    /// The bits of the mask, second.
    Ternary(Value, Value),
}

/// What a hit does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryAction {
    /// One action.
    Call(Call),
    /// One of several, by the table's selector: a group that belongs to this entry alone.
    Select(Vec<Call>),
}

/// An action and its parameters by names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The action.
    pub action: &'static str,
    /// One per parameter of the action, by name.
    pub params: Vec<(&'static str, Value)>,
}

impl Call {
    pub(super) fn new(action: &'static str, params: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self { action, params: params.into_iter().collect() }
    }
}

/// A multicast group: copies of a packet, each with its replica id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastGroup {
    /// 1 to 65535, unique in the switch.
    pub id: u16,
    /// Egress port and replica id (a key of the table `replica`) of each copy.
    pub replicas: Vec<(u16, u16)>,
}

impl From<&Word> for Value {
    fn from(value: &Word) -> Self {
        Self::from(value.to_be_bytes())
    }
}

/// An entry with exact keys and one action.
pub(super) fn exact<const N: usize>(
    table: &'static str,
    keys: [(&'static str, Value); N],
    call: Call,
) -> TableEntry {
    TableEntry {
        table,
        matches: keys.into_iter().map(|(name, value)| (name, Match::Exact(value))).collect(),
        action: EntryAction::Call(call),
        priority: 0,
    }
}
