//! Operations under way.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use inca_host_agent::CollectiveError;
use inca_host_agent::communicator::RawHandle;

use crate::group::seconds;
use crate::status::{Status, fail, invalid, of_collective};

/// An operation under way. Its memory must not be touched until `inca_wait` has returned something else than INCA_STATUS_PENDING.
pub struct Operation(Mutex<State>);

enum State {
    Running(RawHandle),
    Ended(Result<(), CollectiveError>),
}

impl Operation {
    pub(crate) fn new(handle: RawHandle) -> Self {
        Self(Mutex::new(State::Running(handle)))
    }

    /// `None`: it has not ended by then.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Option<Status> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Running(handle) = &mut *state {
            let (result, _) = handle.wait_until(deadline)?;
            *state = State::Ended(result);
        }
        match &*state {
            State::Ended(Err(error)) => Some(of_collective(error)),
            _ => Some(Status::Ok),
        }
    }
}

/// Waits at most so many seconds (infinity: for ever) until an operation has ended; what became of it, or INCA_STATUS_PENDING.
///
/// # Safety
///
/// `operation` must be null or come from this library and not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_wait(operation: *const Operation, timeout: f64) -> Status {
    // SAFETY: as demanded.
    let Some(operation) = (unsafe { operation.as_ref() }) else {
        return invalid("inca_wait: operation is null");
    };
    let Some(timeout) = seconds(timeout) else { return invalid("inca_wait: timeout must be 0 or more") };
    operation
        .wait(Instant::now().checked_add(timeout))
        .unwrap_or_else(|| fail(Status::Pending, "not ended yet"))
}

/// Frees an operation. One that has not ended is given up first, which ends the group for all ranks; this returns when its memory is not
/// used any more. Null is nothing.
///
/// # Safety
///
/// `operation` must be null or come from this library and not have been freed; no other thread may wait for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_free(operation: *mut Operation) {
    if operation.is_null() {
        return;
    }
    // SAFETY: as demanded, it is a box of ours.
    let operation = unsafe { Box::from_raw(operation) };
    if let State::Running(handle) = &*operation.0.lock().unwrap_or_else(PoisonError::into_inner) {
        handle.canceller().cancel();
    }
    let _ = operation.wait(None);
}
