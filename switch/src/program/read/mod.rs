//! From the JSON document to the [`Ast`]: names and ids become indices, shapes are checked.

mod actions;
mod expr;
mod headers;
mod parser;
mod pipeline;
mod state;

use std::collections::HashMap;

use serde_json::Value;

use super::ast::{Ast, FieldRef, VALID};
use super::json::{LoadError, Node};
use super::{MatchKind, Objects};

type Result<T> = std::result::Result<T, LoadError>;

/// Widest field, parameter or register accepted, in bits.
const MAX_BITS: u64 = 1 << 16;
/// Largest array or table accepted, in elements.
const MAX_SIZE: u64 = 1 << 26;

/// Names seen so far.
#[derive(Default)]
struct Names {
    types: HashMap<String, usize>,
    headers: HashMap<String, u32>,
    header_ids: HashMap<i64, u32>,
    stacks: HashMap<String, u32>,
    unions: HashMap<String, u32>,
    union_ids: HashMap<i64, u32>,
    union_stacks: HashMap<String, u32>,
    union_types: HashMap<String, Vec<String>>,
    registers: HashMap<String, u32>,
    counters: HashMap<String, u32>,
    direct_counters: HashMap<String, String>,
    meters: HashMap<String, u32>,
    calculations: HashMap<String, u32>,
    value_sets: HashMap<String, u32>,
    action_ids: HashMap<i64, usize>,
    profiles: HashMap<String, u32>,
}

struct Reader {
    ast: Ast,
    objects: Objects,
    names: Names,
}

/// Reads a whole document.
pub(crate) fn read(document: &Value) -> Result<(Ast, Objects)> {
    let root = Node::root(document);
    if !document.is_object() {
        return root.wrong("the object that p4c-bm2-ss writes");
    }
    check_version(&root)?;
    let mut reader = Reader { ast: Ast::default(), objects: Objects::default(), names: Names::default() };
    reader.header_types(&root)?;
    reader.headers(&root)?;
    reader.aliases(&root)?;
    reader.value_sets(&root)?;
    reader.errors(&root)?;
    // Actions and parser states refer to calculations and arrays, so these come first.
    reader.calculations(&root)?;
    reader.counters(&root)?;
    reader.meters(&root)?;
    reader.registers(&root)?;
    reader.parser(&root)?;
    reader.deparser(&root)?;
    reader.actions(&root)?;
    reader.pipelines(&root)?;
    reader.checksums(&root)?;
    reader.learn_lists(&root)?;
    reader.field_lists(&root)?;
    if let Some(first) = root.get("extern_instances").items()?.first() {
        return Err(first.unsupported("an extern instance"));
    }
    Ok((reader.ast, reader.objects))
}

fn check_version(root: &Node) -> Result<()> {
    let version = root.get("__meta__").get("version");
    if version.is_null() {
        return Ok(());
    }
    let parts = version.tuple(2)?;
    if parts[0].unsigned()? != 2 {
        return version.wrong("major version 2 of the bmv2 json format");
    }
    parts[1].unsigned()?;
    Ok(())
}

impl Reader {
    fn header(&self, node: &Node) -> Result<u32> {
        let name = node.string()?;
        self.names.headers.get(name).copied().ok_or_else(|| node.dangling("header", name))
    }

    fn stack(&self, node: &Node) -> Result<u32> {
        let name = node.string()?;
        self.names.stacks.get(name).copied().ok_or_else(|| node.dangling("header stack", name))
    }

    fn field_in_type(&self, ty: usize, node: &Node) -> Result<u32> {
        let name = node.string()?;
        if name == "$valid$" {
            return Ok(VALID);
        }
        let fields = &self.ast.types[ty].fields;
        let found = fields.iter().position(|f| f.name == name).map(|i| i as u32);
        found.ok_or_else(|| node.dangling("field of this header", name))
    }

    /// `["header", "field"]`.
    fn field(&self, node: &Node) -> Result<FieldRef> {
        let parts = node.tuple(2)?;
        let header = self.header(&parts[0])?;
        let field = self.field_in_type(self.ast.headers[header as usize].ty, &parts[1])?;
        Ok(FieldRef { header, field })
    }

    /// As [`Self::field`], through the aliases first (what the parser's `set` does).
    fn aliased_field(&self, node: &Node) -> Result<FieldRef> {
        let parts = node.tuple(2)?;
        let name = format!("{}.{}", parts[0].string()?, parts[1].string()?);
        match self.ast.aliases.get(&name) {
            Some(field) => Ok(*field),
            None => self.field(node),
        }
    }

    /// `["stack", "field"]`.
    fn stack_field(&self, node: &Node) -> Result<(u32, u32)> {
        let parts = node.tuple(2)?;
        let stack = self.stack(&parts[0])?;
        let field = self.field_in_type(self.ast.stacks[stack as usize].ty, &parts[1])?;
        Ok((stack, field))
    }

    fn field_bits(&self, field: FieldRef) -> u32 {
        if field.field == VALID {
            return 1;
        }
        self.ast.types[self.ast.headers[field.header as usize].ty].fields[field.field as usize].bits
    }

    fn is_variable(&self, field: FieldRef) -> bool {
        field.field != VALID
            && self.ast.types[self.ast.headers[field.header as usize].ty].fields[field.field as usize]
                .variable
    }
}

fn match_kind(node: &Node) -> Result<MatchKind> {
    match node.string()? {
        "exact" => Ok(MatchKind::Exact),
        "lpm" => Ok(MatchKind::Lpm),
        "ternary" => Ok(MatchKind::Ternary),
        "range" => Ok(MatchKind::Range),
        "valid" => Ok(MatchKind::Valid),
        _ => node.wrong("one of exact, lpm, ternary, range, valid"),
    }
}
