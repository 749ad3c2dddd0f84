//! What a rank keeps of each slot, for those that may lack it when the generation changes.

use std::ops::Range;

use super::tensor::{TensorMut, TensorRef};

/// A slot's last finished chunk: what another rank needs to finish it without summing it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptChunk {
    /// Index into the endpoint's trees.
    pub tree: usize,
    /// The slot.
    pub slot: u32,
    /// Tag of its pass 0: the receiver checks that it means the same chunk.
    pub tag: u32,
    /// A sum did not fit; there are no elements then.
    pub overflow: bool,
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
    pub(super) overflow: bool,
    pub(super) elements: Vec<u8>,
}

impl Kept {
    /// Keeps a chunk's output.
    pub(super) fn set(&mut self, tag: u32, output: TensorRef<'_>, range: Range<usize>) {
        (self.is_set, self.tag, self.overflow) = (true, tag, false);
        match output {
            TensorRef::F32(elements) => store(&elements[range], &mut self.elements, f32::to_le_bytes),
            TensorRef::I32(elements) => store(&elements[range], &mut self.elements, i32::to_le_bytes),
        }
    }

    /// Keeps that a chunk overflowed.
    pub(super) fn set_overflow(&mut self, tag: u32) {
        (self.is_set, self.tag, self.overflow) = (true, tag, true);
        self.elements.clear();
    }
}

/// Writes kept elements into an output; false if they are not as long as the range.
pub(super) fn restore(elements: &[u8], output: TensorMut<'_>, range: Range<usize>) -> bool {
    match output {
        TensorMut::F32(output) => load(elements, &mut output[range], f32::from_le_bytes),
        TensorMut::I32(output) => load(elements, &mut output[range], i32::from_le_bytes),
    }
}

fn store<T: Copy, const N: usize>(elements: &[T], bytes: &mut Vec<u8>, to_bytes: fn(T) -> [u8; N]) {
    bytes.resize(elements.len() * N, 0);
    for (bytes, element) in bytes.chunks_exact_mut(N).zip(elements) {
        bytes.copy_from_slice(&to_bytes(*element));
    }
}

fn load<T, const N: usize>(bytes: &[u8], elements: &mut [T], from_bytes: fn([u8; N]) -> T) -> bool {
    if bytes.len() != elements.len() * N {
        return false;
    }
    for (element, bytes) in elements.iter_mut().zip(bytes.chunks_exact(N)) {
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        *element = from_bytes(array);
    }
    true
}
