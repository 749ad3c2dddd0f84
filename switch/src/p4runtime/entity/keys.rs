//! Match fields and actions, between ids and byte strings of P4Runtime and the positions of the control API.

use inca_p4runtime::{
    bytestring::{self, canonical},
    info::{FieldInfo, MatchKind, TableInfo},
    p4config::action_ref::Scope,
    p4v1::{
        Action, FieldMatch, action,
        field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary},
    },
    status::UpdateError,
};
use tonic::Code;

use crate::{
    control::{ActionCall, MatchKey},
    p4runtime::{
        error::{Outcome, bytes, invalid, unknown},
        pipeline::Pipeline,
    },
    program::TableId,
};

/// Where an action is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Entry,
    Default,
}

/// The keys of an entry, one per field of the table, checked by the rules of P4Runtime.
pub(super) fn keys(table: &TableInfo, matches: &[FieldMatch]) -> Outcome<Vec<MatchKey>> {
    for (at, given) in matches.iter().enumerate() {
        let Some(field) = table.field_by_id(given.field_id) else {
            let valid: Vec<_> =
                table.fields.iter().map(|field| format!("{} ({})", field.id, field.name)).collect();
            return Err(invalid(format!(
                "table {} has no match field with id {}; valid are {}",
                table.name,
                given.field_id,
                valid.join(", ")
            )));
        };
        if matches[..at].iter().any(|earlier| earlier.field_id == given.field_id) {
            return Err(invalid(format!("table {}, field {}: given twice", table.name, field.name)));
        }
    }
    table
        .fields
        .iter()
        .map(|field| match matches.iter().find(|given| given.field_id == field.id) {
            Some(given) => key(table, field, given.field_match_type.as_ref()),
            None => anything(field).ok_or_else(|| {
                invalid(format!("table {}: exact match field {} is missing", table.name, field.name))
            }),
        })
        .collect()
}

/// Priorities are for tables with a field that is ternary, range or optional.
pub(super) fn check_priority(table: &TableInfo, priority: i32) -> Outcome {
    let expected = match table.needs_priority {
        true if priority <= 0 => "expected above 0: a field is ternary, range or optional",
        false if priority != 0 => "expected 0: every field is exact or lpm",
        _ => return Ok(()),
    };
    Err(invalid(format!("table {}: priority {priority} given, {expected}", table.name)))
}

/// The match fields of keys; a field that matches everything is left out.
pub(super) fn matches(table: &TableInfo, keys: &[MatchKey]) -> Vec<FieldMatch> {
    table
        .fields
        .iter()
        .zip(keys)
        .filter_map(|(field, key)| {
            Some(FieldMatch { field_id: field.id, field_match_type: Some(field_match(field, key)?) })
        })
        .collect()
}

/// An action with its arguments in order, checked.
pub(super) fn call(
    pipeline: &Pipeline,
    (table, handle): (&TableInfo, TableId),
    action: &Action,
    place: Use,
) -> Outcome<ActionCall> {
    let info = pipeline.info.action_by_id(action.action_id).map_err(|error| invalid(error.to_string()))?;
    let Some(reference) = table.actions.iter().find(|reference| reference.id == info.id) else {
        let valid: Vec<_> = table
            .actions
            .iter()
            .filter_map(|reference| pipeline.info.action_by_id(reference.id).ok())
            .map(|action| action.name.as_str())
            .collect();
        return Err(invalid(format!(
            "table {} does not allow action {}; valid are {}",
            table.name,
            info.name,
            valid.join(", ")
        )));
    };
    let forbidden = match (reference.scope, place) {
        (Scope::TableOnly, Use::Default) => "its default entry",
        (Scope::DefaultOnly, Use::Entry) => "an entry",
        _ => "",
    };
    if !forbidden.is_empty() {
        let message = format!("table {} does not allow action {} in {forbidden}", table.name, info.name);
        return Err(UpdateError::new(Code::PermissionDenied, message));
    }
    if let Some(extra) =
        action.params.iter().find(|given| !info.params.iter().any(|p| p.id == given.param_id))
    {
        let valid: Vec<_> =
            info.params.iter().map(|param| format!("{} ({})", param.id, param.name)).collect();
        return Err(invalid(format!(
            "action {} has no parameter with id {}; valid are {}",
            info.name,
            extra.param_id,
            valid.join(", ")
        )));
    }
    let args = info.params.iter().map(|param| {
        let mut values = action.params.iter().filter(|given| given.param_id == param.id);
        let (Some(given), None) = (values.next(), values.next()) else {
            let times = action.params.iter().filter(|given| given.param_id == param.id).count();
            return Err(invalid(format!(
                "action {}: parameter {} is given {times} times, expected once",
                info.name, param.name
            )));
        };
        let fits = bytestring::fit(&given.value, param.width);
        let value = fits
            .map_err(|error| bytes(format_args!("action {}, parameter {}", info.name, param.name), error))?;
        Ok(value.to_vec())
    });
    let args = args.collect::<Outcome<_>>()?;
    let action = pipeline.table_action(handle, info).ok_or_else(|| {
        UpdateError::new(Code::Internal, format!("action {} is not in the program", info.name))
    })?;
    Ok(ActionCall { action, args })
}

/// The action of a call, as it is read back.
pub(super) fn action(pipeline: &Pipeline, call: &ActionCall) -> Outcome<Action> {
    let info = pipeline.action_info(call.action).ok_or_else(|| {
        // Actions that the compiler made for itself have no place in the P4Info, and no entry can have them.
        UpdateError::new(Code::Internal, "an action of the program is not in the p4info".to_owned())
    })?;
    let params = info
        .params
        .iter()
        .zip(&call.args)
        .map(|(param, value)| action::Param { param_id: param.id, value: canonical(value).to_vec() })
        .collect();
    Ok(Action { action_id: info.id, params })
}

/// The table of an id.
pub(super) fn table(pipeline: &Pipeline, id: u32) -> Outcome<(&TableInfo, TableId)> {
    let info = pipeline.info.table_by_id(id).map_err(unknown)?;
    let handle = pipeline.table(id).ok_or_else(|| {
        UpdateError::new(Code::Internal, format!("table {} is not in the program", info.name))
    })?;
    Ok((info, handle))
}

fn key(table: &TableInfo, field: &FieldInfo, given: Option<&FieldMatchType>) -> Outcome<MatchKey> {
    let fit = |value: &[u8]| {
        let fits = bytestring::fit(value, field.width).map(<[u8]>::to_vec);
        fits.map_err(|error| bytes(format_args!("table {}, field {}", table.name, field.name), error))
    };
    let bad = |problem: &str| invalid(format!("table {}, field {}: {problem}", table.name, field.name));
    let everything = || bad("matches everything: leave the field out");
    Ok(match (field.kind, given) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => MatchKey::Exact(fit(&exact.value)?),
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => {
            MatchKey::Optional(Some(fit(&optional.value)?))
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            let value = fit(&lpm.value)?;
            let prefix_len = u32::try_from(lpm.prefix_len).ok().filter(|&length| length <= field.width);
            let Some(prefix_len) = prefix_len else {
                return Err(bad(&format!(
                    "prefix length {} given, valid are 1 to {}",
                    lpm.prefix_len, field.width
                )));
            };
            if prefix_len == 0 {
                return Err(everything());
            }
            if bytestring::exceeds_mask(&value, &bytestring::prefix_mask(field.width, prefix_len)) {
                return Err(bad(&format!("the value has bits set beyond its prefix of {prefix_len} bits")));
            }
            MatchKey::Lpm { value, prefix_len }
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            let (value, mask) = (fit(&ternary.value)?, fit(&ternary.mask)?);
            if bytestring::bit_length(&mask) == 0 {
                return Err(everything());
            }
            if bytestring::exceeds_mask(&value, &mask) {
                return Err(bad("the value has bits set outside of its mask"));
            }
            MatchKey::Ternary { value, mask }
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            let (low, high) = (fit(&range.low)?, fit(&range.high)?);
            if (low.len(), &low) > (high.len(), &high) {
                return Err(bad("the range's low end is above its high end"));
            }
            if low == [0] && high == bytestring::ones(field.width) {
                return Err(everything());
            }
            MatchKey::Range { low, high }
        }
        (kind, Some(given)) => {
            return Err(bad(&format!("is matched as {}, not as {}", kind.name(), name(given))));
        }
        (kind, None) => return Err(bad(&format!("is matched as {}, no match given", kind.name()))),
    })
}

fn anything(field: &FieldInfo) -> Option<MatchKey> {
    Some(match field.kind {
        MatchKind::Exact => return None,
        MatchKind::Lpm => MatchKey::Lpm { value: vec![0], prefix_len: 0 },
        MatchKind::Ternary => MatchKey::Ternary { value: vec![0], mask: vec![0] },
        MatchKind::Range => MatchKey::Range { low: vec![0], high: bytestring::ones(field.width) },
        MatchKind::Optional => MatchKey::Optional(None),
    })
}

fn field_match(field: &FieldInfo, key: &MatchKey) -> Option<FieldMatchType> {
    let shortest = |value: &[u8]| canonical(value).to_vec();
    Some(match key {
        MatchKey::Exact(value) => FieldMatchType::Exact(Exact { value: shortest(value) }),
        MatchKey::Lpm { prefix_len: 0, .. } | MatchKey::Optional(None) => return None,
        MatchKey::Lpm { value, prefix_len } => {
            FieldMatchType::Lpm(Lpm { value: shortest(value), prefix_len: *prefix_len as i32 })
        }
        MatchKey::Ternary { mask, .. } if bytestring::bit_length(mask) == 0 => return None,
        // The compiler knows no optional fields: the program's own entries have a full mask instead.
        MatchKey::Ternary { value, .. } if field.kind == MatchKind::Optional => {
            FieldMatchType::Optional(Optional { value: shortest(value) })
        }
        MatchKey::Ternary { value, mask } => {
            FieldMatchType::Ternary(Ternary { value: shortest(value), mask: shortest(mask) })
        }
        MatchKey::Range { low, high }
            if bytestring::bit_length(low) == 0 && shortest(high) == bytestring::ones(field.width) =>
        {
            return None;
        }
        MatchKey::Range { low, high } => {
            FieldMatchType::Range(Range { low: shortest(low), high: shortest(high) })
        }
        MatchKey::Optional(Some(value)) => FieldMatchType::Optional(Optional { value: shortest(value) }),
    })
}

fn name(given: &FieldMatchType) -> &'static str {
    match given {
        FieldMatchType::Exact(_) => "exact",
        FieldMatchType::Ternary(_) => "ternary",
        FieldMatchType::Lpm(_) => "lpm",
        FieldMatchType::Range(_) => "range",
        FieldMatchType::Optional(_) => "optional",
        FieldMatchType::Other(_) => "an extension of its own",
    }
}
