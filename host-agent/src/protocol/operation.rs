//! What a caller asks for.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

pub use inca_wire::scheme::ReduceOp;

use super::tensor::Dtype;

/// Which collective. Codes of those to come (broadcast, gather, scatter, barrier) follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collective {
    /// Every rank gets the reduction of all ranks' tensors.
    Allreduce,
}

impl Collective {
    /// The code that is hashed into operation tags.
    pub const fn code(self) -> u8 {
        match self {
            Self::Allreduce => 1,
        }
    }
}

/// One collective call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationSpec {
    /// Which collective.
    pub collective: Collective,
    /// How elements are reduced.
    pub op: ReduceOp,
    /// When to give up, if ever.
    pub deadline: Option<Instant>,
}

/// A part of an operation's output, and the ranks whose inputs it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Elements of the output.
    pub elements: Range<u64>,
    /// The ranks, in order.
    pub ranks: Arc<[u32]>,
}

/// Number of an operation in its group: every rank must start the same operations in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An operation in words, for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationText {
    /// Its number.
    pub id: OperationId,
    /// How elements are reduced.
    pub op: ReduceOp,
    /// Element type.
    pub dtype: Dtype,
    /// Elements.
    pub elements: u64,
}

impl fmt::Display for OperationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allreduce {} ({} of {} {} elements)", self.id, self.op, self.elements, self.dtype)
    }
}
