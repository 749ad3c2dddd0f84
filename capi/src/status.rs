//! What functions return, and the words to it.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use inca_host_agent::communicator::{LeaveError, SplitError};
use inca_host_agent::{CollectiveError, JoinError, OperationError, PeerError, StartError, with_causes};

/// What became of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It succeeded.
    Ok = 0,
    /// An argument makes no sense: null, an unknown code, a count that does not go with the collective. Nothing was sent.
    InvalidArgument = 1,
    /// The job's number format does not carry this type through this reduction. Nothing was sent.
    Unsupported = 2,
    /// Joining failed: controller, missing ranks, interface.
    JoinFailed = 3,
    /// The deadline passed. The group has ended.
    DeadlineExceeded = 4,
    /// Ranks called different operations. The group has ended.
    Mismatch = 5,
    /// An integer sum does not fit; every rank gets this, and the group goes on.
    Overflow = 6,
    /// The group has ended: a rank died, gave up or left.
    Closed = 7,
    /// Another rank's host could not be reached, or an exchange failed.
    PeerFailed = 8,
    /// It has not ended in the time given; it goes on.
    Pending = 9,
    /// Anything else; see `inca_last_error`.
    Failed = 10,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The last error of the calling thread in words; empty if there was none. Valid until the thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn inca_last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// Keeps the words.
pub(crate) fn fail(status: Status, text: impl Into<String>) -> Status {
    let text: String = text.into();
    // No error has a zero in its words.
    LAST.set(CString::new(text.replace('\0', " ")).unwrap_or_default());
    status
}

pub(crate) fn invalid(text: impl Into<String>) -> Status {
    fail(Status::InvalidArgument, text)
}

pub(crate) fn of_join(error: &JoinError) -> Status {
    let status = match error {
        JoinError::Options { .. } | JoinError::Uri { .. } => Status::InvalidArgument,
        _ => Status::JoinFailed,
    };
    fail(status, with_causes(error))
}

pub(crate) fn of_leave(error: &LeaveError) -> Status {
    fail(Status::Failed, with_causes(error))
}

pub(crate) fn of_split(error: &SplitError) -> Status {
    match error {
        SplitError::Collective(error) => of_collective(error),
        SplitError::Join(error) => of_join(error),
        other => fail(Status::InvalidArgument, other.to_string()),
    }
}

pub(crate) fn of_collective(error: &CollectiveError) -> Status {
    let status = match error {
        CollectiveError::Start(StartError::Closed { .. }) | CollectiveError::DriverGone { .. } => {
            Status::Closed
        }
        CollectiveError::Start(
            StartError::Unsupported { .. } | StartError::Ring { .. } | StartError::RingCollective { .. },
        ) => Status::Unsupported,
        CollectiveError::Start(_) => Status::InvalidArgument,
        CollectiveError::Operation(error) => match error {
            OperationError::DeadlineExceeded { .. } => Status::DeadlineExceeded,
            OperationError::Mismatch { .. } => Status::Mismatch,
            OperationError::Overflow { .. } | OperationError::OverflowAmong { .. } => Status::Overflow,
            OperationError::Closed { .. } | OperationError::Cancelled { .. } => Status::Closed,
            OperationError::Protocol { .. } => Status::Failed,
        },
        CollectiveError::Peers(error) => match error {
            PeerError::NotConnected { .. }
            | PeerError::Rank { .. }
            | PeerError::Shape { .. }
            | PeerError::Parts { .. } => Status::InvalidArgument,
            PeerError::DeadlineExceeded { .. } => Status::DeadlineExceeded,
            PeerError::Closed { .. } => Status::Closed,
            _ => Status::PeerFailed,
        },
        _ => Status::Failed,
    };
    fail(status, with_causes(error))
}
