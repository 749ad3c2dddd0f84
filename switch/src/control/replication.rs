//! Multicast groups and clone sessions.

use std::collections::HashSet;
use std::sync::Arc;

use super::{CloneSession, Replica, ReplicationError};
use crate::switch::Switch;

type Result<T> = std::result::Result<T, ReplicationError>;

const GROUP: &str = "multicast group";
const SESSION: &str = "clone session";

fn check(what: &'static str, id: u32, max: u32, replicas: &[Replica]) -> Result<()> {
    if id == 0 || id > max {
        return Err(ReplicationError::BadId { what, id, min: 1, max });
    }
    let mut seen = HashSet::new();
    for replica in replicas {
        if !seen.insert(*replica) {
            let Replica { port, instance } = *replica;
            return Err(ReplicationError::DuplicateReplica { what, id, port, instance });
        }
    }
    Ok(())
}

impl Switch {
    /// Adds a multicast group (1 to 65535). The same port may occur several times, with distinct instances.
    ///
    /// # Errors
    /// A bad id, an id that is taken, a replica given twice.
    pub fn multicast_insert(&mut self, id: u32, replicas: Vec<Replica>) -> Result<()> {
        check(GROUP, id, 0xffff, &replicas)?;
        if self.machine.rules.multicast.contains_key(&id) {
            return Err(ReplicationError::AlreadyExists { what: GROUP, id });
        }
        Arc::make_mut(&mut self.rules_mut().multicast).insert(id, replicas.into());
        Ok(())
    }

    /// Replaces a group's replicas.
    ///
    /// # Errors
    /// No such group, a replica given twice.
    pub fn multicast_modify(&mut self, id: u32, replicas: Vec<Replica>) -> Result<()> {
        check(GROUP, id, 0xffff, &replicas)?;
        match Arc::make_mut(&mut self.rules_mut().multicast).get_mut(&id) {
            Some(old) => *old = replicas.into(),
            None => return Err(ReplicationError::NotFound { what: GROUP, id }),
        }
        Ok(())
    }

    /// Removes a group.
    ///
    /// # Errors
    /// No such group.
    pub fn multicast_delete(&mut self, id: u32) -> Result<()> {
        let removed = Arc::make_mut(&mut self.rules_mut().multicast).remove(&id);
        removed.map(drop).ok_or(ReplicationError::NotFound { what: GROUP, id })
    }

    /// A group's replicas, in the order given.
    pub fn multicast_get(&self, id: u32) -> Option<&[Replica]> {
        self.machine.rules.multicast.get(&id).map(|replicas| &**replicas)
    }

    /// Ids of all multicast groups, ascending.
    pub fn multicast_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.machine.rules.multicast.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Adds a clone session (1 to 32767).
    ///
    /// # Errors
    /// A bad id, an id that is taken, a replica given twice.
    pub fn clone_session_insert(&mut self, id: u32, session: CloneSession) -> Result<()> {
        check(SESSION, id, 0x7fff, &session.replicas)?;
        if self.machine.rules.sessions.contains_key(&id) {
            return Err(ReplicationError::AlreadyExists { what: SESSION, id });
        }
        Arc::make_mut(&mut self.rules_mut().sessions).insert(id, session);
        Ok(())
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// No such session, a replica given twice.
    pub fn clone_session_modify(&mut self, id: u32, session: CloneSession) -> Result<()> {
        check(SESSION, id, 0x7fff, &session.replicas)?;
        match Arc::make_mut(&mut self.rules_mut().sessions).get_mut(&id) {
            Some(old) => *old = session,
            None => return Err(ReplicationError::NotFound { what: SESSION, id }),
        }
        Ok(())
    }

    /// Removes a clone session.
    ///
    /// # Errors
    /// No such session.
    pub fn clone_session_delete(&mut self, id: u32) -> Result<()> {
        let removed = Arc::make_mut(&mut self.rules_mut().sessions).remove(&id);
        removed.map(drop).ok_or(ReplicationError::NotFound { what: SESSION, id })
    }

    /// A clone session.
    pub fn clone_session_get(&self, id: u32) -> Option<&CloneSession> {
        self.machine.rules.sessions.get(&id)
    }

    /// Ids of all clone sessions, ascending.
    pub fn clone_session_ids(&self) -> Vec<u32> {
        self.machine.rules.sessions.keys().copied().collect()
    }
}
