//! The loops over elements, once per lane width and instruction set.

use multiversion::multiversion;

use super::super::{Format, decode_lanes, encode_lanes};
use super::MAGNITUDE;

/// Bits of the largest |element|; as integers, magnitudes sort as the numbers do, with infinity and NaN last.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+sse4.1", "aarch64+neon"))]
pub(super) fn largest_magnitude(values: &[f32]) -> u32 {
    // As signed integers, for which every instruction set has a maximum.
    values.iter().fold(0i32, |largest, value| largest.max((value.to_bits() & MAGNITUDE) as i32)) as u32
}

/// Mantissas round(value / 2^exponent), to nearest, ties to even, into the words' lanes; lanes without an element hold 0.
/// |value / 2^exponent| must round to at most 2^(w-1) - 1.
pub(super) fn quantise(format: Format, values: &[f32], exponent: i32, words: &mut [u8]) {
    match format.lane_bits() {
        8 => quantise_8(values, exponent, words),
        16 => quantise_16(values, exponent, words),
        _ => quantise_32(values, exponent, words),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+sse4.1", "aarch64+neon"))]
fn quantise_8(values: &[f32], exponent: i32, words: &mut [u8]) {
    let (first, second) = power_of_two(-exponent);
    encode_lanes(values, words, [0x80], |value| [nearest(value * first * second) as u8 ^ 0x80]);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+sse4.1", "aarch64+neon"))]
fn quantise_16(values: &[f32], exponent: i32, words: &mut [u8]) {
    let (first, second) = power_of_two(-exponent);
    encode_lanes(values, words, [0x80, 0], |value| {
        (nearest(value * first * second) as u16 ^ 0x8000).to_be_bytes()
    });
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+sse4.1", "aarch64+neon"))]
fn quantise_32(values: &[f32], exponent: i32, words: &mut [u8]) {
    /// As in [`nearest`], for 32 bits in an f64.
    const UNIT_IS_ONE: f64 = 6_755_399_441_055_744.0;
    let (first, second) = power_of_two(-exponent);
    encode_lanes(values, words, [0x80, 0, 0, 0], |value| {
        let rounded = (f64::from(value * first * second) + UNIT_IS_ONE).to_bits() as u32;
        (rounded ^ 0x8000_0000).to_be_bytes()
    });
}

/// f32 of mantissa x 2^exponent, to nearest, ties to even.
pub(super) fn decode(format: Format, words: &[u8], exponent: i32, values: &mut [f32]) {
    match format.lane_bits() {
        8 => decode_8(words, exponent, values),
        16 => decode_16(words, exponent, values),
        _ => decode_32(words, exponent.clamp(-400, 400), values),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+sse4.1", "aarch64+neon"))]
fn decode_8(words: &[u8], exponent: i32, values: &mut [f32]) {
    let (first, second) = power_of_two(exponent);
    decode_lanes(words, values, |lane: [u8; 1]| f32::from((lane[0] ^ 0x80) as i8) * first * second);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+sse4.1", "aarch64+neon"))]
fn decode_16(words: &[u8], exponent: i32, values: &mut [f32]) {
    let (first, second) = power_of_two(exponent);
    decode_lanes(words, values, |lane| {
        f32::from((u16::from_be_bytes(lane) ^ 0x8000) as i16) * first * second
    });
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+sse4.1", "aarch64+neon"))]
fn decode_32(words: &[u8], exponent: i32, values: &mut [f32]) {
    let unit = power_of_two_f64(exponent);
    decode_lanes(words, values, |lane| {
        (f64::from((u32::from_be_bytes(lane) ^ 0x8000_0000) as i32) * unit) as f32
    });
}

/// f64 of mantissa x 2^exponent, exact; |exponent| is at most 400.
pub(super) fn decode_exact(format: Format, words: &[u8], exponent: i32, values: &mut [f64]) {
    let unit = power_of_two_f64(exponent);
    match format.lane_bits() {
        8 => decode_lanes(words, values, |lane: [u8; 1]| f64::from((lane[0] ^ 0x80) as i8) * unit),
        16 => {
            decode_lanes(words, values, |lane| f64::from((u16::from_be_bytes(lane) ^ 0x8000) as i16) * unit);
        }
        _ => decode_lanes(words, values, |lane| {
            f64::from((u32::from_be_bytes(lane) ^ 0x8000_0000) as i32) * unit
        }),
    }
}

/// The nearest integer, ties to even, in two's complement; |value| <= 32768. Added to 1.5 x 2^23 it stands in the low bits of
/// the sum, rounded by the addition itself: one instruction for all lanes of a vector.
#[inline(always)]
fn nearest(value: f32) -> u32 {
    const UNIT_IS_ONE: f32 = 12_582_912.0;
    (value + UNIT_IS_ONE).to_bits()
}

/// 2^e as a product of two factors, since 2^149 is no f32. |e| is cut to 200, where every product with a mantissa or an f32 is
/// already infinite or rounds to 0. Multiplying by the first factor is exact, or its rounding is lost in the second's.
#[inline(always)]
pub(super) fn power_of_two(e: i32) -> (f32, f32) {
    let e = e.clamp(-200, 200);
    let half = e / 2;
    let power = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
    (power(half), power(e - half))
}

#[inline(always)]
fn power_of_two_f64(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}
