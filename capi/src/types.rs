//! Element types and reductions.

use inca_host_agent::{Dtype, ReduceOp};

/// Element types.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// IEEE 754 binary32.
    F32 = 1,
    /// 32-bit integers.
    I32 = 2,
    /// IEEE 754 binary16.
    F16 = 3,
    /// bfloat16.
    Bf16 = 4,
    /// OCP 8-bit floats, E4M3.
    F8e4m3 = 5,
    /// OCP 8-bit floats, E5M2.
    F8e5m2 = 6,
    /// 8-bit integers.
    I8 = 7,
    /// 16-bit integers.
    I16 = 8,
    /// 64-bit integers.
    I64 = 9,
    /// Unsigned 8-bit integers.
    U8 = 10,
    /// 4-bit integers, two in a byte, the first in the low half; counts are of elements.
    I4 = 11,
}

/// Reductions.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// The sum over all ranks.
    Sum = 1,
    /// The sum divided by the number of ranks.
    Average = 2,
    /// The smallest element.
    Min = 3,
    /// The largest element.
    Max = 4,
}

/// A type as C hands it over: any number.
pub(crate) fn dtype(code: i32) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|dtype| i32::from(dtype.code()) == code)
}

/// A reduction as C hands it over: any number.
pub(crate) fn reduction(code: i32) -> Option<ReduceOp> {
    ReduceOp::ALL.into_iter().find(|op| *op != ReduceOp::Product && i32::from(op.code()) == code)
}
