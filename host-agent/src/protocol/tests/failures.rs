//! What can't succeed ends in a typed error, on every rank, in time.

use std::time::Instant;

use super::network::{Network, Plan};
use super::*;
use crate::protocol::{Closed, MissingRanks, OperationError, Stall, StartError};
use inca_wire::packet::Format;

const SECOND: Duration = Duration::from_secs(1);

fn by(deadline: Instant) -> OperationSpec {
    OperationSpec { deadline: Some(deadline), ..sum() }
}

#[test]
fn an_unanswered_operation_fails_at_its_deadline() {
    let mut network = Network::new(Plan::star(2, Format::I32));
    network.dark_us = (0, u64::MAX);
    let deadline = network.now() + SECOND;
    network.start(0, by(deadline), Tensor::I32(vec![1; 1000]));
    network.run(3 * SECOND, |network| !network.completed[0].is_empty());
    assert_eq!(network.now(), deadline, "not later");
    let completion = &network.completed[0][0];
    let Err(OperationError::DeadlineExceeded { finished: 0, chunks: 16, chunk: 0, stall, .. }) =
        &completion.result
    else {
        panic!("{:?}", completion.result)
    };
    assert!(matches!(stall, Stall::Silent { transmissions: 10.., .. }), "{stall:?}");
    assert_eq!(completion.buffer, Tensor::I32(vec![1; 1000]), "the input is as it was");
    let text = completion.result.as_ref().expect_err("deadline").to_string();
    for part in ["job test", "allreduce 0", "0 of 16 chunks", "chunk 0", "leaf switch"] {
        assert!(text.contains(part), "{text}");
    }
    // Four slots, at most 100 ms and jitter apart.
    assert!(network.packets() < 100, "{} packets", network.packets());
    network.run(SECOND, |_| false);
    assert!(network.packets() < 100, "nothing is sent after the end");
}

#[test]
fn a_deadline_tells_what_the_leaf_waits_for_and_ends_the_generation() {
    let mut network = Network::new(Plan::star(3, Format::I32));
    let good: super::Plan = vec![vec![Tensor::I32(vec![1; 100])]; 3];
    start_all(&mut network, &good);
    run_exact(&mut network, &good, SECOND, "first");
    // Rank 1 does not call the second one.
    for rank in [0, 2] {
        let deadline = network.now() + SECOND;
        network.start(rank, by(deadline), Tensor::I32(vec![1; 100]));
    }
    network.run(3 * SECOND, |network| [0, 2].iter().all(|rank| network.completed[*rank].len() == 2));
    for rank in [0, 2] {
        let Err(OperationError::DeadlineExceeded { stall, .. }) = &network.completed[rank][1].result else {
            panic!("rank {rank}: {:?}", network.completed[rank])
        };
        let missing = Box::new(MissingRanks { certain: vec![1], some_of: Vec::new() });
        assert_eq!(*stall, Stall::Waiting { contributions: 2, world_size: 3, children: 0b101, missing });
        let refused = network.endpoints[rank].start(sum(), Tensor::I32(vec![1])).expect_err("ended");
        assert!(matches!(refused.error, StartError::Closed { .. }));
        assert!(refused.error.to_string().contains("join again"), "{}", refused.error);
    }
}

#[test]
fn a_deadline_names_who_may_be_missing_behind_other_switches() {
    // Ranks 0 and 1 at the root, 2 and 3 below s1, 4 and 5 below s2.
    let mut plan = Plan::star(6, Format::I32);
    (plan.parents, plan.hosts) = (vec![None, Some(0), Some(0)], vec![0, 0, 1, 1, 2, 2]);
    for (absent, texts) in [
        (
            3,
            [
                "some of ranks [2, 3], behind",
                "some of ranks [2, 3], behind",
                "rank 3 (",
                "",
                "some of ranks [0, 1, 2, 3], behind",
            ],
        ),
        (
            0,
            [
                "",
                "rank 0 (",
                "some of ranks [0, 1, 4, 5]",
                "some of ranks [0, 1, 4, 5]",
                "some of ranks [0, 1, 2, 3]",
            ],
        ),
    ] {
        let mut network = Network::new(plan.clone());
        let deadline = network.now() + SECOND;
        for rank in (0..6).filter(|rank| *rank != absent) {
            network.start(rank, by(deadline), Tensor::I32(vec![1; 10]));
        }
        network.run(2 * SECOND, |network| network.completed.iter().map(Vec::len).sum::<usize>() == 5);
        for (rank, text) in (0..).zip(texts).filter(|(rank, _)| *rank != absent) {
            let error = network.completed[rank][0].result.as_ref().expect_err("deadline").to_string();
            assert!(error.contains(text), "absent {absent}, rank {rank}: {error}");
        }
    }
}

#[test]
fn a_short_deadline_fails_the_operations_behind_it_too() {
    let mut network = Network::new(Plan::star(2, Format::I32));
    let now = network.now();
    network.start(0, by(now + 5 * SECOND), Tensor::I32(vec![1; 10_000]));
    network.start(0, by(now + SECOND / 100), Tensor::I32(vec![1; 100]));
    network.start(0, sum(), Tensor::I32(vec![1; 100]));
    network.run(SECOND, |network| network.completed[0].len() == 3);
    let results: Vec<_> =
        network.completed[0].iter().map(|completion| (completion.id.0, &completion.result)).collect();
    assert!(
        matches!(results[0], (1, Err(OperationError::DeadlineExceeded { stall: Stall::NotSent, .. }))),
        "{results:?}"
    );
    assert!(matches!(results[1], (0, Err(OperationError::Closed { .. }))), "{results:?}");
    assert!(matches!(results[2], (2, Err(OperationError::Closed { .. }))), "{results:?}");
}

#[test]
fn different_operations_fail_on_every_rank() {
    let average = OperationSpec { op: ReduceOp::Average, ..sum() };
    let cases: [(&str, OperationSpec, usize, OperationSpec, usize); 3] = [
        ("sum against average", sum(), 500, average, 500),
        ("lengths that differ in the last chunk", sum(), 500, sum(), 510),
        ("lengths that differ in chunks", sum(), 100 * 25, sum(), 200 * 25),
    ];
    for (what, spec0, len0, spec1, len1) in cases {
        for loss in [0.0, 0.2] {
            let mut plan = Plan::star(2, Format::I32);
            plan.links.loss = loss;
            let mut network = Network::new(plan);
            network.start(0, spec0, Tensor::I32(vec![1; len0]));
            network.start(1, spec1, Tensor::I32(vec![1; len1]));
            network.run(10 * SECOND, |network| network.completed.iter().all(|done| done.len() == 1));
            for rank in 0..2 {
                let result = &network.completed[rank].first().expect(what).result;
                assert!(
                    matches!(result, Err(OperationError::Mismatch { .. })),
                    "{what}: rank {rank}: {result:?}"
                );
                assert!(network.endpoints[rank].closed().is_some());
            }
        }
    }
}

#[test]
fn integer_overflow_fails_everywhere_and_the_generation_goes_on() {
    let mut network = Network::new(Plan::star(2, Format::I32));
    let mut high = vec![1; 640];
    high[200] = i32::MAX;
    for rank in 0..2 {
        network.start(rank, sum(), Tensor::I32(high.clone()));
        network.start(rank, sum(), Tensor::I32(vec![21; 640]));
    }
    network.run(SECOND, |network| network.completed.iter().all(|done| done.len() == 2));
    for completed in &network.completed {
        let Err(OperationError::Overflow { index, sum, .. }) = &completed[0].result else {
            panic!("{completed:?}")
        };
        assert_eq!((*index, *sum), (200, 2 * i128::from(i32::MAX)));
        let text = completed[0].result.as_ref().expect_err("overflow").to_string();
        assert!(text.contains("element 200 is 4294967294, which does not fit i32"), "{text}");
        assert_eq!(completed[1].result, Ok(()));
        assert_eq!(completed[1].buffer, Tensor::I32(vec![42; 640]));
    }
}

#[test]
fn averages_divide_the_sum() {
    let average = OperationSpec { op: ReduceOp::Average, ..sum() };
    let mut network = Network::new(Plan::star(3, Format::Bfp16));
    for (rank, value) in [1.0f32, 2.0, 3.0].into_iter().enumerate() {
        network.start(rank, average, Tensor::F32(vec![value, f32::MAX, f32::NAN, -0.0]));
    }
    network.run(SECOND, |network| network.completed.iter().all(|done| done.len() == 1));
    for completed in &network.completed {
        assert_eq!(completed[0].result, Ok(()));
        let Tensor::F32(average) = &completed[0].buffer else { panic!("{completed:?}") };
        // FLT_MAX itself needs 24 bits: in a block it is 2^128 rounded to 15 bits, that is, infinite.
        assert!(average[1].is_infinite() || average[1] >= f32::MAX * 0.999, "{average:?}");
        assert!(average[2].is_nan());
        assert_eq!(average[3].to_bits(), 0);
    }
    let mut network = Network::new(Plan::star(3, Format::I32));
    for (rank, value) in [1, 2, 4].into_iter().enumerate() {
        network.start(rank, average, Tensor::I32(vec![value, -value, 1 - value]));
    }
    network.run(SECOND, |network| network.completed.iter().all(|done| done.len() == 1));
    for completed in &network.completed {
        // 7/3, -7/3 and -4/3 to the nearest.
        assert_eq!(completed[0].buffer, Tensor::I32(vec![2, -2, -1]));
    }
}

#[test]
fn cancelling_and_closing_end_every_operation() {
    let mut network = Network::new(Plan::star(2, Format::I32));
    let first = network.start(0, sum(), Tensor::I32(vec![1; 500]));
    network.start(0, sum(), Tensor::I32(vec![1; 500]));
    assert!(network.endpoints[0].cancel(first));
    assert!(!network.endpoints[0].cancel(first), "ended already");
    network.serve(0);
    let results: Vec<_> = network.completed[0].iter().map(|completion| &completion.result).collect();
    assert!(matches!(
        results[..],
        [Err(OperationError::Cancelled { .. }), Err(OperationError::Closed { .. })]
    ));

    network.start(1, sum(), Tensor::I32(vec![1; 500]));
    network.endpoints[1].close(Closed { reason: "rank 0 left".to_owned(), missing_ranks: vec![0] });
    network.serve(1);
    let text = network.completed[1][0].result.as_ref().expect_err("closed").to_string();
    assert!(text.contains("rank 0 left") && text.contains("rank 0 is missing"), "{text}");
    let transmissions =
        |network: &Network| network.stats().iter().map(|stats| stats.transmissions).sum::<u64>();
    let before = transmissions(&network);
    network.run(SECOND, |_| false);
    assert_eq!(transmissions(&network), before, "nothing is sent after the end");
}
