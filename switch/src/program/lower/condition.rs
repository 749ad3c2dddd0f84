//! Booleans: as values, and as jumps.

use super::super::ast::{BinOp, Expr, HeaderExpr, UnOp, VALID};
use super::super::layout::limbs_of;
use super::super::num::Num;
use super::super::op::{Cmp, Loc, Op};
use super::super::range::Range;
use super::expr::{Val, Want};
use super::{Label, Lowering, MAX_VALUE_BITS, Result};

impl Lowering<'_> {
    /// A boolean as 0 or 1.
    pub(super) fn boolean(&mut self, expr: &Expr, d: Option<Loc>) -> Result<Val> {
        let exact = Some(Range::unsigned(1));
        let at = match expr {
            Expr::Bool(b) => self.constant(vec![u64::from(*b)]),
            Expr::Valid(HeaderExpr::Fixed(h)) => {
                let header = &self.layout.headers[*h as usize];
                if header.metadata { self.constant(vec![1]) } else { header.valid }
            }
            Expr::Valid(header) => {
                let pick = self.pick(header)?;
                let headers = self.code.groups[pick.id as usize].clone();
                let (access, _) = self.access(&headers, VALID);
                let to = self.target(d, 1)?;
                self.emit(Op::LoadIndexed { d: to, access, index: pick.index });
                to
            }
            Expr::HeaderEq { left, right, negate } => {
                let (a, b) = (self.pick(left)?, self.pick(right)?);
                let to = self.target(d, 1)?;
                self.emit(Op::HeaderEqual { d: to, a, b });
                if *negate {
                    let one = self.constant(vec![1]);
                    self.emit(Op::Xor { d: to, a: to, b: one, mask: u64::MAX });
                }
                to
            }
            Expr::Binary(op, a, b) if comparison(*op).is_some() => {
                let (cmp, a, b, n, signed) = self.compared(*op, a, b)?;
                let to = self.target(d, 1)?;
                self.emit(match (n, signed) {
                    (1, false) => Op::Compare { d: to, a, b, cmp },
                    (1, true) => Op::CompareSigned { d: to, a, b, cmp },
                    (n, signed) => Op::CompareWide { d: to, a, b, n, cmp, signed },
                });
                to
            }
            Expr::Binary(BinOp::BoolAnd | BinOp::BoolOr, ..) | Expr::Cond(..) | Expr::ValidUnion(_) => {
                // Into a temporary, since the operands may read the destination.
                let to = self.temp(1)?;
                let (no, done) = (self.label(), self.label());
                let (one, zero) = (self.constant(vec![1]), self.constant(vec![0]));
                self.branch(expr, false, no)?;
                self.emit(Op::Mov { d: to, a: one, mask: u64::MAX });
                self.jump(Op::Jump { to: 0 }, done);
                self.place(no);
                self.emit(Op::Mov { d: to, a: zero, mask: u64::MAX });
                self.place(done);
                to
            }
            Expr::Unary(UnOp::BoolNot, e) => {
                let a = self.boolean(e, None)?.at;
                let one = self.constant(vec![1]);
                let to = self.target(d, 1)?;
                self.emit(Op::Xor { d: to, a, b: one, mask: u64::MAX });
                to
            }
            Expr::Unary(UnOp::ToBool, e) => {
                let zero = Expr::Const(Num::from_u64(0));
                let differs = Expr::Binary(BinOp::Ne, e.clone(), Box::new(zero));
                return self.boolean(&differs, d);
            }
            _ => return self.value(expr, Want::Exact, d),
        };
        Ok(Val { at, limbs: 1, exact })
    }

    /// Operands of a comparison: equally wide, both exact.
    fn compared(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Result<(Cmp, Loc, Loc, u16, bool)> {
        let cmp = comparison(op).unwrap_or(Cmp::Eq);
        let (ra, rb) = (self.widths().range(a), self.widths().range(b));
        let signed = ra.neg.is_some() || rb.neg.is_some();
        let bits = match signed {
            true => ra.signed_bits().max(rb.signed_bits()),
            false => ra.bits().max(rb.bits()),
        };
        if bits > MAX_VALUE_BITS {
            return self.unsupported(format!("a comparison of values of {bits} bits"));
        }
        let n = limbs_of(bits);
        let a = self.value(a, Want::Exact, None)?;
        let a = self.extended(a, n, None)?.at;
        let b = self.value(b, Want::Exact, None)?;
        let b = self.extended(b, n, None)?.at;
        Ok((cmp, a, b, n, signed))
    }

    /// Jumps to `to` if the condition (a boolean, or data that is not 0) equals `when`; falls through otherwise.
    pub(super) fn branch(&mut self, condition: &Expr, when: bool, to: Label) -> Result<()> {
        match condition {
            Expr::Unary(UnOp::ToData | UnOp::ToBool, e) => self.branch(e, when, to),
            Expr::Unary(UnOp::BoolNot, e) => self.branch(e, !when, to),
            Expr::Binary(op @ (BinOp::BoolAnd | BinOp::BoolOr), a, b) => {
                // `and` is decided by one false, `or` by one true.
                let deciding = *op == BinOp::BoolOr;
                if when == deciding {
                    self.branch(a, when, to)?;
                    self.branch(b, when, to)
                } else {
                    let past = self.label();
                    self.branch(a, deciding, past)?;
                    self.branch(b, when, to)?;
                    self.place(past);
                    Ok(())
                }
            }
            Expr::Binary(op, a, b) if comparison(*op).is_some() => {
                let (cmp, a, b, n, signed) = self.compared(*op, a, b)?;
                let cmp = if when { cmp } else { cmp.negated() };
                let jump = match (n, signed) {
                    (1, false) => Op::JumpCmp { a, b, cmp, to: 0 },
                    (1, true) => Op::JumpCmpSigned { a, b, cmp, to: 0 },
                    (n, signed) => Op::JumpCmpWide { a, b, n, cmp, signed, to: 0 },
                };
                self.jump(jump, to);
                Ok(())
            }
            Expr::ValidUnion(union) => {
                let members = self.ast.unions[*union as usize].headers.clone();
                let past = self.label();
                let found = if when { to } else { past };
                for header in members {
                    let a = self.layout.headers[header as usize].valid;
                    self.jump(Op::JumpNonZero { a, to: 0 }, found);
                }
                if !when {
                    self.jump(Op::Jump { to: 0 }, to);
                }
                self.place(past);
                Ok(())
            }
            Expr::Bool(b) => {
                if *b == when {
                    self.jump(Op::Jump { to: 0 }, to);
                }
                Ok(())
            }
            _ => {
                let val = self.value(condition, Want::Exact, None)?;
                if val.limbs > 1 {
                    let zero = self.constant(vec![0; usize::from(val.limbs)]);
                    let cmp = if when { Cmp::Ne } else { Cmp::Eq };
                    let jump =
                        Op::JumpCmpWide { a: val.at, b: zero, n: val.limbs, cmp, signed: false, to: 0 };
                    self.jump(jump, to);
                } else if when {
                    self.jump(Op::JumpNonZero { a: val.at, to: 0 }, to);
                } else {
                    self.jump(Op::JumpZero { a: val.at, to: 0 }, to);
                }
                Ok(())
            }
        }
    }
}

fn comparison(op: BinOp) -> Option<Cmp> {
    Some(match op {
        BinOp::Eq => Cmp::Eq,
        BinOp::Ne => Cmp::Ne,
        BinOp::Lt => Cmp::Lt,
        BinOp::Le => Cmp::Le,
        BinOp::Gt => Cmp::Gt,
        BinOp::Ge => Cmp::Ge,
        _ => return None,
    })
}
