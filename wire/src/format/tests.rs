use proptest::prelude::*;

use super::bfp::{BlockExponent, LOWEST_EXPONENT};
use super::classes::{Class, ClassBits};
use super::*;

/// Any f32, with the exponents near each other often enough for interesting blocks.
fn finite_f32() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => any::<f32>().prop_filter("finite", |value| value.is_finite()),
        4 => -1.0f32..1.0,
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f32::MAX), Just(f32::MIN_POSITIVE), Just(1e-45), Just(-1e-45)],
    ]
}

const MAX_MANTISSA: i32 = 32767;

fn block_exponent(values: &[f32]) -> BlockExponent {
    bfp::block_exponent(Format::Bfp16, values)
}

fn power(e: i32) -> f64 {
    2f64.powi(e)
}

/// round(x / 2^e), ties to even: exact in f64, whose exponents reach beyond what is divided here.
fn mantissa(value: f32, e: i32) -> f64 {
    (f64::from(value) / power(e)).round_ties_even()
}

/// The definition of the document, by trial.
fn defined_exponent(values: &[f32]) -> i32 {
    let fits = |e: i32| values.iter().all(|value| mantissa(*value, e).abs() <= f64::from(MAX_MANTISSA));
    (LOWEST_EXPONENT..200).find(|e| fits(*e)).unwrap()
}

fn mantissas(words: &[u8]) -> Vec<i32> {
    let mut mantissas = Vec::new();
    for word in words.chunks(WORD_BYTES) {
        mantissas.extend(
            word.chunks(2).rev().map(|lane| i32::from(u16::from_be_bytes([lane[0], lane[1]])) - 0x8000),
        );
    }
    mantissas
}

fn words_of(elements: usize, format: Format) -> Vec<u8> {
    vec![0xEE; format.words_for(elements).max(1) * WORD_BYTES]
}

fn encode(values: &[f32]) -> (Encoded, Vec<u8>) {
    let mut words = words_of(values.len(), Format::Bfp16);
    let encoded = bfp::encode(Format::Bfp16, values, &mut words).unwrap();
    (encoded, words)
}

fn decode(words: &[u8], exponent: u16, elements: usize) -> Vec<f32> {
    let mut values = vec![f32::NAN; elements];
    bfp::decode(Format::Bfp16, words, exponent, &mut values).unwrap();
    values
}

/// N8: every mantissa x every legal exponent through encode, decode, encode. Exponent 114 only arises from magnitudes that round up
/// to 2^128 and decodes to infinity there, so 113 is the last that round-trips.
#[test]
fn n8_every_mantissa_at_every_exponent_round_trips() {
    let all: Vec<i32> = (-MAX_MANTISSA..=MAX_MANTISSA).collect();
    let mut words = vec![0; 32 * WORD_BYTES];
    let mut again = words.clone();
    for e in LOWEST_EXPONENT..=113 {
        for block in all.chunks(4095) {
            // The largest mantissa keeps the block at this exponent.
            let mut values: Vec<f32> = block.iter().map(|m| (f64::from(*m) * power(e)) as f32).collect();
            values.push((f64::from(MAX_MANTISSA) * power(e)) as f32);
            let encoded = bfp::encode(Format::Bfp16, &values, &mut words).unwrap();
            assert_eq!(encoded, Encoded::at(biased(e)));
            assert_eq!(mantissas(&words)[..block.len()], *block, "exponent {e}");
            let decoded = decode(&words, encoded.exp_max, values.len());
            assert_eq!(decoded, values, "exponent {e}");
            assert_eq!(bfp::encode(Format::Bfp16, &decoded, &mut again), Ok(encoded));
            assert_eq!(again, words, "exponent {e}");
        }
    }
}

/// N8: the bf16 subnormals, 1 to 127 times 2^-133, either sign.
#[test]
fn n8_bf16_subnormals_round_trip() {
    let values: Vec<f32> =
        (1..=127).flat_map(|k| [f32::from_bits(k << 16), -f32::from_bits(k << 16)]).collect();
    assert_eq!(values.len(), 254);
    let (encoded, words) = encode(&values);
    assert_eq!(decode(&words, encoded.exp_max, values.len()), values);
    for value in values {
        let (encoded, words) = encode(&[value]);
        assert_eq!(decode(&words, encoded.exp_max, 1), [value]);
    }
}

#[test]
fn every_result_mantissa_decodes_to_the_nearest_f32() {
    let mut words = vec![0; 512 * WORD_BYTES];
    for (index, lane) in words.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *lane = (index as u16).to_be_bytes();
    }
    let all = mantissas(&words);
    // From below anything that honest ranks can produce (-164) to beyond FLT_MAX, and the ends of the field.
    for exponent in (biased(-180)..=biased(140)).chain([0, 1, 0xFFFE, 0xFFFF]) {
        let decoded = decode(&words, exponent, all.len());
        for (m, value) in all.iter().zip(decoded) {
            let expected = if *m == 0 { 0.0 } else { (f64::from(*m) * power(unbiased(exponent))) as f32 };
            assert_eq!(value, expected, "{m} at {exponent}");
            assert!(*m != 0 || value.is_sign_positive());
        }
    }
}

#[test]
fn lane_0_is_in_the_last_bytes() {
    let (encoded, words) = encode(&[1.0, -0.5]);
    assert_eq!(encoded, Encoded::at(EXP_BIAS - 14));
    assert_eq!(words[252..], [0x60, 0x00, 0xC0, 0x00]);
    assert!(words[..252].chunks(2).all(|lane| lane == [0x80, 0]));

    let mut words = vec![0; WORD_BYTES];
    assert_eq!(integer::encode(Format::I32, &[1i32, -2], &mut words, i64::from), Ok(Encoded::at(EXP_BIAS)));
    assert_eq!(words[248..], [0x7F, 0xFF, 0xFF, 0xFE, 0x80, 0, 0, 1]);
    assert!(words[..248].chunks(4).all(|lane| lane == [0x80, 0, 0, 0]));
}

#[test]
fn element_counts_around_whole_words() {
    for count in [0, 1, 127, 128, 129, 255, 256, 257] {
        let values: Vec<f32> = (0..count).map(|index| index as f32 - 100.0).collect();
        let (encoded, words) = encode(&values);
        assert_eq!(decode(&words, encoded.exp_max, count), values);
        assert!(mantissas(&words)[count..].iter().all(|m| *m == 0), "{count} elements");

        let integers: Vec<i32> = (0..count as i32).map(|index| index.wrapping_mul(0x0101_0101) - 7).collect();
        let mut words = words_of(count, Format::I32);
        integer::encode(Format::I32, &integers, &mut words, i64::from).unwrap();
        let mut decoded = vec![0; count];
        integer::decode(Format::I32, &words, &mut decoded, |element: &mut i32, value| {
            *element = value as i32
        })
        .unwrap();
        assert_eq!(decoded, integers);
    }
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let mut words = vec![0; WORD_BYTES];
    let too_many = FormatError::Elements { elements: 129, words: 1, lanes: 128, room: 128 };
    assert_eq!(bfp::encode(Format::Bfp16, &[0.0; 129], &mut words), Err(too_many));
    assert_eq!(bfp::decode(Format::Bfp16, &words, 0, &mut [0.0; 129]), Err(too_many));
    assert_eq!(bfp::encode(Format::Bfp16, &[0.0], &mut words[1..]), Err(FormatError::WordBytes(255)));
    assert!(integer::encode(Format::I32, &[0i32; 65], &mut words, i64::from).is_err());
    assert!(
        integer::decode(Format::I32, &words, &mut [0; 65], |element: &mut i32, value| *element =
            value as i32)
        .is_err()
    );
    assert!(ClassBits::from_result(Format::Bfp16, &[0; 33 * WORD_BYTES]).is_err());
    assert!(ClassBits::from_result(Format::Bfp16, &words[1..]).is_err());
    let common = bfp::encode_at(Format::Bfp16, &[1.0], EXP_BIAS - 15, &mut words);
    assert_eq!(common, Err(FormatError::CommonExponent { common: EXP_BIAS - 15, own: EXP_BIAS - 14 }));
}

#[test]
fn guard_bits_leave_room_for_every_rank() {
    let guard = |world| Format::Bfp16.guard_bits(world);
    let table = [(1, 15), (2, 15), (3, 14), (4, 14), (5, 13), (64, 10), (65, 9), (256, 8), (32767, 1)];
    for (world, bits) in table {
        assert_eq!(guard(world), Ok(bits), "world {world}");
        assert!((world * 0xFFFF) << bits < 1 << 32, "the sum of full lanes fits 32 bits");
    }
    assert_eq!(guard(0), Err(FormatError::World { format: Format::Bfp16, given: 0, most: 32767 }));
    assert!(guard(32768).is_err());
    assert_eq!(Format::I32.guard_bits(65535), Ok(0));
    assert!(Format::I32.guard_bits(65536).is_err());
}

#[test]
fn the_largest_block_that_rounds_up_takes_the_next_exponent() {
    // 32767.5 ties up to 32768, which does not fit; the next f32 below it rounds down.
    let tie = 32767.5f32;
    assert_eq!(block_exponent(&[tie]), BlockExponent::Biased(biased(1)));
    assert_eq!(block_exponent(&[tie.next_down()]), BlockExponent::Biased(biased(0)));
    assert_eq!(block_exponent(&[f32::MAX]), BlockExponent::Biased(biased(114)));
    assert_eq!(block_exponent(&[1e-45]), BlockExponent::Biased(biased(-149)));
    assert_eq!(block_exponent(&[0.0, -0.0]), BlockExponent::Zero);
    assert_eq!(block_exponent(&[]), BlockExponent::Zero);
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(block_exponent(&[1.0, bad, 2.0]), BlockExponent::NonFinite);
    }
}

#[test]
fn zero_and_nonfinite_blocks() {
    let (encoded, words) = encode(&[0.0, -0.0, 0.0]);
    assert_eq!(encoded, Encoded::ZERO);
    assert_eq!(words, crate::masks::Constants::new(crate::masks::LaneWidth::W16).unwrap().zero_block());
    assert!(decode(&words, 0, 3).iter().all(|value| value.to_bits() == 0));

    let (encoded, _) = encode(&[1.0, f32::NAN]);
    assert_eq!(encoded, Encoded::NONFINITE);
    let mut header = Header::new(crate::packet::Opcode::Contribution, Format::Bfp16, 1, 1);
    encoded.describe(&mut header, 5);
    assert_eq!(
        (header.flags, header.words, header.exp_max, header.exp_min),
        (Flags::NONFINITE, 0, 0, 0xFFFF)
    );

    let mut words = vec![0; WORD_BYTES];
    let values = [3.0, f32::NAN, f32::NEG_INFINITY];
    let mut finite = values;
    bfp::clear_nonfinite(&mut finite);
    let encoded = bfp::encode(Format::Bfp16, &finite, &mut words).unwrap();
    assert_eq!(decode(&words, encoded.exp_max, 3), [3.0, 0.0, 0.0]);
    let encoded = bfp::encode_at(Format::Bfp16, &finite, EXP_BIAS, &mut words).unwrap();
    assert_eq!((encoded, decode(&words, EXP_BIAS, 3)), (Encoded::at(EXP_BIAS), vec![3.0, 0.0, 0.0]));
    let encoded = bfp::encode_at(Format::Bfp16, &finite[1..], EXP_BIAS, &mut words).unwrap();
    assert_eq!(encoded, Encoded::ZERO);
}

/// A block far below the common exponent rounds to nothing and is then sent as a block of zeros.
#[test]
fn blocks_that_vanish_at_the_common_exponent_are_zero_blocks() {
    let mut words = vec![0; WORD_BYTES];
    let half = (power(0) / 2.0) as f32;
    assert_eq!(bfp::encode_at(Format::Bfp16, &[half, -half], EXP_BIAS, &mut words), Ok(Encoded::ZERO));
    assert!(mantissas(&words).iter().all(|m| *m == 0));
    assert_eq!(
        bfp::encode_at(Format::Bfp16, &[half.next_up()], EXP_BIAS, &mut words),
        Ok(Encoded::at(EXP_BIAS))
    );
    assert_eq!(mantissas(&words)[0], 1);
    assert_eq!(bfp::encode_at(Format::Bfp16, &[1e-45], 0xFFFE, &mut words), Ok(Encoded::ZERO));
}

#[test]
fn class_passes_say_which_elements_are_not_finite() {
    let values = [1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0];
    let mut words = vec![0; WORD_BYTES];
    let mut bits = |class| {
        assert_eq!(classes::encode(Format::Bfp16, &values, class, &mut words), Ok(Encoded::at(EXP_BIAS)));
        ClassBits::from_result(Format::Bfp16, &words).unwrap()
    };
    let (plus, minus) = (bits(Class::PlusInfinity), bits(Class::MinusInfinity));
    let mut sums = [7.0; 5];
    classes::apply(&plus, &minus, 5, |index, value| sums[index] = value);
    assert_eq!(
        sums.map(f32::to_bits),
        [7.0, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7FC0_0000), 7.0].map(f32::to_bits)
    );
    assert!(!plus.contains(5000));

    assert_eq!(
        classes::encode(Format::Bfp16, &[1.0, f32::INFINITY], Class::MinusInfinity, &mut words),
        Ok(Encoded::ZERO)
    );
    assert_eq!(mantissas(&words), [0; 128]);
}

/// A chunk of the largest size: every bit has its own element.
#[test]
fn class_bits_of_a_full_chunk() {
    let mut values = vec![0.0; 32 * 128];
    let marked = [0, 63, 64, 127, 128, 4095];
    marked.iter().for_each(|at| values[*at] = f32::NAN);
    let mut words = vec![0; 32 * WORD_BYTES];
    classes::encode(Format::Bfp16, &values, Class::PlusInfinity, &mut words).unwrap();
    let bits = ClassBits::from_result(Format::Bfp16, &words).unwrap();
    let found: Vec<usize> = (0..4096).filter(|at| bits.contains(*at)).collect();
    assert_eq!(found, marked);
}

proptest! {
    #[test]
    fn bfp16_encodes_as_defined(values in prop::collection::vec(finite_f32(), 1..300)) {
        let (encoded, words) = encode(&values);
        if values.iter().all(|value| *value == 0.0) {
            prop_assert_eq!(encoded, Encoded::ZERO);
            return Ok(());
        }
        let e = defined_exponent(&values);
        prop_assert_eq!(encoded, Encoded::at(biased(e)));
        let lanes = mantissas(&words);
        for (index, lane) in lanes.iter().enumerate() {
            let expected = values.get(index).map_or(0.0, |value| mantissa(*value, e));
            prop_assert_eq!(f64::from(*lane), expected, "element {}", index);
        }
    }

    #[test]
    fn bfp16_requantises_as_defined(values in prop::collection::vec(finite_f32(), 1..300), raise in 0..300i32) {
        let own = defined_exponent(&values);
        let common = own + raise;
        let mut words = words_of(values.len(), Format::Bfp16);
        let encoded = bfp::encode_at(Format::Bfp16, &values, biased(common), &mut words).unwrap();
        let expected: Vec<f64> = values.iter().map(|value| mantissa(*value, common)).collect();
        let zeros = expected.iter().all(|m| *m == 0.0);
        prop_assert_eq!(encoded, if zeros { Encoded::ZERO } else { Encoded::at(biased(common)) });
        let lanes = mantissas(&words);
        for (lane, expected) in lanes.iter().zip(&expected) {
            prop_assert_eq!(f64::from(*lane), *expected);
        }
    }

    /// The bound of one rank's own quantisation: half a unit, which is at most the block's maximum / 32767.5.
    #[test]
    fn bfp16_quantisation_is_within_its_bound(values in prop::collection::vec(finite_f32(), 1..300)) {
        let (encoded, words) = encode(&values);
        let largest = values.iter().fold(0.0f64, |largest, value| largest.max(f64::from(value.abs())));
        for (m, value) in mantissas(&words).iter().zip(&values) {
            let error = (f64::from(*m) * power(unbiased(encoded.exp_max)) - f64::from(*value)).abs();
            prop_assert!(error <= largest / 32767.5, "{value} is off by {error}");
        }
    }

    #[test]
    fn i32_round_trips(values in prop::collection::vec(any::<i32>(), 0..300)) {
        let mut words = words_of(values.len(), Format::I32);
        integer::encode(Format::I32, &values, &mut words, i64::from).unwrap();
        let mut decoded = vec![0; values.len()];
        integer::decode(Format::I32, &words, &mut decoded, |element: &mut i32, value| *element = value as i32).unwrap();
        prop_assert_eq!(decoded, values);
    }
}
