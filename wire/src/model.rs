//! The reference model: what the switches must compute, in integers that can be read and checked. Nothing here is fast.
//!
//! * [`numbers`]: alignment, addition and rounding of one slot's sum;
//! * [`allreduce`]: whole chunks with their second passes, from every rank's tensor to the result;
//! * [`slot`]: one switch's slot protocol, for differential tests against the P4 program.

pub mod allreduce;
pub mod numbers;
pub mod slot;

#[cfg(test)]
mod check;
