//! Format `bfp16`: a block of 16-bit mantissas that share an exponent. value = mantissa x 2^exponent.

use super::{Encoded, Format, FormatError, biased, check_room, decode_lanes, encode_lanes, unbiased};

/// Elements of a word.
pub const LANES: usize = Format::Bfp16.lanes_per_word();
/// Smallest exponent a block is sent at: the unit of the smallest f32, so that subnormals are exact.
pub const LOWEST_EXPONENT: i32 = -149;
/// Largest magnitude of a mantissa that a host sends.
pub const MAX_MANTISSA: i32 = i16::MAX as i32;

const OFFSET: u16 = 1 << 15;
const MAGNITUDE: u32 = 0x7FFF_FFFF;
const INFINITY: u32 = 0x7F80_0000;

/// The exponent at which a block is encoded on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockExponent {
    /// Every element is +0 or -0.
    Zero,
    /// The biased exponent.
    Biased(u16),
    /// An element is NaN or infinite.
    NonFinite,
}

/// The exponent of a block: the smallest e >= -149 for which every |round(x / 2^e)| <= 32767.
pub fn block_exponent(values: &[f32]) -> BlockExponent {
    exponent_of(largest_magnitude(values, |value| value))
}

/// Encodes a chunk (pass 0): one block at its own exponent. With `NONFINITE` in the returned flags the words are left alone.
pub fn encode(values: &[f32], words: &mut [u8]) -> Result<Encoded, FormatError> {
    encode_own(values, words, |value| value)
}

/// Encodes a chunk at a common exponent, biased (pass 1): the `exp_max` of the result that was flagged `RANGE`.
pub fn encode_at(values: &[f32], common: u16, words: &mut [u8]) -> Result<Encoded, FormatError> {
    encode_common(values, common, words, |value| value)
}

/// As [`encode`] with NaN and infinities replaced by 0 (pass 4).
pub fn encode_finite(values: &[f32], words: &mut [u8]) -> Result<Encoded, FormatError> {
    encode_own(values, words, finite_or_zero)
}

/// As [`encode_at`] with NaN and infinities replaced by 0 (pass 5).
pub fn encode_finite_at(values: &[f32], common: u16, words: &mut [u8]) -> Result<Encoded, FormatError> {
    encode_common(values, common, words, finite_or_zero)
}

/// Decodes the first `values.len()` elements of a block with this biased exponent. Beyond the range of f32 the value is infinite.
pub fn decode(words: &[u8], exponent: u16, values: &mut [f32]) -> Result<(), FormatError> {
    check_room(Format::Bfp16, values.len(), words.len())?;
    let (first, second) = power_of_two(unbiased(exponent));
    decode_lanes(words, values, |lane| {
        let mantissa = (u16::from_be_bytes(lane) ^ OFFSET) as i16;
        f32::from(mantissa) * first * second
    });
    Ok(())
}

#[inline(always)]
fn encode_own(
    values: &[f32],
    words: &mut [u8],
    map: impl Fn(f32) -> f32 + Copy,
) -> Result<Encoded, FormatError> {
    check_room(Format::Bfp16, values.len(), words.len())?;
    Ok(match exponent_of(largest_magnitude(values, map)) {
        BlockExponent::NonFinite => Encoded::NONFINITE,
        BlockExponent::Zero => {
            encode_lanes(&[], words, OFFSET.to_be_bytes(), |_: f32| [0; 2]);
            Encoded::ZERO
        }
        BlockExponent::Biased(exponent) => {
            quantise(values, exponent, words, map);
            Encoded::at(exponent)
        }
    })
}

#[inline(always)]
fn encode_common(
    values: &[f32],
    common: u16,
    words: &mut [u8],
    map: impl Fn(f32) -> f32 + Copy,
) -> Result<Encoded, FormatError> {
    check_room(Format::Bfp16, values.len(), words.len())?;
    let largest = largest_magnitude(values, map);
    match exponent_of(largest) {
        BlockExponent::NonFinite => return Ok(Encoded::NONFINITE),
        BlockExponent::Biased(own) if own > common => {
            return Err(FormatError::CommonExponent { common, own });
        }
        _ => {}
    }
    quantise(values, common, words, map);
    // Rounding is monotonic: if the largest element becomes 0, all do, and a block of zeros is sent as one.
    let (first, second) = power_of_two(-unbiased(common));
    Ok(if nearest(f32::from_bits(largest) * first * second) == 0 {
        Encoded::ZERO
    } else {
        Encoded::at(common)
    })
}

/// Mantissas are |x / 2^e| <= 32767 after rounding, by the choice of `exponent`.
#[inline(always)]
fn quantise(values: &[f32], exponent: u16, words: &mut [u8], map: impl Fn(f32) -> f32) {
    let (first, second) = power_of_two(-unbiased(exponent));
    encode_lanes(values, words, OFFSET.to_be_bytes(), |value| {
        (nearest(map(value) * first * second) ^ OFFSET).to_be_bytes()
    });
}

/// The nearest integer, ties to even, in two's complement; |value| <= 32768. Added to 1.5 x 2^23 it stands in the low bits of
/// the sum, rounded by the addition itself: one instruction for all lanes of a vector.
#[inline(always)]
fn nearest(value: f32) -> u16 {
    const UNIT_IS_ONE: f32 = 12_582_912.0;
    (value + UNIT_IS_ONE).to_bits() as u16
}

/// 2^e as a product of two factors, since 2^149 is no f32. |e| is cut to 200, where every product with a mantissa or an f32 is
/// already infinite or rounds to 0. Multiplying by the first factor is exact, or its rounding is lost in the second's.
fn power_of_two(e: i32) -> (f32, f32) {
    let e = e.clamp(-200, 200);
    let half = e / 2;
    let power = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
    (power(half), power(e - half))
}

/// Bits of the largest |element|; as integers, magnitudes sort as the numbers do, with infinity and NaN last.
#[inline(always)]
fn largest_magnitude(values: &[f32], map: impl Fn(f32) -> f32) -> u32 {
    values.iter().fold(0i32, |largest, value| largest.max((map(*value).to_bits() & MAGNITUDE) as i32)) as u32
}

fn exponent_of(largest: u32) -> BlockExponent {
    if largest == 0 {
        return BlockExponent::Zero;
    }
    if largest >= INFINITY {
        return BlockExponent::NonFinite;
    }
    // |x| = significand x 2^unit, for subnormals too.
    let (significand, unit) = match largest >> 23 {
        0 => (largest, LOWEST_EXPONENT),
        stored => ((largest & 0x007F_FFFF) | 0x0080_0000, stored as i32 - 150),
    };
    let bits = u32::BITS - significand.leading_zeros();
    let shift = bits.saturating_sub(15);
    let half = if shift == 0 { 0 } else { 1 << (shift - 1) };
    // 32767.5 is a tie whose even neighbour is 32768, so it does not fit any more.
    let carries = significand + half >= 1 << (15 + shift);
    BlockExponent::Biased(biased(unit + shift as i32 + i32::from(carries)))
}

#[inline(always)]
fn finite_or_zero(value: f32) -> f32 {
    f32::from_bits(if value.to_bits() & MAGNITUDE < INFINITY { value.to_bits() } else { 0 })
}
