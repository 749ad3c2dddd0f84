//! Actions.

use super::super::ast::{BinOp, Expr, HeaderExpr, Place, Primitive};
use super::super::layout::{Layout, limbs_of};
use super::super::op::{FieldPick, Loc, Op, Pc};
use super::{Lowering, Message, Result};

/// Where the parameters of an action are, from `Layout::params` on.
pub(crate) fn param_places(layout: &Layout, params: &[(String, u32)]) -> Vec<Loc> {
    let mut at = layout.params;
    params
        .iter()
        .map(|(_, bits)| {
            let place = at;
            at += u32::from(limbs_of(*bits));
            place
        })
        .collect()
}

impl Lowering<'_> {
    /// Lowers an action as a routine that a table runs. Returns where it starts.
    pub(crate) fn action_routine(&mut self, action: usize) -> Result<Pc> {
        let start = self.here();
        self.barrier = start as usize;
        let exits = self.action_body(action)?;
        if exits {
            self.emit(Op::CheckExit);
        }
        self.emit(Op::Return);
        Ok(start)
    }

    /// Lowers the primitives of an action here. True if one of them is `exit`.
    pub(super) fn action_body(&mut self, action: usize) -> Result<bool> {
        let ast = self.ast;
        let action = &ast.actions[action];
        self.path.clone_from(&action.path);
        self.params = action.params.iter().map(|(_, bits)| *bits).collect();
        self.param_places = param_places(self.layout, &action.params);
        let labels: Vec<_> = (0..=action.primitives.len()).map(|_| self.label()).collect();
        let mut targets = vec![false; labels.len()];
        for primitive in &action.primitives {
            if let Primitive::Jump(t) | Primitive::JumpIfZero { target: t, .. } = primitive {
                targets[*t] = true;
            }
        }
        for (i, primitive) in action.primitives.iter().enumerate() {
            if targets[i] {
                self.place(labels[i]);
            }
            self.reset_temps();
            match primitive {
                Primitive::Jump(t) => self.jump(Op::Jump { to: 0 }, labels[*t]),
                Primitive::JumpIfZero { condition, target } => {
                    self.branch(condition, false, labels[*target])?
                }
                _ => self.primitive(primitive)?,
            }
        }
        self.place(labels[action.primitives.len()]);
        self.params.clear();
        self.param_places.clear();
        Ok(action.primitives.iter().any(|p| matches!(p, Primitive::Exit)))
    }

    pub(super) fn primitive(&mut self, primitive: &Primitive) -> Result<()> {
        match primitive {
            Primitive::Assign { to, value } => {
                self.repeated.look_into(value);
                self.assign(to, value)?;
            }
            Primitive::AssignVariable { to, from } => {
                let pick = |f: &super::super::ast::FieldRef| FieldPick { header: f.header, field: f.field };
                self.emit(Op::AssignVariable { to: pick(to), from: pick(from) });
            }
            Primitive::AssignHeader { to: HeaderExpr::Fixed(to), from: HeaderExpr::Fixed(from) } => {
                self.emit(Op::AssignHeader { to: *to, from: *from });
            }
            Primitive::AssignHeader { to, from } => {
                let (to, from) = (self.pick(to)?, self.pick(from)?);
                self.emit(Op::AssignHeaderIndexed { to, from });
            }
            Primitive::AssignStack { to, from } => self.emit(Op::AssignStack { to: *to, from: *from }),
            Primitive::AssignUnions { to, from } => self.assign_headers(to, from),
            Primitive::AssignUnionStack { to, from } => {
                let (to, from) =
                    (&self.layout.union_stacks[*to as usize], &self.layout.union_stacks[*from as usize]);
                self.assign_headers(&to.elements.concat(), &from.elements.concat());
                self.emit(Op::Mov { d: to.next, a: from.next, mask: u64::MAX });
            }
            Primitive::AddHeader(HeaderExpr::Fixed(h)) => self.emit(Op::AddHeader { header: *h }),
            Primitive::AddHeader(header) => {
                let pick = self.pick(header)?;
                self.emit(Op::AddHeaderIndexed { group: pick.id, index: pick.index });
            }
            Primitive::RemoveHeader(HeaderExpr::Fixed(h)) => self.emit(Op::RemoveHeader { header: *h }),
            Primitive::RemoveHeader(header) => {
                let pick = self.pick(header)?;
                self.emit(Op::RemoveHeaderIndexed { group: pick.id, index: pick.index });
            }
            Primitive::Push { stack, count } => {
                let count = self.low_bits(count, 64)?;
                self.emit(Op::Push { stack: *stack, count });
            }
            Primitive::Pop { stack, count } => {
                let count = self.low_bits(count, 64)?;
                self.emit(Op::Pop { stack: *stack, count });
            }
            // Handled where the labels are.
            Primitive::Jump(_) | Primitive::JumpIfZero { .. } | Primitive::Nop => {}
            Primitive::Exit => self.emit(Op::Exit),
            Primitive::Drop => self.emit(Op::Drop),
            Primitive::Count { counter, index } => {
                let index = self.low_bits(index, 32)?;
                self.emit(Op::Count { counter: *counter, index });
            }
            Primitive::Meter { meter, index, to } => {
                let index = self.low_bits(index, 32)?;
                self.write_scalar(to, |d| Op::Meter { d, meter: *meter, index })?;
            }
            Primitive::RegisterRead { to, register, index } => self.register_read(to, *register, index)?,
            Primitive::RegisterWrite { register, index, value } => {
                self.repeated.look_into(value);
                self.register_write(*register, index, value)?;
            }
            Primitive::Hash { to, base, calculation, size } => {
                let (base, size) = (self.low_bits(base, 64)?, self.low_bits(size, 64)?);
                self.write_scalar(to, |d| Op::Hash { d, base, size, calculation: *calculation })?;
            }
            Primitive::Random { to, low, high } => {
                let (low, high) = (self.low_bits(low, 64)?, self.low_bits(high, 64)?);
                self.write_scalar(to, |d| Op::Random { d, low, high })?;
            }
            Primitive::Digest { list } => {
                let list = self.low_bits(list, 16)?;
                self.emit(Op::Digest { list });
            }
            Primitive::CloneIngress { session, fields } | Primitive::CloneEgress { session, fields } => {
                let (session, fields) = (self.low_bits(session, 16)?, self.low_bits(fields, 16)?);
                self.emit(Op::Clone { session, fields });
            }
            Primitive::Resubmit { fields } => {
                let fields = self.low_bits(fields, 16)?;
                self.emit(Op::Resubmit { fields });
            }
            Primitive::Recirculate { fields } => {
                let fields = self.low_bits(fields, 16)?;
                self.emit(Op::Recirculate { fields });
            }
            Primitive::Truncate { length } => {
                let length = self.low_bits(length, 64)?;
                self.emit(Op::Truncate { length });
            }
            Primitive::Assert { condition, what } => {
                let a = self.low_bits(condition, 64)?;
                let text = format!("{what} failed in {}", self.path);
                let message = self.message(text, Vec::new());
                self.emit(Op::Assert { a, message });
            }
            Primitive::Log { format, args } => {
                let mut places = Vec::new();
                for arg in args {
                    let range = self.widths().range(arg);
                    let bits = range.bits();
                    places.push((self.field_value(arg, bits, None)?, limbs_of(bits)));
                }
                let message = self.message(format.clone(), places);
                self.emit(Op::Log { message });
            }
        }
        Ok(())
    }

    /// One after the other: of a union's members at most one is valid, and to assign it makes the others invalid.
    fn assign_headers(&mut self, to: &[u32], from: &[u32]) {
        for (to, from) in to.iter().zip(from) {
            self.emit(Op::AssignHeader { to: *to, from: *from });
        }
    }

    fn message(&mut self, text: String, args: Vec<(Loc, u16)>) -> u32 {
        self.code.messages.push(Message { text, args });
        self.code.messages.len() as u32 - 1
    }

    pub(super) fn assign(&mut self, to: &Place, value: &Expr) -> Result<()> {
        match to {
            Place::Field(field) => {
                let Some(f) = self.layout.field(*field) else {
                    return self.unsupported("an assignment to a header's validity");
                };
                let (at, bits) = (f.at, f.bits);
                match (f.saturating, f.signed) {
                    (false, _) => drop(self.field_value(value, bits, Some(at))?),
                    (true, signed) => {
                        let value = self.saturated(value, bits, signed);
                        self.field_value(&value, bits, Some(at))?;
                    }
                }
            }
            Place::Register { register, index } => {
                self.register_write(*register, index, value)?;
            }
            Place::Last { stack, field } => {
                let headers = self.layout.stacks[*stack as usize].headers.clone();
                let bits = self.layout.headers[headers[0] as usize].fields[*field as usize].bits;
                let a = self.field_value(value, bits, None)?;
                let (access, _) = self.access(&headers, *field);
                self.emit(Op::StoreLast { a, access, next: self.layout.stacks[*stack as usize].next });
            }
            Place::Access { header: HeaderExpr::Fixed(h), field } => {
                let field = super::super::ast::FieldRef { header: *h, field: *field };
                return self.assign(&Place::Field(field), value);
            }
            Place::Access { header, field } => {
                let pick = self.pick(header)?;
                let headers = self.code.groups[pick.id as usize].clone();
                let bits = self.layout.headers[headers[0] as usize].fields[*field as usize].bits;
                let a = self.field_value(value, bits, None)?;
                let (access, _) = self.access(&headers, *field);
                self.emit(Op::StoreIndexed { a, access, index: pick.index });
            }
        }
        Ok(())
    }

    fn saturated(&self, value: &Expr, bits: u32, signed: bool) -> Expr {
        use super::super::ast::BinOp;
        let op = if signed { BinOp::SaturateSigned } else { BinOp::SaturateUnsigned };
        let width = Expr::Const(super::super::num::Num::from_u64(u64::from(bits)));
        Expr::Binary(op, Box::new(value.clone()), Box::new(width))
    }

    /// Field that a place is, if it is one with an address known now.
    fn direct(&self, to: &Place) -> Option<(Loc, u32)> {
        match to {
            Place::Field(field) => self.layout.field(*field).map(|f| (f.at, f.bits)),
            _ => None,
        }
    }

    /// An operation that gives up to 64 bits, or nothing at all, stored in a field.
    fn write_scalar(&mut self, to: &Place, op: impl Fn(Loc) -> Op) -> Result<()> {
        match self.direct(to) {
            Some((at, bits)) if bits >= 64 && limbs_of(bits) == 1 => self.emit(op(at)),
            Some((at, bits)) if limbs_of(bits) == 1 => {
                self.emit(op(at));
                self.emit(Op::Mov { d: at, a: at, mask: (1 << bits) - 1 });
            }
            Some((at, bits)) => {
                let t = self.temp(1)?;
                // What the field holds stays if the operation gives nothing.
                self.emit(Op::Mov { d: t, a: at, mask: u64::MAX });
                self.emit(op(t));
                self.emit(Op::Extend { d: at, a: t, n: limbs_of(bits), na: 1, signed: false });
            }
            None => return self.unsupported("this target of hash, random or meter"),
        }
        Ok(())
    }

    fn register_write(&mut self, register: u32, index: &Expr, value: &Expr) -> Result<()> {
        let bits = self.registers[register as usize];
        let own = |e: &Expr| matches!(e, Expr::Register { register: r, index: i } if *r == register && **i == *index);
        let sum = match value {
            Expr::Binary(BinOp::And, e, m) if matches!(&**m, Expr::Const(n) if n.ones().is_some_and(|k| k >= bits)) => {
                e
            }
            other => other,
        };
        let addend = match sum {
            // A wide cell that is added to.
            Expr::Binary(BinOp::Add, a, b) if bits > 64 && bits.is_multiple_of(64) => {
                if own(a) {
                    Some(b)
                } else {
                    Some(a).filter(|_| own(b))
                }
            }
            _ => None,
        };
        let a = self.field_value(addend.map_or(value, |addend| &**addend), bits, None)?;
        let index = self.low_bits(index, 32)?;
        self.emit(match addend {
            Some(_) => Op::RegisterAdd { a, register, index },
            None => Op::RegisterWrite { a, register, index },
        });
        Ok(())
    }

    fn register_read(&mut self, to: &Place, register: u32, index: &Expr) -> Result<()> {
        let register_bits = self.registers[register as usize];
        match self.direct(to) {
            Some((at, bits)) => {
                let index = self.low_bits(index, 32)?;
                let n = limbs_of(bits);
                self.emit(Op::RegisterRead { d: at, n, register, index });
                if register_bits > bits {
                    if n == 1 {
                        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
                        self.emit(Op::Mov { d: at, a: at, mask });
                    } else if bits % 64 != 0 {
                        self.emit(Op::MaskWide { d: at, n, bits });
                    }
                }
                Ok(())
            }
            None => {
                let value = Expr::Register { register, index: Box::new(index.clone()) };
                self.assign(to, &value)
            }
        }
    }
}
