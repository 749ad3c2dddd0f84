//! Errors of the control API as P4Runtime's.

use inca_p4runtime::{UnknownObject, bytestring::ByteStringError, status::UpdateError};
use tonic::{Code, Status};

use crate::{
    control::{ErrorKind, ProfileError, ReplicationError, StateError, TableError},
    runtime::RuntimeError,
};

/// The outcome of one update, or of one element of a read.
pub(super) type Outcome<T = ()> = Result<T, UpdateError>;

macro_rules! from_control {
    ($($error:ty),*) => {$(
        impl From<$error> for UpdateError {
            fn from(error: $error) -> Self {
                Self::new(code(error.kind()), error.to_string())
            }
        }
    )*};
}

from_control!(TableError, ProfileError, StateError, ReplicationError);

fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::OutOfRange => Code::OutOfRange,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::ResourceExhausted => Code::ResourceExhausted,
        ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        ErrorKind::Unimplemented => Code::Unimplemented,
    }
}

/// A request that can't be right in any state.
pub(super) fn invalid(message: impl Into<String>) -> UpdateError {
    UpdateError::new(Code::InvalidArgument, message)
}

/// An id that the program does not have.
pub(super) fn unknown(error: UnknownObject) -> UpdateError {
    UpdateError::new(Code::NotFound, error.to_string())
}

/// A value that does not fit.
pub(super) fn bytes(what: impl std::fmt::Display, error: ByteStringError) -> UpdateError {
    invalid(format!("{what}: {error}"))
}

/// A failure of the packet thread, as a whole request sees it.
pub(super) fn runtime(error: RuntimeError) -> Status {
    match error {
        RuntimeError::Stopped => Status::unavailable(error.to_string()),
        RuntimeError::NoProgram => Status::failed_precondition(error.to_string()),
    }
}
