//! The sum of a chunk against exact integers, and the same in every order and every tree.

use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;
use crate::format::{Encoded, biased, unbiased};
use crate::model::allreduce::{ChunkResult, sum_chunk};
use crate::packet::{EXP_BIAS, Flags};

/// Exact numbers are integers in units of 2^-400.
const UNIT: i32 = -400;

fn exact(mantissa: impl Into<BigInt>, exponent: u16) -> BigInt {
    mantissa.into() << (unbiased(exponent) - UNIT) as u32
}

/// One rank's block, as its mantissas and exponent.
#[derive(Debug, Clone)]
struct Block {
    exponent: u16,
    mantissas: Vec<i64>,
}

impl Block {
    fn contribution(&self, format: Format) -> (Encoded, Vec<u8>) {
        let encoded = if self.exponent == 0 { Encoded::ZERO } else { Encoded::at(self.exponent) };
        (encoded, narrow_words(format, &self.mantissas))
    }

    fn exact(&self, lane: usize) -> BigInt {
        if self.exponent == 0 { 0.into() } else { exact(self.mantissas[lane], self.exponent) }
    }
}

/// Blocks of one word: exponents within `spread` of each other anywhere a host may send them, some of nothing but zeros; lanes of
/// all sizes, extremes included.
fn blocks(ranks: std::ops::RangeInclusive<usize>, spread: i32) -> impl Strategy<Value = Vec<Block>> {
    let lane = prop_oneof![
        3 => -32767..=32767i64,
        2 => -300..=300i64,
        1 => prop_oneof![Just(32767), Just(-32767), Just(0), Just(1), Just(-1), Just(16384), Just(-16384)],
    ];
    let block = (0..=spread, prop::bool::weighted(0.15), prop::collection::vec(lane, 128));
    (-149..=114 - spread, prop::collection::vec(block, ranks)).prop_map(|(lowest, blocks)| {
        let block = |(above, zero, mantissas): (i32, bool, Vec<i64>)| {
            if zero {
                Block { exponent: 0, mantissas: vec![0; 128] }
            } else {
                Block { exponent: biased(lowest + above), mantissas }
            }
        };
        blocks.into_iter().map(block).collect()
    })
}

fn guard(ranks: usize) -> u8 {
    Format::Bfp16.guard_bits(ranks).unwrap()
}

fn sum(format: Format, guard: u8, blocks: &[Block]) -> ChunkResult {
    let contributions: Vec<_> = blocks.iter().map(|block| block.contribution(format)).collect();
    sum_chunk(format, guard, 1, &contributions)
}

fn mantissas(format: Format, words: &[u8]) -> Vec<i128> {
    lanes(words, format.lane_bits()).map(|lane| lane - narrow_bias(format)).collect()
}

/// value / 2^shift rounded to nearest, ties to even, written another way than the model's.
fn rounded(value: &BigInt, shift: u32) -> BigInt {
    let unit = BigInt::from(1) << shift;
    let twice: BigInt = value * 2;
    let mut nearest: BigInt = (&twice + &unit) >> (shift + 1);
    let is_tie = shift > 0 && (&nearest << (shift + 1)) == &twice + &unit;
    if is_tie && nearest.bit(0) {
        nearest -= 1;
    }
    nearest
}

/// What the document says the root must return, in unbounded integers: none beyond the guard bits.
fn expected(guard: u8, blocks: &[Block]) -> Option<(u16, Vec<BigInt>)> {
    let exponents: Vec<u16> = blocks.iter().map(|block| block.exponent).filter(|e| *e != 0).collect();
    let (Some(max), Some(min)) = (exponents.iter().max(), exponents.iter().min()) else {
        return Some((0, vec![0.into(); 128]));
    };
    if max - min > u16::from(guard) {
        return None;
    }
    let base = max - u16::from(guard);
    let down = (unbiased(base) - UNIT) as u32;
    let values: Vec<BigInt> = (0..128)
        .map(|lane| blocks.iter().map(|block| block.exact(lane)).sum::<BigInt>())
        .map(|sum| {
            let value: BigInt = &sum >> down;
            assert_eq!(&value << down, sum, "the accumulator's unit divides every sum");
            value
        })
        .collect();
    let fits = |shift: u32| {
        values.iter().all(|value| {
            let judged = if value.sign() == num_bigint::Sign::Minus { -value - 1 } else { value.clone() };
            rounded(&judged, shift) <= BigInt::from(32767)
        })
    };
    let shift = (0..40).find(|shift| fits(*shift)).unwrap();
    Some((base + shift as u16, values.iter().map(|value| rounded(value, shift)).collect()))
}

/// Sums a list of ranks in a random tree: a switch's children are ranks and other switches, whose packets are the wide words of
/// their planes.
fn tree_sum(
    format: Format,
    guard: u8,
    ranks: &[(Encoded, Vec<u8>)],
    cuts: &mut impl Iterator<Item = usize>,
) -> (Flags, [PlaneSum; 2]) {
    let mut flags = Flags::NONE;
    let mut sums = [PlaneSum::default(), PlaneSum::default()];
    let mut left = ranks;
    while !left.is_empty() {
        let cut = cuts.next().unwrap_or(0);
        // At most all ranks but one below the next switch, so that every tree ends.
        let (part, rest) = left.split_at((1 + cut / 2 % left.len()).min(ranks.len() - 1).max(1));
        left = rest;
        match part {
            [(encoded, words)] if cut.is_multiple_of(2) => {
                for (plane, sum) in sums.iter_mut().enumerate() {
                    let lanes = narrow_plane(format, plane, words);
                    let (exp_max, exp_min, bias) = (encoded.exp_max, encoded.exp_min, narrow_bias(format));
                    sum.add(guard, &Addend { exp_max, exp_min, bias, places: guard, lanes: &lanes });
                }
            }
            part => {
                let (child_flags, child) = tree_sum(format, guard, part, cuts);
                flags |= child_flags;
                take_partial(format, guard, child_flags, &mut sums, &child);
            }
        }
    }
    if sums[0].out_of_range(guard) {
        flags |= Flags::RANGE;
    }
    (flags, sums)
}

fn take_partial(format: Format, guard: u8, flags: Flags, sums: &mut [PlaneSum; 2], child: &[PlaneSum; 2]) {
    for (sum, child) in sums.iter_mut().zip(child) {
        if flags.is_empty() {
            let wire = wide_words(format, child, 1);
            let lanes = wide_plane(format, &wire);
            let (exp_max, exp_min, bias) = (child.exp_max, child.exp_min, i128::from(child.bias as u64));
            sum.add(guard, &Addend { exp_max, exp_min, bias, places: 0, lanes: &lanes });
        } else {
            sum.note(child.exp_max, child.exp_min);
        }
    }
}

fn finish(format: Format, guard: u8, flags: Flags, sums: &[PlaneSum; 2]) -> ChunkResult {
    let [low, high] = sums;
    let void = |flags| ChunkResult { flags, exp_max: low.exp_max, exp_min: low.exp_min, words: Vec::new() };
    if !flags.is_empty() {
        return void(flags);
    }
    match round(format, guard, [low, high], 1) {
        Some(rounded) => ChunkResult {
            flags,
            exp_max: rounded.exponent,
            exp_min: low.exp_min,
            words: narrow_words(format, &rounded.mantissas),
        },
        None => void(Flags::OVERFLOW),
    }
}

fn check_against_exact(guard: u8, blocks: &[Block]) -> Result<(), TestCaseError> {
    let result = sum(Format::Bfp16, guard, blocks);
    match expected(guard, blocks) {
        None => {
            prop_assert_eq!(result.flags, Flags::RANGE);
            let exponents = blocks.iter().map(|block| block.exponent).filter(|e| *e != 0);
            prop_assert_eq!(Some(result.exp_max), exponents.clone().max());
            prop_assert_eq!(Some(result.exp_min), exponents.min());
            prop_assert!(result.words.is_empty());
        }
        Some((exponent, lanes)) => {
            prop_assert_eq!(result.flags, Flags::NONE);
            prop_assert_eq!(result.exp_max, exponent);
            let got: Vec<BigInt> =
                mantissas(Format::Bfp16, &result.words).into_iter().map(BigInt::from).collect();
            prop_assert_eq!(got, lanes);
        }
    }
    Ok(())
}

/// Every order of up to five ranks: Heap's algorithm.
fn permutations<T: Clone>(items: &mut Vec<T>, count: usize, visit: &mut impl FnMut(&[T])) {
    if count <= 1 {
        return visit(items);
    }
    for index in 0..count {
        permutations(items, count - 1, visit);
        items.swap(if count.is_multiple_of(2) { index } else { 0 }, count - 1);
    }
}

#[test]
fn the_worst_case_fills_but_never_leaves_its_lane() {
    for ranks in [1, 2, 3, 5, 64, 1000] {
        for mantissa in [32767, -32768] {
            let blocks = vec![Block { exponent: EXP_BIAS, mantissas: vec![mantissa; 128] }; ranks];
            let contributions: Vec<_> =
                blocks.iter().map(|block| block.contribution(Format::Bfp16)).collect();
            let mut cuts = (0..).map(|n| n * 7);
            let (_, sums) = tree_sum(Format::Bfp16, guard(ranks), &contributions, &mut cuts);
            for sum in &sums {
                assert!(
                    sum.bias < 1 << 32 && sum.lanes.iter().all(|lane| (0..1 << 32).contains(lane)),
                    "{ranks} ranks"
                );
            }
            let result = sum(Format::Bfp16, guard(ranks), &blocks);
            // No host sends -32768; the sum would be right up to the very end of the lane.
            let overflows = mantissa == -32768 && ranks.is_power_of_two() && ranks > 1;
            assert_eq!(result.flags.contains(Flags::OVERFLOW), overflows, "{ranks} times {mantissa}");
        }
    }
}

#[test]
fn rounding_carries_into_the_next_exponent() {
    // 2 x 32767 + 1 = 65535: at one bit less it would round to 32768.
    let block = |mantissa| Block { exponent: EXP_BIAS, mantissas: vec![mantissa; 128] };
    let result = sum(Format::Bfp16, guard(3), &[block(32767), block(32767), block(1)]);
    assert_eq!((result.exp_max, mantissas(Format::Bfp16, &result.words)[0]), (EXP_BIAS + 2, 16384));
    // One less is even after one shift.
    let result = sum(Format::Bfp16, guard(3), &[block(32767), block(32767), block(0)]);
    assert_eq!((result.exp_max, mantissas(Format::Bfp16, &result.words)[0]), (EXP_BIAS + 1, 32767));
    // Its negative is judged as -V - 1 = 65534, and -65535 / 2 ties to the even -32768.
    let result = sum(Format::Bfp16, guard(3), &[block(-32767), block(-32767), block(-1)]);
    assert_eq!((result.exp_max, mantissas(Format::Bfp16, &result.words)[0]), (EXP_BIAS + 1, -32768));
}

/// Sums around every point where a carry of rounding asks for one more bit, alone in their word.
#[test]
fn the_shift_is_the_smallest_that_fits() {
    for s in 0..=16u32 {
        let edge = (1i128 << (15 + s)) - (1i128 << s >> 1);
        for value in (edge - 3..=edge + 3).flat_map(|value| [value, -value]) {
            let sum = PlaneSum {
                exp_max: EXP_BIAS,
                exp_min: EXP_BIAS,
                bias: 1 << 33,
                lanes: vec![value + (1 << 33)],
            };
            let result = round(Format::Bfp16, 15, [&sum, &PlaneSum::default()], 1);
            let judged = BigInt::from(if value < 0 { -value - 1 } else { value });
            let smallest = (0..40u32).find(|shift| rounded(&judged, *shift) <= BigInt::from(32767)).unwrap();
            let expected = (smallest <= 16)
                .then(|| (EXP_BIAS - 15 + smallest as u16, rounded(&BigInt::from(value), smallest)));
            let result = result.map(|rounded| (rounded.exponent, BigInt::from(rounded.mantissas[0])));
            assert_eq!(result, expected, "{value}");
        }
    }
}

#[test]
fn i32_sums_fit_or_overflow() {
    let word = |value: i32| Block { exponent: EXP_BIAS, mantissas: vec![value.into(); 64] };
    let sum = |values: &[i32]| {
        let blocks: Vec<Block> = values.iter().map(|value| word(*value)).collect();
        let result = sum(Format::I32, 0, &blocks);
        (result.flags, mantissas(Format::I32, &result.words).first().copied())
    };
    assert_eq!(sum(&[i32::MAX, 1, -1]), (Flags::NONE, Some(i32::MAX.into())));
    assert_eq!(sum(&[i32::MIN, -1, 1]), (Flags::NONE, Some(i32::MIN.into())));
    assert_eq!(sum(&[i32::MAX, 1]), (Flags::OVERFLOW, None));
    assert_eq!(sum(&[i32::MIN, -1]), (Flags::OVERFLOW, None));
    // Seven numbers of four bits, whose running sum leaves four bits on the way.
    assert_eq!(sum(&[7, -5, 5, 5, -3, -7]), (Flags::NONE, Some(2)));
}

proptest! {
    #[test]
    fn sums_are_exact_within_the_guard_bits(blocks in blocks(1..=9, 13)) {
        check_against_exact(guard(blocks.len()), &blocks)?;
    }

    #[test]
    fn exponents_far_apart_are_flagged(blocks in blocks(1..=9, 40)) {
        check_against_exact(guard(blocks.len()), &blocks)?;
    }

    #[test]
    fn a_group_may_be_larger_than_the_ranks_that_send(blocks in blocks(1..=4, 8), world in 4..2000usize) {
        check_against_exact(guard(world), &blocks)?;
    }

    #[test]
    fn order_does_not_matter(blocks in blocks(1..=5, 20)) {
        let guard = guard(blocks.len());
        let expected = sum(Format::Bfp16, guard, &blocks);
        let mut wrong = None;
        permutations(&mut blocks.clone(), blocks.len(), &mut |order| {
            if sum(Format::Bfp16, guard, order) != expected {
                wrong = Some(order.to_vec());
            }
        });
        prop_assert!(wrong.is_none(), "{wrong:?}");
    }

    /// Partial sums are the same words for every order and shape too, and so is what the root makes of them.
    #[test]
    fn tree_shape_does_not_matter(
        blocks in blocks(1..=12, 16), cuts in prop::collection::vec(any::<usize>(), 40), turn: usize,
    ) {
        let format = Format::Bfp16;
        let guard = guard(blocks.len());
        let mut ranks: Vec<_> = blocks.iter().map(|block| block.contribution(format)).collect();
        let flat = tree_sum(format, guard, &ranks, &mut std::iter::empty());
        ranks.rotate_left(turn % blocks.len());
        let tree = tree_sum(format, guard, &ranks, &mut cuts.into_iter());
        prop_assert_eq!(flat.0, tree.0);
        if flat.0.is_empty() {
            prop_assert_eq!(&flat.1, &tree.1);
        }
        let expected = sum(format, guard, &blocks);
        prop_assert_eq!(&finish(format, guard, tree.0, &tree.1), &expected);
    }

    #[test]
    fn i32_sums_are_exact_in_every_tree(
        ranks in prop::collection::vec(prop::collection::vec(any::<i32>(), 64), 1..=9),
        cuts in prop::collection::vec(any::<usize>(), 30), shrink in 0..8u32,
    ) {
        let format = Format::I32;
        // Sums of small numbers fit, of large ones rarely do.
        let block = |lanes: &Vec<i32>| Block { exponent: EXP_BIAS, mantissas: lanes.iter().map(|lane| i64::from(lane >> shrink)).collect() };
        let blocks: Vec<Block> = ranks.iter().map(block).collect();
        let exact: Vec<i128> = (0..64).map(|lane| blocks.iter().map(|block| i128::from(block.mantissas[lane])).sum()).collect();
        let fits = exact.iter().all(|sum| i32::try_from(*sum).is_ok());
        let contributions: Vec<_> = blocks.iter().map(|block| block.contribution(format)).collect();
        let (flags, sums) = tree_sum(format, 0, &contributions, &mut cuts.into_iter());
        let result = finish(format, 0, flags, &sums);
        prop_assert_eq!(result.flags, if fits { Flags::NONE } else { Flags::OVERFLOW });
        if fits {
            prop_assert_eq!(mantissas(format, &result.words), exact);
        }
        prop_assert_eq!(result, sum(format, 0, &blocks));
    }

    #[test]
    fn lanes_round_trip(words in prop::collection::vec(any::<u8>(), 2 * WORD_BYTES)) {
        for bits in [16, 32, 64] {
            prop_assert_eq!(&to_words(bits, lanes(&words, bits)), &words);
        }
    }
}
