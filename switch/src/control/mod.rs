//! The control plane's operations on a [`Switch`]. All are plain method calls on the switch's owner; from another
//! thread they go through [`crate::runtime::SwitchHandle::with`], which runs a closure between two batches of packets.
//!
//! Objects are named by handles, which [`Program`](crate::Program) gives for names: `program.table("MyIngress.ipv4_lpm")`.
//!
//! ```ignore
//! let t = sw.program().table("Ingress.ipv4")?;
//! let a = sw.program().table_action(t, "Ingress.forward")?;
//! sw.table_insert(t, TableEntry { keys: vec![MatchKey::Lpm { value: vec![10, 0, 0, 0], prefix_len: 8 }],
//!     priority: 0, action: EntryAction::Call(ActionCall { action: a, args: vec![vec![3]] }),
//!     metadata: vec![], idle_timeout_ns: 0 })?;
//! ```

mod error;
mod types;

pub use error::{ErrorKind, ProfileError, ReplicationError, StateError, TableError};
pub use types::{
    ActionCall, CloneSession, CounterValue, DigestRecord, EntryAction, EntryKey, EntryView, GroupMember,
    MatchKey, MeterConfig, OneShotMember, ProfileGroup, ProfileMember, Replica, TableEntry,
};

use crate::program::{CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use crate::switch::Switch;

/// Tables.
impl Switch {
    /// Adds an entry.
    pub fn table_insert(&mut self, _table: TableId, _entry: TableEntry) -> Result<(), TableError> {
        unimplemented!("being written")
    }

    /// Replaces action, metadata and timeout of the entry with the same keys and priority.
    pub fn table_modify(&mut self, _table: TableId, _entry: TableEntry) -> Result<(), TableError> {
        unimplemented!("being written")
    }

    /// Removes an entry.
    pub fn table_delete(&mut self, _table: TableId, _key: &EntryKey) -> Result<(), TableError> {
        unimplemented!("being written")
    }

    /// The entry with these keys and priority.
    pub fn table_get(&self, _table: TableId, _key: &EntryKey) -> Result<EntryView, TableError> {
        unimplemented!("being written")
    }

    /// All entries, const ones too, in order of insertion.
    pub fn table_entries(&self, _table: TableId) -> Result<Vec<EntryView>, TableError> {
        unimplemented!("being written")
    }

    /// Number of entries.
    pub fn table_len(&self, _table: TableId) -> Result<usize, TableError> {
        unimplemented!("being written")
    }

    /// The default action; `None` if there is none (a miss does nothing).
    pub fn table_default(&self, _table: TableId) -> Result<Option<EntryAction>, TableError> {
        unimplemented!("being written")
    }

    /// Sets the default action; `None` restores the program's.
    pub fn table_set_default(
        &mut self,
        _table: TableId,
        _action: Option<EntryAction>,
    ) -> Result<(), TableError> {
        unimplemented!("being written")
    }

    /// Sets an entry's direct counter.
    pub fn direct_counter_write(
        &mut self,
        _table: TableId,
        _key: &EntryKey,
        _value: CounterValue,
    ) -> Result<(), TableError> {
        unimplemented!("being written")
    }

    /// Sets an entry's direct meter; `None`: unlimited (every packet green).
    pub fn direct_meter_write(
        &mut self,
        _table: TableId,
        _key: &EntryKey,
        _config: Option<MeterConfig>,
    ) -> Result<(), TableError> {
        unimplemented!("being written")
    }

    /// Entries whose idle timeout has passed since their last hit and that were not reported since; in all tables.
    pub fn expired_entries(&mut self, _now_us: u64) -> Vec<(TableId, EntryView)> {
        unimplemented!("being written")
    }
}

/// Action profiles.
impl Switch {
    /// Adds a member.
    pub fn member_insert(&mut self, _profile: ProfileId, _member: ProfileMember) -> Result<(), ProfileError> {
        unimplemented!("being written")
    }

    /// Replaces a member's action.
    pub fn member_modify(&mut self, _profile: ProfileId, _member: ProfileMember) -> Result<(), ProfileError> {
        unimplemented!("being written")
    }

    /// Removes a member that no group or entry uses.
    pub fn member_delete(&mut self, _profile: ProfileId, _id: u32) -> Result<(), ProfileError> {
        unimplemented!("being written")
    }

    /// All members, by id.
    pub fn members(&self, _profile: ProfileId) -> Result<Vec<ProfileMember>, ProfileError> {
        unimplemented!("being written")
    }

    /// Adds a group.
    pub fn group_insert(&mut self, _profile: ProfileId, _group: ProfileGroup) -> Result<(), ProfileError> {
        unimplemented!("being written")
    }

    /// Replaces a group's members.
    pub fn group_modify(&mut self, _profile: ProfileId, _group: ProfileGroup) -> Result<(), ProfileError> {
        unimplemented!("being written")
    }

    /// Removes a group that no entry uses.
    pub fn group_delete(&mut self, _profile: ProfileId, _id: u32) -> Result<(), ProfileError> {
        unimplemented!("being written")
    }

    /// All groups, by id.
    pub fn groups(&self, _profile: ProfileId) -> Result<Vec<ProfileGroup>, ProfileError> {
        unimplemented!("being written")
    }
}

/// Registers, indirect counters and meters, value sets.
impl Switch {
    /// A register cell, in shortest form.
    pub fn register_read(&self, _register: RegisterId, _index: usize) -> Result<Vec<u8>, StateError> {
        unimplemented!("being written")
    }

    /// Sets a register cell.
    pub fn register_write(
        &mut self,
        _register: RegisterId,
        _index: usize,
        _value: &[u8],
    ) -> Result<(), StateError> {
        unimplemented!("being written")
    }

    /// An indirect counter.
    pub fn counter_read(&self, _counter: CounterId, _index: usize) -> Result<CounterValue, StateError> {
        unimplemented!("being written")
    }

    /// Sets an indirect counter.
    pub fn counter_write(
        &mut self,
        _counter: CounterId,
        _index: usize,
        _value: CounterValue,
    ) -> Result<(), StateError> {
        unimplemented!("being written")
    }

    /// An indirect meter's configuration; `None` if it was never set (every packet green).
    pub fn meter_read(&self, _meter: MeterId, _index: usize) -> Result<Option<MeterConfig>, StateError> {
        unimplemented!("being written")
    }

    /// Sets an indirect meter; `None`: unlimited.
    pub fn meter_write(
        &mut self,
        _meter: MeterId,
        _index: usize,
        _config: Option<MeterConfig>,
    ) -> Result<(), StateError> {
        unimplemented!("being written")
    }

    /// Replaces the members of a parser value set, each the concatenation of its fields, exact.
    pub fn value_set_write(&mut self, _set: ValueSetId, _members: Vec<Vec<u8>>) -> Result<(), StateError> {
        unimplemented!("being written")
    }

    /// Members of a parser value set.
    pub fn value_set_read(&self, _set: ValueSetId) -> Result<Vec<Vec<u8>>, StateError> {
        unimplemented!("being written")
    }
}

/// Replication. Group ids are 1 to 65535, session ids 1 to 32767.
impl Switch {
    /// Adds a multicast group. The same port may occur several times, with distinct instances.
    pub fn multicast_insert(&mut self, _id: u32, _replicas: Vec<Replica>) -> Result<(), ReplicationError> {
        unimplemented!("being written")
    }

    /// Replaces a group's replicas.
    pub fn multicast_modify(&mut self, _id: u32, _replicas: Vec<Replica>) -> Result<(), ReplicationError> {
        unimplemented!("being written")
    }

    /// Removes a group.
    pub fn multicast_delete(&mut self, _id: u32) -> Result<(), ReplicationError> {
        unimplemented!("being written")
    }

    /// A group's replicas, in the order given.
    pub fn multicast_get(&self, _id: u32) -> Option<&[Replica]> {
        unimplemented!("being written")
    }

    /// Ids of all multicast groups, ascending.
    pub fn multicast_ids(&self) -> Vec<u32> {
        unimplemented!("being written")
    }

    /// Adds a clone session.
    pub fn clone_session_insert(&mut self, _id: u32, _session: CloneSession) -> Result<(), ReplicationError> {
        unimplemented!("being written")
    }

    /// Replaces a clone session.
    pub fn clone_session_modify(&mut self, _id: u32, _session: CloneSession) -> Result<(), ReplicationError> {
        unimplemented!("being written")
    }

    /// Removes a clone session.
    pub fn clone_session_delete(&mut self, _id: u32) -> Result<(), ReplicationError> {
        unimplemented!("being written")
    }

    /// A clone session.
    pub fn clone_session_get(&self, _id: u32) -> Option<&CloneSession> {
        unimplemented!("being written")
    }

    /// Ids of all clone sessions, ascending.
    pub fn clone_session_ids(&self) -> Vec<u32> {
        unimplemented!("being written")
    }
}
