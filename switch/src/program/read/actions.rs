//! Actions and their primitives.

use super::super::ast::{Action, Expr, HeaderExpr, Primitive, Type};
use super::super::info::{ActionInfo, ParamInfo};
use super::super::json::Node;
use super::expr::{Scope, type_of};
use super::{MAX_BITS, Reader, Result};

impl Reader {
    pub(super) fn actions(&mut self, root: &Node) -> Result<()> {
        for node in root.get("actions").items()? {
            let name = node.get("name").string()?.to_owned();
            let id = node.get("id").integer()?;
            let mut params = Vec::new();
            for param in node.get("runtime_data").items()? {
                let bits = param.get("bitwidth").bounded(MAX_BITS)? as u32;
                params.push((param.get("name").string()?.to_owned(), bits));
            }
            let scope = Scope { params: params.len() };
            let mut primitives = Vec::new();
            let calls = node.get("primitives").items()?;
            for call in &calls {
                let primitive = self.primitive(call, scope)?;
                if let Primitive::Jump(target) | Primitive::JumpIfZero { target, .. } = primitive
                    && target > calls.len()
                {
                    return call.wrong(format!("a jump to at most {}", calls.len()));
                }
                primitives.push(primitive);
            }
            if self.names.action_ids.insert(id, self.ast.actions.len()).is_some() {
                return node.get("id").wrong("an action id that is used once");
            }
            let info = params.iter().map(|(name, bits)| ParamInfo { name: name.clone(), bits: *bits });
            self.objects.actions.push(ActionInfo { name: name.clone(), params: info.collect() });
            self.ast.actions.push(Action { name, params, primitives, path: node.path() });
        }
        Ok(())
    }

    /// One primitive call.
    pub(super) fn primitive(&self, node: &Node, scope: Scope) -> Result<Primitive> {
        let op_node = node.get("op");
        let op = op_node.string()?;
        let params = node.get("parameters");
        let args = |n: usize| params.tuple(n);
        let data = |n: &Node| self.data(n, scope);
        let primitive = match op {
            "assign" | "modify_field" => {
                let a = args(2)?;
                Primitive::Assign { to: self.place(&a[0], scope)?, value: self.data_or_bool(&a[1], scope)? }
            }
            "add_to_field" | "subtract_from_field" => return self.legacy_arithmetic(node, scope, true),
            "add" | "subtract" | "bit_xor" | "bit_or" | "bit_and" | "shift_left" | "shift_right" => {
                return self.legacy_arithmetic(node, scope, false);
            }
            "assign_VL" => {
                let a = args(2)?;
                let field = |n: &Node| {
                    let field = self.field(&n.get("value"))?;
                    if self.is_variable(field) { Ok(field) } else { n.wrong("a variable-length field") }
                };
                Primitive::AssignVariable { to: field(&a[0])?, from: field(&a[1])? }
            }
            "assign_header" | "copy_header" => {
                let a = args(2)?;
                let (to, from) = (self.header_expr(&a[0], scope)?, self.header_expr(&a[1], scope)?);
                if self.type_of_header(&to) != self.type_of_header(&from) {
                    return node.wrong("two headers of one type");
                }
                Primitive::AssignHeader { to, from }
            }
            "assign_header_stack" => {
                let a = args(2)?;
                let (to, from) = (self.stack_expr(&a[0], scope)?, self.stack_expr(&a[1], scope)?);
                let (x, y) = (&self.ast.stacks[to as usize], &self.ast.stacks[from as usize]);
                if x.ty != y.ty || x.headers.len() != y.headers.len() {
                    return node.wrong("two header stacks of one type and size");
                }
                Primitive::AssignStack { to, from }
            }
            "assign_union" => {
                let a = args(2)?;
                let (to, from) = (self.union_members(&a[0], scope)?, self.union_members(&a[1], scope)?);
                if !self.same_types(&to, &from) {
                    return node.wrong("two header unions of one type");
                }
                Primitive::AssignUnions { to, from }
            }
            "assign_union_stack" => {
                let a = args(2)?;
                let (to, from) = (self.union_stack(&a[0], scope)?, self.union_stack(&a[1], scope)?);
                let members = |stack: u32| -> Vec<u32> {
                    let unions = &self.ast.union_stacks[stack as usize].unions;
                    unions.iter().flat_map(|u| self.ast.unions[*u as usize].headers.clone()).collect()
                };
                if !self.same_types(&members(to), &members(from)) {
                    return node.wrong("two header union stacks of one type and size");
                }
                Primitive::AssignUnionStack { to, from }
            }
            "add_header" | "add_header_fast" => Primitive::AddHeader(self.header_expr(&args(1)?[0], scope)?),
            "remove_header" => Primitive::RemoveHeader(self.header_expr(&args(1)?[0], scope)?),
            "push" | "pop" => {
                let a = args(2)?;
                let (stack, count) = (self.stack_expr(&a[0], scope)?, data(&a[1])?);
                if op == "push" { Primitive::Push { stack, count } } else { Primitive::Pop { stack, count } }
            }
            "_jump" => Primitive::Jump(self.jump_target(&args(1)?[0])?),
            "_jump_if_zero" => {
                let a = args(2)?;
                Primitive::JumpIfZero {
                    condition: self.data_or_bool(&a[0], scope)?,
                    target: self.jump_target(&a[1])?,
                }
            }
            "exit" => Primitive::Exit,
            "drop" => Primitive::Drop,
            "mark_to_drop" => {
                args(1)?;
                Primitive::Drop
            }
            "count" => {
                let a = args(2)?;
                let counter = self.named(&a[0], "counter_array", &self.names.counters)?;
                Primitive::Count { counter, index: data(&a[1])? }
            }
            "execute_meter" => {
                let a = args(3)?;
                let meter = self.named(&a[0], "meter_array", &self.names.meters)?;
                Primitive::Meter { meter, index: data(&a[1])?, to: self.place(&a[2], scope)? }
            }
            "register_read" => {
                let a = args(3)?;
                let register = self.named(&a[1], "register_array", &self.names.registers)?;
                Primitive::RegisterRead { to: self.place(&a[0], scope)?, register, index: data(&a[2])? }
            }
            "register_write" => {
                let a = args(3)?;
                let register = self.named(&a[0], "register_array", &self.names.registers)?;
                let value = self.data_or_bool(&a[2], scope)?;
                Primitive::RegisterWrite { register, index: data(&a[1])?, value }
            }
            "modify_field_with_hash_based_offset" => {
                let a = args(4)?;
                let calculation = self.named(&a[2], "calculation", &self.names.calculations)?;
                Primitive::Hash {
                    to: self.place(&a[0], scope)?,
                    base: data(&a[1])?,
                    calculation,
                    size: data(&a[3])?,
                }
            }
            "modify_field_rng_uniform" => {
                let a = args(3)?;
                Primitive::Random { to: self.place(&a[0], scope)?, low: data(&a[1])?, high: data(&a[2])? }
            }
            "generate_digest" => Primitive::Digest { list: data(&args(2)?[1])? },
            "clone_ingress_pkt_to_egress" => {
                let a = args(2)?;
                Primitive::CloneIngress { session: data(&a[0])?, fields: data(&a[1])? }
            }
            "clone_egress_pkt_to_egress" => {
                let a = args(2)?;
                Primitive::CloneEgress { session: data(&a[0])?, fields: data(&a[1])? }
            }
            "resubmit" => Primitive::Resubmit { fields: data(&args(1)?[0])? },
            "recirculate" => Primitive::Recirculate { fields: data(&args(1)?[0])? },
            "truncate" => Primitive::Truncate { length: data(&args(1)?[0])? },
            "assert" | "assume" => {
                let what = if op == "assert" { "assert" } else { "assume" };
                Primitive::Assert { condition: self.data_or_bool(&args(1)?[0], scope)?, what }
            }
            "log_msg" => {
                let a = args(2)?;
                let values = a[1].get("value").items()?;
                let args = values.iter().map(|v| self.data_or_bool(v, scope)).collect::<Result<Vec<_>>>()?;
                Primitive::Log { format: a[0].get("value").string()?.to_owned(), args }
            }
            "no_op" => Primitive::Nop,
            _ => return Err(op_node.unsupported(format!("primitive {op:?}"))),
        };
        Ok(primitive)
    }

    /// P4_14's arithmetic primitives as assignments.
    fn legacy_arithmetic(&self, node: &Node, scope: Scope, two: bool) -> Result<Primitive> {
        use super::super::ast::BinOp;
        let op = node.get("op").string()?;
        let a = node.get("parameters").tuple(if two { 2 } else { 3 })?;
        let bin = match op {
            "add" | "add_to_field" => BinOp::Add,
            "subtract" | "subtract_from_field" => BinOp::Sub,
            "bit_xor" => BinOp::Xor,
            "bit_or" => BinOp::Or,
            "bit_and" => BinOp::And,
            "shift_left" => BinOp::Shl,
            _ => BinOp::Shr,
        };
        let (left, right) = if two { (&a[0], &a[1]) } else { (&a[1], &a[2]) };
        let value = Expr::Binary(bin, Box::new(self.data(left, scope)?), Box::new(self.data(right, scope)?));
        Ok(Primitive::Assign { to: self.place(&a[0], scope)?, value })
    }

    fn data_or_bool(&self, node: &Node, scope: Scope) -> Result<Expr> {
        let expr = match self.boolean(node, scope) {
            Ok(e) => e,
            Err(_) => self.data(node, scope)?,
        };
        Ok(match type_of(&expr) {
            Type::Data => expr,
            Type::Bool => Expr::Unary(super::super::ast::UnOp::ToData, Box::new(expr)),
        })
    }

    fn same_types(&self, one: &[u32], other: &[u32]) -> bool {
        let ty = |header: &u32| self.ast.headers[*header as usize].ty;
        one.len() == other.len() && one.iter().map(ty).eq(other.iter().map(ty))
    }

    fn jump_target(&self, node: &Node) -> Result<usize> {
        match node.get("value").hex()?.to_u64() {
            Some(v) if v <= u64::from(u32::MAX) => Ok(v as usize),
            _ => node.wrong("a jump target"),
        }
    }

    fn named(
        &self,
        node: &Node,
        ty: &'static str,
        names: &std::collections::HashMap<String, u32>,
    ) -> Result<u32> {
        if node.get("type").string()? != ty {
            return node.wrong(format!("a {ty}"));
        }
        let name = node.get("value");
        names.get(name.string()?).copied().ok_or_else(|| name.dangling(ty, name.string().unwrap_or("")))
    }

    /// A header that is named outright.
    pub(super) fn fixed_header(&self, node: &Node) -> Result<u32> {
        match self.header_expr(node, Scope::NONE)? {
            HeaderExpr::Fixed(h) => Ok(h),
            _ => node.wrong("a header's name"),
        }
    }
}
