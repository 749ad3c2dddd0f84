//! Table entries by name: built for writing, described when read.

use thiserror::Error;

use crate::{
    bytestring::{self, ByteStringError, Value},
    info::{ActionInfo, FieldInfo, MatchKind, P4Info, TableInfo, UnknownObject, choices},
    p4config::action_ref::Scope,
    p4v1::{
        self, Action, ActionProfileAction, ActionProfileActionSet, FieldMatch, TableAction, TableEntry,
        action,
        field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary},
        table_action,
    },
};

mod read;
#[cfg(test)]
mod tests;

pub use read::{DecodedAction, DecodedEntry, EntryKey, MatchValue};

/// Why an entry can't be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// A table, action or profile that the program does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownObject),
    /// A match field that the table does not have.
    #[error("table {table} has no match field {field}; {}", choices(.valid))]
    UnknownField {
        /// Table name.
        table: String,
        /// Field name given.
        field: String,
        /// Names that exist.
        valid: Vec<String>,
    },
    /// A match of another kind than the field's.
    #[error("table {table}, field {field}: is matched as {expected}, not as {given}")]
    MatchKind {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
        /// Kind of the field.
        expected: &'static str,
        /// Kind given.
        given: &'static str,
    },
    /// The same field twice.
    #[error("table {table}, field {field}: given twice")]
    FieldTwice {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
    },
    /// An exact field without value.
    #[error("table {table}: exact match field {field} is missing")]
    MissingField {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
    },
    /// A value that does not fit its field.
    #[error("table {table}, field {field}: {error}")]
    FieldValue {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
        /// What is wrong.
        error: ByteStringError,
    },
    /// A match that can't be right: bits outside of the mask, a prefix too long, a range upside down.
    #[error("table {table}, field {field}: {problem}")]
    Match {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// A priority where none may be, or none where one must be.
    #[error("table {table}: priority {given} given, {expected}")]
    Priority {
        /// Table name.
        table: String,
        /// Priority given.
        given: i32,
        /// What is valid.
        expected: &'static str,
    },
    /// An action that the table does not allow (there).
    #[error("table {table} does not allow action {action} {place}; {}", choices(.valid))]
    ActionNotAllowed {
        /// Table name.
        table: String,
        /// Action name.
        action: String,
        /// `in an entry` or `as its default`.
        place: &'static str,
        /// Actions allowed there.
        valid: Vec<String>,
    },
    /// An unknown action parameter.
    #[error("action {action} has no parameter {param}; {}", choices(.valid))]
    UnknownParam {
        /// Action name.
        action: String,
        /// Parameter name given.
        param: String,
        /// Names that exist.
        valid: Vec<String>,
    },
    /// An action parameter that is missing or given twice.
    #[error("action {action}: parameter {param} is given {times} times, expected once")]
    ParamCount {
        /// Action name.
        action: String,
        /// Parameter name.
        param: String,
        /// How often it is given.
        times: usize,
    },
    /// A value that does not fit its parameter.
    #[error("action {action}, parameter {param}: {error}")]
    ParamValue {
        /// Action name.
        action: String,
        /// Parameter name.
        param: String,
        /// What is wrong.
        error: ByteStringError,
    },
    /// No action, or one of another sort than the table's (direct, or by an action profile).
    #[error("table {table}: {problem}")]
    Action {
        /// Table name.
        table: String,
        /// What is wrong.
        problem: &'static str,
    },
}

/// What an entry is to do, still by name.
#[derive(Debug, Clone)]
enum PendingAction {
    Call(Call),
    Member(u32),
    Group(u32),
    OneShot(Vec<(Call, i32)>),
}

/// An action by name with its parameters by name.
pub type Call = (String, Vec<(String, Value)>);

/// A match, still by name.
#[derive(Debug, Clone)]
enum PendingMatch {
    Exact(Value),
    Lpm(Value, u32),
    Ternary(Value, Value),
    Range(Value, Value),
    Optional(Value),
}

/// Builds a table entry by names; every check is made by [`Self::build`].
///
/// ```
/// # let text = r#"
/// # tables { preamble { id: 33554433 name: "Ingress.ipv4" alias: "ipv4" }
/// #   match_fields { id: 1 name: "dst" bitwidth: 32 match_type: LPM } action_refs { id: 16777217 } size: 8 }
/// # actions { preamble { id: 16777217 name: "Ingress.forward" alias: "forward" }
/// #   params { id: 1 name: "port" bitwidth: 9 } }"#;
/// use inca_p4runtime::{EntryBuilder, P4Info};
/// use std::net::Ipv4Addr;
///
/// let info = P4Info::from_text(text)?;
/// let entry = EntryBuilder::new(&info)
///     .table("ipv4")
///     .lpm("dst", Ipv4Addr::new(10, 0, 1, 0), 24)
///     .action("forward", [("port", 3u16.into())])
///     .build()?;
/// assert_eq!(entry.table_id, 0x0200_0001);
///
/// let error = EntryBuilder::new(&info).table("ipv6").build().unwrap_err();
/// assert_eq!(error.to_string(), "no table ipv6 in this program; valid are Ingress.ipv4");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct EntryBuilder<'a> {
    info: &'a P4Info,
    table: String,
    matches: Vec<(String, PendingMatch)>,
    priority: i32,
    action: Option<PendingAction>,
    is_default: bool,
    metadata: Vec<u8>,
    idle_timeout_ns: i64,
}

impl<'a> EntryBuilder<'a> {
    /// An entry of no table yet.
    pub fn new(info: &'a P4Info) -> Self {
        Self {
            info,
            table: String::new(),
            matches: Vec::new(),
            priority: 0,
            action: None,
            is_default: false,
            metadata: Vec::new(),
            idle_timeout_ns: 0,
        }
    }

    /// The table, by full name or alias.
    pub fn table(mut self, name: &str) -> Self {
        self.table = name.to_owned();
        self
    }

    /// Matches a field exactly.
    pub fn exact(self, field: &str, value: impl Into<Value>) -> Self {
        self.matching(field, PendingMatch::Exact(value.into()))
    }

    /// Matches the highest `prefix_len` bits of a field; 0 matches everything.
    pub fn lpm(self, field: &str, value: impl Into<Value>, prefix_len: u32) -> Self {
        self.matching(field, PendingMatch::Lpm(value.into(), prefix_len))
    }

    /// Matches the bits of a field that the mask has set; a mask of 0 matches everything.
    pub fn ternary(self, field: &str, value: impl Into<Value>, mask: impl Into<Value>) -> Self {
        self.matching(field, PendingMatch::Ternary(value.into(), mask.into()))
    }

    /// Matches `low` to `high`, both included.
    pub fn range(self, field: &str, low: impl Into<Value>, high: impl Into<Value>) -> Self {
        self.matching(field, PendingMatch::Range(low.into(), high.into()))
    }

    /// Matches an optional field exactly; leave the field out to match everything.
    pub fn optional(self, field: &str, value: impl Into<Value>) -> Self {
        self.matching(field, PendingMatch::Optional(value.into()))
    }

    /// Larger wins. Needed, and above 0, where a field is ternary, range or optional; not allowed elsewhere.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Runs an action.
    pub fn action<'p>(mut self, name: &str, params: impl IntoIterator<Item = (&'p str, Value)>) -> Self {
        self.action = Some(PendingAction::Call(call(name, params)));
        self
    }

    /// Runs the action of an action profile's member.
    pub fn member(mut self, id: u32) -> Self {
        self.action = Some(PendingAction::Member(id));
        self
    }

    /// Runs the action of one member of an action profile's group.
    pub fn group(mut self, id: u32) -> Self {
        self.action = Some(PendingAction::Group(id));
        self
    }

    /// Adds an alternative of a one-shot group, with its weight.
    pub fn one_of<'p>(
        mut self,
        name: &str,
        params: impl IntoIterator<Item = (&'p str, Value)>,
        weight: i32,
    ) -> Self {
        let alternative = (call(name, params), weight);
        match &mut self.action {
            Some(PendingAction::OneShot(alternatives)) => alternatives.push(alternative),
            _ => self.action = Some(PendingAction::OneShot(vec![alternative])),
        }
        self
    }

    /// Makes it the table's default entry, which has no match; only MODIFY applies to it.
    pub fn default_entry(mut self) -> Self {
        self.is_default = true;
        self
    }

    /// Opaque bytes, returned by reads.
    pub fn metadata(mut self, metadata: impl Into<Vec<u8>>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// Asks for a notification after so many nanoseconds without a hit.
    pub fn idle_timeout_ns(mut self, nanoseconds: i64) -> Self {
        self.idle_timeout_ns = nanoseconds;
        self
    }

    /// The entry with an action, checked.
    pub fn build(self) -> Result<TableEntry, EntryError> {
        let table = self.info.table(&self.table)?;
        let pending = self
            .action
            .as_ref()
            .ok_or(EntryError::Action { table: table.name.clone(), problem: "the entry has no action" })?;
        let action = self.table_action(table, pending)?;
        Ok(TableEntry { action: Some(action), ..self.key(table)? })
    }

    /// The entry without action, enough to read or delete it, checked.
    pub fn build_key(self) -> Result<TableEntry, EntryError> {
        self.key(self.info.table(&self.table)?)
    }

    fn matching(mut self, field: &str, value: PendingMatch) -> Self {
        self.matches.push((field.to_owned(), value));
        self
    }

    fn key(&self, table: &TableInfo) -> Result<TableEntry, EntryError> {
        let matches = if self.is_default { self.no_matches(table)? } else { self.field_matches(table)? };
        let priority =
            |expected| EntryError::Priority { table: table.name.clone(), given: self.priority, expected };
        match table.needs_priority && !self.is_default {
            true if self.priority <= 0 => {
                return Err(priority("expected above 0: a field is not exact or lpm"));
            }
            false if self.priority != 0 => {
                return Err(priority("expected none: every field is exact or lpm"));
            }
            _ => {}
        }
        Ok(TableEntry {
            table_id: table.id,
            r#match: matches,
            priority: self.priority,
            is_default_action: self.is_default,
            metadata: self.metadata.clone(),
            idle_timeout_ns: self.idle_timeout_ns,
            ..TableEntry::default()
        })
    }

    fn no_matches(&self, table: &TableInfo) -> Result<Vec<FieldMatch>, EntryError> {
        match self.matches.first() {
            Some((field, _)) => Err(EntryError::Match {
                table: table.name.clone(),
                field: field.clone(),
                problem: "the default entry has no match fields".into(),
            }),
            None => Ok(Vec::new()),
        }
    }

    fn field_matches(&self, table: &TableInfo) -> Result<Vec<FieldMatch>, EntryError> {
        let mut found = Vec::with_capacity(self.matches.len());
        for (at, (name, pending)) in self.matches.iter().enumerate() {
            let field = table.field(name).ok_or_else(|| EntryError::UnknownField {
                table: table.name.clone(),
                field: name.clone(),
                valid: table.fields.iter().map(|field| field.name.clone()).collect(),
            })?;
            if self.matches[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(EntryError::FieldTwice { table: table.name.clone(), field: name.clone() });
            }
            if let Some(kind) = field_match(table, field, pending)? {
                found.push(FieldMatch { field_id: field.id, field_match_type: Some(kind) });
            }
        }
        let given = |field: &&FieldInfo| self.matches.iter().any(|(name, _)| *name == field.name);
        if let Some(field) = table.fields.iter().find(|field| field.kind == MatchKind::Exact && !given(field))
        {
            return Err(EntryError::MissingField { table: table.name.clone(), field: field.name.clone() });
        }
        Ok(found)
    }

    fn table_action(&self, table: &TableInfo, pending: &PendingAction) -> Result<TableAction, EntryError> {
        let sort = |problem| EntryError::Action { table: table.name.clone(), problem };
        let indirect = !matches!(pending, PendingAction::Call(_));
        // The default entry of an indirect table is an action of its own.
        if table.profile.is_none() && indirect {
            return Err(sort("it has no action profile: give an action"));
        }
        if table.profile.is_some() && !indirect && !self.is_default {
            return Err(sort(
                "its actions are in an action profile: give a member, a group or a one-shot set",
            ));
        }
        let kind = match pending {
            PendingAction::Call(call) => table_action::Type::Action(self.call(table, call)?),
            PendingAction::Member(id) => table_action::Type::ActionProfileMemberId(*id),
            PendingAction::Group(id) => table_action::Type::ActionProfileGroupId(*id),
            PendingAction::OneShot(alternatives) => {
                let actions = alternatives
                    .iter()
                    .map(|(call, weight)| {
                        let action = Some(self.call(table, call)?);
                        Ok(ActionProfileAction { action, weight: *weight, watch_kind: None })
                    })
                    .collect::<Result<_, EntryError>>()?;
                let set = ActionProfileActionSet { action_profile_actions: actions, ..Default::default() };
                table_action::Type::ActionProfileActionSet(set)
            }
        };
        Ok(TableAction { r#type: Some(kind) })
    }

    fn call(&self, table: &TableInfo, (name, params): &Call) -> Result<Action, EntryError> {
        let action = self.info.action(name)?;
        let forbidden = if self.is_default { Scope::TableOnly } else { Scope::DefaultOnly };
        let allowed = |reference: &&crate::info::ActionRefInfo| reference.scope != forbidden;
        if !table.actions.iter().filter(allowed).any(|reference| reference.id == action.id) {
            return Err(EntryError::ActionNotAllowed {
                table: table.name.clone(),
                action: action.name.clone(),
                place: if self.is_default { "as its default" } else { "in an entry" },
                valid: table
                    .actions
                    .iter()
                    .filter(allowed)
                    .filter_map(|reference| self.info.action_by_id(reference.id).ok())
                    .map(|action| action.name.clone())
                    .collect(),
            });
        }
        action_message(action, params)
    }
}

/// An action by names, as a member of an action profile holds it.
pub fn action_call<'p>(
    info: &P4Info,
    name: &str,
    params: impl IntoIterator<Item = (&'p str, Value)>,
) -> Result<p4v1::Action, EntryError> {
    let (name, params) = call(name, params);
    action_message(info.action(&name)?, &params)
}

fn call<'p>(name: &str, params: impl IntoIterator<Item = (&'p str, Value)>) -> Call {
    (name.to_owned(), params.into_iter().map(|(param, value)| (param.to_owned(), value)).collect())
}

fn action_message(action: &ActionInfo, given: &[(String, Value)]) -> Result<Action, EntryError> {
    if let Some((unknown, _)) = given.iter().find(|(name, _)| action.param(name).is_none()) {
        return Err(EntryError::UnknownParam {
            action: action.name.clone(),
            param: unknown.clone(),
            valid: action.params.iter().map(|param| param.name.clone()).collect(),
        });
    }
    let mut params = Vec::with_capacity(action.params.len());
    for param in &action.params {
        let mut values = given.iter().filter(|(name, _)| *name == param.name).map(|(_, value)| value);
        let (Some(value), 0) = (values.next(), values.count()) else {
            return Err(EntryError::ParamCount {
                action: action.name.clone(),
                param: param.name.clone(),
                times: given.iter().filter(|(name, _)| *name == param.name).count(),
            });
        };
        let value = bytestring::fit(value.as_bytes(), param.width).map_err(|error| {
            EntryError::ParamValue { action: action.name.clone(), param: param.name.clone(), error }
        })?;
        params.push(action::Param { param_id: param.id, value: value.to_vec() });
    }
    Ok(Action { action_id: action.id, params })
}

/// The match of one field; `None` if it matches everything, which P4Runtime expresses by leaving the field out.
fn field_match(
    table: &TableInfo,
    field: &FieldInfo,
    pending: &PendingMatch,
) -> Result<Option<FieldMatchType>, EntryError> {
    let fit = |value: &Value| {
        bytestring::fit(value.as_bytes(), field.width).map(<[u8]>::to_vec).map_err(|error| {
            EntryError::FieldValue { table: table.name.clone(), field: field.name.clone(), error }
        })
    };
    let bad =
        |problem: String| EntryError::Match { table: table.name.clone(), field: field.name.clone(), problem };
    let kind = match (field.kind, pending) {
        (MatchKind::Exact, PendingMatch::Exact(value)) => FieldMatchType::Exact(Exact { value: fit(value)? }),
        (MatchKind::Lpm, PendingMatch::Lpm(value, prefix_len)) => {
            let (value, prefix_len) = (fit(value)?, *prefix_len);
            if prefix_len > field.width {
                return Err(bad(format!("prefix length {prefix_len} given, valid are 0 to {}", field.width)));
            }
            if bytestring::exceeds_mask(&value, &bytestring::prefix_mask(field.width, prefix_len)) {
                return Err(bad(format!("the value has bits set beyond its prefix of {prefix_len} bits")));
            }
            if prefix_len == 0 {
                return Ok(None);
            }
            FieldMatchType::Lpm(Lpm { value, prefix_len: prefix_len as i32 })
        }
        (MatchKind::Ternary, PendingMatch::Ternary(value, mask)) => {
            let (value, mask) = (fit(value)?, fit(mask)?);
            if bytestring::exceeds_mask(&value, &mask) {
                return Err(bad("the value has bits set outside of its mask".into()));
            }
            if bytestring::bit_length(&mask) == 0 {
                return Ok(None);
            }
            FieldMatchType::Ternary(Ternary { value, mask })
        }
        (MatchKind::Range, PendingMatch::Range(low, high)) => {
            let (low, high) = (fit(low)?, fit(high)?);
            if (low.len(), &low) > (high.len(), &high) {
                return Err(bad("the range's low end is above its high end".into()));
            }
            if low == [0] && high == bytestring::ones(field.width) {
                return Ok(None);
            }
            FieldMatchType::Range(Range { low, high })
        }
        (MatchKind::Optional, PendingMatch::Optional(value)) => {
            FieldMatchType::Optional(Optional { value: fit(value)? })
        }
        (expected, given) => {
            return Err(EntryError::MatchKind {
                table: table.name.clone(),
                field: field.name.clone(),
                expected: expected.name(),
                given: given.name(),
            });
        }
    };
    Ok(Some(kind))
}

impl PendingMatch {
    fn name(&self) -> &'static str {
        match self {
            Self::Exact(_) => "exact",
            Self::Lpm(..) => "lpm",
            Self::Ternary(..) => "ternary",
            Self::Range(..) => "range",
            Self::Optional(_) => "optional",
        }
    }
}
