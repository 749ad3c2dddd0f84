//! Writing entities in batches, each error with the update that caused it.

use std::fmt;

use prost::Message as _;
use thiserror::Error;
use tonic::Code;

use super::{CallError, Client};
use crate::{
    p4v1::{
        Entity, MulticastGroupEntry, PacketReplicationEngineEntry, Replica, TableEntry, Update, WriteRequest,
        entity, packet_replication_engine_entry, replica::PortKind, update, write_request::Atomicity,
    },
    status::{UpdateError, write_outcomes},
};

/// Encoded updates per Write; wide parameters fill it before the number of updates does.
const BATCH_BYTES: usize = 1 << 20;
/// Failures printed by an error; the rest is counted.
const PRINTED: usize = 8;

/// An update that the switch refused.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateFailure {
    /// Position among the updates given to [`Client::write`].
    pub index: usize,
    /// The update.
    pub update: Update,
    /// Why it was refused.
    pub error: UpdateError,
}

/// Why not everything was written.
#[derive(Debug, Clone, Error)]
pub enum WriteError {
    /// A Write failed as a whole; the updates from `done` on may or may not be applied, those after its batch are not.
    #[error("after {done} updates: {source}")]
    Call {
        /// Updates in batches that were answered before.
        done: usize,
        /// The failure.
        source: CallError,
    },
    /// Some updates were refused, all others are applied.
    #[error("switch {switch}: {}", summary(.failures, *.total))]
    Updates {
        /// Name of the switch.
        switch: String,
        /// Updates in all.
        total: usize,
        /// The refused ones, in order.
        failures: Vec<UpdateFailure>,
    },
}

impl Client {
    /// Applies updates in order, in batches, going on after failures.
    pub async fn write(&self, updates: Vec<Update>) -> Result<(), WriteError> {
        let total = updates.len();
        let mut failures = Vec::new();
        let mut done = 0;
        for batch in batches(updates, self.inner.config.batch.max(1)) {
            let length = batch.len();
            match self.write_with(batch.clone(), Atomicity::ContinueOnError).await {
                Ok(()) => {}
                Err(source) => {
                    let CallError::Status { status, .. } = &source else {
                        return Err(WriteError::Call { done, source });
                    };
                    let Some(outcomes) = write_outcomes(status).filter(|outcomes| outcomes.len() == length)
                    else {
                        return Err(WriteError::Call { done, source });
                    };
                    for (at, (update, outcome)) in batch.into_iter().zip(outcomes).enumerate() {
                        if let Err(error) = outcome {
                            failures.push(UpdateFailure { index: done + at, update, error });
                        }
                    }
                }
            }
            done += length;
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(WriteError::Updates { switch: self.name().to_owned(), total, failures })
        }
    }

    /// One Write, as it is, with the atomicity given (BMv2 knows CONTINUE_ON_ERROR only).
    pub async fn write_with(&self, updates: Vec<Update>, atomicity: Atomicity) -> Result<(), CallError> {
        let request = WriteRequest {
            device_id: self.inner.config.device_id,
            election_id: Some(self.election_id().into()),
            atomicity: atomicity.into(),
            updates,
            ..Default::default()
        };
        let name = format!("Write of {} updates", request.updates.len());
        let mut rpc = self.rpc();
        let call = async move { rpc.write(request).await };
        self.call(name, self.inner.config.call_timeout, call).await?;
        Ok(())
    }

    /// Makes entities be there, whatever was there before: inserts, and modifies those that exist already.
    pub async fn upsert(&self, entities: Vec<Entity>) -> Result<(), WriteError> {
        let inserted = self.write(entities.into_iter().map(insert).collect()).await;
        self.retry(inserted, Code::AlreadyExists, |update| {
            Some(Update { r#type: update::Type::Modify.into(), ..update })
        })
        .await
    }

    /// Makes entities be gone; those that are not there are fine.
    pub async fn remove(&self, entities: Vec<Entity>) -> Result<(), WriteError> {
        let deleted = self.write(entities.into_iter().map(delete).collect()).await;
        self.retry(deleted, Code::NotFound, |_| None).await
    }

    /// Forgives or repeats updates that failed with `code`; other failures stay.
    async fn retry(
        &self,
        outcome: Result<(), WriteError>,
        code: Code,
        again: impl Fn(Update) -> Option<Update>,
    ) -> Result<(), WriteError> {
        let Err(WriteError::Updates { switch, total, failures }) = outcome else { return outcome };
        let (expected, mut failures): (Vec<_>, Vec<_>) =
            failures.into_iter().partition(|failure| failure.error.code == code);
        let (indices, updates): (Vec<_>, Vec<_>) =
            expected.into_iter().filter_map(|failure| Some((failure.index, again(failure.update)?))).unzip();
        match self.write(updates).await {
            Ok(()) => {}
            Err(WriteError::Updates { failures: second, .. }) => failures.extend(
                second.into_iter().map(|failure| UpdateFailure { index: indices[failure.index], ..failure }),
            ),
            Err(call) => return Err(call),
        }
        failures.sort_by_key(|failure| failure.index);
        if failures.is_empty() { Ok(()) } else { Err(WriteError::Updates { switch, total, failures }) }
    }
}

/// An INSERT of the entity.
pub fn insert(entity: impl Into<Entity>) -> Update {
    Update { r#type: update::Type::Insert.into(), entity: Some(entity.into()) }
}

/// A MODIFY of the entity.
pub fn modify(entity: impl Into<Entity>) -> Update {
    Update { r#type: update::Type::Modify.into(), entity: Some(entity.into()) }
}

/// A DELETE of the entity.
pub fn delete(entity: impl Into<Entity>) -> Update {
    Update { r#type: update::Type::Delete.into(), entity: Some(entity.into()) }
}

/// A multicast group of (port, instance) copies, ports in the form that BMv2 and the embedded switch both take.
pub fn multicast_group(id: u32, copies: impl IntoIterator<Item = (u32, u32)>) -> Entity {
    #[allow(deprecated)] // Older servers know no other form.
    let replica = |(port, instance)| Replica {
        port_kind: Some(PortKind::EgressPort(port)),
        instance,
        backup_replicas: Vec::new(),
    };
    let replicas = copies.into_iter().map(replica).collect();
    MulticastGroupEntry { multicast_group_id: id, replicas, metadata: Vec::new() }.into()
}

impl From<TableEntry> for Entity {
    fn from(entry: TableEntry) -> Self {
        Self { entity: Some(entity::Entity::TableEntry(entry)) }
    }
}

impl From<MulticastGroupEntry> for Entity {
    fn from(group: MulticastGroupEntry) -> Self {
        let r#type = Some(packet_replication_engine_entry::Type::MulticastGroupEntry(group));
        Self {
            entity: Some(entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                r#type,
            })),
        }
    }
}

impl From<entity::Entity> for Entity {
    fn from(entity: entity::Entity) -> Self {
        Self { entity: Some(entity) }
    }
}

fn batches(updates: Vec<Update>, count: usize) -> Vec<Vec<Update>> {
    let mut batches: Vec<Vec<Update>> = Vec::new();
    let mut bytes = 0;
    for update in updates {
        let size = update.encoded_len();
        match batches.last_mut() {
            Some(batch) if batch.len() < count && bytes + size <= BATCH_BYTES => {
                bytes += size;
                batch.push(update);
            }
            _ => {
                bytes = size;
                batches.push(vec![update]);
            }
        }
    }
    batches
}

fn summary(failures: &[UpdateFailure], total: usize) -> String {
    let mut text = format!("{} of {total} updates failed", failures.len());
    for failure in failures.iter().take(PRINTED) {
        text += &format!("; {failure}");
    }
    if failures.len() > PRINTED {
        text += &format!("; and {} more", failures.len() - PRINTED);
    }
    text
}

impl fmt::Display for UpdateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.update.r#type().as_str_name();
        let entity = self.update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        write!(f, "update {} ({operation} {}): {}", self.index, entity.map_or("nothing", kind), self.error)
    }
}

fn kind(entity: &entity::Entity) -> &'static str {
    match entity {
        entity::Entity::ExternEntry(_) => "extern entry",
        entity::Entity::TableEntry(_) => "table entry",
        entity::Entity::ActionProfileMember(_) => "action profile member",
        entity::Entity::ActionProfileGroup(_) => "action profile group",
        entity::Entity::MeterEntry(_) => "meter entry",
        entity::Entity::DirectMeterEntry(_) => "direct meter entry",
        entity::Entity::CounterEntry(_) => "counter entry",
        entity::Entity::DirectCounterEntry(_) => "direct counter entry",
        entity::Entity::PacketReplicationEngineEntry(_) => "replication entry",
        entity::Entity::ValueSetEntry(_) => "value set entry",
        entity::Entity::RegisterEntry(_) => "register entry",
        entity::Entity::DigestEntry(_) => "digest entry",
    }
}
