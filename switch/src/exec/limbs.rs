//! Memory for limbs that begins at a cache line, so that vectors laid out in whole lines are never shared by two.

use std::ops::{Deref, DerefMut};

/// A cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; LINE]);

const LINE: usize = 8;

/// A fixed number of limbs.
#[derive(Debug, Clone)]
pub(crate) struct Limbs {
    lines: Vec<Line>,
    len: usize,
}

impl Limbs {
    /// So many limbs, all 0.
    pub(crate) fn zeros(len: usize) -> Self {
        Self { lines: vec![Line([0; LINE]); len.div_ceil(LINE)], len }
    }
}

impl Deref for Limbs {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        // SAFETY: the lines are `len` limbs at least, without gaps (`repr(C)`, size 64), and borrowed as long as the slice.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Limbs {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}
