//! A chunk's way from elements to words and back: which passes it takes, what each sends, what each result means
//! (`docs/protocol.md`, "Host side"; `docs/number-formats.md`).
//!
//! Every rank sees the same results, hence takes the same passes.

mod decode;
mod encode;

use crate::float::Wide;
use crate::format::classes::ClassBits;
use crate::format::integer::{self, Digits};
use crate::format::{FormatError, Kind, bfp, unbiased};
use crate::packet::{Flags, NO_EXP_MAX};
use crate::scheme::Scheme;

/// Numbers of the passes, as they are hashed into tags.
pub mod pass {
    /// Block at its own exponent; integers; sort keys; in `exact` nothing but the exponents.
    pub const FIRST: u8 = 0;
    /// Block at the largest exponent that any rank had.
    pub const COMMON_EXPONENT: u8 = 1;
    /// Counts +inf and NaN per lane.
    pub const COUNT_PLUS: u8 = 2;
    /// Counts -inf and NaN per lane.
    pub const COUNT_MINUS: u8 = 3;
    /// As [`FIRST`], non-finite elements replaced by 0.
    pub const FINITE: u8 = 4;
    /// As [`COMMON_EXPONENT`], non-finite elements replaced by 0.
    pub const FINITE_COMMON_EXPONENT: u8 = 5;
    /// The first of the passes that carry the digits of integers, lowest first.
    pub const DIGITS: u8 = 16;
}

/// What the header of a pass's result says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassResult<'a> {
    /// Any flag: there are no words.
    pub flags: Flags,
    /// The result's exponent, or the largest one seen, biased.
    pub exp_max: u16,
    /// The smallest exponent seen, biased.
    pub exp_min: u16,
    /// Narrow lanes.
    pub words: &'a [u8],
}

/// What follows a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It completes the chunk.
    Finish,
    /// Another pass.
    Pass(u8),
    /// Ranks are in different operations.
    Mismatch,
    /// Flags or exponents that this pass can't have.
    Violation,
}

/// A sum that does not fit the element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    /// Element of the chunk, the first such.
    pub index: usize,
    /// The sum.
    pub sum: i128,
}

/// What is known of a chunk between its passes.
#[derive(Debug, Clone, Default)]
pub struct ChunkState {
    pass: u8,
    /// Biased exponent of the passes at a common exponent; of digits their unit.
    exponent: u16,
    /// Bits of the largest magnitude, in units of that exponent.
    magnitude_bits: u32,
    /// Non-finite lanes, from passes 2 and 3. Rare, hence boxed.
    classes: Option<Box<LaneClasses>>,
    /// Sums of the digits before the last. Rare too.
    digits: Vec<Wide>,
}

#[derive(Debug, Clone)]
struct LaneClasses {
    plus: ClassBits,
    /// Known after pass 3.
    minus: Option<ClassBits>,
}

impl ChunkState {
    /// The pass that is to be sent, or whose result is awaited.
    pub const fn pass(&self) -> u8 {
        self.pass
    }
}

impl Scheme {
    /// What follows the result of the chunk's present pass.
    pub fn next(&self, state: &ChunkState, result: &PassResult<'_>) -> Next {
        if result.flags.contains(Flags::MISMATCH) {
            return Next::Mismatch;
        }
        match self.format.kind() {
            Kind::Max if state.pass == pass::FIRST && result.flags.is_empty() => Next::Finish,
            Kind::Max => Next::Violation,
            Kind::Block => next_of_block(state.pass, result.flags),
            Kind::Integer if self.dtype.float().is_some() => self.next_of_exact(state, result),
            Kind::Integer => self.next_of_integer(state, result.flags),
        }
    }

    /// Takes in the result of the chunk's present pass, which is followed by pass `next`.
    pub fn advance(
        &self,
        state: &mut ChunkState,
        next: u8,
        result: &PassResult<'_>,
        elements: usize,
    ) -> Result<(), FormatError> {
        match state.pass {
            pass::FIRST | pass::FINITE if self.format.kind() == Kind::Block => {
                state.exponent = result.exp_max;
            }
            pass::FIRST => self.set_span(state, result),
            pass::COUNT_PLUS => {
                let plus = ClassBits::from_result(self.format, result.words)?;
                state.classes = Some(Box::new(LaneClasses { plus, minus: None }));
            }
            pass::COUNT_MINUS => self.set_minus(state, result.words)?,
            pass::DIGITS.. => self.add_digits(state, result.words, elements)?,
            _ => {}
        }
        state.pass = next;
        Ok(())
    }

    fn set_minus(&self, state: &mut ChunkState, words: &[u8]) -> Result<(), FormatError> {
        if let Some(classes) = &mut state.classes {
            classes.minus = Some(ClassBits::from_result(self.format, words)?);
        }
        Ok(())
    }

    /// The digits of the chunk's magnitudes.
    fn digits(&self, state: &ChunkState) -> Result<Digits, FormatError> {
        Digits::of(self.format, self.world as usize, state.magnitude_bits)
    }

    /// Which magnitudes the digits must hold.
    fn set_span(&self, state: &mut ChunkState, result: &PassResult<'_>) {
        match self.dtype.integer() {
            // The least signed integer has one bit more than the others.
            Some(kind) => state.magnitude_bits = kind.bits,
            None => {
                state.exponent = result.exp_min;
                state.magnitude_bits = u32::from(result.exp_max.saturating_sub(result.exp_min));
            }
        }
    }

    /// Adds a digit pass's sums, of which there is room for `elements`.
    fn add_digits(&self, state: &mut ChunkState, words: &[u8], elements: usize) -> Result<(), FormatError> {
        state.digits.resize(elements, Wide::default());
        let shift = u32::from(state.pass - pass::DIGITS) * self.digits(state)?.bits;
        integer::decode(self.format, words, &mut state.digits, |sum, digit| sum.add_shifted(digit, shift))
    }

    fn next_of_integer(&self, state: &ChunkState, flags: Flags) -> Next {
        match state.pass {
            pass::FIRST if flags == Flags::OVERFLOW => Next::Pass(pass::DIGITS),
            pass::FIRST if flags.is_empty() => Next::Finish,
            pass::DIGITS.. if flags.is_empty() => self.next_digit(state),
            _ => Next::Violation,
        }
    }

    fn next_of_exact(&self, state: &ChunkState, result: &PassResult<'_>) -> Next {
        match state.pass {
            pass::FIRST if !is_span(result) => Next::Violation,
            pass::FIRST if result.flags == Flags::RANGE && result.exp_max == NO_EXP_MAX => Next::Finish,
            pass::FIRST if result.flags == Flags::RANGE => Next::Pass(pass::DIGITS),
            pass::FIRST if result.flags == Flags::RANGE | Flags::NONFINITE => Next::Pass(pass::COUNT_PLUS),
            _ if !result.flags.is_empty() => Next::Violation,
            pass::COUNT_PLUS => Next::Pass(pass::COUNT_MINUS),
            pass::COUNT_MINUS if state.magnitude_bits == 0 => Next::Finish,
            pass::COUNT_MINUS => Next::Pass(pass::DIGITS),
            pass::DIGITS.. => self.next_digit(state),
            _ => Next::Violation,
        }
    }

    fn next_digit(&self, state: &ChunkState) -> Next {
        let number = state.pass - pass::DIGITS;
        match self.digits(state) {
            Ok(digits) if number + 1 < digits.count => Next::Pass(state.pass + 1),
            Ok(_) => Next::Finish,
            Err(_) => Next::Violation,
        }
    }
}

fn next_of_block(pass: u8, flags: Flags) -> Next {
    let known = Flags::RANGE | Flags::NONFINITE;
    match pass {
        pass::FIRST if !known.contains(flags) => Next::Violation,
        pass::FIRST if flags.contains(Flags::NONFINITE) => Next::Pass(pass::COUNT_PLUS),
        pass::FIRST if flags.contains(Flags::RANGE) => Next::Pass(pass::COMMON_EXPONENT),
        pass::FINITE if flags == Flags::RANGE => Next::Pass(pass::FINITE_COMMON_EXPONENT),
        _ if !flags.is_empty() => Next::Violation,
        pass::COUNT_PLUS => Next::Pass(pass::COUNT_MINUS),
        pass::COUNT_MINUS => Next::Pass(pass::FINITE),
        _ => Next::Finish,
    }
}

/// Whether the exponents of an `exact` chunk's first pass can be those of f32: nothing but zeros, or from the last place of the smallest
/// to beyond the top of the largest.
fn is_span(result: &PassResult<'_>) -> bool {
    if result.exp_max == NO_EXP_MAX {
        return true;
    }
    let (top, unit) = (unbiased(result.exp_max), unbiased(result.exp_min));
    unit >= bfp::LOWEST_EXPONENT && unit < top && top <= 128
}

#[cfg(test)]
mod tests;
