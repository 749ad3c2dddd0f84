//! The class passes 2 and 3 of a chunk that holds NaN or infinities: each rank says per lane whether its element is one, the switches
//! count, and every rank sees the same counts.

use super::{Encoded, Format, FormatError, Kind, integer};
use crate::packet::{MAX_WORDS, WORD_BYTES};

/// Most elements of a chunk.
pub const MAX_ELEMENTS: usize = MAX_WORDS * WORD_BYTES;

/// Which elements a class pass counts. NaN counts in both, as if it were +inf and -inf at once, which sum to NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// +inf and NaN (pass 2).
    PlusInfinity,
    /// -inf and NaN (pass 3).
    MinusInfinity,
}

impl Class {
    /// Whether this element counts.
    pub fn holds(self, value: f32) -> bool {
        let infinity = match self {
            Self::PlusInfinity => f32::INFINITY,
            Self::MinusInfinity => f32::NEG_INFINITY,
        };
        value == infinity || value.is_nan()
    }
}

/// Encodes a class pass: mantissa 1 where the element counts, 0 elsewhere, at exponent 2^0; in block formats a block of zeros if none
/// counts.
pub fn encode(
    format: Format,
    values: &[f32],
    class: Class,
    words: &mut [u8],
) -> Result<Encoded, FormatError> {
    let encoded = integer::encode(format, values, words, |value| class.holds(value).into())?;
    let any = values.iter().any(|value| class.holds(*value));
    Ok(if any || format.kind() != Kind::Block { encoded } else { Encoded::ZERO })
}

/// One bit per element of a chunk: whether any rank's element counted in a class pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassBits([u64; MAX_ELEMENTS / 64]);

impl ClassBits {
    /// Reads the words of a class pass's result.
    pub fn from_result(format: Format, words: &[u8]) -> Result<Self, FormatError> {
        let elements = words.len() / WORD_BYTES * format.lanes_per_word();
        let room = MAX_WORDS * format.lanes_per_word();
        if elements > room {
            let lanes = format.lanes_per_word();
            return Err(FormatError::Elements { elements, words: MAX_WORDS, lanes, room });
        }
        let mut counts = [0i64; MAX_ELEMENTS];
        integer::decode(format, words, &mut counts[..elements], |count, value| *count = value)?;
        let mut bits = [0; MAX_ELEMENTS / 64];
        for (index, count) in counts[..elements].iter().enumerate() {
            bits[index / 64] |= u64::from(*count != 0) << (index % 64);
        }
        Ok(Self(bits))
    }

    /// Whether any rank's element `index` counted; false beyond the chunk.
    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|bits| bits >> (index % 64) & 1 == 1)
    }
}

/// Completes a chunk of `elements` elements: `set` is told which become NaN, +inf or -inf, for the class passes say so.
pub fn apply(plus: &ClassBits, minus: &ClassBits, elements: usize, mut set: impl FnMut(usize, f32)) {
    for index in 0..elements {
        match (plus.contains(index), minus.contains(index)) {
            (true, true) => set(index, f32::NAN),
            (true, false) => set(index, f32::INFINITY),
            (false, true) => set(index, f32::NEG_INFINITY),
            (false, false) => {}
        }
    }
}
