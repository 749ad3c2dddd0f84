//! The parser as code: states become addresses, a `select` jumps.

use super::super::ast::{Case, FieldRef, ParserOp, ParserState, SelectKey};
use super::super::layout::limbs_of;
use super::super::op::{END, KeySource, Loc, Op, Pc, Select, SelectCase};
use super::{KeyPacker, Label, Lowering, Result};

impl Lowering<'_> {
    /// Lowers the parser; returns where it starts.
    pub(crate) fn parser(&mut self) -> Result<Pc> {
        let ast = self.ast;
        let labels: Vec<Label> = ast.states.iter().map(|_| self.label()).collect();
        let first_select = self.code.selects.len();
        for (state, label) in ast.states.iter().zip(&labels) {
            self.path.clone_from(&state.path);
            self.place(*label);
            for op in &state.ops {
                self.reset_temps();
                self.parser_op(op)?;
            }
            if state.keys.is_empty() {
                match state.default {
                    Some(next) => self.jump(Op::Jump { to: 0 }, labels[next]),
                    None => self.emit(Op::End),
                }
            } else {
                let select = self.select(state)?;
                self.emit(Op::Select { select });
            }
        }
        // Targets of selects were state indices until all states had addresses.
        let addresses: Vec<Pc> = labels.iter().map(|l| self.address(*l)).collect();
        let address = |state: Pc| addresses.get(state as usize).copied().unwrap_or(END);
        for select in &mut self.code.selects[first_select..] {
            select.default = address(select.default);
            for case in &mut select.cases {
                match case {
                    SelectCase::Value { to, .. } | SelectCase::ValueSet { to, .. } => *to = address(*to),
                }
            }
            select.narrow = select.narrowed();
        }
        Ok(ast.parser_start.map_or(END, |s| addresses[s]))
    }

    fn parser_op(&mut self, op: &ParserOp) -> Result<()> {
        match op {
            ParserOp::Extract(header) => self.emit(Op::Extract { header: *header }),
            ParserOp::ExtractNext(stack) => self.emit(Op::ExtractNext { stack: *stack }),
            ParserOp::ExtractUnionNext { stack, member } => {
                self.emit(Op::ExtractUnionNext { stack: *stack, member: *member });
            }
            ParserOp::ExtractVariable { header, bits } => {
                let bits = self.low_bits(bits, 32)?;
                self.emit(Op::ExtractVariable { header: *header, bits });
            }
            ParserOp::ExtractNextVariable { stack, bits } => {
                let bits = self.low_bits(bits, 32)?;
                self.emit(Op::ExtractNextVariable { stack: *stack, bits });
            }
            ParserOp::Set { to, value } => self.assign(&super::super::ast::Place::Field(*to), value)?,
            ParserOp::SetLookahead { to, offset, bits } => self.set_lookahead(*to, *offset, *bits)?,
            ParserOp::Verify { condition, error } => {
                let fine = self.label();
                self.branch(condition, true, fine)?;
                let error = self.low_bits(error, 32)?;
                self.emit(Op::ParserError { error });
                self.place(fine);
            }
            ParserOp::Advance(bits) => {
                let bits = self.low_bits(bits, 64)?;
                self.emit(Op::Advance { bits });
            }
            ParserOp::Run(primitive) => self.primitive(primitive)?,
        }
        Ok(())
    }

    fn set_lookahead(&mut self, to: FieldRef, offset: u32, bits: u32) -> Result<()> {
        let Some(field) = self.layout.field(to) else {
            return self.unsupported("lookahead into a header's validity");
        };
        let (at, field_bits, limbs) = (field.at, field.bits, field.limbs);
        let n = limbs_of(bits);
        if bits <= field_bits {
            if n == limbs {
                self.emit(Op::Lookahead { d: at, n, offset, bits });
            } else {
                let t = self.temp(n)?;
                self.emit(Op::Lookahead { d: t, n, offset, bits });
                self.emit(Op::Extend { d: at, a: t, n: limbs, na: n, signed: false });
            }
            return Ok(());
        }
        let t = self.temp(n)?;
        self.emit(Op::Lookahead { d: t, n, offset, bits });
        if limbs == 1 {
            let mask = if field_bits >= 64 { u64::MAX } else { (1 << field_bits) - 1 };
            self.emit(Op::Mov { d: at, a: t, mask });
        } else {
            self.emit(Op::MovWide { d: at, a: t, n: limbs });
            self.emit(Op::MaskWide { d: at, n: limbs, bits: field_bits });
        }
        Ok(())
    }

    fn select(&mut self, state: &ParserState) -> Result<u32> {
        let mut packer = KeyPacker::new();
        let mut widths = Vec::new();
        for key in &state.keys {
            let (source, bits) = match key {
                SelectKey::Field(f) => {
                    let header = &self.layout.headers[f.header as usize];
                    match header.fields.get(f.field as usize) {
                        Some(field) => (KeySource::Memory(field.at), field.bits),
                        None => (KeySource::Memory(header.valid), 1),
                    }
                }
                SelectKey::Last { stack, field } => {
                    let headers = self.layout.stacks[*stack as usize].headers.clone();
                    let (access, _) = self.access(&headers, *field);
                    let bits = self.layout.headers[headers[0] as usize].fields.get(*field as usize);
                    let next = self.layout.stacks[*stack as usize].next;
                    (KeySource::Last { access, next }, bits.map_or(1, |f| f.bits))
                }
                SelectKey::UnionLast { stack, member, field } => {
                    let headers = self.union_stack_headers(*stack, *member);
                    let (access, _) = self.access(&headers, *field);
                    let bits = self.layout.headers[headers[0] as usize].fields.get(*field as usize);
                    let next = self.layout.union_stacks[*stack as usize].next;
                    (KeySource::Last { access, next }, bits.map_or(1, |f| f.bits))
                }
                SelectKey::Lookahead { offset, bits } => {
                    (KeySource::Lookahead { offset: *offset, bits: *bits }, *bits)
                }
            };
            // BMv2 compares whole bytes, so that padding bits of a case count too.
            packer.push(source, bits.next_multiple_of(8), Loc::MAX);
            widths.push(bits);
        }
        let limbs = packer.limbs();
        let pack = |bytes: &[u8]| {
            let mut key = vec![0; limbs];
            let mut at = 0;
            for (part, bits) in packer.parts.iter().zip(&widths) {
                let n = bits.div_ceil(8) as usize;
                part.put(&mut key, &bytes[at..at + n]);
                at += n;
            }
            key
        };
        let total: usize = widths.iter().map(|b| b.div_ceil(8) as usize).sum();
        let all = vec![0xff; total];
        let mut cases = Vec::new();
        for (case, target) in &state.cases {
            let to = target.map_or(Pc::MAX, |t| t as Pc);
            cases.push(match case {
                Case::Value { value, mask } => {
                    let mask = pack(mask.as_deref().unwrap_or(&all));
                    let value = pack(value).iter().zip(&mask).map(|(v, m)| v & m).collect();
                    SelectCase::Value { value, mask, to }
                }
                Case::ValueSet { set, mask } => {
                    SelectCase::ValueSet { set: *set, mask: pack(mask.as_deref().unwrap_or(&all)), to }
                }
            });
        }
        let default = state.default.map_or(Pc::MAX, |t| t as Pc);
        let parts = packer.parts;
        let select = Select { parts, limbs, field_bits: widths, cases, narrow: None, default };
        self.code.selects.push(select);
        Ok(self.code.selects.len() as u32 - 1)
    }
}
