//! How the elements of a chunk travel: reduced in the job's number format, as bytes that one rank brings, or not at all.
//!
//! *Bytes* travel as numbers that the format sums exactly: the rank that brings a chunk puts its bits into the lanes, all others
//! contribute zeros, and the sum is what it put there. Integer lanes and sort keys take all of their bits; lanes of block formats one less, so
//! that the sum is never rounded.

use inca_wire::chunk::{ChunkState, Misfit, Next, PassResult};
use inca_wire::format::{Encoded, FormatError, Kind, integer, keys};
use inca_wire::packet::{EXP_BIAS, Flags, Format, MAX_WORDS, NO_EXP_MAX, NO_EXP_MIN, WORD_BYTES};
use inca_wire::scheme::Scheme;

use super::tensor::{Dtype, TensorMut, TensorRef};

/// Most lanes of a chunk.
const MAX_LANES: usize = MAX_WORDS * WORD_BYTES;

/// How an operation's elements travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Reduced.
    Reduce(Scheme),
    /// As bytes, in lanes of this format.
    Bytes(Format),
    /// There are none: the exchange itself is what is wanted.
    Nothing,
}

impl Carrier {
    /// Elements that a chunk of so many words holds.
    pub(super) fn chunk_elements(&self, words: u8, dtype: Dtype) -> usize {
        match self {
            Self::Reduce(scheme) => usize::from(words) * scheme.format().lanes_per_word(),
            Self::Bytes(format) => dtype.elements_in(usize::from(words) * bytes_per_word(*format)),
            Self::Nothing => 1,
        }
    }

    /// Words that carry so many elements.
    pub(super) fn words(&self, elements: usize, dtype: Dtype) -> usize {
        match self {
            Self::Reduce(scheme) => scheme.format().words_for(elements),
            Self::Bytes(format) => dtype.bytes_for(elements).div_ceil(bytes_per_word(*format)),
            Self::Nothing => 0,
        }
    }

    /// Encodes a chunk into the front of `payload`: its elements, or `None` if this rank brings none. `words` as from
    /// [`Carrier::words`].
    pub(super) fn encode(
        &self,
        chunk: Option<TensorRef<'_>>,
        words: usize,
        state: &ChunkState,
        payload: &mut [u8],
    ) -> Result<Encoded, FormatError> {
        match (self, chunk) {
            (Self::Reduce(scheme), Some(chunk)) => scheme.encode(&chunk, 0..chunk.len(), state, payload),
            (Self::Bytes(format), chunk) => {
                let mut bytes = Vec::new();
                if let Some(chunk) = chunk {
                    chunk.write_le_bytes(&mut bytes);
                }
                encode_bytes(*format, &bytes, &mut payload[..words * WORD_BYTES])
            }
            // A contribution without words must carry a flag; this one says nothing but that it is one.
            (Self::Nothing | Self::Reduce(_), _) => {
                Ok(Encoded { flags: Flags::RANGE, exp_max: NO_EXP_MAX, exp_min: NO_EXP_MIN })
            }
        }
    }

    /// What follows a result.
    pub(super) fn next(&self, state: &ChunkState, result: &PassResult<'_>) -> Next {
        let flags = match self {
            Self::Reduce(scheme) => return scheme.next(state, result),
            Self::Bytes(_) => Flags::NONE,
            Self::Nothing => Flags::RANGE,
        };
        match result.flags {
            found if found.contains(Flags::MISMATCH) => Next::Mismatch,
            found if found == flags => Next::Finish,
            _ => Next::Violation,
        }
    }

    /// Writes a chunk's elements, from its last result, to `output`. An integer that does not fit is told.
    pub(super) fn finish(
        &self,
        state: &mut ChunkState,
        result: &PassResult<'_>,
        mut output: TensorMut<'_>,
    ) -> Result<Option<Misfit>, FormatError> {
        match self {
            Self::Reduce(scheme) => {
                let elements = output.as_ref().len();
                scheme.finish(state, result, output, 0..elements)
            }
            Self::Bytes(format) => {
                let mut bytes = vec![0; output.as_ref().dtype().bytes_for(output.as_ref().len())];
                decode_bytes(*format, result, &mut bytes)?;
                output.read_le_bytes(&bytes);
                Ok(None)
            }
            Self::Nothing => Ok(None),
        }
    }
}

/// Bits of a lane that take part of a byte string.
const fn bits_per_lane(format: Format) -> u32 {
    match format.kind() {
        Kind::Block => format.lane_bits() - 1,
        Kind::Integer | Kind::Max => format.lane_bits(),
    }
}

/// Bytes that a word carries.
const fn bytes_per_word(format: Format) -> usize {
    format.lanes_per_word() * bits_per_lane(format) as usize / 8
}

/// A byte string as lanes, lowest bits first, and zeros after it.
fn encode_bytes(format: Format, bytes: &[u8], words: &mut [u8]) -> Result<Encoded, FormatError> {
    let used = words.len() / WORD_BYTES * format.lanes_per_word();
    let mut lanes = [0i64; MAX_LANES];
    let lanes = &mut lanes[..used];
    let (bits, mask) = (bits_per_lane(format), u64::MAX >> (64 - bits_per_lane(format)));
    let (mut held, mut count) = (0u128, 0);
    let mut next = lanes.iter_mut();
    for byte in bytes {
        held |= u128::from(*byte) << count;
        count += 8;
        while count >= bits {
            let Some(lane) = next.next() else { break };
            *lane = (held as u64 & mask) as i64;
            held >>= bits;
            count -= bits;
        }
    }
    if count > 0
        && let Some(lane) = next.next()
    {
        *lane = (held as u64 & mask) as i64;
    }
    match format.kind() {
        Kind::Max => keys::encode(format, lanes, words, |lane: i64| lane as u64),
        Kind::Integer => integer::encode(format, lanes, words, |lane| lane),
        Kind::Block => {
            let encoded = integer::encode(format, lanes, words, |lane| lane)?;
            Ok(if lanes.iter().all(|lane| *lane == 0) { Encoded::ZERO } else { encoded })
        }
    }
}

/// The front of a byte string, from its lanes.
fn decode_bytes(format: Format, result: &PassResult<'_>, bytes: &mut [u8]) -> Result<(), FormatError> {
    let used = result.words.len() / WORD_BYTES * format.lanes_per_word();
    let mut lanes = [0u64; MAX_LANES];
    let lanes = &mut lanes[..used.min(MAX_LANES)];
    match format.kind() {
        Kind::Max => keys::decode(format, result.words, lanes, |lane| lane)?,
        Kind::Integer => integer::decode(format, result.words, lanes, |lane, value| *lane = value as u64)?,
        Kind::Block => {
            // Small numbers come back with more places than they were sent with.
            let places = u32::from(EXP_BIAS.saturating_sub(result.exp_max)).min(63);
            let places = if result.exp_max == NO_EXP_MAX { 0 } else { places };
            integer::decode(format, result.words, lanes, |lane, value| *lane = (value >> places) as u64)?;
        }
    }
    let (bits, mask) = (bits_per_lane(format), u64::MAX >> (64 - bits_per_lane(format)));
    let (mut held, mut count) = (0u128, 0);
    let mut next = lanes.iter();
    for byte in bytes {
        if count < 8 {
            held |= u128::from(next.next().copied().unwrap_or(0) & mask) << count;
            count += bits;
        }
        // Lanes of 7 bits: one may not be enough.
        if count < 8 {
            held |= u128::from(next.next().copied().unwrap_or(0) & mask) << count;
            count += bits;
        }
        *byte = held as u8;
        held >>= 8;
        count -= 8;
    }
    Ok(())
}

#[cfg(test)]
#[path = "carrier_tests.rs"]
mod tests;
