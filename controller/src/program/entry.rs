//! Entries by the names of the P4 program, before they are P4Runtime messages.

use std::net::Ipv4Addr;

use inca_wire::address::MacAddr;

use super::Word;

/// One thing the controller installs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A table entry.
    Table(TableEntry),
    /// A multicast group.
    Multicast(MulticastGroup),
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

/// How a key is matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// The whole value.
    Exact(Value),
    /// The highest `prefix_len` bits.
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
    pub(super) fn new<const N: usize>(action: &'static str, params: [(&'static str, Value); N]) -> Self {
        Self { action, params: params.into() }
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

/// An unsigned number: big-endian without leading zeros, at least one byte, as P4Runtime wants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(Vec<u8>);

impl Value {
    fn new(bytes: &[u8]) -> Self {
        Self(canonical(bytes).to_vec())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bits from the highest one that is set.
    pub fn bit_len(&self) -> usize {
        self.0.len() * 8 - self.0.first().map_or(0, |byte| byte.leading_zeros() as usize)
    }
}

/// A byte string without its leading zeros, but at least one byte.
pub fn canonical(bytes: &[u8]) -> &[u8] {
    match bytes.iter().position(|&byte| byte != 0) {
        Some(first) => &bytes[first..],
        None if bytes.is_empty() => &[0],
        None => &bytes[bytes.len() - 1..],
    }
}

macro_rules! value_from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(value: $integer) -> Self {
                Self::new(&value.to_be_bytes())
            }
        }
    )*};
}

value_from_integers!(u8, u16, u32, u64);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::from(u8::from(value))
    }
}

impl From<Ipv4Addr> for Value {
    fn from(value: Ipv4Addr) -> Self {
        Self::new(&value.octets())
    }
}

impl From<MacAddr> for Value {
    fn from(value: MacAddr) -> Self {
        Self::new(&value.0)
    }
}

impl From<&Word> for Value {
    fn from(value: &Word) -> Self {
        Self::new(&value.to_be_bytes())
    }
}

/// An entry with exact keys and one action.
pub(super) fn exact<const N: usize>(table: &'static str, keys: [(&'static str, Value); N], call: Call) -> TableEntry {
    TableEntry {
        table,
        matches: keys.into_iter().map(|(name, value)| (name, Match::Exact(value))).collect(),
        action: EntryAction::Call(call),
        priority: 0,
    }
}
