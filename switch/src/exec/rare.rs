//! Operations that few packets need.

use super::PacketState;
use super::run::Machine;
use crate::program::Program;
use crate::program::op::{HeaderPick, Op};

impl Machine {
    /// Operations that few packets need. True: the pipeline ends here.
    #[cold]
    #[inline(never)]
    pub(super) fn rare(&mut self, program: &Program, packet: &mut PacketState, frame: &[u8], op: Op) -> bool {
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
