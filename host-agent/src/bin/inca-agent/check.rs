//! Results against the reference model: every rank's input is generated anew, chunk by chunk, and summed as the switches must.

use inca_host_agent::ring::reference_f32;
use inca_host_agent::{Dtype, ReduceOp, Tensor};
use inca_wire::model::allreduce::{ReferenceError, allreduce_f32, allreduce_i32};

use crate::args::{CheckArg, JoinArgs, OperationArgs};
use crate::{Failure, data};

/// Of so many chunks a sample checks one.
const SAMPLE: usize = 16;

/// What all ranks' inputs depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    world: u32,
    seed: u64,
    op: ReduceOp,
    chunk_words: u8,
    /// Summed by a ring of the hosts.
    ring: bool,
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Elements compared.
    pub(crate) checked: u64,
    /// Elements whose bits differ.
    pub(crate) wrong: u64,
    /// The first of them.
    first: Option<String>,
}

impl Group {
    pub(crate) fn of(join: &JoinArgs, operation: &OperationArgs, ring: bool) -> Self {
        let (world, seed, op) = (join.world, operation.seed, operation.op.into());
        Self { world, seed, op, chunk_words: join.chunk_words, ring }
    }
}

impl Outcome {
    pub(crate) fn add(&mut self, other: Self) {
        self.checked += other.checked;
        self.wrong += other.wrong;
        self.first = self.first.take().or(other.first);
    }

    /// An error if anything was wrong.
    pub(crate) fn into_result(self) -> Result<(), Failure> {
        match self.first {
            None => Ok(()),
            Some(first) => Err(Failure::Wrong { wrong: self.wrong, checked: self.checked, first }),
        }
    }

    fn compare<T: Copy + std::fmt::Display>(
        &mut self,
        start: usize,
        got: &[T],
        expected: &[T],
        bits: impl Fn(T) -> u32,
    ) {
        self.checked += got.len() as u64;
        for (offset, (got, expected)) in got.iter().zip(expected).enumerate() {
            let (got_bits, expected_bits) = (bits(*got), bits(*expected));
            if got_bits != expected_bits {
                self.wrong += 1;
                self.first.get_or_insert_with(|| {
                    let index = start + offset;
                    format!("{index} is {got} ({got_bits:#010x}), must be {expected} ({expected_bits:#010x})")
                });
            }
        }
    }

    /// The model has no result to compare with: everything is wrong.
    fn no_reference(&mut self, start: usize, len: usize, error: &ReferenceError) {
        self.checked += len as u64;
        self.wrong += len as u64;
        self.first.get_or_insert_with(|| format!("{start} has no expected value: {error}"));
    }
}

/// Compares a result of generated tensors with the reference model, bit for bit.
pub(crate) fn compare(group: &Group, result: &Tensor, check: CheckArg) -> Outcome {
    let mut outcome = Outcome::default();
    let len = data::len(result);
    let dtype = match result {
        Tensor::I32(_) => Dtype::I32,
        _ => Dtype::F32,
    };
    let chunk = usize::from(group.chunk_words) * dtype.format().lanes_per_word();
    for (number, start) in (0..len).step_by(chunk).enumerate() {
        let range = start..len.min(start + chunk);
        let checked = match check {
            CheckArg::Full => true,
            CheckArg::Sample => number % SAMPLE == 0 || range.end == len,
            CheckArg::None => false,
        };
        if !checked {
            continue;
        }
        let inputs =
            (0..group.world).map(|rank| data::generate(dtype, group.seed, rank, group.world, range.clone()));
        let average = group.op == ReduceOp::Average;
        match result {
            Tensor::F32(result) => {
                let inputs: Vec<_> = inputs
                    .filter_map(|tensor| if let Tensor::F32(tensor) = tensor { Some(tensor) } else { None })
                    .collect();
                if group.ring {
                    let sum = |index: usize| {
                        let values: Vec<f32> = inputs.iter().map(|input| input[index - start]).collect();
                        reference_f32(&values, group.op, len, index)
                    };
                    let expected: Vec<f32> = range.clone().map(sum).collect();
                    outcome.compare(start, &result[range], &expected, f32::to_bits);
                    continue;
                }
                match allreduce_f32(&inputs, group.chunk_words.into()) {
                    Ok(mut expected) => {
                        if average {
                            let divide =
                                |sum: &mut f32| *sum = (f64::from(*sum) / f64::from(group.world)) as f32;
                            expected.elements.iter_mut().for_each(divide);
                        }
                        outcome.compare(start, &result[range], &expected.elements, f32::to_bits);
                    }
                    Err(error) => outcome.no_reference(start, range.len(), &error),
                }
            }
            Tensor::I32(result) => {
                let inputs: Vec<_> = inputs
                    .filter_map(|tensor| if let Tensor::I32(tensor) = tensor { Some(tensor) } else { None })
                    .collect();
                match allreduce_i32(&inputs, group.chunk_words.into()) {
                    Ok(mut expected) => {
                        if average {
                            let divide = |sum: &mut i32| *sum = nearest(*sum, group.world);
                            expected.elements.iter_mut().for_each(divide);
                        }
                        outcome.compare(start, &result[range], &expected.elements, |value| value as u32);
                    }
                    Err(error) => outcome.no_reference(start, range.len(), &error),
                }
            }
            _ => {}
        }
    }
    outcome
}

/// The quotient rounded to nearest, ties to even, by another road than the library's: an f64 holds every i32 and its quotient
/// closely enough to tell which side of a half it is on.
fn nearest(sum: i32, world: u32) -> i32 {
    (f64::from(sum) / f64::from(world)).round_ties_even() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(op: ReduceOp) -> Group {
        Group { world: 2, seed: 5, op, chunk_words: 1, ring: false }
    }

    #[test]
    fn a_right_result_passes_and_a_flipped_bit_is_found() {
        for dtype in [Dtype::F32, Dtype::I32] {
            let inputs: Vec<_> = (0..2).map(|rank| data::generate(dtype, 5, rank, 2, 0..300)).collect();
            let mut result = match (&inputs[0], &inputs[1]) {
                (Tensor::I32(a), Tensor::I32(b)) => {
                    Tensor::I32(a.iter().zip(b).map(|(a, b)| a + b).collect())
                }
                (Tensor::F32(a), Tensor::F32(b)) => {
                    Tensor::F32(allreduce_f32(&[a.clone(), b.clone()], 1).expect("sums").elements)
                }
                other => panic!("{other:?}"),
            };
            let outcome = compare(&group(ReduceOp::Sum), &result, CheckArg::Full);
            assert_eq!((outcome.checked, outcome.wrong), (300, 0));
            match &mut result {
                Tensor::I32(result) => result[299] ^= 1,
                Tensor::F32(result) => result[299] = f32::from_bits(result[299].to_bits() ^ 1),
                other => panic!("{other:?}"),
            }
            for check in [CheckArg::Full, CheckArg::Sample] {
                let outcome = compare(&group(ReduceOp::Sum), &result, check);
                assert_eq!(outcome.wrong, 1);
                let error = outcome.into_result().expect_err("wrong").to_string();
                assert!(error.contains("element 299"), "{error}");
            }
            assert!(compare(&group(ReduceOp::Average), &result, CheckArg::Full).wrong > 250);
        }
    }
}
