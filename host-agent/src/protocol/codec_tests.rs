use super::*;

#[test]
fn integer_averages_round_to_nearest_ties_to_even() {
    for (sum, ranks, expected) in [
        (7, 3, 2),
        (8, 3, 3),
        (1, 2, 0),
        (3, 2, 2),
        (5, 2, 2),
        (-1, 2, 0),
        (-3, 2, -2),
        (-5, 2, -2),
        (-7, 3, -2),
        (-8, 3, -3),
        (i32::MAX, 1, i32::MAX),
        (i32::MIN, 1, i32::MIN),
        (i32::MIN, 65_535, -32_769),
    ] {
        assert_eq!(divide_to_even(sum, ranks), expected, "{sum} / {ranks}");
    }
}

#[test]
fn float_averages_do_not_overflow_where_the_sum_would() {
    // The block (FLT_MAX, 1.0) as one of four equal ranks: the sum is 4 x 32767 x 2^113, held at two exponents more.
    let values = [f32::MAX; 3];
    let mut payload = [0; WORD_BYTES];
    let own = bfp16::encode(&values, &mut payload).expect("one word");
    let mut single = [0.0; 3];
    decode_f32(&payload, own.exp_max, None, None, &mut single).expect("decodes");
    let mut average = [0.0; 3];
    decode_f32(&payload, own.exp_max + 2, Some(4), None, &mut average).expect("decodes");
    assert_eq!(average.map(f32::to_bits), single.map(f32::to_bits));
    decode_f32(&payload, own.exp_max + 2, None, None, &mut average).expect("decodes");
    assert_eq!(average, [f32::INFINITY; 3]);
}

#[test]
fn float_averages_keep_tiny_blocks() {
    // 3 x 2^-149 over three ranks.
    let mut payload = [0; WORD_BYTES];
    let own = bfp16::encode(&[f32::from_bits(3)], &mut payload).expect("one word");
    let mut average = [0.0];
    decode_f32(&payload, own.exp_max, Some(3), None, &mut average).expect("decodes");
    assert_eq!(average[0].to_bits(), 1);
}
