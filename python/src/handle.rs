//! Operations under way.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use inca_host_agent::CollectiveError;
use inca_host_agent::communicator::{Canceller, RawHandle};
use pyo3::prelude::*;

use crate::errors;

/// Between looks at signals such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// An operation under way. Its arrays must not be touched until `wait` has returned; they are kept alive until then.
#[pyclass(frozen, module = "inca")]
pub(crate) struct Handle {
    state: Mutex<State>,
    canceller: Canceller,
}

enum State {
    Running(RawHandle),
    /// Somebody waits for it.
    Awaited,
    Ended(Result<(), CollectiveError>),
}

impl Handle {
    pub(crate) fn new(handle: RawHandle) -> Self {
        Self { canceller: handle.canceller(), state: Mutex::new(State::Running(handle)) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until then; `None` if it has not ended.
    fn wait_until(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
    ) -> PyResult<Option<Result<(), CollectiveError>>> {
        let state = std::mem::replace(&mut *self.state(), State::Awaited);
        let mut handle = match state {
            State::Running(handle) => handle,
            State::Ended(result) => {
                *self.state() = State::Ended(result.clone());
                return Ok(Some(result));
            }
            State::Awaited => {
                let message = "another thread waits for this operation already".to_owned();
                return Err(errors::named(py, "CollectiveError", message));
            }
        };
        loop {
            let tick = Instant::now() + SIGNALS;
            let until = deadline.map_or(tick, |deadline| deadline.min(tick));
            if let Some((result, keeper)) = py.detach(|| handle.wait_until(Some(until))) {
                drop(keeper);
                *self.state() = State::Ended(result.clone());
                return Ok(Some(result));
            }
            let interrupted = py.check_signals();
            if interrupted.is_err() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                *self.state() = State::Running(handle);
                return interrupted.map(|()| None);
            }
        }
    }

    /// Waits until it has ended; an interrupt cancels it, and is raised when its arrays are free.
    pub(crate) fn finish(&self, py: Python<'_>) -> PyResult<()> {
        match self.wait_until(py, None) {
            Ok(Some(result)) => result.map_err(|error| errors::collective(py, &error)),
            Ok(None) => Ok(()),
            Err(interrupt) => {
                self.cancel();
                // The cancelled call ends at once.
                let _ = self.wait_until(py, Some(Instant::now() + Duration::from_secs(5)));
                Err(interrupt)
            }
        }
    }
}

#[pymethods]
impl Handle {
    /// Blocks until the operation has ended, and raises what it failed with. With a timeout (seconds): False if it has not ended by then; it
    /// goes on.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let deadline = match timeout {
            None => None,
            Some(seconds) => Some(Instant::now() + crate::communicator::seconds(py, "timeout", seconds)?),
        };
        match self.wait_until(py, deadline)? {
            None => Ok(false),
            Some(result) => result.map(|()| true).map_err(|error| errors::collective(py, &error)),
        }
    }

    /// Whether it has ended, well or not; never blocks.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        if matches!(*self.state(), State::Awaited) {
            return Ok(false);
        }
        Ok(self.wait_until(py, Some(Instant::now()))?.is_some())
    }

    /// Gives it up. The other ranks can't finish it either: the group ends for all.
    fn cancel(&self) {
        self.canceller.cancel();
    }
}
