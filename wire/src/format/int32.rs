//! Format `i32`: 32-bit integers in offset binary, all at exponent 0.

use super::{Encoded, Format, FormatError, check_room, decode_lanes, encode_lanes};
use crate::packet::EXP_BIAS;

/// Elements of a word.
pub const LANES: usize = Format::I32.lanes_per_word();

const OFFSET: u32 = 1 << 31;

/// Encodes a chunk of at most `LANES` elements per word; lanes without an element hold 0.
pub fn encode(values: &[i32], words: &mut [u8]) -> Result<Encoded, FormatError> {
    check_room(Format::I32, values.len(), words.len())?;
    encode_lanes(values, words, OFFSET.to_be_bytes(), |value| (value as u32 ^ OFFSET).to_be_bytes());
    Ok(Encoded::at(EXP_BIAS))
}

/// Decodes the first `values.len()` elements of a chunk.
pub fn decode(words: &[u8], values: &mut [i32]) -> Result<(), FormatError> {
    check_room(Format::I32, values.len(), words.len())?;
    decode_lanes(words, values, |lane| (u32::from_be_bytes(lane) ^ OFFSET) as i32);
    Ok(())
}
