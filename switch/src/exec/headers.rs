//! Validity of headers, copies of them, stacks.

use super::run::Machine;
use super::{PacketState, wire};
use crate::program::Program;
use crate::program::op::{HeaderPick, Loc};

impl Machine {
    #[inline]
    pub(super) fn mark_valid(&mut self, program: &Program, header: u32) {
        let spec = &program.layout.headers[header as usize];
        self.set(spec.valid, 1);
        for peer in &spec.union_peers {
            self.set(program.layout.headers[*peer as usize].valid, 0);
        }
    }

    pub(super) fn add_header(&mut self, program: &Program, packet: &mut PacketState, header: u32) {
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

    pub(super) fn remove_header(&mut self, program: &Program, packet: &mut PacketState, header: u32) {
        let spec = &program.layout.headers[header as usize];
        if self.get(spec.valid) != 0 {
            let len = wire::header_len(spec, &self.mem);
            packet.length = packet.length.wrapping_sub(len as u64);
            self.set(spec.valid, 0);
        }
    }

    pub(super) fn picked(&mut self, program: &Program, pick: HeaderPick) -> Option<u32> {
        if pick.index == Loc::MAX {
            return Some(pick.id);
        }
        let index = self.get(pick.index);
        let group = &program.code.groups[pick.id as usize];
        let found = usize::try_from(index).ok().and_then(|i| group.get(i)).copied();
        self.faults.stack_out_of_range += u64::from(found.is_none());
        found
    }

    pub(super) fn assign_header(&mut self, program: &Program, to: u32, from: u32) {
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
    pub(super) fn move_header(&mut self, program: &Program, to: u32, from: u32) {
        let (to, from) = (&program.layout.headers[to as usize], &program.layout.headers[from as usize]);
        self.set(to.valid, self.get(from.valid));
        let start = from.base as usize;
        self.mem.copy_within(start..start + from.limbs as usize, to.base as usize);
        if let (Some((_, a)), Some((_, b))) = (to.variable, from.variable) {
            self.set(a, self.get(b));
        }
    }

    pub(super) fn equal(&self, program: &Program, a: u32, b: u32) -> bool {
        let (a, b) = (&program.layout.headers[a as usize], &program.layout.headers[b as usize]);
        let valid = |h: &crate::program::layout::HeaderLoc| h.metadata || self.get(h.valid) != 0;
        valid(a)
            && valid(b)
            && self.mem[a.base as usize..(a.base + a.limbs) as usize]
                == self.mem[b.base as usize..(b.base + b.limbs) as usize]
            && wire::header_len(a, &self.mem) == wire::header_len(b, &self.mem)
    }

    pub(super) fn load(&mut self, program: &Program, d: Loc, access: u32, index: u64) {
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

    pub(super) fn store(&mut self, program: &Program, a: Loc, access: u32, index: u64) {
        let access = &program.code.accesses[access as usize];
        let n = usize::from(access.limbs);
        match usize::try_from(index).ok().and_then(|i| access.offsets.get(i)) {
            Some(at) => self.mem.copy_within(a as usize..a as usize + n, *at as usize),
            None => self.faults.stack_out_of_range += 1,
        }
    }

    /// P4_16's `push_front`: new elements are invalid.
    pub(super) fn push(&mut self, program: &Program, stack: u32, count: u64) {
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

    pub(super) fn pop(&mut self, program: &Program, stack: u32, count: u64) {
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
}
