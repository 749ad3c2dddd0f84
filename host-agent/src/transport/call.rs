//! A call on its way through the driver: its tensor, and who waits for it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::sync::oneshot;

use crate::protocol::{Dtype, OperationError, StartError, Tensor, TensorBuffer, TensorMut, TensorRef};

/// Why an allreduce failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllreduceError {
    /// It was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It was started and failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The thread that drives the job is gone.
    #[error("job {job}: its driver thread has ended{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    DriverGone {
        /// Name of the job.
        job: String,
        /// Why, if known.
        reason: Option<String>,
    },
}

/// How a call ended, with its tensor if that was handed over.
pub(crate) type CallResult = (Option<Tensor>, Result<(), AllreduceError>);

/// A tensor on its way, and whom to tell.
#[derive(Debug)]
pub(crate) struct Call {
    token: u64,
    buffer: CallBuffer,
    done: oneshot::Sender<CallResult>,
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
    elements: usize,
    dtype: Dtype,
}

// SAFETY: `LentTensor::new` demands that the memory may be used from any thread until the value is dropped; its elements are plain
// numbers.
unsafe impl Send for LentTensor {}

impl LentTensor {
    /// # Safety
    ///
    /// Until the value is dropped, `input` must be readable and `output` readable and writable for `elements` initialised elements of
    /// `dtype`, both aligned for it, and nothing else may write to the former or touch the latter. They may be equal; otherwise they
    /// must not overlap.
    pub(crate) unsafe fn new(input: *const u8, output: *mut u8, elements: usize, dtype: Dtype) -> Self {
        Self { input, output, residual: std::ptr::null_mut(), elements, dtype }
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
    pub(crate) fn owned(token: u64, tensor: Tensor) -> (Self, oneshot::Receiver<CallResult>) {
        Self::with(token, CallBuffer::Owned(tensor))
    }

    /// A call on memory of the caller.
    pub(crate) fn lent(token: u64, tensor: LentTensor) -> (Self, oneshot::Receiver<CallResult>) {
        Self::with(token, CallBuffer::Lent(tensor))
    }

    fn with(token: u64, buffer: CallBuffer) -> (Self, oneshot::Receiver<CallResult>) {
        let (done, receiver) = oneshot::channel();
        (Self { token, buffer, done }, receiver)
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Gives the tensor back and tells the waiting thread or task. Taking `self` ends all use of a lent tensor before
    /// anyone is told.
    pub(crate) fn finish(self, result: Result<(), AllreduceError>) {
        let tensor = match self.buffer {
            CallBuffer::Owned(tensor) => Some(tensor),
            CallBuffer::Lent(_) => None,
        };
        // Nobody may be waiting any more.
        let _ = self.done.send((tensor, result));
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
        unsafe { TensorRef::from_raw(self.input, self.elements, self.dtype) }
    }

    fn output(&mut self) -> TensorMut<'_> {
        // SAFETY: as in `input`; `&mut self` makes this the only access.
        unsafe { TensorMut::from_raw(self.output, self.elements, self.dtype) }
    }

    fn residual(&mut self) -> Option<(&[f32], &mut [f32])> {
        if self.residual.is_null() || self.dtype != Dtype::F32 {
            return None;
        }
        // SAFETY: as in `input`; `LentTensor::with_residual` demands the same of the residual, which overlaps neither input nor output.
        unsafe {
            Some((
                std::slice::from_raw_parts(self.input.cast(), self.elements),
                std::slice::from_raw_parts_mut(self.residual, self.elements),
            ))
        }
    }
}

/// Blocks the thread until the future is done. Works inside asynchronous runtimes too, where a runtime's own would refuse.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future: Pin<&mut F> = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
