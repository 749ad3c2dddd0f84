//! Constants of a program: integers of any size and sign.

/// Sign and magnitude; the magnitude in limbs of 64 bits, lowest first, without leading zero limbs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Num {
    negative: bool,
    limbs: Vec<u64>,
}

impl Num {
    /// Reads the JSON's `hexstr`: an optional sign, an optional `0x`, hexadecimal digits.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut limbs = Vec::with_capacity(digits.len() / 16 + 1);
        for chunk in digits.as_bytes().rchunks(16) {
            let chunk = std::str::from_utf8(chunk).ok()?;
            limbs.push(u64::from_str_radix(chunk, 16).ok()?);
        }
        Some(Self::new(negative, limbs))
    }

    pub(crate) fn from_u64(value: u64) -> Self {
        Self::new(false, vec![value])
    }

    fn new(negative: bool, mut limbs: Vec<u64>) -> Self {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        let negative = negative && !limbs.is_empty();
        Self { negative, limbs }
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Bits of the magnitude.
    pub(crate) fn bits(&self) -> u32 {
        self.limbs.last().map_or(0, |top| self.limbs.len() as u32 * 64 - top.leading_zeros())
    }

    /// The value if it is not negative and fits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        match (self.negative, self.limbs.as_slice()) {
            (_, []) => Some(0),
            (false, [v]) => Some(*v),
            _ => None,
        }
    }

    /// k if the value is 2^k - 1, k at least 1.
    pub(crate) fn ones(&self) -> Option<u32> {
        let bits = self.bits();
        if self.negative || bits == 0 {
            return None;
        }
        let full = self.limbs[..self.limbs.len() - 1].iter().all(|l| *l == u64::MAX);
        let top = self.limbs[self.limbs.len() - 1];
        (full && (top & top.wrapping_add(1)) == 0).then_some(bits)
    }

    /// Two's complement in `n` limbs; higher bits are cut.
    pub(crate) fn to_limbs(&self, n: usize) -> Vec<u64> {
        let mut out: Vec<u64> = self.limbs.iter().copied().chain(std::iter::repeat(0)).take(n).collect();
        if self.negative {
            let mut carry = true;
            for limb in &mut out {
                let (value, overflow) = (!*limb).overflowing_add(u64::from(carry));
                *limb = value;
                carry = overflow;
            }
        }
        out
    }

    /// Big-endian bytes of a non-negative value, exactly `n` of them; `None` if it does not fit.
    pub(crate) fn to_bytes(&self, n: usize) -> Option<Vec<u8>> {
        if self.negative || self.bits() as usize > n * 8 {
            return None;
        }
        let limbs = self.to_limbs(n.div_ceil(8));
        let all: Vec<u8> = limbs.iter().rev().flat_map(|l| l.to_be_bytes()).collect();
        Some(all[all.len() - n..].to_vec())
    }
}

impl Num {
    /// `2^exponent - less`, or its negative. `less` is 0 or 1.
    pub(crate) fn power(exponent: u32, less: u64, negative: bool) -> Self {
        let mut limbs = vec![0u64; exponent as usize / 64 + 1];
        limbs[exponent as usize / 64] = 1 << (exponent % 64);
        if less == 1 {
            for limb in &mut limbs {
                let (value, borrow) = limb.overflowing_sub(1);
                *limb = value;
                if !borrow {
                    break;
                }
            }
        }
        Self::new(negative, limbs)
    }
}
