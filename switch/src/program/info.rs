//! Names and shapes of a program's objects, as the control plane sees them.

use super::Program;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// Position among the program's objects of this kind.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

handles! {
    /// Handle of a table, valid for the program that gave it.
    TableId,
    /// Handle of an action, valid for the program that gave it.
    ActionId,
    /// Handle of an action profile, valid for the program that gave it.
    ProfileId,
    /// Handle of a register array, valid for the program that gave it.
    RegisterId,
    /// Handle of an indirect counter array, valid for the program that gave it.
    CounterId,
    /// Handle of an indirect meter array, valid for the program that gave it.
    MeterId,
    /// Handle of a digest (learn list), valid for the program that gave it.
    DigestId,
    /// Handle of a parser value set, valid for the program that gave it.
    ValueSetId,
}

/// How a field of a table key is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask; `optional` in P4 compiles to it.
    Ternary,
    /// From, to.
    Range,
    /// Header validity; given as an exact key of one bit.
    Valid,
}

/// A field of a table key.
#[derive(Debug, Clone)]
pub struct MatchFieldInfo {
    /// Name as in the P4Info.
    pub name: String,
    /// How it is matched.
    pub kind: MatchKind,
    /// Width in bits.
    pub bits: u32,
}

/// A table.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// Fully qualified name, equal to the P4Info's `preamble.name`.
    pub name: String,
    /// Key fields, in order. Empty: only the default action ever runs.
    pub fields: Vec<MatchFieldInfo>,
    /// Actions allowed, in the order of the JSON.
    pub actions: Vec<ActionId>,
    /// Largest number of entries.
    pub size: usize,
    /// Action profile, if the table is indirect.
    pub profile: Option<ProfileId>,
    /// Entries need a priority of at least 1 (a ternary, optional or range field).
    pub needs_priority: bool,
    /// Each entry has a counter.
    pub has_counter: bool,
    /// Each entry has a meter.
    pub has_meter: bool,
    /// Entries may have an idle timeout.
    pub supports_timeout: bool,
    /// Entries come from the program and can't be changed.
    pub const_entries: bool,
    /// The default action can't be changed.
    pub const_default: bool,
}

/// A parameter of an action.
#[derive(Debug, Clone)]
pub struct ParamInfo {
    /// Name.
    pub name: String,
    /// Width in bits.
    pub bits: u32,
}

/// An action.
#[derive(Debug, Clone)]
pub struct ActionInfo {
    /// Fully qualified name.
    pub name: String,
    /// Parameters, in order.
    pub params: Vec<ParamInfo>,
}

/// An action profile.
#[derive(Debug, Clone)]
pub struct ProfileInfo {
    /// Fully qualified name.
    pub name: String,
    /// Largest number of members; 0: no limit.
    pub size: usize,
    /// Groups are possible.
    pub has_selector: bool,
    /// Tables that use it.
    pub tables: Vec<TableId>,
}

/// A register array.
#[derive(Debug, Clone)]
pub struct RegisterInfo {
    /// Fully qualified name.
    pub name: String,
    /// Number of cells.
    pub size: usize,
    /// Width of a cell in bits.
    pub bits: u32,
}

/// An indirect counter array. It always counts both packets and bytes.
#[derive(Debug, Clone)]
pub struct CounterInfo {
    /// Fully qualified name.
    pub name: String,
    /// Number of counters.
    pub size: usize,
}

/// What a meter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterUnit {
    /// Packets per second.
    Packets,
    /// Bytes per second.
    Bytes,
}

/// An indirect meter array.
#[derive(Debug, Clone)]
pub struct MeterInfo {
    /// Fully qualified name.
    pub name: String,
    /// Number of meters.
    pub size: usize,
    /// What it measures.
    pub unit: MeterUnit,
}

/// A digest.
#[derive(Debug, Clone)]
pub struct DigestInfo {
    /// Name.
    pub name: String,
    /// Widths of its fields in bits.
    pub field_bits: Vec<u32>,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSetInfo {
    /// Fully qualified name.
    pub name: String,
    /// Width of a member in bits, all its fields together.
    pub bits: u32,
    /// Largest number of members.
    pub size: usize,
}

/// All objects of a program that the control plane can name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    pub(crate) tables: Vec<TableInfo>,
    pub(crate) actions: Vec<ActionInfo>,
    pub(crate) profiles: Vec<ProfileInfo>,
    pub(crate) registers: Vec<RegisterInfo>,
    pub(crate) counters: Vec<CounterInfo>,
    pub(crate) meters: Vec<MeterInfo>,
    pub(crate) digests: Vec<DigestInfo>,
    pub(crate) value_sets: Vec<ValueSetInfo>,
}

macro_rules! lookups {
    ($($list:ident, $id:ident, $info:ident, $find:ident, $describe:ident, $what:literal;)*) => {
        impl Program {$(
            #[doc = concat!("Handle of the ", $what, " of this name, if there is one.")]
            pub fn $find(&self, name: &str) -> Option<$id> {
                self.objects.$list.iter().position(|o| o.name == name).map(|i| $id(i as u32))
            }

            #[doc = concat!("Shape of a ", $what, ". `None` for a handle of another program.")]
            pub fn $describe(&self, id: $id) -> Option<&$info> {
                self.objects.$list.get(id.index())
            }

            #[doc = concat!("All ", $what, "s, with their handles.")]
            pub fn $list(&self) -> impl Iterator<Item = ($id, &$info)> {
                self.objects.$list.iter().enumerate().map(|(i, o)| ($id(i as u32), o))
            }
        )*}
    };
}

lookups! {
    tables, TableId, TableInfo, table, table_info, "table";
    profiles, ProfileId, ProfileInfo, profile, profile_info, "action profile";
    registers, RegisterId, RegisterInfo, register, register_info, "register array";
    counters, CounterId, CounterInfo, counter, counter_info, "indirect counter array";
    meters, MeterId, MeterInfo, meter, meter_info, "indirect meter array";
    digests, DigestId, DigestInfo, digest, digest_info, "digest";
    value_sets, ValueSetId, ValueSetInfo, value_set, value_set_info, "value set";
}

impl Program {
    /// Handle of the action of this name. p4c may write several actions of one name (one per table);
    /// inside a table use [`Program::table_action`].
    pub fn action(&self, name: &str) -> Option<ActionId> {
        self.objects.actions.iter().position(|o| o.name == name).map(|i| ActionId(i as u32))
    }

    /// The action of this name among those that the table allows.
    pub fn table_action(&self, table: TableId, name: &str) -> Option<ActionId> {
        let info = self.table_info(table)?;
        info.actions.iter().copied().find(|a| self.action_info(*a).is_some_and(|i| i.name == name))
    }

    /// Shape of an action. `None` for a handle of another program.
    pub fn action_info(&self, id: ActionId) -> Option<&ActionInfo> {
        self.objects.actions.get(id.index())
    }
}
