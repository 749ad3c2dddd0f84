//! Seeded tensors for whole fabrics, and what every rank must get for them.

use inca_host_agent::protocol::{ReduceOp, Tensor};
use inca_wire::model::allreduce::{allreduce_f32, allreduce_i32};

use crate::fabric::{Call, Fabric, Outcomes, Stuck};
use crate::rng::Rng;

/// One i32 tensor per rank; the sums of up to 64 ranks fit.
pub fn i32s(seed: u64, ranks: usize, count: usize) -> Vec<Tensor> {
    let tensor = |rank| {
        let mut rng = Rng::of(&[seed, rank as u64, count as u64]);
        Tensor::I32((0..count).map(|_| rng.between(-(1 << 25), 1 << 25) as i32).collect())
    };
    (0..ranks).map(tensor).collect()
}

/// One f32 tensor per rank. Every element is of random size within 2^`spread` of the others, one in eight is zero; ranks differ in
/// size too, so that their exponents do.
pub fn f32s(seed: u64, ranks: usize, count: usize, spread: i64) -> Vec<Tensor> {
    let tensor = |rank| {
        let mut rng = Rng::of(&[seed, rank as u64, count as u64]);
        let scale = rng.between(0, spread);
        let element = |_| {
            if rng.chance(1, 8) {
                return 0.0;
            }
            let mantissa = rng.between(-(1 << 23), 1 << 23) as f32;
            mantissa * f32::exp2((scale + rng.between(0, spread) - 30) as f32)
        };
        Tensor::F32((0..count).map(element).collect())
    };
    (0..ranks).map(tensor).collect()
}

/// What every rank must get, from the reference model; `chunk_words` is the job's.
///
/// # Panics
/// If the model refuses the inputs, or they are of different types.
pub fn expected(call: &Call, chunk_words: u8) -> Tensor {
    let ranks = call.tensors.len() as f64;
    let average = call.op == ReduceOp::Average;
    match &call.tensors[0] {
        Tensor::I32(_) => {
            let inputs: Vec<Vec<i32>> = call.tensors.iter().map(i32_elements).collect();
            let sum = allreduce_i32(&inputs, chunk_words.into()).expect("sums fit").elements;
            let divide =
                |sum: i32| if average { (f64::from(sum) / ranks).round_ties_even() as i32 } else { sum };
            Tensor::I32(sum.into_iter().map(divide).collect())
        }
        Tensor::F32(_) => {
            let inputs: Vec<Vec<f32>> = call.tensors.iter().map(f32_elements).collect();
            let sum = allreduce_f32(&inputs, chunk_words.into()).expect("the group has a format").elements;
            let divide = |sum: f32| if average { (f64::from(sum) / ranks) as f32 } else { sum };
            Tensor::F32(sum.into_iter().map(divide).collect())
        }
        other => panic!("no reference for {other:?}"),
    }
}

/// Runs calls on a fabric and compares every rank's every element with the reference, bit for bit.
///
/// # Errors
/// If the run does not end within its bounds.
///
/// # Panics
/// If any rank gets an error or another bit.
pub fn run_and_check(name: &str, fabric: &mut Fabric, calls: &[Call]) -> Result<(), Stuck> {
    let outcomes = fabric.run(calls)?;
    let expected: Vec<Tensor> = calls.iter().map(|call| expected(call, fabric.chunk_words())).collect();
    check(name, &outcomes, &expected);
    Ok(())
}

/// Compares every rank's every element, bit for bit.
///
/// # Panics
/// If any rank got an error or another bit.
pub fn check(name: &str, outcomes: &Outcomes, expected: &[Tensor]) {
    if let Err(difference) = compare(outcomes, expected) {
        panic!("{name}, {difference}");
    }
}

/// The first place where a rank got an error or another bit than expected.
///
/// # Errors
/// If there is one.
pub fn compare(outcomes: &Outcomes, expected: &[Tensor]) -> Result<(), String> {
    for (rank, results) in outcomes.iter().enumerate() {
        if results.len() != expected.len() {
            return Err(format!("rank {rank}: {} of {} calls ended", results.len(), expected.len()));
        }
        for (call, (result, expected)) in results.iter().zip(expected).enumerate() {
            let place = || format!("call {call}, rank {rank}");
            let tensor = result.as_ref().map_err(|error| format!("{}: {error}", place()))?;
            let (ours, right) = (bits(tensor), bits(expected));
            if ours.len() != right.len() {
                return Err(format!("{}: {} elements, must be {}", place(), ours.len(), right.len()));
            }
            if let Some(at) = ours.iter().zip(&right).position(|(ours, right)| ours != right) {
                let (count, ours, right) = (right.len(), text(tensor, at), text(expected, at));
                return Err(format!("{}: element {at} of {count} is {ours}, must be {right}", place()));
            }
        }
    }
    Ok(())
}

/// The elements' bits.
///
/// # Panics
/// If it is of another type than f32 and i32.
pub fn bits(tensor: &Tensor) -> Vec<u32> {
    match tensor {
        Tensor::I32(elements) => elements.iter().map(|&element| element as u32).collect(),
        Tensor::F32(elements) => elements.iter().map(|element| element.to_bits()).collect(),
        other => panic!("no bits for {other:?}"),
    }
}

fn text(tensor: &Tensor, at: usize) -> String {
    match tensor {
        Tensor::I32(elements) => elements[at].to_string(),
        Tensor::F32(elements) => format!("{:e} ({:#010x})", elements[at], elements[at].to_bits()),
        other => format!("{other:?}"),
    }
}

/// The elements of an f32 tensor.
///
/// # Panics
/// If it is none.
pub fn f32_elements(tensor: &Tensor) -> Vec<f32> {
    let Tensor::F32(elements) = tensor else { panic!("not f32: {tensor:?}") };
    elements.clone()
}

/// The elements of an i32 tensor.
///
/// # Panics
/// If it is none.
pub fn i32_elements(tensor: &Tensor) -> Vec<i32> {
    let Tensor::I32(elements) = tensor else { panic!("not i32: {tensor:?}") };
    elements.clone()
}
