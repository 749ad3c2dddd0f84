//! What a chunk's last result means.

use core::ops::Range;

use half::slice::HalfFloatSliceExt as _;

use super::{ChunkState, LaneClasses, Misfit, PassResult, pass};
use crate::float::{FloatKind, Wide};
use crate::format::classes::{self, MAX_ELEMENTS};
use crate::format::{FormatError, Kind, bfp, integer, keys, unbiased};
use crate::packet::WORD_BYTES;
use crate::scheme::{ReduceOp, Scheme};
use crate::tensor::TensorMut;

impl Scheme {
    /// Writes the chunk's elements, from its last result. An integer that does not fit its type is told: of those elements the output
    /// is left as it was.
    pub fn finish(
        &self,
        state: &mut ChunkState,
        result: &PassResult<'_>,
        output: TensorMut<'_>,
        range: Range<usize>,
    ) -> Result<Option<Misfit>, FormatError> {
        let elements = range.len();
        let mut output = output.slice(range);
        match self.format.kind() {
            Kind::Max => self.decode_keys(result.words, &mut output)?,
            Kind::Block => self.decode_block(result, &mut output)?,
            Kind::Integer => {
                match state.pass {
                    pass::DIGITS.. => self.add_digits(state, result.words, elements)?,
                    // All finite elements are 0.
                    pass::COUNT_MINUS => self.set_minus(state, result.words)?,
                    _ => {}
                }
                match self.dtype.float() {
                    Some(kind) => self.round_exact(state, kind, elements, &mut output),
                    None => return self.decode_integers(state, result.words, elements, &mut output),
                }
            }
        }
        if let (Some(kind), Some(classes)) = (self.dtype.float(), &state.classes)
            && let LaneClasses { plus, minus: Some(minus) } = classes.as_ref()
        {
            classes::apply(plus, minus, elements, |index, value| {
                let bits = match value {
                    value if value.is_nan() => kind.nan(),
                    // E4M3 has no infinities: NaN stands for them.
                    value => kind.beyond_range(value < 0.0),
                };
                output.put_float(index, bits);
            });
        }
        Ok(None)
    }

    fn decode_block(&self, result: &PassResult<'_>, output: &mut TensorMut<'_>) -> Result<(), FormatError> {
        let (format, exponent, words) = (self.format, result.exp_max, result.words);
        match (self.op, output) {
            (ReduceOp::Sum, TensorMut::F32(values)) => bfp::decode(format, words, exponent, values),
            // An f32 holds mantissas of 16 bits exactly, so that what follows is the only rounding.
            (ReduceOp::Sum, TensorMut::F16(values)) if format.lane_bits() <= 16 => {
                with_decoded(self, words, exponent, values.len(), |sums| values.convert_from_f32_slice(sums))
            }
            (ReduceOp::Sum, TensorMut::Bf16(values)) if format.lane_bits() <= 16 => {
                with_decoded(self, words, exponent, values.len(), |sums| values.convert_from_f32_slice(sums))
            }
            (_, output) => self.divide_block(result, output),
        }
    }

    /// Sums and quotients through f64. An f64 holds every sum exactly; a quotient of it never lies so close to the middle between two
    /// f32 that rounding it to an f64 first would matter: it has at most 31 bits, the divisor 16.
    fn divide_block(&self, result: &PassResult<'_>, output: &mut TensorMut<'_>) -> Result<(), FormatError> {
        let divisor = f64::from(self.divisor());
        let elements = output.as_ref().len();
        let lanes = self.format.lanes_per_word();
        let mut buffer = [0.0; WORD_BYTES];
        for (word, start) in result.words.chunks_exact(WORD_BYTES).zip((0..elements).step_by(lanes)) {
            let sums = &mut buffer[..lanes.min(elements - start)];
            bfp::decode_exact(self.format, word, result.exp_max, sums)?;
            match &mut *output {
                TensorMut::F32(values) => {
                    for (value, sum) in values[start..].iter_mut().zip(&*sums) {
                        *value = (sum / divisor) as f32;
                    }
                }
                output => {
                    let Some(kind) = self.dtype.float() else { return Ok(()) };
                    for (index, sum) in sums.iter().enumerate() {
                        output.put_float(start + index, kind.from_f64(sum / divisor));
                    }
                }
            }
        }
        Ok(())
    }

    fn round_exact(&self, state: &ChunkState, kind: FloatKind, elements: usize, output: &mut TensorMut<'_>) {
        let unit = unbiased(state.exponent);
        // No sums: nothing but zeros.
        let sums = state.digits.iter().copied().chain(std::iter::repeat(Wide::default()));
        for (index, sum) in sums.take(elements).enumerate() {
            output.put_float(index, sum.round(kind, self.divisor(), unit));
        }
    }

    fn decode_integers(
        &self,
        state: &ChunkState,
        words: &[u8],
        elements: usize,
        output: &mut TensorMut<'_>,
    ) -> Result<Option<Misfit>, FormatError> {
        if state.pass >= pass::DIGITS {
            let sums = state.digits.iter().take(elements).map(Wide::low);
            return Ok(self.put_integers(0, sums, output));
        }
        let lanes = self.format.lanes_per_word();
        let mut misfit = None;
        let mut buffer = [0i64; WORD_BYTES];
        for (word, start) in words.chunks_exact(WORD_BYTES).zip((0..elements).step_by(lanes)) {
            let sums = &mut buffer[..lanes.min(elements - start)];
            integer::decode(self.format, word, sums, |sum, value| *sum = value)?;
            if let (TensorMut::I32(values), ReduceOp::Sum, 32) =
                (&mut *output, self.op, self.format.lane_bits())
            {
                // The lanes are the elements.
                values[start..].iter_mut().zip(&*sums).for_each(|(value, sum)| *value = *sum as i32);
                continue;
            }
            let found = self.put_integers(start, sums.iter().map(|sum| i128::from(*sum)), output);
            misfit = misfit.or(found);
        }
        Ok(misfit)
    }

    /// Writes sums, or their averages, from element `start` on; the first that does not fit is told.
    fn put_integers(
        &self,
        start: usize,
        sums: impl Iterator<Item = i128>,
        output: &mut TensorMut<'_>,
    ) -> Option<Misfit> {
        let kind = self.dtype.integer()?;
        let mut misfit = None;
        for (index, sum) in (start..).zip(sums) {
            let value = divide_to_even(sum, self.divisor());
            match i64::try_from(value) {
                Ok(value) if (kind.least..=kind.most).contains(&value) => output.put_integer(index, value),
                _ => misfit = misfit.or(Some(Misfit { index, sum })),
            }
        }
        misfit
    }

    fn decode_keys(&self, words: &[u8], output: &mut TensorMut<'_>) -> Result<(), FormatError> {
        let (format, least) = (self.format, self.least());
        let float = |kind: FloatKind| move |key: u64| keys::to_float(kind, key, least);
        let integer = |bits| move |key: u64| keys::to_integer(key, bits, least);
        match output {
            TensorMut::F32(values) => {
                keys::decode(format, words, values, |key| f32::from_bits(float(FloatKind::F32)(key)))
            }
            TensorMut::F16(values) => keys::decode(format, words, values, |key| {
                half::f16::from_bits(float(FloatKind::F16)(key) as u16)
            }),
            TensorMut::Bf16(values) => keys::decode(format, words, values, |key| {
                half::bf16::from_bits(float(FloatKind::BF16)(key) as u16)
            }),
            TensorMut::F8E4M3(values) => keys::decode(format, words, values, |key| {
                crate::tensor::F8E4M3(float(FloatKind::E4M3)(key) as u8)
            }),
            TensorMut::F8E5M2(values) => keys::decode(format, words, values, |key| {
                crate::tensor::F8E5M2(float(FloatKind::E5M2)(key) as u8)
            }),
            TensorMut::I8(values) => keys::decode(format, words, values, |key| integer(8)(key) as i8),
            TensorMut::I16(values) => keys::decode(format, words, values, |key| integer(16)(key) as i16),
            TensorMut::I32(values) => keys::decode(format, words, values, |key| integer(32)(key) as i32),
            TensorMut::I64(values) => keys::decode(format, words, values, integer(64)),
            TensorMut::U8(values) => {
                keys::decode(format, words, values, |key| if least { !key as u8 } else { key as u8 })
            }
            TensorMut::I4(values) => {
                let mut found = vec![0i8; values.as_ref().len()];
                keys::decode(format, words, &mut found, |key| integer(8)(key) as i8)?;
                found.iter().enumerate().for_each(|(index, value)| values.set(index, *value));
                Ok(())
            }
        }
    }
}

/// Decodes a block to f32 and hands it on.
fn with_decoded(
    scheme: &Scheme,
    words: &[u8],
    exponent: u16,
    elements: usize,
    take: impl FnOnce(&[f32]),
) -> Result<(), FormatError> {
    let mut buffer = [0.0; MAX_ELEMENTS];
    let sums = &mut buffer[..elements];
    bfp::decode(scheme.format, words, exponent, sums)?;
    take(sums);
    Ok(())
}

/// `sum / ranks` to the nearest integer, ties to even.
fn divide_to_even(sum: i128, ranks: u32) -> i128 {
    let ranks = i128::from(ranks);
    let (quotient, remainder) = (sum.div_euclid(ranks), sum.rem_euclid(ranks));
    let up = match (2 * remainder).cmp(&ranks) {
        core::cmp::Ordering::Less => false,
        core::cmp::Ordering::Equal => quotient % 2 != 0,
        core::cmp::Ordering::Greater => true,
    };
    quotient + i128::from(up)
}
