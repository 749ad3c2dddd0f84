//! Binary floating-point formats, bit by bit: their values as integers times powers of two, and correct rounding to them from
//! integers of any size.

mod wide;

pub use wide::Wide;

/// A binary floating-point format of at most 32 bits: sign, exponent, fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatKind {
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Bits of the fraction field.
    pub fraction_bits: u32,
    /// Whether the largest exponent is kept for infinities and NaN, as IEEE 754 has it. Otherwise (E4M3) there are no infinities, and only
    /// the magnitude with all bits set is NaN.
    pub infinities: bool,
}

/// What the bits of a number mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// Not a number.
    Nan,
    /// Infinite.
    Infinite {
        /// Below zero.
        negative: bool,
    },
    /// significand x 2^exponent; the exponent is that of the number's last place.
    Finite {
        /// The sign bit.
        negative: bool,
        /// At most 2^(fraction bits + 1) - 1.
        significand: u32,
        /// Unbiased exponent of the last place.
        exponent: i32,
    },
}

impl FloatKind {
    /// IEEE 754 binary32.
    pub const F32: Self = Self { exponent_bits: 8, fraction_bits: 23, infinities: true };
    /// IEEE 754 binary16.
    pub const F16: Self = Self { exponent_bits: 5, fraction_bits: 10, infinities: true };
    /// bfloat16: the upper half of binary32.
    pub const BF16: Self = Self { exponent_bits: 8, fraction_bits: 7, infinities: true };
    /// OCP 8-bit E4M3: largest number 448, no infinities.
    pub const E4M3: Self = Self { exponent_bits: 4, fraction_bits: 3, infinities: false };
    /// OCP 8-bit E5M2.
    pub const E5M2: Self = Self { exponent_bits: 5, fraction_bits: 2, infinities: true };

    /// Bits of a number, the sign included.
    pub const fn bits(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    /// Exponent of the last place of the smallest numbers, the subnormal ones.
    pub const fn lowest_exponent(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1)) - self.fraction_bits as i32
    }

    /// The sign bit.
    pub const fn sign(self) -> u32 {
        1 << (self.bits() - 1)
    }

    /// The smallest magnitude that is no finite number.
    const fn first_special(self) -> u32 {
        let all = self.sign() - 1;
        if self.infinities { all >> self.fraction_bits << self.fraction_bits } else { all }
    }

    /// The one NaN that results hold: positive, quiet.
    pub const fn nan(self) -> u32 {
        if self.infinities {
            self.first_special() | 1 << (self.fraction_bits - 1)
        } else {
            self.first_special()
        }
    }

    /// What a sum beyond the range becomes: infinity, or NaN where there is none.
    pub const fn beyond_range(self, negative: bool) -> u32 {
        self.first_special() | if negative { self.sign() } else { 0 }
    }

    /// What these bits mean.
    pub const fn decode(self, bits: u32) -> Decoded {
        let magnitude = bits & (self.sign() - 1);
        let negative = bits & self.sign() != 0;
        if magnitude >= self.first_special() {
            return if self.infinities && magnitude == self.first_special() {
                Decoded::Infinite { negative }
            } else {
                Decoded::Nan
            };
        }
        let field = magnitude >> self.fraction_bits;
        let fraction = magnitude & ((1 << self.fraction_bits) - 1);
        let (significand, above) = match field {
            0 => (fraction, 0),
            _ => (fraction | 1 << self.fraction_bits, field as i32 - 1),
        };
        Decoded::Finite { negative, significand, exponent: self.lowest_exponent() + above }
    }

    /// The f32 of the same value, for formats of at most 16 bits, of which each number is one. NaN becomes the canonical one.
    pub fn to_f32(self, bits: u32) -> f32 {
        match self.decode(bits) {
            Decoded::Nan => f32::from_bits(Self::F32.nan()),
            Decoded::Infinite { negative: false } => f32::INFINITY,
            Decoded::Infinite { negative: true } => f32::NEG_INFINITY,
            Decoded::Finite { negative, significand, exponent } => {
                f32::from_bits(Self::F32.round(negative, &[u64::from(significand)], false, exponent))
            }
        }
    }

    /// The number nearest to magnitude x 2^exponent, ties to even; infinite (or NaN, see [`FloatKind::beyond_range`]) beyond the
    /// range. `magnitude` is an integer, lowest 64 bits first; `more`: the true magnitude is larger by less than one, in which
    /// case the integer must have at least two bits more than the format's significand, or be exact.
    pub fn round(self, negative: bool, magnitude: &[u64], more: bool, exponent: i32) -> u32 {
        let sign = if negative { self.sign() } else { 0 };
        let length = bit_length(magnitude);
        if length == 0 {
            return sign;
        }
        // The exponent of the result's last place, before a carry.
        let unit = (length as i32 + exponent - 1 - self.fraction_bits as i32).max(self.lowest_exponent());
        let shift = unit - exponent;
        let significand = if shift <= 0 {
            // The magnitude has at most as many bits as the significand, less the shift.
            magnitude[0] << -shift
        } else {
            let shift = shift as u32;
            let below = bits_at(magnitude, shift);
            let half = bit(magnitude, shift - 1);
            let rest = more || any_below(magnitude, shift - 1);
            below + u64::from(half && (rest || below & 1 == 1))
        };
        // A carry of the significand moves into the exponent field by itself.
        let above = (unit - self.lowest_exponent()) as u64;
        let bits = (above << self.fraction_bits) + significand;
        if above > 1 << self.exponent_bits || bits >= u64::from(self.first_special()) {
            return self.beyond_range(negative);
        }
        sign | bits as u32
    }

    /// The number nearest to a finite f64, ties to even.
    pub fn from_f64(self, value: f64) -> u32 {
        let bits = value.to_bits();
        let (field, fraction) = ((bits >> 52 & 0x7FF) as i32, bits & ((1 << 52) - 1));
        let (significand, exponent) =
            if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
        self.round(value.is_sign_negative(), &[significand], false, exponent)
    }
}

/// Bits of the integer, leading zeros left out.
fn bit_length(limbs: &[u64]) -> u32 {
    let top = limbs.iter().rposition(|limb| *limb != 0);
    top.map_or(0, |at| at as u32 * 64 + 64 - limbs[at].leading_zeros())
}

/// Whether bit `at` is set; beyond the integer none is.
fn bit(limbs: &[u64], at: u32) -> bool {
    limbs.get(at as usize / 64).is_some_and(|limb| limb >> (at % 64) & 1 == 1)
}

/// 64 bits from bit `at` on.
fn bits_at(limbs: &[u64], at: u32) -> u64 {
    let (limb, offset) = (at as usize / 64, at % 64);
    let low = limbs.get(limb).copied().unwrap_or(0) >> offset;
    let high = limbs.get(limb + 1).copied().unwrap_or(0);
    if offset == 0 { low } else { low | high << (64 - offset) }
}

/// Whether any bit below `at` is set.
fn any_below(limbs: &[u64], at: u32) -> bool {
    let whole = (at as usize / 64).min(limbs.len());
    limbs[..whole].iter().any(|limb| *limb != 0)
        || limbs
            .get(whole)
            .is_some_and(|limb| at as usize / 64 == whole && limb & ((1 << (at % 64)) - 1) != 0)
}

#[cfg(test)]
pub(crate) mod tests;
