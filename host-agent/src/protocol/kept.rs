//! What a rank keeps of each slot, for those that may lack it when the generation changes.

use super::tensor::TensorMut;

/// A slot's last finished chunk: what another rank needs to finish it without summing it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptChunk {
    /// Index into the endpoint's trees.
    pub tree: usize,
    /// The slot.
    pub slot: u32,
    /// Tag of its pass 0: the receiver checks that it means the same chunk.
    pub tag: u32,
    /// The first element of the tensor whose sum did not fit, and that sum.
    pub overflow: Option<(u64, i128)>,
    /// The output's elements as the caller got them, little-endian.
    pub elements: Vec<u8>,
}

/// What a rank has done in a generation, for a change of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Per tree and slot, how many of the slot's chunks are finished.
    pub finished: Vec<Vec<u64>>,
    /// Every slot's last finished chunk.
    pub kept: Vec<KeptChunk>,
}

/// A slot's last finished chunk, in memory that is used again and again.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// There is one.
    pub(super) is_set: bool,
    pub(super) tag: u32,
    pub(super) overflow: Option<(u64, i128)>,
    pub(super) elements: Vec<u8>,
}

impl Kept {
    /// Keeps a chunk's output.
    pub(super) fn set(&mut self, tag: u32, output: TensorMut<'_>, overflow: Option<(u64, i128)>) {
        (self.is_set, self.tag, self.overflow) = (true, tag, overflow);
        output.as_ref().write_le_bytes(&mut self.elements);
    }
}
