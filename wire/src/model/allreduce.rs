//! Whole tensors: every rank's input to the one result, with the second passes of `docs/protocol.md`, "Host side".
//!
//! Ranks are added one after the other; the property tests show that any other order and any tree of switches gives the same.

use super::numbers::{Addend, PlaneSum, narrow_bias, narrow_plane, narrow_words, round};
use crate::chunk::{ChunkState, Next, PassResult};
use crate::format::{Encoded, Format, FormatError};
use crate::packet::{Flags, MAX_WORDS, WORD_BYTES};
use crate::scheme::{ReduceOp, Scheme, SchemeError};
use crate::tensor::{Dtype, Tensor, TensorRef};

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
    /// A rank brings another element type than rank 0.
    #[error("rank {rank} brings {given}, rank 0 {expected}: must be alike")]
    Dtype {
        /// The rank.
        rank: usize,
        /// Its element type.
        given: Dtype,
        /// Rank 0's.
        expected: Dtype,
    },
    /// An integer sum does not fit the type.
    #[error("element {index}: the sum {sum} does not fit the type")]
    Overflow {
        /// The first such element.
        index: usize,
        /// Its sum.
        sum: i128,
    },
    /// Results that no pass can have: the model contradicts itself.
    #[error("chunk {chunk}: the result of pass {pass} breaks the protocol")]
    Protocol {
        /// The chunk.
        chunk: usize,
        /// The pass.
        pass: u8,
    },
    /// No ranks.
    #[error("no inputs: needs at least one rank's")]
    NoRanks,
    /// The operation, type and format do not go together, or the group is too large.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// A buffer is wrong.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// The result of an allreduce.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference<T> {
    /// The sums, the same on every rank.
    pub elements: T,
    /// Per chunk the flags of pass 0's result, which decide about further passes.
    pub flags: Vec<Flags>,
}

/// One pass of one chunk, as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassRecord {
    /// The chunk.
    pub chunk: usize,
    /// The pass.
    pub pass: u8,
    /// Per rank what it sends.
    pub contributions: Vec<(Encoded, Vec<u8>)>,
    /// What comes back.
    pub result: ChunkResult,
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
pub fn allreduce_f32(inputs: &[Vec<f32>], chunk_words: usize) -> Result<Reference<Vec<f32>>, ReferenceError> {
    let inputs: Vec<_> = inputs.iter().map(|input| TensorRef::F32(input)).collect();
    let result = allreduce(Format::Bfp16, ReduceOp::Sum, &inputs, chunk_words, |_| {})?;
    let Tensor::F32(elements) = result.elements else { return Err(ReferenceError::NoRanks) };
    Ok(Reference { elements, flags: result.flags })
}

/// Sums tensors of i32 in format `i32`.
pub fn allreduce_i32(inputs: &[Vec<i32>], chunk_words: usize) -> Result<Reference<Vec<i32>>, ReferenceError> {
    let inputs: Vec<_> = inputs.iter().map(|input| TensorRef::I32(input)).collect();
    let result = allreduce(Format::I32, ReduceOp::Sum, &inputs, chunk_words, |_| {})?;
    let Tensor::I32(elements) = result.elements else { return Err(ReferenceError::NoRanks) };
    Ok(Reference { elements, flags: result.flags })
}

/// Reduces one tensor per rank, all of one type and length, in this format. `record` is told every pass of every chunk.
pub fn allreduce(
    format: Format,
    op: ReduceOp,
    inputs: &[TensorRef<'_>],
    chunk_words: usize,
    mut record: impl FnMut(PassRecord),
) -> Result<Reference<Tensor>, ReferenceError> {
    let (dtype, elements) = check(inputs, chunk_words)?;
    let scheme = Scheme::new(dtype, op, format, inputs.len() as u32)?;
    let mut output = Tensor::zeros(dtype, elements);
    let (mut flags, mut overflow) = (Vec::new(), None);
    let size = chunk_words * format.lanes_per_word();
    for (chunk, start) in (0..elements).step_by(size).enumerate() {
        let range = start..elements.min(start + size);
        let mut state = ChunkState::default();
        loop {
            let pass = state.pass();
            let contributions = contributions(&scheme, inputs, range.clone(), &state)?;
            let guard = format.guard_bits(inputs.len())?;
            let result = sum_chunk(format, guard, format.words_for(range.len()), &contributions);
            if flags.len() == chunk {
                flags.push(result.flags);
            }
            record(PassRecord { chunk, pass, contributions, result: result.clone() });
            let ChunkResult { flags, exp_max, exp_min, words } = &result;
            let result = PassResult { flags: *flags, exp_max: *exp_max, exp_min: *exp_min, words };
            match scheme.next(&state, &result) {
                Next::Pass(next) => scheme.advance(&mut state, next, &result, range.len())?,
                Next::Finish => {
                    let misfit = scheme.finish(&mut state, &result, output.view_mut(), range)?;
                    overflow = overflow.or(misfit.map(|misfit| (start + misfit.index, misfit.sum)));
                    break;
                }
                Next::Mismatch | Next::Violation => return Err(ReferenceError::Protocol { chunk, pass }),
            }
        }
    }
    match overflow {
        Some((index, sum)) => Err(ReferenceError::Overflow { index, sum }),
        None => Ok(Reference { elements: output, flags }),
    }
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
                let addend = Addend { exp_max, exp_min, bias, places: guard, lanes: &lanes };
                sum.combine(format, guard, &addend);
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

/// What every rank sends of a chunk in its present pass.
fn contributions(
    scheme: &Scheme,
    inputs: &[TensorRef<'_>],
    range: core::ops::Range<usize>,
    state: &ChunkState,
) -> Result<Vec<(Encoded, Vec<u8>)>, FormatError> {
    let words = scheme.format().words_for(range.len());
    let encode = |input: &TensorRef<'_>| {
        let mut block = vec![0; words * WORD_BYTES];
        let encoded = scheme.encode(input, range.clone(), state, &mut block)?;
        if !encoded.flags.is_empty() {
            block.clear();
        }
        Ok((encoded, block))
    };
    inputs.iter().map(encode).collect()
}

/// Type and length of all inputs.
fn check(inputs: &[TensorRef<'_>], chunk_words: usize) -> Result<(Dtype, usize), ReferenceError> {
    if chunk_words == 0 || chunk_words > MAX_WORDS {
        return Err(ReferenceError::ChunkWords(chunk_words));
    }
    let Some(first) = inputs.first() else { return Err(ReferenceError::NoRanks) };
    let (dtype, expected) = (first.dtype(), first.len());
    for (rank, input) in inputs.iter().enumerate() {
        if input.dtype() != dtype {
            return Err(ReferenceError::Dtype { rank, given: input.dtype(), expected: dtype });
        }
        if input.len() != expected {
            return Err(ReferenceError::Elements { rank, given: input.len(), expected });
        }
    }
    Ok((dtype, expected))
}

#[cfg(test)]
mod exact_tests;
#[cfg(test)]
mod tests;
