//! Numbers and shapes that people have reported trouble with, on trees of switches: every rank must get the reference's bits.

use std::time::Duration;

use inca_host_agent::protocol::{ReduceOp, Tensor};
use inca_tests::fabric::{Call, Fabric, Faults, Job, LinkFaults, Node};
use inca_tests::inputs::{self, check, f32_elements};
use inca_tests::rig::FORMATS;
use inca_tests::rng::Rng;
use inca_wire::packet::Format;

fn fabric(hosts: &[usize], format: Format) -> Fabric {
    Fabric::new(&Node::two_levels(hosts), Job { chunk_words: 2, ..Job::new(format) })
}

fn same(ranks: usize, elements: Vec<f32>) -> Vec<Tensor> {
    vec![Tensor::F32(elements); ranks]
}

/// Blocks of very small numbers, subnormal ones too, and one large among small.
#[test]
fn tiny_and_subnormal_blocks() {
    let mut fabric = fabric(&[2, 1], Format::Bfp16);
    let mut one_among_tiny = vec![1e-30; 256];
    one_among_tiny[100] = 1.0;
    let calls = [
        same(3, vec![1e-30; 300]),
        same(3, vec![1e-38; 300]),
        same(3, vec![1e-45; 300]),
        same(3, one_among_tiny),
        same(3, vec![3000.0]),
        same(3, vec![4e-7]),
        same(3, vec![3000.0, 4e-7]),
    ]
    .map(Call::sum);
    inputs::run_and_check("tiny", &mut fabric, &calls).unwrap_or_else(|stuck| panic!("{stuck}"));
    let outcomes = fabric.run(&calls[2..3]).unwrap_or_else(|stuck| panic!("{stuck}"));
    let sums = f32_elements(outcomes[0][0].as_ref().unwrap_or_else(|error| panic!("{error}")));
    assert!(
        sums.iter().all(|&sum| sum == 3.0 * f32::from_bits(1)),
        "the smallest number three times: {:e}",
        sums[0]
    );
}

/// World 3, 5 elements: averages of 1, 2, 3 are 2; of 1, 2, 4 as integers 2 (7/3 to nearest).
#[test]
fn averages_of_three() {
    let mut floats = fabric(&[2, 1], Format::Bfp16);
    let average = |tensors| Call { op: ReduceOp::Average, ..Call::sum(tensors) };
    let tensors = [1.0, 2.0, 3.0].map(|value| Tensor::F32(vec![value; 5]));
    let outcomes = floats.run(&[average(tensors.into())]).unwrap_or_else(|stuck| panic!("{stuck}"));
    check("1, 2, 3", &outcomes, &[Tensor::F32(vec![2.0; 5])]);
    let mut integers = fabric(&[2, 1], Format::I32);
    let tensors = [1, 2, 4].map(|value| Tensor::I32(vec![value; 5]));
    let outcomes = integers.run(&[average(tensors.into())]).unwrap_or_else(|stuck| panic!("{stuck}"));
    check("1, 2, 4", &outcomes, &[Tensor::I32(vec![2; 5])]);
}

/// Element counts around chunk borders for worlds of 2 to 16, both formats.
#[test]
fn counts_and_worlds() {
    for hosts in [&[2][..], &[2, 1], &[3, 1], &[4, 3], &[8, 5, 3]] {
        for format in FORMATS {
            let mut fabric = fabric(hosts, format);
            let chunk = 2 * format.lanes_per_word();
            let calls =
                [1, chunk - 1, chunk, chunk + 1, 2 * chunk - 1, 255, 256, 257, 0, 5000].map(|count| {
                    Call::sum(match format {
                        Format::I32 => inputs::i32s(count as u64, fabric.world(), count),
                        _ => inputs::f32s(count as u64, fabric.world(), count, 6),
                    })
                });
            let name = format!("{hosts:?} {format}");
            inputs::run_and_check(&name, &mut fabric, &calls)
                .unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
        }
    }
}

/// The parameter tensors of a ResNet-50 (161 of them), each divided by 64 and at least one element, queued back to back.
#[test]
fn many_tensors_of_a_real_model() {
    let mut counts = vec![3 * 64 * 49, 64, 64];
    let mut channels = 64;
    for (blocks, width) in [(3, 64), (4, 128), (6, 256), (3, 512)] {
        for block in 0..blocks {
            counts.extend([
                channels * width,
                width,
                width,
                width * width * 9,
                width,
                width,
                width * width * 4,
            ]);
            counts.extend([width * 4, width * 4]);
            if block == 0 {
                counts.extend([channels * width * 4, width * 4, width * 4]);
            }
            channels = width * 4;
        }
    }
    counts.extend([2048 * 1000, 1000]);
    assert_eq!(counts.len(), 161);
    let mut fabric = fabric(&[2, 2], Format::Bfp16);
    let calls: Vec<Call> = (0..)
        .zip(&counts)
        .map(|(seed, &count)| Call::sum(inputs::f32s(seed, 4, usize::max(count / 64, 1), 8)))
        .collect();
    inputs::run_and_check("resnet-50", &mut fabric, &calls).unwrap_or_else(|stuck| panic!("{stuck}"));
}

/// Eight ranks, ten runs at 0, 1 and 5 % loss with packets overtaking each other, on three shapes: one set of bits.
#[test]
fn loss_order_and_shape_do_not_change_bits() {
    let tensors = inputs::f32s(2026, 8, 40 * 256, 7);
    let calls = [Call::sum(tensors)];
    let expected = [inputs::expected(&calls[0], 2)];
    let shapes = [
        Node::leaf(8),
        Node::two_levels(&[3, 5]),
        Node::Switch(vec![Node::two_levels(&[2, 2]), Node::leaf(4)]),
    ];
    for shape in shapes {
        let mut fabric = Fabric::new(&shape, Job { chunk_words: 2, slots: 16, ..Job::new(Format::Bfp16) });
        for run in 0..10 {
            let loss = [0, 10, 50][run % 3];
            let faults =
                LinkFaults { loss, reorder: 400, late: Duration::from_millis(1), ..LinkFaults::default() };
            fabric.renew(Faults::random(run as u64, faults), run as u64);
            let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("{shape:?}, run {run}: {stuck}"));
            check(&format!("{shape:?}, run {run}"), &outcomes, &expected);
        }
    }
}

/// A 4-bit integer's sum with partial sums beyond its range: 7 - 5 + 5 + 5 - 3 - 7 = 2, in any order.
#[test]
fn partial_sums_may_leave_the_range() {
    let mut fabric = fabric(&[3, 3], Format::I32);
    let scale = 1 << 28;
    let mut values = [7, -5, 5, 5, -3, -7];
    for seed in 0..20 {
        Rng::new(seed).shuffle(&mut values);
        let tensors = values.iter().map(|&value| Tensor::I32(vec![value * scale, value])).collect();
        let outcomes = fabric.run(&[Call::sum(tensors)]).unwrap_or_else(|stuck| panic!("{stuck}"));
        check(&format!("{values:?}"), &outcomes, &[Tensor::I32(vec![2 * scale, 2])]);
    }
}
