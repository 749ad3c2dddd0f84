//! Seeded tensors for whole fabrics, and what every rank must get for them.

use inca_host_agent::protocol::{Dtype, Tensor};
use inca_wire::model::allreduce::allreduce;
use inca_wire::packet::Format;
use inca_wire::scheme::Scheme;
use inca_wire::tensor::I4Vec;

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

/// One tensor per rank of any type: floats as in [`f32s`], integers whose sums fit their type.
pub fn tensors(dtype: Dtype, seed: u64, ranks: usize, count: usize, spread: i64) -> Vec<Tensor> {
    let tensor = |rank| {
        let mut rng = Rng::of(&[seed, rank as u64, count as u64]);
        let scale = rng.between(0, spread);
        let Some(kind) = dtype.float() else {
            let kind = dtype.integer().unwrap_or_else(|| panic!("{dtype} is neither float nor integer"));
            let ranks = ranks as i64;
            let values: Vec<i64> =
                (0..count).map(|_| rng.between(kind.least / ranks, kind.most / ranks)).collect();
            if dtype == Dtype::I4 {
                return Tensor::I4(I4Vec::from_values(
                    &values.iter().map(|&value| value as i8).collect::<Vec<_>>(),
                ));
            }
            let size = dtype.bytes_for(1);
            let bytes: Vec<u8> =
                values.iter().flat_map(|value| value.to_le_bytes()[..size].to_vec()).collect();
            return Tensor::from_le_bytes(dtype, &bytes);
        };
        let size = dtype.bytes_for(1);
        let element = |_| {
            if rng.chance(1, 8) {
                return 0;
            }
            let mantissa = rng.between(-(1 << 23), 1 << 23) as f64;
            kind.from_f64(mantissa * f64::exp2((scale + rng.between(0, spread) - 30) as f64))
        };
        let bytes: Vec<u8> =
            (0..count).map(element).flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
        Tensor::from_le_bytes(dtype, &bytes)
    };
    (0..ranks).map(tensor).collect()
}

/// What every rank must get, from the reference model, in this format; `chunk_words` is the job's.
///
/// # Panics
/// If the model refuses the inputs, or they are of different types.
pub fn expected_in(call: &Call, format: Format, chunk_words: u8) -> Tensor {
    let inputs: Vec<_> = call.tensors.iter().map(Tensor::view).collect();
    let result = allreduce(format, call.op, &inputs, chunk_words.into(), |_| {});
    result.unwrap_or_else(|error| panic!("no reference: {error}")).elements
}

/// As [`expected_in`] in the default format of the tensors' type.
///
/// # Panics
/// As there.
pub fn expected(call: &Call, chunk_words: u8) -> Tensor {
    let format =
        Scheme::default_format(call.tensors[0].dtype(), call.op).unwrap_or_else(|error| panic!("{error}"));
    expected_in(call, format, chunk_words)
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
    let expected: Vec<Tensor> =
        calls.iter().map(|call| expected_in(call, fabric.format(), fabric.chunk_words())).collect();
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
pub fn bits(tensor: &Tensor) -> Vec<u64> {
    (0..tensor.len()).map(|index| tensor.view().bits(index)).collect()
}

fn text(tensor: &Tensor, at: usize) -> String {
    format!("{} ({:#x})", tensor.view().text(at), tensor.view().bits(at))
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
