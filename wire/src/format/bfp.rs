//! Block floating point, formats `bfp8`, `bfp16` and `bfp32`: mantissas that share an exponent. value = mantissa x 2^exponent.
//!
//! The loops are compiled for several instruction sets, of which the machine's best is taken at run time. They are the same loops, and
//! the compiler never contracts or reorders floating-point operations: all give the same bits.

mod kernel;

use super::{Encoded, Format, FormatError, biased, check_room, unbiased};

/// Smallest exponent a block is sent at: the unit of the smallest f32, so that subnormals are exact.
pub const LOWEST_EXPONENT: i32 = -149;

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

/// Largest magnitude of a mantissa that a host sends: 2^(w-1) - 1.
pub const fn max_mantissa(format: Format) -> i64 {
    (1 << (format.lane_bits() - 1)) - 1
}

/// The exponent of a block: the smallest e >= -149 for which every |round(x / 2^e)| is at most [`max_mantissa`].
pub fn block_exponent(format: Format, values: &[f32]) -> BlockExponent {
    exponent_of(format, kernel::largest_magnitude(values))
}

/// Encodes a chunk (pass 0): one block at its own exponent. With `NONFINITE` in the returned flags the words are left alone.
pub fn encode(format: Format, values: &[f32], words: &mut [u8]) -> Result<Encoded, FormatError> {
    check_room(format, values.len(), words.len())?;
    Ok(match exponent_of(format, kernel::largest_magnitude(values)) {
        BlockExponent::NonFinite => Encoded::NONFINITE,
        BlockExponent::Zero => {
            kernel::quantise(format, &[], 0, words);
            Encoded::ZERO
        }
        BlockExponent::Biased(exponent) => {
            kernel::quantise(format, values, unbiased(exponent), words);
            Encoded::at(exponent)
        }
    })
}

/// Encodes a chunk at a common exponent, biased (pass 1): the `exp_max` of the result that was flagged `RANGE`.
pub fn encode_at(
    format: Format,
    values: &[f32],
    common: u16,
    words: &mut [u8],
) -> Result<Encoded, FormatError> {
    check_room(format, values.len(), words.len())?;
    let largest = kernel::largest_magnitude(values);
    match exponent_of(format, largest) {
        BlockExponent::NonFinite => return Ok(Encoded::NONFINITE),
        BlockExponent::Biased(own) if own > common => {
            return Err(FormatError::CommonExponent { common, own });
        }
        _ => {}
    }
    kernel::quantise(format, values, unbiased(common), words);
    // Rounding is monotonic: if the largest element becomes 0, all do, and a block of zeros is sent as one.
    let (first, second) = kernel::power_of_two(-unbiased(common));
    let vanishes = f64::from(f32::from_bits(largest) * first * second).round_ties_even() == 0.0;
    Ok(if vanishes { Encoded::ZERO } else { Encoded::at(common) })
}

/// Decodes the first `values.len()` elements of a block with this biased exponent: each the f32 nearest to its value, ties to even,
/// infinite beyond the range of f32.
pub fn decode(format: Format, words: &[u8], exponent: u16, values: &mut [f32]) -> Result<(), FormatError> {
    check_room(format, values.len(), words.len())?;
    kernel::decode(format, words, unbiased(exponent), values);
    Ok(())
}

/// As [`decode`], exactly: each mantissa and exponent has its f64. Exponents are cut to 400 either way, beyond which every result of
/// theirs is 0 or infinite in the formats that elements have.
pub fn decode_exact(
    format: Format,
    words: &[u8],
    exponent: u16,
    values: &mut [f64],
) -> Result<(), FormatError> {
    check_room(format, values.len(), words.len())?;
    kernel::decode_exact(format, words, unbiased(exponent).clamp(-400, 400), values);
    Ok(())
}

/// Replaces NaN and infinities by 0, as passes 4 and 5 have them.
pub fn clear_nonfinite(values: &mut [f32]) {
    for value in values {
        if value.to_bits() & MAGNITUDE >= INFINITY {
            *value = 0.0;
        }
    }
}

fn exponent_of(format: Format, largest: u32) -> BlockExponent {
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
    let mantissa_bits = format.lane_bits() as i32 - 1;
    let bits = (u32::BITS - significand.leading_zeros()) as i32;
    let exponent = (unit + bits - mantissa_bits).max(LOWEST_EXPONENT);
    let shift = exponent - unit;
    // 2^(w-1) - 1/2 is a tie whose even neighbour is 2^(w-1), so it does not fit any more.
    let carries = shift > 0 && significand + (1 << (shift - 1)) >= 1 << (mantissa_bits + shift);
    BlockExponent::Biased(biased(exponent + i32::from(carries)))
}
