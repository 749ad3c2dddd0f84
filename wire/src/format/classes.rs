//! The class passes 2 and 3 of a `bfp16` chunk that holds NaN or infinities: each rank says per lane whether its element is one,
//! the switches count, and every rank sees the same counts.

use super::{Encoded, Format, FormatError, bfp16, check_room, encode_lanes};
use crate::packet::{EXP_BIAS, MAX_WORDS, WORD_BYTES};

/// Mantissas 0 and 1 in offset binary.
const ZERO: [u8; 2] = [0x80, 0];
const ONE: [u8; 2] = [0x80, 1];

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

/// Encodes a class pass: mantissa 1 where the element counts, 0 elsewhere, at exponent 2^0; a block of zeros if none counts.
pub fn encode(values: &[f32], class: Class, words: &mut [u8]) -> Result<Encoded, FormatError> {
    check_room(Format::Bfp16, values.len(), words.len())?;
    encode_lanes(values, words, ZERO, |value| if class.holds(value) { ONE } else { ZERO });
    let any = values.iter().any(|value| class.holds(*value));
    Ok(if any { Encoded::at(EXP_BIAS) } else { Encoded::ZERO })
}

/// One bit per element of a chunk: whether any rank's element counted in a class pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassBits([u64; MAX_WORDS * bfp16::LANES / 64]);

impl ClassBits {
    /// Reads the words of a class pass's result.
    pub fn from_result(words: &[u8]) -> Result<Self, FormatError> {
        let elements = words.len() / WORD_BYTES * bfp16::LANES;
        check_room(Format::Bfp16, elements, words.len())?;
        let room = MAX_WORDS * bfp16::LANES;
        if elements > room {
            return Err(FormatError::Elements { elements, words: MAX_WORDS, lanes: bfp16::LANES, room });
        }
        let mut bits = [0; MAX_WORDS * bfp16::LANES / 64];
        for (word, bits) in words.chunks_exact(WORD_BYTES).zip(bits.chunks_exact_mut(bfp16::LANES / 64)) {
            for (index, lane) in word.as_chunks::<2>().0.iter().rev().enumerate() {
                bits[index / 64] |= u64::from(*lane != ZERO) << (index % 64);
            }
        }
        Ok(Self(bits))
    }

    /// Whether any rank's element `index` counted; false beyond the chunk.
    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|bits| bits >> (index % 64) & 1 == 1)
    }
}

/// Completes a chunk: `values` hold the sums of the finite elements (passes 4 and 5), and become NaN, +inf or -inf where the class passes
/// say so. The NaN is the same on every rank: 0x7FC00000.
pub fn apply(plus: &ClassBits, minus: &ClassBits, values: &mut [f32]) {
    for (index, value) in values.iter_mut().enumerate() {
        match (plus.contains(index), minus.contains(index)) {
            (true, true) => *value = f32::from_bits(0x7FC0_0000),
            (true, false) => *value = f32::INFINITY,
            (false, true) => *value = f32::NEG_INFINITY,
            (false, false) => {}
        }
    }
}
