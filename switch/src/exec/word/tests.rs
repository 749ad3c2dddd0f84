//! Words against the arithmetic for any number of limbs.

use super::super::wide;
use super::*;

/// Words with long runs of ones and zeros, where carries go far.
fn words(seed: u64) -> [Word; 2] {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        match state >> 62 {
            0 => 0,
            1 => u64::MAX,
            _ => state,
        }
    };
    [Word(std::array::from_fn(|_| next())), Word(std::array::from_fn(|_| next()))]
}

/// Both words in memory, `x` at 0, `y` behind it, and room for a result behind that.
fn memory(x: &Word, y: &Word) -> Vec<u64> {
    [x.0, y.0, [0; LIMBS]].concat()
}

#[test]
fn sums_and_differences_are_right_or_left_to_the_carrying_way() {
    let mut carried = [0; 2];
    for seed in 0..4000 {
        let [mut x, mut y] = words(seed);
        if seed % 2 == 0 {
            // Nothing carries or borrows.
            for (x, y) in x.0.iter_mut().zip(&mut y.0) {
                *x |= 1 << 63;
                *y &= !*x;
            }
        }
        let mut mem = memory(&x, &y);
        wide::add(&mut mem, 2 * LIMBS, 0, LIMBS, LIMBS);
        match add(&x, &y) {
            Some(sum) => assert_eq!(sum.0, mem[2 * LIMBS..], "sum, seed {seed}"),
            None => carried[0] += 1,
        }
        wide::sub(&mut mem, 2 * LIMBS, 0, LIMBS, LIMBS);
        match sub(&x, &y) {
            Some(difference) => assert_eq!(difference.0, mem[2 * LIMBS..], "difference, seed {seed}"),
            None => carried[1] += 1,
        }
    }
    assert!(carried.iter().all(|n| (1..4000).contains(n)), "both ways were taken: {carried:?}");
}

#[test]
fn shifts_by_every_count_below_a_limb() {
    for seed in 0..64 {
        let [x, y] = words(seed);
        let mut mem = memory(&x, &y);
        for count in 0..64 {
            wide::shift_left(&mut mem, 2 * LIMBS, 0, count, LIMBS);
            assert_eq!(shift_left(&x, count).0, mem[2 * LIMBS..], "left by {count}, seed {seed}");
            wide::shift_right(&mut mem, 2 * LIMBS, 0, count, LIMBS, LIMBS, false);
            assert_eq!(shift_right(&x, count).0, mem[2 * LIMBS..], "right by {count}, seed {seed}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has AVX-512F.
                let (left, right) = unsafe { (shift_left_avx512(&x, count), shift_right_avx512(&x, count)) };
                assert_eq!(left.0, shift_left(&x, count).0, "left by {count} with vectors, seed {seed}");
                assert_eq!(right.0, shift_right(&x, count).0, "right by {count} with vectors, seed {seed}");
            }
        }
    }
}
