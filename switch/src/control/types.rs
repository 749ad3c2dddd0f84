//! Values of the control plane: keys, actions, entries, replicas. Byte strings are big-endian unsigned integers;
//! leading zeros are accepted, and what is read back is the shortest form (at least one byte).

use crate::program::ActionId;

/// One field of a table key, in the order of the table's `key` in the JSON (and of `match_fields` in the P4Info).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MatchKey {
    /// The field equals the value.
    Exact(Vec<u8>),
    /// The field's highest `prefix_len` bits equal the value's. Bits below the prefix must be 0.
    Lpm {
        /// Big-endian value.
        value: Vec<u8>,
        /// Bits that count, from the highest; 0 to the field's width.
        prefix_len: u32,
    },
    /// `field & mask == value`. Bits of the value outside the mask must be 0.
    Ternary {
        /// Big-endian value.
        value: Vec<u8>,
        /// Big-endian mask.
        mask: Vec<u8>,
    },
    /// `low <= field <= high`.
    Range {
        /// Smallest value that matches.
        low: Vec<u8>,
        /// Largest value that matches.
        high: Vec<u8>,
    },
    /// A ternary field matched whole (`Some`), or any value (`None`). p4c compiles `optional` to ternary.
    Optional(Option<Vec<u8>>),
}

/// An action with its arguments, in the order of the action's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// One byte string per parameter.
    pub args: Vec<Vec<u8>>,
}

/// What an entry does when it is hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryAction {
    /// Run this action (tables without an action profile).
    Call(ActionCall),
    /// Run the action of this action profile member.
    Member(u32),
    /// Run the action of the member that the selector's hash picks from this group.
    Group(u32),
    /// A group that belongs to this entry alone (tables with an action selector).
    OneShot(Vec<OneShotMember>),
}

/// One alternative of a one-shot action selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneShotMember {
    /// The action.
    pub call: ActionCall,
    /// Share of the traffic, at least 1.
    pub weight: u32,
    /// Port whose state guards this member; kept for reading back, ports here do not go down.
    pub watch_port: Option<Vec<u8>>,
}

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// One key per match field.
    pub keys: Vec<MatchKey>,
    /// Larger wins, at least 1, for tables with a ternary, range or optional field; 0 for all others.
    pub priority: i32,
    /// What to do.
    pub action: EntryAction,
    /// Opaque bytes of the controller, returned as they are.
    pub metadata: Vec<u8>,
    /// Idle timeout in nanoseconds of switch time; 0: none. Only for tables that support it.
    pub idle_timeout_ns: i64,
}

/// What names an entry: its keys and its priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryKey {
    /// One key per match field.
    pub keys: Vec<MatchKey>,
    /// As in [`TableEntry::priority`].
    pub priority: i32,
}

/// An entry as the switch holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryView {
    /// The entry, keys and arguments in shortest form.
    pub entry: TableEntry,
    /// Its direct counter, if the table has one.
    pub counter: Option<CounterValue>,
    /// Its direct meter's configuration, if the table has one and it was set.
    pub meter: Option<MeterConfig>,
    /// True if the entry comes from the program (`const entries`).
    pub is_const: bool,
    /// Nanoseconds of switch time since the last hit (or the insertion).
    pub idle_ns: u64,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets counted.
    pub packets: u64,
    /// Their ingress lengths in bytes.
    pub bytes: u64,
}

impl CounterValue {
    /// The sum of two; both wrap around.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

/// Rates of a two-rate three-colour meter: per second and burst, in packets or bytes as the meter was declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MeterConfig {
    /// Committed rate, units per second.
    pub cir: i64,
    /// Committed burst, units.
    pub cburst: i64,
    /// Peak rate, units per second.
    pub pir: i64,
    /// Peak burst, units.
    pub pburst: i64,
}

/// A member of an action profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileMember {
    /// The controller's id of it.
    pub id: u32,
    /// The action.
    pub call: ActionCall,
}

/// A member's place in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Id of a member that exists.
    pub member: u32,
    /// Share of the traffic, at least 1.
    pub weight: u32,
    /// Kept for reading back.
    pub watch_port: Option<Vec<u8>>,
}

/// A group of an action selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileGroup {
    /// The controller's id of it.
    pub id: u32,
    /// Sum of weights the group may hold; 0: no limit of its own.
    pub max_size: u32,
    /// Members, in order.
    pub members: Vec<GroupMember>,
}

/// One copy made by replication: it leaves by `port` and carries `instance` as `egress_rid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port.
    pub port: u16,
    /// Replica id, `standard_metadata.egress_rid` of the copy.
    pub instance: u16,
}

/// A clone (mirror) session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// Copies made of a packet cloned to this session.
    pub replicas: Vec<Replica>,
    /// Truncate copies to so many bytes; 0: whole packets.
    pub packet_length_bytes: u32,
}

/// Which table a digest message came from and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRecord {
    /// Fields of the digest's struct, in order, in shortest form.
    pub fields: Vec<Vec<u8>>,
}
