//! What the control plane says and packets only read: one snapshot of it.
//!
//! A packet thread holds a snapshot. The control plane makes the next one beside it ([`Arc::make_mut`] copies what it changes and
//! shares the rest) and the thread takes it between two batches, so no packet waits for a table update and none sees half of one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::{Table, Target};
use crate::control::{CloneSession, ProfileGroup, ProfileMember, Replica};
use crate::program::op::Pc;
use crate::program::{ProfileId, Program, TableId};

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) member: ProfileMember,
    pub(crate) code: Pc,
    pub(crate) args: Box<[u64]>,
}

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) group: ProfileGroup,
    /// Member ids, ascending, each as often as its weight says.
    pub(crate) slots: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    pub(crate) members: BTreeMap<u32, Member>,
    pub(crate) groups: BTreeMap<u32, Group>,
}

/// Members of a parser value set, raw (concatenated fields, padded at the front to whole bytes).
pub(crate) type ValueSet = HashSet<Vec<u8>>;

#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) profiles: Vec<Arc<Profile>>,
    pub(crate) value_sets: Vec<Arc<ValueSet>>,
    pub(crate) multicast: Arc<FxHashMap<u32, Arc<[Replica]>>>,
    pub(crate) sessions: Arc<BTreeMap<u32, CloneSession>>,
}

impl Rules {
    pub(crate) fn new(program: &Program) -> Self {
        let objects = &program.objects;
        Self {
            tables: program.tables.iter().map(|spec| Arc::new(Table::new(spec))).collect(),
            profiles: objects.profiles.iter().map(|_| Arc::default()).collect(),
            value_sets: objects.value_sets.iter().map(|_| Arc::default()).collect(),
            multicast: Arc::default(),
            sessions: Arc::default(),
        }
    }

    pub(crate) fn table_mut(&mut self, table: TableId) -> &mut Table {
        Arc::make_mut(&mut self.tables[table.index()])
    }

    pub(crate) fn profile_mut(&mut self, profile: ProfileId) -> &mut Profile {
        Arc::make_mut(&mut self.profiles[profile.index()])
    }
}

/// What a lookup found: code to run, where to go on, arguments.
pub(crate) enum Resolved<'a> {
    Call { code: Pc, next: Pc, args: &'a [u64] },
    Nothing { next: Pc },
}

impl Rules {
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
