//! What packets leave behind in a switch.

use super::limbs::Limbs;
use super::meter::Meter;
use super::table::Entry;
use crate::control::CounterValue;
use crate::program::{Program, TableId};

#[derive(Debug)]
pub(crate) struct Register {
    pub(crate) limbs: usize,
    pub(crate) size: usize,
    pub(crate) cells: Limbs,
    /// When each cell was written last, of a switch whose threads have cells of their own; else empty.
    pub(crate) written_us: Vec<u64>,
}

impl Register {
    /// Limbs of a cell, if there is one at this index.
    #[inline(always)]
    pub(crate) fn cell(&self, index: u64) -> Option<&[u64]> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.size)?;
        self.cells.get(index * self.limbs..(index + 1) * self.limbs)
    }

    /// See [`Self::cell`]; the cell counts as written now.
    #[inline(always)]
    pub(crate) fn cell_mut(&mut self, index: u64, now_us: u64) -> Option<&mut [u64]> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.size)?;
        if let Some(written_us) = self.written_us.get_mut(index) {
            *written_us = now_us;
        }
        self.cells.get_mut(index * self.limbs..(index + 1) * self.limbs)
    }
}

/// What packets did to a table's entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hits {
    /// Of the entry that this is about. A handle may be another entry's by now; that one begins anew.
    serial: Option<u64>,
    pub(crate) counter: CounterValue,
    pub(crate) meter: Option<Meter>,
    pub(crate) last_us: u64,
    /// Expiry was reported of an entry that had been idle since then.
    pub(crate) reported_us: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct State {
    /// Clock of the packets at hand.
    pub(crate) now_us: u64,
    /// By table, then by handle.
    hits: Vec<Vec<Hits>>,
    pub(crate) registers: Vec<Register>,
    pub(crate) counters: Vec<Vec<CounterValue>>,
    pub(crate) meters: Vec<Vec<Option<Meter>>>,
    /// Calls of each calculation, for round robin.
    pub(crate) calls: Vec<u64>,
    pub(crate) random: u64,
}

impl State {
    /// `stamps`: cells of registers remember when they were written.
    pub(crate) fn new(program: &Program, seed: u64, stamps: bool) -> Self {
        let objects = &program.objects;
        let register = |r: &crate::program::RegisterInfo| {
            let limbs = r.bits.div_ceil(64) as usize;
            let written_us = vec![0; if stamps { r.size } else { 0 }];
            Register { limbs, size: r.size, cells: Limbs::zeros(limbs * r.size), written_us }
        };
        Self {
            now_us: 0,
            hits: vec![Vec::new(); program.tables.len()],
            registers: objects.registers.iter().map(register).collect(),
            counters: objects.counters.iter().map(|c| vec![CounterValue::default(); c.size]).collect(),
            meters: program
                .meters
                .iter()
                .map(|m| vec![None; if m.direct_target.is_some() { 0 } else { m.size }])
                .collect(),
            calls: vec![0; program.calculations.len()],
            random: seed,
        }
    }

    /// Of no program's packets: for a switch that only holds rules.
    pub(crate) fn none() -> Self {
        Self {
            now_us: 0,
            hits: Vec::new(),
            registers: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            calls: Vec::new(),
            random: 0,
        }
    }

    /// What happened to an entry, if anything did.
    pub(crate) fn hits(&self, table: TableId, handle: u32, entry: &Entry) -> Option<&Hits> {
        let hits = self.hits.get(table.index())?.get(handle as usize)?;
        (hits.serial == Some(entry.serial)).then_some(hits)
    }

    /// See [`Self::hits`]; begins it if need be.
    #[inline]
    pub(crate) fn hits_mut(&mut self, table: usize, handle: u32, entry: &Entry) -> &mut Hits {
        let of_table = &mut self.hits[table];
        if of_table.len() <= handle as usize {
            of_table.resize(handle as usize + 1, Hits::default());
        }
        let hits = &mut of_table[handle as usize];
        if hits.serial != Some(entry.serial) {
            *hits = Hits { serial: Some(entry.serial), ..Hits::default() };
        }
        hits
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
