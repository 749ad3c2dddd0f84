//! Words with the same value in every lane: the constants that the controller installs in the switches, as big-endian bytes.

use crate::packet::WORD_BYTES;

/// A word's bytes, big-endian.
pub type Word = [u8; WORD_BYTES];

/// Width of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LaneWidth {
    /// 8 bits: only narrow.
    W8 = 8,
    /// 16 bits.
    W16 = 16,
    /// 32 bits.
    W32 = 32,
    /// 64 bits: only wide.
    W64 = 64,
}

impl LaneWidth {
    /// Every width.
    pub const ALL: [Self; 4] = [Self::W8, Self::W16, Self::W32, Self::W64];

    /// Bits of a lane.
    pub const fn bits(self) -> u32 {
        self as u32
    }

    /// The accumulator lane of a narrow lane; none for 64 bits.
    pub const fn wide(self) -> Option<Self> {
        match self {
            Self::W8 => Some(Self::W16),
            Self::W16 => Some(Self::W32),
            Self::W32 => Some(Self::W64),
            Self::W64 => None,
        }
    }

    /// A value with all of a lane's bits set.
    pub const fn all_ones(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
}

/// `value` in every lane of this width. Bits of `value` beyond the lane are cut off: they would reach into the next lane.
pub const fn lanes_of(width: LaneWidth, value: u64) -> Word {
    let bytes = value.to_be_bytes();
    let lane = width.bits() as usize / 8;
    let mut word = [0; WORD_BYTES];
    let mut at = 0;
    while at < WORD_BYTES {
        word[at] = bytes[8 - lane + at % lane];
        at += 1;
    }
    word
}

/// Constants of a format whose narrow lanes have w bits and whose accumulator lanes have 2w.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    narrow: LaneWidth,
    wide: LaneWidth,
}

impl Constants {
    /// Of w = 8, 16 or 32; none for 64, whose accumulator lanes would not fit a `u64`.
    pub const fn new(narrow: LaneWidth) -> Option<Self> {
        match narrow.wide() {
            Some(wide) => Some(Self { narrow, wide }),
            None => None,
        }
    }

    /// 2^w - 1 in each wide lane: plane 0 of a word of narrow lanes.
    pub const fn plane_mask(&self) -> Word {
        lanes_of(self.wide, self.narrow.all_ones())
    }

    /// 2^2w - 2^w in each wide lane: plane 1 of a word of narrow lanes, before it is shifted down.
    pub const fn high_plane_mask(&self) -> Word {
        lanes_of(self.wide, self.narrow.all_ones() << self.narrow.bits())
    }

    /// 1 in each wide lane.
    pub const fn ones(&self) -> Word {
        lanes_of(self.wide, 1)
    }

    /// 2^(2w-1) in each wide lane: its top bit.
    pub const fn top(&self) -> Word {
        lanes_of(self.wide, 1 << (self.wide.bits() - 1))
    }

    /// 2^(2w-1) - 1 in each wide lane: all but its top bit.
    pub const fn rest(&self) -> Word {
        lanes_of(self.wide, self.wide.all_ones() >> 1)
    }

    /// 2^(w-1) in each wide lane: half of what rounding by w bits takes as one, and the bias of one narrow lane.
    pub const fn half(&self) -> Word {
        lanes_of(self.wide, 1 << (self.narrow.bits() - 1))
    }

    /// 2^(w-1) in each narrow lane: a block of zeros in offset binary.
    pub const fn zero_block(&self) -> Word {
        lanes_of(self.narrow, 1 << (self.narrow.bits() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_has_the_value() {
        for width in LaneWidth::ALL {
            let value = 0x0123_4567_89AB_CDEF;
            let word = lanes_of(width, value);
            let lane = width.bits() as usize / 8;
            for bytes in word.chunks(lane) {
                assert_eq!(bytes, &value.to_be_bytes()[8 - lane..], "{width:?}");
            }
        }
    }

    #[test]
    fn constants_of_each_format() {
        let first_wide = |word: Word| u64::from_be_bytes(*word.first_chunk().unwrap());
        let c = Constants::new(LaneWidth::W32).unwrap();
        assert_eq!(first_wide(c.plane_mask()), 0xFFFF_FFFF);
        assert_eq!(first_wide(c.high_plane_mask()), 0xFFFF_FFFF_0000_0000);
        assert_eq!(first_wide(c.ones()), 1);
        assert_eq!(first_wide(c.top()), 1 << 63);
        assert_eq!(first_wide(c.rest()), u64::MAX >> 1);
        assert_eq!(first_wide(c.half()), 0x8000_0000);
        assert_eq!(first_wide(c.zero_block()), 0x8000_0000_8000_0000);
        let c = Constants::new(LaneWidth::W8).unwrap();
        assert_eq!(first_wide(c.plane_mask()), 0x00FF_00FF_00FF_00FF);
        assert_eq!(first_wide(c.high_plane_mask()), 0xFF00_FF00_FF00_FF00);
        assert_eq!(first_wide(c.top()), 0x8000_8000_8000_8000);
        assert_eq!(first_wide(c.zero_block()), 0x8080_8080_8080_8080);
        assert_eq!(Constants::new(LaneWidth::W64), None);
    }
}
