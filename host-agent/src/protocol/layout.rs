//! How the tensor of an operation is cut into chunks, and which rank brings and gets which of them.
//!
//! A tensor is one segment, or one for each rank (allgather, reduce-scatter). Chunks restart at every segment, so each belongs to one
//! rank wholly; a rank that has no part in a chunk contributes nothing to it, but does contribute.

use std::ops::Range;

use super::operation::Collective;

/// The chunks of one operation, as one rank sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    collective: Collective,
    /// This rank's place among the group's, and how many there are.
    place: usize,
    world: usize,
    /// Elements of a segment, and how many segments there are.
    segment: usize,
    segments: usize,
    /// Elements of a chunk, and chunks of a segment.
    chunk: usize,
    per_segment: usize,
    /// The buffers hold the whole tensor where a part would do.
    whole_input: bool,
    whole_output: bool,
}

/// The caller's buffers do not go with the collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Misshapen;

impl Layout {
    /// For buffers of so many elements. `place`: of this rank among `world`; `root`: the place of the operation's root, if it has one.
    pub(super) fn new(
        collective: Collective,
        (place, root, world): (usize, Option<usize>, usize),
        (input, output): (usize, usize),
        chunk: usize,
    ) -> Result<Self, Misshapen> {
        let is_root = root == Some(place);
        let (segment, segments) = match collective {
            Collective::Barrier | Collective::Alltoall => (0, 1),
            Collective::Allreduce if input != output => return Err(Misshapen),
            Collective::Reduce { .. } if is_root && input != output => return Err(Misshapen),
            Collective::Allreduce | Collective::Reduce { .. } => (input, 1),
            Collective::Broadcast { .. } => (if is_root { input } else { output }, 1),
            Collective::Allgather if output.is_multiple_of(world) => (output / world, world),
            Collective::ReduceScatter if input.is_multiple_of(world) => (input / world, world),
            Collective::Allgather | Collective::ReduceScatter => return Err(Misshapen),
        };
        let whole = segment * segments;
        let fits = |part: usize| part == segment || part == whole;
        if segments > 1 && !(fits(input) && fits(output)) {
            return Err(Misshapen);
        }
        let is_header = matches!(collective, Collective::Barrier | Collective::Alltoall);
        let per_segment = if is_header { 1 } else { segment.div_ceil(chunk) };
        let (whole_input, whole_output) = (input == whole, output == whole);
        Ok(Self {
            collective,
            place,
            world,
            segment,
            segments,
            chunk,
            per_segment,
            whole_input,
            whole_output,
        })
    }

    /// Elements of the whole tensor.
    pub(super) fn elements(&self) -> usize {
        self.segment * self.segments
    }

    /// Chunks of the whole tensor.
    pub(super) fn chunks(&self) -> u64 {
        self.per_segment as u64 * self.segments as u64
    }

    /// Whether the group must stay as it is: who owns what depends on it.
    pub(super) fn needs_all(&self) -> bool {
        !matches!(self.collective, Collective::Allreduce | Collective::Barrier | Collective::Alltoall)
    }

    /// A chunk's elements in the whole tensor.
    pub(super) fn range(&self, chunk: u32) -> Range<usize> {
        let part = self.part(chunk);
        let start = self.owner(chunk) * self.segment;
        start + part.start..start + part.end
    }

    /// A chunk's elements in the input; `None` if this rank brings none.
    pub(super) fn input(&self, chunk: u32, root: Option<usize>) -> Option<Range<usize>> {
        let brings = match self.collective {
            Collective::Broadcast { .. } => root == Some(self.place),
            Collective::Allgather => self.owner(chunk) == self.place,
            _ => true,
        };
        let range = if self.whole_input { self.range(chunk) } else { self.part(chunk) };
        brings.then_some(range)
    }

    /// A chunk's elements in the output; `None` if this rank gets none.
    pub(super) fn output(&self, chunk: u32, root: Option<usize>) -> Option<Range<usize>> {
        let gets = match self.collective {
            Collective::Reduce { .. } => root == Some(self.place),
            // The root has them.
            Collective::Broadcast { .. } => root != Some(self.place),
            Collective::ReduceScatter => self.owner(chunk) == self.place,
            _ => true,
        };
        let range = if self.whole_output { self.range(chunk) } else { self.part(chunk) };
        gets.then_some(range)
    }

    /// The segment that a chunk lies in.
    fn owner(&self, chunk: u32) -> usize {
        chunk as usize / self.per_segment
    }

    /// A chunk's elements in its segment.
    fn part(&self, chunk: u32) -> Range<usize> {
        let start = chunk as usize % self.per_segment * self.chunk;
        start..(start + self.chunk).min(self.segment)
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
