//! Which pass of a chunk follows a result: the table "Host side" of `docs/protocol.md`.
//!
//! Every rank sees the same flags, hence takes the same passes.

use inca_wire::packet::{Flags, Format};

/// Block at its own exponent.
pub(super) const OWN_EXPONENT: u8 = 0;
/// Block at the largest exponent that any rank had.
pub(super) const COMMON_EXPONENT: u8 = 1;
/// Counts +inf and NaN per lane.
pub(super) const COUNT_PLUS: u8 = 2;
/// Counts -inf and NaN per lane.
pub(super) const COUNT_MINUS: u8 = 3;
/// As [`OWN_EXPONENT`], non-finite elements replaced by 0.
pub(super) const FINITE_OWN_EXPONENT: u8 = 4;
/// As [`COMMON_EXPONENT`], non-finite elements replaced by 0.
pub(super) const FINITE_COMMON_EXPONENT: u8 = 5;

/// What follows a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It is the chunk's sum.
    Finish,
    /// The chunk is done, and the operation has failed: a sum does not fit.
    Overflow,
    /// Another pass.
    Pass(u8),
    /// Ranks are in different operations.
    Mismatch,
    /// Flags that this pass can't have.
    Violation,
}

/// What follows the result of `pass` with these flags.
pub(super) fn next(format: Format, pass: u8, flags: Flags) -> Next {
    if flags.contains(Flags::MISMATCH) {
        return Next::Mismatch;
    }
    let known = Flags::RANGE | Flags::NONFINITE | Flags::OVERFLOW;
    if !known.contains(flags) {
        return Next::Violation;
    }
    match (format, pass) {
        (Format::I32, OWN_EXPONENT) if flags.is_empty() => Next::Finish,
        (Format::I32, OWN_EXPONENT) if flags == Flags::OVERFLOW => Next::Overflow,
        (Format::I32, _) => Next::Violation,
        (Format::Bfp16, OWN_EXPONENT) if flags.contains(Flags::NONFINITE) => Next::Pass(COUNT_PLUS),
        (Format::Bfp16, OWN_EXPONENT) if flags.contains(Flags::RANGE) => Next::Pass(COMMON_EXPONENT),
        (Format::Bfp16, FINITE_OWN_EXPONENT) if flags == Flags::RANGE => Next::Pass(FINITE_COMMON_EXPONENT),
        (Format::Bfp16, _) if !flags.is_empty() => Next::Violation,
        (Format::Bfp16, COUNT_PLUS) => Next::Pass(COUNT_MINUS),
        (Format::Bfp16, COUNT_MINUS) => Next::Pass(FINITE_OWN_EXPONENT),
        (Format::Bfp16, _) => Next::Finish,
    }
}

#[cfg(test)]
#[path = "passes_tests.rs"]
mod tests;
