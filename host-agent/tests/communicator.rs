//! The whole agent on loopback sockets: real gRPC, real UDP, and the reference model as the switch.

mod support;

use std::time::{Duration, Instant};

use inca_host_agent::communicator::JoinError;
use inca_host_agent::{
    CollectiveError, Communicator, Format, OperationError, PeerError, ReduceOp, StartError, Tensor,
    TensorMut, TensorRef,
};
use inca_wire::model::allreduce::{allreduce_f32, allreduce_i32};
use support::{Script, ScriptedController, Switch, options};

const DEADLINE: Duration = Duration::from_secs(20);

/// Joins all ranks and runs `body` on each, on a thread of its own.
fn everyone<T: Send>(
    controller: &ScriptedController,
    world: u32,
    format: Format,
    body: impl Fn(Communicator, u32) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..world)
            .map(|rank| {
                let body = &body;
                scope.spawn(move || {
                    body(Communicator::join(options(controller, rank, world, format)).expect("joins"), rank)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().expect("rank")).collect()
    })
}

fn f32_input(rank: u32, len: usize) -> Vec<f32> {
    (0..len).map(|index| ((index * 7919 + rank as usize * 31) % 2003) as f32 / 64.0 - 15.0).collect()
}

fn i32_input(rank: u32, len: usize) -> Vec<i32> {
    (0..len).map(|index| (index * 7919 + rank as usize * 31) as i32 % 100_003 - 50_000).collect()
}

#[test]
fn ranks_join_reduce_and_leave() {
    const LEN: usize = 20_000;
    let switch = Switch::start(3, Format::Bfp16, 5, 0);
    let controller = ScriptedController::start(&switch, Script { announcements: 2, ..Script::default() });
    let inputs: Vec<_> = (0..3).map(|rank| f32_input(rank, LEN)).collect();
    let expected = allreduce_f32(&inputs, 5).expect("reference").elements;
    everyone(&controller, 3, Format::Bfp16, |group, rank| {
        assert_eq!((group.rank(), group.world_size()), (rank, 3));
        let mut in_place = inputs[rank as usize].clone();
        group.allreduce_f32(&mut in_place, ReduceOp::Sum, DEADLINE).expect("in place");
        assert!(in_place == expected, "rank {rank} in place");

        let mut output = vec![0.0; LEN];
        group
            .allreduce_f32_into(&inputs[rank as usize], &mut output, ReduceOp::Sum, DEADLINE)
            .expect("out of place");
        assert!(output == expected, "rank {rank} out of place");

        group.allreduce_f32(&mut [], ReduceOp::Sum, DEADLINE).expect("empty");
        let short = group.allreduce_f32_into(&inputs[0], &mut output[1..], ReduceOp::Sum, DEADLINE);
        assert!(matches!(short, Err(CollectiveError::Start(StartError::OutputMismatch { .. }))), "{short:?}");
        group.leave().expect("leaves");
    });
    assert!(switch.announcements() >= 6);
    let mut left = controller.await_left(3);
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2]);
}

#[test]
fn loss_heals_on_real_sockets() {
    const LEN: usize = 30_000;
    let switch = Switch::start(2, Format::I32, 5, 50);
    let controller = ScriptedController::start(&switch, Script::default());
    let inputs: Vec<_> = (0..2).map(|rank| i32_input(rank, LEN)).collect();
    let expected = allreduce_i32(&inputs, 5).expect("reference").elements;
    everyone(&controller, 2, Format::I32, |group, rank| {
        let mut tensor = inputs[rank as usize].clone();
        group.allreduce_i32(&mut tensor, ReduceOp::Sum, DEADLINE).expect("heals");
        assert!(tensor == expected, "rank {rank}");
        let (stats, refused) = group.stats();
        assert!(stats.chunks == 94 && refused == 0, "{stats:?}");
        // Stay until the other rank has its last results: the switch's store serves it, not this rank.
        group.leave().expect("leaves");
    });
    assert!(switch.dropped.load(std::sync::atomic::Ordering::Relaxed) > 2);
}

#[test]
fn overlapping_calls_are_handed_over_and_given_back() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    everyone(&controller, 2, Format::I32, |group, _| {
        let start =
            |value: i32, len| group.start_allreduce(Tensor::I32(vec![value; len]), ReduceOp::Sum, DEADLINE);
        let handles: Vec<_> = (0..50).map(|call| start(call, 37 * call as usize)).collect();
        for (call, handle) in handles.into_iter().enumerate() {
            let sum = handle.wait().expect("sums");
            assert_eq!(sum, Tensor::I32(vec![2 * call as i32; 37 * call]));
        }
        // The same inside an asynchronous runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
        let sum = runtime.block_on(async { start(4, 10).await }).expect("sums");
        assert_eq!(sum, Tensor::I32(vec![8; 10]));
    });
}

#[test]
fn a_missing_rank_is_named_at_the_join_timeout() {
    let switch = Switch::start(3, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    let results: Vec<_> = std::thread::scope(|scope| {
        let ranks: Vec<_> = [0, 1]
            .map(|rank| {
                let mut options = options(&controller, rank, 3, Format::I32);
                options.timeout = Duration::from_millis(600);
                scope.spawn(move || Communicator::join(options))
            })
            .into_iter()
            .collect();
        ranks.into_iter().map(|rank| rank.join().expect("rank")).collect()
    });
    let mut named = 0;
    for result in results {
        let Err(JoinError::Timeout { missing_ranks, waiting_for, .. }) = result else { panic!("{result:?}") };
        // Only the later of the two knows that the other is there.
        if missing_ranks == [2] {
            assert_eq!(waiting_for, "waiting for rank 2");
            named += 1;
        }
    }
    assert!(named >= 1);
}

#[test]
fn a_closed_generation_ends_calls_with_the_controllers_reason() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    let controller = &controller;
    everyone(controller, 2, Format::I32, |group, rank| {
        if rank == 1 {
            // Never calls, and is declared lost while rank 0 waits.
            switch.await_contribution();
            controller.close("rank 1 was lost", &[1]);
            return;
        }
        let began = Instant::now();
        let error = group.allreduce_i32(&mut [1; 100], ReduceOp::Sum, DEADLINE).expect_err("closed");
        assert!(began.elapsed() < Duration::from_secs(5));
        let CollectiveError::Operation(OperationError::Closed { closed, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((closed.reason.as_str(), &closed.missing_ranks[..]), ("rank 1 was lost", &[1][..]));
        assert!(error.to_string().contains("rank 1 is missing"), "{error}");
        let error = group.allreduce_i32(&mut [1; 100], ReduceOp::Sum, DEADLINE).expect_err("still closed");
        assert!(matches!(error, CollectiveError::Start(StartError::Closed { .. })), "{error:?}");
        assert!(group.closed().is_some());
        group.leave().expect("has left already");
    });
}

#[test]
fn a_deadline_fails_the_call_in_time_and_leaves_the_job() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    let controller = &controller;
    everyone(controller, 2, Format::I32, |group, rank| {
        if rank == 1 {
            // Present, but does not call until rank 0 has given up.
            assert_eq!(controller.await_left(1), [0]);
            return;
        }
        group.allreduce_i32(&mut [], ReduceOp::Sum, DEADLINE).expect("nothing to wait for");
        let began = Instant::now();
        let mut tensor = [5; 100];
        let error =
            group.allreduce_i32(&mut tensor, ReduceOp::Sum, Duration::from_millis(300)).expect_err("alone");
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
        assert!(
            matches!(error, CollectiveError::Operation(OperationError::DeadlineExceeded { .. })),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("waits at the leaf switch for rank 1 (1 of 2 arrived there"),
            "{error}"
        );
        assert_eq!(tensor, [5; 100]);
        // The generation has ended here: the controller is told at once, and why.
        controller.await_left(1);
        let (failure, missing) = controller.failure();
        assert!(failure.contains("exceeded its deadline; chunk 0 waits"), "{failure}");
        assert_eq!(missing, [1]);
    });
}

#[test]
fn a_cancelled_call_ends() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    let controller = &controller;
    everyone(controller, 2, Format::I32, |group, rank| {
        if rank == 0 {
            let handle = group.start_allreduce(Tensor::I32(vec![1; 10]), ReduceOp::Sum, DEADLINE);
            handle.cancel();
            let error = handle.wait().expect_err("cancelled");
            assert!(
                matches!(error, CollectiveError::Operation(OperationError::Cancelled { .. })),
                "{error:?}"
            );
        }
        controller.await_left(1);
    });
}

#[test]
fn what_cannot_be_joined_is_refused_with_the_reason() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script { refuse: Some(1), ..Script::default() });
    let join = |change: &dyn Fn(&mut inca_host_agent::JoinOptions)| {
        let mut options = options(&controller, 0, 2, Format::I32);
        options.timeout = Duration::from_millis(500);
        change(&mut options);
        Communicator::join(options).map(|_| ()).expect_err("refused").to_string()
    };
    for (error, parts) in [
        (join(&|options| options.rank = 1), &["rank 1", "has joined already", "AlreadyExists"][..]),
        (join(&|options| options.rank = 2), &["rank 2 in a world of 2", "0 to 1"][..]),
        (join(&|options| options.world_size = 0), &["world size 0"][..]),
        (join(&|options| options.chunk_words = 33), &["33 words", "1 to 32"][..]),
        (join(&|options| options.job.clear()), &["job's name is empty"][..]),
        (
            join(&|options| options.controller = "nonsense".to_owned()),
            &["nonsense", "must be like http://"][..],
        ),
        (
            join(&|options| options.controller = "http://127.0.0.1:1".to_owned()),
            &["not reached within 500ms", "refused"][..],
        ),
        (join(&|options| options.interface = Some("nosuchif".to_owned())), &["127.0.0.1", "lo"][..]),
    ] {
        for part in parts {
            assert!(error.contains(part), "{error:?} lacks {part:?}");
        }
    }
    let old = ScriptedController::start(&switch, Script { version: Some(99), ..Script::default() });
    let error =
        Communicator::join(options(&old, 0, 2, Format::I32)).map(|_| ()).expect_err("version").to_string();
    assert!(error.contains("99") && error.contains("this agent 1"), "{error}");
}

#[test]
fn a_controller_that_dies_disturbs_no_calls() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    let groups = everyone(&controller, 2, Format::I32, |group, _| group);
    drop(controller);
    std::thread::scope(|scope| {
        for group in &groups {
            scope.spawn(|| {
                for value in 0..50 {
                    let mut tensor = [value; 10];
                    group.allreduce_i32(&mut tensor, ReduceOp::Sum, DEADLINE).expect("goes on");
                    assert_eq!(tensor, [2 * value; 10]);
                }
            });
        }
    });
    for group in groups {
        let error = group.leave().expect_err("nobody confirms it").to_string();
        assert!(error.contains("did not confirm"), "{error}");
    }
}

#[test]
fn l5_after_a_deadline_the_process_joins_again_and_sums() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    let controller = &controller;
    everyone(controller, 2, Format::I32, |group, rank| {
        let mut tensor = [rank as i32 + 1; 100];
        group.allreduce_i32(&mut tensor, ReduceOp::Sum, DEADLINE).expect("a good one");
        assert_eq!(tensor, [3; 100]);
        if rank == 0 {
            let late = group.allreduce_i32(&mut tensor, ReduceOp::Sum, Duration::from_millis(10));
            let Err(CollectiveError::Operation(OperationError::DeadlineExceeded { .. })) = late else {
                panic!("{late:?}")
            };
        }
        controller.await_left(1);
    });
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    everyone(&controller, 2, Format::I32, |group, _| {
        let mut tensor = [5; 100];
        group.allreduce_i32(&mut tensor, ReduceOp::Sum, DEADLINE).expect("sums");
        assert_eq!(tensor, [10; 100]);
    });
}

/// A caller that leaves the moment its call has failed: the controller must hear why, or the others would wait for this rank in good order.
#[test]
fn a_deadline_is_reported_however_fast_its_caller_leaves() {
    for round in 0..20 {
        let switch = Switch::start(2, Format::I32, 5, 0);
        let controller = ScriptedController::start(&switch, Script::default());
        let controller = &controller;
        everyone(controller, 2, Format::I32, |group, rank| {
            if rank == 0 {
                let alone = group.allreduce_i32(&mut [1; 100], ReduceOp::Sum, Duration::from_millis(10));
                let _ = group.leave();
                alone.expect_err("alone");
            } else {
                assert_eq!(controller.await_left(1), [0]);
                let (failure, _) = controller.failure();
                assert!(failure.contains("exceeded its deadline"), "round {round}: left with {failure:?}");
            }
        });
    }
}

#[test]
fn l7_a_call_after_a_deadline_never_meets_the_old_call_of_another_rank() {
    let switch = Switch::start(2, Format::I32, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    let controller = &controller;
    everyone(controller, 2, Format::I32, |group, rank| {
        if rank == 0 {
            let old = group.allreduce_i32(&mut [1; 100], ReduceOp::Sum, Duration::from_millis(100));
            assert!(matches!(old, Err(CollectiveError::Operation(_))), "{old:?}");
            // New data: it does not get near the slots that hold the old.
            let new = group.allreduce_i32(&mut [1000; 100], ReduceOp::Sum, DEADLINE);
            assert!(matches!(new, Err(CollectiveError::Start(StartError::Closed { .. }))), "{new:?}");
            return;
        }
        // Late: the controller has been told, and has closed the group.
        controller.await_left(1);
        controller.close("rank 0 reports: allreduce 0 exceeded its deadline", &[]);
        while group.closed().is_none() {
            std::thread::yield_now();
        }
        let mut tensor = [2; 100];
        let old = group.allreduce_i32(&mut tensor, ReduceOp::Sum, DEADLINE).expect_err("closed").to_string();
        assert!(old.contains("exceeded its deadline"), "{old}");
        assert_eq!(tensor, [2; 100]);
    });
}

#[test]
fn every_collective_runs_on_real_sockets_with_buffers_apart() {
    const WORLD: u32 = 3;
    const PART: usize = 500;
    let switch = Switch::start(WORLD as u16, Format::I32, 5, 40);
    let controller = ScriptedController::start(&switch, Script::default());
    let whole = PART * WORLD as usize;
    let inputs: Vec<_> = (0..WORLD).map(|rank| i32_input(rank, whole)).collect();
    let sum: Vec<i32> = (0..whole).map(|index| inputs.iter().map(|input| input[index]).sum()).collect();
    everyone(&controller, WORLD, Format::I32, |group, rank| {
        let own = &inputs[rank as usize];
        let place = rank as usize * PART..(rank as usize + 1) * PART;

        let mut tensor = own.clone();
        group.reduce(TensorMut::I32(&mut tensor), 1, ReduceOp::Sum, DEADLINE).expect("reduces");
        assert!(tensor == if rank == 1 { &sum[..] } else { &own[..] });

        let mut tensor = own.clone();
        group.broadcast(TensorMut::I32(&mut tensor), 2, DEADLINE).expect("broadcasts");
        assert!(tensor == inputs[2]);

        let mut gathered = vec![0; whole];
        let part = &own[..PART];
        group.allgather(TensorRef::I32(part), TensorMut::I32(&mut gathered), DEADLINE).expect("gathers");
        assert!(gathered == inputs.iter().flat_map(|input| input[..PART].to_vec()).collect::<Vec<_>>());

        let mut part = vec![0; PART];
        let (input, output) = (TensorRef::I32(own), TensorMut::I32(&mut part));
        group.reduce_scatter(input, output, ReduceOp::Sum, DEADLINE).expect("scatters");
        assert!(part == sum[place.clone()]);
        group.barrier(DEADLINE).expect("all are there");

        let mut bits = vec![0.0; whole];
        let floats: Vec<f32> = own.iter().map(|value| f32::from_bits(*value as u32)).collect();
        group.alltoall(TensorRef::F32(&floats), TensorMut::F32(&mut bits), DEADLINE).expect("exchanges");
        for (from, part) in bits.chunks(PART).enumerate() {
            let right = &inputs[from][place.clone()];
            assert!(part.iter().zip(right).all(|(got, right)| got.to_bits() == *right as u32), "from {from}");
        }

        let (next, before) = ((rank + 1) % WORLD, (rank + WORLD - 1) % WORLD);
        group.send(TensorRef::I32(own), next, 7, DEADLINE).expect("sends");
        let mut tensor = vec![0; whole];
        group.recv(TensorMut::I32(&mut tensor), before, 7, DEADLINE).expect("receives");
        assert!(tensor == inputs[before as usize]);

        let wrong = group.allgather(TensorRef::I32(own), TensorMut::I32(&mut tensor[1..]), DEADLINE);
        assert!(matches!(wrong, Err(CollectiveError::Start(StartError::Shape { .. }))), "{wrong:?}");
        group.barrier(DEADLINE).expect("a refused call has no number");
        group.leave().expect("leaves");
    });
}

#[test]
fn ranks_that_exchange_different_lengths_all_get_an_error() {
    let switch = Switch::start(2, Format::Bfp16, 5, 0);
    let controller = ScriptedController::start(&switch, Script::default());
    everyone(&controller, 2, Format::Bfp16, |group, rank| {
        let early = group.send(TensorRef::I32(&[1]), 1 - rank, 0, DEADLINE).expect_err("unknown").to_string();
        assert!(early.contains("connect_peers"), "{early}");
        let uneven = group.alltoall(TensorRef::I32(&[1; 3]), TensorMut::I32(&mut [0; 3]), DEADLINE);
        assert!(matches!(uneven, Err(CollectiveError::Peers(PeerError::Parts { .. }))), "{uneven:?}");
        let len = 4 + 2 * rank as usize;
        let result =
            group.alltoall(TensorRef::I32(&vec![1; len]), TensorMut::I32(&mut vec![0; len]), DEADLINE);
        let is_mismatch = matches!(result, Err(CollectiveError::Operation(OperationError::Mismatch { .. })));
        assert!(is_mismatch, "{result:?}");
    });
}

#[test]
fn s2_lengths_around_a_chunk_leave_what_follows_alone() {
    const WORDS: u8 = 32;
    const CHUNK: usize = WORDS as usize * 64;
    const TAIL: usize = 40;
    for world in [1, 2, 3, 4, 7, 16] {
        let switch = Switch::start(world as u16, Format::I32, WORDS, 0);
        let controller = ScriptedController::start(&switch, Script::default());
        let mut lens = vec![1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 255, 256, 257];
        if world <= 3 {
            lens.push(524_289);
        }
        std::thread::scope(|scope| {
            for rank in 0..world {
                let (controller, lens) = (&controller, &lens);
                scope.spawn(move || {
                    let mut options = options(controller, rank, world, Format::I32);
                    options.chunk_words = WORDS;
                    let group = Communicator::join(options).expect("joins");
                    for len in lens {
                        let mut buffer: Vec<i32> =
                            (0..(len + TAIL) as i32).map(|index| index + rank as i32).collect();
                        group.allreduce_i32(&mut buffer[..*len], ReduceOp::Sum, DEADLINE).expect("sums");
                        let (total, world) = ((0..world as i32).sum::<i32>(), world as i32);
                        for (index, value) in (0..).zip(&buffer) {
                            let right = if (index as usize) < *len {
                                index * world + total
                            } else {
                                index + rank as i32
                            };
                            assert_eq!(*value, right, "element {index} of {len}, rank {rank} of {world}");
                        }
                    }
                    group.leave().expect("leaves");
                });
            }
        });
    }
}
