//! Number formats: tensors to wire words and back (`docs/number-formats.md`). Slices in, slices out, nothing is allocated.
//!
//! A word is 2048 bits, big-endian: lane 0 is in its *last* bytes. Element i of a chunk is lane i mod L of word i div L.

pub mod bfp;
pub mod classes;
pub mod integer;
pub mod keys;

pub use crate::packet::Format;
use crate::packet::{EXP_BIAS, Flags, Header, MAX_WORLD, NO_EXP_MAX, NO_EXP_MIN, WORD_BITS, WORD_BYTES};

/// Why numbers can't be encoded or decoded as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The words are not whole words.
    #[error("word buffer of {0} bytes: must be a multiple of {WORD_BYTES}")]
    WordBytes(usize),
    /// More elements than lanes.
    #[error("{elements} elements for {words} words of {lanes} lanes: at most {room}")]
    Elements {
        /// Elements given.
        elements: usize,
        /// Words given.
        words: usize,
        /// Lanes of a word.
        lanes: usize,
        /// Elements that fit.
        room: usize,
    },
    /// A common exponent below the block's own.
    #[error("common exponent {common} is below this block's own, {own}: its elements would not fit")]
    CommonExponent {
        /// The exponent asked for, biased.
        common: u16,
        /// The block's own exponent, biased.
        own: u16,
    },
    /// A group size that the format can't sum.
    #[error("world size is {given}: format {format} takes 1 to {most}")]
    World {
        /// The format.
        format: Format,
        /// World size given.
        given: usize,
        /// Largest world size of the format.
        most: usize,
    },
}

/// What the header says of an encoded block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// `NONFINITE`, or none. If a flag is set, the words hold nothing of use and must not be sent.
    pub flags: Flags,
    /// Biased exponent of the block, or [`NO_EXP_MAX`] if it holds nothing but zeros.
    pub exp_max: u16,
    /// The same, or [`NO_EXP_MIN`].
    pub exp_min: u16,
}

impl Encoded {
    /// A block of nothing but zeros.
    pub const ZERO: Self = Self { flags: Flags::NONE, exp_max: NO_EXP_MAX, exp_min: NO_EXP_MIN };
    /// A block that holds NaN or infinities.
    pub const NONFINITE: Self = Self { flags: Flags::NONFINITE, exp_max: NO_EXP_MAX, exp_min: NO_EXP_MIN };

    /// A block with this biased exponent.
    pub const fn at(exponent: u16) -> Self {
        Self { flags: Flags::NONE, exp_max: exponent, exp_min: exponent }
    }

    /// Writes flags, exponents and the word count into a header: `words` if no flag is set, otherwise 0.
    pub fn describe(&self, header: &mut Header, words: u8) {
        header.flags = self.flags;
        header.exp_max = self.exp_max;
        header.exp_min = self.exp_min;
        header.words = if self.flags.is_empty() { words } else { 0 };
    }
}

/// How the lanes of a format combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Integers at exponent 2^0: sums, which must fit a lane.
    Integer,
    /// Mantissas of blocks with an exponent each: sums, rounded to a lane.
    Block,
    /// Sort keys: the largest.
    Max,
}

impl Format {
    /// How its lanes combine.
    pub const fn kind(self) -> Kind {
        match self {
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Exact => Kind::Integer,
            Self::Bfp8 | Self::Bfp16 | Self::Bfp32 => Kind::Block,
            Self::Max8 | Self::Max16 | Self::Max32 | Self::Max64 => Kind::Max,
        }
    }

    /// Bits of a narrow lane; a lane of the accumulator has twice as many.
    pub const fn lane_bits(self) -> u32 {
        match self {
            Self::I8 | Self::Bfp8 | Self::Max8 => 8,
            Self::I16 | Self::Bfp16 | Self::Max16 => 16,
            Self::I32 | Self::Bfp32 | Self::Max32 => 32,
            Self::I64 | Self::Exact | Self::Max64 => 64,
        }
    }

    /// Bytes of a narrow lane.
    pub const fn lane_bytes(self) -> usize {
        self.lane_bits() as usize / 8
    }

    /// Elements of a word.
    pub const fn lanes_per_word(self) -> usize {
        WORD_BITS / self.lane_bits() as usize
    }

    /// Words that hold this many elements.
    pub const fn words_for(self, elements: usize) -> usize {
        elements.div_ceil(self.lanes_per_word())
    }

    /// Largest group whose sums and class counts are exact.
    pub const fn max_world(self) -> usize {
        match self {
            // A digit of a repeated sum must have a bit of its own beside the sum's growth.
            Self::I8 => 1 << 6,
            Self::I16 => 1 << 14,
            // A class count must fit a mantissa, else rounding could lose a rank's NaN.
            Self::Bfp8 => i8::MAX as usize,
            Self::Bfp16 => i16::MAX as usize,
            _ => MAX_WORLD,
        }
    }

    /// Bits by which a sum may outgrow its addends in a group of `world` ranks: ceil(log2(world)).
    pub const fn growth(self, world: usize) -> Result<u32, FormatError> {
        if world == 0 || world > self.max_world() {
            return Err(FormatError::World { format: self, given: world, most: self.max_world() });
        }
        Ok(usize::BITS - (world - 1).leading_zeros())
    }

    /// Guard bits G of the accumulator in a group of `world` ranks: how far blocks' exponents may be apart for the sum to be exact.
    pub const fn guard_bits(self, world: usize) -> Result<u8, FormatError> {
        let growth = match self.growth(world) {
            Ok(growth) => growth,
            Err(error) => return Err(error),
        };
        Ok(match self.kind() {
            Kind::Block if growth == 0 => self.lane_bits() as u8 - 1,
            Kind::Block => (self.lane_bits() - growth) as u8,
            Kind::Integer | Kind::Max => 0,
        })
    }
}

/// The biased form of exponent `e`; beyond the field's range its nearest end that is no special value.
pub const fn biased(e: i32) -> u16 {
    let shifted = e + EXP_BIAS as i32;
    if shifted <= NO_EXP_MAX as i32 {
        NO_EXP_MAX + 1
    } else if shifted >= NO_EXP_MIN as i32 {
        NO_EXP_MIN - 1
    } else {
        shifted as u16
    }
}

/// The exponent that a biased one stands for.
pub const fn unbiased(exponent: u16) -> i32 {
    exponent as i32 - EXP_BIAS as i32
}

pub(crate) fn check_room(format: Format, elements: usize, word_bytes: usize) -> Result<(), FormatError> {
    if !word_bytes.is_multiple_of(WORD_BYTES) {
        return Err(FormatError::WordBytes(word_bytes));
    }
    let (words, lanes) = (word_bytes / WORD_BYTES, format.lanes_per_word());
    let room = words * lanes;
    if elements > room {
        return Err(FormatError::Elements { elements, words, lanes, room });
    }
    Ok(())
}

/// Encodes each element into its lane and fills the lanes that are left with `zero`.
#[inline(always)]
fn encode_lanes<const BYTES: usize, T: Copy>(
    values: &[T],
    words: &mut [u8],
    zero: [u8; BYTES],
    encode: impl Fn(T) -> [u8; BYTES],
) {
    let (full, rest) = words.split_at_mut(values.len() * BYTES / WORD_BYTES * WORD_BYTES);
    let mut elements = values.chunks_exact(WORD_BYTES / BYTES);
    for (word, elements) in full.chunks_exact_mut(WORD_BYTES).zip(&mut elements) {
        let (lanes, _) = word.as_chunks_mut::<BYTES>();
        for (lane, value) in lanes.iter_mut().rev().zip(elements) {
            *lane = encode(*value);
        }
    }
    let (lanes, _) = rest.as_chunks_mut::<BYTES>();
    lanes.fill(zero);
    if let Some(last) = rest.first_chunk_mut::<WORD_BYTES>() {
        let (lanes, _) = last.as_chunks_mut::<BYTES>();
        for (lane, value) in lanes.iter_mut().rev().zip(elements.remainder()) {
            *lane = encode(*value);
        }
    }
}

/// Decodes the lane of each element.
#[inline(always)]
fn decode_lanes<const BYTES: usize, T>(words: &[u8], values: &mut [T], decode: impl Fn([u8; BYTES]) -> T) {
    for_lanes(words, values, |value, lane| *value = decode(lane));
}

/// Hands each element its lane.
#[inline(always)]
fn for_lanes<const BYTES: usize, T>(
    words: &[u8],
    values: &mut [T],
    mut take: impl FnMut(&mut T, [u8; BYTES]),
) {
    for (word, elements) in words.chunks_exact(WORD_BYTES).zip(values.chunks_mut(WORD_BYTES / BYTES)) {
        let (lanes, _) = word.as_chunks::<BYTES>();
        for (value, lane) in elements.iter_mut().zip(lanes.iter().rev()) {
            take(value, *lane);
        }
    }
}

#[cfg(test)]
mod tests;
