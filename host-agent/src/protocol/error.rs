//! Why operations fail.

use std::fmt;

use inca_wire::packet::Format;
use inca_wire::scheme::SchemeError;

use super::calls::Calls;
use super::operation::{OperationText, ReduceOp};
use super::tensor::Dtype;

/// Why an endpoint can't be made of these settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No tree although there are several ranks.
    #[error("job {job}: no reduction tree given for a world of {world_size} ranks: needs at least one")]
    NoTrees {
        /// Name of the job.
        job: String,
        /// Ranks.
        world_size: u32,
    },
    /// A tree without slots.
    #[error("job {job}: tree {tree_id} has no slots: needs at least one")]
    NoSlots {
        /// Name of the job.
        job: String,
        /// The tree.
        tree_id: u16,
    },
    /// Two stripes on one tree.
    #[error("job {job}: tree {tree_id} is given twice: each stripe needs its own")]
    DuplicateTree {
        /// Name of the job.
        job: String,
        /// The tree.
        tree_id: u16,
    },
    /// The world size is out of range.
    #[error("job {job}: world size {world_size}: format {format} takes 1 to {most}")]
    WorldSize {
        /// Name of the job.
        job: String,
        /// The size given.
        world_size: u32,
        /// The job's number format.
        format: Format,
        /// Most ranks of that format.
        most: usize,
    },
    /// The chunk size is out of range.
    #[error("job {job}: {words} words per chunk: must be 1 to 32")]
    ChunkWords {
        /// Name of the job.
        job: String,
        /// Words given.
        words: u8,
    },
}

/// Why an operation was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The job's number format does not carry this type through this reduction, or nothing does.
    #[error("job {job}: {error}")]
    Unsupported {
        /// Name of the job.
        job: String,
        /// Why, and what would be.
        error: SchemeError,
    },
    /// The hosts form a ring, for there was no tree, and it does not do this.
    #[error(
        "job {job}: {op} of {dtype} in a ring of the hosts, to which the job fell back: it sums and averages f32 and i32, without error feedback"
    )]
    Ring {
        /// Name of the job.
        job: String,
        /// The tensor's element type.
        dtype: Dtype,
        /// What was asked for.
        op: ReduceOp,
    },
    /// Error feedback was asked for where there is none.
    #[error(
        "job {job}: error feedback for {op} of {dtype} in number format {format}: needs sums or averages of f32 in bfp8, bfp16 or bfp32, and residuals as many as elements"
    )]
    Residual {
        /// Name of the job.
        job: String,
        /// The tensor's element type.
        dtype: Dtype,
        /// What was asked for.
        op: ReduceOp,
        /// The job's number format.
        format: Format,
    },
    /// Input and output differ.
    #[error(
        "job {job}: the output has {output} elements of {output_dtype}, the input {input} of {input_dtype}: must be alike"
    )]
    OutputMismatch {
        /// Name of the job.
        job: String,
        /// Elements of the input.
        input: usize,
        /// Element type of the input.
        input_dtype: Dtype,
        /// Elements of the output.
        output: usize,
        /// Element type of the output.
        output_dtype: Dtype,
    },
    /// As `Ring`, of a collective.
    #[error(
        "job {job}: {collective} in a ring of the hosts, to which the job fell back: it has allreduce only"
    )]
    RingCollective {
        /// Name of the job.
        job: String,
        /// Name of the collective.
        collective: &'static str,
    },
    /// The root is no rank of the group.
    #[error("job {job}: {collective} with root {root}: the group's ranks are {members:?}")]
    Root {
        /// Name of the job.
        job: String,
        /// Name of the collective.
        collective: &'static str,
        /// The root given.
        root: u32,
        /// The group's ranks.
        members: Vec<u32>,
    },
    /// Buffers that do not go with the collective.
    #[error(
        "job {job}: {collective} in a group of {world} ranks, of {input} elements to {output}: {}",
        shapes(collective)
    )]
    Shape {
        /// Name of the job.
        job: String,
        /// Name of the collective.
        collective: &'static str,
        /// Ranks of the group.
        world: usize,
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// More chunks than can be numbered.
    #[error("job {job}: a tensor of {elements} elements makes {chunks} chunks: at most {}", u32::MAX)]
    TooLarge {
        /// Name of the job.
        job: String,
        /// Elements of the tensor.
        elements: u64,
        /// Chunks that makes.
        chunks: u64,
    },
    /// The generation has ended.
    #[error("job {job}: {closed}; join again")]
    Closed {
        /// Name of the job.
        job: String,
        /// Why.
        closed: Closed,
    },
}

/// What buffers a collective takes.
fn shapes(collective: &str) -> &'static str {
    match collective {
        "allgather" => "the output must have as many for each rank as the input, or the input be the output",
        "reduce-scatter" => {
            "the input must have as many for each rank as the output, or the output be the input"
        }
        _ => "both must have as many",
    }
}

/// Why an operation that was started failed. Its output is partly written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The deadline passed. This ends the generation: the ranks no longer agree on what is done.
    #[error(
        "job {job}: {operation} exceeded its deadline with {finished} of {chunks} chunks finished; chunk {chunk} {stall}"
    )]
    DeadlineExceeded {
        /// Name of the job.
        job: String,
        /// The operation.
        operation: OperationText,
        /// Chunks finished.
        finished: u32,
        /// Chunks of the operation.
        chunks: u32,
        /// The first unfinished chunk.
        chunk: u32,
        /// What is known of that chunk.
        stall: Stall,
    },
    /// Ranks called different operations. This ends the generation.
    #[error(
        "job {job}: {operation} met a different operation of another rank at chunk {chunk}{calls}: all ranks must call the same operations, with the same types and element counts, in the same order"
    )]
    Mismatch {
        /// Name of the job.
        job: String,
        /// This rank's operation.
        operation: OperationText,
        /// The chunk.
        chunk: u32,
        /// What the ranks have called, if they could still tell each other.
        calls: Calls,
    },
    /// An integer sum does not fit the element type. Every rank sees the same; the generation goes on. Elements that fit are right in the
    /// output, those that don't are left as they were.
    #[error("job {job}: {operation} overflowed: element {index} is {sum}, which does not fit {}", operation.dtype)]
    Overflow {
        /// Name of the job.
        job: String,
        /// The operation.
        operation: OperationText,
        /// The first element that does not fit.
        index: u64,
        /// Its sum.
        sum: i128,
    },
    /// As `Overflow`, where hosts form a ring: which of these elements is not known.
    #[error("job {job}: {operation} overflowed: a sum among elements {first} to {last} does not fit {}", operation.dtype)]
    OverflowAmong {
        /// Name of the job.
        job: String,
        /// The operation.
        operation: OperationText,
        /// First element of the first chunk that overflowed.
        first: u64,
        /// Last element of that chunk.
        last: u64,
    },
    /// A result that the protocol does not allow. This ends the generation.
    #[error("job {job}: {operation}: the result of chunk {chunk} in pass {pass} breaks the protocol: {what}")]
    Protocol {
        /// Name of the job.
        job: String,
        /// The operation.
        operation: OperationText,
        /// The chunk.
        chunk: u32,
        /// The pass.
        pass: u8,
        /// What is wrong with it.
        what: String,
    },
    /// The generation ended before the operation did.
    #[error("job {job}: {operation} was ended: {closed}")]
    Closed {
        /// Name of the job.
        job: String,
        /// The operation.
        operation: OperationText,
        /// Why.
        closed: Closed,
    },
    /// The caller cancelled it. This ends the generation.
    #[error("job {job}: {operation} was cancelled")]
    Cancelled {
        /// Name of the job.
        job: String,
        /// The operation.
        operation: OperationText,
    },
}

/// Why a generation ended for this endpoint. Sequences of slots are never reused within a generation, so what follows needs a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// In words.
    pub reason: String,
    /// Ranks that are missing, where the controller named them.
    pub missing_ranks: Vec<u32>,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the generation was closed: {}", self.reason)?;
        match self.missing_ranks.as_slice() {
            [] => Ok(()),
            [rank] => write!(f, " (rank {rank} is missing)"),
            ranks => write!(f, " (ranks {ranks:?} are missing)"),
        }
    }
}

/// Why an endpoint can't go on in a later generation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It runs: stop it first.
    #[error("the generation was not stopped")]
    NotStopped,
    /// A copied chunk that does not belong to what this rank is doing.
    #[error("the chunk given for slot {slot} of tree {tree} is none that this rank lacks")]
    Copy {
        /// Index of the tree.
        tree: usize,
        /// The slot.
        slot: u32,
    },
    /// Generations only grow.
    #[error("generation {given} can't follow generation {current}: must be greater")]
    Generation {
        /// The next one's number.
        given: u32,
        /// The current one's.
        current: u32,
    },
    /// Trees and slots are fixed for a group's life.
    #[error("trees of {given:?} slots can't follow trees of {current:?}: must be the same")]
    Slots {
        /// Slots of the next generation's trees.
        given: Vec<u32>,
        /// Of the current one's.
        current: Vec<u32>,
    },
    /// Ranks would begin at different chunks.
    #[error(
        "slot {slot} of tree {tree} is to go on after {agreed} chunks, but this rank has finished {ours}"
    )]
    Place {
        /// Index of the tree.
        tree: usize,
        /// The slot.
        slot: usize,
        /// Finished here.
        ours: u64,
        /// Said to be finished everywhere.
        agreed: u64,
    },
    /// Other numbers of trees or slots.
    #[error("the agreed places do not fit the trees")]
    Shape,
    /// The assignment makes no sense.
    #[error(transparent)]
    Config(Box<ConfigError>),
}

/// A chunk that does not finish, told to the controller while it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// The chunk, counted over all operations.
    pub chunk: u64,
    /// Times it was sent.
    pub transmissions: u32,
    /// Ranks that are missing at this rank's own leaf.
    pub missing: Vec<u32>,
}

/// What an endpoint knows about a chunk that does not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stall {
    /// The generation was stopped, and no other has begun.
    Stopped {
        /// Why.
        reason: String,
    },
    /// It was never sent: earlier chunks are in the way.
    NotSent,
    /// Nothing came back from the leaf, neither result nor probe reply.
    Silent {
        /// Times it was sent.
        transmissions: u32,
        /// The leaf and this host's port there, if known.
        leaf: String,
    },
    /// The hosts' ring waits for another rank, if it is known for which.
    Ring {
        /// That rank.
        missing: Option<u32>,
    },
    /// The leaf answered a probe.
    Waiting {
        /// Ranks whose contribution the leaf holds.
        contributions: u16,
        /// Ranks of the group.
        world_size: u32,
        /// The leaf's children that arrived, by child bit.
        children: u64,
        /// Ranks that the leaf waits for, where they are known.
        missing: Box<MissingRanks>,
    },
}

impl Stall {
    /// The ranks that are known to be missing.
    pub fn missing(&self) -> Vec<u32> {
        match self {
            Self::Waiting { missing, .. } => missing.certain.clone(),
            Self::Ring { missing } => missing.iter().copied().collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { reason } => write!(f, "waits for new trees: {reason}"),
            Self::NotSent => f.write_str("was not sent yet"),
            Self::Silent { transmissions, leaf } => {
                write!(f, "was sent {transmissions} times without any answer from the leaf switch")?;
                if leaf.is_empty() { Ok(()) } else { write!(f, " ({leaf})") }
            }
            Self::Ring { missing: None } => f.write_str("is still on its way around the ring of hosts"),
            Self::Ring { missing: Some(rank) } => write!(f, "waits in the ring of hosts for rank {rank}"),
            Self::Waiting { contributions, world_size, children, missing } => {
                f.write_str("waits at the leaf switch for ")?;
                match (missing.certain.as_slice(), missing.some_of.as_slice()) {
                    ([], []) => f.write_str("other ranks")?,
                    ([rank], []) => write!(f, "rank {rank}")?,
                    (ranks, []) => write!(f, "ranks {ranks:?}")?,
                    ([], some) => write!(f, "some of ranks {some:?}, behind other switches")?,
                    (ranks, some) => {
                        write!(f, "ranks {ranks:?} and some of {some:?}, behind other switches")?
                    }
                }
                write!(f, " ({contributions} of {world_size} arrived there, children {children:#b})")
            }
        }
    }
}

/// Ranks that a leaf switch waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingRanks {
    /// Attached to the leaf, and missing.
    pub certain: Vec<u32>,
    /// Behind other switches: at least one of those behind each is missing, or that switch's sum is.
    pub some_of: Vec<u32>,
}

impl MissingRanks {
    /// Those below the children whose bits are not set; if all are set, all ranks that are not below this leaf. `leaf_children`
    /// empty: nothing is known.
    pub(super) fn of(leaf_children: &[Vec<u32>], arrived: u64, world_size: u32) -> Self {
        let mut missing = Self::default();
        for (bit, ranks) in leaf_children.iter().enumerate() {
            if arrived >> bit & 1 == 1 {
                continue;
            }
            match ranks.as_slice() {
                [rank] => missing.certain.push(*rank),
                ranks => missing.some_of.extend(ranks),
            }
        }
        if missing == Self::default() && !leaf_children.is_empty() {
            let here = |rank: &u32| leaf_children.iter().any(|ranks| ranks.contains(rank));
            missing.some_of = (0..world_size).filter(|rank| !here(rank)).collect();
        }
        missing
    }
}
