//! The rounding entries against exact arithmetic, by the formulas of `p4/round.p4`.

use proptest::prelude::*;

use inca_wire::format::{Format, Kind};

use super::*;

#[test]
fn masks_split_words_into_planes() {
    for format in Format::ALL {
        let spec = FormatSpec::of(format);
        let w = u32::from(spec.lane_bits);
        for lane in 0..2048 / w as usize {
            let ones = u64::MAX >> (64 - w);
            let (low, high) = (spec.low_mask().lane(w, lane), spec.high_mask().lane(w, lane));
            assert_eq!(
                (low, high),
                if lane % 2 == 0 { (ones, 0) } else { (0, ones) },
                "{format} lane {lane}"
            );
        }
    }
}

#[test]
fn normalization_keys_are_disjoint_and_reach_every_magnitude_that_fits() {
    for format in Format::ALL {
        let spec = FormatSpec::of(format);
        if spec.kind == Kind::Max || spec.lane_bits == 64 {
            // Nothing is measured, or only what does not fit.
            let entries = normalizations(&spec);
            assert_eq!(entries.len(), 1, "{format}");
            assert_eq!(entries[0].0, normalize::Key { format, value: 0, mask: u64::MAX });
            continue;
        }
        let keys: Vec<_> = normalizations(&spec).into_iter().map(|(key, _)| key).collect();
        for bit in 0..spec.wide_bits() {
            let hits = keys.iter().filter(|key| (1 << bit) & key.mask == key.value).count();
            // Integers: magnitudes of up to w - 1 bits. Blocks: shifts of up to w bits more.
            let fit = u32::from(spec.lane_bits) - 1
                + if spec.kind == Kind::Block { spec.lane_bits.into() } else { 0 };
            assert_eq!(hits, usize::from(bit < fit), "{format} bit {bit}");
        }
        for key in keys {
            assert_eq!(key.value & !key.mask, 0, "{key:?}: a value outside its mask is refused by P4Runtime");
        }
    }
}

/// What the switch makes of one plane of wide lanes: the narrow lanes and the shift, or `None` for overflow.
fn switch_rounds(spec: &FormatSpec, values: &[i64]) -> Option<(Vec<u64>, u32)> {
    let (w, wide) = (u32::from(spec.lane_bits), spec.wide_bits());
    let lane_mask = if wide == 64 { u64::MAX } else { (1 << wide) - 1 };
    let constants = constants(spec);
    // T = V + 2^(2w-1).
    let word =
        Word::from_lanes(wide, values.iter().map(|&value| (value as u64).wrapping_add(1 << (wide - 1))));
    let lanes = 0..2048 / wide as usize;
    let mut widest = 0;
    for i in lanes.clone() {
        let t = word.lane(wide, i);
        let top_bit = t >> constants.top_bit & constants.ones.lane(wide, i);
        let magnitude = t ^ (constants.rest.lane(wide, i) + top_bit);
        widest |=
            magnitude + (((magnitude + constants.half.lane(wide, i)) >> w) & constants.low.lane(wide, i));
    }
    // Junk above the lane, as folding leaves it.
    widest |= if wide == 64 { 0 } else { widest << wide };
    let (_, action) = normalizations(spec).into_iter().find(|(key, _)| widest & key.mask == key.value)?;
    let (shift, offset, low) = match action {
        normalize::Action::Keep { offset, .. } => (0, offset, Word::repeat(wide, u128::MAX)),
        normalize::Action::Round { shift, offset, low, .. } => (u32::from(shift), offset, low),
        normalize::Action::Overflow => return None,
    };
    let odd = if shift == 0 {
        Word::ZERO
    } else {
        Word::from_lanes(wide, lanes.clone().map(|i| word.lane(wide, i) >> shift & 1))
    };
    let sum = word.wrapping_add(offset).wrapping_add(odd);
    Some((lanes.map(|i| (sum.lane(wide, i) & lane_mask) >> shift & low.lane(wide, i)).collect(), shift))
}

/// The document's rule: the smallest shift at which every lane fits, to nearest, ties to even.
fn exact_rounding(spec: &FormatSpec, values: &[i64]) -> Option<(Vec<u64>, u32)> {
    let w = u32::from(spec.lane_bits);
    let x = values.iter().fold(0u128, |all, &v| {
        let m = u128::from(if v >= 0 { v as u64 } else { !v as u64 });
        all | (m + ((m + (1 << (w - 1))) >> w))
    });
    let shift = (128 - x.leading_zeros()).saturating_sub(w - 1);
    if shift > if spec.kind == Kind::Block { w } else { 0 } {
        return None;
    }
    let rounded = values.iter().map(|&v| {
        let (v, unit) = (i128::from(v), 1i128 << shift);
        let (floor, rest) = (v.div_euclid(unit), v.rem_euclid(unit));
        let up = 2 * rest > unit || (2 * rest == unit && floor % 2 != 0);
        let mantissa = floor + i128::from(up);
        assert!((-(1i128 << (w - 1))..1 << (w - 1)).contains(&mantissa), "{mantissa} does not fit {w} bits");
        (mantissa + (1 << (w - 1))) as u64
    });
    Some((rounded.collect(), shift))
}

fn values(bits: u32, lanes: usize) -> impl Strategy<Value = Vec<i64>> {
    // Any width up to the lane's, with the edges of each power of two often.
    (1..bits).prop_flat_map(move |width| {
        let bound = 1i64 << (width - 1);
        let edge = prop_oneof![Just(bound - 1), Just(-bound), Just(bound / 2), Just(-bound / 2 - 1), Just(0)];
        prop::collection::vec(prop_oneof![3 => -bound..bound, 1 => edge], lanes)
    })
}

proptest! {
    #[test]
    fn bfp16_rounds_to_nearest_even(values in values(32, 64)) {
        let spec = FormatSpec::of(Format::Bfp16);
        prop_assert_eq!(switch_rounds(&spec, &values), exact_rounding(&spec, &values));
    }

    #[test]
    fn bfp8_rounds_to_nearest_even(values in values(16, 128)) {
        let spec = FormatSpec::of(Format::Bfp8);
        prop_assert_eq!(switch_rounds(&spec, &values), exact_rounding(&spec, &values));
    }

    #[test]
    fn bfp32_rounds_to_nearest_even(values in values(64, 32)) {
        let spec = FormatSpec::of(Format::Bfp32);
        prop_assert_eq!(switch_rounds(&spec, &values), exact_rounding(&spec, &values));
    }

    #[test]
    fn i32_is_kept_or_overflows(values in values(48, 32)) {
        let spec = FormatSpec::of(Format::I32);
        prop_assert_eq!(switch_rounds(&spec, &values), exact_rounding(&spec, &values));
    }
}
