//! Entries as they come back from a switch.

use std::{collections::BTreeMap, fmt};

use crate::{
    bytestring::canonical,
    info::{P4Info, UnknownObject},
    p4v1::{Action, TableEntry, field_match::FieldMatchType, table_action},
};

/// One field of a key, in canonical byte strings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MatchValue {
    /// Equal.
    Exact(Vec<u8>),
    /// Value and number of highest bits that count.
    Lpm(Vec<u8>, i32),
    /// Value and mask.
    Ternary(Vec<u8>, Vec<u8>),
    /// From, to.
    Range(Vec<u8>, Vec<u8>),
    /// Equal.
    Optional(Vec<u8>),
}

/// What makes an entry the same entry: table, match and priority, independent of the order of fields and of padding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryKey {
    /// Table id.
    pub table_id: u32,
    /// Whether it is the default entry.
    pub is_default: bool,
    /// Match fields by id; fields that match everything are absent.
    pub fields: BTreeMap<u32, MatchValue>,
    /// Priority, 0 where the table has none.
    pub priority: i32,
}

impl From<&TableEntry> for EntryKey {
    fn from(entry: &TableEntry) -> Self {
        let bytes = |value: &[u8]| canonical(value).to_vec();
        let fields = entry.r#match.iter().filter_map(|field| {
            let value = match field.field_match_type.as_ref()? {
                FieldMatchType::Exact(exact) => MatchValue::Exact(bytes(&exact.value)),
                FieldMatchType::Lpm(lpm) => MatchValue::Lpm(bytes(&lpm.value), lpm.prefix_len),
                FieldMatchType::Ternary(ternary) => {
                    MatchValue::Ternary(bytes(&ternary.value), bytes(&ternary.mask))
                }
                FieldMatchType::Range(range) => MatchValue::Range(bytes(&range.low), bytes(&range.high)),
                FieldMatchType::Optional(optional) => MatchValue::Optional(bytes(&optional.value)),
                FieldMatchType::Other(_) => return None,
            };
            Some((field.field_id, value))
        });
        Self {
            table_id: entry.table_id,
            is_default: entry.is_default_action,
            fields: fields.collect(),
            priority: entry.priority,
        }
    }
}

/// An entry by names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedEntry {
    /// Table name.
    pub table: String,
    /// Match fields by name; fields that match everything are absent.
    pub fields: BTreeMap<String, MatchValue>,
    /// Priority, 0 where the table has none.
    pub priority: i32,
    /// What it does; `None` if the switch did not say.
    pub action: Option<DecodedAction>,
}

/// What an entry does, by names, parameters in canonical byte strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodedAction {
    /// An action.
    Call {
        /// Action name.
        action: String,
        /// Arguments by name.
        params: BTreeMap<String, Vec<u8>>,
    },
    /// An action profile's member.
    Member(u32),
    /// An action profile's group.
    Group(u32),
    /// A one-shot set: each alternative with its weight.
    OneShot(Vec<(DecodedAction, i32)>),
}

impl P4Info {
    /// An entry by names. Ids that the program does not have are an error.
    pub fn decode_entry(&self, entry: &TableEntry) -> Result<DecodedEntry, UnknownObject> {
        let table = self.table_by_id(entry.table_id)?;
        let fields = EntryKey::from(entry)
            .fields
            .into_iter()
            .map(|(id, value)| {
                let field = table.field_by_id(id).ok_or_else(|| UnknownObject {
                    what: "match field",
                    given: format!("with id {id} of table {}", table.name),
                    valid: table.fields.iter().map(|field| field.name.clone()).collect(),
                })?;
                Ok((field.name.clone(), value))
            })
            .collect::<Result<_, UnknownObject>>()?;
        let action = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
            Some(table_action::Type::Action(action)) => Some(self.decode_action(action)?),
            Some(table_action::Type::ActionProfileMemberId(id)) => Some(DecodedAction::Member(*id)),
            Some(table_action::Type::ActionProfileGroupId(id)) => Some(DecodedAction::Group(*id)),
            Some(table_action::Type::ActionProfileActionSet(set)) => Some(DecodedAction::OneShot(
                set.action_profile_actions
                    .iter()
                    .map(|one| {
                        let action = self.decode_action(&one.action.clone().unwrap_or_default())?;
                        Ok((action, one.weight))
                    })
                    .collect::<Result<_, UnknownObject>>()?,
            )),
            None => None,
        };
        Ok(DecodedEntry { table: table.name.clone(), fields, priority: entry.priority, action })
    }

    /// An action by names.
    pub fn decode_action(&self, action: &Action) -> Result<DecodedAction, UnknownObject> {
        let info = self.action_by_id(action.action_id)?;
        let params = action
            .params
            .iter()
            .map(|given| {
                let param = info.params.iter().find(|param| param.id == given.param_id).ok_or_else(|| {
                    UnknownObject {
                        what: "parameter",
                        given: format!("with id {} of action {}", given.param_id, info.name),
                        valid: info.params.iter().map(|param| param.name.clone()).collect(),
                    }
                })?;
                Ok((param.name.clone(), canonical(&given.value).to_vec()))
            })
            .collect::<Result<_, UnknownObject>>()?;
        Ok(DecodedAction::Call { action: info.name.clone(), params })
    }
}

impl fmt::Display for MatchValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(value) | Self::Optional(value) => write!(f, "0x{}", hex(value)),
            Self::Lpm(value, length) => write!(f, "0x{}/{length}", hex(value)),
            Self::Ternary(value, mask) => write!(f, "0x{}&0x{}", hex(value), hex(mask)),
            Self::Range(low, high) => write!(f, "0x{}..0x{}", hex(low), hex(high)),
        }
    }
}

impl fmt::Display for DecodedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { action, params } => {
                write!(f, "{action}(")?;
                for (i, (name, value)) in params.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{name}=0x{}", hex(value))?;
                }
                f.write_str(")")
            }
            Self::Member(id) => write!(f, "member {id}"),
            Self::Group(id) => write!(f, "group {id}"),
            Self::OneShot(alternatives) => {
                for (i, (action, weight)) in alternatives.iter().enumerate() {
                    let bar = if i == 0 { "" } else { " | " };
                    write!(f, "{bar}{weight} x {action}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for DecodedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.table)?;
        for (i, (name, value)) in self.fields.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={value}")?;
        }
        f.write_str("]")?;
        if self.priority != 0 {
            write!(f, " priority {}", self.priority)?;
        }
        match &self.action {
            Some(action) => write!(f, " -> {action}"),
            None => Ok(()),
        }
    }
}

/// Hexadecimal digits, shortened in the middle: a wide parameter would fill pages.
fn hex(value: &[u8]) -> String {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if value.len() <= 20 {
        digits(value)
    } else {
        format!("{}...{} ({} bytes)", digits(&value[..8]), digits(&value[value.len() - 8..]), value.len())
    }
}
