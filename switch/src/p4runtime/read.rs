//! Reads: everything that the patterns of a request stand for, in messages that any client accepts.

use inca_p4runtime::p4v1::{Entity, ReadResponse};
use prost::Message as _;

use super::{entity, error::Outcome, plane::Context};

/// Encoded entities per message: clients take 4 MiB by default.
const MESSAGE_BYTES: usize = 1 << 20;

/// Reads all patterns at one point in time.
pub(super) fn read(cx: &mut Context<'_>, patterns: &[Entity]) -> Outcome<Vec<Entity>> {
    let mut found = Vec::new();
    for pattern in patterns {
        entity::read(cx, pattern, &mut found)?;
    }
    Ok(found)
}

/// Entities in messages of bounded size; at least one message.
pub(super) fn messages(entities: Vec<Entity>) -> Vec<ReadResponse> {
    let mut messages = vec![ReadResponse::default()];
    let mut bytes = 0;
    for entity in entities {
        let size = entity.encoded_len();
        if bytes + size > MESSAGE_BYTES && bytes > 0 {
            messages.push(ReadResponse::default());
            bytes = 0;
        }
        bytes += size;
        if let Some(message) = messages.last_mut() {
            message.entities.push(entity);
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use inca_p4runtime::p4v1::{RegisterEntry, entity::Entity as Kind};

    use super::*;

    #[test]
    fn large_reads_are_split_and_nothing_is_lost() {
        let entity = |register_id| {
            let data = inca_p4runtime::p4v1::p4_data::Data::Bitstring(vec![1; 256]);
            let data = Some(inca_p4runtime::p4v1::P4Data { data: Some(data) });
            Entity::from(Kind::RegisterEntry(RegisterEntry { register_id, index: None, data }))
        };
        let entities: Vec<_> = (0..10_000).map(entity).collect();
        let messages = messages(entities.clone());
        assert!(messages.len() > 2);
        assert!(messages.iter().all(|message| message.encoded_len() < 2 << 20));
        assert_eq!(messages.into_iter().flat_map(|message| message.entities).collect::<Vec<_>>(), entities);
        assert_eq!(super::messages(Vec::new()).len(), 1);
    }
}
