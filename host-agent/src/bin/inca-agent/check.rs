//! Results against the reference model: every rank's input is generated anew, chunk by chunk, and summed as the switches must.

use inca_host_agent::ring::reference_f32;
use inca_host_agent::{Dtype, Format, ReduceOp, SchemeError, Tensor, TensorRef};
use inca_wire::model::allreduce::{ReferenceError, allreduce};

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
    format: Format,
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
    pub(crate) fn of(join: &JoinArgs, operation: &OperationArgs, ring: bool) -> Result<Self, SchemeError> {
        let (world, seed, op, format) =
            (join.world, operation.seed, operation.scheme.op, operation.scheme.format()?);
        Ok(Self { world, seed, op, format, chunk_words: join.chunk_words, ring })
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

    fn compare(&mut self, start: usize, got: &TensorRef<'_>, expected: &TensorRef<'_>) {
        self.checked += got.len() as u64;
        for offset in 0..got.len() {
            let (got_bits, expected_bits) = (got.bits(offset), expected.bits(offset));
            if got_bits != expected_bits {
                self.wrong += 1;
                self.first.get_or_insert_with(|| {
                    let (index, got, expected) = (start + offset, got.text(offset), expected.text(offset));
                    format!("{index} is {got} ({got_bits:#x}), must be {expected} ({expected_bits:#x})")
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

/// Compares elements with those that a rank generated, from element `first` of its tensor on.
pub(crate) fn compare_with_rank(
    group: &Group,
    result: &TensorRef<'_>,
    (rank, first): (u32, usize),
    check: CheckArg,
) -> Outcome {
    let mut outcome = Outcome::default();
    if check != CheckArg::None {
        let range = first..first + result.len();
        let right = data::generate(result.dtype(), group.seed, rank, group.world, range);
        outcome.compare(0, result, &right.view());
    }
    outcome
}

/// Compares a result of generated tensors with the reference model, bit for bit.
pub(crate) fn compare(group: &Group, result: &Tensor, check: CheckArg) -> Outcome {
    compare_part(group, &result.view(), 0, check)
}

/// Compares a part of a result that was reduced by itself: from element `first` of the tensors on.
pub(crate) fn compare_part(group: &Group, result: &TensorRef<'_>, first: usize, check: CheckArg) -> Outcome {
    let all: Vec<u32> = (0..group.world).collect();
    compare_ranks(group, result, first, &all, check)
}

/// The same where only these ranks' inputs are in it.
pub(crate) fn compare_ranks(
    group: &Group,
    result: &TensorRef<'_>,
    first: usize,
    ranks: &[u32],
    check: CheckArg,
) -> Outcome {
    let mut outcome = Outcome::default();
    let (len, dtype) = (result.len(), result.dtype());
    let chunk = usize::from(group.chunk_words) * group.format.lanes_per_word();
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
        let inputs: Vec<Tensor> = ranks
            .iter()
            .map(|&rank| {
                data::generate(dtype, group.seed, rank, group.world, first + range.start..first + range.end)
            })
            .collect();
        if group.ring && dtype == Dtype::F32 {
            let value =
                |input: &Tensor, index: usize| f32::from_bits(input.view().bits(index - start) as u32);
            let sum = |index: usize| {
                let values: Vec<f32> = inputs.iter().map(|input| value(input, index)).collect();
                reference_f32(&values, group.op, len, index)
            };
            let expected: Vec<f32> = range.clone().map(sum).collect();
            outcome.compare(start, &result.slice(range), &TensorRef::F32(&expected));
            continue;
        }
        let inputs: Vec<TensorRef<'_>> = inputs.iter().map(Tensor::view).collect();
        match allreduce(group.format, group.op, &inputs, group.chunk_words.into(), |_| {}) {
            Ok(expected) => outcome.compare(start, &result.slice(range), &expected.elements.view()),
            Err(error) => outcome.no_reference(start, range.len(), &error),
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use inca_host_agent::Scheme;

    use super::*;

    #[test]
    fn the_result_of_some_ranks_is_compared_with_those_alone() {
        let format = Scheme::default_format(Dtype::F32, ReduceOp::Average).expect("offered");
        let group = Group { world: 3, seed: 5, op: ReduceOp::Average, format, chunk_words: 1, ring: false };
        let first = 2 * format.lanes_per_word();
        let input = |rank| data::generate(Dtype::F32, 5, rank, 3, first..first + 300);
        let (zero, two) = (input(0), input(2));
        let result =
            allreduce(format, group.op, &[zero.view(), two.view()], 1, |_| {}).expect("sums").elements;
        let wrong = |ranks: &[u32]| compare_ranks(&group, &result.view(), first, ranks, CheckArg::Full).wrong;
        assert_eq!(wrong(&[0, 2]), 0);
        assert!(wrong(&[0, 1, 2]) > 0);
    }

    #[test]
    fn a_right_result_passes_and_a_flipped_bit_is_found() {
        for dtype in [Dtype::F32, Dtype::I32, Dtype::Bf16, Dtype::I4] {
            let group = |op| {
                let format = Scheme::default_format(dtype, op).expect("offered");
                Group { world: 2, seed: 5, op, format, chunk_words: 1, ring: false }
            };
            let inputs: Vec<_> = (0..2).map(|rank| data::generate(dtype, 5, rank, 2, 0..300)).collect();
            let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
            let sum = group(ReduceOp::Sum);
            let result = allreduce(sum.format, sum.op, &views, 1, |_| {}).expect("sums").elements;
            let outcome = compare(&sum, &result, CheckArg::Full);
            assert_eq!((outcome.checked, outcome.wrong), (300, 0));
            let mut bytes = result.view().to_le_bytes();
            if let Some(last) = bytes.last_mut() {
                *last ^= 0x10;
            }
            let result = Tensor::from_le_bytes(dtype, &bytes);
            for check in [CheckArg::Full, CheckArg::Sample] {
                let outcome = compare(&sum, &result, check);
                assert_eq!(outcome.wrong, 1);
                let error = outcome.into_result().expect_err("wrong").to_string();
                assert!(error.contains("element 299"), "{error}");
            }
            assert!(compare(&group(ReduceOp::Average), &result, CheckArg::Full).wrong > 100);
        }
    }
}
