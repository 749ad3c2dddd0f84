//! Multicast groups and clone sessions.

use inca_p4runtime::{
    bytestring,
    p4v1::{
        self, CloneSessionEntry, Entity, MulticastGroupEntry, PacketReplicationEngineEntry,
        entity::Entity as Kind, packet_replication_engine_entry as pre, replica::PortKind,
    },
    status::UpdateError,
};
use tonic::Code;

use super::Operation;
use crate::{
    control::{CloneSession, Replica},
    p4runtime::{
        error::{Outcome, invalid},
        plane::Context,
    },
};

/// Inserts, modifies or deletes a multicast group.
pub(in crate::p4runtime) fn apply_group(
    cx: &mut Context<'_>,
    operation: Operation,
    group: &MulticastGroupEntry,
) -> Outcome {
    let id = group.multicast_group_id;
    let what = format!("multicast group {id}");
    match operation {
        Operation::Insert => cx.switch.multicast_insert(id, replicas(&what, &group.replicas)?)?,
        Operation::Modify => cx.switch.multicast_modify(id, replicas(&what, &group.replicas)?)?,
        Operation::Delete => cx.switch.multicast_delete(id)?,
    }
    match operation {
        Operation::Delete => cx.notes.groups.remove(&id),
        Operation::Insert | Operation::Modify => cx.notes.groups.insert(id, group.clone()),
    };
    Ok(())
}

/// Inserts, modifies or deletes a clone session.
pub(in crate::p4runtime) fn apply_session(
    cx: &mut Context<'_>,
    operation: Operation,
    session: &CloneSessionEntry,
) -> Outcome {
    let id = session.session_id;
    let what = format!("clone session {id}");
    let wanted = || {
        let length = session.packet_length_bytes;
        let packet_length_bytes = u32::try_from(length)
            .map_err(|_| invalid(format!("{what}: packet length {length} given, expected 0 or more")))?;
        Ok::<_, UpdateError>(CloneSession {
            replicas: replicas(&what, &session.replicas)?,
            packet_length_bytes,
        })
    };
    match operation {
        Operation::Insert => cx.switch.clone_session_insert(id, wanted()?)?,
        Operation::Modify => cx.switch.clone_session_modify(id, wanted()?)?,
        Operation::Delete => cx.switch.clone_session_delete(id)?,
    }
    match operation {
        Operation::Delete => cx.notes.sessions.remove(&id),
        Operation::Insert | Operation::Modify => cx.notes.sessions.insert(id, session.clone()),
    };
    Ok(())
}

/// One group, or all of them (id 0).
pub(in crate::p4runtime) fn read_groups(cx: &Context<'_>, id: u32, found: &mut Vec<Entity>) {
    for group in cx.switch.multicast_ids() {
        let Some(held) = cx.switch.multicast_get(group).filter(|_| id == 0 || id == group) else { continue };
        let note = cx.notes.groups.get(&group);
        let entry = MulticastGroupEntry {
            multicast_group_id: group,
            replicas: read_replicas(held, note.map_or(&[], |note| &note.replicas)),
            metadata: note.map(|note| note.metadata.clone()).unwrap_or_default(),
        };
        found.push(entry.into());
    }
}

/// One session, or all of them (id 0).
pub(in crate::p4runtime) fn read_sessions(cx: &Context<'_>, id: u32, found: &mut Vec<Entity>) {
    for session in cx.switch.clone_session_ids() {
        let Some(held) = cx.switch.clone_session_get(session).filter(|_| id == 0 || id == session) else {
            continue;
        };
        let note = cx.notes.sessions.get(&session);
        let entry = CloneSessionEntry {
            session_id: session,
            replicas: read_replicas(&held.replicas, note.map_or(&[], |note| &note.replicas)),
            class_of_service: note.map_or(0, |note| note.class_of_service),
            packet_length_bytes: held.packet_length_bytes as i32,
        };
        let r#type = Some(pre::Type::CloneSessionEntry(entry));
        found.push(Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type }).into());
    }
}

fn replicas(what: &str, given: &[p4v1::Replica]) -> Outcome<Vec<Replica>> {
    given
        .iter()
        .map(|replica| {
            if !replica.backup_replicas.is_empty() {
                let message = format!("{what}: backup replicas are not supported");
                return Err(UpdateError::new(Code::Unimplemented, message));
            }
            let port = port(replica).and_then(|port| u16::try_from(port).ok()).ok_or_else(|| {
                invalid(format!("{what}: a replica has no port, or one above {}", u16::MAX))
            })?;
            let instance = u16::try_from(replica.instance).map_err(|_| {
                invalid(format!("{what}: instance {} given, valid are 0 to {}", replica.instance, u16::MAX))
            })?;
            Ok(Replica { port, instance })
        })
        .collect()
}

fn port(replica: &p4v1::Replica) -> Option<u64> {
    #[allow(deprecated)] // The form until P4Runtime 1.4.
    match replica.port_kind.as_ref()? {
        PortKind::EgressPort(port) => Some(u64::from(*port)),
        PortKind::Port(bytes) if bytes.is_empty() => None,
        PortKind::Port(bytes) => bytestring::to_u64(bytes),
    }
}

/// Replicas, each with its port in the form in which it was written.
fn read_replicas(held: &[Replica], written: &[p4v1::Replica]) -> Vec<p4v1::Replica> {
    held.iter()
        .map(|replica| {
            let same = |note: &&p4v1::Replica| {
                port(note) == Some(u64::from(replica.port)) && note.instance == u32::from(replica.instance)
            };
            let port_kind = match written.iter().find(same).and_then(|note| note.port_kind.as_ref()) {
                Some(PortKind::Port(bytes)) => PortKind::Port(bytestring::canonical(bytes).to_vec()),
                #[allow(deprecated)]
                _ => PortKind::EgressPort(u32::from(replica.port)),
            };
            p4v1::Replica {
                port_kind: Some(port_kind),
                instance: u32::from(replica.instance),
                backup_replicas: Vec::new(),
            }
        })
        .collect()
}
