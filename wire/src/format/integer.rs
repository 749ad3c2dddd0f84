//! Integer lanes in offset binary, formats `i8`, `i16`, `i32`, `i64`, and the digits of sums that do not fit a lane.

use super::{Encoded, Format, FormatError, check_room, encode_lanes, for_lanes};
use crate::packet::EXP_BIAS;

/// Encodes a chunk: `number` of each element, which must fit a lane; lanes without an element hold 0.
#[inline(always)]
pub fn encode<T: Copy>(
    format: Format,
    values: &[T],
    words: &mut [u8],
    number: impl Fn(T) -> i64,
) -> Result<Encoded, FormatError> {
    check_room(format, values.len(), words.len())?;
    match format.lane_bytes() {
        1 => encode_lanes(values, words, lane::<1>(0), |value| lane(number(value))),
        2 => encode_lanes(values, words, lane::<2>(0), |value| lane(number(value))),
        4 => encode_lanes(values, words, lane::<4>(0), |value| lane(number(value))),
        _ => encode_lanes(values, words, lane::<8>(0), |value| lane(number(value))),
    }
    Ok(Encoded::at(EXP_BIAS))
}

/// Decodes the first `values.len()` lanes of a chunk: `take` gets each number and the element it is for, in order.
#[inline(always)]
pub fn decode<T>(
    format: Format,
    words: &[u8],
    values: &mut [T],
    mut take: impl FnMut(&mut T, i64),
) -> Result<(), FormatError> {
    check_room(format, values.len(), words.len())?;
    match format.lane_bytes() {
        1 => for_lanes(words, values, |element, lane| take(element, value::<1>(lane))),
        2 => for_lanes(words, values, |element, lane| take(element, value::<2>(lane))),
        4 => for_lanes(words, values, |element, lane| take(element, value::<4>(lane))),
        _ => for_lanes(words, values, |element, lane| take(element, value::<8>(lane))),
    }
    Ok(())
}

/// How elements too large for one lane travel: as digits of `bits` bits, lowest first, one pass for each. All digits of an element have its
/// sign, so that the sum of all ranks' digits fits a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digits {
    /// Bits of a digit.
    pub bits: u32,
    /// Digits of an element.
    pub count: u8,
}

impl Digits {
    /// For magnitudes of `magnitude_bits` bits in a group of `world` ranks.
    pub fn of(format: Format, world: usize, magnitude_bits: u32) -> Result<Self, FormatError> {
        // n x (2^bits - 1) < 2^(w-1)
        let bits = format.lane_bits() - 1 - format.growth(world)?;
        Ok(Self { bits, count: magnitude_bits.div_ceil(bits) as u8 })
    }

    /// Digit `number` of magnitude x 2^shift, with the sign.
    pub fn digit(self, negative: bool, magnitude: u64, shift: u32, number: u8) -> i64 {
        let low = u32::from(number) * self.bits;
        // What lies from bit `low` on, cut to the digit.
        let part = if shift >= low {
            let up = shift - low;
            if up >= self.bits { 0 } else { u128::from(magnitude) << up }
        } else {
            u128::from(magnitude) >> (low - shift).min(127)
        };
        let digit = (part & ((1 << self.bits) - 1)) as i64;
        if negative { -digit } else { digit }
    }
}

/// The lane of a value in offset binary.
#[inline(always)]
fn lane<const BYTES: usize>(value: i64) -> [u8; BYTES] {
    let bytes = (value as u64 ^ 1 << (8 * BYTES - 1)).to_be_bytes();
    std::array::from_fn(|at| bytes[8 - BYTES + at])
}

#[inline(always)]
fn value<const BYTES: usize>(lane: [u8; BYTES]) -> i64 {
    let bits = lane.into_iter().fold(0, |bits, byte| bits << 8 | u64::from(byte));
    // The top bit, inverted, moves up to be the sign; the rest follows.
    ((bits ^ 1 << (8 * BYTES - 1)) << (64 - 8 * BYTES)) as i64 >> (64 - 8 * BYTES)
}
