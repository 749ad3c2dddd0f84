//! Numbers that people have reported trouble with, on trees of both switches: every rank must get the reference's bits, and the values
//! that are right.

use half::{bf16, f16};
use inca_host_agent::protocol::{OperationError, ReduceOp, Tensor};
use inca_host_agent::{Dtype, Format, Scheme};
use inca_tests::bmv2::with_bmv2s;
use inca_tests::fabric::{Call, Fabric, Faults, Job, LinkFaults, Node, switches_of};
use inca_tests::inputs::{check, expected_in, tensors};
use inca_tests::target::{Embedded, Target};
use inca_wire::tensor::I4Vec;
use std::time::Duration;

/// A fabric whose job changes from call to call.
struct Bench(Fabric<Box<dyn Target>>);

/// A case: the ranks behind each leaf, and what is called there.
struct Case {
    hosts: &'static [usize],
    run: fn(&mut Bench),
}

const N1: Case = Case { hosts: &[2, 2], run: n1 };
const N2: Case = Case { hosts: &[2, 2], run: n2 };
const N3: Case = Case { hosts: &[2, 2], run: n3 };
const N4: Case = Case { hosts: &[2, 2], run: n4 };
const N5: Case = Case { hosts: &[2, 2], run: n5 };
const N6: Case = Case { hosts: &[2, 2], run: n6 };
const N7: Case = Case { hosts: &[4, 4], run: n7 };
const N8: Case = Case { hosts: &[2, 2], run: n8 };
const N9: Case = Case { hosts: &[2, 2], run: n9 };
const N10: Case = Case { hosts: &[2, 1], run: n10 };

fn job(format: Format) -> Job {
    // BMv2's clock can't be set: no verdict may depend on it.
    Job { chunk_words: 2, slots: 16, resend_interval_us: 0, ..Job::new(format) }
}

fn on_embedded(case: &Case) {
    let shape = Node::two_levels(case.hosts);
    let switches = (1..=switches_of(&shape) as u16)
        .map(|id| Box::new(Embedded::with_device_id(id)) as Box<dyn Target>)
        .collect();
    (case.run)(&mut Bench(Fabric::with_switches(&shape, job(Format::I32), switches)));
}

#[test]
fn n1_zero_blocks() {
    on_embedded(&N1);
}

#[test]
fn n2_tiny_and_subnormal_blocks() {
    on_embedded(&N2);
}

#[test]
fn n3_the_largest_numbers() {
    on_embedded(&N3);
}

#[test]
fn n4_nan_on_each_rank_in_turn() {
    on_embedded(&N4);
}

#[test]
fn n5_integers_never_wrap() {
    on_embedded(&N5);
}

#[test]
fn n6_averages_of_f16_whose_sum_does_not_fit() {
    on_embedded(&N6);
}

#[test]
fn n7_loss_and_reordering_do_not_change_bits() {
    on_embedded(&N7);
}

#[test]
fn n8_bf16_subnormals_come_back() {
    on_embedded(&N8);
}

#[test]
fn n9_large_and_small_in_one_block() {
    on_embedded(&N9);
}

#[test]
fn n10_averages_of_three() {
    on_embedded(&N10);
}

/// All of them on real BMv2; one set of switches for the cases of a shape.
#[test]
fn n1_to_n10_on_bmv2() {
    for (hosts, cases) in
        [(&[2, 2][..], &[N1, N2, N3, N4, N5, N6, N8, N9][..]), (&[2, 1], &[N10]), (&[4, 4], &[N7])]
    {
        let shape = Node::two_levels(hosts);
        let ran = with_bmv2s(switches_of(&shape) as u16, |switches| {
            let switches = switches.into_iter().map(|switch| Box::new(switch) as Box<dyn Target>).collect();
            let mut bench = Bench(Fabric::with_switches(&shape, job(Format::I32), switches));
            cases.iter().for_each(|case| (case.run)(&mut bench));
        });
        if ran.is_none() {
            return;
        }
    }
}

impl Bench {
    fn outcomes(&mut self, format: Format, call: &Call) -> Vec<Result<Tensor, OperationError>> {
        self.0.renew_job(job(format), Faults::none(), 0);
        let outcomes =
            self.0.run(std::slice::from_ref(call)).unwrap_or_else(|stuck| panic!("{format}: {stuck}"));
        outcomes.into_iter().flatten().collect()
    }

    /// What every rank gets, which is the reference's result.
    fn reduce(&mut self, format: Format, op: ReduceOp, tensors: Vec<Tensor>) -> Tensor {
        let call = Call { op, ..Call::sum(tensors) };
        let expected = expected_in(&call, format, 2);
        let outcomes: Vec<_> =
            self.outcomes(format, &call).into_iter().map(|outcome| vec![outcome]).collect();
        check(&format!("{op} in {format}"), &outcomes, std::slice::from_ref(&expected));
        expected
    }

    fn sum(&mut self, format: Format, tensors: Vec<Tensor>) -> Tensor {
        self.reduce(format, ReduceOp::Sum, tensors)
    }

    fn sum_f32(&mut self, format: Format, tensors: Vec<Vec<f32>>) -> Vec<f32> {
        let Tensor::F32(sums) = self.sum(format, tensors.into_iter().map(Tensor::F32).collect()) else {
            panic!("f32")
        };
        sums
    }

    /// Every rank must get the same typed error: this element, this sum.
    fn overflows(&mut self, format: Format, tensors: Vec<Tensor>, element: u64, exact: i128) {
        for (rank, outcome) in self.outcomes(format, &Call::sum(tensors)).into_iter().enumerate() {
            match outcome {
                Err(OperationError::Overflow { index, sum, .. }) => {
                    assert_eq!((index, sum), (element, exact), "rank {rank} in {format}");
                }
                other => panic!("rank {rank} in {format}: {other:?}"),
            }
        }
    }
}

/// The formats that carry sums of this type.
fn formats(dtype: Dtype) -> impl Iterator<Item = Format> {
    Scheme::formats(dtype, ReduceOp::Sum).iter().copied()
}

/// All zero on every rank, on rank 0 only; a chunk of zeros behind one with a 1.
fn n1(bench: &mut Bench) {
    for format in formats(Dtype::F32) {
        let zeros = vec![0.0f32; 256];
        let is_zero = |value: &f32| value.to_bits() == 0;
        assert!(bench.sum_f32(format, vec![zeros.clone(); 4]).iter().all(is_zero), "{format}");
        assert!(bench.sum_f32(format, vec![vec![-0.0; 256]; 4]).iter().all(is_zero), "{format}");
        let ones = vec![1.0; 256];
        assert_eq!(
            bench.sum_f32(format, vec![zeros, ones.clone(), ones.clone(), ones]),
            vec![3.0; 256],
            "{format}"
        );
        let chunk = 2 * format.lanes_per_word();
        let mut first = vec![0.0; 2 * chunk];
        first[0] = 1.0;
        let sums = bench.sum_f32(format, vec![first.clone(); 4]);
        assert!(sums[0] == 4.0 && sums[1..].iter().all(is_zero), "{format}");
    }
}

/// 1e-30, 1e-38, 1e-45, and one 1.0 among 1e-30: finite, and within the stated bound.
fn n2(bench: &mut Bench) {
    for format in formats(Dtype::F32) {
        let mut one_among_tiny = vec![1e-30f32; 256];
        one_among_tiny[100] = 1.0;
        for block in [vec![1e-30; 256], vec![1e-38; 256], vec![1e-45; 256], one_among_tiny] {
            let largest = block.iter().fold(0.0f64, |largest, value| largest.max(f64::from(*value)));
            let sums = bench.sum_f32(format, vec![block.clone(); 4]);
            let bits = format.lane_bits();
            let bound = 4.0 * largest / ((1i64 << (bits - 2)) - 1) as f64;
            for (sum, element) in sums.iter().zip(&block) {
                let exact = 4.0 * f64::from(*element);
                let last = exact * 2f64.powi(-24) + 2f64.powi(-150);
                assert!((f64::from(*sum) - exact).abs() <= bound + last, "{format}: {sum:e} for {exact:e}");
            }
        }
        // The smallest number is exact, four times too.
        let smallest = f32::from_bits(1);
        assert_eq!(bench.sum_f32(format, vec![vec![smallest; 3]; 4]), vec![4.0 * smallest; 3], "{format}");
    }
}

/// 2^127 and FLT_MAX: cancel to 0, or go beyond the range, alike everywhere.
fn n3(bench: &mut Bench) {
    let (two_127, max) = (2f32.powi(127), f32::MAX);
    for format in formats(Dtype::F32) {
        let mut sum = |values: [f32; 4]| bench.sum_f32(format, values.map(|value| vec![value]).to_vec())[0];
        assert_eq!(sum([max, -max, 0.0, 0.0]).to_bits(), 0, "{format}");
        assert_eq!(sum([max, max, -max, -max]).to_bits(), 0, "{format}");
        assert_eq!(sum([max, max, 0.0, 0.0]), f32::INFINITY, "{format}");
        assert_eq!(sum([-max, -max, 0.0, 0.0]), f32::NEG_INFINITY, "{format}");
        assert_eq!(sum([two_127, two_127, 0.0, 0.0]), f32::INFINITY, "{format}");
        assert_eq!(sum([two_127, two_127 / 2.0, 0.0, 0.0]), 1.5 * two_127, "{format}");
        let sums = bench.sum_f32(format, vec![vec![max, max], vec![-max, max], vec![0.0; 2], vec![0.0; 2]]);
        assert_eq!(sums, [0.0, f32::INFINITY], "{format}");
    }
}

/// 1, NaN, 3, 4 with the NaN on each rank in turn, at element 0 of 512: one result, others unaffected.
fn n4(bench: &mut Bench) {
    for format in formats(Dtype::F32) {
        for at in 0..4 {
            let mut inputs: Vec<Vec<f32>> = [1.0, 2.0, 3.0, 4.0].map(|value| vec![value; 512]).to_vec();
            inputs[at][0] = f32::NAN;
            let sums = bench.sum_f32(format, inputs);
            assert_eq!(sums[0].to_bits(), 0x7FC0_0000, "{format}, NaN on rank {at}");
            assert_eq!(sums[1..], vec![10.0; 511], "{format}, NaN on rank {at}");
        }
        let (inf, one) = (f32::INFINITY, 1.0);
        let sums = bench.sum_f32(
            format,
            vec![vec![inf, inf, -inf, one], vec![one, -inf, one, one], vec![one; 4], vec![one; 4]],
        );
        assert!(
            sums[0] == inf && sums[1].is_nan() && sums[2] == -inf && sums[3] == 4.0,
            "{format}: {sums:?}"
        );
        // All finite elements are zero.
        let mut zeros = vec![vec![0.0; 4]; 4];
        zeros[2][1] = f32::NEG_INFINITY;
        assert_eq!(bench.sum_f32(format, zeros), [0.0, f32::NEG_INFINITY, 0.0, 0.0], "{format}");
    }
}

/// int8 120 + 100, -100 - 100, 4 x 127; i32 2^31 - 1 + 1: widened, or a typed error with the element and its sum; never a wrap.
fn n5(bench: &mut Bench) {
    let column = |values: [i64; 4], dtype: Dtype| -> Vec<Tensor> {
        // The third element of five is the column.
        let rank = |value: i64| {
            let elements = [0, 1, value, 0, 1];
            match dtype {
                Dtype::I4 => Tensor::I4(I4Vec::from_values(&elements.map(|element| element as i8))),
                dtype => {
                    let size = dtype.bytes_for(1);
                    let bytes: Vec<u8> =
                        elements.iter().flat_map(|element| element.to_le_bytes()[..size].to_vec()).collect();
                    Tensor::from_le_bytes(dtype, &bytes)
                }
            }
        };
        values.map(rank).to_vec()
    };
    let cases: [(Dtype, [i64; 4]); 9] = [
        (Dtype::I8, [120, 100, 0, 0]),
        (Dtype::I8, [-100, -100, 0, 0]),
        (Dtype::I8, [127; 4]),
        (Dtype::I4, [7, 7, -5, 0]),
        (Dtype::U8, [200, 100, 0, 0]),
        (Dtype::I16, [32767, 1, 0, 0]),
        (Dtype::I32, [i32::MAX.into(), 1, 0, 0]),
        (Dtype::I32, [i32::MIN.into(), -1, 0, 0]),
        (Dtype::I64, [i64::MAX, 1, 0, 0]),
    ];
    for (dtype, values) in cases {
        let exact = values.iter().map(|value| i128::from(*value)).sum();
        for format in formats(dtype) {
            bench.overflows(format, column(values, dtype), 2, exact);
            // The average fits.
            bench.reduce(format, ReduceOp::Average, column(values, dtype));
        }
    }
    // Sums on the way may leave the type.
    for (dtype, values, sum) in [
        (Dtype::I4, [7, 7, -7, -5], 2),
        (Dtype::I8, [127, 127, -128, -120], 6),
        (Dtype::I32, [i32::MAX.into(), 1, -1, 0], i64::from(i32::MAX)),
    ] {
        for format in formats(dtype) {
            let sums = bench.sum(format, column(values, dtype));
            let bits = sums.view().bits(2);
            assert_eq!(bits, sum as u64 & (u64::MAX >> (64 - dtype.bits())), "{dtype} in {format}");
        }
    }
}

/// Averages of 4 x 60000 and 4 x 6e-8 in f16.
fn n6(bench: &mut Bench) {
    let (large, small) = (f16::from_f32(60000.0), f16::from_f32(6e-8));
    for format in formats(Dtype::F16).filter(|format| format.lane_bits() >= 16) {
        for value in [large, small] {
            let average = bench.reduce(format, ReduceOp::Average, vec![Tensor::F16(vec![value; 7]); 4]);
            assert_eq!(average, Tensor::F16(vec![value; 7]), "{format}");
        }
    }
    let both = vec![Tensor::F16(vec![large, small]); 4];
    let Tensor::F16(average) = bench.reduce(Format::Bfp32, ReduceOp::Average, both) else { panic!("f16") };
    assert_eq!(average[0], large);
}

/// Eight ranks of f16, ten runs at 0, 1 and 5 % loss with packets that overtake each other: one set of bits. 512 x 8192 elements with
/// `INCA_LONG=1`, 512 x 32 otherwise.
fn n7(bench: &mut Bench) {
    let columns = if std::env::var_os("INCA_LONG").is_some() { 8192 } else { 32 };
    let tensors = tensors(Dtype::F16, 2026, 8, 512 * columns, 7);
    let calls = [Call::sum(tensors)];
    let job = Job { chunk_words: 32, ..job(Format::Bfp16) };
    let expected = [expected_in(&calls[0], Format::Bfp16, 32)];
    for run in 0..10u64 {
        let loss = [0, 10, 50][run as usize % 3];
        let faults =
            LinkFaults { loss, reorder: 400, late: Duration::from_millis(1), ..LinkFaults::default() };
        bench.0.renew_job(job.clone(), Faults::random(run, faults), run);
        let outcomes = bench.0.run(&calls).unwrap_or_else(|stuck| panic!("run {run}: {stuck}"));
        check(&format!("run {run}"), &outcomes, &expected);
    }
}

/// All 254 subnormals of bf16 come back from a sum with zeros, in every format. (Every mantissa at every exponent: `wire/src/format/tests.rs`.)
fn n8(bench: &mut Bench) {
    let values: Vec<bf16> =
        (1..=127u16).flat_map(|bits| [bf16::from_bits(bits), bf16::from_bits(bits | 0x8000)]).collect();
    assert_eq!(values.len(), 254);
    let zeros = vec![bf16::ZERO; 254];
    for format in formats(Dtype::Bf16) {
        let mut inputs = vec![Tensor::Bf16(zeros.clone()); 4];
        inputs[1] = Tensor::Bf16(values.clone());
        let sums = bench.sum(format, inputs);
        assert_eq!(sums, Tensor::Bf16(values.clone()), "{format}");
        // One in a block of its own is exact in each.
        for value in [values[0], values[253]] {
            let mut inputs = vec![Tensor::Bf16(vec![bf16::ZERO]); 4];
            inputs[3] = Tensor::Bf16(vec![value]);
            assert_eq!(bench.sum(format, inputs), Tensor::Bf16(vec![value]), "{format}");
        }
    }
}

/// [3000.0], [4e-7], and both in one block.
fn n9(bench: &mut Bench) {
    for format in formats(Dtype::F32).filter(|format| format.lane_bits() >= 16) {
        assert_eq!(bench.sum_f32(format, vec![vec![3000.0]; 4]), [12000.0], "{format}");
        let close = |sum: f32| (f64::from(sum) - 4.0 * f64::from(4e-7f32)).abs();
        let sum = bench.sum_f32(format, vec![vec![4e-7]; 4])[0];
        assert!(close(sum) <= 4.0 * 4e-7 / 16383.0, "{format}: {sum:e}");
        let both = bench.sum_f32(format, vec![vec![3000.0, 4e-7]; 4]);
        assert_eq!(both[0], 12000.0, "{format}");
        assert!(close(both[1]) <= 4.0 * 3000.0 / 16383.0, "{format}: {:e}", both[1]);
    }
}

/// World 3, 5 elements: averages of 1, 2, 3 are 2; of 1, 2, 4 as integers 2 (7/3 to the nearest).
fn n10(bench: &mut Bench) {
    for format in formats(Dtype::F32) {
        let inputs = [1.0, 2.0, 3.0].map(|value| Tensor::F32(vec![value; 5])).to_vec();
        assert_eq!(bench.reduce(format, ReduceOp::Average, inputs), Tensor::F32(vec![2.0; 5]), "{format}");
    }
    for format in formats(Dtype::I32) {
        let inputs = [1, 2, 4].map(|value| Tensor::I32(vec![value; 5])).to_vec();
        assert_eq!(bench.reduce(format, ReduceOp::Average, inputs), Tensor::I32(vec![2; 5]), "{format}");
    }
}
