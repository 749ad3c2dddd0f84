//! Segments, and how a chunk is summed.

use std::ops::Range;

use crate::protocol::{ReduceOp, TensorMut, TensorRef};

/// Bytes of a partial sum's element: f64 or i64.
pub(super) const PARTIAL_BYTES: usize = 8;
/// Bytes of a result's element.
pub(super) const FINAL_BYTES: usize = 4;

/// The elements of a segment, of which a tensor has as many as there are ranks.
pub fn segment(elements: usize, world: u32, segment: u32) -> Range<usize> {
    let at = |segment: u32| (elements as u128 * u128::from(segment) / u128::from(world.max(1))) as usize;
    at(segment)..at(segment + 1)
}

/// What an allreduce of these inputs must give at element `index` of `elements`, from every rank's value there, in rank order.
pub fn reference_f32(values: &[f32], op: ReduceOp, elements: usize, index: usize) -> f32 {
    let world = values.len() as u32;
    let first =
        (0..world).find(|rank| segment(elements, world, *rank).contains(&index)).unwrap_or(0) as usize;
    let sum = (1..values.len())
        .fold(f64::from(values[first]), |sum, step| sum + f64::from(values[(first + step) % values.len()]));
    round_f32(sum, op, world)
}

/// Writes this rank's input as a partial sum.
pub(super) fn first(input: TensorRef<'_>, range: Range<usize>, out: &mut Vec<u8>) {
    match input {
        TensorRef::F32(input) => {
            out.extend(input[range].iter().flat_map(|value| f64::from(*value).to_le_bytes()));
        }
        TensorRef::I32(input) => {
            out.extend(input[range].iter().flat_map(|value| i64::from(*value).to_le_bytes()));
        }
        _ => debug_assert!(false, "other types are refused"),
    }
}

/// Writes a partial sum with this rank's input added. `partial` has [`PARTIAL_BYTES`] for each element of the range.
pub(super) fn add(input: TensorRef<'_>, range: Range<usize>, partial: &[u8], out: &mut Vec<u8>) {
    let (partial, _) = partial.as_chunks::<PARTIAL_BYTES>();
    match input {
        TensorRef::F32(input) => out.extend(
            input[range]
                .iter()
                .zip(partial)
                .flat_map(|(own, sum)| (f64::from_le_bytes(*sum) + f64::from(*own)).to_le_bytes()),
        ),
        // No more than 2^16 ranks of 2^31 each: nothing wraps. A peer that lies gets what it deserves.
        TensorRef::I32(input) => out.extend(
            input[range]
                .iter()
                .zip(partial)
                .flat_map(|(own, sum)| i64::from_le_bytes(*sum).wrapping_add(i64::from(*own)).to_le_bytes()),
        ),
        _ => debug_assert!(false, "other types are refused"),
    }
}

/// Rounds a whole sum and writes it as a result; false if an integer does not fit.
pub(super) fn finish(is_f32: bool, sum: &[u8], op: ReduceOp, world: u32, out: &mut Vec<u8>) -> bool {
    let (sum, _) = sum.as_chunks::<PARTIAL_BYTES>();
    if is_f32 {
        out.extend(sum.iter().flat_map(|sum| round_f32(f64::from_le_bytes(*sum), op, world).to_le_bytes()));
        return true;
    }
    let mut fits = true;
    out.extend(sum.iter().flat_map(|sum| {
        let value = i32::try_from(i64::from_le_bytes(*sum)).unwrap_or_else(|_| {
            fits = false;
            0
        });
        let value = if op == ReduceOp::Average { divide_to_even(value, world) } else { value };
        value.to_le_bytes()
    }));
    fits
}

/// Takes a result. `result` has [`FINAL_BYTES`] for each element of the range.
pub(super) fn store(output: TensorMut<'_>, range: Range<usize>, result: &[u8]) {
    let (result, _) = result.as_chunks::<FINAL_BYTES>();
    match output {
        TensorMut::F32(output) => {
            output[range].iter_mut().zip(result).for_each(|(to, from)| *to = f32::from_le_bytes(*from));
        }
        TensorMut::I32(output) => {
            output[range].iter_mut().zip(result).for_each(|(to, from)| *to = i32::from_le_bytes(*from));
        }
        _ => debug_assert!(false, "other types are refused"),
    }
}

/// `sum / ranks` to the nearest integer, ties to even.
fn divide_to_even(sum: i32, ranks: u32) -> i32 {
    // An f64 holds every i32, and its quotient closely enough to tell which side of a half it is on.
    (f64::from(sum) / f64::from(ranks)).round_ties_even() as i32
}

fn round_f32(sum: f64, op: ReduceOp, world: u32) -> f32 {
    match op {
        ReduceOp::Average => (sum / f64::from(world)) as f32,
        _ => sum as f32,
    }
}
