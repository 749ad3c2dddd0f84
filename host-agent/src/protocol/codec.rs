//! Elements to words and back: the number formats of `inca_wire`, by pass.

use std::ops::Range;

use inca_wire::format::classes::{self, Class, ClassBits};
use inca_wire::format::{Encoded, Format, FormatError, bfp16, int32, unbiased};
use inca_wire::packet::{EXP_BIAS, Flags, MAX_WORDS, WORD_BYTES};

use super::passes;
use super::tensor::{TensorBuffer, TensorMut, TensorRef};

/// Non-finite lanes of a chunk, over all ranks. Rare, hence boxed in the slots.
#[derive(Debug)]
pub(super) struct LaneClasses {
    plus: ClassBits,
    /// Known after pass 3.
    minus: Option<ClassBits>,
}

impl LaneClasses {
    /// Reads the result of pass 2.
    pub(super) fn plus(payload: &[u8]) -> Result<Self, FormatError> {
        Ok(Self { plus: ClassBits::from_result(payload)?, minus: None })
    }

    /// Reads the result of pass 3.
    pub(super) fn add_minus(&mut self, payload: &[u8]) -> Result<(), FormatError> {
        self.minus = Some(ClassBits::from_result(payload)?);
        Ok(())
    }
}

/// Words that a chunk takes on the wire.
pub(super) fn words(format: Format, elements: usize) -> u8 {
    // Chunks have at most 32 words.
    format.words_for(elements) as u8
}

/// Encodes a chunk of the input for a pass into the front of `payload`.
pub(super) fn encode(
    input: TensorRef<'_>,
    range: Range<usize>,
    pass: u8,
    common: u16,
    payload: &mut [u8],
) -> Result<Encoded, FormatError> {
    let elements = range.len();
    let words = |format: Format| format.words_for(elements) * WORD_BYTES;
    match input {
        TensorRef::I32(input) => int32::encode(&input[range], &mut payload[..words(Format::I32)]),
        TensorRef::F32(input) => {
            let (values, words) = (&input[range], &mut payload[..words(Format::Bfp16)]);
            match pass {
                passes::COMMON_EXPONENT => bfp16::encode_at(values, common, words),
                passes::COUNT_PLUS => classes::encode(values, Class::PlusInfinity, words),
                passes::COUNT_MINUS => classes::encode(values, Class::MinusInfinity, words),
                passes::FINITE_OWN_EXPONENT => bfp16::encode_finite(values, words),
                passes::FINITE_COMMON_EXPONENT => bfp16::encode_finite_at(values, common, words),
                _ => bfp16::encode(values, words),
            }
        }
    }
}

/// Decodes a chunk's sums; with `ranks`, their averages over so many ranks.
pub(super) fn decode_f32(
    payload: &[u8],
    exponent: u16,
    ranks: Option<u32>,
    classes: Option<&LaneClasses>,
    output: &mut [f32],
) -> Result<(), FormatError> {
    match ranks {
        None => bfp16::decode(payload, exponent, output)?,
        Some(ranks) => {
            // At exponent 0 the decoded values are the mantissas themselves, exactly; so the sum may leave the range of f32 as long as
            // the average does not. Two factors, as beyond |e| = 200 everything is infinite or 0 anyway.
            bfp16::decode(payload, EXP_BIAS, output)?;
            let unit = 2f64.powi(unbiased(exponent).clamp(-400, 400));
            for value in &mut *output {
                *value = (f64::from(*value) * unit / f64::from(ranks)) as f32;
            }
        }
    }
    if let Some(LaneClasses { plus, minus: Some(minus) }) = classes {
        classes::apply(plus, minus, output);
    }
    Ok(())
}

/// Decodes a chunk's sums; with `ranks`, their averages over so many ranks, rounded to nearest, ties to even.
pub(super) fn decode_i32(payload: &[u8], ranks: Option<u32>, output: &mut [i32]) -> Result<(), FormatError> {
    int32::decode(payload, output)?;
    if let Some(ranks) = ranks {
        for value in output {
            *value = divide_to_even(*value, ranks);
        }
    }
    Ok(())
}

/// Reduces a chunk over a world of one rank, with the passes and the arithmetic of a larger one: the root's rounding changes nothing
/// if there is one contribution, since its mantissas fit as they are.
pub(super) fn reduce_alone<B: TensorBuffer>(buffer: &mut B, range: Range<usize>) -> Result<(), FormatError> {
    let mut payload = [0; MAX_WORDS * WORD_BYTES];
    let input = buffer.input();
    let used = usize::from(words(input.dtype().format(), range.len())) * WORD_BYTES;
    let mut block = encode(input, range.clone(), passes::OWN_EXPONENT, 0, &mut payload)?;
    let mut classes = None;
    if block.flags.contains(Flags::NONFINITE) {
        encode(input, range.clone(), passes::COUNT_PLUS, 0, &mut payload)?;
        let mut found = LaneClasses::plus(&payload[..used])?;
        encode(input, range.clone(), passes::COUNT_MINUS, 0, &mut payload)?;
        found.add_minus(&payload[..used])?;
        classes = Some(found);
        block = encode(input, range.clone(), passes::FINITE_OWN_EXPONENT, 0, &mut payload)?;
    }
    let payload = &payload[..used];
    match buffer.output() {
        TensorMut::F32(output) => {
            decode_f32(payload, block.exp_max, None, classes.as_ref(), &mut output[range])
        }
        TensorMut::I32(output) => decode_i32(payload, None, &mut output[range]),
    }
}

/// `sum / ranks` to the nearest integer, ties to even.
pub(crate) fn divide_to_even(sum: i32, ranks: u32) -> i32 {
    let (sum, ranks) = (i64::from(sum), i64::from(ranks));
    let (quotient, remainder) = (sum.div_euclid(ranks), sum.rem_euclid(ranks));
    let up = match (2 * remainder).cmp(&ranks) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    // |quotient| <= |sum|, and rounding never passes the nearest integer of |sum|.
    (quotient + i64::from(up)) as i32
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
