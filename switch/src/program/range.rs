//! How large the value of an expression can get. BMv2 computes on integers of unlimited size and sign; with the range of
//! every sub-expression known beforehand, the same results need a fixed number of limbs.

use super::ast::{BinOp, Expr, UnOp};
use super::layout::Layout;

/// All values from `-2^neg` (0 if `None`) to `2^pos - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) neg: Option<u32>,
    pub(crate) pos: u32,
}

impl Range {
    pub(crate) fn unsigned(bits: u32) -> Self {
        Self { neg: None, pos: bits }
    }

    fn signed(bits: u32) -> Self {
        Self { neg: Some(bits.saturating_sub(1)), pos: bits.saturating_sub(1) }
    }

    /// Bits to store the value: unsigned if it can't be negative, else in two's complement.
    pub(crate) fn bits(self) -> u32 {
        match self.neg {
            None => self.pos.max(1),
            Some(_) => self.signed_bits(),
        }
    }

    /// Bits to store the value in two's complement.
    pub(crate) fn signed_bits(self) -> u32 {
        self.magnitude().saturating_add(1)
    }

    fn magnitude(self) -> u32 {
        self.pos.max(self.neg.unwrap_or(0))
    }

    fn union(self, other: Self) -> Self {
        let neg = match (self.neg, other.neg) {
            (None, n) | (n, None) => n,
            (Some(a), Some(b)) => Some(a.max(b)),
        };
        Self { neg, pos: self.pos.max(other.pos) }
    }
}

/// What ranges depend on beside the expression.
pub(crate) struct Widths<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) params: &'a [u32],
    pub(crate) registers: &'a [u32],
}

impl Widths<'_> {
    pub(crate) fn range(&self, expr: &Expr) -> Range {
        match expr {
            Expr::Const(n) if n.is_negative() => Range { neg: Some(n.bits()), pos: 0 },
            Expr::Const(n) => Range::unsigned(n.bits()),
            Expr::Field(f) => self.field(f.header, f.field),
            Expr::Last { stack, field } => self.field(self.layout.stacks[*stack as usize].headers[0], *field),
            Expr::Access { header, field } => self.field(self.first_header(header), *field),
            Expr::Param(i) => Range::unsigned(self.params[*i as usize]),
            Expr::Register { register, .. } => Range::unsigned(self.registers[*register as usize]),
            Expr::Unary(UnOp::Complement, e) => {
                let r = self.range(e);
                Range { neg: Some(r.pos), pos: r.neg.unwrap_or(0) }
            }
            Expr::Binary(op, a, b) => self.binary(*op, a, b),
            Expr::Cond(_, a, b) => self.range(a).union(self.range(b)),
            Expr::LastIndex(_) => Range::unsigned(64),
            Expr::StackSize(_) => Range::unsigned(32),
            Expr::Unary(..)
            | Expr::Bool(_)
            | Expr::Valid(_)
            | Expr::ValidUnion(_)
            | Expr::HeaderEq { .. } => Range::unsigned(1),
        }
    }

    pub(crate) fn first_header(&self, header: &super::ast::HeaderExpr) -> u32 {
        use super::ast::HeaderExpr;
        match header {
            HeaderExpr::Fixed(h) => *h,
            HeaderExpr::Indexed { stack, .. } => self.layout.stacks[*stack as usize].headers[0],
            HeaderExpr::UnionIndexed { stack, member, .. } => {
                self.layout.union_stacks[*stack as usize].elements[0][*member as usize]
            }
        }
    }

    fn field(&self, header: u32, field: u32) -> Range {
        match self.layout.headers[header as usize].fields.get(field as usize) {
            None => Range::unsigned(1),
            Some(f) if f.signed => Range::signed(f.bits),
            Some(f) => Range::unsigned(f.bits),
        }
    }

    fn binary(&self, op: BinOp, left: &Expr, right: &Expr) -> Range {
        let (a, b) = (self.range(left), self.range(right));
        match op {
            BinOp::Add => Range {
                neg: match (a.neg, b.neg) {
                    (None, n) | (n, None) => n,
                    (Some(x), Some(y)) => Some(x.max(y).saturating_add(1)),
                },
                pos: a.pos.max(b.pos).saturating_add(1),
            },
            BinOp::Sub => Range {
                neg: Some(match a.neg {
                    None => b.pos,
                    Some(n) => n.max(b.pos).saturating_add(1),
                }),
                pos: match b.neg {
                    None => a.pos,
                    Some(n) => n.max(a.pos).saturating_add(1),
                },
            },
            BinOp::Mul if a.neg.is_none() && b.neg.is_none() => Range::unsigned(a.pos.saturating_add(b.pos)),
            BinOp::Mul => {
                let bits = a.magnitude().saturating_add(b.magnitude()).saturating_add(1);
                Range { neg: Some(bits), pos: bits }
            }
            BinOp::Div => Range::unsigned(a.pos),
            BinOp::Mod => Range::unsigned(a.pos.min(b.pos)),
            BinOp::Shl => {
                let most = constant(right).unwrap_or_else(|| match b.pos {
                    bits @ 0..=30 => (1u64 << bits) - 1,
                    _ => u64::from(u32::MAX),
                });
                let most = u32::try_from(most).unwrap_or(u32::MAX);
                Range { neg: a.neg.map(|n| n.saturating_add(most)), pos: a.pos.saturating_add(most) }
            }
            BinOp::Shr => {
                let least = u32::try_from(constant(right).unwrap_or(0)).unwrap_or(u32::MAX);
                Range { neg: a.neg.map(|n| n.saturating_sub(least)), pos: a.pos.saturating_sub(least) }
            }
            BinOp::And => match (a.neg, b.neg) {
                (None, None) => Range::unsigned(a.pos.min(b.pos)),
                (None, Some(_)) => a,
                (Some(_), None) => b,
                (Some(_), Some(_)) => {
                    let bits = a.magnitude().max(b.magnitude());
                    Range { neg: Some(bits), pos: bits }
                }
            },
            BinOp::Or | BinOp::Xor => match (a.neg, b.neg) {
                (None, None) => Range::unsigned(a.pos.max(b.pos)),
                _ => {
                    let bits = a.magnitude().max(b.magnitude());
                    Range { neg: Some(bits), pos: bits }
                }
            },
            BinOp::TwosComplement => {
                let to = Range::signed(constant(right).unwrap_or(1).min(1 << 20) as u32);
                // A value that fits already is kept.
                if a.signed_bits() <= to.signed_bits() { a } else { to }
            }
            BinOp::SaturateUnsigned => Range::unsigned(constant(right).unwrap_or(1).min(1 << 20) as u32),
            BinOp::SaturateSigned => Range::signed(constant(right).unwrap_or(1).min(1 << 20) as u32),
            BinOp::Eq
            | BinOp::Ne
            | BinOp::Lt
            | BinOp::Le
            | BinOp::Gt
            | BinOp::Ge
            | BinOp::BoolAnd
            | BinOp::BoolOr => Range::unsigned(1),
        }
    }
}

/// Value of a constant that is not negative.
pub(crate) fn constant(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Const(n) => n.to_u64(),
        _ => None,
    }
}
