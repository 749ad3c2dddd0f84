//! The control plane's operations on a [`Switch`]. All are plain method calls on the switch's owner; from another
//! thread they go through [`crate::runtime::SwitchHandle::with`], which runs a closure between two batches of packets.
//!
//! Objects are named by handles, which [`Program`](crate::Program) gives for names: `program.table("MyIngress.ipv4_lpm")`.
//!
//! ```no_run
//! # use inca_switch::{Switch, control::*};
//! # fn example(sw: &mut Switch) -> Option<()> {
//! let t = sw.program().table("Ingress.ipv4")?;
//! let a = sw.program().table_action(t, "Ingress.forward")?;
//! sw.table_insert(t, TableEntry { keys: vec![MatchKey::Lpm { value: vec![10, 0, 0, 0], prefix_len: 8 }],
//!     priority: 0, action: EntryAction::Call(ActionCall { action: a, args: vec![vec![3]] }),
//!     metadata: vec![], idle_timeout_ns: 0 }).ok()?;
//! # Some(())
//! # }
//! ```

mod bytes;
mod error;
mod profiles;
mod replication;
mod state;
mod tables;
mod types;

pub(crate) use bytes::shortest;
pub use error::{ErrorKind, ProfileError, ReplicationError, StateError, TableError};
pub use types::{
    ActionCall, CloneSession, CounterValue, DigestRecord, EntryAction, EntryKey, EntryView, GroupMember,
    MatchKey, MeterConfig, OneShotMember, ProfileGroup, ProfileMember, Replica, TableEntry,
};
