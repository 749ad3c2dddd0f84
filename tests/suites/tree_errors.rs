//! What can't be summed plainly: NaN and infinities, blocks far apart in size, sums that do not fit, ranks in different operations.
//! Every rank sees the same.

use inca_host_agent::protocol::{OperationError, ReduceOp, Tensor};
use inca_tests::fabric::{Call, Fabric, Job, Node};
use inca_tests::inputs::{self, f32_elements};
use inca_wire::packet::Format;

const CHUNK: usize = 128;

fn fabric(format: Format) -> Fabric {
    Fabric::new(&Node::two_levels(&[2, 2]), Job::new(format))
}

fn run(fabric: &mut Fabric, call: Call) -> Vec<Result<Tensor, OperationError>> {
    let outcomes = fabric.run(&[call]).unwrap_or_else(|stuck| panic!("{stuck}"));
    outcomes.into_iter().map(|mut results| results.remove(0)).collect()
}

/// NaN and infinities on each rank in turn, and several at once: IEEE's answer in their lanes, the reference's bits in all others.
#[test]
fn nonfinite_elements_keep_to_their_lanes() {
    let mut fabric = fabric(Format::Bfp16);
    let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    for rank in 0..4 {
        for special in specials {
            let mut tensors: Vec<Vec<f32>> =
                inputs::f32s(9, 4, 3 * CHUNK - 5, 4).iter().map(f32_elements).collect();
            // First element, one in the middle of the second chunk, the last one.
            for at in [0, CHUNK + 17, 3 * CHUNK - 6] {
                tensors[rank][at] = special;
            }
            // Another rank's infinity in the same lane: with the opposite one it makes NaN.
            tensors[(rank + 1) % 4][CHUNK + 17] = f32::INFINITY;
            check_nonfinite(&mut fabric, tensors);
        }
    }
}

fn check_nonfinite(fabric: &mut Fabric, tensors: Vec<Vec<f32>>) {
    let call = Call::sum(tensors.iter().cloned().map(Tensor::F32).collect());
    let reference = f32_elements(&inputs::expected(&call, 1));
    let results = run(fabric, call);
    for (rank, result) in results.iter().enumerate() {
        let ours = f32_elements(result.as_ref().unwrap_or_else(|error| panic!("rank {rank}: {error}")));
        for at in 0..reference.len() {
            let ieee: f32 = tensors.iter().map(|tensor| tensor[at]).sum();
            let (our, right) = (ours[at], reference[at]);
            if ieee.is_nan() {
                assert!(our.is_nan(), "rank {rank}, element {at}: {our} for a NaN");
            } else if ieee.is_infinite() {
                assert_eq!(our, ieee, "rank {rank}, element {at}");
            }
            assert_eq!(our.to_bits(), right.to_bits(), "rank {rank}, element {at}: {our} for {right}");
        }
    }
}

/// Ranks further apart than the guard bits repeat the chunk at a common exponent.
#[test]
fn blocks_far_apart_are_summed_in_a_second_pass() {
    let mut fabric = fabric(Format::Bfp16);
    for apart in [13, 14, 15, 20, 40, 200] {
        let tensors = (0..4).map(|rank| {
            let size = f32::exp2(if rank == 2 { -100.0 } else { -100.0 + apart as f32 });
            Tensor::F32((0..CHUNK + 9).map(|at| (at as f32 - 60.0) * size).collect())
        });
        let call = Call::sum(tensors.collect());
        inputs::run_and_check(&format!("2^{apart} apart"), &mut fabric, &[call])
            .unwrap_or_else(|stuck| panic!("{stuck}"));
    }
    assert!((0..4).all(|rank| fabric.stats(rank).extra_passes >= 4), "{:?}", fabric.stats(0));
}

/// An i32 sum that does not fit is an error that every rank gets; the job goes on.
#[test]
fn overflow_is_an_error_on_every_rank_and_the_job_goes_on() {
    let mut fabric = fabric(Format::I32);
    for (values, fits) in [
        ([i32::MAX, 0, 0, 0], true),
        ([i32::MAX, 1, 0, 0], false),
        ([i32::MAX, 1, -1, 0], true),
        ([i32::MIN, 0, 0, 0], true),
        ([i32::MIN, -1, 0, 0], false),
        ([i32::MIN, i32::MIN, i32::MAX, i32::MAX], true),
    ] {
        let tensors = values.iter().map(|&value| {
            let mut elements = vec![1; 200];
            elements[150] = value;
            Tensor::I32(elements)
        });
        let results = run(&mut fabric, Call::sum(tensors.collect()));
        for (rank, result) in results.iter().enumerate() {
            match result {
                Ok(Tensor::I32(elements)) => {
                    assert!(fits, "rank {rank} got {} for {values:?}", elements[150]);
                    assert_eq!(
                        i64::from(elements[150]),
                        values.iter().map(|&value| i64::from(value)).sum::<i64>()
                    );
                    assert!(elements.iter().enumerate().all(|(at, &element)| at == 150 || element == 4));
                }
                Err(OperationError::Overflow { index, sum, .. }) => {
                    assert!(!fits, "rank {rank}: overflow for {values:?}");
                    let exact = values.iter().map(|&value| i128::from(value)).sum::<i128>();
                    assert_eq!((*index, *sum), (150, exact));
                }
                other => panic!("rank {rank}: {other:?}"),
            }
        }
    }
}

/// Ranks that call different operations all get an error at once, whoever is the odd one out; never a cross-sum.
#[test]
fn different_operations_are_an_error_on_every_rank() {
    let other_count = |rank: usize| Tensor::I32(vec![1; if rank == 1 { 200 } else { 100 }]);
    let mut odd = fabric(Format::I32);
    let results = run(&mut odd, Call::sum((0..4).map(other_count).collect()));
    assert_mismatch("one rank brings 200 elements, the others 100", &results);

    for odd_rank in 0..4 {
        let mut fabric = fabric(Format::I32);
        let calls = |rank: usize| Call {
            op: if rank == odd_rank { ReduceOp::Average } else { ReduceOp::Sum },
            ..Call::sum(inputs::i32s(1, 4, 300))
        };
        let outcomes = fabric.run_each(&(0..4).map(|rank| vec![calls(rank)]).collect::<Vec<_>>());
        let outcomes = outcomes.unwrap_or_else(|stuck| panic!("{stuck}"));
        let results: Vec<_> = outcomes.into_iter().map(|mut results| results.remove(0)).collect();
        assert_mismatch(&format!("rank {odd_rank} averages"), &results);
    }
}

fn assert_mismatch(name: &str, results: &[Result<Tensor, OperationError>]) {
    for (rank, result) in results.iter().enumerate() {
        assert!(matches!(result, Err(OperationError::Mismatch { .. })), "{name}: rank {rank} got {result:?}");
    }
}

/// Zeros of either sign, on every rank and on one, and blocks whose sum is zero.
#[test]
fn zeros_are_plus_zero_on_every_rank() {
    let mut fabric = fabric(Format::Bfp16);
    let all = |value: f32| (0..4).map(|_| Tensor::F32(vec![value; 256])).collect::<Vec<_>>();
    let mut one_rank = inputs::f32s(2, 4, 256, 2);
    one_rank[0] = Tensor::F32(vec![0.0; 256]);
    let cancel =
        (0..4).map(|rank| Tensor::F32(vec![if rank % 2 == 0 { 1.5e10 } else { -1.5e10 }; 256])).collect();
    let mut second_block = vec![0.0; 512];
    second_block[0] = 1.0;
    let second_block = (0..4).map(|_| Tensor::F32(second_block.clone())).collect();
    for (name, tensors, zero_at) in [
        ("+0", all(0.0), Some(0)),
        ("-0", all(-0.0), Some(0)),
        ("one rank of zeros", one_rank, None),
        ("cancelling", cancel, Some(0)),
        ("zeros in the second block", second_block, Some(300)),
    ] {
        let call = Call::sum(tensors);
        let results = run(&mut fabric, call.clone());
        let reference = inputs::expected(&call, 1);
        for result in results {
            let ours = f32_elements(&result.unwrap_or_else(|error| panic!("{name}: {error}")));
            assert_eq!(Tensor::F32(ours.clone()), reference, "{name}");
            if let Some(at) = zero_at {
                assert_eq!(ours[at].to_bits(), 0, "{name}");
            }
        }
    }
}

/// The largest numbers: what cancels is exact, what exceeds f32 is infinite, alike on every rank.
#[test]
fn largest_floats_cancel_or_become_infinite() {
    let mut fabric = fabric(Format::Bfp16);
    let max = f32::MAX;
    for values in
        [[max, -max, 0.0, 0.0], [max, max, 0.0, 0.0], [f32::exp2(127.0), f32::exp2(127.0), max, -max]]
    {
        let call = Call::sum(values.iter().map(|&value| Tensor::F32(vec![value; 3])).collect());
        inputs::run_and_check(&format!("{values:?}"), &mut fabric, &[call])
            .unwrap_or_else(|stuck| panic!("{stuck}"));
    }
}
