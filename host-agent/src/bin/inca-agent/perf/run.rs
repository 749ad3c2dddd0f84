//! One call of each collective on generated tensors, and what must come of it.

use inca_host_agent::{Collective, Communicator, Dtype, Tensor};

use crate::args::{CheckArg, CollectiveArg, PerfArgs};
use crate::check::{self, Group, Outcome};
use crate::{Failure, data};

/// Its name on the command line.
pub(super) fn name(collective: CollectiveArg) -> &'static str {
    match collective {
        CollectiveArg::Allreduce => "allreduce",
        CollectiveArg::Reduce => "reduce",
        CollectiveArg::Broadcast => "broadcast",
        CollectiveArg::Allgather => "allgather",
        CollectiveArg::ReduceScatter => "reduce-scatter",
        CollectiveArg::Alltoall => "alltoall",
        CollectiveArg::Sendrecv => "sendrecv",
        CollectiveArg::Barrier => "barrier",
    }
}

/// Whether a tensor has a part for each rank.
pub(super) fn has_parts(collective: CollectiveArg) -> bool {
    use CollectiveArg::{Allgather, Alltoall, ReduceScatter};
    matches!(collective, Allgather | Alltoall | ReduceScatter)
}

/// Whether elements are reduced.
pub(super) fn reduces(collective: CollectiveArg) -> bool {
    use CollectiveArg::{Allreduce, Reduce, ReduceScatter};
    matches!(collective, Allreduce | Reduce | ReduceScatter)
}

/// What a ring's links would carry of each byte, as nccl-tests counts.
pub(super) fn bus_factor(collective: CollectiveArg, world: u32) -> f64 {
    let world = f64::from(world);
    match collective {
        CollectiveArg::Allreduce => 2.0 * (world - 1.0) / world,
        collective if has_parts(collective) => (world - 1.0) / world,
        _ => 1.0,
    }
}

/// Whether to measure in place, each in turn.
pub(super) fn places(args: &PerfArgs) -> Vec<bool> {
    use CollectiveArg::{Alltoall, Barrier, Broadcast, Sendrecv};
    match args.collective {
        Broadcast => vec![true],
        // They have no form in place.
        Alltoall | Sendrecv | Barrier => vec![false],
        _ if args.in_place => vec![false, true],
        _ => vec![false],
    }
}

/// A call at one size.
pub(super) struct Call<'a> {
    args: &'a PerfArgs,
    /// Elements of the whole tensor, and of a part.
    count: usize,
    part: usize,
    in_place: bool,
}

/// What a call reads (empty: in place) and writes.
pub(super) struct Buffers {
    input: Tensor,
    output: Tensor,
}

impl<'a> Call<'a> {
    pub(super) fn new(args: &'a PerfArgs, count: usize, in_place: bool) -> Self {
        let parts = if has_parts(args.collective) { args.join.world.max(1) as usize } else { 1 };
        Self { args, count, part: count / parts, in_place }
    }

    fn dtype(&self) -> Dtype {
        self.args.operation.scheme.dtype
    }

    /// This rank's own tensor, from an element on.
    fn generate(&self, range: std::ops::Range<usize>) -> Tensor {
        let join = &self.args.join;
        data::generate(self.dtype(), self.args.operation.seed, join.rank, join.world, range)
    }

    /// Fresh buffers. What is to be written holds what no result equals by chance.
    pub(super) fn buffers(&self) -> Buffers {
        let unlikely = |count: usize| {
            let bytes = vec![0xA5; self.dtype().bytes_for(count)];
            Tensor::from_le_bytes_of(self.dtype(), &bytes, count)
        };
        let gathers = self.args.collective == CollectiveArg::Allgather;
        let scatters = self.args.collective == CollectiveArg::ReduceScatter;
        if self.in_place {
            let mut output = if gathers { unlikely(self.count) } else { self.generate(0..self.count) };
            if gathers {
                let start = self.args.join.rank as usize * self.part;
                let own = self.generate(0..self.part).view().to_le_bytes();
                output.view_mut().slice(start..start + self.part).read_le_bytes(&own);
            }
            return Buffers { input: Tensor::zeros(self.dtype(), 0), output };
        }
        let input = self.generate(0..if gathers { self.part } else { self.count });
        Buffers { input, output: unlikely(if scatters { self.part } else { self.count }) }
    }

    /// Runs the call once.
    pub(super) fn run(&self, group: &Communicator, buffers: Buffers) -> Result<Buffers, Failure> {
        let Buffers { input, mut output } = buffers;
        let (op, deadline, root) =
            (self.args.operation.scheme.op, self.args.operation.deadline, self.args.root);
        let collective = match self.args.collective {
            CollectiveArg::Allreduce => Collective::Allreduce,
            CollectiveArg::Reduce => Collective::reduce_to(root),
            CollectiveArg::Broadcast => Collective::broadcast_from(root),
            CollectiveArg::Allgather => Collective::Allgather,
            CollectiveArg::ReduceScatter => Collective::ReduceScatter,
            CollectiveArg::Alltoall | CollectiveArg::Sendrecv | CollectiveArg::Barrier => Collective::Barrier,
        };
        if self.in_place {
            let output = group.start(collective, output, op, deadline).wait()?;
            return Ok(Buffers { input, output });
        }
        let (read, write) = (input.view(), output.view_mut());
        match self.args.collective {
            CollectiveArg::Reduce => group.reduce_into(read, write, root, op, deadline)?,
            CollectiveArg::Allgather => group.allgather(read, write, deadline)?,
            CollectiveArg::ReduceScatter => group.reduce_scatter(read, write, op, deadline)?,
            CollectiveArg::Alltoall => group.alltoall(read, write, deadline)?,
            CollectiveArg::Sendrecv => {
                let (next, before) = self.neighbours();
                if next == self.args.join.rank {
                    output = input.clone();
                } else {
                    group.send(read, next, 0, deadline)?;
                    group.recv(write, before, 0, deadline)?;
                }
            }
            CollectiveArg::Barrier => group.barrier(deadline)?,
            CollectiveArg::Allreduce | CollectiveArg::Broadcast => {
                group.allreduce_into(read, write, op, deadline)?;
            }
        }
        Ok(Buffers { input, output })
    }

    fn neighbours(&self) -> (u32, u32) {
        let (rank, world) = (self.args.join.rank, self.args.join.world);
        ((rank + 1) % world, (rank + world - 1) % world)
    }

    /// Compares the outputs.
    pub(super) fn check(&self, model: &Group, buffers: &Buffers, check: CheckArg) -> Outcome {
        let (rank, world) = (self.args.join.rank, self.args.join.world);
        let output = buffers.output.view();
        let own = rank as usize * self.part;
        let part_of = |place: u32| place as usize * self.part..(place as usize + 1) * self.part;
        let mut outcome = Outcome::default();
        match self.args.collective {
            CollectiveArg::Allreduce => return check::compare(model, &buffers.output, check),
            CollectiveArg::Reduce if rank == self.args.root => {
                return check::compare(model, &buffers.output, check);
            }
            CollectiveArg::ReduceScatter => {
                let part = if self.in_place { output.slice(own..own + self.part) } else { output };
                return check::compare_part(model, &part, own, check);
            }
            CollectiveArg::Broadcast => {
                outcome.add(check::compare_with_rank(model, &output, (self.args.root, 0), check));
            }
            CollectiveArg::Sendrecv => {
                outcome.add(check::compare_with_rank(model, &output, (self.neighbours().1, 0), check));
            }
            CollectiveArg::Allgather => {
                for owner in 0..world {
                    let part = output.slice(part_of(owner));
                    outcome.add(check::compare_with_rank(model, &part, (owner, 0), check));
                }
            }
            CollectiveArg::Alltoall => {
                for from in 0..world {
                    let part = output.slice(part_of(from));
                    outcome.add(check::compare_with_rank(model, &part, (from, own), check));
                }
            }
            // Elsewhere a reduction leaves everything as it was.
            CollectiveArg::Reduce if self.in_place => {
                outcome.add(check::compare_with_rank(model, &output, (rank, 0), check));
            }
            CollectiveArg::Reduce | CollectiveArg::Barrier => {}
        }
        outcome
    }
}
