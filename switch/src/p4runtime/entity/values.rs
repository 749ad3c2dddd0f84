//! Parser value sets, and which digests are sent.

use inca_p4runtime::{
    bytestring,
    info::{MatchKind, ValueSetInfo},
    p4v1::{
        DigestEntry, Entity, FieldMatch, ValueSetEntry, ValueSetMember,
        entity::Entity as Kind,
        field_match::{Exact, FieldMatchType},
    },
    status::UpdateError,
};
use tonic::Code;

use super::Operation;
use crate::p4runtime::{
    error::{Outcome, bytes, invalid, unknown},
    plane::Context,
};

/// Replaces the members of a value set.
pub(in crate::p4runtime) fn apply_value_set(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &ValueSetEntry,
) -> Outcome {
    operation.must_modify("value set")?;
    let info = cx.pipeline.info.value_set_by_id(entry.value_set_id).map_err(unknown)?;
    let handle = cx.pipeline.value_set(info.id).ok_or_else(|| absent("value set", &info.name))?;
    if i64::try_from(entry.members.len()).is_ok_and(|count| count > i64::from(info.size)) {
        let message =
            format!("value set {}: {} members given, it holds {}", info.name, entry.members.len(), info.size);
        return Err(UpdateError::new(Code::ResourceExhausted, message));
    }
    let members: Vec<Vec<u8>> =
        entry.members.iter().map(|member| joined(info, member)).collect::<Outcome<_>>()?;
    if let Some(at) = (1..members.len()).find(|&at| members[..at].contains(&members[at])) {
        let message = format!("value set {}: member {at} is given twice", info.name);
        return Err(UpdateError::new(Code::AlreadyExists, message));
    }
    Ok(cx.switch.value_set_write(handle, members)?)
}

/// One value set, or all of them (id 0).
pub(in crate::p4runtime) fn read_value_sets(
    cx: &mut Context<'_>,
    pattern: &ValueSetEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    let all: Vec<&ValueSetInfo> = match pattern.value_set_id {
        0 => cx.pipeline.info.value_sets().collect(),
        id => vec![cx.pipeline.info.value_set_by_id(id).map_err(unknown)?],
    };
    for info in all {
        let handle = cx.pipeline.value_set(info.id).ok_or_else(|| absent("value set", &info.name))?;
        let members = cx.switch.value_set_read(handle)?.iter().map(|member| split(info, member)).collect();
        found.push(Kind::ValueSetEntry(ValueSetEntry { value_set_id: info.id, members }).into());
    }
    Ok(())
}

/// Switches a digest on, changes its batching, or switches it off.
pub(in crate::p4runtime) fn apply_digest(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &DigestEntry,
) -> Outcome {
    let info = cx.pipeline.info.digest_by_id(entry.digest_id).map_err(unknown)?;
    let config = entry.config.unwrap_or_default();
    if config.max_timeout_ns < 0 || config.max_list_size < 0 || config.ack_timeout_ns < 0 {
        return Err(invalid(format!("digest {}: times and sizes must be 0 or more", info.name)));
    }
    let error = |code, problem| UpdateError::new(code, format!("digest {} {problem}", info.name));
    let digests = &mut cx.notes.digests;
    match (operation, digests.contains_key(&info.id)) {
        (Operation::Insert, true) => Err(error(Code::AlreadyExists, "is switched on already")),
        (Operation::Modify | Operation::Delete, false) => Err(error(Code::NotFound, "is not switched on")),
        (Operation::Insert, false) | (Operation::Modify, true) => {
            digests.insert(info.id, *entry);
            Ok(())
        }
        (Operation::Delete, true) => {
            digests.remove(&info.id);
            Ok(())
        }
    }
}

/// One digest that is switched on, or all of them (id 0).
pub(in crate::p4runtime) fn read_digests(
    cx: &mut Context<'_>,
    pattern: &DigestEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    if pattern.digest_id != 0 {
        cx.pipeline.info.digest_by_id(pattern.digest_id).map_err(unknown)?;
    }
    let on = cx.notes.digests.values().filter(|entry| [0, entry.digest_id].contains(&pattern.digest_id));
    found.extend(on.map(|entry| Entity::from(Kind::DigestEntry(*entry))));
    Ok(())
}

/// All fields of a member side by side, the first one highest.
fn joined(info: &ValueSetInfo, member: &ValueSetMember) -> Outcome<Vec<u8>> {
    let bad = |problem: String| invalid(format!("value set {}: {problem}", info.name));
    let total: u32 = info.fields.iter().map(|field| field.width).sum();
    let mut value = vec![0u8; total.div_ceil(8) as usize];
    let length = value.len();
    let mut below = total;
    for field in &info.fields {
        below -= field.width;
        if field.kind != MatchKind::Exact {
            let message =
                format!("value set {}: fields matched as {} are not supported", info.name, field.kind.name());
            return Err(UpdateError::new(Code::Unimplemented, message));
        }
        let given = member.r#match.iter().find(|given| given.field_id == field.id);
        let Some(FieldMatchType::Exact(Exact { value: bits })) =
            given.and_then(|given| given.field_match_type.as_ref())
        else {
            return Err(bad(format!("a member has no exact match of field {}", field.id)));
        };
        let bits = bytestring::fit(bits, field.width)
            .map_err(|error| bytes(format_args!("value set {}, field {}", info.name, field.id), error))?;
        for i in 0..(bits.len() as u32 * 8).min(field.width) {
            let bit = bits[bits.len() - 1 - (i / 8) as usize] >> (i % 8) & 1;
            let at = below + i;
            value[length - 1 - (at / 8) as usize] |= bit << (at % 8);
        }
    }
    if member.r#match.len() != info.fields.len() {
        return Err(bad(format!(
            "a member has {} fields, expected {}",
            member.r#match.len(),
            info.fields.len()
        )));
    }
    Ok(bytestring::canonical(&value).to_vec())
}

/// The fields of a member.
fn split(info: &ValueSetInfo, member: &[u8]) -> ValueSetMember {
    let total: u32 = info.fields.iter().map(|field| field.width).sum();
    let whole = bytestring::padded(member, total);
    let mut below = total;
    let fields = info.fields.iter().map(|field| {
        below -= field.width;
        let mut value = vec![0u8; field.width.div_ceil(8) as usize];
        let length = value.len();
        for i in 0..field.width {
            let at = below + i;
            let bit = whole[whole.len() - 1 - (at / 8) as usize] >> (at % 8) & 1;
            value[length - 1 - (i / 8) as usize] |= bit << (i % 8);
        }
        let value = bytestring::canonical(&value).to_vec();
        FieldMatch { field_id: field.id, field_match_type: Some(FieldMatchType::Exact(Exact { value })) }
    });
    ValueSetMember { r#match: fields.collect() }
}

fn absent(what: &str, name: &str) -> UpdateError {
    UpdateError::new(Code::Internal, format!("{what} {name} is not in the program"))
}
