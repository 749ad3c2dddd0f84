//! A word of 2048 bits as a number: what the format entries carry as action parameters.

use std::fmt;

use inca_wire::packet::{WORD_BITS, WORD_BYTES};

const LIMBS: usize = WORD_BITS / 64;

/// An unsigned number of 2048 bits; arithmetic is modulo 2^2048, as in P4.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Word([u64; LIMBS]);

impl Word {
    /// Zero.
    pub const ZERO: Self = Self([0; LIMBS]);

    /// The word whose lanes of `lane_bits` bits (a power of two, 8 to 128) all hold the low `lane_bits` bits of `value`.
    pub fn repeat(lane_bits: u32, value: u128) -> Self {
        debug_assert!(lane_bits.is_power_of_two() && (8..=128).contains(&lane_bits));
        // One 128-bit unit that the lanes fill exactly, then that unit all over the word.
        let lane = if lane_bits == 128 { value } else { value & ((1 << lane_bits) - 1) };
        let unit = (0..128 / lane_bits).fold(0, |unit, i| unit | lane << (i * lane_bits));
        let mut limbs = [0; LIMBS];
        for pair in limbs.chunks_exact_mut(2) {
            pair[0] = unit as u64;
            pair[1] = (unit >> 64) as u64;
        }
        Self(limbs)
    }

    /// The word with these lanes of `lane_bits` bits (a power of two up to 64), lane 0 lowest; missing ones are 0.
    pub fn from_lanes(lane_bits: u32, lanes: impl IntoIterator<Item = u64>) -> Self {
        let per_limb = (64 / lane_bits) as usize;
        let mut word = Self::ZERO;
        for (index, lane) in lanes.into_iter().take(LIMBS * per_limb).enumerate() {
            let lane = if lane_bits == 64 { lane } else { lane & ((1 << lane_bits) - 1) };
            word.0[index / per_limb] |= lane << ((index % per_limb) as u32 * lane_bits);
        }
        word
    }

    /// Sum modulo 2^2048.
    pub fn wrapping_add(self, other: Self) -> Self {
        let (mut limbs, mut carry) = ([0; LIMBS], false);
        for (limb, (a, b)) in limbs.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let (sum, first) = a.overflowing_add(b);
            let (sum, second) = sum.overflowing_add(carry.into());
            (*limb, carry) = (sum, first | second);
        }
        Self(limbs)
    }

    /// Difference modulo 2^2048.
    pub fn wrapping_sub(self, other: Self) -> Self {
        let (mut limbs, mut borrow) = ([0; LIMBS], false);
        for (limb, (a, b)) in limbs.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let (difference, first) = a.overflowing_sub(b);
            let (difference, second) = difference.overflowing_sub(borrow.into());
            (*limb, borrow) = (difference, first | second);
        }
        Self(limbs)
    }

    /// The lane of `lane_bits` bits (a power of two up to 64) at this index, lane 0 lowest.
    pub fn lane(&self, lane_bits: u32, index: usize) -> u64 {
        let per_limb = (64 / lane_bits) as usize;
        let limb = self.0[index / per_limb] >> ((index % per_limb) as u32 * lane_bits);
        if lane_bits == 64 { limb } else { limb & ((1 << lane_bits) - 1) }
    }

    /// Big-endian bytes, as on the wire and in P4Runtime before leading zeros go.
    pub fn to_be_bytes(&self) -> [u8; WORD_BYTES] {
        let mut bytes = [0; WORD_BYTES];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.0.iter().rev()) {
            chunk.copy_from_slice(&limb.to_be_bytes());
        }
        bytes
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().rev().try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_fill_every_lane() {
        for lane_bits in [8, 16, 32, 64] {
            let word = Word::repeat(lane_bits, 0xDEAD_BEEF_1234_5678_9ABC_DEF0);
            let expected = if lane_bits == 64 {
                0x1234_5678_9ABC_DEF0
            } else {
                0x1234_5678_9ABC_DEF0 & ((1 << lane_bits) - 1)
            };
            for index in 0..WORD_BITS / lane_bits as usize {
                assert_eq!(word.lane(lane_bits, index), expected, "{lane_bits}-bit lane {index}");
            }
        }
    }

    #[test]
    fn carries_and_borrows_cross_limbs() {
        let all_ones = Word::repeat(128, u128::MAX);
        let mut one = Word::ZERO;
        one.0[0] = 1;
        assert_eq!(all_ones.wrapping_add(one), Word::ZERO);
        assert_eq!(Word::ZERO.wrapping_sub(one), all_ones);
        assert_eq!(all_ones.wrapping_sub(one).wrapping_add(one), all_ones);
    }

    #[test]
    fn lanes_round_trip_and_bytes_are_big_endian() {
        let word = Word::from_lanes(32, [0x0102_0304, 5]);
        assert_eq!((word.lane(32, 0), word.lane(32, 1), word.lane(32, 2)), (0x0102_0304, 5, 0));
        assert_eq!(word.to_be_bytes()[248..], [0, 0, 0, 5, 1, 2, 3, 4]);
    }
}
