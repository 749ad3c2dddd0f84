//! Alignment, addition and rounding (`docs/number-formats.md`), lane by lane in `i128`.

use crate::format::{Format, Kind};
use crate::packet::{NO_EXP_MAX, NO_EXP_MIN, WORD_BITS, WORD_BYTES};

/// What a contribution or a partial sum holds for one plane.
#[derive(Debug, Clone, Copy)]
pub struct Addend<'a> {
    /// Largest block exponent inside, biased; 0: nothing but zeros.
    pub exp_max: u16,
    /// Smallest block exponent inside, biased; 0xFFFF: nothing but zeros.
    pub exp_min: u16,
    /// What a lane that stands for 0 holds.
    pub bias: i128,
    /// Binary places that the lanes lie below the accumulator's unit for their exponent: the guard bits of narrow lanes, 0 for a
    /// partial sum, whose lanes already stand there.
    pub places: u8,
    /// The plane's lanes, all words, from lane 0 of the first.
    pub lanes: &'a [i128],
}

/// The sum of one plane: what the switch's accumulator words hold of it.
///
/// A wide lane holds V + bias. The unit of V is 2^(E - G), E = `exp_max`, G = guard bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlaneSum {
    /// Largest exponent so far, biased; 0: nothing but zeros.
    pub exp_max: u16,
    /// Smallest exponent so far, biased; 0xFFFF: nothing but zeros.
    pub exp_min: u16,
    /// What a wide lane whose V is 0 holds.
    pub bias: i128,
    /// The wide lanes. Empty as long as nothing was added: all 0.
    pub lanes: Vec<i128>,
}

impl Default for PlaneSum {
    fn default() -> Self {
        Self { exp_max: NO_EXP_MAX, exp_min: NO_EXP_MIN, bias: 0, lanes: Vec::new() }
    }
}

impl PlaneSum {
    /// Takes in what another packet holds, as the format has it: sums, or of sort keys the largest, whose bias counts as in a sum,
    /// though nothing depends on it.
    pub fn combine(&mut self, format: Format, guard: u8, addend: &Addend<'_>) {
        match format.kind() {
            Kind::Integer | Kind::Block => self.add(guard, addend),
            Kind::Max => self.take(guard, addend, i128::max),
        }
    }

    /// Adds what another packet holds. Once the exponents are further apart than the guard bits, the sum is void and is left alone:
    /// [`PlaneSum::out_of_range`] stays true.
    pub fn add(&mut self, guard: u8, addend: &Addend<'_>) {
        self.take(guard, addend, |sum, lane| sum + lane);
    }

    fn take(&mut self, guard: u8, addend: &Addend<'_>, combine: impl Fn(i128, i128) -> i128) {
        let old = self.exp_max;
        self.note(addend.exp_max, addend.exp_min);
        if addend.exp_max == NO_EXP_MAX {
            return;
        }
        if old == NO_EXP_MAX {
            // The first that is not all zeros is stored.
            self.bias = addend.bias << addend.places;
            self.lanes = addend.lanes.iter().map(|lane| lane << addend.places).collect();
            return;
        }
        if self.out_of_range(guard) {
            return;
        }
        // Exact: both shifts are at most the guard bits, and what they push out is 0.
        self.lanes.resize(addend.lanes.len(), 0);
        let down = self.exp_max - old;
        let below = i32::from(self.exp_max - addend.exp_max);
        let align = |lane: i128| shift(lane, i32::from(addend.places) - below);
        self.bias = shift(self.bias, -i32::from(down)) + align(addend.bias);
        for (sum, lane) in self.lanes.iter_mut().zip(addend.lanes) {
            *sum = combine(shift(*sum, -i32::from(down)), align(*lane));
        }
    }

    /// Takes in exponents alone, as of a flagged packet.
    pub fn note(&mut self, exp_max: u16, exp_min: u16) {
        self.exp_max = self.exp_max.max(exp_max);
        self.exp_min = self.exp_min.min(exp_min);
    }

    /// Whether exponents are further apart than the guard bits: the sum is void, flag `RANGE`.
    pub fn out_of_range(&self, guard: u8) -> bool {
        self.exp_max != NO_EXP_MAX && self.exp_max.wrapping_sub(self.exp_min) > u16::from(guard)
    }

    /// V of wide lane `index`.
    pub fn value(&self, index: usize) -> i128 {
        self.lanes.get(index).map_or(0, |lane| lane - self.bias)
    }
}

/// lane x 2^places, cut off below the point. Beyond 127 places (only for exponents that contradict each other, which no honest packet
/// has) nothing is left.
fn shift(lane: i128, places: i32) -> i128 {
    let count = places.unsigned_abs();
    if places >= 0 { lane.checked_shl(count).unwrap_or(0) } else { lane.checked_shr(count).unwrap_or(0) }
}

/// A root's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounded {
    /// Biased exponent of the result, 0 for a sum of nothing but zero blocks.
    pub exponent: u16,
    /// One mantissa per element, all words, from lane 0 of the first.
    pub mantissas: Vec<i64>,
}

/// Rounds a finished sum of `words` words to narrow lanes; none if it does not fit (flag `OVERFLOW`).
pub fn round(format: Format, guard: u8, planes: [&PlaneSum; 2], words: usize) -> Option<Rounded> {
    let w = format.lane_bits();
    let elements = words * format.lanes_per_word();
    // Element i is wide lane i / 2 of plane i mod 2.
    if format.kind() == Kind::Max {
        let lane = |index: usize| planes[index % 2].lanes.get(index / 2).copied().unwrap_or(0);
        let mantissas = (0..elements).map(|index| (lane(index) - narrow_bias(format)) as i64).collect();
        return Some(Rounded { exponent: planes[0].exp_max, mantissas });
    }
    let values: Vec<i128> = (0..elements).map(|index| planes[index % 2].value(index / 2)).collect();

    let measure = |value: i128| {
        let magnitude = if value >= 0 { value } else { -value - 1 };
        magnitude + ((magnitude + (1 << (w - 1))) >> w)
    };
    let all = values.iter().fold(0, |all, value| all | measure(*value));
    let shift = (i128::BITS - all.leading_zeros()).saturating_sub(w - 1);
    let most = if format.kind() == Kind::Block { w } else { 0 };
    if shift > most {
        return None;
    }
    let exp_max = planes[0].exp_max;
    let exponent = match exp_max {
        NO_EXP_MAX => NO_EXP_MAX,
        _ => exp_max.wrapping_sub(u16::from(guard)).wrapping_add(shift as u16),
    };
    Some(Rounded { exponent, mantissas: values.iter().map(|value| divide(*value, shift) as i64).collect() })
}

/// value / 2^shift to the nearest integer, ties to even.
fn divide(value: i128, shift: u32) -> i128 {
    let below = value >> shift;
    let twice_rest = (value - (below << shift)) * 2;
    let unit = 1 << shift;
    let up = twice_rest > unit || (twice_rest == unit && below % 2 != 0);
    below + i128::from(up)
}

/// The lanes of one plane of a contribution: words of narrow lanes in offset binary. Plane 0 has the even lanes.
pub fn narrow_plane(format: Format, plane: usize, words: &[u8]) -> Vec<i128> {
    lanes(words, format.lane_bits()).skip(plane).step_by(2).collect()
}

/// What a narrow lane that stands for 0 holds.
pub fn narrow_bias(format: Format) -> i128 {
    1 << (format.lane_bits() - 1)
}

/// The bias of a partial sum of so many ranks, from the packet's field. Of lanes of 64 bits the field has the low half only; without an
/// exponent every rank adds the same.
pub fn wide_bias(format: Format, field: u64, contributions: u16) -> i128 {
    if format.lane_bits() == 64 { i128::from(contributions) << 63 } else { field.into() }
}

/// The lanes of a partial sum: words of wide lanes.
pub fn wide_plane(format: Format, words: &[u8]) -> Vec<i128> {
    lanes(words, 2 * format.lane_bits()).collect()
}

/// `words` words of wide lanes.
pub fn wide_words(format: Format, sum: &PlaneSum, words: usize) -> Vec<u8> {
    let lane_bits = 2 * format.lane_bits();
    let count = words * WORD_BITS / lane_bits as usize;
    to_words(lane_bits, (0..count).map(|index| sum.lanes.get(index).copied().unwrap_or(0)))
}

/// Words of narrow lanes in offset binary: a result.
pub fn narrow_words(format: Format, mantissas: &[i64]) -> Vec<u8> {
    to_words(format.lane_bits(), mantissas.iter().map(|mantissa| i128::from(*mantissa) + narrow_bias(format)))
}

/// Lanes of whole words, from lane 0 of the first word, which is in that word's last bytes.
fn lanes(words: &[u8], bits: u32) -> impl Iterator<Item = i128> {
    let lane_bytes = bits as usize / 8;
    words.chunks_exact(WORD_BYTES).flat_map(move |word| {
        word.chunks_exact(lane_bytes)
            .rev()
            .map(|lane| lane.iter().fold(0, |value, byte| value << 8 | i128::from(*byte)))
    })
}

fn to_words(bits: u32, lanes: impl Iterator<Item = i128>) -> Vec<u8> {
    let lane_bytes = bits as usize / 8;
    let mut words: Vec<u8> = Vec::new();
    // Little-endian lanes from lane 0 on, then each word turned round: big-endian, lane 0 last.
    for lane in lanes {
        words.extend(&lane.to_le_bytes()[..lane_bytes]);
    }
    words.chunks_mut(WORD_BYTES).for_each(<[u8]>::reverse);
    words
}

#[cfg(test)]
mod tests;
