//! Who may write: the election among the controllers of a role. Pure state; the caller delivers the notices.
//!
//! The highest election id ever seen decides: only a controller that reaches it becomes primary, so when the primary goes,
//! nobody is promoted until a controller asks again. (P4Runtime specification, "Rules for Handling MasterArbitrationUpdate".)

use std::collections::{BTreeMap, HashMap};

use inca_p4runtime::{
    p4v1::{MasterArbitrationUpdate, Role},
    proto::google::rpc,
};
use tonic::{Code, Status};

#[cfg(test)]
mod tests;

/// Controllers of one role; more are refused.
const MAX_CONTROLLERS: usize = 64;

/// A stream, for its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnectionId(pub(super) u64);

/// An arbitration update that has to be sent to a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Notice {
    pub(super) to: ConnectionId,
    pub(super) update: MasterArbitrationUpdate,
}

/// The elections of all roles of a device.
#[derive(Debug)]
pub(super) struct Elections {
    device_id: u64,
    roles: HashMap<String, Election>,
    /// Role of each connection that took part.
    connections: HashMap<ConnectionId, String>,
}

/// The election of one role.
#[derive(Debug, Default)]
struct Election {
    /// As given by the controllers, to be returned to them.
    role: Option<Role>,
    highest: Option<u128>,
    primary: Option<ConnectionId>,
    controllers: BTreeMap<ConnectionId, Option<u128>>,
}

impl Elections {
    pub(super) fn new(device_id: u64) -> Self {
        Self { device_id, roles: HashMap::new(), connections: HashMap::new() }
    }

    /// A controller's update. An error ends its stream, and the caller has to call [`Self::leave`] for it.
    pub(super) fn arbitrate(
        &mut self,
        from: ConnectionId,
        update: MasterArbitrationUpdate,
    ) -> Result<Vec<Notice>, Status> {
        let role = role_name(update.role.as_ref());
        let known = self.connections.get(&from);
        if update.device_id != self.device_id {
            let message = format!("device {} given, this is device {}", update.device_id, self.device_id);
            return Err(match known {
                None => Status::not_found(message),
                Some(_) => Status::failed_precondition(format!("{message}: a stream stays with its device")),
            });
        }
        if let Some(known) = known.filter(|known| **known != role) {
            return Err(Status::failed_precondition(format!(
                "role {role:?} given, this stream has role {known:?}: open another stream to change it"
            )));
        }
        if update.role.as_ref().is_some_and(|role| role.config.is_some()) {
            return Err(Status::invalid_argument(format!(
                "role {role:?}: role configurations are not supported, leave it out for full access"
            )));
        }
        // 0 is not a valid id: such a controller only watches, as one without id does.
        let id = update.election_id.map(u128::from).filter(|&id| id != 0);
        let election = self.roles.entry(role.clone()).or_default();
        if let Some(id) = id
            && election.controllers.iter().any(|(&other, &used)| other != from && used == Some(id))
        {
            return Err(Status::invalid_argument(format!(
                "election id {id} is in use by another controller"
            )));
        }
        if known.is_none() && election.controllers.len() >= MAX_CONTROLLERS {
            return Err(Status::resource_exhausted(format!(
                "role {role:?} has {MAX_CONTROLLERS} controllers already"
            )));
        }
        self.connections.insert(from, role);
        election.role = update.role;
        election.controllers.insert(from, id);
        Ok(election.elect(self.device_id, from, id))
    }

    /// A stream has ended.
    pub(super) fn leave(&mut self, connection: ConnectionId) -> Vec<Notice> {
        let Some(election) = self.connections.remove(&connection).and_then(|role| self.roles.get_mut(&role))
        else {
            return Vec::new();
        };
        election.controllers.remove(&connection);
        if election.primary != Some(connection) {
            return Vec::new();
        }
        election.primary = None;
        election.notices(self.device_id)
    }

    /// Whether a request with this role and election id is the primary's.
    pub(super) fn authorise(&self, role: &str, election_id: u128) -> Result<(), Status> {
        let Some(election) = self.roles.get(role) else {
            return Err(match role {
                "" => Status::permission_denied("no controller has taken part in arbitration"),
                role => Status::not_found(format!("no role {role:?}")),
            });
        };
        let Some(primary) = election.primary else {
            return Err(Status::permission_denied(format!("role {role:?} has no primary controller")));
        };
        match election.controllers.get(&primary).copied().flatten() {
            Some(id) if id == election_id => Ok(()),
            _ => Err(Status::permission_denied(format!(
                "election id {election_id} is not the primary's, which is {}",
                election.highest.unwrap_or_default()
            ))),
        }
    }

    /// Whether the connection is the primary of its role.
    pub(super) fn is_primary(&self, connection: ConnectionId) -> bool {
        self.connections
            .get(&connection)
            .and_then(|role| self.roles.get(role))
            .is_some_and(|election| election.primary == Some(connection))
    }

    /// The primaries of all roles.
    pub(super) fn primaries(&self) -> impl Iterator<Item = ConnectionId> {
        self.roles.values().filter_map(|election| election.primary)
    }
}

impl Election {
    fn elect(&mut self, device_id: u64, from: ConnectionId, id: Option<u128>) -> Vec<Notice> {
        match id {
            Some(id) if self.highest.is_none_or(|highest| id >= highest) => {
                self.highest = Some(id);
                self.primary = Some(from);
                self.notices(device_id)
            }
            _ if self.primary == Some(from) => {
                self.primary = None;
                self.notices(device_id)
            }
            _ => vec![self.notice(device_id, from)],
        }
    }

    /// News for everyone, the primary last: the others must know before it starts to write.
    fn notices(&self, device_id: u64) -> Vec<Notice> {
        let others = self.controllers.keys().filter(|&&to| self.primary != Some(to));
        others.chain(&self.primary).map(|&to| self.notice(device_id, to)).collect()
    }

    fn notice(&self, device_id: u64, to: ConnectionId) -> Notice {
        let (code, message) = match self.primary {
            Some(primary) if primary == to => (Code::Ok, "you are primary"),
            Some(_) => (Code::AlreadyExists, "you are a backup: another controller is primary"),
            None => (Code::NotFound, "you are a backup: there is no primary controller"),
        };
        let update = MasterArbitrationUpdate {
            device_id,
            role: self.role.clone(),
            election_id: self.highest.map(Into::into),
            status: Some(rpc::Status { code: code as i32, message: message.to_owned(), details: Vec::new() }),
        };
        Notice { to, update }
    }
}

/// The role by its name, or by its number as controllers before P4Runtime 1.3 give it.
fn role_name(role: Option<&Role>) -> String {
    #[allow(deprecated)]
    match role {
        None => String::new(),
        Some(role) if role.name.is_empty() && role.id != 0 => role.id.to_string(),
        Some(role) => role.name.clone(),
    }
}
