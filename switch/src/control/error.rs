//! Errors of control operations. Each maps to one kind, so that a server can answer with its protocol's code.

use thiserror::Error;

/// Kinds of control errors; named as the canonical codes of P4Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The object is there already.
    AlreadyExists,
    /// No such object.
    NotFound,
    /// The request can't be right in any state.
    InvalidArgument,
    /// An index beyond the array.
    OutOfRange,
    /// The program forbids it (const entries, const default action).
    PermissionDenied,
    /// No room left.
    ResourceExhausted,
    /// Right as such, but the state does not allow it now (a member still used).
    FailedPrecondition,
    /// Right, but this switch can't do it.
    Unimplemented,
}

/// Error of a table operation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// A handle of another program.
    #[error("no table with handle {0} in this program")]
    UnknownTable(u32),
    /// A handle of another program.
    #[error("no action with handle {0} in this program")]
    UnknownAction(u32),
    /// The action is not in the table's list.
    #[error("table {table} does not allow action {action}")]
    ActionNotInTable {
        /// Table name.
        table: String,
        /// Action name.
        action: String,
    },
    /// Wrong number of keys.
    #[error("table {table} has {expected} match fields, the entry gives {given}")]
    KeyCount {
        /// Table name.
        table: String,
        /// Fields of the table's key.
        expected: usize,
        /// Keys given.
        given: usize,
    },
    /// A key of another kind than the field.
    #[error("table {table}, field {field}: is matched as {expected}, the entry gives {given}")]
    KeyKind {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
        /// Kind declared.
        expected: &'static str,
        /// Kind given.
        given: &'static str,
    },
    /// A value that does not fit, an empty byte string, or bits set where none may be.
    #[error("table {table}, field {field}: {problem}")]
    BadKey {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// Wrong number of action arguments.
    #[error("action {action} has {expected} parameters, {given} given")]
    ArgCount {
        /// Action name.
        action: String,
        /// Parameters declared.
        expected: usize,
        /// Arguments given.
        given: usize,
    },
    /// An argument that does not fit.
    #[error("action {action}, parameter {param}: {problem}")]
    BadArg {
        /// Action name.
        action: String,
        /// Parameter name.
        param: String,
        /// What is wrong.
        problem: String,
    },
    /// Priority missing or not allowed.
    #[error("table {table}: priority {given} given, {expected}")]
    BadPriority {
        /// Table name.
        table: String,
        /// Priority given.
        given: i32,
        /// What is valid.
        expected: &'static str,
    },
    /// The entry's action is of another sort than the table's implementation.
    #[error("table {table}: {problem}")]
    WrongActionSort {
        /// Table name.
        table: String,
        /// What is wrong.
        problem: String,
    },
    /// Entry is there already.
    #[error("table {table}: an entry with this key exists already")]
    AlreadyExists {
        /// Table name.
        table: String,
    },
    /// No such entry.
    #[error("table {table}: no entry with this key")]
    NotFound {
        /// Table name.
        table: String,
    },
    /// Table full.
    #[error("table {table} is full: {size} entries")]
    Full {
        /// Table name.
        table: String,
        /// Its size.
        size: usize,
    },
    /// The program's entries can't be changed.
    #[error("table {table}: its entries are const in the program")]
    ConstEntries {
        /// Table name.
        table: String,
    },
    /// The program's default action can't be changed.
    #[error("table {table}: its default action is const in the program")]
    ConstDefault {
        /// Table name.
        table: String,
    },
    /// No direct counter, meter or idle timeout.
    #[error("table {table} has no {what}")]
    NoResource {
        /// Table name.
        table: String,
        /// `direct counter`, `direct meter` or `idle timeout`.
        what: &'static str,
    },
    /// Error of the member or group named by the entry.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl TableError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownTable(_) | Self::UnknownAction(_) | Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::Full { .. } => ErrorKind::ResourceExhausted,
            Self::ConstEntries { .. } | Self::ConstDefault { .. } => ErrorKind::PermissionDenied,
            Self::Profile(e) => e.kind(),
            _ => ErrorKind::InvalidArgument,
        }
    }
}

/// Error of an action profile operation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// A handle of another program.
    #[error("no action profile with handle {0} in this program")]
    UnknownProfile(u32),
    /// The action does not suit.
    #[error("action profile {profile}: {problem}")]
    BadAction {
        /// Profile name.
        profile: String,
        /// What is wrong.
        problem: String,
    },
    /// Member or group is there already.
    #[error("action profile {profile}: {what} {id} exists already")]
    AlreadyExists {
        /// Profile name.
        profile: String,
        /// `member` or `group`.
        what: &'static str,
        /// Its id.
        id: u32,
    },
    /// No such member or group.
    #[error("action profile {profile}: no {what} {id}")]
    NotFound {
        /// Profile name.
        profile: String,
        /// `member` or `group`.
        what: &'static str,
        /// Its id.
        id: u32,
    },
    /// Still referenced.
    #[error("action profile {profile}: {what} {id} is still used by {user}")]
    InUse {
        /// Profile name.
        profile: String,
        /// `member` or `group`.
        what: &'static str,
        /// Its id.
        id: u32,
        /// `a group` or `a table entry`.
        user: &'static str,
    },
    /// The profile has no selector, so no groups.
    #[error("action profile {profile} has no selector: groups are not possible")]
    NoSelector {
        /// Profile name.
        profile: String,
    },
    /// A weight below 1, or too many members.
    #[error("action profile {profile}: {problem}")]
    BadGroup {
        /// Profile name.
        profile: String,
        /// What is wrong.
        problem: String,
    },
    /// Profile full.
    #[error("action profile {profile} is full: {size} members")]
    Full {
        /// Profile name.
        profile: String,
        /// Its size.
        size: usize,
    },
}

impl ProfileError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownProfile(_) | Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::InUse { .. } => ErrorKind::FailedPrecondition,
            Self::Full { .. } => ErrorKind::ResourceExhausted,
            Self::BadAction { .. } | Self::NoSelector { .. } | Self::BadGroup { .. } => {
                ErrorKind::InvalidArgument
            }
        }
    }
}

/// Error of an operation on registers, counters, meters, value sets or digests.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// A handle of another program.
    #[error("no {what} with handle {id} in this program")]
    Unknown {
        /// `register`, `counter`, `meter`, `value set` or `digest`.
        what: &'static str,
        /// The handle.
        id: u32,
    },
    /// Beyond the array.
    #[error("{what} {name}: index {index} given, valid are 0 to {last}")]
    Index {
        /// `register`, `counter` or `meter`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Index given.
        index: usize,
        /// Last valid index.
        last: i64,
    },
    /// A value that does not fit.
    #[error("{what} {name}: {problem}")]
    BadValue {
        /// `register`, `meter` or `value set`.
        what: &'static str,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

impl StateError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Index { .. } => ErrorKind::OutOfRange,
            Self::BadValue { .. } => ErrorKind::InvalidArgument,
        }
    }
}

/// Error of an operation on multicast groups or clone sessions.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplicationError {
    /// Id 0, or too large.
    #[error("{what} {id}: valid ids are {min} to {max}")]
    BadId {
        /// `multicast group` or `clone session`.
        what: &'static str,
        /// Id given.
        id: u32,
        /// Smallest valid id.
        min: u32,
        /// Largest valid id.
        max: u32,
    },
    /// Is there already.
    #[error("{what} {id} exists already")]
    AlreadyExists {
        /// `multicast group` or `clone session`.
        what: &'static str,
        /// Its id.
        id: u32,
    },
    /// Is not there.
    #[error("no {what} {id}")]
    NotFound {
        /// `multicast group` or `clone session`.
        what: &'static str,
        /// Its id.
        id: u32,
    },
    /// The same port and instance twice.
    #[error("{what} {id}: replica (port {port}, instance {instance}) given twice")]
    DuplicateReplica {
        /// `multicast group` or `clone session`.
        what: &'static str,
        /// Its id.
        id: u32,
        /// Port of the replica.
        port: u16,
        /// Instance of the replica.
        instance: u16,
    },
}

impl ReplicationError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::BadId { .. } | Self::DuplicateReplica { .. } => ErrorKind::InvalidArgument,
        }
    }
}
