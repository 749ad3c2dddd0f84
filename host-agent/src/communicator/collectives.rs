//! The collectives beside allreduce.
//!
//! Of a group of n ranks, in the order of [`Communicator::members`]. A call on one tensor ([`Communicator::start`]) takes and gives:
//!
//! | collective | before, at rank r | after |
//! |---|---|---|
//! | allreduce | its elements | the reduction |
//! | reduce | its elements | at the root the reduction; elsewhere as before |
//! | broadcast | at the root the elements; elsewhere as many of any value | the root's elements |
//! | allgather | n parts, of which part r is its own | all parts |
//! | reduce-scatter | n parts | part r is the reduction of all ranks' part r; the others as before |
//! | barrier | nothing | nothing |
//!
//! All ranks must bring as many elements of one type. Each operation is atomic: all ranks get their result or all get an error.
//!
//! A collective that does not reduce brings any type through any format, bit for bit. *Bytes on a host's link*, up and down, of B bytes a
//! rank (allgather: in all), beside the least there could be: all of them take B each way, since who brings nothing contributes zeros and who
//! gets nothing hears the result all the same; the least would be B/n up for allgather, B/n down for reduce-scatter, nothing down for
//! reduce and nothing up for broadcast, root apart. Block formats take 1/15 more (`bfp16`; 1/7 in `bfp8`, 1/31 in `bfp32`). A barrier is one header.

use std::time::Duration;

use super::{Communicator, spec};
use crate::protocol::{Collective, Dtype, ReduceOp, StartError, TensorMut, TensorRef};
use crate::transport::{CollectiveError, LentTensor};

/// Where an empty tensor is: never read, but neither null nor misaligned.
pub(super) const NOWHERE: *mut u8 = std::ptr::without_provenance_mut(64);

impl Communicator {
    /// Reduces a tensor over all ranks to the root, in place; the other ranks' stay as they are. Gives up after `deadline`.
    pub fn reduce(
        &self,
        tensor: TensorMut<'_>,
        root: u32,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        self.in_place(Collective::reduce_to(root), tensor, op, deadline)
    }

    /// As [`Communicator::reduce`], into another tensor of the same type, which at the root has as many elements and elsewhere is left alone.
    pub fn reduce_into(
        &self,
        input: TensorRef<'_>,
        output: TensorMut<'_>,
        root: u32,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        self.apart(Collective::reduce_to(root), input, output, op, deadline)
    }

    /// Copies the root's tensor to all ranks. Gives up after `deadline`.
    pub fn broadcast(
        &self,
        tensor: TensorMut<'_>,
        root: u32,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        self.in_place(Collective::broadcast_from(root), tensor, ReduceOp::Sum, deadline)
    }

    /// Puts all ranks' inputs, which are of one length, one behind the other. Gives up after `deadline`.
    pub fn allgather(
        &self,
        input: TensorRef<'_>,
        output: TensorMut<'_>,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        self.apart(Collective::Allgather, input, output, ReduceOp::Sum, deadline)
    }

    /// Reduces inputs of n equal parts; this rank gets its part. Gives up after `deadline`.
    pub fn reduce_scatter(
        &self,
        input: TensorRef<'_>,
        output: TensorMut<'_>,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        self.apart(Collective::ReduceScatter, input, output, op, deadline)
    }

    /// Returns when all ranks have called it. Gives up after `deadline`.
    pub fn barrier(&self, deadline: Duration) -> Result<(), CollectiveError> {
        // SAFETY: no element is ever read or written.
        let nothing = unsafe { LentTensor::new((NOWHERE, 0), (NOWHERE, 0), Dtype::U8) };
        self.wait(nothing, spec(Collective::Barrier, ReduceOp::Sum, deadline))
    }

    fn in_place(
        &self,
        collective: Collective,
        mut tensor: TensorMut<'_>,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let (elements, dtype) = (tensor.as_ref().len(), tensor.as_ref().dtype());
        let pointer = tensor.as_mut_ptr();
        // SAFETY: the exclusive borrow of the elements lasts until this call has returned, which it does only after the last use.
        let lent = unsafe { LentTensor::new((pointer, elements), (pointer, elements), dtype) };
        self.wait(lent, spec(collective, op, deadline))
    }

    fn apart(
        &self,
        collective: Collective,
        input: TensorRef<'_>,
        mut output: TensorMut<'_>,
        op: ReduceOp,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let (elements, dtype) = (input.len(), input.dtype());
        let (output_elements, output_dtype) = (output.as_ref().len(), output.as_ref().dtype());
        if dtype != output_dtype {
            let (job, input, input_dtype, output) =
                (self.joined.config.job.clone(), elements, dtype, output_elements);
            return Err(StartError::OutputMismatch { job, input, input_dtype, output, output_dtype }.into());
        }
        // SAFETY: both borrows last until this call has returned, which it does only after the last use; they do not overlap.
        let lent = unsafe {
            LentTensor::new((input.as_ptr(), elements), (output.as_mut_ptr(), output_elements), dtype)
        };
        self.wait(lent, spec(collective, op, deadline))
    }
}
