//! Whole tensors: every rank's input to the one result, with the second passes of `docs/protocol.md`, "Host side".
//!
//! Ranks are added one after the other; the property tests show that any other order and any tree of switches gives the same.

use super::numbers::{Addend, PlaneSum, narrow_bias, narrow_plane, narrow_words, round};
use crate::format::classes::{self, Class, ClassBits};
use crate::format::{Encoded, Format, FormatError, bfp16, int32};
use crate::packet::{Flags, MAX_WORDS, WORD_BYTES};

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// A rank brings another number of elements than rank 0.
    #[error("rank {rank} brings {given} elements, rank 0 brings {expected}: must be alike")]
    Elements {
        /// The rank.
        rank: usize,
        /// Its elements.
        given: usize,
        /// Rank 0's.
        expected: usize,
    },
    /// The chunk size is out of range.
    #[error("{0} words per chunk: must be 1 to {MAX_WORDS}")]
    ChunkWords(usize),
    /// An integer sum does not fit.
    #[error("a sum of chunk {chunk} does not fit 32 bits")]
    Overflow {
        /// Index of the first such chunk.
        chunk: usize,
    },
    /// The group is too large, or a buffer is wrong.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// The result of an allreduce.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference<T> {
    /// The sums, the same on every rank.
    pub elements: Vec<T>,
    /// Per chunk the flags of pass 0's result, which decide about further passes.
    pub flags: Vec<Flags>,
}

/// What the switches return for one pass of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkResult {
    /// Any flag: no words, and the exponents are those that were seen.
    pub flags: Flags,
    /// The result's exponent, biased.
    pub exp_max: u16,
    /// The smallest exponent seen, biased.
    pub exp_min: u16,
    /// Narrow lanes.
    pub words: Vec<u8>,
}

/// Sums tensors of f32 in format `bfp16`.
pub fn allreduce_f32(inputs: &[Vec<f32>], chunk_words: usize) -> Result<Reference<f32>, ReferenceError> {
    let chunks = split(Format::Bfp16, inputs, chunk_words)?;
    let mut result = Reference { elements: Vec::new(), flags: Vec::new() };
    for ranks in chunks {
        let (elements, flags) = chunk_f32(&ranks)?;
        result.elements.extend(elements);
        result.flags.push(flags);
    }
    Ok(result)
}

/// Sums tensors of i32 in format `i32`.
pub fn allreduce_i32(inputs: &[Vec<i32>], chunk_words: usize) -> Result<Reference<i32>, ReferenceError> {
    let chunks = split(Format::I32, inputs, chunk_words)?;
    let mut result = Reference { elements: Vec::new(), flags: Vec::new() };
    for (chunk, ranks) in chunks.into_iter().enumerate() {
        let sum = pass(Format::I32, &ranks, int32::encode)?;
        if sum.flags.contains(Flags::OVERFLOW) {
            return Err(ReferenceError::Overflow { chunk });
        }
        let mut elements = vec![0; ranks[0].len()];
        int32::decode(&sum.words, &mut elements)?;
        result.elements.extend(elements);
        result.flags.push(sum.flags);
    }
    Ok(result)
}

/// Sums one chunk: encoded blocks of `words` words, one per rank.
pub fn sum_chunk(
    format: Format,
    guard: u8,
    words: usize,
    contributions: &[(Encoded, Vec<u8>)],
) -> ChunkResult {
    let mut sums = [PlaneSum::default(), PlaneSum::default()];
    let mut flags = Flags::NONE;
    for (encoded, block) in contributions {
        flags |= encoded.flags;
        for (plane, sum) in sums.iter_mut().enumerate() {
            if encoded.flags.is_empty() {
                let (exp_max, exp_min) = (encoded.exp_max, encoded.exp_min);
                let (bias, lanes) = (narrow_bias(format), narrow_plane(format, plane, block));
                sum.add(guard, &Addend { exp_max, exp_min, bias, places: guard, lanes: &lanes });
            } else {
                sum.note(encoded.exp_max, encoded.exp_min);
            }
        }
    }
    let [low, high] = &sums;
    if low.out_of_range(guard) {
        flags |= Flags::RANGE;
    }
    let (exp_max, exp_min) = (low.exp_max, low.exp_min);
    if !flags.is_empty() {
        return ChunkResult { flags, exp_max, exp_min, words: Vec::new() };
    }
    match round(format, guard, [low, high], words) {
        Some(rounded) => {
            let words = narrow_words(format, &rounded.mantissas);
            ChunkResult { flags, exp_max: rounded.exponent, exp_min, words }
        }
        None => ChunkResult { flags: Flags::OVERFLOW, exp_max, exp_min, words: Vec::new() },
    }
}

fn chunk_f32(ranks: &[&[f32]]) -> Result<(Vec<f32>, Flags), ReferenceError> {
    let first = pass(Format::Bfp16, ranks, bfp16::encode)?;
    let mut values = vec![0.0; ranks[0].len()];
    if !first.flags.contains(Flags::NONFINITE) {
        let sum = match first.flags {
            Flags::NONE => first.clone(),
            _ => pass(Format::Bfp16, ranks, |values, words| bfp16::encode_at(values, first.exp_max, words))?,
        };
        bfp16::decode(&sum.words, sum.exp_max, &mut values)?;
        return Ok((values, first.flags));
    }
    let class = |class| {
        let counts = pass(Format::Bfp16, ranks, |values, words| classes::encode(values, class, words))?;
        Ok::<_, ReferenceError>(ClassBits::from_result(&counts.words)?)
    };
    let (plus, minus) = (class(Class::PlusInfinity)?, class(Class::MinusInfinity)?);
    let mut sum = pass(Format::Bfp16, ranks, bfp16::encode_finite)?;
    if sum.flags == Flags::RANGE {
        let common = sum.exp_max;
        sum = pass(Format::Bfp16, ranks, |values, words| bfp16::encode_finite_at(values, common, words))?;
    }
    bfp16::decode(&sum.words, sum.exp_max, &mut values)?;
    classes::apply(&plus, &minus, &mut values);
    Ok((values, first.flags))
}

/// One pass of one chunk: every rank encodes, the switches sum.
fn pass<T>(
    format: Format,
    ranks: &[&[T]],
    encode: impl Fn(&[T], &mut [u8]) -> Result<Encoded, FormatError>,
) -> Result<ChunkResult, ReferenceError> {
    let words = format.words_for(ranks[0].len());
    let mut contributions = Vec::new();
    for values in ranks {
        let mut block = vec![0; words * WORD_BYTES];
        let encoded = encode(values, &mut block)?;
        contributions.push((encoded, block));
    }
    Ok(sum_chunk(format, format.guard_bits(ranks.len())?, words, &contributions))
}

/// Per chunk, every rank's elements.
fn split<T>(format: Format, inputs: &[Vec<T>], chunk_words: usize) -> Result<Vec<Vec<&[T]>>, ReferenceError> {
    format.guard_bits(inputs.len())?;
    if chunk_words == 0 || chunk_words > MAX_WORDS {
        return Err(ReferenceError::ChunkWords(chunk_words));
    }
    let expected = inputs[0].len();
    if let Some((rank, input)) = inputs.iter().enumerate().find(|(_, input)| input.len() != expected) {
        return Err(ReferenceError::Elements { rank, given: input.len(), expected });
    }
    let size = chunk_words * format.lanes_per_word();
    let chunks = (0..expected)
        .step_by(size)
        .map(|start| inputs.iter().map(|input| &input[start..expected.min(start + size)]).collect());
    Ok(chunks.collect())
}

#[cfg(test)]
mod tests;
