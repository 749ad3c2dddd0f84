//! The interpreter.

use super::state::{Resolved, State};
use super::{PacketState, RuntimeFaults, wide, wire};
use crate::program::op::{END, HeaderPick, KeyPart, KeySource, Loc, Op, Pc, SelectCase};
use crate::program::{Program, StdField};

/// Memory and state of one switch.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The packet's memory; see `program::layout`.
    pub(crate) mem: Vec<u64>,
    pub(crate) state: State,
    pub(crate) faults: RuntimeFaults,
    drop_port: u64,
    /// Packed key of the table or select at hand.
    key: Vec<u64>,
    masked: Vec<u64>,
    bytes: Vec<u8>,
}

/// A parser error: ends the parser.
struct ParserError(u64);

#[inline(always)]
fn shl(value: u64, count: u64) -> u64 {
    if count < 64 { value << count } else { 0 }
}

#[inline(always)]
fn shr(value: u64, count: u64) -> u64 {
    if count < 64 { value >> count } else { 0 }
}

impl Machine {
    pub(crate) fn new(program: &Program, state: State, drop_port: u16) -> Self {
        let mut mem = vec![0; program.layout.consts as usize];
        mem.extend(&program.code.consts);
        Self {
            mem,
            state,
            faults: RuntimeFaults::default(),
            drop_port: drop_port.into(),
            key: Vec::new(),
            masked: Vec::new(),
            bytes: Vec::new(),
        }
    }

    #[inline(always)]
    fn get(&self, at: Loc) -> u64 {
        self.mem[at as usize]
    }

    #[inline(always)]
    fn set(&mut self, at: Loc, value: u64) {
        self.mem[at as usize] = value;
    }

    /// Sets metadata of the switch, cut to its width; nothing if the program has no such field.
    #[inline]
    pub(crate) fn set_std(&mut self, program: &Program, field: StdField, value: u64) {
        if let Some((at, mask)) = program.std[field] {
            self.mem[at as usize] = value & mask;
        }
    }

    /// Metadata of the switch; 0 if the program has no such field.
    #[inline]
    pub(crate) fn std(&self, program: &Program, field: StdField) -> u64 {
        program.std[field].map_or(0, |(at, _)| self.mem[at as usize])
    }

    /// Runs code until its end.
    pub(crate) fn run(&mut self, program: &Program, packet: &mut PacketState, frame: &[u8], start: Pc) {
        let mut pc = start as usize;
        let mut back: Pc = END;
        let ops = program.code.ops.as_slice();
        loop {
            let op = ops[pc];
            pc += 1;
            match op {
                Op::End => return,
                Op::Jump { to } => pc = to as usize,
                Op::JumpZero { a, to } => {
                    if self.get(a) == 0 {
                        pc = to as usize;
                    }
                }
                Op::JumpNonZero { a, to } => {
                    if self.get(a) != 0 {
                        pc = to as usize;
                    }
                }
                Op::JumpCmp { a, b, cmp, to } => {
                    if cmp.holds(self.get(a).cmp(&self.get(b))) {
                        pc = to as usize;
                    }
                }
                Op::JumpCmpSigned { a, b, cmp, to } => {
                    if cmp.holds((self.get(a) as i64).cmp(&(self.get(b) as i64))) {
                        pc = to as usize;
                    }
                }
                Op::JumpCmpWide { a, b, n, cmp, signed, to } => {
                    if cmp.holds(wide::compare(self.slice(a, n), self.slice(b, n), signed)) {
                        pc = to as usize;
                    }
                }
                Op::Mov { d, a, mask } => self.set(d, self.get(a) & mask),
                Op::Add { d, a, b, mask } => self.set(d, self.get(a).wrapping_add(self.get(b)) & mask),
                Op::Sub { d, a, b, mask } => self.set(d, self.get(a).wrapping_sub(self.get(b)) & mask),
                Op::Mul { d, a, b, mask } => self.set(d, self.get(a).wrapping_mul(self.get(b)) & mask),
                Op::And { d, a, b } => self.set(d, self.get(a) & self.get(b)),
                Op::Or { d, a, b, mask } => self.set(d, (self.get(a) | self.get(b)) & mask),
                Op::Xor { d, a, b, mask } => self.set(d, (self.get(a) ^ self.get(b)) & mask),
                Op::Not { d, a, mask } => self.set(d, !self.get(a) & mask),
                Op::Shl { d, a, b, mask } => self.set(d, shl(self.get(a), self.get(b)) & mask),
                Op::Shr { d, a, b, mask } => self.set(d, shr(self.get(a), self.get(b)) & mask),
                Op::Sar { d, a, b, mask } => {
                    let count = self.get(b).min(63);
                    self.set(d, ((self.get(a) as i64) >> count) as u64 & mask);
                }
                Op::ShlBy { d, a, count, mask } => self.set(d, shl(self.get(a), count.into()) & mask),
                Op::ShrBy { d, a, count, mask } => self.set(d, shr(self.get(a), count.into()) & mask),
                Op::Div { d, a, b, mask } => {
                    let value = self.get(a).checked_div(self.get(b));
                    self.divided(value.is_some());
                    self.set(d, value.unwrap_or(0) & mask);
                }
                Op::Mod { d, a, b, mask } => {
                    let value = self.get(a).checked_rem(self.get(b));
                    self.divided(value.is_some());
                    self.set(d, value.unwrap_or(0) & mask);
                }
                Op::Sext { d, a, bits } => {
                    let shift = 64 - u32::from(bits);
                    self.set(d, (((self.get(a) << shift) as i64) >> shift) as u64);
                }
                Op::Compare { d, a, b, cmp } => {
                    let holds = cmp.holds(self.get(a).cmp(&self.get(b)));
                    self.set(d, u64::from(holds));
                }
                Op::CompareSigned { d, a, b, cmp } => {
                    let holds = cmp.holds((self.get(a) as i64).cmp(&(self.get(b) as i64)));
                    self.set(d, u64::from(holds));
                }
                Op::Extend { d, a, n, na, signed } => {
                    wide::extend(&mut self.mem, d as usize, a as usize, n.into(), na.into(), signed);
                }
                Op::MovWide { d, a, n } => {
                    self.mem.copy_within(a as usize..a as usize + usize::from(n), d as usize);
                }
                Op::AddWide { d, a, b, n } => {
                    wide::add(&mut self.mem, d as usize, a as usize, b as usize, n.into());
                }
                Op::SubWide { d, a, b, n } => {
                    wide::sub(&mut self.mem, d as usize, a as usize, b as usize, n.into());
                }
                Op::MulWide { d, a, b, n } => {
                    wide::mul(&mut self.mem, d as usize, a as usize, b as usize, n.into());
                }
                Op::DivWide { d, a, b, n } => self.divide_wide(d, a, b, n, true),
                Op::ModWide { d, a, b, n } => self.divide_wide(d, a, b, n, false),
                Op::AndWide { d, a, b, n } => {
                    wide::zip(&mut self.mem, d as usize, a as usize, b as usize, n.into(), |x, y| x & y);
                }
                Op::OrWide { d, a, b, n } => {
                    wide::zip(&mut self.mem, d as usize, a as usize, b as usize, n.into(), |x, y| x | y);
                }
                Op::XorWide { d, a, b, n } => {
                    wide::zip(&mut self.mem, d as usize, a as usize, b as usize, n.into(), |x, y| x ^ y);
                }
                Op::NotWide { d, a, n } => {
                    wide::zip(&mut self.mem, d as usize, a as usize, a as usize, n.into(), |x, _| !x);
                }
                Op::ShlWide { d, a, b, n } => {
                    let count = self.get(b);
                    wide::shift_left(&mut self.mem, d as usize, a as usize, count, n.into());
                }
                Op::ShrWide { d, a, b, n, na, signed } => {
                    let count = self.get(b);
                    wide::shift_right(
                        &mut self.mem,
                        d as usize,
                        a as usize,
                        count,
                        n.into(),
                        na.into(),
                        signed,
                    );
                }
                Op::ShlWideBy { d, a, count, n } => {
                    wide::shift_left(&mut self.mem, d as usize, a as usize, count.into(), n.into());
                }
                Op::ShrWideBy { d, a, count, n, na, signed } => {
                    let mem = &mut self.mem;
                    wide::shift_right(mem, d as usize, a as usize, count.into(), n.into(), na.into(), signed);
                }
                Op::SextWide { d, n, bits } => wide::sign_extend(self.slice_mut(d, n), bits),
                Op::MaskWide { d, n, bits } => wide::mask(self.slice_mut(d, n), bits),
                Op::CompareWide { d, a, b, n, cmp, signed } => {
                    let holds = cmp.holds(wide::compare(self.slice(a, n), self.slice(b, n), signed));
                    self.set(d, u64::from(holds));
                }
                Op::Clamp { d, low, high, n } => {
                    let bound = if wide::compare(self.slice(d, n), self.slice(low, n), true).is_lt() {
                        low
                    } else if wide::compare(self.slice(d, n), self.slice(high, n), true).is_gt() {
                        high
                    } else {
                        continue;
                    };
                    self.mem.copy_within(bound as usize..bound as usize + usize::from(n), d as usize);
                }
                Op::RegisterRead { d, n, register, index } => {
                    self.register_read(d, n.into(), register, index)
                }
                Op::RegisterWrite { a, register, index } => self.register_write(a, register, index),
                Op::Apply { table } => match self.apply(program, packet, frame, table) {
                    (END, next) => pc = next as usize,
                    (code, next) => {
                        back = next;
                        pc = code as usize;
                    }
                },
                Op::Return => pc = back as usize,
                Op::Exit => packet.exit = true,
                Op::CheckExit => {
                    if packet.exit {
                        return;
                    }
                }
                Op::Select { select } => match self.select(program, packet, frame, select) {
                    Ok(to) => pc = to as usize,
                    Err(ParserError(code)) => {
                        packet.error = Some(code);
                        return;
                    }
                },
                Op::AddHeader { header } => self.add_header(program, packet, header),
                Op::RemoveHeader { header } => self.remove_header(program, packet, header),
                Op::Count { counter, index } => {
                    let index = self.get(index) as usize;
                    match self.state.counters[counter as usize].get_mut(index) {
                        Some(c) => {
                            c.packets = c.packets.wrapping_add(1);
                            c.bytes = c.bytes.wrapping_add(packet.ingress_length);
                        }
                        None => self.faults.index_out_of_range += 1,
                    }
                }
                Op::Drop => self.mark_to_drop(program),
                Op::Extract { .. }
                | Op::ExtractNext { .. }
                | Op::ExtractUnionNext { .. }
                | Op::ExtractVariable { .. }
                | Op::ExtractNextVariable { .. }
                | Op::Lookahead { .. }
                | Op::Advance { .. }
                | Op::ParserError { .. } => {
                    if let Err(ParserError(code)) = self.parse(program, packet, frame, op) {
                        packet.error = Some(code);
                        return;
                    }
                }
                other => {
                    if self.rare(program, packet, frame, other) {
                        return;
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn slice(&self, at: Loc, n: u16) -> &[u64] {
        &self.mem[at as usize..at as usize + usize::from(n)]
    }

    #[inline(always)]
    fn slice_mut(&mut self, at: Loc, n: u16) -> &mut [u64] {
        &mut self.mem[at as usize..at as usize + usize::from(n)]
    }

    fn divided(&mut self, fine: bool) {
        self.faults.division_by_zero += u64::from(!fine);
    }

    fn divide_wide(&mut self, d: Loc, a: Loc, b: Loc, n: u16, quotient: bool) {
        let result = wide::div_mod(self.slice(a, n), self.slice(b, n), quotient);
        self.divided(result.is_some());
        match result {
            Some(value) => self.slice_mut(d, n).copy_from_slice(&value),
            None => self.slice_mut(d, n).fill(0),
        }
    }

    #[inline]
    fn register_read(&mut self, d: Loc, n: usize, register: u32, index: Loc) {
        let index = self.get(index) as usize;
        let register = &self.state.registers[register as usize];
        let limbs = register.limbs;
        if index >= register.size {
            self.faults.index_out_of_range += 1;
            return;
        }
        let cell = &register.cells[index * limbs..(index + 1) * limbs];
        let to = &mut self.mem[d as usize..d as usize + n];
        if n == limbs {
            to.copy_from_slice(cell);
        } else {
            let both = n.min(limbs);
            to[..both].copy_from_slice(&cell[..both]);
            to[both..].fill(0);
        }
    }

    #[inline]
    fn register_write(&mut self, a: Loc, register: u32, index: Loc) {
        let index = self.get(index) as usize;
        let register = &mut self.state.registers[register as usize];
        let limbs = register.limbs;
        if index >= register.size {
            self.faults.index_out_of_range += 1;
            return;
        }
        let from = &self.mem[a as usize..a as usize + limbs];
        register.cells[index * limbs..(index + 1) * limbs].copy_from_slice(from);
    }

    fn mark_to_drop(&mut self, program: &Program) {
        self.set_std(program, StdField::EgressSpec, self.drop_port);
        self.set_std(program, StdField::McastGrp, 0);
    }

    /// Packs a key. `false`: a lookahead went beyond the packet.
    #[inline]
    fn pack(
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

    /// Looks a table up. Returns the code of the action (`END`: none) and where to go on after it.
    #[inline]
    fn apply(&mut self, program: &Program, packet: &PacketState, frame: &[u8], table: u32) -> (Pc, Pc) {
        let spec = &program.tables[table as usize];
        self.pack(program, packet, frame, &spec.parts, spec.key_limbs);
        for (limb, mask) in self.key.iter_mut().zip(&spec.static_mask) {
            *limb &= mask;
        }
        let table = &mut self.state.tables[table as usize];
        let handle = table.lookup(&self.key, &mut self.masked);
        if let Some(entry) = handle.and_then(|h| table.entry_mut(h)) {
            if spec.has_counter {
                entry.counter.packets = entry.counter.packets.wrapping_add(1);
                entry.counter.bytes = entry.counter.bytes.wrapping_add(packet.ingress_length);
            }
            if spec.supports_timeout {
                entry.last_hit_us = packet.now_us;
                entry.reported = false;
            }
            if let Some((target, mask, unit)) = spec.direct_meter {
                let colour = match &mut entry.meter {
                    Some(meter) => meter.execute(unit, packet.ingress_length, packet.now_us),
                    None => 0,
                };
                self.mem[target as usize] = colour & mask;
            }
        }
        let target = match handle.and_then(|h| table.entry(h)) {
            Some(entry) => &entry.target,
            None => &table.default,
        };
        let hit = handle.is_some();
        let profile = spec.profile.map(|p| &self.state.profiles[p as usize]);
        let (mem, bytes, calls) = (&self.mem, &mut self.bytes, &mut self.state.calls);
        let resolved = State::resolve(
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
    fn select(
        &mut self,
        program: &Program,
        packet: &PacketState,
        frame: &[u8],
        select: u32,
    ) -> Result<Pc, ParserError> {
        let select = &program.code.selects[select as usize];
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
                    let found = self.state.value_sets[*set as usize].iter().any(|member| {
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

    fn parse(
        &mut self,
        program: &Program,
        packet: &mut PacketState,
        frame: &[u8],
        op: Op,
    ) -> Result<(), ParserError> {
        let errors = &program.errors;
        match op {
            Op::Extract { header } => self.extract(program, packet, frame, header, None),
            Op::ExtractNext { stack } => {
                let stack = &program.layout.stacks[stack as usize];
                let at = self.get(stack.next) as usize;
                let Some(header) = stack.headers.get(at) else {
                    return Err(ParserError(errors.stack_out_of_bounds));
                };
                self.extract(program, packet, frame, *header, None)?;
                self.set(stack.next, at as u64 + 1);
                Ok(())
            }
            Op::ExtractUnionNext { stack, member } => {
                let stack = &program.layout.union_stacks[stack as usize];
                let at = self.get(stack.next) as usize;
                let Some(element) = stack.elements.get(at) else {
                    return Err(ParserError(errors.stack_out_of_bounds));
                };
                self.extract(program, packet, frame, element[member as usize], None)?;
                self.set(stack.next, at as u64 + 1);
                Ok(())
            }
            Op::ExtractVariable { header, bits } => {
                let bits = self.get(bits);
                self.extract(program, packet, frame, header, Some(bits))
            }
            Op::ExtractNextVariable { stack, bits } => {
                let stack = &program.layout.stacks[stack as usize];
                let at = self.get(stack.next) as usize;
                let Some(header) = stack.headers.get(at) else {
                    return Err(ParserError(errors.stack_out_of_bounds));
                };
                let bits = self.get(bits);
                self.extract(program, packet, frame, *header, Some(bits))?;
                self.set(stack.next, at as u64 + 1);
                Ok(())
            }
            Op::Lookahead { d, n, offset, bits } => {
                let at = packet.parsed * 8 + offset as usize;
                if at + bits as usize > frame.len() * 8 {
                    return Err(ParserError(errors.packet_too_short));
                }
                wire::read_value(frame, at, bits, self.slice_mut(d, n));
                Ok(())
            }
            Op::Advance { bits } => {
                let bits = self.get(bits);
                if !bits.is_multiple_of(8) {
                    return Err(ParserError(errors.invalid_argument));
                }
                if ((frame.len() - packet.parsed) as u64) < bits / 8 {
                    return Err(ParserError(errors.packet_too_short));
                }
                packet.parsed += (bits / 8) as usize;
                Ok(())
            }
            Op::ParserError { error } => Err(ParserError(self.get(error))),
            _ => Ok(()),
        }
    }

    #[inline]
    fn extract(
        &mut self,
        program: &Program,
        packet: &mut PacketState,
        frame: &[u8],
        header: u32,
        variable_bits: Option<u64>,
    ) -> Result<(), ParserError> {
        let spec = &program.layout.headers[header as usize];
        let rest = frame.get(packet.parsed..).unwrap_or(&[]);
        let mut len = spec.bytes as usize;
        let mut bits = 0;
        if let (Some((field, len_at)), Some(given)) = (spec.variable, variable_bits) {
            if given % 8 != 0 {
                return Err(ParserError(program.errors.invalid_argument));
            }
            len += (given / 8) as usize;
            if rest.len() < len {
                return Err(ParserError(program.errors.packet_too_short));
            }
            if given > u64::from(spec.fields[field as usize].bits) {
                return Err(ParserError(program.errors.header_too_short));
            }
            bits = given as u32;
            self.set(len_at, given);
        }
        let Some(bytes) = rest.get(..len) else {
            return Err(ParserError(program.errors.packet_too_short));
        };
        wire::extract(spec, bytes, bits, &mut self.mem);
        packet.parsed += len;
        self.mark_valid(program, header);
        Ok(())
    }

    #[inline]
    fn mark_valid(&mut self, program: &Program, header: u32) {
        let spec = &program.layout.headers[header as usize];
        self.set(spec.valid, 1);
        for peer in &spec.union_peers {
            self.set(program.layout.headers[*peer as usize].valid, 0);
        }
    }

    fn add_header(&mut self, program: &Program, packet: &mut PacketState, header: u32) {
        let spec = &program.layout.headers[header as usize];
        if self.get(spec.valid) == 0 {
            self.mem[spec.base as usize..(spec.base + spec.limbs) as usize].fill(0);
            if let Some((_, len)) = spec.variable {
                self.set(len, 0);
            }
            self.mark_valid(program, header);
            packet.length = packet.length.wrapping_add(spec.bytes.into());
        }
    }

    fn remove_header(&mut self, program: &Program, packet: &mut PacketState, header: u32) {
        let spec = &program.layout.headers[header as usize];
        if self.get(spec.valid) != 0 {
            let len = wire::header_len(spec, &self.mem);
            packet.length = packet.length.wrapping_sub(len as u64);
            self.set(spec.valid, 0);
        }
    }

    fn picked(&mut self, program: &Program, pick: HeaderPick) -> Option<u32> {
        if pick.index == Loc::MAX {
            return Some(pick.id);
        }
        let index = self.get(pick.index);
        let group = &program.code.groups[pick.id as usize];
        let found = usize::try_from(index).ok().and_then(|i| group.get(i)).copied();
        self.faults.stack_out_of_range += u64::from(found.is_none());
        found
    }

    fn assign_header(&mut self, program: &Program, to: u32, from: u32) {
        let (to_spec, from_spec) =
            (&program.layout.headers[to as usize], &program.layout.headers[from as usize]);
        if self.get(from_spec.valid) == 0 && !from_spec.metadata {
            self.set(to_spec.valid, 0);
            return;
        }
        self.mark_valid(program, to);
        let from = from_spec.base as usize;
        self.mem.copy_within(from..from + from_spec.limbs as usize, to_spec.base as usize);
        if let (Some((_, a)), Some((_, b))) = (to_spec.variable, from_spec.variable) {
            self.set(a, self.get(b));
        }
    }

    /// Moves a header with its validity, valid or not.
    fn move_header(&mut self, program: &Program, to: u32, from: u32) {
        let (to, from) = (&program.layout.headers[to as usize], &program.layout.headers[from as usize]);
        self.set(to.valid, self.get(from.valid));
        let start = from.base as usize;
        self.mem.copy_within(start..start + from.limbs as usize, to.base as usize);
        if let (Some((_, a)), Some((_, b))) = (to.variable, from.variable) {
            self.set(a, self.get(b));
        }
    }

    fn equal(&self, program: &Program, a: u32, b: u32) -> bool {
        let (a, b) = (&program.layout.headers[a as usize], &program.layout.headers[b as usize]);
        let valid = |h: &crate::program::layout::HeaderLoc| h.metadata || self.get(h.valid) != 0;
        valid(a)
            && valid(b)
            && self.mem[a.base as usize..(a.base + a.limbs) as usize]
                == self.mem[b.base as usize..(b.base + b.limbs) as usize]
            && wire::header_len(a, &self.mem) == wire::header_len(b, &self.mem)
    }

    /// Operations that few packets need. True: the pipeline ends here.
    #[cold]
    #[inline(never)]
    fn rare(&mut self, program: &Program, packet: &mut PacketState, frame: &[u8], op: Op) -> bool {
        match op {
            Op::LoadIndexed { d, access, index } => {
                let index = self.get(index);
                self.load(program, d, access, index);
            }
            Op::LoadLast { d, access, next } => {
                let index = self.get(next).wrapping_sub(1);
                self.load(program, d, access, index);
            }
            Op::StoreIndexed { a, access, index } => {
                let index = self.get(index);
                self.store(program, a, access, index);
            }
            Op::StoreLast { a, access, next } => {
                let index = self.get(next).wrapping_sub(1);
                self.store(program, a, access, index);
            }
            Op::Meter { d, meter, index } => {
                let index = self.get(index) as usize;
                let unit = program.meters[meter as usize].unit;
                match self.state.meters[meter as usize].get_mut(index) {
                    Some(slot) => {
                        let colour = slot
                            .as_mut()
                            .map_or(0, |m| m.execute(unit, packet.ingress_length, packet.now_us));
                        self.set(d, colour);
                    }
                    None => self.faults.index_out_of_range += 1,
                }
            }
            Op::AddHeaderIndexed { group, index } => {
                if let Some(h) = self.picked(program, HeaderPick { id: group, index }) {
                    self.add_header(program, packet, h);
                }
            }
            Op::RemoveHeaderIndexed { group, index } => {
                if let Some(h) = self.picked(program, HeaderPick { id: group, index }) {
                    self.remove_header(program, packet, h);
                }
            }
            Op::AssignHeader { to, from } => self.assign_header(program, to, from),
            Op::AssignHeaderIndexed { to, from } => {
                if let (Some(to), Some(from)) = (self.picked(program, to), self.picked(program, from)) {
                    self.assign_header(program, to, from);
                }
            }
            Op::AssignStack { to, from } => {
                let (to, from) = (&program.layout.stacks[to as usize], &program.layout.stacks[from as usize]);
                self.set(to.next, self.get(from.next));
                for (t, f) in to.headers.iter().zip(&from.headers) {
                    self.assign_header(program, *t, *f);
                }
            }
            Op::Push { stack, count } => {
                let count = self.get(count);
                self.push(program, stack, count);
            }
            Op::Pop { stack, count } => {
                let count = self.get(count);
                self.pop(program, stack, count);
            }
            Op::AssignVariable { to, from } => {
                let headers = &program.layout.headers;
                let (t, f) = (&headers[to.header as usize], &headers[from.header as usize]);
                let (tf, ff) = (&t.fields[to.field as usize], &f.fields[from.field as usize]);
                if let (Some((_, t_len)), Some((_, f_len))) = (t.variable, f.variable) {
                    let bits = self.get(f_len).min(tf.bits.into());
                    let n = usize::from(tf.limbs.min(ff.limbs));
                    self.mem.copy_within(ff.at as usize..ff.at as usize + n, tf.at as usize);
                    self.mem[tf.at as usize + n..tf.at as usize + usize::from(tf.limbs)].fill(0);
                    self.set(t_len, bits);
                }
            }
            Op::HeaderEqual { d, a, b } => {
                let equal = match (self.picked(program, a), self.picked(program, b)) {
                    (Some(a), Some(b)) => self.equal(program, a, b),
                    _ => false,
                };
                self.set(d, u64::from(equal));
            }
            Op::Hash { d, base, size, calculation } => {
                let calc = &program.calculations[calculation as usize];
                let payload = frame.get(packet.parsed..).unwrap_or(&[]);
                calc.gather(program, &self.mem, payload, &mut self.bytes);
                let hash = calc.algorithm.hash(&self.bytes, &mut self.state.calls[calculation as usize]);
                let (base, size) = (self.get(base), self.get(size).max(1));
                self.set(d, (hash % size).wrapping_add(base));
            }
            Op::Random { d, low, high } => {
                let (low, high) = (self.get(low), self.get(high));
                if low <= high {
                    let random = self.state.next_random();
                    let value = match (high - low).checked_add(1) {
                        Some(span) => low + ((u128::from(random) * u128::from(span)) >> 64) as u64,
                        None => random,
                    };
                    self.set(d, value);
                }
            }
            Op::Digest { list } => packet.digest = self.get(list) as u16,
            Op::Clone { session, fields } => {
                packet.clone = Some((self.get(session) as u16 & 0x7fff, self.get(fields) as u16));
            }
            Op::Resubmit { fields } => packet.resubmit = self.get(fields) as u16,
            Op::Recirculate { fields } => packet.recirculate = self.get(fields) as u16,
            Op::Truncate { length } => packet.truncate = packet.truncate.min(self.get(length)),
            Op::Assert { a, message } if self.get(a) == 0 => {
                // BMv2 would abort; here the packet is dropped.
                tracing::error!("{}", program.code.messages[message as usize].text);
                self.faults.asserts_failed += 1;
                self.mark_to_drop(program);
                packet.exit = true;
                return true;
            }
            Op::Log { message } => {
                let message = &program.code.messages[message as usize];
                let args = message.args.iter().map(|(at, n)| decimal(self.slice(*at, *n)));
                tracing::info!("{}", fill_in(&message.text, args));
            }
            _ => {}
        }
        false
    }

    fn load(&mut self, program: &Program, d: Loc, access: u32, index: u64) {
        let access = &program.code.accesses[access as usize];
        let n = usize::from(access.limbs);
        match usize::try_from(index).ok().and_then(|i| access.offsets.get(i)) {
            Some(at) => self.mem.copy_within(*at as usize..*at as usize + n, d as usize),
            None => {
                self.faults.stack_out_of_range += 1;
                self.mem[d as usize..d as usize + n].fill(0);
            }
        }
    }

    fn store(&mut self, program: &Program, a: Loc, access: u32, index: u64) {
        let access = &program.code.accesses[access as usize];
        let n = usize::from(access.limbs);
        match usize::try_from(index).ok().and_then(|i| access.offsets.get(i)) {
            Some(at) => self.mem.copy_within(a as usize..a as usize + n, *at as usize),
            None => self.faults.stack_out_of_range += 1,
        }
    }

    /// P4_16's `push_front`: new elements are invalid.
    fn push(&mut self, program: &Program, stack: u32, count: u64) {
        let stack = &program.layout.stacks[stack as usize];
        let size = stack.headers.len();
        let count = usize::try_from(count).unwrap_or(size).min(size);
        if count == 0 {
            return;
        }
        let next = (self.get(stack.next) as usize + count).min(size);
        self.set(stack.next, next as u64);
        for i in (count..size).rev() {
            self.move_header(program, stack.headers[i], stack.headers[i - count]);
        }
        for header in &stack.headers[..count] {
            self.set(program.layout.headers[*header as usize].valid, 0);
        }
    }

    fn pop(&mut self, program: &Program, stack: u32, count: u64) {
        let stack = &program.layout.stacks[stack as usize];
        let size = stack.headers.len();
        let count = usize::try_from(count).unwrap_or(size).min(size);
        if count == 0 {
            return;
        }
        let next = self.get(stack.next).saturating_sub(count as u64);
        self.set(stack.next, next);
        for i in 0..size - count {
            self.move_header(program, stack.headers[i], stack.headers[i + count]);
        }
        for header in &stack.headers[size - count..] {
            self.set(program.layout.headers[*header as usize].valid, 0);
        }
    }

    /// True if the code leaves something other than 0 in the limb.
    pub(crate) fn holds(
        &mut self,
        program: &Program,
        packet: &mut PacketState,
        frame: &[u8],
        condition: (Pc, Loc),
    ) -> bool {
        self.run(program, packet, frame, condition.0);
        self.get(condition.1) != 0
    }

    /// Result of a calculation over the packet as it is now.
    pub(crate) fn calculate(&mut self, program: &Program, calculation: u32, payload: &[u8]) -> u64 {
        let calc = &program.calculations[calculation as usize];
        calc.gather(program, &self.mem, payload, &mut self.bytes);
        calc.algorithm.hash(&self.bytes, &mut self.state.calls[calculation as usize])
    }
}

/// Decimal digits of a value.
fn decimal(limbs: &[u64]) -> String {
    let mut limbs = limbs.to_vec();
    let mut parts = Vec::new();
    while limbs.iter().any(|l| *l != 0) {
        let mut rest: u128 = 0;
        for limb in limbs.iter_mut().rev() {
            let value = (rest << 64) | u128::from(*limb);
            *limb = (value / 1_000_000_000) as u64;
            rest = value % 1_000_000_000;
        }
        parts.push(rest as u64);
    }
    match parts.split_last() {
        None => "0".to_owned(),
        Some((top, low)) => low.iter().rev().fold(top.to_string(), |text, part| format!("{text}{part:09}")),
    }
}

/// Replaces each `{}` by the next argument.
fn fill_in(text: &str, mut args: impl Iterator<Item = String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let Some(end) = rest[at..].find('}') else { break };
        out.push_str(&rest[..at]);
        match args.next() {
            Some(arg) => out.push_str(&arg),
            None => out.push_str(&rest[at..=at + end]),
        }
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out
}
