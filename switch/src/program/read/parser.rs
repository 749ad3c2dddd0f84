//! Parser and deparser.

use std::collections::HashMap;

use super::super::ast::{Case, Expr, ParserOp, ParserState, SelectKey};
use super::super::json::Node;
use super::expr::Scope;
use super::{MAX_BITS, Reader, Result};

impl Reader {
    pub(super) fn parser(&mut self, root: &Node) -> Result<()> {
        let parsers = root.get("parsers");
        let all = parsers.items()?;
        let mut chosen = None;
        for node in all {
            if chosen.is_none() || node.get("name").string()? == "parser" {
                chosen = Some(node);
            }
        }
        let Some(node) = chosen else { return parsers.wrong("at least one parser") };
        let states = node.get("parse_states").items()?;
        let mut names = HashMap::new();
        for (i, state) in states.iter().enumerate() {
            names.insert(state.get("name").string()?.to_owned(), i);
        }
        for state in &states {
            let state = self.parser_state(state, &names)?;
            self.ast.states.push(state);
        }
        let start = node.get("init_state");
        self.ast.parser_start = match start.optional_string()? {
            None => None,
            Some(name) => Some(*names.get(name).ok_or_else(|| start.dangling("parser state", name))?),
        };
        Ok(())
    }

    fn parser_state(&self, node: &Node, names: &HashMap<String, usize>) -> Result<ParserState> {
        let mut state = ParserState {
            ops: Vec::new(),
            keys: Vec::new(),
            cases: Vec::new(),
            default: None,
            path: node.path(),
        };
        for op in node.get("parser_ops").items()? {
            state.ops.push(self.parser_op(&op)?);
        }
        for key in node.get("transition_key").items()? {
            state.keys.push(self.select_key(&key)?);
        }
        let width: usize = state.keys.iter().map(|k| self.select_bits(k).div_ceil(8) as usize).sum();
        for transition in node.get("transitions").items()? {
            let next = transition.get("next_state");
            let target = match next.optional_string()? {
                None => None,
                Some(name) => Some(*names.get(name).ok_or_else(|| next.dangling("parser state", name))?),
            };
            let value = transition.get("value");
            let mask = || -> Result<Option<Vec<u8>>> {
                let mask = transition.get("mask");
                if mask.is_null() { Ok(None) } else { key_bytes(&mask, width).map(Some) }
            };
            let ty = transition.get("type").optional_string()?;
            match ty.unwrap_or(if matches!(value.string(), Ok("default")) { "default" } else { "hexstr" }) {
                "default" => state.default = target,
                "hexstr" => {
                    let case = Case::Value { value: key_bytes(&value, width)?, mask: mask()? };
                    state.cases.push((case, target));
                }
                "parse_vset" => {
                    let name = value.string()?;
                    let set = self.names.value_sets.get(name).copied();
                    let set = set.ok_or_else(|| value.dangling("parser value set", name))?;
                    state.cases.push((Case::ValueSet { set, mask: mask()? }, target));
                }
                _ => return transition.get("type").wrong("default, hexstr or parse_vset"),
            }
        }
        if state.keys.is_empty() {
            state.cases.clear();
        }
        Ok(state)
    }

    fn parser_op(&self, node: &Node) -> Result<ParserOp> {
        let op = node.get("op");
        let params = node.get("parameters");
        Ok(match op.string()? {
            "extract" => {
                let target = &params.tuple(1)?[0];
                let value = target.get("value");
                match target.get("type").string()? {
                    "regular" => {
                        let header = self.header(&value)?;
                        if self.is_variable_header(header) {
                            return value.wrong("a header without variable-length field");
                        }
                        ParserOp::Extract(header)
                    }
                    "stack" => {
                        let stack = self.stack(&value)?;
                        if self.is_variable_header(self.ast.stacks[stack as usize].headers[0]) {
                            return value.wrong("a header without variable-length field");
                        }
                        ParserOp::ExtractNext(stack)
                    }
                    "union_stack" => {
                        let (stack, member) = self.union_member(&value)?;
                        ParserOp::ExtractUnionNext { stack, member }
                    }
                    _ => return target.get("type").wrong("regular, stack or union_stack"),
                }
            }
            "extract_VL" => {
                let parts = params.tuple(2)?;
                let value = parts[0].get("value");
                let bits = self.data(&parts[1], Scope::NONE)?;
                let (header, op) = match parts[0].get("type").string()? {
                    "regular" => {
                        let header = self.header(&value)?;
                        (header, ParserOp::ExtractVariable { header, bits })
                    }
                    "stack" => {
                        let stack = self.stack(&value)?;
                        let first = self.ast.stacks[stack as usize].headers[0];
                        (first, ParserOp::ExtractNextVariable { stack, bits })
                    }
                    _ => return Err(node.unsupported("extract_VL to a header union stack")),
                };
                if !self.is_variable_header(header) {
                    return value.wrong("a header with a variable-length field");
                }
                op
            }
            "set" => {
                let parts = params.tuple(2)?;
                if parts[0].get("type").string()? != "field" {
                    return parts[0].wrong("a field");
                }
                let to = self.aliased_field(&parts[0].get("value"))?;
                let value = parts[1].get("value");
                match parts[1].get("type").string()? {
                    "field" => {
                        let from = self.aliased_field(&value)?;
                        match (self.is_variable(to), self.is_variable(from)) {
                            (false, false) => ParserOp::Set { to, value: Expr::Field(from) },
                            (true, true) => {
                                ParserOp::Run(super::super::ast::Primitive::AssignVariable { to, from })
                            }
                            _ => return node.wrong("two fields of one sort"),
                        }
                    }
                    "lookahead" => {
                        let (offset, bits) = lookahead(&value)?;
                        ParserOp::SetLookahead { to, offset, bits }
                    }
                    _ => ParserOp::Set { to, value: self.data(&parts[1], Scope::NONE)? },
                }
            }
            "verify" => {
                let parts = params.tuple(2)?;
                let condition = self.boolean(&parts[0], Scope::NONE)?;
                ParserOp::Verify { condition, error: self.data(&parts[1], Scope::NONE)? }
            }
            "shift" => {
                let bytes = params.tuple(1)?[0].bounded(MAX_BITS)? as u64;
                ParserOp::Advance(Expr::Const(super::super::num::Num::from_u64(bytes * 8)))
            }
            "advance" => ParserOp::Advance(self.data(&params.tuple(1)?[0], Scope::NONE)?),
            "primitive" => {
                let call = &params.tuple(1)?[0];
                match self.primitive(call, Scope::NONE)? {
                    super::super::ast::Primitive::Jump(_)
                    | super::super::ast::Primitive::JumpIfZero { .. } => {
                        return call.wrong("a primitive without jumps");
                    }
                    primitive => ParserOp::Run(primitive),
                }
            }
            _ => return op.wrong("extract, extract_VL, set, verify, shift, advance or primitive"),
        })
    }

    fn union_member(&self, node: &Node) -> Result<(u32, u32)> {
        let parts = node.tuple(2)?;
        let name = parts[0].string()?;
        let stack = self.names.union_stacks.get(name).copied();
        let stack = stack.ok_or_else(|| parts[0].dangling("header union stack", name))?;
        let union = self.ast.union_stacks[stack as usize].unions[0];
        let member_name = parts[1].string()?;
        let member = self.ast.unions[union as usize].members.iter().position(|m| m == member_name);
        let member = member.ok_or_else(|| parts[1].dangling("union member", member_name))?;
        Ok((stack, member as u32))
    }

    fn select_key(&self, node: &Node) -> Result<SelectKey> {
        let value = node.get("value");
        Ok(match node.get("type").string()? {
            "field" => SelectKey::Field(self.aliased_field(&value)?),
            "stack_field" => {
                let (stack, field) = self.stack_field(&value)?;
                SelectKey::Last { stack, field }
            }
            "union_stack_field" => {
                let parts = value.tuple(3)?;
                let name = parts[0].string()?;
                let stack = self.names.union_stacks.get(name).copied();
                let stack = stack.ok_or_else(|| parts[0].dangling("header union stack", name))?;
                let union = &self.ast.unions[self.ast.union_stacks[stack as usize].unions[0] as usize];
                let member = union.members.iter().position(|m| parts[1].string().is_ok_and(|n| n == m));
                let member = member.ok_or_else(|| parts[1].dangling("union member", ""))?;
                let ty = self.ast.headers[union.headers[member] as usize].ty;
                let field = self.field_in_type(ty, &parts[2])?;
                SelectKey::UnionLast { stack, member: member as u32, field }
            }
            "lookahead" => {
                let (offset, bits) = lookahead(&value)?;
                SelectKey::Lookahead { offset, bits }
            }
            _ => return node.get("type").wrong("field, stack_field, union_stack_field or lookahead"),
        })
    }

    fn select_bits(&self, key: &SelectKey) -> u32 {
        let in_type =
            |header: u32, field: u32| self.field_bits(super::super::ast::FieldRef { header, field });
        match key {
            SelectKey::Field(f) => self.field_bits(*f),
            SelectKey::Last { stack, field } => in_type(self.ast.stacks[*stack as usize].headers[0], *field),
            SelectKey::UnionLast { stack, member, field } => {
                let union = self.ast.union_stacks[*stack as usize].unions[0];
                in_type(self.ast.unions[union as usize].headers[*member as usize], *field)
            }
            SelectKey::Lookahead { bits, .. } => *bits,
        }
    }

    pub(super) fn is_variable_header(&self, header: u32) -> bool {
        self.ast.types[self.ast.headers[header as usize].ty].fields.iter().any(|f| f.variable)
    }

    pub(super) fn deparser(&mut self, root: &Node) -> Result<()> {
        let mut chosen = None;
        for node in root.get("deparsers").items()? {
            if chosen.is_none() || node.get("name").string()? == "deparser" {
                chosen = Some(node);
            }
        }
        let Some(node) = chosen else { return root.get("deparsers").wrong("at least one deparser") };
        for name in node.get("order").items()? {
            let header = self.header(&name)?;
            self.ast.deparser.push(header);
        }
        if let Some(first) = node.get("primitives").items()?.first() {
            return Err(first.unsupported("a primitive in a deparser"));
        }
        Ok(())
    }
}

fn lookahead(node: &Node) -> Result<(u32, u32)> {
    let parts = node.tuple(2)?;
    let (offset, bits) = (parts[0].bounded(MAX_BITS)? as u32, parts[1].bounded(MAX_BITS)? as u32);
    if bits == 0 { parts[1].wrong("a width of at least 1") } else { Ok((offset, bits)) }
}

fn key_bytes(node: &Node, width: usize) -> Result<Vec<u8>> {
    match node.hex()?.to_bytes(width) {
        Some(bytes) => Ok(bytes),
        None => node.wrong(format!("a hexadecimal string of at most {width} bytes, as the key")),
    }
}
