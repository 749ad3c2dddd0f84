//! The collectives beside allreduce, in virtual time, against plain arithmetic: worlds and sizes, loss, changes of generation, and ranks that do
//! not agree. Buffers are whole tensors here, in place.

use super::network::{Links, Network, Plan as NetworkPlan, Rng};
use super::*;
use crate::protocol::{Dtype, OperationError, StartError};
use inca_wire::packet::Format;

const SECOND: Duration = Duration::from_secs(1);
const WORLDS: [usize; 6] = [1, 2, 3, 4, 7, 8];

/// One call of every rank: what each brings.
#[derive(Clone)]
struct Case {
    collective: Collective,
    inputs: Vec<Tensor>,
}

fn spec(collective: Collective) -> OperationSpec {
    OperationSpec { collective, op: ReduceOp::Sum, deadline: None }
}

fn random(rng: &mut Rng, dtype: Dtype, len: usize) -> Tensor {
    match dtype {
        Dtype::I32 => mild_i32(rng, len),
        _ => {
            let bytes: Vec<u8> = (0..dtype.bytes_for(len)).map(|_| rng.next() as u8).collect();
            Tensor::from_le_bytes(dtype, &bytes)
        }
    }
}

/// A call on parts of `part` elements, or of that many where there are no parts.
fn case(rng: &mut Rng, collective: Collective, world: usize, dtype: Dtype, part: usize) -> Case {
    let len = match collective {
        Collective::Allgather | Collective::ReduceScatter => part * world,
        Collective::Barrier => 0,
        _ => part,
    };
    Case { collective, inputs: (0..world).map(|_| random(rng, dtype, len)).collect() }
}

/// What rank `rank` must hold afterwards; its bits.
fn right(case: &Case, rank: usize) -> Vec<u8> {
    let world = case.inputs.len();
    let mut mine = bits(&case.inputs[rank]);
    let part = mine.len() / world;
    let sum = || {
        let mut sum = i32s(&case.inputs[0]).to_vec();
        for input in &case.inputs[1..] {
            sum.iter_mut().zip(i32s(input)).for_each(|(sum, value)| *sum += value);
        }
        bits(&Tensor::I32(sum))
    };
    match case.collective {
        Collective::Broadcast { root } => bits(&case.inputs[usize::from(root)]),
        Collective::Reduce { root } if usize::from(root) == rank => sum(),
        Collective::Allreduce => sum(),
        Collective::Allgather => {
            (0..world).flat_map(|owner| bits(&case.inputs[owner])[owner * part..][..part].to_vec()).collect()
        }
        Collective::ReduceScatter => {
            mine[rank * part..][..part].copy_from_slice(&sum()[rank * part..][..part]);
            mine
        }
        _ => mine,
    }
}

fn start(network: &mut Network, cases: &[Case]) {
    for case in cases {
        for (rank, input) in case.inputs.iter().enumerate() {
            network.start(rank, spec(case.collective), input.clone());
        }
    }
}

fn finish(network: &mut Network, cases: &[Case], what: &str) {
    network.run(100 * SECOND, |network| network.completed.iter().all(|done| done.len() == cases.len()));
    for (rank, completed) in network.completed.iter_mut().enumerate() {
        completed.sort_by_key(|completion| completion.id);
        assert_eq!(completed.len(), cases.len(), "{what}: rank {rank} hangs");
        for (completion, case) in completed.iter().zip(cases) {
            let what = format!("{what}: {:?} at rank {rank}", case.collective);
            assert_eq!(completion.result, Ok(()), "{what}");
            assert!(bits(&completion.buffer) == right(case, rank), "{what} differs");
        }
    }
}

fn all(world: usize) -> [Collective; 8] {
    let last = world as u16 - 1;
    [
        Collective::Reduce { root: 0 },
        Collective::Broadcast { root: last },
        Collective::Allgather,
        Collective::Barrier,
        Collective::ReduceScatter,
        Collective::Reduce { root: last },
        Collective::Broadcast { root: 0 },
        Collective::Allreduce,
    ]
}

#[test]
fn every_collective_is_right_in_every_world_and_size() {
    // One word of i32 a chunk: 64 elements.
    let sizes = [0, 1, 3, 63, 64, 65, (64 << 10) / 4];
    let mut rng = Rng::new(41);
    for world in WORLDS {
        let mut cases = Vec::new();
        for size in sizes {
            for collective in all(world) {
                let part = match collective {
                    Collective::Allgather | Collective::ReduceScatter if size > 1000 => size / world,
                    _ => size,
                };
                cases.push(case(&mut rng, collective, world, Dtype::I32, part));
            }
        }
        let mut plan = NetworkPlan::star(world, Format::I32);
        plan.stripes = usize::from(world > 1);
        let mut network = Network::new(plan);
        start(&mut network, &cases);
        finish(&mut network, &cases, &format!("world {world}"));
    }
}

#[test]
fn what_is_not_reduced_comes_out_bit_for_bit_through_every_format() {
    let mut rng = Rng::new(42);
    for format in Format::ALL {
        for dtype in Dtype::ALL {
            for len in [2, 122, 500] {
                let collectives =
                    [Collective::Broadcast { root: 1 }, Collective::Allgather, Collective::Barrier];
                let cases = collectives.map(|collective| case(&mut rng, collective, 3, dtype, len));
                let mut network = Network::new(NetworkPlan::star(3, format));
                start(&mut network, &cases);
                finish(&mut network, &cases, &format!("{dtype} in {format}"));
            }
        }
    }
}

/// Ranks at two levels, over links that lose and reorder.
fn lossy(world: usize, format: Format, seed: u64) -> NetworkPlan {
    NetworkPlan {
        parents: vec![None, Some(0), Some(0)],
        hosts: (0..world).map(|rank| rank % 3).collect(),
        stripes: 1 + (seed % 2) as usize,
        slots: 3,
        links: Links { latency_us: 20, jitter_us: 30, loss: 0.05, duplication: 0.03 },
        seed,
        ..NetworkPlan::star(world, format)
    }
}

fn mixed(rng: &mut Rng, world: usize) -> Vec<Case> {
    let mut collectives = all(world).to_vec();
    // In another order each time.
    for index in (1..collectives.len()).rev() {
        collectives.swap(index, rng.below(index as u64 + 1) as usize);
    }
    let part = |rng: &mut Rng| rng.below(700) as usize;
    collectives
        .into_iter()
        .map(|collective| {
            let part = part(rng);
            case(rng, collective, world, Dtype::I32, part)
        })
        .collect()
}

#[test]
fn loss_and_changes_of_generation_change_nothing() {
    let mut copied = 0;
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let world = [3, 4, 7][seed as usize % 3];
        let cases = mixed(&mut rng, world);
        let mut network = Network::new(lossy(world, Format::I32, seed));
        start(&mut network, &cases);
        for _ in 0..seed % 5 {
            network.run(Duration::from_micros(rng.below(3000)), |_| false);
            copied += network.change();
        }
        finish(&mut network, &cases, &format!("seed {seed}"));
    }
    assert!(copied > 10, "only {copied} chunks were handed over: the case is not met");
}

#[test]
fn a_barrier_lets_nobody_go_before_all_are_there() {
    for format in [Format::I32, Format::Bfp16, Format::Max8, Format::Exact] {
        let mut network = Network::new(lossy(4, format, 1));
        for rank in [2, 0, 3] {
            network.start(rank, spec(Collective::Barrier), Tensor::U8(Vec::new()));
            network.run(SECOND / 10, |_| false);
            assert!(network.completed.iter().all(Vec::is_empty));
        }
        network.start(1, spec(Collective::Barrier), Tensor::U8(Vec::new()));
        network.run(10 * SECOND, |network| network.completed.iter().all(|done| done.len() == 1));
        assert!(network.completed.iter().all(|done| done.len() == 1 && done[0].result == Ok(())), "{format}");
    }
}

#[test]
fn ranks_that_call_different_collectives_all_get_an_error() {
    let ones = |len| Tensor::I32(vec![1; len]);
    let calls: [(Collective, Tensor, Collective, Tensor); 7] = [
        (Collective::Broadcast { root: 0 }, ones(5), Collective::Broadcast { root: 1 }, ones(5)),
        (Collective::Reduce { root: 0 }, ones(5), Collective::Reduce { root: 1 }, ones(5)),
        (Collective::Allreduce, ones(5), Collective::Reduce { root: 0 }, ones(5)),
        (Collective::Broadcast { root: 0 }, ones(5), Collective::Broadcast { root: 0 }, ones(6)),
        (
            Collective::Broadcast { root: 0 },
            ones(5),
            Collective::Broadcast { root: 0 },
            Tensor::F32(vec![1.0; 5]),
        ),
        (Collective::Allgather, ones(6), Collective::ReduceScatter, ones(6)),
        (Collective::Barrier, ones(0), Collective::Allreduce, ones(1)),
    ];
    for (first, first_tensor, second, second_tensor) in calls {
        let mut network = Network::new(NetworkPlan::star(2, Format::I32));
        network.start(0, spec(first), first_tensor);
        network.start(1, spec(second), second_tensor);
        network.run(10 * SECOND, |network| network.completed.iter().all(|done| done.len() == 1));
        for (rank, done) in network.completed.iter().enumerate() {
            let result = &done[0].result;
            assert!(
                matches!(result, Err(OperationError::Mismatch { .. })),
                "{first:?} against {second:?} at rank {rank}: {result:?}"
            );
        }
    }
}

#[test]
fn a_group_that_lost_a_rank_ends_what_needed_it_and_says_so_everywhere() {
    for collective in [Collective::Allgather, Collective::ReduceScatter, Collective::Broadcast { root: 3 }] {
        let mut rng = Rng::new(7);
        let mut network = Network::new(NetworkPlan::star(4, Format::I32));
        let needed = case(&mut rng, collective, 4, Dtype::I32, 5000);
        start(&mut network, std::slice::from_ref(&needed));
        network.run(Duration::from_micros(200), |_| false);
        network.kill(3);
        network.change();
        for rank in 0..3 {
            let done = &network.completed[rank];
            assert_eq!(done.len(), 1);
            let error = done[0].result.as_ref().expect_err("a rank died").to_string();
            assert!(error.contains("without the ranks that died"), "{error}");
        }
    }
}

#[test]
fn wrong_roots_and_shapes_are_refused_and_named() {
    let mut network = Network::new(NetworkPlan::star(3, Format::I32));
    let mut refused = |collective, tensor| {
        let endpoint = &mut network.endpoints[0];
        endpoint.start(spec(collective), tensor).map(|_| ()).expect_err("refused").error
    };
    let error = refused(Collective::Broadcast { root: 3 }, Tensor::I32(vec![0; 3]));
    assert!(matches!(&error, StartError::Root { root: 3, .. }), "{error}");
    assert!(error.to_string().contains("[0, 1, 2]"), "{error}");
    let error = refused(Collective::Allgather, Tensor::I32(vec![0; 4]));
    assert!(matches!(error, StartError::Shape { input: 4, world: 3, .. }), "{error}");
    let error = refused(Collective::ReduceScatter, Tensor::F32(vec![0.0; 3]));
    assert!(matches!(error, StartError::Unsupported { .. }), "{error}");
}

#[test]
fn a_barrier_is_one_header_and_bytes_take_no_more_words_than_they_must() {
    let mut network = Network::new(NetworkPlan::star(2, Format::Bfp16));
    let mut rng = Rng::new(3);
    let cases = [
        case(&mut rng, Collective::Barrier, 2, Dtype::U8, 0),
        case(&mut rng, Collective::Broadcast { root: 0 }, 2, Dtype::U8, 2400),
    ];
    start(&mut network, &cases);
    finish(&mut network, &cases, "bytes");
    // 240 bytes in each word of 256, ten chunks of a word.
    let bytes = 40 + 10 * (40 + 256);
    for stats in network.stats() {
        assert_eq!((stats.transmissions, stats.sent_bytes, stats.received_bytes), (11, bytes, bytes));
    }
}
