//! Expressions. A sub-expression is computed either exactly, in as many limbs as its range needs, or modulo a power of
//! two, where only so many low bits of it are asked for: p4c masks every result, so most of BMv2's unlimited integers
//! shrink to the width of a field.

use super::super::ast::{BinOp, Expr, HeaderExpr, UnOp, VALID};
use super::super::layout::limbs_of;
use super::super::num::Num;
use super::super::op::{Loc, Op};
use super::super::range::{Range, constant};
use super::{Lowering, MAX_VALUE_BITS, Result};

/// What the consumer of a value needs of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Want {
    /// The low bits; what is above does not matter.
    Low(u32),
    /// The whole value.
    Exact,
}

/// A computed value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Val {
    pub(super) at: Loc,
    pub(super) limbs: u16,
    /// Exact: zero- or sign-extended over all its limbs. Otherwise only low bits are right, as many as were wanted.
    pub(super) exact: Option<Range>,
}

impl Val {
    fn signed(self) -> bool {
        self.exact.is_some_and(|r| r.neg.is_some())
    }
}

fn mask_of(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Lowering<'_> {
    /// Low `bits` (at most 64) of an expression, zero-extended, in one limb.
    pub(super) fn low_bits(&mut self, expr: &Expr, bits: u32) -> Result<Loc> {
        let val = self.value(expr, Want::Low(bits), None)?;
        if val.exact.is_some_and(|r| r.neg.is_none() && r.pos <= bits) || bits == 64 {
            return Ok(val.at);
        }
        self.masked(val, bits, None)
    }

    /// A value in exactly `limbs_of(bits)` limbs, cut to `bits`; at `d` if that is given.
    pub(super) fn field_value(&mut self, expr: &Expr, bits: u32, d: Option<Loc>) -> Result<Loc> {
        let limbs = limbs_of(bits);
        let val = self.value(expr, Want::Low(bits), d)?;
        let clean = val.exact.is_some_and(|r| r.neg.is_none() && r.pos <= bits);
        if limbs == 1 {
            if clean {
                return self.moved(val.at, d);
            }
            return self.masked(val, bits, d);
        }
        let val = self.extended(val, limbs, d)?;
        if !clean && !bits.is_multiple_of(64) {
            let at =
                if Some(val.at) == d || self.is_own_temp(val.at) { val.at } else { self.copied(val, d)? };
            self.emit(Op::MaskWide { d: at, n: limbs, bits });
            return self.moved_wide(at, limbs, d);
        }
        self.moved_wide(val.at, limbs, d)
    }

    fn moved(&mut self, a: Loc, d: Option<Loc>) -> Result<Loc> {
        match d {
            Some(d) if d != a => {
                self.emit(Op::Mov { d, a, mask: u64::MAX });
                Ok(d)
            }
            _ => Ok(a),
        }
    }

    fn moved_wide(&mut self, a: Loc, n: u16, d: Option<Loc>) -> Result<Loc> {
        match d {
            Some(d) if d != a => {
                self.emit(Op::MovWide { d, a, n });
                Ok(d)
            }
            _ => Ok(a),
        }
    }

    fn copied(&mut self, val: Val, d: Option<Loc>) -> Result<Loc> {
        let d = self.target(d, val.limbs)?;
        self.emit(Op::MovWide { d, a: val.at, n: val.limbs });
        Ok(d)
    }

    /// One limb cut to `bits`, by the operation that made it where possible.
    fn masked(&mut self, val: Val, bits: u32, d: Option<Loc>) -> Result<Loc> {
        let own = Some(val.at) == d || self.is_own_temp(val.at);
        if own
            && self.barrier < self.code.ops.len()
            && let Some(op) = self.code.ops.last_mut()
            && let Some((at, mask)) = op.mask_mut()
            && at == val.at
        {
            *mask &= mask_of(bits);
            return self.moved(val.at, d);
        }
        let to = self.target(d, 1)?;
        self.emit(Op::Mov { d: to, a: val.at, mask: mask_of(bits) });
        Ok(to)
    }

    pub(super) fn target(&mut self, d: Option<Loc>, limbs: u16) -> Result<Loc> {
        match d {
            Some(d) => Ok(d),
            None => self.temp(limbs),
        }
    }

    /// The value in `limbs` limbs.
    pub(super) fn extended(&mut self, val: Val, limbs: u16, d: Option<Loc>) -> Result<Val> {
        if val.limbs == limbs {
            return Ok(val);
        }
        if val.limbs > limbs {
            let exact = val.exact.filter(|r| r.bits() <= u32::from(limbs) * 64);
            return Ok(Val { limbs, exact, ..val });
        }
        // In place where the value was just computed at its destination.
        let to = match d {
            Some(d) => d,
            None => self.temp(limbs)?,
        };
        self.emit(Op::Extend { d: to, a: val.at, n: limbs, na: val.limbs, signed: val.signed() });
        Ok(Val { at: to, limbs, exact: val.exact })
    }

    /// Computes an expression. `d`: where the result should be, if it has as many limbs as the destination field; the
    /// result may be elsewhere all the same.
    pub(super) fn value(&mut self, expr: &Expr, want: Want, d: Option<Loc>) -> Result<Val> {
        let range = self.widths().range(expr);
        let bits = match want {
            Want::Low(m) => range.bits().min(m.max(1)),
            Want::Exact => range.bits(),
        };
        if bits > MAX_VALUE_BITS {
            return self.unsupported(format!("an intermediate value of {bits} bits"));
        }
        let limbs = limbs_of(bits);
        let exact = (range.bits() <= bits).then_some(range);
        // A destination field has room for `limbs_of(wanted bits)`; a shorter result is extended into it afterwards.
        let d = match want {
            Want::Low(m) if limbs == limbs_of(m) => d,
            _ => None,
        };
        let Some(key) = self.repeated.key(expr, bits) else {
            return self.computed(expr, want, bits, limbs, exact, d);
        };
        if let Some(val) = self.repeated.value(&key) {
            return Ok(val);
        }
        let val = self.computed(expr, want, bits, limbs, exact, None)?;
        self.repeated.keep(key, val);
        Ok(val)
    }

    fn computed(
        &mut self,
        expr: &Expr,
        want: Want,
        bits: u32,
        limbs: u16,
        exact: Option<Range>,
        d: Option<Loc>,
    ) -> Result<Val> {
        match expr {
            Expr::Const(n) => Ok(Val { at: self.constant(n.to_limbs(usize::from(limbs))), limbs, exact }),
            Expr::Bool(b) => {
                let at = self.constant(vec![u64::from(*b)]);
                Ok(Val { at, limbs: 1, exact: Some(Range::unsigned(1)) })
            }
            Expr::Field(f) => {
                let header = &self.layout.headers[f.header as usize];
                let Some(field) = header.fields.get(f.field as usize) else {
                    return Ok(Val { at: header.valid, limbs: 1, exact: Some(Range::unsigned(1)) });
                };
                let (at, field_bits, signed) = (field.at, field.bits, field.signed);
                self.loaded(at, field_bits, signed, limbs, exact, d)
            }
            Expr::Param(i) => {
                let (at, param_bits) = (self.param_places[*i as usize], self.params[*i as usize]);
                self.loaded(at, param_bits, false, limbs, exact, d)
            }
            Expr::Last { stack, field } => {
                let headers = self.layout.stacks[*stack as usize].headers.clone();
                let (access, n) = self.access(&headers, *field);
                let at = self.temp(n)?;
                self.emit(Op::LoadLast { d: at, access, next: self.layout.stacks[*stack as usize].next });
                let (field_bits, signed) = self.field_shape(headers[0], *field);
                self.loaded(at, field_bits, signed, limbs, exact, d)
            }
            Expr::Access { header: HeaderExpr::Fixed(h), field } => {
                let field = super::super::ast::FieldRef { header: *h, field: *field };
                self.value(&Expr::Field(field), want, d)
            }
            Expr::Access { header, field } => {
                let pick = self.pick(header)?;
                let headers = self.code.groups[pick.id as usize].clone();
                let (access, n) = self.access(&headers, *field);
                let at = self.temp(n)?;
                self.emit(Op::LoadIndexed { d: at, access, index: pick.index });
                let (field_bits, signed) = self.field_shape(headers[0], *field);
                self.loaded(at, field_bits, signed, limbs, exact, d)
            }
            Expr::Register { register, index } => {
                let index = self.low_bits(index, 32)?;
                let register_bits = self.registers[*register as usize];
                let n = limbs_of(register_bits);
                let at = self.temp(n)?;
                self.emit(Op::RegisterRead { d: at, n, register: *register, index });
                self.loaded(at, register_bits, false, limbs, exact, d)
            }
            Expr::Unary(UnOp::Complement, e) => {
                let a = self.operand(e, bits, limbs)?;
                let to = self.target(d, limbs)?;
                self.emit(match limbs {
                    1 => Op::Not { d: to, a, mask: u64::MAX },
                    n => Op::NotWide { d: to, a, n },
                });
                Ok(Val { at: to, limbs, exact })
            }
            Expr::Unary(UnOp::ToData, e) => self.value(e, Want::Exact, d),
            Expr::Binary(op, a, b) => match op {
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Or | BinOp::Xor => {
                    self.arithmetic(*op, a, b, bits, limbs, exact, d)
                }
                BinOp::And => self.and(a, b, bits, limbs, exact, d),
                BinOp::Shl => self.shift_left(a, b, bits, limbs, exact, d),
                BinOp::Shr => self.shift_right(a, b, bits, limbs, exact, d),
                BinOp::Div | BinOp::Mod => self.divide(*op, a, b, limbs, exact),
                BinOp::TwosComplement => self.twos_complement(a, b, bits, limbs, exact),
                BinOp::SaturateUnsigned | BinOp::SaturateSigned => self.saturate(*op, a, b, limbs, exact),
                _ => self.boolean(expr, d),
            },
            Expr::Cond(c, a, b) => {
                let to = self.target(d, limbs)?;
                let (other, done) = (self.label(), self.label());
                self.branch(c, false, other)?;
                self.branch_value(a, bits, limbs, to)?;
                self.jump(Op::Jump { to: 0 }, done);
                self.place(other);
                self.branch_value(b, bits, limbs, to)?;
                self.place(done);
                Ok(Val { at: to, limbs, exact })
            }
            Expr::LastIndex(stack) => {
                let one = self.constant(vec![1]);
                let to = self.target(d, 1)?;
                let a = self.layout.stacks[*stack as usize].next;
                self.emit(Op::Sub { d: to, a, b: one, mask: u64::MAX });
                Ok(Val { at: to, limbs: 1, exact: Some(Range::unsigned(64)) })
            }
            Expr::StackSize(stack) => {
                let at = self.layout.stacks[*stack as usize].next;
                Ok(Val { at, limbs: 1, exact: Some(Range::unsigned(32)) })
            }
            Expr::Unary(..) | Expr::Valid(_) | Expr::ValidUnion(_) | Expr::HeaderEq { .. } => {
                self.boolean(expr, d)
            }
        }
    }

    fn branch_value(&mut self, expr: &Expr, bits: u32, limbs: u16, to: Loc) -> Result<()> {
        let a = self.operand(expr, bits, limbs)?;
        if a != to {
            self.emit(match limbs {
                1 => Op::Mov { d: to, a, mask: u64::MAX },
                n => Op::MovWide { d: to, a, n },
            });
        }
        Ok(())
    }

    fn field_shape(&self, header: u32, field: u32) -> (u32, bool) {
        let fields = &self.layout.headers[header as usize].fields;
        if field == VALID {
            return (1, false);
        }
        fields.get(field as usize).map_or((1, false), |f| (f.bits, f.signed))
    }

    /// A stored value of `bits` at `at`, as a value of `limbs` limbs.
    fn loaded(
        &mut self,
        at: Loc,
        bits: u32,
        signed: bool,
        limbs: u16,
        exact: Option<Range>,
        d: Option<Loc>,
    ) -> Result<Val> {
        if !signed || exact.is_none() {
            return Ok(Val { at, limbs, exact });
        }
        let to = self.target(d, limbs)?;
        if limbs == 1 {
            self.emit(Op::Sext { d: to, a: at, bits: bits.min(64) as u8 });
        } else {
            if to != at {
                self.emit(Op::MovWide { d: to, a: at, n: limbs });
            }
            self.emit(Op::SextWide { d: to, n: limbs, bits });
        }
        Ok(Val { at: to, limbs, exact })
    }

    /// An operand whose low `bits` are right (and that is exact if it fits in them), in `limbs` limbs.
    fn operand(&mut self, expr: &Expr, bits: u32, limbs: u16) -> Result<Loc> {
        let val = self.value(expr, Want::Low(bits), None)?;
        Ok(self.extended(val, limbs, None)?.at)
    }

    #[allow(clippy::too_many_arguments)]
    fn arithmetic(
        &mut self,
        op: BinOp,
        left: &Expr,
        right: &Expr,
        bits: u32,
        limbs: u16,
        exact: Option<Range>,
        d: Option<Loc>,
    ) -> Result<Val> {
        let a = self.operand(left, bits, limbs)?;
        let b = self.operand(right, bits, limbs)?;
        let mask = u64::MAX;
        let d = if op == BinOp::Mul && limbs > 1 { None } else { d };
        let to = self.target(d, limbs)?;
        self.emit(match (op, limbs) {
            (BinOp::Add, 1) => Op::Add { d: to, a, b, mask },
            (BinOp::Sub, 1) => Op::Sub { d: to, a, b, mask },
            (BinOp::Mul, 1) => Op::Mul { d: to, a, b, mask },
            (BinOp::Or, 1) => Op::Or { d: to, a, b, mask },
            (_, 1) => Op::Xor { d: to, a, b, mask },
            (BinOp::Add, n) => Op::AddWide { d: to, a, b, n },
            (BinOp::Sub, n) => Op::SubWide { d: to, a, b, n },
            (BinOp::Mul, n) => Op::MulWide { d: to, a, b, n },
            (BinOp::Or, n) => Op::OrWide { d: to, a, b, n },
            (_, n) => Op::XorWide { d: to, a, b, n },
        });
        Ok(Val { at: to, limbs, exact })
    }

    fn and(
        &mut self,
        left: &Expr,
        right: &Expr,
        bits: u32,
        limbs: u16,
        exact: Option<Range>,
        d: Option<Loc>,
    ) -> Result<Val> {
        let ones = |e: &Expr| match e {
            Expr::Const(n) => n.ones(),
            _ => None,
        };
        let (x, k) = match (ones(left), ones(right)) {
            (_, Some(k)) => (left, k),
            (Some(k), None) => (right, k),
            (None, None) => {
                let a = self.operand(left, bits, limbs)?;
                let b = self.operand(right, bits, limbs)?;
                let to = self.target(d, limbs)?;
                self.emit(match limbs {
                    1 => Op::And { d: to, a, b },
                    n => Op::AndWide { d: to, a, b, n },
                });
                return Ok(Val { at: to, limbs, exact });
            }
        };
        // Cutting to k bits: often nothing is left to do.
        let val = self.value(x, Want::Low(bits), d)?;
        let fits = val.exact.is_some_and(|r| r.neg.is_none() && r.pos <= k);
        if fits || (exact.is_none() && k >= bits) {
            return Ok(val);
        }
        if limbs == 1 {
            let at = self.masked(val, k.min(bits), d)?;
            return Ok(Val { at, limbs, exact });
        }
        let val = self.extended(val, limbs, None)?;
        if k % 64 == 0 && limbs_of(k) == limbs {
            return Ok(Val { exact, ..val });
        }
        let at = if Some(val.at) == d || self.is_own_temp(val.at) { val.at } else { self.copied(val, None)? };
        self.emit(Op::MaskWide { d: at, n: limbs, bits: k.min(bits) });
        Ok(Val { at, limbs, exact })
    }

    fn shift_left(
        &mut self,
        left: &Expr,
        count: &Expr,
        bits: u32,
        limbs: u16,
        exact: Option<Range>,
        d: Option<Loc>,
    ) -> Result<Val> {
        if let Some(count) = constant(count) {
            if count >= u64::from(bits) && exact.is_none() {
                let at = self.constant(vec![0; usize::from(limbs)]);
                return Ok(Val { at, limbs, exact });
            }
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let a = self.operand(left, bits, limbs)?;
            let to = self.target(d, limbs)?;
            self.emit(match limbs {
                1 if count >= 64 => Op::Mov { d: to, a, mask: 0 },
                1 => Op::ShlBy { d: to, a, count: count as u8, mask: u64::MAX },
                n => Op::ShlWideBy { d: to, a, count, n },
            });
            return Ok(Val { at: to, limbs, exact });
        }
        let a = self.operand(left, bits, limbs)?;
        let b = self.low_bits(count, 32)?;
        let to = self.target(d, limbs)?;
        self.emit(match limbs {
            1 => Op::Shl { d: to, a, b, mask: u64::MAX },
            n => Op::ShlWide { d: to, a, b, n },
        });
        Ok(Val { at: to, limbs, exact })
    }

    fn shift_right(
        &mut self,
        left: &Expr,
        count: &Expr,
        bits: u32,
        limbs: u16,
        exact: Option<Range>,
        d: Option<Loc>,
    ) -> Result<Val> {
        let known = constant(count);
        let want = match known {
            // Bits above those asked for can't come down.
            Some(n) if n < u64::from(MAX_VALUE_BITS) && exact.is_none() => Want::Low(bits + n as u32),
            _ => Want::Exact,
        };
        let a = self.value(left, want, None)?;
        let signed = a.signed();
        let (n, na) = (limbs, a.limbs);
        if na == 1 {
            let to = self.target(d, 1)?;
            let op = match known {
                Some(count) if count >= 64 && !signed => Op::Mov { d: to, a: a.at, mask: 0 },
                Some(count) if !signed => Op::ShrBy { d: to, a: a.at, count: count as u8, mask: u64::MAX },
                _ => {
                    let b = match known {
                        Some(count) => self.constant(vec![count.min(64)]),
                        None => self.low_bits(count, 32)?,
                    };
                    if signed {
                        Op::Sar { d: to, a: a.at, b, mask: u64::MAX }
                    } else {
                        Op::Shr { d: to, a: a.at, b, mask: u64::MAX }
                    }
                }
            };
            self.emit(op);
            return self.extended(Val { at: to, limbs: 1, exact }, limbs, None);
        }
        match known {
            Some(count) => {
                let count = count.min(u64::from(MAX_VALUE_BITS)) as u32;
                // A shift by whole limbs is a matter of where to read.
                let skip = count / 64;
                if count.is_multiple_of(64) && !signed && skip + u32::from(n) <= u32::from(na) {
                    return Ok(Val { at: a.at + skip, limbs, exact });
                }
                let to = self.target(d, limbs)?;
                self.emit(Op::ShrWideBy { d: to, a: a.at, count, n, na, signed });
                Ok(Val { at: to, limbs, exact })
            }
            None => {
                let b = self.low_bits(count, 32)?;
                let to = self.target(d, limbs)?;
                self.emit(Op::ShrWide { d: to, a: a.at, b, n, na, signed });
                Ok(Val { at: to, limbs, exact })
            }
        }
    }

    /// Both operands must not be negative (p4c allows division of `bit` only).
    fn divide(
        &mut self,
        op: BinOp,
        left: &Expr,
        right: &Expr,
        limbs: u16,
        exact: Option<Range>,
    ) -> Result<Val> {
        let (ra, rb) = (self.widths().range(left), self.widths().range(right));
        if ra.neg.is_some() || rb.neg.is_some() {
            return self.unsupported("division of a value that may be negative");
        }
        let n = limbs_of(ra.pos.max(rb.pos).max(1));
        if u32::from(n) * 64 > MAX_VALUE_BITS {
            return self.unsupported("a division this wide");
        }
        let a = self.value(left, Want::Exact, None)?;
        let a = self.extended(a, n, None)?.at;
        let b = self.value(right, Want::Exact, None)?;
        let b = self.extended(b, n, None)?.at;
        let to = self.temp(n)?;
        let mask = u64::MAX;
        self.emit(match (op, n) {
            (BinOp::Div, 1) => Op::Div { d: to, a, b, mask },
            (_, 1) => Op::Mod { d: to, a, b, mask },
            (BinOp::Div, n) => Op::DivWide { d: to, a, b, n },
            (_, n) => Op::ModWide { d: to, a, b, n },
        });
        self.extended(Val { at: to, limbs: n, exact }, limbs, None)
    }

    fn constant_width(&self, expr: &Expr) -> Result<u32> {
        match constant(expr) {
            Some(w) if (1..=u64::from(MAX_VALUE_BITS)).contains(&w) => Ok(w as u32),
            _ => self.unsupported("a cast to a width that is not a constant from 1 to 65536"),
        }
    }

    fn twos_complement(
        &mut self,
        value: &Expr,
        width: &Expr,
        bits: u32,
        limbs: u16,
        exact: Option<Range>,
    ) -> Result<Val> {
        let width = self.constant_width(width)?;
        if self.widths().range(value).signed_bits() <= width {
            return self.value(value, Want::Low(bits), None);
        }
        let val = self.value(value, Want::Low(width.min(bits)), None)?;
        if exact.is_none() && bits <= width {
            return Ok(Val { exact: None, ..val });
        }
        if limbs == 1 {
            let to = self.temp(1)?;
            self.emit(Op::Sext { d: to, a: val.at, bits: width as u8 });
            return Ok(Val { at: to, limbs, exact });
        }
        let val = self.extended(val, limbs, None)?;
        let at = if self.is_own_temp(val.at) { val.at } else { self.copied(val, None)? };
        self.emit(Op::SextWide { d: at, n: limbs, bits: width });
        Ok(Val { at, limbs, exact })
    }

    fn saturate(
        &mut self,
        op: BinOp,
        value: &Expr,
        width: &Expr,
        limbs: u16,
        exact: Option<Range>,
    ) -> Result<Val> {
        let width = self.constant_width(width)?;
        let (low, high) = match op {
            BinOp::SaturateUnsigned => (Num::from_u64(0), Num::power(width, 1, false)),
            _ => (Num::power(width - 1, 0, true), Num::power(width - 1, 1, false)),
        };
        // In two's complement, wide enough for the value and both bounds.
        let n = limbs_of(self.widths().range(value).signed_bits().max(width + 1));
        let val = self.value(value, Want::Exact, None)?;
        let val = self.extended(val, n, None)?;
        let to = self.temp(n)?;
        self.emit(Op::MovWide { d: to, a: val.at, n });
        let low = self.constant(low.to_limbs(usize::from(n)));
        let high = self.constant(high.to_limbs(usize::from(n)));
        self.emit(Op::Clamp { d: to, low, high, n });
        self.extended(Val { at: to, limbs: n, exact }, limbs, None)
    }
}
