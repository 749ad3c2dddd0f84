//! A rank's membership in a job: join, reduce, leave.

pub mod collectives;
mod control;
mod error;
mod handle;
mod options;
mod p2p;
mod split;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inca_wire::packet::packet_len;

use crate::peers::Peers;
use crate::protocol::{
    Account, Closed, Collective, Dtype, EndpointConfig, OperationSpec, Part, ReduceOp, StartError, Stats,
    Tensor, TensorMut, TensorRef,
};
use crate::transport::{
    self, Call, CollectiveError, DataInterface, DriverError, Engine, Keeper, LentTensor, block_on,
};

pub use control::Joined;
pub use error::{JoinError, LeaveError};
pub use handle::{Canceller, OperationHandle, RawHandle};
pub use options::{Fallback, JobToken, JoinOptions, OnFailure, OnFull};
pub use split::SplitError;

use control::Control;

/// A hundred years.
const LONGEST_JOIN: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A call on memory of the caller.
#[derive(Debug, Clone, Copy)]
pub struct RawCall {
    /// Which collective.
    pub collective: Collective,
    /// How elements are reduced, if they are.
    pub op: ReduceOp,
    /// Element type.
    pub dtype: Dtype,
    /// The input, and its elements.
    pub input: (*const u8, usize),
    /// The output, and its elements.
    pub output: (*mut u8, usize),
}

/// One rank of a group.
///
/// All methods block the calling thread and need no asynchronous runtime; [`Communicator::start_allreduce`] returns at once. Every
/// rank must call the same operations in the same order, so calls from several threads need an order of their own.
///
/// A failed switch or link does not show, if there are others: calls go on, in a new generation. After an error other than
/// [`crate::protocol::OperationError::Overflow`] or one of starting, the group has ended: leave and join again.
#[derive(Debug)]
pub struct Communicator {
    joined: Joined,
    driver: Engine,
    driver_thread: Option<JoinHandle<()>>,
    control: Option<Control>,
    next_token: AtomicU64,
    /// The host's data-plane address.
    address: Ipv4Addr,
    /// How it was joined, for groups within this one; none without a controller.
    options: Option<JoinOptions>,
    /// Links to the other ranks' hosts, once they know of each other.
    peers: OnceLock<Peers>,
    /// All-to-all exchanges so far, and splits.
    exchanges: AtomicU32,
    splits: AtomicU32,
}

impl Communicator {
    /// Joins a job: announces this host, waits until all ranks are there and their trees are installed.
    ///
    /// Blocks for at most [`JoinOptions::timeout`].
    pub fn join(mut options: JoinOptions) -> Result<Self, JoinError> {
        options.check()?;
        // Beyond the clock's range it would have no end.
        options.timeout = options.timeout.min(LONGEST_JOIN);
        let interface = DataInterface::find(options.host_address, options.interface.as_deref())?;
        interface.check_chunk(options.chunk_words)?;
        let socket = transport::bind(interface.address)
            .map_err(|source| JoinError::Bind { address: interface.address, source })?;
        let room = transport::receive_room(&socket, packet_len(options.chunk_words));
        options.tuning.window.max = options.tuning.window.max.min(room);
        let listener = match options.fallback {
            Fallback::Error => None,
            Fallback::Ring => Some(
                TcpListener::bind((interface.address, 0))
                    .map_err(|source| JoinError::Bind { address: interface.address, source })?,
            ),
        };
        let (address, kept) = (interface.address, options.clone());
        let (control, joined, driver, driver_thread) = Control::join(options, interface, socket, listener)?;
        let mut group = Self::of(joined, driver, driver_thread, address);
        (group.control, group.options) = (Some(control), Some(kept));
        Ok(group)
    }

    /// A member of trees that were installed by other means than the controller's northbound API. `socket` must be bound to the
    /// port that results go to; `trees` are the service addresses of the configuration's trees, in order.
    pub fn assigned(
        config: EndpointConfig,
        rank: u32,
        socket: std::net::UdpSocket,
        trees: Vec<SocketAddr>,
    ) -> Result<Self, DriverError> {
        let job = config.job.clone();
        let io = move |source| DriverError::Io { job: job.clone(), what: "preparing the socket", source };
        socket.set_nonblocking(true).map_err(&io)?;
        let joined = Joined { rank, levels: 0, config, fallback: None };
        let on_closed = Box::new(|_: &Closed, _: Account| {});
        let address = match socket.local_addr().map_err(io)?.ip() {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
        };
        let (driver, thread) = transport::spawn(joined.config.clone(), socket, trees, on_closed)?;
        Ok(Self::of(joined, Engine::Tree(driver), thread, address))
    }

    fn of(joined: Joined, driver: Engine, thread: JoinHandle<()>, address: Ipv4Addr) -> Self {
        Self {
            joined,
            driver,
            driver_thread: Some(thread),
            control: None,
            next_token: AtomicU64::new(0),
            address,
            options: None,
            peers: OnceLock::new(),
            exchanges: AtomicU32::new(0),
            splits: AtomicU32::new(0),
        }
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.joined.rank
    }

    /// Ranks of the group, now.
    pub fn world_size(&self) -> u32 {
        self.driver.membership().1.len() as u32
    }

    /// The ranks of the group, now, in order: without those that died, if it was joined with [`OnFailure::Shrink`].
    pub fn members(&self) -> Vec<u32> {
        self.driver.membership().1.to_vec()
    }

    /// What the output of the operation that succeeded last holds: several parts if ranks died meanwhile and the others went on
    /// (see [`OnFailure::Shrink`]). Empty before the first one.
    pub fn last_parts(&self) -> Vec<Part> {
        self.driver.parts()
    }

    /// The generation that the group is in now.
    pub fn generation(&self) -> u32 {
        self.driver.membership().0
    }

    /// What the controller assigned at first: format, chunk size, generation, trees.
    pub fn assignment(&self) -> &Joined {
        &self.joined
    }

    /// Why the group has no reduction tree and runs as a ring of its hosts, if it does: see [`JoinOptions::fallback`].
    pub fn fallback(&self) -> Option<&str> {
        self.joined.fallback.as_deref()
    }

    /// Counters since joining, and how many sends the kernel refused (each was repeated).
    pub fn stats(&self) -> (Stats, u64) {
        self.driver.stats()
    }

    /// Why the generation has ended, if it has.
    pub fn closed(&self) -> Option<Closed> {
        self.driver.closed()
    }

    /// Reduces a tensor over all ranks, in place. Gives up after `deadline`.
    pub fn allreduce_f32(
        &self,
        tensor: &mut [f32],
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let (pointer, elements) = (tensor.as_mut_ptr(), tensor.len());
        // SAFETY: the exclusive borrow of the slice lasts until this call has returned.
        unsafe { self.allreduce_raw(pointer.cast(), pointer.cast(), elements, Dtype::F32, op, deadline) }
    }

    /// Reduces a tensor over all ranks, in place. Gives up after `deadline`.
    pub fn allreduce_i32(
        &self,
        tensor: &mut [i32],
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let (pointer, elements) = (tensor.as_mut_ptr(), tensor.len());
        // SAFETY: the exclusive borrow of the slice lasts until this call has returned.
        unsafe { self.allreduce_raw(pointer.cast(), pointer.cast(), elements, Dtype::I32, op, deadline) }
    }

    /// Reduces a tensor over all ranks into another of the same length. Gives up after `deadline`.
    pub fn allreduce_f32_into(
        &self,
        input: &[f32],
        output: &mut [f32],
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        self.check_output(input.len(), output.len(), Dtype::F32)?;
        let (from, to) = (input.as_ptr(), output.as_mut_ptr());
        // SAFETY: both borrows last until this call has returned, and the output is as long as the input.
        unsafe { self.allreduce_raw(from.cast(), to.cast(), input.len(), Dtype::F32, op, deadline) }
    }

    /// Reduces a tensor over all ranks into another of the same length. Gives up after `deadline`.
    pub fn allreduce_i32_into(
        &self,
        input: &[i32],
        output: &mut [i32],
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        self.check_output(input.len(), output.len(), Dtype::I32)?;
        let (from, to) = (input.as_ptr(), output.as_mut_ptr());
        // SAFETY: both borrows last until this call has returned, and the output is as long as the input.
        unsafe { self.allreduce_raw(from.cast(), to.cast(), input.len(), Dtype::I32, op, deadline) }
    }

    /// Reduces a tensor of any type over all ranks, in place. Gives up after `deadline`.
    pub fn allreduce(
        &self,
        mut tensor: TensorMut<'_>,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let (elements, dtype) = (tensor.as_ref().len(), tensor.as_ref().dtype());
        let pointer = tensor.as_mut_ptr();
        // SAFETY: the exclusive borrow of the elements lasts until this call has returned.
        unsafe { self.allreduce_raw(pointer, pointer, elements, dtype, op, deadline) }
    }

    /// Reduces a tensor of any type over all ranks into another of the same type and length. Gives up after `deadline`.
    pub fn allreduce_into(
        &self,
        input: TensorRef<'_>,
        mut output: TensorMut<'_>,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let (elements, dtype) = (input.len(), input.dtype());
        let (output_elements, output_dtype) = (output.as_ref().len(), output.as_ref().dtype());
        if (elements, dtype) != (output_elements, output_dtype) {
            let job = self.joined.config.job.clone();
            let (input, input_dtype, output) = (elements, dtype, output_elements);
            return Err(StartError::OutputMismatch { job, input, input_dtype, output, output_dtype }.into());
        }
        // SAFETY: both borrows last until this call has returned, and the output is as long as the input and of its type.
        unsafe { self.allreduce_raw(input.as_ptr(), output.as_mut_ptr(), elements, dtype, op, deadline) }
    }

    /// As [`Communicator::allreduce_f32`] with error feedback: `residual`, as long as the tensor and 0 before the first call, is added to
    /// the tensor, and then holds what this rank's quantisation took from that. Kept from step to step by the caller, nothing that the
    /// format takes from a gradient is lost: it is only late. For sums and averages in a block format.
    pub fn allreduce_f32_with_feedback(
        &self,
        tensor: &mut [f32],
        residual: &mut [f32],
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        if tensor.len() != residual.len() {
            let (job, format) = (self.joined.config.job.clone(), self.joined.config.format);
            return Err(StartError::Residual { job, dtype: Dtype::F32, op, format }.into());
        }
        for (element, residual) in tensor.iter_mut().zip(&*residual) {
            *element += residual;
        }
        let (pointer, elements) = (tensor.as_mut_ptr(), tensor.len());
        // SAFETY: both exclusive borrows last until this call has returned, which it does only after the last use of the memory, see
        // `allreduce_raw`; the residual is as long as the tensor.
        let lent = unsafe {
            LentTensor::new((pointer.cast(), elements), (pointer.cast(), elements), Dtype::F32)
                .with_residual(residual.as_mut_ptr())
        };
        self.wait(lent, spec(Collective::Allreduce, op, deadline))
    }

    fn check_output(&self, input: usize, output: usize, dtype: Dtype) -> Result<(), CollectiveError> {
        if input == output {
            return Ok(());
        }
        let job = self.joined.config.job.clone();
        let (input_dtype, output_dtype) = (dtype, dtype);
        Err(StartError::OutputMismatch { job, input, input_dtype, output, output_dtype }.into())
    }

    /// Reduces `elements` elements at `input` into `output`, which may be equal. For foreign-language bindings.
    ///
    /// # Safety
    ///
    /// Until the call returns, `input` must be readable and `output` writable for `elements` initialised elements of `dtype`, both
    /// aligned for it and not null, and nothing else may write to the former or touch the latter. They may be equal; otherwise they
    /// must not overlap.
    pub unsafe fn allreduce_raw(
        &self,
        input: *const u8,
        output: *mut u8,
        elements: usize,
        dtype: Dtype,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        // SAFETY: the caller keeps the memory as demanded until this function returns, which it does only after the driver has given
        // the call up: its end is told, or its sender is dropped, after the last use of the tensor.
        let tensor = unsafe { LentTensor::new((input, elements), (output, elements), dtype) };
        self.wait(tensor, spec(Collective::Allreduce, op, deadline))
    }

    fn wait(&self, tensor: LentTensor, spec: OperationSpec) -> Result<(), CollectiveError> {
        let (call, done) = Call::lent(self.token(), tensor);
        self.driver.start(spec, call);
        match block_on(done) {
            Ok(ended) => ended.result,
            Err(_) => Err(self.driver.gone()),
        }
    }

    /// Starts reducing a tensor over all ranks and returns at once. Calls that overlap are pipelined: the next one's packets leave
    /// while the last ones of the previous are awaited.
    pub fn start_allreduce(&self, tensor: Tensor, op: ReduceOp, deadline: Duration) -> OperationHandle {
        self.start(Collective::Allreduce, tensor, op, deadline)
    }

    /// Starts any collective on a tensor, in place, and returns at once; see [`collectives`] for what the tensor holds before and
    /// after. `op` counts for those that reduce.
    pub fn start(
        &self,
        collective: Collective,
        tensor: Tensor,
        op: ReduceOp,
        deadline: Duration,
    ) -> OperationHandle {
        let token = self.token();
        let (call, done) = Call::owned(token, tensor);
        self.driver.start(spec(collective, op, deadline), call);
        OperationHandle::new(token, done, self.driver.clone())
    }

    /// As [`Communicator::start`], on memory of the caller. For foreign-language bindings.
    ///
    /// # Safety
    ///
    /// Until the operation has ended, which [`RawHandle::wait_until`] tells, or `keeper` is dropped: the input must be readable and the
    /// output writable for as many initialised elements of the call's type, aligned for it and not null, and nothing else may write to the
    /// former or touch the latter. They may be equal, or one the other's part of this rank (allgather, reduce-scatter); otherwise they must
    /// not overlap.
    pub unsafe fn start_raw(&self, call: RawCall, deadline: Duration, keeper: Keeper) -> RawHandle {
        let RawCall { collective, op, dtype, input, output } = call;
        // SAFETY: the caller keeps the memory as demanded until the call has given the tensor up, at its end.
        let tensor = unsafe { LentTensor::new(input, output, dtype) };
        let token = self.token();
        let (call, done) = Call::kept(token, tensor, keeper);
        self.driver.start(spec(collective, op, deadline), call);
        RawHandle::new(token, done, self.driver.clone())
    }

    /// Leaves the job in an orderly way. Calls under way fail, here and at the other ranks.
    pub fn leave(mut self) -> Result<(), LeaveError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), LeaveError> {
        let result = self.control.take().map_or(Ok(()), Control::leave);
        self.driver.stop();
        if let Some(thread) = self.driver_thread.take() {
            // A panic of that thread has been printed; there is nothing to add.
            let _ = thread.join();
        }
        result
    }

    fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::debug!(%error, "leaving");
        }
    }
}

fn spec(collective: Collective, op: ReduceOp, deadline: Duration) -> OperationSpec {
    // A deadline beyond the clock's range is none.
    OperationSpec { collective, op, deadline: Instant::now().checked_add(deadline) }
}
