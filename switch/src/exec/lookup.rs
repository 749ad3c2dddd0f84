//! Keys, table lookups, the parser's selects.

use super::rules::{Resolved, Rules};
use super::run::{Machine, ParserError};
use super::{PacketState, wire};
use crate::program::Program;
use crate::program::op::{END, KeyPart, KeySource, Loc, Pc, SelectCase};

impl Machine {
    /// Packs a key. `false`: a lookahead went beyond the packet.
    #[inline]
    pub(super) fn pack(
        &mut self,
        program: &Program,
        packet: &PacketState,
        frame: &[u8],
        parts: &[KeyPart],
        limbs: usize,
    ) -> bool {
        self.key.clear();
        self.key.resize(limbs, 0);
        for part in parts {
            if part.valid != Loc::MAX && self.mem[part.valid as usize] == 0 {
                continue;
            }
            let n = usize::from(part.limbs);
            let from = match part.source {
                KeySource::Memory(at) => at as usize,
                KeySource::Last { access, next } => {
                    let access = &program.code.accesses[access as usize];
                    let index = (self.mem[next as usize] as usize).wrapping_sub(1);
                    match access.offsets.get(index) {
                        Some(at) => *at as usize,
                        None => {
                            self.faults.stack_out_of_range += 1;
                            continue;
                        }
                    }
                }
                KeySource::Lookahead { offset, bits } => {
                    let at = packet.parsed * 8 + offset as usize;
                    if at + bits as usize > frame.len() * 8 {
                        return false;
                    }
                    let key = &mut self.key[usize::from(part.limb)..usize::from(part.limb) + n];
                    if n > 1 {
                        wire::read_value(frame, at, bits, key);
                    } else {
                        key[0] |= wire::read_bits(frame, at, bits) << part.shift;
                    }
                    continue;
                }
            };
            if n == 1 {
                self.key[usize::from(part.limb)] |= self.mem[from] << part.shift;
            } else {
                self.key[usize::from(part.limb)..][..n].copy_from_slice(&self.mem[from..from + n]);
            }
        }
        true
    }

    /// A key of one limb, no part of which is in a stack. `None`: a lookahead went beyond the packet.
    #[inline(always)]
    fn narrow_key(&self, packet: &PacketState, frame: &[u8], parts: &[KeyPart]) -> Option<u64> {
        let mut key = 0;
        for part in parts {
            let value = match part.source {
                KeySource::Memory(at) if part.valid == Loc::MAX || self.get(part.valid) != 0 => self.get(at),
                KeySource::Lookahead { offset, bits } => {
                    let at = packet.parsed * 8 + offset as usize;
                    if at + bits as usize > frame.len() * 8 {
                        return None;
                    }
                    wire::read_bits(frame, at, bits)
                }
                _ => 0,
            };
            key |= value << part.shift;
        }
        Some(key)
    }

    /// Looks a table up. Returns the code of the action (`END`: none) and where to go on after it.
    #[inline]
    pub(super) fn apply(
        &mut self,
        program: &Program,
        packet: &PacketState,
        frame: &[u8],
        table: u32,
    ) -> (Pc, Pc) {
        let spec = &program.tables[table as usize];
        self.pack(program, packet, frame, &spec.parts, spec.key_limbs);
        for (limb, mask) in self.key.iter_mut().zip(&spec.static_mask) {
            *limb &= mask;
        }
        let rules = &*self.rules;
        let of_table = &*rules.tables[table as usize];
        let found = of_table.lookup(&self.key, &mut self.masked).and_then(|h| Some((h, of_table.entry(h)?)));
        if let Some((handle, entry)) = found.filter(|_| spec.counts_hits()) {
            let hits = self.state.hits_mut(table as usize, handle, entry);
            hits.counter.packets = hits.counter.packets.wrapping_add(1);
            hits.counter.bytes = hits.counter.bytes.wrapping_add(packet.ingress_length);
            hits.last_us = packet.now_us;
            if let Some((target, mask, unit)) = spec.direct_meter {
                let colour = match &mut hits.meter {
                    Some(meter) => meter.execute(unit, packet.ingress_length, packet.now_us),
                    None => 0,
                };
                self.mem[target as usize] = colour & mask;
            }
        }
        let target = found.map_or(&of_table.default, |(_, entry)| &entry.target);
        let hit = found.is_some();
        let profile = spec.profile.map(|p| &*rules.profiles[p as usize]);
        let (mem, bytes, calls) = (&self.mem, &mut self.bytes, &mut self.state.calls);
        let resolved = Rules::resolve(
            target,
            profile,
            |action| spec.next_of(action, hit),
            spec.miss_next,
            || match spec.selector {
                Some(calc) => {
                    let calculation = &program.calculations[calc as usize];
                    calculation.gather(program, mem, frame.get(packet.parsed..).unwrap_or(&[]), bytes);
                    calculation.algorithm.hash(bytes, &mut calls[calc as usize])
                }
                None => 0,
            },
        );
        match resolved {
            Resolved::Call { code, next, args } => {
                let params = program.layout.params as usize;
                self.mem[params..params + args.len()].copy_from_slice(args);
                (code, next)
            }
            Resolved::Nothing { next } => (END, next),
        }
    }

    #[inline]
    pub(super) fn select(
        &mut self,
        program: &Program,
        packet: &PacketState,
        frame: &[u8],
        select: u32,
    ) -> Result<Pc, ParserError> {
        let select = &program.code.selects[select as usize];
        if let Some(cases) = &select.narrow {
            let key = self.narrow_key(packet, frame, &select.parts);
            let key = key.ok_or(ParserError(program.errors.packet_too_short))?;
            let found = cases.iter().find(|(mask, value, _)| key & mask == *value);
            return Ok(found.map_or(select.default, |(_, _, to)| *to));
        }
        if !self.pack(program, packet, frame, &select.parts, select.limbs) {
            return Err(ParserError(program.errors.packet_too_short));
        }
        for case in &select.cases {
            match case {
                SelectCase::Value { value, mask, to } => {
                    if self.key.iter().zip(mask).zip(value).all(|((k, m), v)| k & m == *v) {
                        return Ok(*to);
                    }
                }
                SelectCase::ValueSet { set, mask, to } => {
                    let packed = |member: &Vec<u8>| {
                        let mut key = vec![0u64; select.limbs];
                        let total: u32 = select.field_bits.iter().sum();
                        let mut at = member.len() * 8 - (total as usize).min(member.len() * 8);
                        for (part, bits) in select.parts.iter().zip(&select.field_bits) {
                            let mut limbs = vec![0u64; usize::from(part.limbs)];
                            wire::read_value(member, at, *bits, &mut limbs);
                            for (i, limb) in limbs.iter().enumerate() {
                                key[usize::from(part.limb) + i] |= limb << part.shift;
                            }
                            at += *bits as usize;
                        }
                        key
                    };
                    let found = self.rules.value_sets[*set as usize].iter().any(|member| {
                        packed(member).iter().zip(&self.key).zip(mask).all(|((v, k), m)| k & m == v & m)
                    });
                    if found {
                        return Ok(*to);
                    }
                }
            }
        }
        Ok(select.default)
    }
}
