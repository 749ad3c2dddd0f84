//! Endpoints against the reference model of the switch, in virtual time: no sockets, no sleeps, every run repeatable from its seed.

mod cases;
mod change;
mod collectives;
mod failures;
mod healing;
mod misuse;
mod network;
mod shapes;

use std::time::Duration;

use inca_wire::model::allreduce::allreduce;
use inca_wire::packet::Format;

use super::{Collective, OperationSpec, ReduceOp, Tensor};
use network::{Network, Rng};

/// Every rank's operations, in order.
type Plan = Vec<Vec<Tensor>>;

fn sum() -> OperationSpec {
    OperationSpec { collective: Collective::Allreduce, op: ReduceOp::Sum, deadline: None }
}

/// What every rank must hold after each operation.
fn expected(plan: &Plan, format: Format, chunk_words: u8) -> Vec<Tensor> {
    (0..plan[0].len())
        .map(|operation| {
            let inputs: Vec<_> = plan.iter().map(|rank| rank[operation].view()).collect();
            let sum = allreduce(format, ReduceOp::Sum, &inputs, chunk_words.into(), |_| {});
            sum.expect("reference").elements
        })
        .collect()
}

fn i32s(tensor: &Tensor) -> &[i32] {
    let Tensor::I32(elements) = tensor else { panic!("{tensor:?} is not i32") };
    elements
}

/// The tensor's bits, since NaN equals nothing.
fn bits(tensor: &Tensor) -> Vec<u8> {
    tensor.view().to_le_bytes()
}

/// Starts all operations of all ranks at once.
fn start_all(network: &mut Network, plan: &Plan) {
    for (rank, tensors) in plan.iter().enumerate() {
        for tensor in tensors {
            network.start(rank, sum(), tensor.clone());
        }
    }
}

/// Runs until every rank has completed every operation, and compares all bits.
fn run_exact(network: &mut Network, plan: &Plan, limit: Duration, what: &str) {
    network.run(limit, |network| {
        network.completed.iter().map(Vec::len).sum::<usize>() == plan.len() * plan[0].len()
    });
    let expected = expected(plan, network.format(), network.chunk_words());
    for (rank, completed) in network.completed.iter().enumerate() {
        assert_eq!(
            completed.len(),
            expected.len(),
            "{what}: rank {rank} hangs after {limit:?}: {:?}",
            network.stats()
        );
        let mut completed: Vec<_> = completed.iter().collect();
        completed.sort_by_key(|completion| completion.id);
        for (completion, expected) in completed.iter().zip(&expected) {
            assert_eq!(completion.result, Ok(()), "{what}: rank {rank}, operation {}", completion.id);
            assert!(
                bits(&completion.buffer) == bits(expected),
                "{what}: rank {rank}, operation {} is not the reference's",
                completion.id
            );
        }
    }
}

/// f32 of every kind: zeros, tiny, huge, wide ranges, now and then NaN and infinities.
fn wild_f32(rng: &mut Rng, len: usize, nonfinite: bool) -> Tensor {
    let scale = rng.below(5) as i32 * 20 - 40;
    let spread = [0, 3, 40][rng.below(3) as usize];
    let zero = rng.below(8) == 0;
    Tensor::F32(
        (0..len)
            .map(|_| match rng.below(400) {
                0 if nonfinite => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][rng.below(3) as usize],
                1..20 => 0.0,
                _ if zero => -0.0,
                _ => {
                    let mantissa = rng.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0;
                    mantissa * 2f32.powi(scale + rng.below(spread + 1) as i32)
                }
            })
            .collect(),
    )
}

/// i32 that can't overflow in a group of up to 32 ranks.
fn mild_i32(rng: &mut Rng, len: usize) -> Tensor {
    Tensor::I32((0..len).map(|_| rng.below(1 << 27) as i32 - (1 << 26)).collect())
}
