//! How far an operation is.

use std::ops::Range;

use super::arithmetic::segment;
use super::machine::Lost;

/// Elements per chunk: long enough to be worth a frame, short enough that all links are busy early.
pub(super) const CHUNK_ELEMENTS: usize = 8192;

/// What has been sent, and what has come, of one operation.
#[derive(Debug)]
pub(super) struct Progress {
    elements: usize,
    world: u32,
    /// Chunks of the own segment that were sent.
    pub(super) sent: u32,
    /// Chunks of the own segment that have come back as results.
    pub(super) returned: u32,
    /// Per segment, the next chunk to come: as a partial sum, and as a result.
    partial: Vec<u32>,
    result: Vec<u32>,
    /// Chunks whose results are here.
    pub(super) stored: u32,
    /// Elements of the lowest chunk whose sums do not fit.
    pub(super) overflow: Option<Range<usize>>,
}

impl Progress {
    pub(super) fn new(elements: usize, world: u32) -> Self {
        let none = vec![0; world as usize];
        let (partial, result) = (none.clone(), none);
        Self { elements, world, sent: 0, returned: 0, partial, result, stored: 0, overflow: None }
    }

    /// Chunks of a segment.
    pub(super) fn chunks(&self, number: u32) -> u32 {
        segment(self.elements, self.world, number).len().div_ceil(CHUNK_ELEMENTS) as u32
    }

    /// Chunks of all segments.
    pub(super) fn total(&self) -> u32 {
        (0..self.world).map(|number| self.chunks(number)).sum()
    }

    /// The elements of a chunk.
    pub(super) fn range(&self, number: u32, chunk: u32) -> Range<usize> {
        let segment = segment(self.elements, self.world, number);
        let start = segment.start + chunk as usize * CHUNK_ELEMENTS;
        start..(start + CHUNK_ELEMENTS).min(segment.end)
    }

    /// Notes a chunk that has come, of so many bytes; its elements. TCP keeps the order, so anything else is a broken peer.
    pub(super) fn arrive(
        &mut self,
        is_result: bool,
        number: u32,
        chunk: u32,
        bytes: usize,
        size: usize,
    ) -> Result<Range<usize>, Lost> {
        let chunks = if number < self.world { self.chunks(number) } else { 0 };
        let next = if is_result { &mut self.result } else { &mut self.partial };
        match next.get_mut(number as usize) {
            Some(next) if *next == chunk && chunk < chunks => *next += 1,
            _ => {
                let what = if is_result { "a result" } else { "a partial sum" };
                return Err(Lost::Garbage(format!(
                    "{what} of chunk {chunk} of segment {number} is not awaited"
                )));
            }
        }
        let range = self.range(number, chunk);
        if range.len() * size != bytes {
            let wanted = range.len() * size;
            return Err(Lost::Garbage(format!(
                "{bytes} bytes for chunk {chunk} of segment {number}: must be {wanted}"
            )));
        }
        Ok(range)
    }

    /// Notes that a chunk does not fit.
    pub(super) fn overflowed(&mut self, range: Range<usize>) {
        if self.overflow.as_ref().is_none_or(|lowest| range.start < lowest.start) {
            self.overflow = Some(range);
        }
    }

    /// Whether every result is here.
    pub(super) fn is_complete(&self) -> bool {
        self.stored == self.total()
    }
}
