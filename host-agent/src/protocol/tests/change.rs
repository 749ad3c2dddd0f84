//! Generations that change in the middle of operations: the results are those of an undisturbed run.

use super::network::{Links, Network, Plan as NetworkPlan, Rng};
use super::*;
use crate::protocol::{ChangeError, KeptChunk, NextGeneration, OperationError, Part, Stall, StartError};
use inca_wire::packet::Format;

const SECOND: Duration = Duration::from_secs(1);
const WORLD: usize = 5;

/// Ranks 0 and 1 at the root, 2 to 4 below two more switches, over lossy links that reorder.
fn tree(format: Format, seed: u64) -> NetworkPlan {
    let links = Links { latency_us: 20, jitter_us: 30, loss: 0.03, duplication: 0.03 };
    NetworkPlan {
        parents: vec![None, Some(0), Some(1)],
        hosts: vec![0, 0, 1, 2, 2],
        stripes: 1 + (seed % 2) as usize,
        slots: 3,
        links,
        seed,
        ..NetworkPlan::star(WORLD, format)
    }
}

fn inputs(format: Format, seed: u64) -> super::Plan {
    let mut rng = Rng::new(seed);
    let lens = [0; 3].map(|_| 1 + rng.below(3000) as usize);
    let tensor = |rng: &mut Rng, len| match format {
        Format::I32 => mild_i32(rng, len),
        _ => wild_f32(rng, len, true),
    };
    (0..WORLD).map(|_| lens.iter().map(|len| tensor(&mut rng, *len)).collect()).collect()
}

#[test]
fn generations_may_change_at_any_time_and_the_results_are_exact() {
    let mut copied = 0;
    for seed in 0..60 {
        let format = if seed % 3 == 0 { Format::I32 } else { Format::Bfp16 };
        let plan = inputs(format, seed);
        let mut network = Network::new(tree(format, seed));
        start_all(&mut network, &plan);
        let mut rng = Rng::new(!seed);
        for _ in 0..6 {
            network.run(Duration::from_micros(rng.below(1500)), |_| false);
            copied += network.change();
        }
        run_exact(&mut network, &plan, 100 * SECOND, &format!("seed {seed}"));
    }
    assert!(copied > 50, "only {copied} chunks were handed over: the case is not met");
}

#[test]
fn a_switch_that_forgets_everything_is_no_loss_after_a_change() {
    // All packets are lost for a while, as with a dead switch; then everything begins anew.
    let plan = inputs(Format::I32, 1);
    let mut network = Network::new(tree(Format::I32, 1));
    start_all(&mut network, &plan);
    network.dark_us = (300, 40_000);
    network.run(Duration::from_millis(41), |_| false);
    network.change();
    run_exact(&mut network, &plan, 100 * SECOND, "dark");
}

#[test]
fn chunks_of_calls_that_have_returned_are_handed_over() {
    // Rank 1's results are lost from the very beginning, rank 0 gets all of its own and returns.
    let mut network = Network::new(NetworkPlan::star(2, Format::I32));
    let plan: super::Plan = vec![vec![Tensor::I32(vec![4; 50])], vec![Tensor::I32(vec![5; 50])]];
    network.start(0, sum(), plan[0][0].clone());
    network.run(Duration::from_millis(1), |_| false);
    network.start(1, sum(), plan[1][0].clone());
    network.run(SECOND, |network| !network.completed[0].is_empty());
    // Of two copies of a result that are sent at once the first arrives first.
    assert!(network.completed[1].is_empty(), "both are done: the case is not met");
    assert_eq!(network.change(), 1, "its only chunk");
    assert_eq!(network.completed[1].len(), 1, "without another packet");
    run_exact(&mut network, &plan, SECOND, "returned");
}

#[test]
fn l2_survivors_go_on_and_the_result_says_what_it_holds() {
    for seed in 0..20 {
        let mut network = Network::new(tree(Format::I32, seed));
        let len = 64 * 60;
        for rank in 0..WORLD {
            network.start(rank, sum(), Tensor::I32(vec![1 << rank; len]));
        }
        network.run(Duration::from_micros(500 + 100 * seed), |_| false);
        network.kill(3);
        network.run(Duration::from_millis(20), |_| false);
        network.change();
        for rank in [0, 1, 2, 4] {
            network.start(rank, sum(), Tensor::I32(vec![1 << rank; 10]));
        }
        network
            .run(100 * SECOND, |network| [0, 1, 2, 4].iter().all(|rank| network.completed[*rank].len() == 2));
        network.completed.iter_mut().for_each(|completed| completed.sort_by_key(|completion| completion.id));
        let first: Vec<Part> = network.completed[0][0].parts.clone();
        for rank in [0, 1, 2, 4] {
            let [all, small] = &network.completed[rank][..] else { panic!("seed {seed}: rank {rank} hangs") };
            assert_eq!((&all.result, &small.result), (&Ok(()), &Ok(())));
            assert_eq!(all.parts, first, "all ranks have the same parts");
            assert_eq!(all.buffer, network.completed[0][0].buffer);
            let mut next = 0;
            for part in &all.parts {
                assert_eq!(part.elements.start, next);
                next = part.elements.end;
                let value: i32 = part.ranks.iter().map(|rank| 1 << rank).sum();
                let range = part.elements.start as usize..part.elements.end as usize;
                assert!(i32s(&all.buffer)[range].iter().all(|element| *element == value), "{part:?}");
            }
            assert_eq!(next, len as u64);
            assert!(all.parts.iter().any(|part| part.ranks.len() == 4), "seed {seed}: {:?}", all.parts);
            assert_eq!(small.buffer, Tensor::I32(vec![0b10111; 10]));
            assert_eq!(small.parts, [Part { elements: 0..10, ranks: [0, 1, 2, 4].into() }]);
        }
    }
}

#[test]
fn a_stopped_endpoint_is_silent_and_its_deadline_says_why() {
    let mut network = Network::new(NetworkPlan::star(2, Format::I32));
    let deadline = network.now() + SECOND;
    let spec = OperationSpec { deadline: Some(deadline), ..sum() };
    network.start(0, spec, Tensor::I32(vec![1; 500]));
    network.endpoints[0].stop("spine1 is unreachable");
    assert_eq!(network.endpoints[0].stop("twice"), Some(vec![vec![0; 8]]));
    let before = network.packets();
    network.serve(0);
    network.run(2 * SECOND, |network| !network.completed[0].is_empty());
    assert_eq!((network.now(), network.packets()), (deadline, before));
    let error = network.completed[0][0].result.clone().expect_err("deadline");
    let OperationError::DeadlineExceeded { stall: Stall::Stopped { .. }, .. } = &error else {
        panic!("{error}")
    };
    assert!(error.to_string().contains("waits for new trees"), "{error}");
    assert_eq!(network.endpoints[0].stop("late"), None, "closed");
    let refused = network.endpoints[0].start(sum(), Tensor::I32(vec![1])).expect_err("closed");
    assert!(matches!(refused.error, StartError::Closed { .. }));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut network = Network::new(NetworkPlan::star(2, Format::I32));
    network.start(0, sum(), Tensor::I32(vec![1; 500]));
    let now = network.now();
    let endpoint = &mut network.endpoints[0];
    let trees = endpoint.config().trees.clone();
    let next = NextGeneration { generation: 8, members: vec![0, 1], trees, finished: vec![vec![0; 8]] };
    assert_eq!(endpoint.reopen(now, next.clone()), Err(ChangeError::NotStopped));
    assert_eq!(endpoint.take_over(&[]), Err(ChangeError::NotStopped));
    endpoint.stop("test");
    let stale = NextGeneration { generation: 7, ..next.clone() };
    assert!(matches!(endpoint.reopen(now, stale), Err(ChangeError::Generation { given: 7, current: 7 })));
    let ahead = NextGeneration { finished: vec![vec![0, 0, 1, 0, 0, 0, 0, 0]], ..next.clone() };
    let error = endpoint.reopen(now, ahead).expect_err("ahead");
    assert_eq!(error, ChangeError::Place { tree: 0, slot: 2, ours: 0, agreed: 1 });
    let mut fewer = next.clone();
    fewer.trees[0].slots = 4;
    assert!(matches!(endpoint.reopen(now, fewer), Err(ChangeError::Slots { .. })));
    let chunk = KeptChunk { tree: 0, slot: 0, tag: 1, overflow: None, elements: vec![0; 256] };
    for wrong in [chunk.clone(), KeptChunk { tree: 1, ..chunk.clone() }, KeptChunk { slot: 8, ..chunk }] {
        assert!(matches!(endpoint.take_over(&[wrong]), Err(ChangeError::Copy { .. })));
    }
    assert_eq!(endpoint.reopen(now, next), Ok(()));
}

#[test]
fn an_overflow_is_handed_over_as_an_overflow() {
    let mut network = Network::new(NetworkPlan::star(2, Format::I32));
    network.start(0, sum(), Tensor::I32(vec![i32::MAX; 10]));
    network.run(Duration::from_millis(1), |_| false);
    network.start(1, sum(), Tensor::I32(vec![1; 10]));
    network.run(SECOND, |network| !network.completed[0].is_empty());
    assert_eq!(network.change(), 1);
    for completed in &network.completed {
        assert!(matches!(
            completed[0].result,
            Err(OperationError::Overflow { index: 0, sum: 0x8000_0000, .. })
        ));
    }
}
