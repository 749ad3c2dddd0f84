//! What a pass sends.

use core::ops::Range;

use half::slice::HalfFloatSliceExt as _;
use std::sync::LazyLock;

use super::{ChunkState, pass};
use crate::float::{Decoded, FloatKind};
use crate::format::classes::{self, Class, MAX_ELEMENTS};
use crate::format::{Encoded, FormatError, Kind, bfp, biased, check_room, integer, keys};
use crate::packet::{Flags, NO_EXP_MAX, NO_EXP_MIN, WORD_BYTES};
use crate::scheme::Scheme;
use crate::tensor::{I4Ref, TensorRef};

impl Scheme {
    /// Encodes a chunk, some elements of the input, for its present pass into the front of `payload`. With flags in the result there are
    /// no words to be sent.
    pub fn encode(
        &self,
        input: &TensorRef<'_>,
        range: Range<usize>,
        state: &ChunkState,
        payload: &mut [u8],
    ) -> Result<Encoded, FormatError> {
        let words = self.format.words_for(range.len()) * WORD_BYTES;
        if words > payload.len() {
            check_room(self.format, range.len(), payload.len() / WORD_BYTES * WORD_BYTES)?;
        }
        let (chunk, words) = (input.slice(range), &mut payload[..words]);
        match self.format.kind() {
            Kind::Max => self.encode_keys(&chunk, words),
            Kind::Block => with_f32(&chunk, |values| self.encode_block(values, state, words)),
            Kind::Integer if self.is_exact_float() => {
                with_f32(&chunk, |values| self.encode_exact(values, state, words))
            }
            Kind::Integer => self.encode_integers(&chunk, state, words),
        }
    }

    /// What this rank's quantisation took from each element of an f32 chunk in a block format: element less what was sent for it;
    /// 0 where the element is not finite. `state` as when the chunk was sent last.
    pub fn residual(
        &self,
        input: &[f32],
        state: &ChunkState,
        payload: &mut [u8],
        residual: &mut [f32],
    ) -> Result<(), FormatError> {
        let words = &mut payload[..self.format.words_for(input.len()) * WORD_BYTES];
        let sent = self.encode_block(input, state, words)?;
        if !sent.flags.is_empty() {
            residual.fill(0.0);
            return Ok(());
        }
        bfp::decode(self.format, words, sent.exp_max, residual)?;
        for (residual, element) in residual.iter_mut().zip(input) {
            *residual = if element.is_finite() { element - *residual } else { 0.0 };
        }
        Ok(())
    }

    fn encode_block(
        &self,
        values: &[f32],
        state: &ChunkState,
        words: &mut [u8],
    ) -> Result<Encoded, FormatError> {
        let finite = |values: &[f32]| {
            let mut values = values.to_vec();
            bfp::clear_nonfinite(&mut values);
            values
        };
        match state.pass {
            pass::COMMON_EXPONENT => bfp::encode_at(self.format, values, state.exponent, words),
            pass::COUNT_PLUS => classes::encode(self.format, values, Class::PlusInfinity, words),
            pass::COUNT_MINUS => classes::encode(self.format, values, Class::MinusInfinity, words),
            pass::FINITE => bfp::encode(self.format, &finite(values), words),
            pass::FINITE_COMMON_EXPONENT => {
                bfp::encode_at(self.format, &finite(values), state.exponent, words)
            }
            _ => bfp::encode(self.format, values, words),
        }
    }

    fn encode_exact(
        &self,
        values: &[f32],
        state: &ChunkState,
        words: &mut [u8],
    ) -> Result<Encoded, FormatError> {
        match state.pass {
            pass::COUNT_PLUS => classes::encode(self.format, values, Class::PlusInfinity, words),
            pass::COUNT_MINUS => classes::encode(self.format, values, Class::MinusInfinity, words),
            pass::DIGITS.. => {
                let (digits, number) = (self.digits(state)?, state.pass - pass::DIGITS);
                let unit = crate::format::unbiased(state.exponent);
                integer::encode(self.format, values, words, |value| {
                    let (negative, significand, exponent) = parts(value);
                    // No element's last place lies below the unit; a result that says otherwise is not of honest ranks.
                    let shift = exponent.saturating_sub(unit).max(0) as u32;
                    digits.digit(negative, significand.into(), shift, number)
                })
            }
            _ => Ok(span(values)),
        }
    }

    fn encode_integers(
        &self,
        chunk: &TensorRef<'_>,
        state: &ChunkState,
        words: &mut [u8],
    ) -> Result<Encoded, FormatError> {
        match chunk {
            TensorRef::I32(values) => self.encode_integer(values, state, words, i64::from),
            TensorRef::I8(values) => self.encode_integer(values, state, words, i64::from),
            TensorRef::I16(values) => self.encode_integer(values, state, words, i64::from),
            TensorRef::I64(values) => self.encode_integer(values, state, words, |value| value),
            TensorRef::U8(values) => self.encode_integer(values, state, words, i64::from),
            TensorRef::I4(values) => self.encode_integer(&unpacked(values), state, words, i64::from),
            // The other types travel in other ways.
            _ => Err(FormatError::WordBytes(0)),
        }
    }

    fn encode_integer<T: Copy>(
        &self,
        values: &[T],
        state: &ChunkState,
        words: &mut [u8],
        number: impl Fn(T) -> i64,
    ) -> Result<Encoded, FormatError> {
        if state.pass < pass::DIGITS {
            return integer::encode(self.format, values, words, number);
        }
        let (digits, digit) = (self.digits(state)?, state.pass - pass::DIGITS);
        integer::encode(self.format, values, words, |value| {
            let value = number(value);
            digits.digit(value < 0, value.unsigned_abs(), 0, digit)
        })
    }

    fn encode_keys(&self, chunk: &TensorRef<'_>, words: &mut [u8]) -> Result<Encoded, FormatError> {
        let (format, least) = (self.format, self.least());
        let float = |kind: FloatKind| move |bits: u32| keys::of_float(kind, bits, least);
        let integer = |bits| move |value: i64| keys::of_integer(value, bits, least);
        match chunk {
            TensorRef::F32(values) => {
                keys::encode(format, values, words, |value: f32| float(FloatKind::F32)(value.to_bits()))
            }
            TensorRef::F16(values) => keys::encode(format, values, words, |value: half::f16| {
                float(FloatKind::F16)(value.to_bits().into())
            }),
            TensorRef::Bf16(values) => keys::encode(format, values, words, |value: half::bf16| {
                float(FloatKind::BF16)(value.to_bits().into())
            }),
            TensorRef::F8E4M3(values) => {
                keys::encode(format, values, words, |value| float(FloatKind::E4M3)(value.0.into()))
            }
            TensorRef::F8E5M2(values) => {
                keys::encode(format, values, words, |value| float(FloatKind::E5M2)(value.0.into()))
            }
            TensorRef::I8(values) => keys::encode(format, values, words, |value| integer(8)(value.into())),
            TensorRef::I16(values) => keys::encode(format, values, words, |value| integer(16)(value.into())),
            TensorRef::I32(values) => keys::encode(format, values, words, |value| integer(32)(value.into())),
            TensorRef::I64(values) => keys::encode(format, values, words, integer(64)),
            TensorRef::I4(values) => {
                keys::encode(format, &unpacked(values), words, |value| integer(8)(value.into()))
            }
            // A byte without a sign is its own key.
            TensorRef::U8(values) => {
                keys::encode(format, values, words, |value| u64::from(if least { !value } else { value }))
            }
        }
    }
}

/// The exponents of an `exact` chunk: the largest is where the largest magnitude ends (|x| < 2^e), the smallest where the last bit of
/// any element is. Without words, hence flagged.
fn span(values: &[f32]) -> Encoded {
    let mut span = Encoded { flags: Flags::RANGE, exp_max: NO_EXP_MAX, exp_min: NO_EXP_MIN };
    let (mut top, mut unit) = (i32::MIN, i32::MAX);
    for value in values {
        if !value.is_finite() {
            span.flags |= Flags::NONFINITE;
            continue;
        }
        let (_, significand, exponent) = parts(*value);
        if significand != 0 {
            top = top.max(exponent + 32 - significand.leading_zeros() as i32);
            unit = unit.min(exponent + significand.trailing_zeros() as i32);
        }
    }
    if top > unit {
        (span.exp_max, span.exp_min) = (biased(top), biased(unit));
    }
    span
}

/// Sign, significand and exponent of its last place; NaN and infinities count as 0. Trailing zeros of the significand are moved to
/// the exponent, so that it is never below a chunk's unit.
fn parts(value: f32) -> (bool, u32, i32) {
    match FloatKind::F32.decode(value.to_bits()) {
        Decoded::Finite { negative, significand, exponent } if significand != 0 => {
            let zeros = significand.trailing_zeros();
            (negative, significand >> zeros, exponent + zeros as i32)
        }
        _ => (false, 0, bfp::LOWEST_EXPONENT),
    }
}

/// The elements of a chunk as f32, which has every number of every float type.
fn with_f32<R>(chunk: &TensorRef<'_>, run: impl FnOnce(&[f32]) -> R) -> R {
    if let TensorRef::F32(values) = chunk {
        return run(values);
    }
    let mut buffer = [0.0; MAX_ELEMENTS];
    let values = &mut buffer[..chunk.len()];
    match chunk {
        TensorRef::F16(elements) => elements.convert_to_f32_slice(values),
        TensorRef::Bf16(elements) => elements.convert_to_f32_slice(values),
        TensorRef::F8E4M3(elements) => {
            values
                .iter_mut()
                .zip(*elements)
                .for_each(|(value, element)| *value = E4M3[usize::from(element.0)]);
        }
        TensorRef::F8E5M2(elements) => {
            values
                .iter_mut()
                .zip(*elements)
                .for_each(|(value, element)| *value = E5M2[usize::from(element.0)]);
        }
        _ => debug_assert!(false, "only floats travel as f32"),
    }
    run(values)
}

static E4M3: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|bits| FloatKind::E4M3.to_f32(bits as u32)));
static E5M2: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|bits| FloatKind::E5M2.to_f32(bits as u32)));

fn unpacked(values: &I4Ref<'_>) -> Vec<i8> {
    (0..values.len()).map(|index| values.get(index)).collect()
}
