//! Integers wide enough for any sum of f32.

use super::FloatKind;

/// 277 bits from the last place of the smallest f32 to the top of the largest, 16 for the ranks, a sign.
const LIMBS: usize = 5;

/// A signed integer of 320 bits, two's complement, lowest limb first. Sums of at most 65535 f32, in units of the last place of the
/// smallest, fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wide([u64; LIMBS]);

impl Wide {
    /// Adds value x 2^shift; `shift` is below 320.
    pub fn add_shifted(&mut self, value: i64, shift: u32) {
        let (limb, offset) = (shift as usize / 64, shift % 64);
        let shifted = i128::from(value) << offset;
        let parts = [shifted as u64, (shifted >> 64) as u64];
        let fill = if value < 0 { u64::MAX } else { 0 };
        let mut carry = false;
        for (index, sum) in self.0.iter_mut().enumerate().skip(limb) {
            let part = parts.get(index - limb).copied().unwrap_or(fill);
            let (first, over) = sum.overflowing_add(part);
            let (second, more) = first.overflowing_add(carry.into());
            (*sum, carry) = (second, over | more);
        }
    }

    /// Its low 128 bits: all of it for sums of integers of up to 64 bits.
    pub fn low(&self) -> i128 {
        (u128::from(self.0[1]) << 64 | u128::from(self.0[0])) as i128
    }

    /// The number of this kind nearest to self / ranks x 2^exponent, ties to even.
    pub fn round(&self, kind: FloatKind, ranks: u32, exponent: i32) -> u32 {
        let negative = self.0[LIMBS - 1] >> 63 == 1;
        // 64 bits below the point keep enough of the quotient.
        let mut limbs = [0; LIMBS + 1];
        limbs[1..].copy_from_slice(&self.0);
        if negative {
            let mut carry = true;
            for limb in &mut limbs[1..] {
                let (sum, over) = (!*limb).overflowing_add(carry.into());
                (*limb, carry) = (sum, over);
            }
        }
        let mut rest = 0u64;
        for limb in limbs.iter_mut().rev() {
            let part = u128::from(rest) << 64 | u128::from(*limb);
            *limb = (part / u128::from(ranks)) as u64;
            rest = (part % u128::from(ranks)) as u64;
        }
        // A sum that is exactly 0 is +0.
        let negative = negative && limbs != [0; LIMBS + 1];
        kind.round(negative, &limbs, rest != 0, exponent - 64)
    }
}
