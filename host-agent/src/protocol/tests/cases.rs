//! Cases from people who use collective libraries: shapes that go wrong elsewhere.

use super::network::{Network, Plan as NetworkPlan};
use super::*;
use crate::protocol::OperationError;
use inca_wire::packet::Format;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn s1_empty_tensors_scalars_and_lists_with_empty_ones() {
    // (0,), (1, 0, 2), a scalar, (1,): all that counts is how many elements there are.
    for world in [2, 3] {
        for (len, packets) in [(0, 0), (1, 1)] {
            let mut network = Network::new(NetworkPlan::star(world, Format::Bfp16));
            let plan: super::Plan =
                (0..world).map(|rank| vec![Tensor::F32(vec![rank as f32; len])]).collect();
            start_all(&mut network, &plan);
            run_exact(&mut network, &plan, SECOND, "s1");
            assert!(network.stats().iter().all(|stats| stats.transmissions == packets));
        }
    }
    let mut rng = Rng::new(1);
    let plan: super::Plan = (0..3).map(|_| [5, 0, 7].map(|len| mild_i32(&mut rng, len)).to_vec()).collect();
    let mut network = Network::new(NetworkPlan::star(3, Format::I32));
    start_all(&mut network, &plan);
    run_exact(&mut network, &plan, SECOND, "s1 list");
    assert!(network.stats().iter().all(|stats| stats.transmissions == 2), "nothing for the empty one");
}

#[test]
fn s3_ranks_that_bring_different_lengths_types_or_reductions() {
    let spec = |op| OperationSpec { op, ..sum() };
    let f32s = |len| Tensor::F32(vec![1.0; len]);
    let (short, long) = (f32s(100 * 2560), f32s(200 * 2560));
    let cases = [
        (spec(ReduceOp::Sum), short, spec(ReduceOp::Sum), long, ["256000 f32", "512000 f32"]),
        (
            spec(ReduceOp::Sum),
            f32s(9),
            spec(ReduceOp::Sum),
            Tensor::F16(vec![half::f16::ONE; 9]),
            ["9 f32", "9 f16"],
        ),
        (spec(ReduceOp::Sum), f32s(9), spec(ReduceOp::Average), f32s(9), ["sum of 9", "average of 9"]),
    ];
    for (first, first_tensor, second, second_tensor, named) in cases {
        let mut network = Network::new(NetworkPlan::star(3, Format::Bfp16));
        network.start(0, first, first_tensor.clone());
        network.start(1, second, second_tensor);
        network.start(2, first, first_tensor);
        network.run(10 * SECOND, |network| network.completed.iter().all(|done| done.len() == 1));
        for (rank, done) in network.completed.iter().enumerate() {
            let error = done[0].result.as_ref().expect_err("they differ");
            assert!(matches!(error, OperationError::Mismatch { .. }), "rank {rank}: {error}");
            let text = error.to_string();
            assert!(named.iter().all(|name| text.contains(name)), "rank {rank}: {text}");
        }
    }
}

/// Elements of ResNet-50's 161 parameters, each divided by 64.
fn resnet50() -> Vec<usize> {
    let mut sizes = vec![64 * 3 * 49, 64, 64];
    let mut width_in = 64;
    for (blocks, width) in [(3, 64), (4, 128), (6, 256), (3, 512)] {
        for block in 0..blocks {
            let convolutions = [width_in * width, width * width * 9, width * width * 4];
            let norms = [width, width, width * 4];
            for (convolution, norm) in convolutions.into_iter().zip(norms) {
                sizes.extend([convolution, norm, norm]);
            }
            if block == 0 {
                sizes.extend([width_in * width * 4, width * 4, width * 4]);
            }
            width_in = width * 4;
        }
    }
    sizes.extend([2048 * 1000, 1000]);
    sizes.into_iter().map(|size| (size / 64).max(1)).collect()
}

#[test]
fn s6_the_161_tensors_of_resnet_50() {
    let sizes = resnet50();
    assert_eq!(sizes.len(), 161);
    let mut rng = Rng::new(6);
    let mut plan = NetworkPlan::star(2, Format::I32);
    (plan.chunk_words, plan.slots, plan.window.start) = (16, 32, 32);
    let mut network = Network::new(plan);
    let tensors: super::Plan =
        (0..2).map(|_| sizes.iter().map(|len| mild_i32(&mut rng, *len)).collect()).collect();
    start_all(&mut network, &tensors);
    run_exact(&mut network, &tensors, 100 * SECOND, "s6");
}

#[test]
fn a_thousand_rounds_of_two_small_sums_are_never_swapped_whatever_the_skew() {
    const WORLD: usize = 8;
    const ROUNDS: usize = 1000;
    let mut rng = Rng::new(9);
    let mut plan = NetworkPlan::star(WORLD, Format::I32);
    plan.links.jitter_us = 100;
    let mut network = Network::new(plan);
    let mut started = [0; WORLD];
    while started.iter().any(|count| *count < 2 * ROUNDS) {
        let rank = rng.below(WORLD as u64) as usize;
        // Up to a few calls at once, then a pause.
        for _ in 0..rng.below(4) {
            if started[rank] < 2 * ROUNDS {
                let (round, second) = (started[rank] / 2, started[rank] % 2);
                network.start(rank, sum(), Tensor::I32(vec![(round * 2 + second) as i32; 3 - second]));
                started[rank] += 1;
            }
        }
        network.run(Duration::from_micros(rng.below(60)), |_| false);
    }
    network.run(100 * SECOND, |network| network.completed.iter().all(|done| done.len() == 2 * ROUNDS));
    for completed in &mut network.completed {
        completed.sort_by_key(|completion| completion.id);
        assert_eq!(completed.len(), 2 * ROUNDS);
        for (number, completion) in completed.iter().enumerate() {
            assert_eq!(completion.result, Ok(()));
            let right = vec![(WORLD * number) as i32; 3 - number % 2];
            assert_eq!(i32s(&completion.buffer), right);
        }
    }
}
