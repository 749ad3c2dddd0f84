//! Where everything lives in the packet's memory:
//!
//! ```text
//! validity | stack counts | metadata that must read 0 | other metadata | headers | parameters | temporaries | constants
//! ^------------- cleared for every packet ------------^                         ^-- end of what a copy carries
//! ```

use std::collections::{HashMap, HashSet};

use super::ast::{
    Ast, CalcInput, Expr, FieldRef, FlowNode, HeaderExpr, ParserOp, Place, Primitive, SelectKey, VALID,
};
use super::op::Loc;

/// Room for temporaries of one statement, in limbs.
pub(crate) const TEMPS: u32 = 16 * 1024;

/// Limbs of a cache line. Wide values begin at one where they can: a vector that two lines share takes twice the time.
pub(crate) const LINE: u32 = 8;

/// Whether a value of this width fills a line.
pub(crate) fn is_wide(bits: u32) -> bool {
    u32::from(limbs_of(bits)) >= LINE
}

#[derive(Debug, Clone)]
pub(crate) struct FieldLoc {
    pub(crate) at: Loc,
    pub(crate) limbs: u16,
    pub(crate) bits: u32,
    pub(crate) signed: bool,
    pub(crate) saturating: bool,
    /// Position in the header on the wire, without variable-length fields.
    pub(crate) bit_offset: u32,
    pub(crate) variable: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct HeaderLoc {
    pub(crate) valid: Loc,
    /// First limb of the fields and their number; fields of one header are contiguous.
    pub(crate) base: Loc,
    pub(crate) limbs: u32,
    pub(crate) fields: Vec<FieldLoc>,
    /// Length on the wire in bytes, without a variable-length field.
    pub(crate) bytes: u32,
    pub(crate) metadata: bool,
    /// Variable-length field and the limb that holds its length in bits.
    pub(crate) variable: Option<(u32, Loc)>,
    pub(crate) union_peers: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct StackLoc {
    /// Limb that holds the number of elements counted.
    pub(crate) next: Loc,
    pub(crate) headers: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct UnionStackLoc {
    pub(crate) next: Loc,
    /// Headers of each element, by member.
    pub(crate) elements: Vec<Vec<u32>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    pub(crate) headers: Vec<HeaderLoc>,
    pub(crate) stacks: Vec<StackLoc>,
    pub(crate) union_stacks: Vec<UnionStackLoc>,
    /// Where the metadata begins that must read 0.
    pub(crate) metadata: Loc,
    /// Everything before is cleared for every packet.
    pub(crate) reset_end: Loc,
    /// Everything before belongs to the packet.
    pub(crate) packet_end: Loc,
    pub(crate) params: Loc,
    pub(crate) temps: Loc,
    pub(crate) consts: Loc,
}

pub(crate) fn limbs_of(bits: u32) -> u16 {
    bits.div_ceil(64).max(1) as u16
}

impl Layout {
    pub(crate) fn new(ast: &Ast) -> Self {
        let exposed = exposed_metadata(ast);
        let next = std::cell::Cell::new(0);
        let take = |n: u32| next.replace(next.get() + n);
        let align = || next.set(next.get().next_multiple_of(LINE));
        let valid: Vec<Loc> = ast.headers.iter().map(|_| take(1)).collect();
        let stacks: Vec<StackLoc> =
            ast.stacks.iter().map(|s| StackLoc { next: take(1), headers: s.headers.clone() }).collect();
        let union_stacks = ast
            .union_stacks
            .iter()
            .map(|s| UnionStackLoc {
                next: take(1),
                elements: s.unions.iter().map(|u| ast.unions[*u as usize].headers.clone()).collect(),
            })
            .collect();
        // Lengths of variable-length fields are reset too.
        let variable_len: Vec<Option<Loc>> = ast
            .headers
            .iter()
            .map(|h| ast.types[h.ty].fields.iter().any(|f| f.variable).then(|| take(1)))
            .collect();
        // Metadata: first the fields that some code may read before it writes them. Only those must read 0.
        let mut places: HashMap<FieldRef, Loc> = HashMap::new();
        let metadata = take(0);
        let mut reset_end = 0;
        for wanted in [true, false] {
            for (h, header) in ast.headers.iter().enumerate().filter(|(_, h)| h.metadata) {
                // A metadata header that is handled as a whole must be contiguous.
                let whole = exposed.headers.contains(&(h as u32));
                for (f, field) in ast.types[header.ty].fields.iter().enumerate() {
                    let field_ref = FieldRef { header: h as u32, field: f as u32 };
                    if (whole || exposed.fields.contains(&field_ref)) == wanted {
                        if !whole && is_wide(field.bits) {
                            align();
                        }
                        places.insert(field_ref, take(u32::from(limbs_of(field.bits))));
                    }
                }
            }
            if wanted {
                reset_end = take(0);
            }
        }
        for (h, header) in ast.headers.iter().enumerate().filter(|(_, h)| !h.metadata) {
            if ast.types[header.ty].fields.first().is_some_and(|field| is_wide(field.bits)) {
                align();
            }
            for (f, field) in ast.types[header.ty].fields.iter().enumerate() {
                let field_ref = FieldRef { header: h as u32, field: f as u32 };
                places.insert(field_ref, take(u32::from(limbs_of(field.bits))));
            }
        }
        let packet_end = take(0);
        align();
        let params = take(ast.actions.iter().map(action_params).max().unwrap_or(0));
        align();
        let temps = take(TEMPS);
        align();
        let consts = take(0);
        let headers = ast
            .headers
            .iter()
            .enumerate()
            .map(|(h, header)| {
                let mut bit_offset = 0;
                let mut variable = None;
                let mut fields = Vec::new();
                for (f, field) in ast.types[header.ty].fields.iter().enumerate() {
                    fields.push(FieldLoc {
                        at: places[&FieldRef { header: h as u32, field: f as u32 }],
                        limbs: limbs_of(field.bits),
                        bits: field.bits,
                        signed: field.signed,
                        saturating: field.saturating,
                        bit_offset,
                        variable: field.variable,
                    });
                    if field.variable {
                        variable = variable_len[h].map(|at| (f as u32, at));
                    } else {
                        bit_offset += field.bits;
                    }
                }
                let base = fields.iter().map(|f| f.at).min().unwrap_or(0);
                HeaderLoc {
                    valid: valid[h],
                    base,
                    limbs: fields.iter().map(|f| u32::from(f.limbs)).sum(),
                    fields,
                    bytes: bit_offset / 8,
                    metadata: header.metadata,
                    variable,
                    union_peers: header.union_peers.clone(),
                }
            })
            .collect();
        Self { headers, stacks, union_stacks, metadata, reset_end, packet_end, params, temps, consts }
    }

    /// Location of a field; `None` for the validity, which is at the header's `valid`.
    pub(crate) fn field(&self, field: FieldRef) -> Option<&FieldLoc> {
        self.headers[field.header as usize].fields.get(field.field as usize)
    }
}

pub(crate) fn action_params(action: &super::ast::Action) -> u32 {
    action.params.iter().map(|(_, bits)| u32::from(limbs_of(*bits))).sum()
}

/// Metadata that may be read before it is written.
#[derive(Default)]
struct Exposed {
    fields: HashSet<FieldRef>,
    headers: HashSet<u32>,
}

/// BMv2 clears all metadata before parsing. A field that every action writes before it reads it, and that nothing else
/// reads, need not be: of p4c's many temporaries hardly any must.
fn exposed_metadata(ast: &Ast) -> Exposed {
    let mut exposed = Exposed::default();
    for (h, header) in ast.headers.iter().enumerate() {
        if header.metadata && header.name == "standard_metadata" {
            exposed.headers.insert(h as u32);
        }
    }
    for field in ast.aliases.values().chain(ast.field_lists.values().flatten()) {
        exposed.fields.insert(*field);
    }
    for (_, fields) in &ast.learn_lists {
        exposed.fields.extend(fields);
    }
    for calculation in &ast.calculations {
        for input in &calculation.input {
            match input {
                CalcInput::Field(f) => drop(exposed.fields.insert(*f)),
                CalcInput::Header(h) => drop(exposed.headers.insert(*h)),
                CalcInput::Const { .. } => {}
            }
        }
    }
    for checksum in &ast.checksums {
        exposed.fields.insert(checksum.target);
        if let Some(condition) = &checksum.condition {
            exposed.read(condition, &HashSet::new());
        }
    }
    for table in &ast.tables {
        exposed.fields.extend(table.keys.iter().map(|k| k.target));
    }
    for pipeline in ast.ingress.iter().chain(&ast.egress) {
        for node in &pipeline.nodes {
            if let FlowNode::Condition { expr, .. } = node {
                exposed.read(expr, &HashSet::new());
            }
        }
    }
    for state in &ast.states {
        for key in &state.keys {
            if let SelectKey::Field(f) = key {
                exposed.fields.insert(*f);
            }
        }
        for op in &state.ops {
            let none = HashSet::new();
            match op {
                ParserOp::Set { value, .. } | ParserOp::Advance(value) => exposed.read(value, &none),
                ParserOp::ExtractVariable { bits, .. } | ParserOp::ExtractNextVariable { bits, .. } => {
                    exposed.read(bits, &none);
                }
                ParserOp::Verify { condition, error } => {
                    exposed.read(condition, &none);
                    exposed.read(error, &none);
                }
                ParserOp::Run(primitive) => exposed.primitive(primitive, &mut HashSet::new()),
                _ => {}
            }
        }
    }
    for action in &ast.actions {
        exposed.action(&action.primitives);
    }
    exposed
}

impl Exposed {
    /// Follows an action: at each primitive, which fields have been written on every way to it.
    fn action(&mut self, primitives: &[Primitive]) {
        let mut at_target: HashMap<usize, HashSet<FieldRef>> = HashMap::new();
        // `None`: not reachable by falling through.
        let mut written: Option<HashSet<FieldRef>> = Some(HashSet::new());
        for (i, primitive) in primitives.iter().enumerate() {
            if let Some(other) = at_target.remove(&i) {
                written = Some(match written {
                    Some(w) => w.intersection(&other).copied().collect(),
                    None => other,
                });
            }
            let Some(now) = written.as_mut() else { continue };
            self.primitive(primitive, now);
            if let Primitive::Jump(target) | Primitive::JumpIfZero { target, .. } = primitive {
                // A jump back: assume nothing about what is before it.
                let state = if *target <= i { HashSet::new() } else { now.clone() };
                let merged = match at_target.remove(target) {
                    Some(other) => state.intersection(&other).copied().collect(),
                    None => state,
                };
                if *target <= i {
                    for p in primitives {
                        self.primitive(p, &mut HashSet::new());
                    }
                }
                at_target.insert(*target, merged);
            }
            if matches!(primitive, Primitive::Jump(_)) {
                written = None;
            }
        }
    }

    fn primitive(&mut self, primitive: &Primitive, written: &mut HashSet<FieldRef>) {
        let mut define = None;
        match primitive {
            Primitive::Assign { to, value } => {
                self.read(value, written);
                define = Some(to);
            }
            Primitive::Hash { to, base, size, .. } => {
                self.read(base, written);
                self.read(size, written);
                define = Some(to);
            }
            // These may leave the target as it was.
            Primitive::RegisterRead { to, index, .. } | Primitive::Meter { to, index, .. } => {
                self.read(index, written);
                self.maybe_written(to, written);
            }
            Primitive::Random { to, low, high } => {
                self.read(low, written);
                self.read(high, written);
                self.maybe_written(to, written);
            }
            Primitive::RegisterWrite { index, value, .. } => {
                self.read(index, written);
                self.read(value, written);
            }
            Primitive::AssignHeader { to, from } => {
                for header in [to, from] {
                    self.header(header, written);
                }
            }
            Primitive::AddHeader(h) | Primitive::RemoveHeader(h) => self.header(h, written),
            Primitive::AssignVariable { to, from } => {
                self.headers.insert(to.header);
                self.headers.insert(from.header);
            }
            Primitive::Push { count: e, .. }
            | Primitive::Pop { count: e, .. }
            | Primitive::JumpIfZero { condition: e, .. }
            | Primitive::Count { index: e, .. }
            | Primitive::Digest { list: e }
            | Primitive::Resubmit { fields: e }
            | Primitive::Recirculate { fields: e }
            | Primitive::Truncate { length: e }
            | Primitive::Assert { condition: e, .. } => self.read(e, written),
            Primitive::CloneIngress { session, fields } | Primitive::CloneEgress { session, fields } => {
                self.read(session, written);
                self.read(fields, written);
            }
            Primitive::Log { args, .. } => args.iter().for_each(|a| self.read(a, written)),
            Primitive::AssignStack { .. }
            | Primitive::AssignUnions { .. }
            | Primitive::AssignUnionStack { .. }
            | Primitive::Jump(_)
            | Primitive::Exit
            | Primitive::Drop
            | Primitive::Nop => {}
        }
        match define {
            Some(Place::Field(f)) => drop(written.insert(*f)),
            Some(Place::Access { header, .. }) => self.header(header, written),
            Some(Place::Register { index, .. }) => self.read(index, written),
            Some(Place::Last { .. }) | None => {}
        }
    }

    fn maybe_written(&mut self, place: &Place, written: &HashSet<FieldRef>) {
        match place {
            Place::Field(f) if !written.contains(f) => drop(self.fields.insert(*f)),
            Place::Access { header, .. } => self.header(header, written),
            _ => {}
        }
    }

    fn header(&mut self, header: &HeaderExpr, written: &HashSet<FieldRef>) {
        match header {
            HeaderExpr::Fixed(h) => drop(self.headers.insert(*h)),
            HeaderExpr::Indexed { index, .. } | HeaderExpr::UnionIndexed { index, .. } => {
                self.read(index, written)
            }
        }
    }

    fn read(&mut self, expr: &Expr, written: &HashSet<FieldRef>) {
        match expr {
            Expr::Field(f) if f.field != VALID && !written.contains(f) => {
                self.fields.insert(*f);
            }
            Expr::Unary(_, e) => self.read(e, written),
            Expr::Binary(_, a, b) => {
                self.read(a, written);
                self.read(b, written);
            }
            Expr::Cond(c, a, b) => {
                self.read(c, written);
                self.read(a, written);
                self.read(b, written);
            }
            Expr::Register { index, .. } => self.read(index, written),
            Expr::Access { header, .. } | Expr::Valid(header) => self.header(header, written),
            Expr::HeaderEq { left, right, .. } => {
                self.header(left, written);
                self.header(right, written);
            }
            _ => {}
        }
    }
}
