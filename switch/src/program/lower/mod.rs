//! Lowering: from the [`Ast`] to flat code.

mod actions;
mod condition;
mod expr;
mod flow;
mod parser;
mod repeated;

use std::collections::HashMap;

pub(crate) use flow::LoweredPipeline;

use super::Objects;
use super::ast::Ast;
use super::json::LoadError;
use super::layout::{LINE, Layout, TEMPS, limbs_of};
use super::op::{Access, HeaderPick, KeyPart, KeySource, Loc, Op, Pc, Select};
use super::range::Widths;

type Result<T> = std::result::Result<T, LoadError>;

/// Widest intermediate value, in bits.
const MAX_VALUE_BITS: u32 = 1 << 16;

/// Jumps there are patched when the label is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Label(usize);

#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    /// Constants, from `Layout::consts` on.
    pub(crate) consts: Vec<u64>,
    pub(crate) accesses: Vec<Access>,
    /// Headers that can be picked at run time.
    pub(crate) groups: Vec<Vec<u32>>,
    pub(crate) selects: Vec<Select>,
    /// Texts of assert and log_msg, and what they print.
    pub(crate) messages: Vec<Message>,
}

/// Text with the places of its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) args: Vec<(Loc, u16)>,
}

pub(crate) struct Lowering<'a> {
    ast: &'a Ast,
    pub(crate) layout: &'a Layout,
    registers: Vec<u32>,
    pub(crate) code: Code,
    const_places: HashMap<Vec<u64>, Loc>,
    labels: Vec<Option<Pc>>,
    /// Jumps that wait for their label.
    waiting: Vec<(usize, Label)>,
    /// A label was placed at this position: the operation before need not have been executed.
    barrier: usize,
    temp: Loc,
    repeated: repeated::Repeated,
    params: Vec<u32>,
    param_places: Vec<Loc>,
    path: String,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(ast: &'a Ast, layout: &'a Layout, objects: &Objects) -> Self {
        Self {
            ast,
            layout,
            registers: objects.registers.iter().map(|r| r.bits).collect(),
            // Position 0 is the end that all pipelines share.
            code: Code { ops: vec![Op::End], ..Code::default() },
            const_places: HashMap::new(),
            labels: Vec::new(),
            waiting: Vec::new(),
            barrier: 1,
            temp: layout.temps,
            repeated: repeated::Repeated::default(),
            params: Vec::new(),
            param_places: Vec::new(),
            path: String::new(),
        }
    }

    fn widths(&self) -> Widths<'_> {
        Widths { layout: self.layout, params: &self.params, registers: &self.registers }
    }

    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(LoadError::Unsupported { path: self.path.clone(), what: what.into() })
    }

    /// Where the next operation will be.
    pub(crate) fn position(&self) -> Pc {
        self.here()
    }

    fn here(&self) -> Pc {
        self.code.ops.len() as Pc
    }

    fn emit(&mut self, op: Op) {
        self.code.ops.push(op);
    }

    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    fn place(&mut self, label: Label) {
        let here = self.here();
        self.labels[label.0] = Some(here);
        self.barrier = here as usize;
        // What was computed before may have been jumped over.
        self.repeated.forget_values();
    }

    fn place_at(&mut self, label: Label, at: Pc) {
        self.labels[label.0] = Some(at);
    }

    /// Emits a jump whose target the label gives, now or later.
    fn jump(&mut self, op: Op, to: Label) {
        self.waiting.push((self.code.ops.len(), to));
        self.emit(op);
    }

    /// Patches all jumps. Every label must have been placed.
    pub(crate) fn finish(mut self) -> Code {
        for (at, label) in &self.waiting {
            let target = self.labels[label.0].unwrap_or(super::op::END);
            if let Some(to) = self.code.ops[*at].target_mut() {
                *to = target;
            }
        }
        self.code
    }

    /// Address a label got; only after it was placed.
    fn address(&self, label: Label) -> Pc {
        self.labels[label.0].unwrap_or(super::op::END)
    }

    fn temp(&mut self, limbs: u16) -> Result<Loc> {
        let wide = u32::from(limbs) >= LINE;
        let at = if wide { self.temp.next_multiple_of(LINE) } else { self.temp };
        if at + u32::from(limbs) > self.layout.temps + TEMPS {
            return self.unsupported("an expression with so many wide intermediate values");
        }
        self.temp = at + u32::from(limbs);
        Ok(at)
    }

    fn is_temp(&self, at: Loc) -> bool {
        (self.layout.temps..self.layout.temps + TEMPS).contains(&at)
    }

    /// A temporary that only its maker knows: it may be changed in place.
    fn is_own_temp(&self, at: Loc) -> bool {
        self.is_temp(at) && !self.repeated.holds(at)
    }

    /// Temporaries live for one statement.
    fn reset_temps(&mut self) {
        self.temp = self.layout.temps;
        self.repeated.clear();
    }

    fn constant(&mut self, limbs: Vec<u64>) -> Loc {
        if let Some(at) = self.const_places.get(&limbs) {
            return *at;
        }
        if limbs.len() >= LINE as usize {
            self.code.consts.resize(self.code.consts.len().next_multiple_of(LINE as usize), 0);
        }
        let next = self.layout.consts + self.code.consts.len() as u32;
        self.code.consts.extend(&limbs);
        self.const_places.insert(limbs, next);
        next
    }

    fn access(&mut self, headers: &[u32], field: u32) -> (u32, u16) {
        let offsets: Vec<Loc> = headers
            .iter()
            .map(|h| {
                let header = &self.layout.headers[*h as usize];
                header.fields.get(field as usize).map_or(header.valid, |f| f.at)
            })
            .collect();
        let limbs = self.layout.headers[headers[0] as usize]
            .fields
            .get(field as usize)
            .map_or(1, |f| limbs_of(f.bits));
        let known = self.code.accesses.iter().position(|a| a.offsets == offsets && a.limbs == limbs);
        let index = known.unwrap_or_else(|| {
            self.code.accesses.push(Access { offsets, limbs });
            self.code.accesses.len() - 1
        });
        (index as u32, limbs)
    }

    fn group(&mut self, headers: Vec<u32>) -> u32 {
        let known = self.code.groups.iter().position(|g| *g == headers);
        known.unwrap_or_else(|| {
            self.code.groups.push(headers);
            self.code.groups.len() - 1
        }) as u32
    }

    fn union_stack_headers(&self, stack: u32, member: u32) -> Vec<u32> {
        self.layout.union_stacks[stack as usize].elements.iter().map(|e| e[member as usize]).collect()
    }

    /// A header, its index evaluated into a temporary if it has one.
    fn pick(&mut self, header: &super::ast::HeaderExpr) -> Result<HeaderPick> {
        use super::ast::HeaderExpr;
        let (headers, index) = match header {
            HeaderExpr::Fixed(h) => return Ok(HeaderPick { id: *h, index: Loc::MAX }),
            HeaderExpr::Indexed { stack, index } => {
                (self.layout.stacks[*stack as usize].headers.clone(), index)
            }
            HeaderExpr::UnionIndexed { stack, index, member } => {
                (self.union_stack_headers(*stack, *member), index)
            }
        };
        let index = self.low_bits(index, 64)?;
        Ok(HeaderPick { id: self.group(headers), index })
    }
}

/// Packs key fields into limbs: fields of up to 64 bits share limbs, wider ones get their own.
pub(crate) struct KeyPacker {
    pub(crate) parts: Vec<KeyPart>,
    limbs: u16,
    free: u32,
}

impl KeyPacker {
    pub(crate) fn new() -> Self {
        Self { parts: Vec::new(), limbs: 0, free: 0 }
    }

    pub(crate) fn push(&mut self, source: KeySource, bits: u32, valid: Loc) {
        let limbs = limbs_of(bits);
        if limbs > 1 {
            self.parts.push(KeyPart { source, limb: self.limbs, shift: 0, limbs, valid });
            self.limbs += limbs;
            self.free = 0;
            return;
        }
        if self.free < bits {
            self.limbs += 1;
            self.free = 64;
        }
        let shift = (64 - self.free) as u8;
        self.parts.push(KeyPart { source, limb: self.limbs - 1, shift, limbs: 1, valid });
        self.free -= bits;
    }

    pub(crate) fn limbs(&self) -> usize {
        usize::from(self.limbs)
    }
}

impl KeyPart {
    /// Puts a value (big-endian, at most the part's width) at this part's place of a key.
    pub(crate) fn put(&self, key: &mut [u64], bytes: &[u8]) {
        for (i, chunk) in bytes.rchunks(8).enumerate().take(usize::from(self.limbs)) {
            let value = chunk.iter().fold(0u64, |acc, b| (acc << 8) | u64::from(*b));
            key[usize::from(self.limb) + i] |= value << self.shift;
        }
    }
}
