//! A ring of the hosts over TCP, for jobs that get no reduction tree: the same operations through the same API, at twice the bytes.
//!
//! Every rank sends to the next one and hears from the one before. A tensor has one segment per rank. Segment `s` starts at
//! rank `s` as its input, each rank adds its own and passes it on (reduce-scatter), the last one, `s - 1`, rounds once and passes the
//! result on until all have it (allgather). Segments travel in chunks, so all links carry something all the time.
//!
//! Each chunk is summed in one order and rounded in one place, so all ranks get the same bits. Partial sums travel as f64 and
//! i64: integers never wrap, and f32 is rounded once. (A tree sums f32 as blocks, so its bits differ from a ring's.)
//!
//! * [`Ring`]: the protocol as a pure state machine: bytes in, bytes out, time;
//! * `driver`: sockets, clock and thread around it.

mod arithmetic;
pub(crate) mod driver;
mod frame;
mod machine;
mod progress;
#[cfg(test)]
mod tests;

pub use arithmetic::{reference_f32, segment};
pub use machine::{Lost, Ring, RingConfig};
