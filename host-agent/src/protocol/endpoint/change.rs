//! How an endpoint goes from one generation to the next: "Generation change" of `docs/protocol.md`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use inca_wire::chunk::ChunkState;
use inca_wire::scheme::Scheme;

use super::super::carrier::Carrier;
use super::super::config::TreeConfig;
use super::super::error::{ChangeError, Closed};
use super::super::kept::{Account, KeptChunk};
use super::super::operation::Part;
use super::super::tensor::TensorBuffer;
use super::Endpoint;

/// Where a generation begins that follows another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextGeneration {
    /// Its number.
    pub generation: u32,
    /// The group's ranks, in order.
    pub members: Vec<u32>,
    /// As many trees as before, of as many slots.
    pub trees: Vec<TreeConfig>,
    /// Per tree and slot, how many of the slot's chunks are finished at every rank.
    pub finished: Vec<Vec<u64>>,
}

impl<B: TensorBuffer> Endpoint<B> {
    /// Stops: nothing is sent any more, no result accepted. `None` if the endpoint is closed. Otherwise how many chunks of each
    /// slot are finished; that does not change until [`Endpoint::take_over`]. Stopping twice is stopping once.
    pub fn stop(&mut self, reason: &str) -> Option<Vec<Vec<u64>>> {
        if self.closed.is_some() {
            return None;
        }
        if self.stopped.replace(reason.to_owned()).is_none() {
            for tree in &mut self.trees {
                tree.stop();
            }
            self.probed = None;
        }
        Some(self.finished())
    }

    /// Why the endpoint is stopped, if it is.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// What this rank has done; also after the end.
    pub fn account(&self) -> Account {
        let slots = |tree: usize| (0..self.trees[tree].config.slots).map(move |slot| (tree, slot));
        Account {
            finished: self.finished(),
            kept: (0..self.trees.len())
                .flat_map(slots)
                .filter_map(|(tree, slot)| self.kept(tree, slot))
                .collect(),
        }
    }

    fn finished(&self) -> Vec<Vec<u64>> {
        self.trees.iter().map(|tree| tree.finished_per_slot().collect()).collect()
    }

    /// A slot's last finished chunk.
    pub fn kept(&self, tree: usize, slot: u32) -> Option<KeptChunk> {
        let kept = &self.trees.get(tree)?.slots.get(slot as usize)?.kept;
        kept.is_set.then(|| KeptChunk {
            tree,
            slot,
            tag: kept.tag,
            overflow: kept.overflow,
            elements: kept.elements.clone(),
        })
    }

    /// Finishes chunks that other ranks had and this one lacks, with their results. Only while stopped.
    pub fn take_over(&mut self, chunks: &[KeptChunk]) -> Result<(), ChangeError> {
        if self.stopped.is_none() {
            return Err(ChangeError::NotStopped);
        }
        chunks.iter().try_for_each(|chunk| self.take_over_one(chunk))
    }

    fn take_over_one(&mut self, given: &KeptChunk) -> Result<(), ChangeError> {
        let (tree, slot) = (given.tree, given.slot);
        let foreign = || ChangeError::Copy { tree, slot };
        let current =
            self.trees.get(tree).and_then(|tree| tree.slots.get(slot as usize)).ok_or_else(foreign)?.chunk;
        let chunk = self.global_chunk(tree, current);
        let index = self.operation_index(chunk);
        let entry = self.operations.get(index).ok_or_else(foreign)?;
        let chunk = (chunk - entry.first_chunk) as u32;
        let active = self.operations[index].operation.as_mut().ok_or_else(foreign)?;
        if active.wire.tag(chunk, 0) != given.tag {
            return Err(foreign());
        }
        self.trees[tree].begin_taking_over(slot);
        // At which exponent it was sent last is not known any more: most likely at its own.
        active.keep_residual(&ChunkState::default(), chunk).map_err(|_| foreign())?;
        if !active.output(chunk).read_le_bytes(&given.elements) {
            return Err(foreign());
        }
        active.note_overflow(given.overflow);
        active.keep(chunk, given.overflow, &mut self.trees[tree].slots[slot as usize].kept);
        self.chunk_done(tree, index, slot);
        Ok(())
    }

    /// Goes on in the next generation, from where all ranks are.
    pub fn reopen(&mut self, now: Instant, next: NextGeneration) -> Result<(), ChangeError> {
        if self.stopped.is_none() {
            return Err(ChangeError::NotStopped);
        }
        if next.generation <= self.config.generation {
            let (given, current) = (next.generation, self.config.generation);
            return Err(ChangeError::Generation { given, current });
        }
        let slots = |trees: &[TreeConfig]| trees.iter().map(|tree| tree.slots).collect::<Vec<_>>();
        if slots(&next.trees) != slots(&self.config.trees) {
            let (given, current) = (slots(&next.trees), slots(&self.config.trees));
            return Err(ChangeError::Slots { given, current });
        }
        let finished = self.finished();
        if next.finished != finished {
            let place = |(tree, (ours, theirs)): (usize, (&Vec<u64>, &Vec<u64>))| {
                let slot = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs)?;
                Some(ChangeError::Place { tree, slot, ours: ours[slot], agreed: theirs[slot] })
            };
            let pairs = finished.iter().zip(&next.finished).enumerate();
            return Err(pairs.filter_map(place).next().unwrap_or(ChangeError::Shape));
        }
        let mut config = self.config.clone();
        (config.generation, config.trees) = (next.generation, next.trees);
        config.world_size = next.members.len() as u32;
        config.check().map_err(|error| ChangeError::Config(Box::new(error)))?;
        let is_smaller = *next.members != *self.members;
        if is_smaller {
            self.close_parts();
            self.members = next.members.into();
        }
        for (tree, config) in self.trees.iter_mut().zip(&config.trees) {
            tree.reopen(config.clone(), &self.config.tuning, now);
        }
        let mut broken = None;
        for active in self.operations.iter_mut().filter_map(|entry| entry.operation.as_mut()) {
            if let Carrier::Reduce(scheme) = &mut active.carrier
                // A format that took the larger group takes the smaller one.
                && let Ok(smaller) =
                    Scheme::new(scheme.dtype(), scheme.op(), config.format, config.world_size)
            {
                *scheme = smaller;
            }
            if is_smaller && active.layout.needs_all() {
                broken.get_or_insert(active.text);
            }
        }
        self.config = config;
        (self.stopped, self.mismatched) = (None, None);
        if let Some(operation) = broken {
            // The same at every rank that is left: all have the same chunks of it.
            let reason = format!("{operation} can't be finished without the ranks that died");
            self.close(Closed { reason, missing_ranks: Vec::new() });
        }
        Ok(())
    }

    /// Notes for every operation which elements hold the ranks until now.
    fn close_parts(&mut self) {
        let stripes = self.trees.len() as u64;
        let members = self.members.clone();
        for index in 0..self.operations.len() {
            let entry = &self.operations[index];
            let mut done: Vec<Range<u64>> = Vec::new();
            for chunk in 0..entry.chunks {
                let global = entry.first_chunk + u64::from(chunk);
                let (tree, local) = (&self.trees[(global % stripes) as usize], global / stripes);
                if tree.slots[tree.slot_of(local) as usize].chunk <= local {
                    continue;
                }
                let range = self.elements(entry, chunk);
                let range = range.start as u64..range.end as u64;
                match done.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => done.push(range),
                }
            }
            if let Some(active) = &mut self.operations[index].operation {
                add_parts(&mut active.parts, &done, &members);
            }
        }
    }
}

/// Adds those of the ranges that are in no part yet.
pub(super) fn add_parts(parts: &mut Vec<Part>, ranges: &[Range<u64>], ranks: &Arc<[u32]>) {
    let mut rest: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    for part in parts.iter() {
        let taken = &part.elements;
        rest = rest
            .into_iter()
            .flat_map(|range| {
                [range.start..range.end.min(taken.start), range.start.max(taken.end)..range.end]
            })
            .filter(|range| range.start < range.end)
            .collect();
    }
    parts.extend(rest.into_iter().map(|elements| Part { elements, ranks: ranks.clone() }));
    parts.sort_by_key(|part| part.elements.start);
}
