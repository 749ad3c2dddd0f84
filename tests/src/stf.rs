//! Packet tests in the STF format of p4c: a compiled program, a script of entries, packets and expectations.
//!
//! * [`script`]: the format; [`names`]: what a script's short names mean in a compiled program;
//! * [`Bench`]: a switch that runs a program and takes [`Request`]s and packets: [`embedded`] in process, [`bmv2`] as a process;
//! * [`run`]: a script on a bench; [`folder`]: all scripts of a folder;
//! * [`random`]: entries and frames for any program, to hold one switch against another ([`recipe`]).
//!
//! As p4c's own runner has it, frames out of ports that a script does not mention are ignored, and an expected frame may be followed
//! by more bytes unless it ends with `$`. Beyond p4c's statements there are `member`, `group`, `$member(id:N)` and `$group(id:N)` for
//! action profiles, and `packet` and `expect` take frames of any length.

pub mod bmv2;
pub mod embedded;
pub mod folder;
pub mod names;
pub mod number;
pub mod random;
pub mod recipe;
pub mod run;
pub mod script;

use inca_switch::control::{CounterValue, MatchKey, MeterConfig, Replica};

/// An action by name with its arguments, big-endian, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Full name.
    pub action: String,
    /// One value for each parameter.
    pub args: Vec<Vec<u8>>,
}

/// What an entry does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs an action.
    Call(Call),
    /// Runs a member's action.
    Member(u32),
    /// Runs the action of one of a group's members.
    Group(u32),
}

/// A key and what was said about its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryName {
    /// The table's full name.
    pub table: String,
    /// One key for each field.
    pub keys: Vec<MatchKey>,
    /// Larger wins; 0 for tables that take none.
    pub priority: i32,
}

/// A statement for the control plane, all names resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A new table entry.
    Insert(EntryName, Action),
    /// The table's default action.
    Default(String, Action),
    /// Removes all entries that a script has made.
    RemoveAll,
    /// A new member of an action profile.
    Member(String, u32, Call),
    /// A new group of an action profile, its members with weights.
    Group(String, u32, Vec<(u32, u32)>),
    /// A clone session.
    Session(u32, Vec<Replica>),
    /// A multicast group, made or changed.
    Multicast(u32, Vec<Replica>),
    /// A cell of a register array, all of them without an index.
    Register(String, Option<usize>, Vec<u8>),
    /// A cell of an indirect counter array.
    Counter(String, usize, CounterValue),
    /// A cell of an indirect meter array, all of them without an index.
    Meter(String, Option<usize>, MeterConfig),
}

/// Which counter a script checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CounterName {
    /// A cell of an indirect array.
    Cell(String, usize),
    /// The direct counter of an entry.
    Entry(EntryName),
}

/// Frames with the port they leave by, in order for each port.
pub type Sent = Vec<(u16, Vec<u8>)>;

/// Why a bench can't go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// This kind of switch can't do it, whatever the program; nothing is said about the program.
    #[error("{0}")]
    Cannot(String),
    /// The switch refuses, or died.
    #[error("{0}")]
    Refused(String),
}

/// A switch that runs one program.
pub trait Bench {
    /// Does what a statement says.
    ///
    /// # Errors
    /// If the switch can't or won't.
    fn apply(&mut self, request: &Request) -> Result<(), BenchError>;

    /// Feeds frames in order; returns what each caused once all is processed.
    ///
    /// # Errors
    /// If the switch died.
    fn process(&mut self, frames: &[(u16, Vec<u8>)]) -> Result<Vec<Sent>, BenchError>;

    /// Reads a counter.
    ///
    /// # Errors
    /// If there is none.
    fn counter(&mut self, name: &CounterName) -> Result<CounterValue, BenchError>;
}
