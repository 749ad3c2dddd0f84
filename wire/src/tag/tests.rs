use proptest::prelude::*;

use super::*;

const OPERATION: Operation = Operation { number: 1, collective: 2, op: 3, dtype: 4, elements: 5 };

/// A reimplementation elsewhere must give the same tags, and ours must never change: the values were computed by an independent
/// Python implementation of the documented hash.
#[test]
fn tags_are_stable() {
    assert_eq!(OPERATION.tag(6, 7), 0xde9b_f97b);
    let zero = Operation { number: 0, collective: 0, op: 0, dtype: 0, elements: 0 };
    assert_eq!(zero.tag(0, 0), 0xaaeb_0518);
    let ones = Operation { number: u64::MAX, collective: 255, op: 255, dtype: 255, elements: u64::MAX };
    assert_eq!(ones.tag(u32::MAX, 255), 0x68b6_78b9);
}

proptest! {
    #[test]
    fn a_change_of_any_one_byte_changes_the_tag(
        number: u64, collective: u8, op: u8, dtype: u8, elements: u64, chunk: u32, pass: u8,
        byte in 0..23usize, flip in 1..=255u8,
    ) {
        let operation = Operation { number, collective, op, dtype, elements };
        let mask = |first: usize| if (first..first + 8).contains(&byte) { u64::from(flip) << (8 * (byte - first)) } else { 0 };
        let small = |at: usize| if byte == at { flip } else { 0 };
        let changed = Operation {
            number: number ^ mask(0),
            collective: collective ^ small(8),
            op: op ^ small(9),
            dtype: dtype ^ small(10),
            elements: elements ^ mask(11),
        };
        let chunk_mask = if (19..23).contains(&byte) { u32::from(flip) << (8 * (byte - 19)) } else { 0 };
        prop_assert_ne!(operation.tag(chunk, pass), changed.tag(chunk ^ chunk_mask, pass));
        prop_assert_ne!(operation.tag(chunk, pass), operation.tag(chunk, pass ^ flip));
    }
}
