//! Generations that change after every packet of an exchange.

use inca_host_agent::protocol::{OperationError, Part, Tensor};

use super::{Exchange, Tally};
use crate::fabric::{Call, Fabric, Faults, Outcomes, Stuck};
use crate::inputs;
use crate::target::Target;

/// Changes the generation after every packet of the exchange, with all ranks: once with what is on its way lost, once with it
/// arriving in the new generation; and once more after so many further packets as `again` says.
pub fn changes<T: Target>(exchange: &mut Exchange<T>, tally: &mut Tally, again: &[u64]) {
    for after in 0..exchange.usual_packets() {
        for (lose, then) in
            [(true, None), (false, None)].into_iter().chain(again.iter().map(|then| (false, Some(*then))))
        {
            exchange.fabric.renew_quietly(Faults::none(), after);
            exchange.fabric.begin(&exchange.calls, after);
            if lose {
                exchange.fabric.lose_in_flight();
            }
            tally.copied += exchange.fabric.change() as u64;
            tally.changes += 1;
            if let Some(then) = then {
                exchange.fabric.deliver(1, then);
                tally.copied += exchange.fabric.change() as u64;
                tally.changes += 1;
            }
            let outcomes = exchange.fabric.finish(1);
            tally.count(&exchange.fabric);
            let name = || {
                format!(
                    "{:?}, {}, change after {after} packets, lost {lose}, again after {then:?}",
                    exchange.shape, exchange.format
                )
            };
            tally.judge(name, outcomes, &exchange.right);
        }
    }
}

/// Each rank dies after every packet of the exchange; the others go on.
pub fn deaths<T: Target>(exchange: &mut Exchange<T>, tally: &mut Tally) {
    for dead in 0..exchange.fabric.world() {
        let group = Group::new(&exchange.calls[0], dead, exchange.fabric.chunk_words());
        for after in 0..exchange.usual_packets() {
            exchange.fabric.renew_quietly(Faults::none(), after);
            exchange.fabric.begin(&exchange.calls, after);
            exchange.fabric.kill(dead);
            tally.copied += exchange.fabric.change() as u64;
            tally.changes += 1;
            let outcomes = exchange.fabric.finish(1);
            tally.count(&exchange.fabric);
            let name =
                format!("{:?}, {}, rank {dead} dies after {after} packets", exchange.shape, exchange.format);
            tally.note(|| name, Group::judge_all(std::slice::from_ref(&group), &exchange.fabric, outcomes));
        }
    }
}

/// What a call gives to all ranks, and without one of them.
#[derive(Debug)]
pub struct Group {
    all: Tensor,
    rest: Tensor,
    dead: usize,
}

impl Group {
    /// A call during which this rank dies.
    ///
    /// # Panics
    /// If the reference model refuses the inputs.
    pub fn new(call: &Call, dead: usize, chunk_words: u8) -> Self {
        let mut rest = call.clone();
        rest.tensors.remove(dead);
        Self { all: inputs::expected(call, chunk_words), rest: inputs::expected(&rest, chunk_words), dead }
    }

    /// All survivors must have the same bits, and each part must be the sum that it says; `groups` has one for each call.
    pub(super) fn judge_all(
        groups: &[Self],
        fabric: &Fabric<impl Target>,
        outcomes: Result<Outcomes, Stuck>,
    ) -> Result<Result<(), String>, Stuck> {
        let outcomes = outcomes?;
        let mut judged = groups.iter().enumerate().map(|(call, group)| group.judge(fabric, call, &outcomes));
        Ok(judged.find(Result::is_err).unwrap_or(Ok(())))
    }

    fn judge(&self, fabric: &Fabric<impl Target>, call: usize, outcomes: &Outcomes) -> Result<(), String> {
        let mut first: Option<(Vec<u64>, &[Part])> = None;
        for rank in fabric.members() {
            let parts = fabric.parts(*rank, call);
            let bits = self.judge_rank(outcomes[*rank].get(call), parts);
            let bits = bits.map_err(|difference| format!("call {call}, rank {rank}: {difference}"))?;
            if *first.get_or_insert_with(|| (bits.clone(), parts)) != (bits, parts) {
                return Err(format!(
                    "call {call}: rank {rank} has other bits or parts than another survivor"
                ));
            }
        }
        Ok(())
    }

    fn judge_rank(
        &self,
        result: Option<&Result<Tensor, OperationError>>,
        parts: &[Part],
    ) -> Result<Vec<u64>, String> {
        let tensor = result.ok_or("no result")?.as_ref().map_err(ToString::to_string)?;
        let (ours, all, rest) = (inputs::bits(tensor), inputs::bits(&self.all), inputs::bits(&self.rest));
        let mut next = 0;
        for part in parts {
            let range = part.elements.start as usize..part.elements.end as usize;
            if range.start != next {
                return Err(format!("parts {parts:?} leave a gap at {next}"));
            }
            next = range.end;
            let right = if part.ranks.contains(&(self.dead as u32)) { &all } else { &rest };
            if ours[range.clone()] != right[range] {
                return Err(format!("part {part:?} is not the sum of its ranks"));
            }
        }
        if next == ours.len() {
            Ok(ours)
        } else {
            Err(format!("parts {parts:?} end at {next} of {}", ours.len()))
        }
    }
}
