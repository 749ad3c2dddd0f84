//! What a switch remembers between packets.

use std::collections::{BTreeMap, HashSet};

use rustc_hash::FxHashMap;

use super::limbs::Limbs;
use super::meter::Meter;
use super::table::{Table, Target};
use crate::control::{CloneSession, CounterValue, ProfileGroup, ProfileMember, Replica};
use crate::program::Program;
use crate::program::op::Pc;

#[derive(Debug)]
pub(crate) struct Register {
    pub(crate) limbs: usize,
    pub(crate) size: usize,
    pub(crate) cells: Limbs,
}

impl Register {
    /// Limbs of a cell, if there is one at this index.
    #[inline(always)]
    pub(crate) fn cell(&self, index: u64) -> Option<&[u64]> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.size)?;
        self.cells.get(index * self.limbs..(index + 1) * self.limbs)
    }

    /// See [`Self::cell`].
    #[inline(always)]
    pub(crate) fn cell_mut(&mut self, index: u64) -> Option<&mut [u64]> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.size)?;
        self.cells.get_mut(index * self.limbs..(index + 1) * self.limbs)
    }
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) member: ProfileMember,
    pub(crate) code: Pc,
    pub(crate) args: Box<[u64]>,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) group: ProfileGroup,
    /// Member ids, ascending, each as often as its weight says.
    pub(crate) slots: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Profile {
    pub(crate) members: BTreeMap<u32, Member>,
    pub(crate) groups: BTreeMap<u32, Group>,
}

/// Members of a parser value set, raw (concatenated fields, padded at the front to whole bytes).
pub(crate) type ValueSet = HashSet<Vec<u8>>;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) registers: Vec<Register>,
    pub(crate) counters: Vec<Vec<CounterValue>>,
    pub(crate) meters: Vec<Vec<Option<Meter>>>,
    pub(crate) value_sets: Vec<ValueSet>,
    pub(crate) multicast: FxHashMap<u32, Vec<Replica>>,
    pub(crate) sessions: BTreeMap<u32, CloneSession>,
    /// Calls of each calculation, for round robin.
    pub(crate) calls: Vec<u64>,
    pub(crate) random: u64,
}

impl State {
    pub(crate) fn new(program: &Program, seed: u64) -> Self {
        let objects = &program.objects;
        let register = |r: &crate::program::RegisterInfo| {
            let limbs = r.bits.div_ceil(64) as usize;
            Register { limbs, size: r.size, cells: Limbs::zeros(limbs * r.size) }
        };
        Self {
            tables: program.tables.iter().map(Table::new).collect(),
            profiles: objects.profiles.iter().map(|_| Profile::default()).collect(),
            registers: objects.registers.iter().map(register).collect(),
            counters: objects.counters.iter().map(|c| vec![CounterValue::default(); c.size]).collect(),
            meters: program
                .meters
                .iter()
                .map(|m| vec![None; if m.direct_target.is_some() { 0 } else { m.size }])
                .collect(),
            value_sets: objects.value_sets.iter().map(|_| ValueSet::default()).collect(),
            multicast: FxHashMap::default(),
            sessions: BTreeMap::new(),
            calls: vec![0; program.calculations.len()],
            random: seed,
        }
    }

    /// SplitMix64.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// What a lookup found: code to run, where to go on, arguments.
pub(crate) enum Resolved<'a> {
    Call { code: Pc, next: Pc, args: &'a [u64] },
    Nothing { next: Pc },
}

impl State {
    /// Follows a target to an action. `hash` is called for groups only.
    pub(crate) fn resolve<'a>(
        target: &'a Target,
        profile: Option<&'a Profile>,
        next_of: impl Fn(u32) -> Pc,
        miss_next: Pc,
        hash: impl FnOnce() -> u64,
    ) -> Resolved<'a> {
        let member = |id: u32| match profile.and_then(|p| p.members.get(&id)) {
            Some(m) => Resolved::Call { code: m.code, next: next_of(m.member.call.action.0), args: &m.args },
            None => Resolved::Nothing { next: miss_next },
        };
        match target {
            Target::Call { code, next, args } => Resolved::Call { code: *code, next: *next, args },
            Target::Nothing { next } => Resolved::Nothing { next: *next },
            Target::Member(id) => member(*id),
            Target::Group(id) => match profile.and_then(|p| p.groups.get(id)) {
                Some(g) if !g.slots.is_empty() => member(g.slots[(hash() % g.slots.len() as u64) as usize]),
                // BMv2: an empty group runs nothing and ends there.
                _ => Resolved::Nothing { next: crate::program::op::END },
            },
            Target::OneShot(slots) => match slots.get((hash() % slots.len().max(1) as u64) as usize) {
                Some(Target::Call { code, next, args }) => Resolved::Call { code: *code, next: *next, args },
                _ => Resolved::Nothing { next: crate::program::op::END },
            },
        }
    }
}
