//! A rank's membership in a job.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inca_host_agent::communicator::{Fallback, JobToken, JoinOptions, OnFailure, OnFull};
use inca_host_agent::{Collective, Dtype, Format, RawCall, ReduceOp};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{Array, InUse};
use crate::errors;
use crate::handle::Handle;

/// One rank of a group; see `inca.Communicator`.
#[pyclass(frozen, subclass, module = "inca")]
pub(crate) struct Communicator {
    /// None: it has left.
    group: Mutex<Option<Arc<inca_host_agent::Communicator>>>,
    job: String,
    rank: u32,
    in_use: InUse,
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let group = self.group.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Leaving waits for threads that may wait for the interpreter, to release arrays.
        if group.is_some() && Python::try_attach(|py| py.detach(|| drop(group))).is_none() {
            // The interpreter ends, and the process with it.
        }
    }
}

impl Communicator {
    /// The group, unless it was left.
    fn group(&self, py: Python<'_>) -> PyResult<Arc<inca_host_agent::Communicator>> {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        group.clone().ok_or_else(|| {
            let message = format!("job {}: rank {} has left it; join again", self.job, self.rank);
            errors::named(py, "GroupClosed", message)
        })
    }

    /// Asks the group something that does not wait.
    fn with<T>(&self, py: Python<'_>, what: impl FnOnce(&inca_host_agent::Communicator) -> T) -> PyResult<T> {
        Ok(what(&*self.group(py)?))
    }

    /// Does something that waits; other threads of the interpreter run meanwhile.
    fn waiting<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&inca_host_agent::Communicator) -> T + Send,
    ) -> PyResult<T> {
        let group = self.group(py)?;
        // The last reference may be this one: leaving waits too.
        Ok(py.detach(move || what(&group)))
    }

    fn adopt(&self, group: inca_host_agent::Communicator) -> Self {
        let rank = group.rank();
        Self {
            group: Mutex::new(Some(Arc::new(group))),
            job: self.job.clone(),
            rank,
            in_use: InUse::default(),
        }
    }

    /// Starts a call on arrays; what is not given is empty.
    fn start(
        &self,
        py: Python<'_>,
        collective: Collective,
        (input, output): (Option<Array>, Option<Array>),
        op: &str,
        timeout: f64,
    ) -> PyResult<Handle> {
        let op = reduction(py, op)?;
        let deadline = seconds(py, "timeout", timeout)?;
        if let (Some(input), Some(output)) = (&input, &output)
            && input.overlaps(output)
        {
            let message =
                "out overlaps the input without being it: give the same array, or another one".to_owned();
            return Err(errors::named(py, "ArrayError", message));
        }
        // In place: what is written is what is read.
        let from = input.as_ref().or(output.as_ref());
        let dtype = from.map_or(Dtype::U8, Array::dtype);
        if let Some(output) = &output
            && output.dtype() != dtype
        {
            let message =
                format!("out has elements of {}, the input of {dtype}: must be alike", output.dtype());
            return Err(errors::named(py, "OutputMismatch", message));
        }
        let call = RawCall {
            collective,
            op,
            dtype,
            input: from
                .map_or((NOWHERE.cast_const(), 0), |array| (array.pointer().cast_const(), array.elements())),
            output: output.as_ref().map_or((NOWHERE, 0), |array| (array.pointer(), array.elements())),
        };
        let claim = self.in_use.claim(input.as_ref(), output.as_ref()).ok_or_else(|| {
            let message =
                "another call that was not waited for uses this memory: wait for it first".to_owned();
            errors::named(py, "ArrayError", message)
        })?;
        let keeper = Box::new((input, output, claim));
        // SAFETY: the buffers, which the keeper holds, keep the memory where it is; they are whole runs of so many elements of this type,
        // aligned and, the output's, writable; they are equal or apart. That nobody writes meanwhile is asked of the caller, as of any
        // Python code that releases the interpreter while it uses a buffer.
        let handle = self.with(py, |group| unsafe { group.start_raw(call, deadline, keeper) })?;
        Ok(Handle::new(handle))
    }

    /// Whether this rank is the root.
    fn is(&self, root: u32) -> bool {
        self.rank == root
    }
}

/// Where an empty array is: never read, but neither null nor misaligned.
const NOWHERE: *mut u8 = std::ptr::without_provenance_mut(64);

/// An array that is read and written, or one that is read and another that is written.
fn arrays(
    array: &Bound<'_, PyAny>,
    out: Option<&Bound<'_, PyAny>>,
    dtype: Option<&str>,
) -> PyResult<(Option<Array>, Option<Array>)> {
    match out {
        None => Ok((None, Some(Array::output(array, dtype)?))),
        Some(out) => Ok((Some(Array::input(array, dtype)?), Some(Array::output(out, dtype)?))),
    }
}

#[pymethods]
impl Communicator {
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (
        controller, job, rank, world, *, group="", dtype="f32", op="sum", format=None, chunk_words=5, interface=None,
        host_address=None, timeout=60.0, on_failure="abort", fallback="error", window=16, max_window=256, seed=1,
        token=None, ca=None, job_token=None, queue=None
    ))]
    fn join(
        py: Python<'_>,
        controller: &str,
        job: &str,
        rank: u32,
        world: u32,
        group: &str,
        dtype: &str,
        op: &str,
        format: Option<&str>,
        chunk_words: u8,
        interface: Option<&str>,
        host_address: Option<&str>,
        timeout: f64,
        on_failure: &str,
        fallback: &str,
        window: usize,
        max_window: usize,
        seed: u64,
        token: Option<String>,
        ca: Option<PathBuf>,
        job_token: Option<String>,
        queue: Option<f64>,
    ) -> PyResult<Self> {
        let refuse = |message: String| errors::named(py, "JoinOptionsError", message);
        let mut options = JoinOptions::new(controller, job, rank, world);
        group.clone_into(&mut options.group);
        let dtype: Dtype = dtype.parse().map_err(|error| refuse(format!("{error}")))?;
        let format =
            format.map(str::parse::<Format>).transpose().map_err(|error| refuse(format!("{error}")))?;
        options.carry(dtype, reduction(py, op)?, format).map_err(|error| errors::scheme(py, &error))?;
        options.chunk_words = chunk_words;
        options.interface = interface.map(str::to_owned);
        options.host_address = (host_address.map(str::parse).transpose())
            .map_err(|_| refuse(format!("host_address {host_address:?}: must be dotted IPv4")))?;
        options.timeout = seconds(py, "timeout", timeout)?;
        options.on_failure = match on_failure {
            "abort" => OnFailure::Abort,
            "shrink" => OnFailure::Shrink,
            other => return Err(refuse(format!("on_failure {other:?}: known are abort and shrink"))),
        };
        options.fallback = match fallback {
            "error" => Fallback::Error,
            "ring" => Fallback::Ring,
            other => return Err(refuse(format!("fallback {other:?}: known are error and ring"))),
        };
        (options.tuning.window.start, options.tuning.window.max) = (window, max_window);
        options.tuning.seed = seed;
        (options.access.token, options.access.ca) = (token, ca);
        options.job_token = JobToken::new(job_token.unwrap_or_default());
        options.on_full = match queue {
            None => OnFull::Refuse,
            Some(f64::INFINITY) => OnFull::Queue(None),
            Some(time) => OnFull::Queue(Some(seconds(py, "queue", time)?)),
        };
        let joined = py.detach(|| inca_host_agent::Communicator::join(options));
        let joined = joined.map_err(|error| errors::join(py, &error))?;
        Ok(Self {
            group: Mutex::new(Some(Arc::new(joined))),
            job: job.to_owned(),
            rank,
            in_use: InUse::default(),
        })
    }

    /// This rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the group, now.
    #[getter]
    fn world_size(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, inca_host_agent::Communicator::world_size)
    }

    /// The ranks of the group, now.
    #[getter]
    fn members(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, inca_host_agent::Communicator::members)
    }

    /// The generation that the group is in.
    #[getter]
    fn generation(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, inca_host_agent::Communicator::generation)
    }

    /// The number format on the wire.
    #[getter]
    fn format(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |group| group.assignment().config.format.to_string())
    }

    /// Elements of a chunk in this format: the block length of block formats.
    #[getter]
    fn chunk_elements(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |group| group.assignment().config.chunk_elements())
    }

    /// Why there is no tree and the hosts sum in a ring, if so.
    #[getter]
    fn fallback(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |group| group.fallback().map(str::to_owned))
    }

    /// Why the group has ended, if it has.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |group| group.closed().map(|closed| closed.to_string()))
    }

    /// Reduces an array over all ranks: in place, or into `out`. Blocks.
    #[pyo3(signature = (array, out=None, *, op="sum", timeout=60.0, dtype=None))]
    fn allreduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: &str,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        self.start_allreduce(py, array, out, op, timeout, dtype)?.finish(py)
    }

    /// As `allreduce`; returns at once.
    #[pyo3(signature = (array, out=None, *, op="sum", timeout=60.0, dtype=None))]
    fn start_allreduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: &str,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<Handle> {
        self.start(py, Collective::Allreduce, arrays(array, out, dtype)?, op, timeout)
    }

    /// Reduces an array over all ranks to the root, in place; the other ranks' stay as they are. Blocks.
    #[pyo3(signature = (array, root=0, *, op="sum", timeout=60.0, dtype=None))]
    fn reduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        root: u32,
        op: &str,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        self.start_reduce(py, array, root, op, timeout, dtype)?.finish(py)
    }

    /// As `reduce`; returns at once.
    #[pyo3(signature = (array, root=0, *, op="sum", timeout=60.0, dtype=None))]
    fn start_reduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        root: u32,
        op: &str,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<Handle> {
        let given = match self.is(root) {
            true => arrays(array, None, dtype)?,
            false => (Some(Array::input(array, dtype)?), None),
        };
        self.start(py, Collective::reduce_to(root), given, op, timeout)
    }

    /// Copies the root's array to all ranks. Blocks.
    #[pyo3(signature = (array, root=0, *, timeout=60.0, dtype=None))]
    fn broadcast(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        root: u32,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        self.start_broadcast(py, array, root, timeout, dtype)?.finish(py)
    }

    /// As `broadcast`; returns at once.
    #[pyo3(signature = (array, root=0, *, timeout=60.0, dtype=None))]
    fn start_broadcast(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        root: u32,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<Handle> {
        let given = match self.is(root) {
            true => (Some(Array::input(array, dtype)?), None),
            false => arrays(array, None, dtype)?,
        };
        self.start(py, Collective::broadcast_from(root), given, "sum", timeout)
    }

    /// Puts all ranks' arrays, one behind the other, into `out`. Blocks.
    #[pyo3(signature = (array, out, *, timeout=60.0, dtype=None))]
    fn allgather(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        self.start_allgather(py, array, out, timeout, dtype)?.finish(py)
    }

    /// As `allgather`; returns at once.
    #[pyo3(signature = (array, out, *, timeout=60.0, dtype=None))]
    fn start_allgather(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<Handle> {
        self.start(py, Collective::Allgather, arrays(array, Some(out), dtype)?, "sum", timeout)
    }

    /// Reduces arrays of as many equal parts as ranks; `out` gets this rank's part. Blocks.
    #[pyo3(signature = (array, out, *, op="sum", timeout=60.0, dtype=None))]
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        op: &str,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        self.start_reduce_scatter(py, array, out, op, timeout, dtype)?.finish(py)
    }

    /// As `reduce_scatter`; returns at once.
    #[pyo3(signature = (array, out, *, op="sum", timeout=60.0, dtype=None))]
    fn start_reduce_scatter(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        op: &str,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<Handle> {
        self.start(py, Collective::ReduceScatter, arrays(array, Some(out), dtype)?, op, timeout)
    }

    /// Returns when all ranks have called it.
    #[pyo3(signature = (*, timeout=60.0))]
    fn barrier(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.start(py, Collective::Barrier, (None, None), "sum", timeout)?.finish(py)
    }

    /// Exchanges parts: one for each rank, of one length. Blocks.
    #[pyo3(signature = (array, out, *, timeout=60.0, dtype=None))]
    fn alltoall(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        let deadline = seconds(py, "timeout", timeout)?;
        let (input, mut output) = (Array::input(array, dtype)?, Array::output(out, dtype)?);
        if input.pointer() == output.pointer() && input.elements() > 0 || input.overlaps(&output) {
            let message = "out overlaps the input: give another array".to_owned();
            return Err(errors::named(py, "ArrayError", message));
        }
        let done = self.waiting(py, |group| group.alltoall(input.view(), output.view_mut(), deadline))?;
        done.map_err(|error| errors::collective(py, &error))
    }

    /// Tells all ranks where this one listens. A collective: needed once before `send` and `recv`.
    #[pyo3(signature = (*, timeout=60.0))]
    fn connect_peers(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let deadline = seconds(py, "timeout", timeout)?;
        let done = self.waiting(py, |group| group.connect_peers(deadline))?;
        done.map_err(|error| errors::collective(py, &error))
    }

    /// Sends an array to another rank. Returns when it is on its way.
    #[pyo3(signature = (array, to, *, tag=0, timeout=60.0, dtype=None))]
    fn send(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        to: u32,
        tag: u32,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        let deadline = seconds(py, "timeout", timeout)?;
        let array = Array::input(array, dtype)?;
        let done = self.waiting(py, |group| group.send(array.view(), to, tag, deadline))?;
        done.map_err(|error| errors::collective(py, &error))
    }

    /// Receives an array from another rank. Blocks.
    #[pyo3(signature = (array, source, *, tag=0, timeout=60.0, dtype=None))]
    fn recv(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        source: u32,
        tag: u32,
        timeout: f64,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        let deadline = seconds(py, "timeout", timeout)?;
        let mut array = Array::output(array, dtype)?;
        let done = self.waiting(py, |group| group.recv(array.view_mut(), source, tag, deadline))?;
        done.map_err(|error| errors::collective(py, &error))
    }

    /// Splits the group: ranks of one color form a new one, ordered by key, then by rank.
    #[pyo3(signature = (color, key=0, *, timeout=60.0))]
    fn split(&self, py: Python<'_>, color: Option<u32>, key: i32, timeout: f64) -> PyResult<Option<Self>> {
        let deadline = seconds(py, "timeout", timeout)?;
        let made = self.waiting(py, |group| group.split(color, key, deadline))?;
        let made = made.map_err(|error| errors::split(py, &error))?;
        Ok(made.map(|group| self.adopt(group)))
    }

    /// Forms a group of some ranks, in the order given.
    #[pyo3(signature = (ranks, *, timeout=60.0))]
    fn new_group(&self, py: Python<'_>, ranks: Vec<u32>, timeout: f64) -> PyResult<Option<Self>> {
        let deadline = seconds(py, "timeout", timeout)?;
        let made = self.waiting(py, |group| group.new_group(&ranks, deadline))?;
        let made = made.map_err(|error| errors::split(py, &error))?;
        Ok(made.map(|group| self.adopt(group)))
    }

    /// Counters since joining.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, refused_sends) = self.with(py, inca_host_agent::Communicator::stats)?;
        let counters = PyDict::new(py);
        for (name, value) in [
            ("chunks", stats.chunks),
            ("transmissions", stats.transmissions),
            ("retransmissions", stats.retransmissions),
            ("extra_passes", stats.extra_passes),
            ("sent_bytes", stats.sent_bytes),
            ("received_bytes", stats.received_bytes),
            ("stale_results", stats.stale),
            ("refused_sends", refused_sends),
        ] {
            counters.set_item(name, value)?;
        }
        counters.set_item("rtt_seconds", stats.smoothed_rtt.map(|rtt| rtt.as_secs_f64()))?;
        Ok(counters)
    }

    /// Leaves the job. Calls under way fail, here and at the other ranks. Leaving twice is leaving once.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(group) = group else { return Ok(()) };
        let left = py.detach(|| match Arc::try_unwrap(group) {
            Ok(group) => group.leave(),
            // Another thread waits in a call: it leaves when that returns.
            Err(_) => Ok(()),
        });
        left.map_err(|error| errors::leave(py, &error))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<bool> {
        self.leave(py)?;
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<inca.Communicator job={:?} rank={}>", self.job, self.rank)
    }
}

/// Prints the library's log to stderr: error, warn, info, debug, or a filter such as inca_host_agent=debug. Once for the process.
#[pyfunction]
pub(crate) fn set_log(py: Python<'_>, filter: &str) -> PyResult<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| errors::named(py, "JoinOptionsError", format!("log filter {filter:?}: {error}")))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call changes nothing.
    let _ = subscriber.with_target(false).with_ansi(false).try_init();
    Ok(())
}

pub(crate) fn reduction(py: Python<'_>, name: &str) -> PyResult<ReduceOp> {
    name.parse().map_err(|error| errors::named(py, "Unsupported", format!("{error}")))
}

/// Seconds as a duration; infinity is no limit.
pub(crate) fn seconds(py: Python<'_>, what: &str, seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() || seconds < 0.0 {
        let message = format!("{what} {seconds}: must be seconds, 0 or more");
        return Err(errors::named(py, "JoinOptionsError", message));
    }
    // A deadline beyond the clock's range is none.
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
