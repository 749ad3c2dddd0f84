//! Expressions.

use super::super::ast::{BinOp, Expr, HeaderExpr, Place, Type, UnOp, VALID};
use super::super::json::Node;
use super::super::num::Num;
use super::{Reader, Result};

/// What a sub-expression can be.
enum Value {
    Expr(Expr),
    Header(HeaderExpr),
    Stack(u32),
    Union(UnionExpr),
    UnionStack(u32),
}

enum UnionExpr {
    Fixed(u32),
    Indexed { stack: u32, index: Box<Expr> },
}

/// What an expression may refer to beside fields: the parameters of its action.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub(super) params: usize,
}

impl Scope {
    pub(super) const NONE: Self = Self { params: 0 };
}

impl Reader {
    /// An integer-valued expression: `{type, value}`.
    pub(super) fn data(&self, node: &Node, scope: Scope) -> Result<Expr> {
        match self.value(node, scope)? {
            Value::Expr(e) if type_of(&e) == Type::Data => Ok(e),
            _ => node.wrong("an integer expression"),
        }
    }

    /// A boolean expression.
    pub(super) fn boolean(&self, node: &Node, scope: Scope) -> Result<Expr> {
        match self.value(node, scope)? {
            Value::Expr(e) if type_of(&e) == Type::Bool => Ok(e),
            _ => node.wrong("a boolean expression"),
        }
    }

    /// A header, named or computed.
    pub(super) fn header_expr(&self, node: &Node, scope: Scope) -> Result<HeaderExpr> {
        match self.value(node, scope)? {
            Value::Header(h) => Ok(h),
            _ => node.wrong("a header"),
        }
    }

    /// A stack by `{type: header_stack}` or an expression of one.
    pub(super) fn stack_expr(&self, node: &Node, scope: Scope) -> Result<u32> {
        match self.value(node, scope)? {
            Value::Stack(s) => Ok(s),
            _ => node.wrong("a header stack"),
        }
    }

    /// The headers of a union that is named outright.
    pub(super) fn union_members(&self, node: &Node, scope: Scope) -> Result<Vec<u32>> {
        match self.value(node, scope)? {
            Value::Union(UnionExpr::Fixed(u)) => Ok(self.ast.unions[u as usize].headers.clone()),
            Value::Union(UnionExpr::Indexed { .. }) => {
                Err(node.unsupported("a union picked at run time in an assignment of unions"))
            }
            _ => node.wrong("a header union"),
        }
    }

    /// A stack of unions.
    pub(super) fn union_stack(&self, node: &Node, scope: Scope) -> Result<u32> {
        match self.value(node, scope)? {
            Value::UnionStack(s) => Ok(s),
            _ => node.wrong("a header union stack"),
        }
    }

    /// Where an assignment may go.
    pub(super) fn place(&self, node: &Node, scope: Scope) -> Result<Place> {
        match self.value(node, scope)? {
            Value::Expr(Expr::Field(f)) if f.field != VALID && !self.is_variable(f) => Ok(Place::Field(f)),
            Value::Expr(Expr::Last { stack, field }) if field != VALID => Ok(Place::Last { stack, field }),
            Value::Expr(Expr::Access { header, field }) if field != VALID => {
                Ok(Place::Access { header, field })
            }
            Value::Expr(Expr::Register { register, index }) => {
                Ok(Place::Register { register, index: *index })
            }
            _ => node.wrong("something that can be assigned to"),
        }
    }

    fn value(&self, node: &Node, scope: Scope) -> Result<Value> {
        let value = node.get("value");
        let expr = match node.get("type").string()? {
            // Of a variable-length field BMv2 takes the number that its bits make, whatever its length.
            "field" => Expr::Field(self.field(&value)?),
            "hexstr" => Expr::Const(value.hex()?),
            "bool" => Expr::Bool(value.flag(false)?),
            "local" | "runtime_data" => {
                let index = value.bounded(u64::from(u32::MAX))?;
                if index >= scope.params {
                    return Err(value.dangling("parameter with index", index));
                }
                Expr::Param(index as u32)
            }
            "stack_field" => {
                let (stack, field) = self.stack_field(&value)?;
                Expr::Last { stack, field }
            }
            "register" => {
                let parts = value.tuple(2)?;
                let name = parts[0].string()?;
                let register = self.names.registers.get(name).copied();
                let register = register.ok_or_else(|| parts[0].dangling("register array", name))?;
                Expr::Register { register, index: Box::new(self.data(&parts[1], scope)?) }
            }
            "header" => return Ok(Value::Header(HeaderExpr::Fixed(self.header(&value)?))),
            "header_stack" => return Ok(Value::Stack(self.stack(&value)?)),
            "header_union" => {
                let name = value.string()?;
                let union = self.names.unions.get(name).copied();
                return Ok(Value::Union(UnionExpr::Fixed(
                    union.ok_or_else(|| value.dangling("header union", name))?,
                )));
            }
            "header_union_stack" => {
                let name = value.string()?;
                let stack = self.names.union_stacks.get(name).copied();
                return Ok(Value::UnionStack(
                    stack.ok_or_else(|| value.dangling("header union stack", name))?,
                ));
            }
            // An expression inside an expression: p4c wraps the whole once more.
            "expression" if value.has("type") => return self.value(&value, scope),
            "expression" => return self.operation(&value, scope),
            _ => return node.get("type").wrong("a type of expression"),
        };
        Ok(Value::Expr(expr))
    }

    fn operation(&self, node: &Node, scope: Scope) -> Result<Value> {
        let op_node = node.get("op");
        let op = op_node.string()?;
        let (left, right) = (node.get("left"), node.get("right"));
        let expr = match op {
            "?" => {
                let cond = self.boolean(&node.get("cond"), scope)?;
                let (Value::Expr(a), Value::Expr(b)) =
                    (self.value(&left, scope)?, self.value(&right, scope)?)
                else {
                    return Err(node.unsupported("a conditional of headers"));
                };
                if type_of(&a) != type_of(&b) {
                    return node.wrong("both sides of a conditional of one type");
                }
                Expr::Cond(Box::new(cond), Box::new(a), Box::new(b))
            }
            "==" | "!=" => return self.equality(node, op == "!=", scope),
            "access_field" => {
                let header = self.header_expr(&left, scope)?;
                let types = &self.ast.types[self.type_of_header(&header)];
                let field = right.bounded(u64::from(u32::MAX))?;
                if field == types.fields.len() {
                    Expr::Access { header, field: VALID }
                } else if field < types.fields.len() && !types.fields[field].variable {
                    Expr::Access { header, field: field as u32 }
                } else {
                    return Err(right.dangling("field with index", field));
                }
            }
            "access_union_header" => {
                let Value::Union(union) = self.value(&left, scope)? else {
                    return left.wrong("a header union");
                };
                let member = right.bounded(u64::from(u32::MAX))?;
                let members = match &union {
                    UnionExpr::Fixed(u) => &self.ast.unions[*u as usize].headers,
                    UnionExpr::Indexed { stack, .. } => {
                        let first = self.ast.union_stacks[*stack as usize].unions[0];
                        &self.ast.unions[first as usize].headers
                    }
                };
                let Some(header) = members.get(member) else {
                    return Err(right.dangling("union member with index", member));
                };
                return Ok(Value::Header(match union {
                    UnionExpr::Fixed(_) => HeaderExpr::Fixed(*header),
                    UnionExpr::Indexed { stack, index } => {
                        HeaderExpr::UnionIndexed { stack, index, member: member as u32 }
                    }
                }));
            }
            "dereference_header_stack" => {
                let stack = self.stack_expr(&left, scope)?;
                let index = Box::new(self.data(&right, scope)?);
                return Ok(Value::Header(HeaderExpr::Indexed { stack, index }));
            }
            "dereference_union_stack" => {
                let Value::UnionStack(stack) = self.value(&left, scope)? else {
                    return left.wrong("a header union stack");
                };
                let index = Box::new(self.data(&right, scope)?);
                return Ok(Value::Union(UnionExpr::Indexed { stack, index }));
            }
            "last_stack_index" | "size_stack" => {
                let stack = self.stack_expr(&right, scope)?;
                if op == "size_stack" { Expr::StackSize(stack) } else { Expr::LastIndex(stack) }
            }
            "valid" => Expr::Valid(self.header_expr(&right, scope)?),
            "valid_union" => match self.value(&right, scope)? {
                Value::Union(UnionExpr::Fixed(u)) => Expr::ValidUnion(u),
                _ => return right.wrong("a header union"),
            },
            "not" => Expr::Unary(UnOp::BoolNot, Box::new(self.boolean(&right, scope)?)),
            "~" => Expr::Unary(UnOp::Complement, Box::new(self.data(&right, scope)?)),
            "d2b" => Expr::Unary(UnOp::ToBool, Box::new(self.data(&right, scope)?)),
            "b2d" => Expr::Unary(UnOp::ToData, Box::new(self.boolean(&right, scope)?)),
            "and" | "or" => {
                let bin = if op == "and" { BinOp::BoolAnd } else { BinOp::BoolOr };
                let left = Box::new(self.boolean(&left, scope)?);
                Expr::Binary(bin, left, Box::new(self.boolean(&right, scope)?))
            }
            // Unary plus and minus.
            "+" | "-" if left.is_null() => {
                let bin = if op == "+" { BinOp::Add } else { BinOp::Sub };
                let zero = Box::new(Expr::Const(Num::from_u64(0)));
                Expr::Binary(bin, zero, Box::new(self.data(&right, scope)?))
            }
            _ => {
                let Some(bin) = binary(op) else {
                    return op_node.wrong("an operator of the bmv2 expression language");
                };
                let left = Box::new(self.data(&left, scope)?);
                Expr::Binary(bin, left, Box::new(self.data(&right, scope)?))
            }
        };
        Ok(Value::Expr(expr))
    }

    fn equality(&self, node: &Node, negate: bool, scope: Scope) -> Result<Value> {
        let (left, right) = (self.value(&node.get("left"), scope)?, self.value(&node.get("right"), scope)?);
        match (left, right) {
            (Value::Expr(a), Value::Expr(b)) if type_of(&a) == type_of(&b) => {
                let op = if negate { BinOp::Ne } else { BinOp::Eq };
                Ok(Value::Expr(Expr::Binary(op, Box::new(a), Box::new(b))))
            }
            (Value::Header(left), Value::Header(right)) => {
                Ok(Value::Expr(Expr::HeaderEq { left, right, negate }))
            }
            (Value::Union(UnionExpr::Fixed(a)), Value::Union(UnionExpr::Fixed(b))) => {
                Ok(Value::Expr(self.union_equality(a, b, negate)))
            }
            _ => node.wrong("both sides of a comparison of one type"),
        }
    }

    /// Unions are equal if the same member is valid in both and equal.
    fn union_equality(&self, a: u32, b: u32, negate: bool) -> Expr {
        let pairs = self.ast.unions[a as usize].headers.iter().zip(&self.ast.unions[b as usize].headers);
        let any = pairs
            .map(|(l, r)| Expr::HeaderEq {
                left: HeaderExpr::Fixed(*l),
                right: HeaderExpr::Fixed(*r),
                negate: false,
            })
            .reduce(|x, y| Expr::Binary(BinOp::BoolOr, Box::new(x), Box::new(y)))
            .unwrap_or(Expr::Bool(false));
        if negate { Expr::Unary(UnOp::BoolNot, Box::new(any)) } else { any }
    }

    pub(super) fn type_of_header(&self, header: &HeaderExpr) -> usize {
        match header {
            HeaderExpr::Fixed(h) => self.ast.headers[*h as usize].ty,
            HeaderExpr::Indexed { stack, .. } => self.ast.stacks[*stack as usize].ty,
            HeaderExpr::UnionIndexed { stack, member, .. } => {
                let union = self.ast.union_stacks[*stack as usize].unions[0];
                let header = self.ast.unions[union as usize].headers[*member as usize];
                self.ast.headers[header as usize].ty
            }
        }
    }
}

fn binary(op: &str) -> Option<BinOp> {
    Some(match op {
        "+" => BinOp::Add,
        "-" => BinOp::Sub,
        "*" => BinOp::Mul,
        "/" => BinOp::Div,
        "%" => BinOp::Mod,
        "<<" => BinOp::Shl,
        ">>" => BinOp::Shr,
        "&" => BinOp::And,
        "|" => BinOp::Or,
        "^" => BinOp::Xor,
        "<" => BinOp::Lt,
        "<=" => BinOp::Le,
        ">" => BinOp::Gt,
        ">=" => BinOp::Ge,
        "two_comp_mod" => BinOp::TwosComplement,
        "usat_cast" => BinOp::SaturateUnsigned,
        "sat_cast" => BinOp::SaturateSigned,
        _ => return None,
    })
}

/// Type of an expression; operands were checked when it was built.
pub(super) fn type_of(expr: &Expr) -> Type {
    match expr {
        Expr::Bool(_) | Expr::Valid(_) | Expr::ValidUnion(_) | Expr::HeaderEq { .. } => Type::Bool,
        Expr::Unary(UnOp::BoolNot | UnOp::ToBool, _) => Type::Bool,
        Expr::Binary(op, ..) => match op {
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => Type::Bool,
            BinOp::BoolAnd | BinOp::BoolOr => Type::Bool,
            _ => Type::Data,
        },
        Expr::Cond(_, a, _) => type_of(a),
        _ => Type::Data,
    }
}
