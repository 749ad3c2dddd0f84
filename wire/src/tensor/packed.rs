//! 4-bit integers, two in a byte: the first of a pair in the low half.

use core::ops::Range;

/// 4-bit integers to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct I4Ref<'a> {
    bytes: &'a [u8],
    elements: usize,
}

/// 4-bit integers to be written. The half byte behind an odd number of them is left as it is.
#[derive(Debug, PartialEq, Eq)]
pub struct I4Mut<'a> {
    bytes: &'a mut [u8],
    elements: usize,
}

/// 4-bit integers that own their memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct I4Vec {
    bytes: Vec<u8>,
    elements: usize,
}

impl<'a> I4Ref<'a> {
    /// The first `elements` of these bytes, fewer if there are not so many.
    pub fn new(bytes: &'a [u8], elements: usize) -> Self {
        Self { bytes, elements: elements.min(2 * bytes.len()) }
    }

    /// Elements.
    pub const fn len(&self) -> usize {
        self.elements
    }

    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// The bytes that hold them.
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.elements.div_ceil(2)]
    }

    /// Element `index`, -8 to 7.
    pub fn get(&self, index: usize) -> i8 {
        let byte = self.bytes[index / 2];
        (if index.is_multiple_of(2) { byte << 4 } else { byte }) as i8 >> 4
    }

    /// Some of them, from an even one on.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        debug_assert!(range.start.is_multiple_of(2), "chunks begin at whole bytes");
        Self { bytes: &self.bytes[range.start / 2..range.end.div_ceil(2)], elements: range.len() }
    }
}

impl<'a> I4Mut<'a> {
    /// The first `elements` of these bytes, fewer if there are not so many.
    pub fn new(bytes: &'a mut [u8], elements: usize) -> Self {
        let elements = elements.min(2 * bytes.len());
        Self { bytes, elements }
    }

    /// The same, to be read.
    pub fn as_ref(&self) -> I4Ref<'_> {
        I4Ref { bytes: self.bytes, elements: self.elements }
    }

    /// Address of the first byte.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Sets element `index` to the low four bits of `value`.
    pub fn set(&mut self, index: usize, value: i8) {
        let byte = &mut self.bytes[index / 2];
        let value = value as u8 & 15;
        *byte = if index.is_multiple_of(2) { *byte & 0xF0 | value } else { *byte & 15 | value << 4 };
    }

    /// Some of them, from an even one on.
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        debug_assert!(range.start.is_multiple_of(2), "chunks begin at whole bytes");
        Self { bytes: &mut self.bytes[range.start / 2..range.end.div_ceil(2)], elements: range.len() }
    }
}

impl I4Vec {
    /// So many zeros.
    pub fn zeros(elements: usize) -> Self {
        Self { bytes: vec![0; elements.div_ceil(2)], elements }
    }

    /// The first `elements` of these bytes, fewer if there are not so many.
    pub fn from_bytes(bytes: Vec<u8>, elements: usize) -> Self {
        let elements = elements.min(2 * bytes.len());
        Self { bytes, elements }
    }

    /// The low four bits of each value.
    pub fn from_values(values: &[i8]) -> Self {
        let mut packed = Self::zeros(values.len());
        let mut elements = packed.as_mut();
        values.iter().enumerate().for_each(|(index, value)| elements.set(index, *value));
        packed
    }

    /// To be read.
    pub fn as_ref(&self) -> I4Ref<'_> {
        I4Ref { bytes: &self.bytes, elements: self.elements }
    }

    /// To be written.
    pub fn as_mut(&mut self) -> I4Mut<'_> {
        I4Mut { bytes: &mut self.bytes, elements: self.elements }
    }
}
