use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed as _, Zero as _};
use proptest::prelude::*;

use super::*;

const SMALL: [FloatKind; 4] = [FloatKind::F16, FloatKind::BF16, FloatKind::E4M3, FloatKind::E5M2];

/// The exact value of finite bits.
pub(crate) fn value(kind: FloatKind, bits: u32) -> Option<BigRational> {
    let Decoded::Finite { negative, significand, exponent } = kind.decode(bits) else { return None };
    let value = BigRational::from_integer(significand.into()) * power(exponent);
    Some(if negative { -value } else { value })
}

pub(crate) fn power(exponent: i32) -> BigRational {
    let two = BigRational::from_integer(2.into());
    two.pow(exponent)
}

/// Rounding by search: the nearest of two neighbours, the even one at a tie; beyond the largest number, half a step decides.
pub(crate) fn nearest(kind: FloatKind, exact: &BigRational) -> u32 {
    let magnitude = exact.abs();
    let (mut low, mut high) = (0, kind.beyond_range(false));
    while high - low > 1 {
        let middle = low.midpoint(high);
        if value(kind, middle).expect("finite") <= magnitude { low = middle } else { high = middle }
    }
    let below = value(kind, low).expect("finite");
    // What the number after the largest would be.
    let above = value(kind, high).unwrap_or_else(|| {
        let step = &below - value(kind, low - 1).expect("finite");
        &below + step
    });
    let (down, up) = (&magnitude - &below, &above - &magnitude);
    let rounded = if down < up || (down == up && low % 2 == 0) { low } else { high };
    let rounded = rounded.min(kind.beyond_range(false));
    if exact.is_negative() { rounded | kind.sign() } else { rounded }
}

#[test]
fn small_formats_have_the_values_that_their_definitions_say() {
    let f32_of = |kind: FloatKind, bits| kind.to_f32(bits);
    assert_eq!(f32_of(FloatKind::E4M3, 0x7E), 448.0);
    assert_eq!(f32_of(FloatKind::E4M3, 0x08), 2f32.powi(-6));
    assert_eq!(f32_of(FloatKind::E4M3, 0x01), 2f32.powi(-9));
    assert!(f32_of(FloatKind::E4M3, 0x7F).is_nan() && f32_of(FloatKind::E4M3, 0xFF).is_nan());
    assert_eq!(f32_of(FloatKind::E5M2, 0x7B), 57344.0);
    assert_eq!(f32_of(FloatKind::E5M2, 0x01), 2f32.powi(-16));
    assert_eq!(f32_of(FloatKind::E5M2, 0xFC), f32::NEG_INFINITY);
    assert!(f32_of(FloatKind::E5M2, 0x7D).is_nan());
    for bits in 0..=u16::MAX {
        let (ours, theirs) = (FloatKind::F16.to_f32(bits.into()), half::f16::from_bits(bits).to_f32());
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#06x}");
        let (ours, theirs) = (FloatKind::BF16.to_f32(bits.into()), half::bf16::from_bits(bits).to_f32());
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#06x}");
    }
}

#[test]
fn every_number_rounds_to_itself() {
    for kind in SMALL {
        for bits in 0..1u32 << kind.bits() {
            if let Decoded::Finite { negative, significand, exponent } = kind.decode(bits) {
                assert_eq!(kind.round(negative, &[significand.into()], false, exponent), bits, "{kind:?}");
                assert_eq!(kind.from_f64(kind.to_f32(bits).into()), bits, "{kind:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn rounding_is_to_the_nearest(
        kind in prop::sample::select(vec![
            FloatKind::F32, FloatKind::F16, FloatKind::BF16, FloatKind::E4M3, FloatKind::E5M2,
        ]),
        negative in any::<bool>(),
        magnitude in prop_oneof![
            any::<u64>().prop_map(|low| vec![low]),
            (any::<u64>(), 0u64..4).prop_map(|(low, high)| vec![low, high]),
            // Ties and their neighbours.
            (0u64..64, 0u32..60, -1i64..=1).prop_map(|(top, shift, near)| vec![(((2 * top + 1) << shift) as i64 + near) as u64 & (u64::MAX >> 1)]),
        ],
        exponent in -340i32..140,
    ) {
        let exponent = if kind.exponent_bits < 8 { exponent / 6 } else { exponent };
        let integer = magnitude.iter().rev().fold(BigInt::zero(), |sum, limb| (sum << 64) + *limb);
        let exact = BigRational::from_integer(integer) * power(exponent);
        let exact = if negative { -exact } else { exact };
        let sign = if negative { kind.sign() } else { 0 };
        prop_assert_eq!(kind.round(negative, &magnitude, false, exponent), nearest(kind, &exact) | sign);
    }

    #[test]
    fn f64_rounds_as_the_language_does(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        prop_assert_eq!(FloatKind::F32.from_f64(value), (value as f32).to_bits());
        let near = f64::from(value as f32) * (1.0 + 2f64.powi(-30));
        if near.is_finite() {
            prop_assert_eq!(FloatKind::F32.from_f64(near), (near as f32).to_bits());
        }
    }

    #[test]
    fn wide_sums_and_quotients_are_exact(
        parts in prop::collection::vec((any::<i64>(), 0u32..230), 1..6),
        ranks in prop_oneof![Just(1u32), 1u32..65536],
        exponent in -149i32..-140,
        kind in prop::sample::select(vec![FloatKind::F32, FloatKind::BF16, FloatKind::F16]),
    ) {
        let mut wide = Wide::default();
        let mut exact = BigInt::zero();
        for (value, shift) in parts {
            wide.add_shifted(value, shift);
            exact += BigInt::from(value) << shift;
        }
        let quotient = BigRational::from_integer(exact) / BigRational::from_integer(ranks.into()) * power(exponent);
        prop_assert_eq!(wide.round(kind, ranks, exponent), nearest(kind, &quotient));
    }
}
