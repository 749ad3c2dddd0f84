//! Objects of a program as the index holds them.

use crate::p4config::{action_ref::Scope, counter_spec, meter_spec};

/// An object with an id and names.
pub trait Named {
    /// The id, unique in the program.
    fn id(&self) -> u32;
    /// The fully qualified name.
    fn name(&self) -> &str;
    /// The short name.
    fn alias(&self) -> &str;
}

macro_rules! named {
    ($($object:ident),*) => {$(
        impl Named for $object {
            fn id(&self) -> u32 {
                self.id
            }
            fn name(&self) -> &str {
                &self.name
            }
            fn alias(&self) -> &str {
                &self.alias
            }
        }
    )*};
}

named!(
    TableInfo,
    ActionInfo,
    ProfileInfo,
    ArrayInfo,
    DirectInfo,
    RegisterInfo,
    DigestInfo,
    ValueSetInfo,
    PacketHeaderInfo
);

/// How a field of a key is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask.
    Ternary,
    /// From, to.
    Range,
    /// Equal, or any value.
    Optional,
}

impl MatchKind {
    /// Whether a table with such a field needs priorities.
    pub fn needs_priority(self) -> bool {
        matches!(self, Self::Ternary | Self::Range | Self::Optional)
    }

    /// The name in P4.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lpm => "lpm",
            Self::Ternary => "ternary",
            Self::Range => "range",
            Self::Optional => "optional",
        }
    }
}

/// A table.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// Annotations of the program, as written.
    pub annotations: Vec<String>,
    /// Key fields, in order.
    pub fields: Vec<FieldInfo>,
    /// Actions that its entries may have.
    pub actions: Vec<ActionRefInfo>,
    /// Entries it has room for.
    pub size: i64,
    /// Entries need a priority above 0; other tables' must be 0.
    pub needs_priority: bool,
    /// The action of the default entry, if the program fixes it.
    pub const_default_action: Option<u32>,
    /// The entries are the program's and can't be changed.
    pub is_const: bool,
    /// Action profile that holds the actions.
    pub profile: Option<u32>,
    /// Id of its direct counter.
    pub direct_counter: Option<u32>,
    /// Id of its direct meter.
    pub direct_meter: Option<u32>,
    /// Entries may have an idle timeout.
    pub idle_timeout: bool,
}

impl TableInfo {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&FieldInfo> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field of this id.
    pub fn field_by_id(&self, id: u32) -> Option<&FieldInfo> {
        self.fields.iter().find(|field| field.id == id)
    }
}

/// A field of a key (of a table or a value set).
#[derive(Debug, Clone)]
pub struct FieldInfo {
    /// Id, unique in its table.
    pub id: u32,
    /// Name, for example `hdr.ipv4.dst_addr`.
    pub name: String,
    /// Width in bits; 0 if translated to strings.
    pub width: u32,
    /// How it is matched.
    pub kind: MatchKind,
}

/// An action that a table may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionRefInfo {
    /// Action id.
    pub id: u32,
    /// Entries only, default only, or both.
    pub scope: Scope,
}

/// An action.
#[derive(Debug, Clone)]
pub struct ActionInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// Annotations of the program, as written.
    pub annotations: Vec<String>,
    /// Parameters, in order.
    pub params: Vec<ParamInfo>,
}

impl ActionInfo {
    /// The parameter of this name.
    pub fn param(&self, name: &str) -> Option<&ParamInfo> {
        self.params.iter().find(|param| param.name == name)
    }
}

/// A parameter of an action.
#[derive(Debug, Clone)]
pub struct ParamInfo {
    /// Id, unique in its action.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Width in bits; 0 if translated to strings.
    pub width: u32,
}

/// An action profile.
#[derive(Debug, Clone)]
pub struct ProfileInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// Tables that use it.
    pub tables: Vec<u32>,
    /// Groups are possible.
    pub with_selector: bool,
    /// Members (or sum of weights) it has room for.
    pub size: i64,
    /// Largest sum of weights of a group; 0: not stated.
    pub max_group_size: i32,
}

/// An array of counters or meters.
#[derive(Debug, Clone)]
pub struct ArrayInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// Cells.
    pub size: i64,
    /// What is counted or metered.
    pub unit: Unit,
}

/// A direct counter or meter.
#[derive(Debug, Clone)]
pub struct DirectInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// The table it belongs to.
    pub table: u32,
    /// A meter, not a counter.
    pub is_meter: bool,
}

/// What a counter counts or a meter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// Both (counters only).
    Both,
}

impl From<counter_spec::Unit> for Unit {
    fn from(unit: counter_spec::Unit) -> Self {
        match unit {
            counter_spec::Unit::Bytes => Self::Bytes,
            counter_spec::Unit::Packets => Self::Packets,
            counter_spec::Unit::Both | counter_spec::Unit::Unspecified => Self::Both,
        }
    }
}

impl From<meter_spec::Unit> for Unit {
    fn from(unit: meter_spec::Unit) -> Self {
        match unit {
            meter_spec::Unit::Packets => Self::Packets,
            meter_spec::Unit::Bytes | meter_spec::Unit::Unspecified => Self::Bytes,
        }
    }
}

/// A register array.
#[derive(Debug, Clone)]
pub struct RegisterInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// Cells.
    pub size: i64,
    /// Width of a cell in bits, if cells are plain bit<W>.
    pub width: Option<u32>,
}

/// A digest.
#[derive(Debug, Clone)]
pub struct DigestInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSetInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// Fields of a member.
    pub fields: Vec<FieldInfo>,
    /// Members it has room for.
    pub size: i32,
}

/// `packet_in` or `packet_out`.
#[derive(Debug, Clone)]
pub struct PacketHeaderInfo {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Short name.
    pub alias: String,
    /// Fields, in the order in which they lie in the header.
    pub fields: Vec<MetadataInfo>,
}

impl PacketHeaderInfo {
    /// Length of the header in bits.
    pub fn bits(&self) -> u32 {
        self.fields.iter().map(|field| field.width).sum()
    }
}

/// A field of a packet header.
#[derive(Debug, Clone)]
pub struct MetadataInfo {
    /// Id, unique in its header.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Only fills the header to whole bytes: annotated `@padding`, or named `pad...` or `_pad...`.
    pub is_padding: bool,
}
