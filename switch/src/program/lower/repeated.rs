//! Sub-expressions that occur more than once in a statement are computed once. Fused programs have many: what BMv2 computes
//! twice for less than a field would cost it.

use std::collections::{HashMap, HashSet};

use super::super::ast::Expr;
use super::super::op::Loc;
use super::expr::Val;

/// The repeated sub-expressions of the statement at hand, and where their values are.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    exprs: HashSet<Expr>,
    /// By expression and the bits of it that were computed.
    values: HashMap<(Expr, u32), Val>,
    places: HashSet<Loc>,
}

impl Repeated {
    /// A new statement: nothing is known of it.
    pub(super) fn clear(&mut self) {
        self.exprs.clear();
        self.forget_values();
    }

    /// No value computed so far may be used any more.
    pub(super) fn forget_values(&mut self) {
        self.values.clear();
        self.places.clear();
    }

    /// Looks for what occurs twice or more in an expression of the statement.
    pub(super) fn look_into(&mut self, expr: &Expr) {
        let mut seen = HashSet::new();
        self.count(expr, &mut seen);
    }

    fn count<'e>(&mut self, expr: &'e Expr, seen: &mut HashSet<&'e Expr>) {
        let parts: [Option<&Expr>; 2] = match expr {
            Expr::Unary(_, a) | Expr::Register { index: a, .. } => [Some(a), None],
            Expr::Binary(_, a, b) => [Some(a), Some(b)],
            // Leaves cost nothing; of two branches only one is executed.
            _ => return,
        };
        if seen.insert(expr) {
            parts.into_iter().flatten().for_each(|part| self.count(part, seen));
        } else {
            self.exprs.insert(expr.clone());
        }
    }

    /// The key under which the value of a repeated expression is kept.
    pub(super) fn key(&self, expr: &Expr, bits: u32) -> Option<(Expr, u32)> {
        self.exprs.contains(expr).then(|| (expr.clone(), bits))
    }

    /// The value, if it was computed already.
    pub(super) fn value(&self, key: &(Expr, u32)) -> Option<Val> {
        self.values.get(key).copied()
    }

    /// Keeps a value that was just computed.
    pub(super) fn keep(&mut self, key: (Expr, u32), val: Val) {
        self.places.insert(val.at);
        self.values.insert(key, val);
    }

    /// True if a value that may be used again is there.
    pub(super) fn holds(&self, at: Loc) -> bool {
        self.places.contains(&at)
    }
}
