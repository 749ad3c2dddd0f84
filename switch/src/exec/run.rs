//! The interpreter.

use std::sync::Arc;

use super::limbs::Limbs;
use super::rules::Rules;
use super::state::State;
use super::{PacketState, RuntimeFaults, wide, wire, word};
use crate::program::op::{END, Loc, Op, Pc};
use crate::program::{Program, StdField};

/// Memory and state of one switch.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The packet's memory; see `program::layout`.
    pub(crate) mem: Limbs,
    pub(crate) rules: Arc<Rules>,
    pub(crate) state: State,
    pub(crate) faults: RuntimeFaults,
    drop_port: u64,
    vectors: Vectors,
    /// Packed key of the table or select at hand.
    pub(super) key: Vec<u64>,
    pub(super) masked: Vec<u64>,
    pub(super) bytes: Vec<u8>,
}

/// Vector instructions that the processor has.
#[derive(Debug, Clone, Copy)]
enum Vectors {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Vectors {
    fn found() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let bits = is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if bits && avx512 {
                return Self::Avx512;
            }
            if bits && is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Portable
    }
}

/// Jumps back that one run of a pipeline or parser may make. A right program makes a few per header.
const MAX_LOOPS: u32 = 1 << 20;

/// A parser error: ends the parser.
pub(super) struct ParserError(pub(super) u64);

#[inline(always)]
fn shl(value: u64, count: u64) -> u64 {
    if count < 64 { value << count } else { 0 }
}

#[inline(always)]
fn shr(value: u64, count: u64) -> u64 {
    if count < 64 { value >> count } else { 0 }
}

impl Machine {
    pub(crate) fn new(program: &Program, rules: Arc<Rules>, state: State, drop_port: u16) -> Self {
        let (before, consts) = (program.layout.consts as usize, &program.code.consts);
        let mut mem = Limbs::zeros(before + consts.len());
        mem[before..].copy_from_slice(consts);
        Self {
            mem,
            rules,
            state,
            faults: RuntimeFaults::default(),
            drop_port: drop_port.into(),
            vectors: Vectors::found(),
            key: Vec::new(),
            masked: Vec::new(),
            bytes: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, at: Loc) -> u64 {
        self.mem[at as usize]
    }

    #[inline(always)]
    pub(super) fn set(&mut self, at: Loc, value: u64) {
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

    /// Appends the bytes of all valid headers, in the order of the program's deparser.
    pub(crate) fn emit(&self, program: &Program, out: &mut Vec<u8>) {
        match self.vectors {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Vectors::found` saw that the processor has these instructions.
            Vectors::Avx512 => unsafe { self.emit_avx512(program, out) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Vectors::Avx2 => unsafe { self.emit_avx2(program, out) },
            Vectors::Portable => self.emit_headers(program, out),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,lzcnt")]
    fn emit_avx512(&self, program: &Program, out: &mut Vec<u8>) {
        self.emit_headers(program, out);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    fn emit_avx2(&self, program: &Program, out: &mut Vec<u8>) {
        self.emit_headers(program, out);
    }

    #[inline(always)]
    fn emit_headers(&self, program: &Program, out: &mut Vec<u8>) {
        for header in &program.deparser {
            let header = &program.layout.headers[*header as usize];
            if self.mem[header.valid as usize] != 0 {
                wire::emit(header, &self.mem, out);
            }
        }
    }

    /// Runs code until its end.
    pub(crate) fn run(&mut self, program: &Program, packet: &mut PacketState, frame: &[u8], start: Pc) {
        match self.vectors {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Vectors::found` saw that the processor has these instructions.
            Vectors::Avx512 => unsafe { self.run_avx512(program, packet, frame, start) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Vectors::Avx2 => unsafe { self.run_avx2(program, packet, frame, start) },
            Vectors::Portable => self.interpret::<false>(program, packet, frame, start),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,lzcnt")]
    fn run_avx512(&mut self, program: &Program, packet: &mut PacketState, frame: &[u8], start: Pc) {
        self.interpret::<true>(program, packet, frame, start);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    fn run_avx2(&mut self, program: &Program, packet: &mut PacketState, frame: &[u8], start: Pc) {
        self.interpret::<false>(program, packet, frame, start);
    }

    /// The interpreter's loop, compiled once for each set of vector instructions.
    #[inline(always)]
    fn interpret<const AVX512: bool>(
        &mut self,
        program: &Program,
        packet: &mut PacketState,
        frame: &[u8],
        start: Pc,
    ) {
        let mut pc = start as usize;
        let mut back: Pc = END;
        let mut fuel = MAX_LOOPS;
        let ops = program.code.ops.as_slice();
        // A jump back may be part of an endless loop.
        macro_rules! go {
            ($to:expr) => {{
                let to = $to as usize;
                if to < pc {
                    if fuel == 0 {
                        self.faults.loops_cut += 1;
                        self.mark_to_drop(program);
                        return;
                    }
                    fuel -= 1;
                }
                pc = to;
            }};
        }
        loop {
            let op = &ops[pc];
            pc += 1;
            match *op {
                Op::End => return,
                Op::Jump { to } => go!(to),
                Op::JumpZero { a, to } => {
                    if self.get(a) == 0 {
                        go!(to);
                    }
                }
                Op::JumpNonZero { a, to } => {
                    if self.get(a) != 0 {
                        go!(to);
                    }
                }
                Op::JumpCmp { a, b, cmp, to } => {
                    if cmp.holds(self.get(a).cmp(&self.get(b))) {
                        go!(to);
                    }
                }
                Op::JumpCmpSigned { a, b, cmp, to } => {
                    if cmp.holds((self.get(a) as i64).cmp(&(self.get(b) as i64))) {
                        go!(to);
                    }
                }
                Op::JumpCmpWide { a, b, n, cmp, signed, to } => {
                    if cmp.holds(wide::compare(self.slice(a, n), self.slice(b, n), signed)) {
                        go!(to);
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
                Op::MovWide { d, a, n } => match usize::from(n) {
                    word::LIMBS => self.set_word(d, &self.word(a)),
                    n => self.mem.copy_within(a as usize..a as usize + n, d as usize),
                },
                Op::AddWide { d, a, b, n } => {
                    if usize::from(n) == word::LIMBS
                        && let Some(sum) = word::add(&self.word(a), &self.word(b))
                    {
                        self.set_word(d, &sum);
                    } else {
                        wide::add(&mut self.mem, d as usize, a as usize, b as usize, n.into());
                    }
                }
                Op::SubWide { d, a, b, n } => {
                    if usize::from(n) == word::LIMBS
                        && let Some(difference) = word::sub(&self.word(a), &self.word(b))
                    {
                        self.set_word(d, &difference);
                    } else {
                        wide::sub(&mut self.mem, d as usize, a as usize, b as usize, n.into());
                    }
                }
                Op::MulWide { d, a, b, n } => {
                    wide::mul(&mut self.mem, d as usize, a as usize, b as usize, n.into());
                }
                Op::DivWide { d, a, b, n } => self.divide_wide(d, a, b, n, true),
                Op::ModWide { d, a, b, n } => self.divide_wide(d, a, b, n, false),
                Op::AndWide { d, a, b, n } => {
                    self.zip(d, a, b, n, |x, y| x & y);
                }
                Op::OrWide { d, a, b, n } => {
                    self.zip(d, a, b, n, |x, y| x | y);
                }
                Op::XorWide { d, a, b, n } => {
                    self.zip(d, a, b, n, |x, y| x ^ y);
                }
                Op::NotWide { d, a, n } => {
                    self.zip(d, a, a, n, |x, _| !x);
                }
                Op::ShlWide { d, a, b, n } => self.shift_left::<AVX512>(d, a, self.get(b), n),
                Op::ShrWide { d, a, b, n, na, signed } => {
                    self.shift_right::<AVX512>(d, a, self.get(b), n, na, signed)
                }
                Op::ShlWideBy { d, a, count, n } => self.shift_left::<AVX512>(d, a, count.into(), n),
                Op::ShrWideBy { d, a, count, n, na, signed } => {
                    self.shift_right::<AVX512>(d, a, count.into(), n, na, signed);
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
                Op::RegisterAdd { a, register, index } => self.register_add(a, register, index),
                Op::Apply { table } => match self.apply(program, packet, frame, table) {
                    (END, next) => go!(next),
                    (code, next) => {
                        back = next;
                        // The way back may lead forward only: a loop through an action is noticed here.
                        go!(code);
                    }
                },
                Op::Return => go!(back),
                Op::Exit => packet.exit = true,
                Op::CheckExit => {
                    if packet.exit {
                        return;
                    }
                }
                Op::Select { select } => match self.select(program, packet, frame, select) {
                    Ok(to) => go!(to),
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
                Op::Extract { header } => {
                    if let Err(ParserError(code)) = self.extract(program, packet, frame, header, None) {
                        packet.error = Some(code);
                        return;
                    }
                }
                Op::ExtractNext { .. }
                | Op::ExtractUnionNext { .. }
                | Op::ExtractVariable { .. }
                | Op::ExtractNextVariable { .. }
                | Op::Lookahead { .. }
                | Op::Advance { .. }
                | Op::ParserError { .. } => {
                    if let Err(ParserError(code)) = self.parse(program, packet, frame, *op) {
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
    pub(super) fn slice(&self, at: Loc, n: u16) -> &[u64] {
        &self.mem[at as usize..at as usize + usize::from(n)]
    }

    #[inline(always)]
    pub(super) fn slice_mut(&mut self, at: Loc, n: u16) -> &mut [u64] {
        &mut self.mem[at as usize..at as usize + usize::from(n)]
    }

    #[inline(always)]
    fn word(&self, at: Loc) -> word::Word {
        word::load(&self.mem, at as usize)
    }

    #[inline(always)]
    fn set_word(&mut self, at: Loc, value: &word::Word) {
        word::store(&mut self.mem, at as usize, value);
    }

    #[inline(always)]
    fn zip(&mut self, d: Loc, a: Loc, b: Loc, n: u16, f: impl Fn(u64, u64) -> u64) {
        match usize::from(n) {
            word::LIMBS => self.set_word(d, &word::zip(&self.word(a), &self.word(b), f)),
            n => wide::zip(&mut self.mem, d as usize, a as usize, b as usize, n, f),
        }
    }

    #[inline(always)]
    fn shift_left<const AVX512: bool>(&mut self, d: Loc, a: Loc, count: u64, n: u16) {
        let (to, from, n) = (d as usize, a as usize, usize::from(n));
        if n == word::LIMBS && count < 64 {
            #[cfg(target_arch = "x86_64")]
            if AVX512 {
                // SAFETY: this is compiled into `run_avx512` alone.
                let value = unsafe { word::shift_left_avx512(&self.word(a), count) };
                return self.set_word(d, &value);
            }
            return self.set_word(d, &word::shift_left(&self.word(a), count));
        }
        wide::shift_left(&mut self.mem, to, from, count, n);
    }

    #[inline(always)]
    fn shift_right<const AVX512: bool>(&mut self, d: Loc, a: Loc, count: u64, n: u16, na: u16, signed: bool) {
        let (to, from, n, na) = (d as usize, a as usize, usize::from(n), usize::from(na));
        if n == word::LIMBS && na == n && !signed && count < 64 {
            #[cfg(target_arch = "x86_64")]
            if AVX512 {
                // SAFETY: this is compiled into `run_avx512` alone.
                let value = unsafe { word::shift_right_avx512(&self.word(a), count) };
                return self.set_word(d, &value);
            }
            return self.set_word(d, &word::shift_right(&self.word(a), count));
        }
        wide::shift_right(&mut self.mem, to, from, count, n, na, signed);
    }

    pub(super) fn divided(&mut self, fine: bool) {
        self.faults.division_by_zero += u64::from(!fine);
    }

    pub(super) fn divide_wide(&mut self, d: Loc, a: Loc, b: Loc, n: u16, quotient: bool) {
        let result = wide::div_mod(self.slice(a, n), self.slice(b, n), quotient);
        self.divided(result.is_some());
        match result {
            Some(value) => self.slice_mut(d, n).copy_from_slice(&value),
            None => self.slice_mut(d, n).fill(0),
        }
    }

    #[inline(always)]
    pub(super) fn register_read(&mut self, d: Loc, n: usize, register: u32, index: Loc) {
        let index = self.get(index);
        let Some(cell) = self.state.registers[register as usize].cell(index) else {
            self.faults.index_out_of_range += 1;
            return;
        };
        let to = &mut self.mem[d as usize..d as usize + n];
        match (cell, to) {
            ([from], [to]) => *to = *from,
            (from, to) if n == word::LIMBS && from.len() == n => word::store(to, 0, &word::load(from, 0)),
            (from, to) => {
                let both = n.min(from.len());
                to[..both].copy_from_slice(&from[..both]);
                to[both..].fill(0);
            }
        }
    }

    #[inline(always)]
    pub(super) fn register_write(&mut self, a: Loc, register: u32, index: Loc) {
        let index = self.get(index);
        let Some(cell) = self.state.registers[register as usize].cell_mut(index, self.state.now_us) else {
            self.faults.index_out_of_range += 1;
            return;
        };
        let from = &self.mem[a as usize..a as usize + cell.len()];
        match (cell, from) {
            ([to], [from]) => *to = *from,
            (to, from) if to.len() == word::LIMBS => word::store(to, 0, &word::load(from, 0)),
            (to, from) => to.copy_from_slice(from),
        }
    }

    #[inline(always)]
    pub(super) fn register_add(&mut self, a: Loc, register: u32, index: Loc) {
        let index = self.get(index);
        let Some(cell) = self.state.registers[register as usize].cell_mut(index, self.state.now_us) else {
            self.faults.index_out_of_range += 1;
            return;
        };
        let addend = &self.mem[a as usize..a as usize + cell.len()];
        if cell.len() == word::LIMBS
            && let Some(sum) = word::add(&word::load(cell, 0), &word::load(addend, 0))
        {
            word::store(cell, 0, &sum);
        } else {
            wide::add_to(cell, addend);
        }
    }

    pub(super) fn mark_to_drop(&mut self, program: &Program) {
        self.set_std(program, StdField::EgressSpec, self.drop_port);
        self.set_std(program, StdField::McastGrp, 0);
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
