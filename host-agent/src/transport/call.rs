//! A call on its way through the driver: its tensor, and who waits for it.

use std::any::Any;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::peers::PeerError;
use crate::protocol::{Dtype, OperationError, StartError, Tensor, TensorBuffer, TensorMut, TensorRef};

/// Why a collective call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// It was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It was started and failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Messages between hosts failed.
    #[error(transparent)]
    Peers(#[from] PeerError),
    /// The thread that drives the job is gone.
    #[error("job {job}: its driver thread has ended{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    DriverGone {
        /// Name of the job.
        job: String,
        /// Why, if known.
        reason: Option<String>,
    },
}

/// What keeps the memory of a call alive, whatever it is.
pub type Keeper = Box<dyn Any + Send>;

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<(), CollectiveError>,
    /// The call's tensor, if that was handed over.
    pub(crate) tensor: Option<Tensor>,
    /// What kept its memory alive: to be dropped by who waited, since that may take locks that the job's thread must not wait for.
    pub(crate) keeper: Option<Keeper>,
}

/// A tensor on its way, and whom to tell.
#[derive(Debug)]
pub(crate) struct Call {
    token: u64,
    buffer: CallBuffer,
    keeper: Option<Keeper>,
    done: oneshot::Sender<Ended>,
}

#[derive(Debug)]
enum CallBuffer {
    Owned(Tensor),
    Lent(LentTensor),
}

/// A tensor that its owner keeps while it waits.
#[derive(Debug)]
pub(crate) struct LentTensor {
    input: *const u8,
    output: *mut u8,
    /// Null: none is wanted.
    residual: *mut f32,
    input_elements: usize,
    output_elements: usize,
    dtype: Dtype,
}

// SAFETY: `LentTensor::new` demands that the memory may be used from any thread until the value is dropped; its elements are plain
// numbers.
unsafe impl Send for LentTensor {}

impl LentTensor {
    /// # Safety
    ///
    /// Until the value is dropped, `input` must be readable for `input_elements` and `output` readable and writable for `output_elements`
    /// initialised elements of `dtype`, both aligned for it and not null, and nothing else may write to the former or touch the latter.
    /// They may overlap only as the collective says: the same, or a part of the other that holds the same elements.
    pub(crate) unsafe fn new(
        (input, input_elements): (*const u8, usize),
        (output, output_elements): (*mut u8, usize),
        dtype: Dtype,
    ) -> Self {
        Self { input, output, residual: std::ptr::null_mut(), input_elements, output_elements, dtype }
    }

    /// Also writes what quantisation takes from each element.
    ///
    /// # Safety
    ///
    /// Until the value is dropped, `residual` must be writable for as many initialised f32 as there are elements, aligned for them, and
    /// overlap neither input nor output; nothing else may touch it.
    pub(crate) unsafe fn with_residual(self, residual: *mut f32) -> Self {
        Self { residual, ..self }
    }
}

impl Call {
    /// A call that brings its tensor along, and where its end will be told.
    pub(crate) fn owned(token: u64, tensor: Tensor) -> (Self, oneshot::Receiver<Ended>) {
        Self::with(token, CallBuffer::Owned(tensor), None)
    }

    /// A call on memory of the caller.
    pub(crate) fn lent(token: u64, tensor: LentTensor) -> (Self, oneshot::Receiver<Ended>) {
        Self::with(token, CallBuffer::Lent(tensor), None)
    }

    /// A call on memory that is kept alive by `keeper`.
    pub(crate) fn kept(token: u64, tensor: LentTensor, keeper: Keeper) -> (Self, oneshot::Receiver<Ended>) {
        Self::with(token, CallBuffer::Lent(tensor), Some(keeper))
    }

    fn with(token: u64, buffer: CallBuffer, keeper: Option<Keeper>) -> (Self, oneshot::Receiver<Ended>) {
        let (done, receiver) = oneshot::channel();
        (Self { token, buffer, keeper, done }, receiver)
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Gives the tensor back and tells the waiting thread or task. Taking `self` ends all use of a lent tensor before
    /// anyone is told.
    pub(crate) fn finish(self, result: Result<(), CollectiveError>) {
        let tensor = match self.buffer {
            CallBuffer::Owned(tensor) => Some(tensor),
            CallBuffer::Lent(_) => None,
        };
        // Nobody may be waiting any more.
        let _ = self.done.send(Ended { result, tensor, keeper: self.keeper });
    }
}

impl TensorBuffer for Call {
    fn input(&self) -> TensorRef<'_> {
        match &self.buffer {
            CallBuffer::Owned(tensor) => tensor.input(),
            CallBuffer::Lent(lent) => lent.input(),
        }
    }

    fn output(&mut self) -> TensorMut<'_> {
        match &mut self.buffer {
            CallBuffer::Owned(tensor) => tensor.output(),
            CallBuffer::Lent(lent) => lent.output(),
        }
    }

    fn residual(&mut self) -> Option<(&[f32], &mut [f32])> {
        match &mut self.buffer {
            CallBuffer::Owned(_) => None,
            CallBuffer::Lent(lent) => lent.residual(),
        }
    }
}

impl TensorBuffer for LentTensor {
    fn input(&self) -> TensorRef<'_> {
        // SAFETY: `LentTensor::new` demands readable, initialised, aligned elements of this type; the borrow of `self` keeps `output`
        // from being written through meanwhile.
        unsafe { TensorRef::from_raw(self.input, self.input_elements, self.dtype) }
    }

    fn output(&mut self) -> TensorMut<'_> {
        // SAFETY: as in `input`; `&mut self` makes this the only access.
        unsafe { TensorMut::from_raw(self.output, self.output_elements, self.dtype) }
    }

    fn residual(&mut self) -> Option<(&[f32], &mut [f32])> {
        if self.residual.is_null() || self.dtype != Dtype::F32 {
            return None;
        }
        // SAFETY: as in `input`; `LentTensor::with_residual` demands the same of the residual, which overlaps neither input nor output.
        unsafe {
            Some((
                std::slice::from_raw_parts(self.input.cast(), self.input_elements),
                std::slice::from_raw_parts_mut(self.residual, self.input_elements),
            ))
        }
    }
}

/// Blocks the thread until the future is done. Works inside asynchronous runtimes too, where a runtime's own would refuse.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = block_until(future.as_mut(), None) {
            return output;
        }
    }
}

/// As [`block_on`], until then; `None` if the future is not done by that time.
pub(crate) fn block_until<F: Future>(
    mut future: Pin<&mut F>,
    deadline: Option<Instant>,
) -> Option<F::Output> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        match deadline {
            None => thread::park(),
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                _ => return None,
            },
        }
    }
}
