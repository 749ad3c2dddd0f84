//! Who has which part of a switch: slots, words, replica ids, multicast groups.

use std::collections::BTreeMap;

use inca_wire::packet::MAX_WORDS;
use thiserror::Error;

use crate::program::node::{Share, TreeNode};
use crate::program::{MAX_REPLICAS, MAX_TREES, SLOT_WORDS, SLOTS};

/// What is free of one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool {
    slots: Ranges,
    words: Ranges,
    replicas: Ranges,
    groups: Ranges,
    trees: usize,
}

/// What a node of a tree needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Need {
    pub(super) slots: u32,
    /// Words per slot.
    pub(super) words: u8,
    pub(super) children: usize,
    pub(super) is_root: bool,
}

/// A switch has no room for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{wanted} {what} are needed in a row, {free} are free")]
pub(super) struct Exhausted {
    what: &'static str,
    wanted: u32,
    free: u32,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            slots: Ranges::new(0, SLOTS),
            // The program refuses slots that begin so near to the end that a chunk of any size might not fit.
            words: Ranges::new(0, SLOT_WORDS - MAX_WORDS as u32 + 1),
            replicas: Ranges::new(1, MAX_REPLICAS.into()),
            groups: Ranges::new(1, u16::MAX.into()),
            trees: 0,
        }
    }

    /// Slots in use.
    pub(super) fn slots_used(&self) -> u32 {
        SLOTS - self.slots.free()
    }

    /// Takes what a node needs, or nothing.
    pub(super) fn take(&mut self, need: Need) -> Result<Share, Exhausted> {
        if self.trees == MAX_TREES {
            return Err(Exhausted { what: "trees", wanted: 1, free: 0 });
        }
        let before = self.clone();
        let mut take = || {
            Ok(Share {
                first_slot: self.slots.take("slots", need.slots)?,
                first_word: self.words.take("words", need.words())?,
                first_replica: self.replicas.take("replica ids", need.replicas())? as u16,
                down_group: self.groups.take("multicast groups", 1)? as u16,
                up_group: if need.is_root { 0 } else { self.groups.take("multicast groups", 1)? as u16 },
            })
        };
        let share = take();
        match share {
            Ok(_) => self.trees += 1,
            Err(_) => *self = before,
        }
        share
    }

    /// Takes exactly this share; false, and nothing is taken, if a part of it is in use.
    pub(super) fn reserve(&mut self, need: Need, share: Share) -> bool {
        let before = self.clone();
        let taken = self.trees < MAX_TREES
            && self.slots.reserve(share.first_slot, need.slots)
            && self.words.reserve(share.first_word, need.words())
            && self.replicas.reserve(share.first_replica.into(), need.replicas())
            && self.groups.reserve(share.down_group.into(), 1)
            && (need.is_root || self.groups.reserve(share.up_group.into(), 1));
        match taken {
            true => self.trees += 1,
            false => *self = before,
        }
        taken
    }

    /// Gives back what [`Self::take`] gave.
    pub(super) fn give_back(&mut self, need: Need, share: Share) {
        self.slots.give_back(share.first_slot, need.slots);
        self.words.give_back(share.first_word, need.words());
        self.replicas.give_back(share.first_replica.into(), need.replicas());
        self.groups.give_back(share.down_group.into(), 1);
        if !need.is_root {
            self.groups.give_back(share.up_group.into(), 1);
        }
        self.trees -= 1;
    }
}

impl Need {
    fn words(&self) -> u32 {
        self.slots * u32::from(self.words)
    }

    fn replicas(&self) -> u32 {
        TreeNode::replicas(self.children, self.is_root).into()
    }
}

/// Free numbers, as ranges: first number and length. First fit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ranges(BTreeMap<u32, u32>);

impl Ranges {
    fn new(first: u32, length: u32) -> Self {
        Self(BTreeMap::from([(first, length)]))
    }

    fn free(&self) -> u32 {
        self.0.values().sum()
    }

    fn take(&mut self, what: &'static str, wanted: u32) -> Result<u32, Exhausted> {
        let found =
            self.0.iter().find(|(_, length)| **length >= wanted).map(|(first, length)| (*first, *length));
        let (first, length) = found.ok_or_else(|| Exhausted { what, wanted, free: self.free() })?;
        self.0.remove(&first);
        if length > wanted {
            self.0.insert(first + wanted, length - wanted);
        }
        Ok(first)
    }

    /// Takes these numbers, if all are free.
    fn reserve(&mut self, first: u32, length: u32) -> bool {
        let Some((&start, &free)) = self.0.range(..=first).next_back() else { return false };
        let (Some(end), until) = (first.checked_add(length), start + free) else { return false };
        if end > until {
            return false;
        }
        self.0.remove(&start);
        if start < first {
            self.0.insert(start, first - start);
        }
        if end < until {
            self.0.insert(end, until - end);
        }
        true
    }

    fn give_back(&mut self, mut first: u32, mut length: u32) {
        if let Some((&before, &its)) = self.0.range(..first).next_back()
            && before + its == first
        {
            self.0.remove(&before);
            (first, length) = (before, its + length);
        }
        if let Some(its) = self.0.remove(&(first + length)) {
            length += its;
        }
        self.0.insert(first, length);
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
