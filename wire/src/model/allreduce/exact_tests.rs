//! Every (type, format, operation) against exact rational arithmetic: the definition of `docs/number-formats.md` written a second time,
//! in numbers without limits.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};
use proptest::prelude::*;

use super::*;
use crate::float::Decoded;
use crate::float::tests::{nearest, power, value};
use crate::format::{Kind, bfp};
use crate::tensor::I4Vec;

/// A call: one tensor per rank.
#[derive(Debug, Clone)]
struct Case {
    dtype: Dtype,
    format: Format,
    op: ReduceOp,
    inputs: Vec<Tensor>,
}

fn every_triple() -> Vec<(Dtype, Format, ReduceOp)> {
    let mut triples = Vec::new();
    for dtype in Dtype::ALL {
        for op in [ReduceOp::Sum, ReduceOp::Average, ReduceOp::Min, ReduceOp::Max] {
            triples.extend(Scheme::formats(dtype, op).iter().map(|format| (dtype, *format, op)));
        }
    }
    triples
}

/// Bits of one element: of all kinds, extremes and subnormals included, and near the others' size often enough; `scale` moves a whole
/// rank's floats by powers of two.
fn element(dtype: Dtype, scale: i32, nonfinite: bool) -> BoxedStrategy<u64> {
    let mask = u64::MAX >> (64 - dtype.bits());
    let Some(kind) = dtype.float() else {
        let kind = dtype.integer().unwrap();
        let edge = prop::sample::select(vec![kind.least, kind.most, 0, 1, kind.least + 1]);
        return prop_oneof![3 => any::<u64>(), 2 => 0..20u64, 1 => edge.prop_map(|edge| edge as u64)]
            .prop_map(move |bits| bits & mask)
            .boxed();
    };
    let ordinary = (-1.0f64..1.0).prop_map(move |value| kind.from_f64(value * 2f64.powi(scale)));
    let largest = kind.beyond_range(false) - 1;
    let edge = prop::sample::select(vec![0, kind.sign(), 1, largest, largest | kind.sign(), 3 | kind.sign()]);
    let any_bits = any::<u32>().prop_map(move |bits| {
        let bits = bits & mask as u32;
        match kind.decode(bits) {
            Decoded::Finite { .. } => bits,
            _ => 0,
        }
    });
    let special = prop::sample::select(vec![kind.nan(), kind.beyond_range(false), kind.beyond_range(true)]);
    prop_oneof![
        12 => ordinary,
        3 => Just(0),
        u32::from(scale % 3 == 0) => edge,
        u32::from(scale % 5 == 0) => any_bits,
        u32::from(nonfinite) => special,
    ]
    .prop_map(u64::from)
    .boxed()
}

fn tensor(dtype: Dtype, bits: &[u64]) -> Tensor {
    if dtype == Dtype::I4 {
        let values: Vec<i8> = bits.iter().map(|bits| *bits as i8).collect();
        return Tensor::I4(I4Vec::from_values(&values));
    }
    let bytes: Vec<u8> =
        bits.iter().flat_map(|bits| bits.to_le_bytes()[..dtype.bytes_for(1)].to_vec()).collect();
    Tensor::from_le_bytes(dtype, &bytes)
}

fn cases(wanted: impl Fn(Format, ReduceOp) -> bool) -> impl Strategy<Value = Case> {
    let triples: Vec<_> = every_triple().into_iter().filter(|(_, format, op)| wanted(*format, *op)).collect();
    let shape = (prop::sample::select(triples), 1..=5usize, 1..=20usize, prop::bool::weighted(0.2));
    shape.prop_flat_map(|((dtype, format, op), ranks, elements, nonfinite)| {
        let scale = prop_oneof![2 => Just(0), 2 => -7..=7i32, 1 => -120..=120i32];
        let rank = scale.prop_flat_map(move |scale| {
            prop::collection::vec(element(dtype, scale, nonfinite), elements)
                .prop_map(move |bits| tensor(dtype, &bits))
        });
        prop::collection::vec(rank, ranks).prop_map(move |inputs| Case { dtype, format, op, inputs })
    })
}

fn rational(integer: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(integer.into())
}

/// The integer nearest to a number, ties to even.
fn round(value: &BigRational) -> BigInt {
    let floor = value.floor().to_integer();
    let rest = (value - rational(floor.clone())) * rational(2);
    match rest.cmp(&rational(1)) {
        core::cmp::Ordering::Less => floor,
        core::cmp::Ordering::Greater => floor + 1,
        core::cmp::Ordering::Equal if floor.bit(0) => floor + 1,
        core::cmp::Ordering::Equal => floor,
    }
}

fn integer(dtype: Dtype, bits: u64) -> BigInt {
    let unused = 64 - dtype.bits();
    if dtype == Dtype::U8 { bits.into() } else { (((bits << unused) as i64) >> unused).into() }
}

/// What every rank must get: bits, or the first element that does not fit with its sum.
fn expected(case: &Case) -> Result<Vec<u64>, (usize, BigInt)> {
    let bits = |rank: usize, index: usize| case.inputs[rank].view().bits(index);
    let (ranks, elements) = (case.inputs.len(), case.inputs[0].len());
    let column = |index: usize| (0..ranks).map(move |rank| bits(rank, index));
    match (case.dtype.float(), case.op) {
        (None, ReduceOp::Min | ReduceOp::Max) => Ok((0..elements)
            .map(|index| {
                let by_value = |bits: &u64| integer(case.dtype, *bits);
                let found = if case.op == ReduceOp::Min {
                    column(index).min_by_key(by_value)
                } else {
                    column(index).max_by_key(by_value)
                };
                found.unwrap()
            })
            .collect()),
        (None, _) => {
            let kind = case.dtype.integer().unwrap();
            let mut results = Vec::new();
            for index in 0..elements {
                let sum: BigInt = column(index).map(|bits| integer(case.dtype, bits)).sum();
                let divisor = if case.op == ReduceOp::Average { ranks } else { 1 };
                let result = round(&(rational(sum.clone()) / rational(divisor)));
                if result < kind.least.into() || result > kind.most.into() {
                    return Err((index, sum));
                }
                let mask = u64::MAX >> (64 - case.dtype.bits());
                results.push(result.to_i64().unwrap() as u64 & mask);
            }
            Ok(results)
        }
        (Some(kind), ReduceOp::Min | ReduceOp::Max) => Ok((0..elements)
            .map(|index| {
                let mut found: Option<u32> = None;
                for bits in column(index).map(|bits| bits as u32) {
                    if kind.decode(bits) == Decoded::Nan || found == Some(kind.nan()) {
                        found = Some(kind.nan());
                        continue;
                    }
                    // Sign and magnitude: -0 below +0, infinities at the ends.
                    let order = |bits: u32| {
                        let magnitude = i64::from(bits & (kind.sign() - 1));
                        if bits & kind.sign() != 0 { -magnitude - 1 } else { magnitude }
                    };
                    let better = found.is_none_or(|found| {
                        if case.op == ReduceOp::Min {
                            order(bits) < order(found)
                        } else {
                            order(bits) > order(found)
                        }
                    });
                    if better {
                        found = Some(bits);
                    }
                }
                u64::from(found.unwrap())
            })
            .collect()),
        (Some(kind), op) => {
            // Zero where not finite, as the passes have it.
            let values: Vec<Vec<BigRational>> = (0..ranks)
                .map(|rank| {
                    (0..elements)
                        .map(|index| value(kind, bits(rank, index) as u32).unwrap_or_else(BigRational::zero))
                        .collect()
                })
                .collect();
            let sums = match case.format {
                Format::Exact => {
                    (0..elements).map(|index| values.iter().map(|rank| &rank[index]).sum()).collect()
                }
                format => block_sums(format, &values),
            };
            let divisor = rational(if op == ReduceOp::Average { ranks } else { 1 });
            let result = |(index, sum): (usize, BigRational)| {
                let class = |wanted: Decoded| column(index).any(|bits| kind.decode(bits as u32) == wanted);
                let plus = class(Decoded::Infinite { negative: false });
                let minus = class(Decoded::Infinite { negative: true });
                if class(Decoded::Nan) || (plus && minus) {
                    kind.nan()
                } else if plus || minus {
                    kind.beyond_range(minus)
                } else {
                    nearest(kind, &(sum / divisor.clone()))
                }
            };
            Ok(sums.into_iter().enumerate().map(|(index, sum)| result((index, sum)).into()).collect())
        }
    }
}

/// Sums of blocks: every rank's rounding, the exact sum, the root's one rounding.
fn block_sums(format: Format, values: &[Vec<BigRational>]) -> Vec<BigRational> {
    let most = BigInt::from(bfp::max_mantissa(format));
    let mantissas = |values: &[BigRational], e: i32| -> Vec<BigInt> {
        values.iter().map(|value| round(&(value / power(e)))).collect()
    };
    let fits = |values: &[BigRational], e| mantissas(values, e).iter().all(|mantissa| mantissa.abs() <= most);
    let own = |values: &Vec<BigRational>| {
        let zero = values.iter().all(BigRational::is_zero);
        // From the top down: once it does not fit, it never does again.
        (!zero).then(|| (bfp::LOWEST_EXPONENT..130).rev().take_while(|e| fits(values, *e)).last().unwrap())
    };
    let exponents: Vec<Option<i32>> = values.iter().map(own).collect();
    let (Some(highest), Some(lowest)) =
        (exponents.iter().flatten().max().copied(), exponents.iter().flatten().min().copied())
    else {
        return vec![BigRational::zero(); values[0].len()];
    };
    let guard = i32::from(format.guard_bits(values.len()).unwrap());
    let common = highest - lowest > guard;
    let mut sums = vec![BigRational::zero(); values[0].len()];
    for (values, exponent) in values.iter().zip(&exponents) {
        let Some(exponent) = exponent.map(|own| if common { highest } else { own }) else { continue };
        for (sum, mantissa) in sums.iter_mut().zip(mantissas(values, exponent)) {
            *sum += rational(mantissa) * power(exponent);
        }
    }
    // In units of the accumulator's last place.
    let lanes: Vec<BigInt> = sums
        .iter()
        .map(|sum| {
            let lane = sum / power(highest - guard);
            assert!(lane.is_integer(), "the accumulator holds every sum");
            lane.to_integer()
        })
        .collect();
    let judged = |lane: &BigInt| if lane.is_negative() { -lane - 1 } else { lane.clone() };
    let at = |lane: &BigInt, shift: i32| round(&(rational(lane.clone()) / power(shift)));
    let shift = (0..70).find(|shift| lanes.iter().all(|lane| at(&judged(lane), *shift) <= most)).unwrap();
    lanes.iter().map(|lane| rational(at(lane, shift)) * power(shift + highest - guard)).collect()
}

/// The stated bound of a block format for one chunk, before the result is rounded to the element type.
fn bound(case: &Case, flags: Flags) -> BigRational {
    let kind = case.dtype.float().unwrap();
    let largest = |tensor: &Tensor| {
        let value = |index| value(kind, tensor.view().bits(index) as u32).unwrap_or_else(BigRational::zero);
        (0..tensor.len()).map(|index| value(index).abs()).max().unwrap()
    };
    let each = case.inputs.iter().map(largest);
    let total = if flags.is_empty() { each.sum() } else { each.max().unwrap() * rational(case.inputs.len()) };
    total / rational((1i64 << (case.format.lane_bits() - 2)) - 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_type_format_and_operation_is_as_defined(case in cases(|_, _| true)) {
        let inputs: Vec<TensorRef<'_>> = case.inputs.iter().map(Tensor::view).collect();
        let result = allreduce(case.format, case.op, &inputs, 1, |_| {});
        match expected(&case) {
            Ok(expected) => {
                let result = result.unwrap();
                let bits: Vec<u64> = (0..expected.len()).map(|index| result.elements.view().bits(index)).collect();
                prop_assert_eq!(bits, expected);
            }
            Err((index, sum)) => {
                let error = ReferenceError::Overflow { index, sum: sum.to_i128().unwrap() };
                prop_assert_eq!(result, Err(error));
            }
        }
    }

    #[test]
    fn block_sums_are_within_their_bound(
        case in cases(|format, op| format.kind() == Kind::Block && op == ReduceOp::Sum),
    ) {
        let kind = case.dtype.float().unwrap();
        let inputs: Vec<TensorRef<'_>> = case.inputs.iter().map(Tensor::view).collect();
        let result = allreduce(case.format, case.op, &inputs, 1, |_| {}).unwrap();
        let bound = bound(&case, result.flags[0]);
        for index in 0..result.elements.len() {
            let column: Option<Vec<_>> = inputs.iter().map(|input| value(kind, input.bits(index) as u32)).collect();
            let (Some(column), Some(sum)) = (column, value(kind, result.elements.view().bits(index) as u32)) else {
                continue;
            };
            let exact: BigRational = column.into_iter().sum();
            // The last rounding, to the element type: half a unit of its last place.
            let last = (exact.abs() + &bound) * power(-1 - kind.fraction_bits as i32) + power(kind.lowest_exponent() - 1);
            prop_assert!((sum - exact).abs() <= bound.clone() + last, "element {}", index);
        }
    }
}

#[test]
fn products_are_refused_with_a_reason() {
    let error =
        allreduce(Format::Bfp16, ReduceOp::Product, &[TensorRef::F32(&[1.0])], 1, |_| {}).unwrap_err();
    assert!(error.to_string().contains("depend on the order"), "{error}");
}

#[test]
fn formats_that_do_not_carry_a_type_are_refused_with_those_that_do() {
    let error = Scheme::new(Dtype::U8, ReduceOp::Sum, Format::I8, 2).unwrap_err().to_string();
    assert_eq!(error, "number format i8 does not carry sum of u8: use i16, i32, i64");
    let error = Scheme::new(Dtype::F32, ReduceOp::Max, Format::Bfp16, 2).unwrap_err().to_string();
    assert_eq!(error, "number format bfp16 does not carry max of f32: use max32");
    assert!(Scheme::new(Dtype::F32, ReduceOp::Sum, Format::Bfp8, 128).is_err());
}
