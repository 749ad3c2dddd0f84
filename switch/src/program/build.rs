//! From the [`Ast`] to the [`Program`].

use std::collections::HashMap;

use super::ast::{Ast, CalcInput, FieldRef};
use super::json::LoadError;
use super::layout::{HeaderLoc, Layout};
use super::lower::{Code, LoweredPipeline, Lowering};
use super::op::{END, HeaderPick, Loc, Op, Pc};
use super::spec::{
    ActionSpec, ChecksumSpec, EgressWrite, ErrorCodes, IndexKind, Kept, StdField, StdFields, TableSpec,
};
use super::{MatchKind, Objects, Program, order};
use crate::exec::calc::{Calc, Input};

type Result<T> = std::result::Result<T, LoadError>;

pub(crate) fn build(ast: &Ast, objects: Objects) -> Result<Program> {
    let layout = Layout::new(ast);
    let std = std_fields(ast, &layout)?;
    let mut lowering = Lowering::new(ast, &layout, &objects);
    let parser_start = lowering.parser()?;
    let mut actions = Vec::new();
    let mut routines = Vec::new();
    for (i, action) in ast.actions.iter().enumerate() {
        let code = lowering.action_routine(i)?;
        routines.push((code, lowering.position()));
        actions.push(ActionSpec { code, params: action.params.iter().map(|(_, bits)| *bits).collect() });
    }
    let mut nodes: HashMap<usize, (bool, LoweredPipeline)> = HashMap::new();
    let mut starts = [END, END];
    for (which, pipeline) in [(0, &ast.ingress), (1, &ast.egress)] {
        if let Some(pipeline) = pipeline {
            let lowered = lowering.pipeline(pipeline, &objects)?;
            starts[which] = lowered.start;
            nodes.insert(which, (which == 1, lowered));
        }
    }
    let mut checksums = Vec::new();
    for checksum in &ast.checksums {
        let condition = match &checksum.condition {
            Some(expr) => Some(lowering.condition(expr, &checksum.path)?),
            None => None,
        };
        let header = &layout.headers[checksum.target.header as usize];
        let field = &header.fields[checksum.target.field as usize];
        if field.limbs != 1 {
            let what = "a checksum field of more than 64 bits".to_owned();
            return Err(LoadError::Unsupported { path: checksum.path.clone(), what });
        }
        checksums.push(ChecksumSpec {
            condition,
            calculation: checksum.calculation,
            valid: if header.metadata { Loc::MAX } else { header.valid },
            target: field.at,
            mask: mask(field.bits),
            verify: checksum.verify,
            update: checksum.update,
        });
    }
    let mut tables = Vec::new();
    for which in [0, 1] {
        if let (Some((_, lowered)), Some(pipeline)) =
            (nodes.get(&which), if which == 0 { &ast.ingress } else { &ast.egress })
        {
            for node in &pipeline.nodes {
                if let super::ast::FlowNode::Table(index) = node {
                    tables.push((*index, table_spec(ast, &layout, &objects, &mut lowering, *index, lowered)));
                }
            }
        }
    }
    tables.sort_by_key(|(index, _)| *index);
    let tables: Vec<TableSpec> = tables.into_iter().map(|(_, spec)| spec).collect();
    let code = lowering.finish();
    let calculations: Vec<Calc> = ast.calculations.iter().map(|c| calculation(c, &layout)).collect();
    let egress_writes = match (nodes.get(&1), &ast.egress) {
        (Some((_, lowered)), Some(pipeline)) => {
            let mut writes = Writes { layout: &layout, code: &code, std: &std, ranges: Vec::new() };
            writes.code_range(lowered.range);
            for node in &pipeline.nodes {
                if let super::ast::FlowNode::Table(index) = node {
                    ast.tables[*index].actions.iter().for_each(|a| writes.code_range(routines[*a]));
                    if let Some((at, ..)) = tables[*index].direct_meter {
                        writes.ranges.push((at, 1));
                    }
                }
            }
            for checksum in checksums.iter().filter(|c| c.update) {
                writes.ranges.push((checksum.target, 1));
            }
            writes.merged()
        }
        _ => Vec::new(),
    };
    let kept = |fields: &[FieldRef]| -> Vec<Kept> {
        fields
            .iter()
            .map(|f| match layout.field(*f) {
                Some(field) => Kept { at: field.at, limbs: field.limbs },
                None => Kept { at: layout.headers[f.header as usize].valid, limbs: 1 },
            })
            .collect()
    };
    Ok(Program {
        parser_start,
        ingress_start: starts[0],
        egress_start: starts[1],
        tables,
        actions,
        calculations,
        checksums,
        deparser: ast.deparser.clone(),
        std,
        errors: error_codes(ast),
        field_lists: ast.field_lists.iter().map(|(id, f)| (*id as u16, kept(f))).collect(),
        learn_lists: ast.learn_lists.iter().map(|(id, f)| (*id as u16, kept(f))).collect(),
        meters: ast.meters.clone(),
        egress_writes,
        orderable: order::orderable(ast, &layout),
        layout,
        code,
        objects,
    })
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

fn std_fields(ast: &Ast, layout: &Layout) -> Result<StdFields> {
    let mut std = StdFields::default();
    for (field, name) in StdField::ALL {
        let found = ast.aliases.get(name).copied().or_else(|| {
            let (header, field) = name.split_once('.')?;
            let find = |header: &str| {
                let h = ast.headers.iter().position(|h| h.name == header)?;
                let f = ast.types[ast.headers[h].ty].fields.iter().position(|f| f.name == field)?;
                Some(FieldRef { header: h as u32, field: f as u32 })
            };
            find(header).or_else(|| find("standard_metadata"))
        });
        std.0[field as usize] =
            found.and_then(|f| layout.field(f)).filter(|f| f.limbs == 1).map(|f| (f.at, mask(f.bits)));
        let required = matches!(
            field,
            StdField::IngressPort
                | StdField::PacketLength
                | StdField::InstanceType
                | StdField::EgressSpec
                | StdField::EgressPort
        );
        if required && std[field].is_none() {
            let path = "$.headers".to_owned();
            return Err(LoadError::Dangling {
                path,
                what: "field that simple_switch needs:",
                name: name.to_owned(),
            });
        }
    }
    Ok(std)
}

fn error_codes(ast: &Ast) -> ErrorCodes {
    // A program that does not use an error need not list it; BMv2 then gives it a code of its own.
    let code = |name: &str, other: u64| ast.errors.get(name).copied().unwrap_or(other);
    ErrorCodes {
        no_error: code("NoError", 0),
        packet_too_short: code("PacketTooShort", 1),
        stack_out_of_bounds: code("StackOutOfBounds", 3),
        header_too_short: code("HeaderTooShort", 4),
        invalid_argument: code("ParserInvalidArgument", 6),
    }
}

fn calculation(calc: &super::ast::Calculation, layout: &Layout) -> Calc {
    let input = calc
        .input
        .iter()
        .filter_map(|input| {
            Some(match input {
                CalcInput::Field(f) => {
                    let header = &layout.headers[f.header as usize];
                    let field = layout.field(*f)?;
                    Input::Field {
                        valid: if header.metadata { Loc::MAX } else { header.valid },
                        at: field.at,
                        limbs: field.limbs,
                        bits: field.bits,
                        variable: header.variable.filter(|_| field.variable).map_or(Loc::MAX, |(_, len)| len),
                    }
                }
                CalcInput::Const { bytes, bits } => Input::Const { bytes: bytes.clone(), bits: *bits },
                CalcInput::Header(header) => Input::Header { header: *header },
            })
        })
        .collect();
    Calc { algorithm: calc.algorithm, input, with_payload: calc.with_payload }
}

fn table_spec(
    ast: &Ast,
    layout: &Layout,
    objects: &Objects,
    lowering: &mut Lowering<'_>,
    index: usize,
    lowered: &LoweredPipeline,
) -> TableSpec {
    let table = &ast.tables[index];
    let info = &objects.tables[index];
    let packer = lowering.table_key(index);
    let key_limbs = packer.limbs();
    let parts = packer.parts;
    let address = |next: super::ast::Next| next.map_or(END, |i| lowered.nodes[i]);
    let kind = if table.keys.is_empty() {
        IndexKind::None
    } else if table.is_range || info.needs_priority {
        IndexKind::Rows
    } else if table.keys.iter().any(|k| k.kind == MatchKind::Lpm) {
        IndexKind::Lpm
    } else {
        IndexKind::Exact
    };
    let mut static_mask = Vec::new();
    if table.keys.iter().any(|k| k.mask.is_some()) {
        static_mask = vec![0; key_limbs];
        for ((key, part), field) in table.keys.iter().zip(&parts).zip(&info.fields) {
            let all = vec![0xff; field.bits.div_ceil(8) as usize];
            part.put(&mut static_mask, key.mask.as_deref().unwrap_or(&all));
        }
    }
    TableSpec {
        parts,
        key_limbs,
        static_mask,
        index: kind,
        range_fields: table
            .keys
            .iter()
            .enumerate()
            .filter(|(_, k)| k.kind == MatchKind::Range)
            .map(|(i, _)| i)
            .collect(),
        field_bits: info.fields.iter().map(|f| f.bits).collect(),
        has_counter: info.has_counter,
        supports_timeout: info.supports_timeout,
        direct_meter: table.direct_meter.and_then(|m| {
            let meter = &ast.meters[m as usize];
            let field = layout.field(meter.direct_target?).filter(|f| f.limbs == 1)?;
            Some((field.at, mask(field.bits), meter.unit))
        }),
        profile: info.profile.map(|p| p.0),
        selector: info.profile.and_then(|p| ast.selectors[p.index()]),
        next: table.actions.iter().zip(&table.next).map(|(a, n)| (*a as u32, address(*n))).collect(),
        hit_next: table.hit_next.map(address),
        miss_override: table.miss_next.map(address),
        miss_next: address(table.miss_next.unwrap_or(table.base_next)),
        default: table.default.clone(),
        entries: table.entries.clone(),
    }
}

/// What some code may write of the packet: all that has to be restored between two copies of it.
struct Writes<'a> {
    layout: &'a Layout,
    code: &'a Code,
    std: &'a StdFields,
    ranges: Vec<(Loc, u32)>,
}

impl Writes<'_> {
    fn code_range(&mut self, (from, to): (Pc, Pc)) {
        for op in &self.code.ops[from as usize..to as usize] {
            match op.writes() {
                Some(range) => self.ranges.push(range),
                None => self.op(*op),
            }
        }
    }

    fn header(&mut self, header: u32) {
        let h = &self.layout.headers[header as usize];
        self.ranges.push((h.valid, 1));
        self.ranges.push((h.base, h.limbs));
        self.ranges.extend(h.variable.map(|(_, len)| (len, 1)));
        for peer in &h.union_peers {
            self.ranges.push((self.layout.headers[*peer as usize].valid, 1));
        }
    }

    fn pick(&mut self, pick: HeaderPick) {
        if pick.index == Loc::MAX {
            self.header(pick.id);
        } else {
            self.group(pick.id);
        }
    }

    fn group(&mut self, group: u32) {
        for header in self.code.groups[group as usize].clone() {
            self.header(header);
        }
    }

    fn stack(&mut self, stack: u32) {
        let stack = &self.layout.stacks[stack as usize];
        self.ranges.push((stack.next, 1));
        for header in stack.headers.clone() {
            self.header(header);
        }
    }

    fn op(&mut self, op: Op) {
        match op {
            Op::LoadIndexed { d, access, .. } | Op::LoadLast { d, access, .. } => {
                self.ranges.push((d, self.code.accesses[access as usize].limbs.into()));
            }
            Op::StoreIndexed { access, .. } | Op::StoreLast { access, .. } => {
                let access = &self.code.accesses[access as usize];
                self.ranges.extend(access.offsets.iter().map(|at| (*at, u32::from(access.limbs))));
            }
            Op::AddHeader { header } => self.header(header),
            Op::RemoveHeader { header } => {
                self.ranges.push((self.layout.headers[header as usize].valid, 1));
            }
            Op::AddHeaderIndexed { group, .. } | Op::RemoveHeaderIndexed { group, .. } => self.group(group),
            Op::AssignHeader { to, .. } => self.header(to),
            Op::AssignHeaderIndexed { to, .. } => self.pick(to),
            Op::AssignStack { to, .. } => self.stack(to),
            Op::Push { stack, .. } | Op::Pop { stack, .. } => self.stack(stack),
            Op::AssignVariable { to, .. } => self.header(to.header),
            Op::Drop => {
                for field in [StdField::EgressSpec, StdField::McastGrp] {
                    self.ranges.extend(self.std[field].map(|(at, _)| (at, 1)));
                }
            }
            _ => {}
        }
    }

    /// Ranges inside the packet, sorted, joined where they touch and belong together.
    fn merged(mut self) -> Vec<EgressWrite> {
        self.ranges.retain(|(at, n)| *n > 0 && *at < self.layout.packet_end);
        self.ranges.sort_unstable();
        let mut out: Vec<EgressWrite> = Vec::new();
        for (at, n) in self.ranges {
            let of = |h: &&HeaderLoc| !h.metadata && (h.base..h.base + h.limbs).contains(&at);
            let valid = self.layout.headers.iter().find(of).map(|h| h.valid);
            match out.last_mut() {
                // Small gaps cost less than another range.
                Some(last) if at <= last.at + last.limbs + 4 && valid == last.valid => {
                    last.limbs = last.limbs.max(at + n - last.at);
                }
                _ => out.push(EgressWrite { at, limbs: n, valid }),
            }
        }
        out
    }
}

/// The interpreter copies one operation per step: keep them small.
const _: () = assert!(std::mem::size_of::<Op>() <= 32);
