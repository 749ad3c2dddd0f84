//! Whole tensors: the known cases by their names, and the stated error bound.

use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

fn sum_f32(inputs: &[Vec<f32>]) -> Reference<Vec<f32>> {
    allreduce_f32(inputs, 5).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Every rotation of the ranks gives the same bits; returns them.
fn same_bits_for_every_rotation(mut inputs: Vec<Vec<f32>>) -> Vec<f32> {
    let result = sum_f32(&inputs);
    for _ in 0..inputs.len() {
        inputs.rotate_left(1);
        assert_eq!(bits(&sum_f32(&inputs).elements), bits(&result.elements));
    }
    result.elements
}

/// The bound of `docs/number-formats.md` for one chunk: (sum of the ranks' largest magnitudes) / 16383 if every rank was encoded at its
/// own exponent, (ranks x the largest of all) / 16383 if at a common one.
fn bound(inputs: &[Vec<f32>], flags: Flags) -> f64 {
    let largest = |input: &Vec<f32>| {
        input.iter().filter(|value| value.is_finite()).fold(0.0f64, |m, value| m.max(f64::from(value.abs())))
    };
    let each = inputs.iter().map(largest);
    let total: f64 = match flags {
        Flags::NONE => each.sum(),
        _ => each.fold(0.0, f64::max) * inputs.len() as f64,
    };
    total / 16383.0
}

/// An f32 in units of 2^-149: exact.
fn exact(value: f32) -> BigInt {
    let (sign, stored, fraction) =
        (value.to_bits() >> 31, value.to_bits() >> 23 & 0xFF, value.to_bits() & 0x7F_FFFF);
    let (significand, shift) = if stored == 0 { (fraction, 0) } else { (fraction | 0x80_0000, stored - 1) };
    let magnitude = BigInt::from(significand) << shift;
    if sign == 1 { -magnitude } else { magnitude }
}

#[test]
fn n1_zero_blocks() {
    let zeros = vec![0.0f32; 256];
    for inputs in [vec![zeros.clone(); 3], vec![vec![-0.0; 256], zeros.clone()]] {
        assert!(sum_f32(&inputs).elements.iter().all(|value| value.to_bits() == 0));
    }
    let ones: Vec<f32> = (0..256).map(|index| index as f32 / 16.0).collect();
    assert_eq!(
        same_bits_for_every_rotation(vec![zeros, ones.clone(), ones.clone()])[255],
        2.0 * 255.0 / 16.0
    );

    // Chunks of one word: the second to fourth block are all zero.
    let mut one = vec![0.0; 512];
    one[0] = 1.0;
    let result = allreduce_f32(&[one.clone(), one], 1).unwrap();
    assert_eq!(result.elements[0], 2.0);
    assert!(result.elements[1..].iter().all(|value| value.to_bits() == 0));
    assert_eq!(result.flags, [Flags::NONE; 4]);
}

#[test]
fn n2_tiny_numbers() {
    for tiny in [1e-30f32, 1e-38, 1e-45] {
        let inputs = vec![vec![tiny; 300], vec![-tiny / 2.0; 300], vec![tiny * 3.0; 300]];
        let expected = f64::from(tiny) + f64::from(-tiny / 2.0) + f64::from(tiny * 3.0);
        for value in same_bits_for_every_rotation(inputs.clone()) {
            assert!(
                (f64::from(value) - expected).abs() <= bound(&inputs, Flags::NONE),
                "{value} for {expected}"
            );
        }
    }
    // Multiples of the smallest f32 below 2^-134 are exact.
    assert_eq!(sum_f32(&[vec![1e-45], vec![1e-45], vec![3e-45]]).elements, [f32::from_bits(4)]);

    let mut mixed = vec![1e-30f32; 300];
    mixed[7] = 1.0;
    let values = same_bits_for_every_rotation(vec![mixed.clone(), mixed]);
    assert_eq!(values[7], 2.0);
    assert!(values.iter().enumerate().all(|(index, value)| index == 7 || value.to_bits() == 0));
}

#[test]
fn n3_largest_numbers() {
    let (max, two_127) = (f32::MAX, 2f32.powi(127));
    assert_eq!(sum_f32(&[vec![two_127], vec![-two_127]]).elements, [0.0]);
    assert_eq!(sum_f32(&[vec![max, 1.0], vec![-max, 1.0]]).elements[0].to_bits(), 0);
    assert_eq!(same_bits_for_every_rotation(vec![vec![max], vec![max], vec![-max], vec![-max]]), [0.0]);
    assert_eq!(same_bits_for_every_rotation(vec![vec![max], vec![max]]), [f32::INFINITY]);
    assert_eq!(same_bits_for_every_rotation(vec![vec![-max], vec![-max]]), [f32::NEG_INFINITY]);
    assert_eq!(same_bits_for_every_rotation(vec![vec![two_127], vec![two_127]]), [f32::INFINITY]);
    assert_eq!(sum_f32(&[vec![two_127], vec![two_127 / 2.0]]).elements, [two_127 * 1.5]);
    // The stated policy: from 2^128 - 2^112 on, 16 bits round to 2^128, which no f32 holds.
    assert_eq!(sum_f32(&[vec![max], vec![0.0]]).elements, [f32::INFINITY]);
    let last = f32::from_bits(f32::MAX.to_bits() - 0x100);
    assert_eq!(sum_f32(&[vec![last], vec![0.0]]).elements, [32767.0 * 2f32.powi(113)]);
}

#[test]
fn n4_nan_on_each_rank_in_turn() {
    for element in [0, 511] {
        let mut results = Vec::new();
        for rank in 0..4 {
            let mut inputs: Vec<Vec<f32>> = [1.0, 2.0, 3.0, 4.0].map(|value| vec![value; 512]).to_vec();
            for (index, input) in inputs.iter_mut().enumerate() {
                input[element] = if index == rank { f32::NAN } else { 0.25 };
            }
            let result = allreduce_f32(&inputs, 5).unwrap();
            assert_eq!(result.flags, [Flags::NONFINITE]);
            results.push(result.elements);
        }
        for result in &results {
            assert_eq!(bits(result), bits(&results[0]));
            for (index, value) in result.iter().enumerate() {
                if index == element {
                    assert_eq!(value.to_bits(), 0x7FC0_0000);
                } else {
                    assert_eq!(*value, 10.0);
                }
            }
        }
    }
}

#[test]
fn n4_infinities() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let inputs = vec![vec![inf, inf, -inf, 1.0, nan], vec![1.0, -inf, -inf, 2.0, inf], vec![5.0; 5]];
    let result = same_bits_for_every_rotation(inputs);
    assert_eq!(bits(&result), bits(&[inf, nan, -inf, 8.0, nan]));
}

/// Not finite and out of range at once: passes 0, 2, 3, 4 and 5.
#[test]
fn n4_nan_among_exponents_far_apart() {
    let inputs = vec![vec![1.0, f32::NAN, 1.0], vec![1e-20; 3], vec![0.0, 0.0, 3.0]];
    let result = allreduce_f32(&inputs, 5).unwrap();
    assert_eq!(result.flags, [Flags::NONFINITE | Flags::RANGE]);
    assert_eq!(bits(&result.elements), bits(&[1.0, f32::from_bits(0x7FC0_0000), 4.0]));
}

#[test]
fn n5_integers_never_wrap() {
    let sum = |inputs: &[Vec<i32>]| allreduce_i32(inputs, 5);
    assert_eq!(sum(&[vec![120, -100], vec![100, -100]]).unwrap().elements, [220, -200]);
    assert_eq!(sum(&vec![vec![127]; 300]).unwrap().elements, [127 * 300]);
    assert_eq!(sum(&[vec![i32::MAX], vec![1]]), Err(ReferenceError::Overflow { index: 0, sum: 1 << 31 }));
    let sum_below = -(1 << 31) - 1;
    assert_eq!(sum(&[vec![i32::MIN], vec![-1]]), Err(ReferenceError::Overflow { index: 0, sum: sum_below }));
    assert_eq!(sum(&[vec![i32::MAX], vec![1], vec![-1]]).unwrap().elements, [i32::MAX]);
    // The second chunk of one word.
    let mut late = vec![0; 65];
    late[64] = i32::MAX;
    let error = ReferenceError::Overflow { index: 64, sum: (1 << 32) - 2 };
    assert_eq!(allreduce_i32(&[late.clone(), late], 1), Err(error));
}

#[test]
fn n9_large_and_small_in_one_block() {
    assert_eq!(sum_f32(&[vec![3000.0], vec![3000.0]]).elements, [6000.0]);
    let small = sum_f32(&[vec![4e-7], vec![4e-7]]).elements[0];
    assert!((f64::from(small) - 8e-7).abs() <= 8e-7 / 16383.0);
    let inputs = vec![vec![3000.0, 4e-7], vec![3000.0, 4e-7]];
    let both = same_bits_for_every_rotation(inputs.clone());
    assert_eq!(both[0], 6000.0);
    assert!(f64::from(both[1]).abs() <= bound(&inputs, Flags::NONE));
}

/// Two ranks far apart repeat the chunk at the larger exponent, and the smaller one still counts where it can.
#[test]
fn exponents_far_apart_take_a_second_pass() {
    let inputs = vec![vec![1.0, 0.0], vec![0.0, 2f32.powi(-16)]];
    assert_eq!(sum_f32(&inputs).flags, [Flags::RANGE]);
    // At exponent -14 the small one rounds to 0: 2^-16 is a quarter of the unit.
    assert_eq!(sum_f32(&inputs).elements, [1.0, 0.0]);
    assert_eq!(sum_f32(&[vec![1.0, 0.0], vec![0.0, 2f32.powi(-15)]]).flags, [Flags::NONE]);
}

#[test]
fn wrong_inputs_are_refused() {
    let elements = ReferenceError::Elements { rank: 1, given: 3, expected: 2 };
    assert_eq!(allreduce_f32(&[vec![0.0; 2], vec![0.0; 3]], 5), Err(elements));
    assert_eq!(allreduce_f32(&[vec![0.0; 2]], 33), Err(ReferenceError::ChunkWords(33)));
    assert!(matches!(allreduce_f32(&[], 5), Err(ReferenceError::NoRanks)));
    let empty = allreduce_f32(&[vec![], vec![]], 5).unwrap();
    assert!(empty.elements.is_empty() && empty.flags.is_empty());
}

/// Ranks whose numbers are of like size, or of very different ones.
fn tensors() -> impl Strategy<Value = Vec<Vec<f32>>> {
    let scale = prop_oneof![2 => Just(0), 2 => -6..=6i32, 1 => -120..=120i32];
    (1..=6usize, 1..=300usize).prop_flat_map(move |(ranks, elements)| {
        let rank = (scale.clone(), prop::collection::vec(-1.0f32..1.0, elements));
        let rank =
            rank.prop_map(|(scale, values)| values.iter().map(|value| value * 2f32.powi(scale)).collect());
        prop::collection::vec(rank, ranks)
    })
}

proptest! {
    #[test]
    fn bfp16_is_within_its_bound(inputs in tensors()) {
        let result = sum_f32(&inputs);
        // One chunk: 300 elements fit five words.
        let flags = result.flags[0];
        prop_assert!(flags == Flags::NONE || flags == Flags::RANGE);
        let bound = bound(&inputs, flags);
        for (index, value) in result.elements.iter().enumerate() {
            let sum: BigInt = inputs.iter().map(|input| exact(input[index])).sum();
            let error = sum - exact(*value);
            // The error in units of 2^-149, as the nearest f64: far more than the digits that the comparison needs.
            let magnitude = error.magnitude();
            let shift = magnitude.bits().saturating_sub(60);
            let error = (magnitude >> shift).iter_u64_digits().next().unwrap_or(0) as f64 * 2f64.powi(shift as i32 - 149);
            prop_assert!(error <= bound, "element {index}: off by {error}, bound {bound}");
        }
    }

    #[test]
    fn ranks_may_swap(inputs in tensors()) {
        same_bits_for_every_rotation(inputs);
    }

    #[test]
    fn i32_tensors_are_exact(inputs in (1..=5usize, 1..=200usize).prop_flat_map(|(ranks, elements)| {
        prop::collection::vec(prop::collection::vec(-400_000_000..400_000_000i32, elements), ranks)
    }), chunk_words in 1..=4usize) {
        let expected: Vec<i32> = (0..inputs[0].len()).map(|index| inputs.iter().map(|input| input[index]).sum()).collect();
        prop_assert_eq!(allreduce_i32(&inputs, chunk_words).unwrap().elements, expected);
    }
}
