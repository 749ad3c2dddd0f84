//! Sort keys, formats `max8` to `max64`: unsigned integers that sort as the elements do, so that the largest lane is the largest element,
//! exactly, without exponents or rounding. The smallest element is found with the keys turned round.

use super::{Encoded, Format, FormatError, check_room, encode_lanes, for_lanes};
use crate::float::FloatKind;
use crate::packet::EXP_BIAS;

/// Encodes a chunk: `key` of each element; lanes without an element hold half of the range.
pub fn encode<T: Copy>(
    format: Format,
    values: &[T],
    words: &mut [u8],
    key: impl Fn(T) -> u64,
) -> Result<Encoded, FormatError> {
    check_room(format, values.len(), words.len())?;
    let middle = 1 << (format.lane_bits() - 1);
    match format.lane_bytes() {
        1 => encode_lanes(values, words, lane::<1>(middle), |value| lane(key(value))),
        2 => encode_lanes(values, words, lane::<2>(middle), |value| lane(key(value))),
        4 => encode_lanes(values, words, lane::<4>(middle), |value| lane(key(value))),
        _ => encode_lanes(values, words, lane::<8>(middle), |value| lane(key(value))),
    }
    Ok(Encoded::at(EXP_BIAS))
}

/// Decodes the first `values.len()` keys of a chunk.
pub fn decode<T>(
    format: Format,
    words: &[u8],
    values: &mut [T],
    element: impl Fn(u64) -> T,
) -> Result<(), FormatError> {
    check_room(format, values.len(), words.len())?;
    match format.lane_bytes() {
        1 => for_lanes(words, values, |value, lane: [u8; 1]| *value = element(lane[0].into())),
        2 => for_lanes(words, values, |value, lane| *value = element(u16::from_be_bytes(lane).into())),
        4 => for_lanes(words, values, |value, lane| *value = element(u32::from_be_bytes(lane).into())),
        _ => for_lanes(words, values, |value, lane| *value = element(u64::from_be_bytes(lane))),
    }
    Ok(())
}

/// Key of an integer of `bits` bits: offset binary; with `least`, the smallest integer has the largest key.
pub fn of_integer(value: i64, bits: u32, least: bool) -> u64 {
    let all = u64::MAX >> (64 - bits);
    let key = (value as u64 ^ 1 << (bits - 1)) & all;
    if least { key ^ all } else { key }
}

/// The integer of a key.
pub fn to_integer(key: u64, bits: u32, least: bool) -> i64 {
    let key = if least { !key } else { key };
    (((key ^ 1 << (bits - 1)) << (64 - bits)) as i64) >> (64 - bits)
}

/// Key of a float: numbers sort as they do, -0 below +0; every NaN has the largest key, so that the result is NaN if any element is
/// (IEEE 754-2019 `maximum` and `minimum`).
pub fn of_float(kind: FloatKind, bits: u32, least: bool) -> u64 {
    let all = kind.sign() | (kind.sign() - 1);
    if kind.decode(bits) == crate::float::Decoded::Nan {
        return all.into();
    }
    let key = if bits & kind.sign() == 0 { bits | kind.sign() } else { !bits & all };
    (if least { key ^ all } else { key }).into()
}

/// The float of a key; the canonical NaN for the largest.
pub fn to_float(kind: FloatKind, key: u64, least: bool) -> u32 {
    let all = kind.sign() | (kind.sign() - 1);
    let key = key as u32;
    if key == all {
        return kind.nan();
    }
    let key = if least { key ^ all } else { key };
    if key & kind.sign() != 0 { key ^ kind.sign() } else { !key & all }
}

fn lane<const BYTES: usize>(key: u64) -> [u8; BYTES] {
    let bytes = key.to_be_bytes();
    std::array::from_fn(|at| bytes[8 - BYTES + at])
}
