//! What a caller asks for.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

pub use inca_wire::scheme::ReduceOp;
use inca_wire::tag::Operation;

use super::tensor::Dtype;

/// Which collective. Of a group of n ranks, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collective {
    /// Every rank gets the reduction of all ranks' tensors.
    Allreduce,
    /// The root gets the reduction of all ranks' tensors.
    Reduce {
        /// The rank that gets it.
        root: u16,
    },
    /// Every rank gets the root's tensor.
    Broadcast {
        /// The rank that has it.
        root: u16,
    },
    /// Every rank gets all ranks' tensors, one behind the other.
    Allgather,
    /// All ranks' tensors, of n equal parts each, are reduced; every rank gets its part of that.
    ReduceScatter,
    /// Nobody goes on before all are there.
    Barrier,
    /// What precedes an all-to-all, whose parts go from host to host: a barrier of ranks that want the same.
    Alltoall,
}

impl Collective {
    /// The code that is hashed into operation tags.
    pub const fn code(self) -> u8 {
        match self {
            Self::Allreduce => 1,
            Self::Reduce { .. } => 2,
            Self::Broadcast { .. } => 3,
            Self::Allgather => 4,
            Self::ReduceScatter => 5,
            Self::Barrier => 6,
            Self::Alltoall => 7,
        }
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allreduce => "allreduce",
            Self::Reduce { .. } => "reduce",
            Self::Broadcast { .. } => "broadcast",
            Self::Allgather => "allgather",
            Self::ReduceScatter => "reduce-scatter",
            Self::Barrier => "barrier",
            Self::Alltoall => "all-to-all",
        }
    }

    /// A reduction to that rank. Ranks have 16 bits: no group has one beyond.
    pub fn reduce_to(root: u32) -> Self {
        Self::Reduce { root: u16::try_from(root).unwrap_or(u16::MAX) }
    }

    /// A broadcast from that rank.
    pub fn broadcast_from(root: u32) -> Self {
        Self::Broadcast { root: u16::try_from(root).unwrap_or(u16::MAX) }
    }

    /// The root, of those that have one.
    pub const fn root(self) -> Option<u32> {
        match self {
            Self::Reduce { root } | Self::Broadcast { root } => Some(root as u32),
            _ => None,
        }
    }

    /// Whether elements are reduced; otherwise they come out as they went in.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::Allreduce | Self::Reduce { .. } | Self::ReduceScatter)
    }

    /// What is hashed into the tags of operation `id` on that many elements. A root counts with the operation's number, of which no group
    /// ever needs the upper bits.
    pub(crate) fn on_the_wire(self, id: OperationId, op: ReduceOp, dtype: Dtype, elements: u64) -> Operation {
        let root = self.root().map_or(0, |root| u64::from(root) + 1);
        Operation {
            number: id.0 | root << 40,
            collective: self.code(),
            op: if self.reduces() { op.code() } else { 0 },
            dtype: if self == Self::Barrier { 0 } else { dtype.code() },
            elements,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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
    /// Which collective.
    pub collective: Collective,
    /// How elements are reduced.
    pub op: ReduceOp,
    /// Element type.
    pub dtype: Dtype,
    /// Elements of the whole tensor.
    pub elements: u64,
}

impl OperationText {
    /// Without its number: `allreduce (sum of 100 f32 elements)`.
    pub(super) fn call(&self) -> String {
        let Self { collective, op, dtype, elements, .. } = self;
        let mut call = collective.name().to_owned();
        match collective {
            Collective::Reduce { root } => call += &format!(" to rank {root}"),
            Collective::Broadcast { root } => call += &format!(" from rank {root}"),
            _ => {}
        }
        match collective {
            Collective::Barrier => {}
            collective if collective.reduces() => call += &format!(" ({op} of {elements} {dtype} elements)"),
            _ => call += &format!(" ({elements} {dtype} elements)"),
        }
        call
    }
}

impl fmt::Display for OperationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, call) = (self.collective.name(), self.call());
        write!(f, "{name} {}{}", self.id, &call[name.len()..])
    }
}
