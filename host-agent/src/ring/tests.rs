//! Rings in virtual time: bytes travel in pieces of any size, in any interleaving, by seed.

use std::time::{Duration, Instant};

use inca_wire::packet::Format;

use super::arithmetic::{reference_f32, segment};
use super::progress::CHUNK_ELEMENTS;
use super::{Lost, Ring, RingConfig};
use crate::protocol::{Collective, OperationError, OperationSpec, ReduceOp, Stall, StartError, Tensor};

struct Net {
    rings: Vec<Option<Ring<Tensor>>>,
    /// Bytes on their way to each rank from the one before, and against the direction from the next one.
    pipes: Vec<Vec<u8>>,
    backward: Vec<Vec<u8>>,
    greeted: Vec<bool>,
    now: Instant,
    state: u64,
    done: Vec<Vec<Result<Tensor, OperationError>>>,
}

fn config(rank: u32, world: u32, format: Format) -> RingConfig {
    let members = (0..world).map(|rank| format!("10.0.0.{}:7000", rank + 1)).collect();
    RingConfig { job: "test".to_owned(), rank, members, generation: 7, format }
}

fn spec(op: ReduceOp) -> OperationSpec {
    OperationSpec { collective: Collective::Allreduce, op, deadline: None }
}

impl Net {
    fn new(world: u32, format: Format, seed: u64) -> Self {
        let now = Instant::now();
        let count = world as usize;
        Self {
            rings: (0..world).map(|rank| Some(Ring::new(config(rank, world, format), now))).collect(),
            pipes: vec![Vec::new(); count],
            backward: vec![Vec::new(); count],
            greeted: vec![false; count],
            now,
            state: seed,
            done: vec![Vec::new(); count],
        }
    }

    fn random(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((u128::from(self.state >> 16) * bound as u128) >> 48) as usize
    }

    fn start(&mut self, rank: usize, spec: OperationSpec, tensor: Tensor) {
        let now = self.now;
        self.rings[rank].as_mut().expect("alive").start(now, spec, tensor).map(drop).expect("started");
    }

    /// One random move; false if nothing moves.
    fn step(&mut self) -> bool {
        let count = self.rings.len();
        let first = self.random(count);
        for rank in (0..count).map(|offset| (first + offset) % count) {
            let most = 1 + self.random(100_000);
            let piece: Vec<u8> = match &mut self.rings[rank] {
                Some(ring) => {
                    let bytes = ring.poll_send();
                    let piece = bytes[..bytes.len().min(most)].to_vec();
                    ring.sent(piece.len());
                    piece
                }
                None => Vec::new(),
            };
            let back = self.rings[rank].as_mut().map(Ring::poll_backward).unwrap_or_default();
            let (next, before) = ((rank + 1) % count, (rank + count - 1) % count);
            let moved = !piece.is_empty() || !back.is_empty() || !self.pipes[rank].is_empty();
            self.pipes[next].extend(piece);
            self.backward[before].extend(back);
            let arrived = self.pipes[rank].len().min(1 + self.random(60_000));
            let arrived: Vec<u8> = self.pipes[rank].drain(..arrived).collect();
            let against = std::mem::take(&mut self.backward[rank]);
            let now = self.now;
            if let Some(ring) = &mut self.rings[rank] {
                if !arrived.is_empty() {
                    self.greeted[rank] = true;
                    ring.handle_bytes(now, &arrived);
                }
                if !against.is_empty() {
                    ring.handle_backward(&against);
                }
                while let Some(completion) = ring.poll_completion() {
                    self.done[rank].push(completion.result.map(|()| completion.buffer));
                }
            }
            if moved {
                return true;
            }
        }
        false
    }

    fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 1_000_000, "endless");
        }
    }

    /// Lets time pass; timers ring, bytes flow.
    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.now += Duration::from_millis(50);
            for rank in 0..self.rings.len() {
                if let Some(ring) = &mut self.rings[rank] {
                    ring.handle_timeout(self.now);
                    while let Some(completion) = ring.poll_completion() {
                        self.done[rank].push(completion.result.map(|()| completion.buffer));
                    }
                }
            }
            self.run();
        }
    }

    /// A process dies: its neighbours see the ends of their connections, once what it had sent has arrived.
    fn kill(&mut self, rank: usize) {
        let count = self.rings.len();
        self.rings[rank] = None;
        self.run();
        let lost = Lost::Ended("connection reset".to_owned());
        if let Some(ring) = &mut self.rings[(rank + 1) % count] {
            ring.disconnected(true, &lost);
        }
        if let Some(ring) = &mut self.rings[(rank + count - 1) % count] {
            ring.disconnected(false, &lost);
        }
        self.run();
    }
}

fn value(rank: u32, index: usize) -> f32 {
    let bits = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_mul(u64::from(rank) * 2 + 1);
    ((bits >> 40) as f32 - 8_388_608.0) * 10f32.powi((bits % 9) as i32 - 4)
}

fn f32s(rank: u32, len: usize) -> Tensor {
    Tensor::F32((0..len).map(|index| value(rank, index)).collect())
}

fn i32s(rank: u32, len: usize) -> Tensor {
    Tensor::I32((0..len).map(|index| index as i32 * 3 + rank as i32 * 1_000_000).collect())
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    (0..tensor.len()).map(|index| tensor.view().bits(index) as u32).collect()
}

#[test]
fn segments_cover_every_element_once() {
    for world in [1, 2, 3, 7, 64] {
        for elements in [0, 1, 5, 63, 64, 65, 100_000] {
            let mut next = 0;
            for number in 0..world {
                let range = segment(elements, world, number);
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, elements);
        }
    }
}

#[test]
fn every_rank_gets_the_same_bits_whatever_the_interleaving() {
    for world in [1u32, 2, 3, 4, 7] {
        for len in [0, 1, world as usize + 1, 1000, world as usize * CHUNK_ELEMENTS + 1, 300_000] {
            for op in [ReduceOp::Sum, ReduceOp::Average] {
                let seed = u64::from(world) * 1000 + len as u64;
                let mut net = Net::new(world, Format::Bfp16, seed);
                for rank in 0..world {
                    net.start(rank as usize, spec(op), f32s(rank, len));
                }
                net.run();
                let expected: Vec<u32> = (0..len)
                    .map(|index| {
                        let values: Vec<f32> = (0..world).map(|rank| value(rank, index)).collect();
                        reference_f32(&values, op, len, index).to_bits()
                    })
                    .collect();
                for (rank, done) in net.done.iter().enumerate() {
                    let [Ok(tensor)] = done.as_slice() else {
                        panic!("world {world} len {len} rank {rank}: {done:?}")
                    };
                    assert!(bits(tensor) == expected, "world {world}, {len} elements, rank {rank}");
                }
            }
        }
    }
}

#[test]
fn integers_are_exact_and_operations_may_be_started_ahead_and_at_different_times() {
    let (world, len) = (4u32, 50_000);
    let mut net = Net::new(world, Format::I32, 3);
    // Rank 0 is three operations ahead before the others begin.
    for rank in 0..world {
        for round in 0..3 {
            net.start(rank as usize, spec(ReduceOp::Sum), i32s(rank + round, len));
        }
        for _ in 0..50 {
            net.step();
        }
    }
    net.run();
    for done in &net.done {
        assert_eq!(done.len(), 3);
        for (round, result) in done.iter().enumerate() {
            let Ok(Tensor::I32(sums)) = result else { panic!("{result:?}") };
            let ranks = 1_000_000 * (6 + 4 * round as i32);
            assert!(sums.iter().enumerate().all(|(index, sum)| *sum == index as i32 * 12 + ranks));
        }
    }
}

#[test]
fn an_integer_that_does_not_fit_is_an_error_on_every_rank_and_the_ring_goes_on() {
    let mut net = Net::new(3, Format::I32, 1);
    let at = 2 * CHUNK_ELEMENTS + 5;
    for rank in 0..3 {
        let mut values = vec![1; 3 * CHUNK_ELEMENTS];
        // The partial sum of the first two would wrap; with the third it would be just too large.
        values[at] = [i32::MAX, 1, 0][rank];
        // Leaves the range and comes back.
        values[7] = [i32::MAX, i32::MAX, i32::MIN][rank];
        net.start(rank, spec(ReduceOp::Sum), Tensor::I32(values));
        net.start(rank, spec(ReduceOp::Sum), Tensor::I32(vec![i32::MAX, i32::MIN, -5 + rank as i32 * 5]));
    }
    net.run();
    for done in &net.done {
        let [
            Err(OperationError::OverflowAmong { first, last, .. }),
            Err(OperationError::OverflowAmong { .. }),
        ] = done.as_slice()
        else {
            panic!("{done:?}")
        };
        assert!((*first..=*last).contains(&(at as u64)), "{first} to {last}");
    }
    for rank in 0..3 {
        net.start(
            rank,
            spec(ReduceOp::Average),
            Tensor::I32(vec![i32::MAX - 2 * (rank as i32 % 2), -7, 8 - 3]),
        );
    }
    for rank in 0..3 {
        net.start(rank, spec(ReduceOp::Sum), Tensor::I32(vec![[i32::MAX, i32::MAX, i32::MIN][rank]]));
    }
    net.run();
    for done in &net.done {
        assert!(matches!(&done[2], Err(OperationError::OverflowAmong { .. })), "{done:?}");
        assert_eq!(
            done[3],
            Ok(Tensor::I32(vec![i32::MAX - 1])),
            "a sum that fits though a part of it would not"
        );
    }
}

#[test]
fn nan_and_infinities_are_the_same_bits_on_every_rank() {
    let mut net = Net::new(3, Format::Bfp16, 9);
    for rank in 0..3 {
        let mut values = vec![1.0f32; 12];
        values[0] = [f32::NAN, 1.0, 2.0][rank];
        values[5] = [f32::INFINITY, f32::NEG_INFINITY, 0.0][rank];
        values[9] = [f32::MAX, f32::MAX, -f32::MAX][rank];
        values[10] = [f32::INFINITY, 4.0, 0.0][rank];
        net.start(rank, spec(ReduceOp::Sum), Tensor::F32(values));
    }
    net.run();
    let results: Vec<_> = net.done.iter().map(|done| done[0].as_ref().map(bits).expect("a sum")).collect();
    assert!(results.iter().all(|result| *result == results[0]));
    let value = |index: usize| f32::from_bits(results[0][index]);
    assert!(value(0).is_nan() && value(5).is_nan());
    assert_eq!((value(9), value(10), value(11)), (f32::MAX, f32::INFINITY, 3.0));
}

#[test]
fn different_operations_are_an_error_on_every_rank_at_once() {
    let calls: [(Tensor, ReduceOp); 3] = [
        (Tensor::F32(vec![1.0; 200]), ReduceOp::Sum),
        (Tensor::F32(vec![1.0; 100]), ReduceOp::Average),
        (Tensor::F32(vec![]), ReduceOp::Sum),
    ];
    for (tensor, op) in calls {
        for odd in 0..3 {
            let mut net = Net::new(3, Format::Bfp16, 5);
            for rank in 0..3 {
                match rank == odd {
                    true => {
                        net.start(rank, spec(op), tensor.clone());
                        net.start(rank, spec(ReduceOp::Sum), f32s(0, 100));
                    }
                    false => net.start(rank, spec(ReduceOp::Sum), f32s(0, 100)),
                }
            }
            net.run();
            for (rank, done) in net.done.iter().enumerate() {
                let failed = done.iter().find_map(|result| result.as_ref().err());
                assert!(
                    matches!(failed, Some(OperationError::Mismatch { .. })),
                    "rank {rank} of odd {odd}: {done:?}"
                );
            }
        }
    }
}

#[test]
fn a_rank_that_dies_at_any_moment_is_named_to_every_survivor() {
    let (mut named, mut unharmed) = (0, 0);
    for seed in 0..60 {
        let world = 2 + (seed % 4) as u32;
        let mut net = Net::new(world, Format::Bfp16, seed);
        for rank in 0..world {
            net.start(rank as usize, spec(ReduceOp::Sum), f32s(rank, 400_000));
        }
        for _ in 0..net.random(40) {
            net.step();
        }
        let victim = net.random(world as usize);
        net.kill(victim);
        for rank in (0..world as usize).filter(|rank| *rank != victim) {
            match net.done[rank].as_slice() {
                [Err(OperationError::Closed { closed, .. })] => {
                    assert_eq!(closed.missing_ranks, [victim as u32], "seed {seed} rank {rank}: {closed}");
                    assert!(closed.reason.contains(&format!("10.0.0.{}", victim + 1)), "{closed}");
                    named += 1;
                }
                // All it had to give was on its way already.
                [Ok(_)] => unharmed += 1,
                other => panic!("seed {seed} rank {rank}: {other:?}"),
            }
        }
    }
    assert!(named > 5 * unharmed, "{named} named, {unharmed} unharmed");
}

#[test]
fn a_deadline_names_the_rank_that_did_not_call() {
    for absent in 0..4u32 {
        let mut net = Net::new(4, Format::I32, u64::from(absent));
        let deadline = Some(net.now + Duration::from_secs(4));
        for rank in (0..4).filter(|rank| *rank != absent) {
            net.start(rank as usize, OperationSpec { deadline, ..spec(ReduceOp::Sum) }, i32s(rank, 1000));
        }
        net.pass(Duration::from_secs(5));
        let mut exceeded = 0;
        for rank in (0..4).filter(|rank| *rank != absent) {
            match net.done[rank as usize].as_slice() {
                [Err(OperationError::DeadlineExceeded { stall: Stall::Ring { missing }, .. })] => {
                    exceeded += 1;
                    assert_eq!(*missing, Some(absent), "rank {rank}");
                }
                [Err(OperationError::Closed { closed, .. })] => {
                    assert_eq!(closed.missing_ranks, [absent], "rank {rank}: {closed}");
                }
                other => panic!("rank {rank}: {other:?}"),
            }
        }
        assert!(exceeded > 0);
        let ring = net.rings[absent as usize].as_mut().expect("alive");
        let late = ring.start(net.now, spec(ReduceOp::Sum), i32s(0, 10)).expect_err("the generation is over");
        assert!(matches!(late.error, StartError::Closed { .. }));
    }
}

#[test]
fn a_rank_that_is_stopped_is_given_up_and_named() {
    let mut net = Net::new(3, Format::I32, 2);
    for rank in 0..3 {
        net.start(rank, spec(ReduceOp::Sum), i32s(rank as u32, 900_000));
    }
    for _ in 0..3 {
        net.step();
    }
    // It neither reads nor writes any more, and its connections stay.
    net.rings[1] = None;
    net.pass(Duration::from_secs(12));
    for rank in [0, 2] {
        let [Err(OperationError::Closed { closed, .. })] = net.done[rank].as_slice() else {
            panic!("{:?}", net.done[rank])
        };
        assert_eq!(closed.missing_ranks, [1], "{closed}");
        assert!(closed.reason.contains("silent"), "{closed}");
    }
}

#[test]
fn leaving_after_the_last_operation_disturbs_nobody() {
    for seed in 0..20 {
        let mut net = Net::new(3, Format::I32, seed);
        for rank in 0..3 {
            net.start(rank, spec(ReduceOp::Sum), i32s(rank as u32, 100_000));
        }
        let mut left = [false; 3];
        while left.contains(&false) {
            let moved = net.step();
            for (rank, left) in left.iter_mut().enumerate() {
                if !*left && !net.done[rank].is_empty() {
                    *left = true;
                    net.rings[rank].as_mut().expect("alive").leave();
                }
            }
            assert!(moved || left.iter().all(|left| *left), "stuck: {:?}", net.done);
        }
        net.run();
        assert!(net.done.iter().all(|done| done.iter().all(Result::is_ok)), "seed {seed}");
    }
}

#[test]
fn whatever_a_neighbour_sends_nothing_panics_and_what_is_wrong_ends_the_operation() {
    let mut net = Net::new(3, Format::Bfp16, 11);
    let mut ended = 0;
    for round in 0..2000u64 {
        let now = net.now;
        let mut ring: Ring<Tensor> = Ring::new(config(1, 3, Format::Bfp16), now);
        ring.start(now, spec(ReduceOp::Sum), f32s(1, 50_000)).map(drop).expect("started");
        let mut other: Ring<Tensor> = Ring::new(config(0, 3, Format::Bfp16), now);
        other.start(now, spec(ReduceOp::Sum), f32s(0, 50_000)).map(drop).expect("started");
        let mut bytes = other.poll_send().to_vec();
        for _ in 0..1 + round % 4 {
            // Mostly in headers, where it matters.
            let at = if round % 2 == 0 { net.random(200) } else { net.random(bytes.len()) };
            bytes[at] = net.random(256) as u8;
        }
        ring.handle_bytes(now, &bytes);
        ring.handle_backward(&bytes);
        if ring.closed().is_some() {
            ended += 1;
            assert!(
                ring.poll_completion().is_some_and(|completion| completion.result.is_err()),
                "round {round}"
            );
        }
    }
    assert!(ended > 250, "{ended}");
}

#[test]
fn only_the_rank_before_is_let_in() {
    let now = Instant::now();
    let hello = |rank, generation| {
        let mut ring: Ring<Tensor> =
            Ring::new(RingConfig { generation, ..config(rank, 3, Format::I32) }, now);
        ring.poll_send().to_vec()
    };
    let me = config(1, 3, Format::I32);
    assert_eq!(Ring::<Tensor>::greets(&me, &hello(0, 7)), Some(true));
    assert_eq!(Ring::<Tensor>::greets(&me, &hello(2, 7)), Some(false));
    assert_eq!(Ring::<Tensor>::greets(&me, &hello(0, 6)), Some(false));
    assert_eq!(Ring::<Tensor>::greets(&me, &hello(0, 7)[..20]), None);
    assert_eq!(Ring::<Tensor>::greets(&me, b"GET / HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n"), Some(false));
}
