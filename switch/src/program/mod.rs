//! A compiled program.

pub(crate) mod ast;
mod build;
mod info;
mod json;
pub(crate) mod layout;
mod lower;
pub(crate) mod num;
pub(crate) mod op;
mod order;
mod range;
mod read;
mod spec;

use std::collections::HashMap;

pub(crate) use info::Objects;
pub use info::{
    ActionId, ActionInfo, CounterId, CounterInfo, DigestId, DigestInfo, MatchFieldInfo, MatchKind, MeterId,
    MeterInfo, MeterUnit, ParamInfo, ProfileId, ProfileInfo, RegisterId, RegisterInfo, TableId, TableInfo,
    ValueSetId, ValueSetInfo,
};
pub use json::LoadError;
pub(crate) use order::{OrderBy, Orderable};
pub(crate) use spec::{
    ActionSpec, ChecksumSpec, EgressWrite, ErrorCodes, IndexKind, Kept, StdField, StdFields, TableSpec,
};

/// A program that p4c's BMv2 backend compiled, checked and lowered to flat code. Immutable; share it in an `Arc`.
#[derive(Debug)]
pub struct Program {
    pub(crate) objects: Objects,
    pub(crate) layout: layout::Layout,
    pub(crate) code: lower::Code,
    pub(crate) parser_start: op::Pc,
    pub(crate) ingress_start: op::Pc,
    pub(crate) egress_start: op::Pc,
    pub(crate) tables: Vec<TableSpec>,
    pub(crate) actions: Vec<ActionSpec>,
    pub(crate) calculations: Vec<crate::exec::calc::Calc>,
    pub(crate) checksums: Vec<ChecksumSpec>,
    /// Headers in the order they are emitted.
    pub(crate) deparser: Vec<u32>,
    pub(crate) std: StdFields,
    pub(crate) errors: ErrorCodes,
    pub(crate) field_lists: HashMap<u16, Vec<Kept>>,
    /// By position, as in `Objects::digests`.
    pub(crate) learn_lists: Vec<(u16, Vec<Kept>)>,
    pub(crate) meters: Vec<ast::MeterArray>,
    /// What egress may write: restored between two copies of a packet.
    pub(crate) egress_writes: Vec<EgressWrite>,
    /// Header fields that packets can be put in order by.
    pub(crate) orderable: Orderable,
}

impl Program {
    /// Compiles what `p4c-bm2-ss` wrote.
    ///
    /// # Errors
    /// Says where in the document what was expected, or which part of the format is not supported.
    pub fn from_json(json: &str) -> Result<Self, LoadError> {
        let document = json::parse(json)?;
        let (ast, objects) = read::read(&document)?;
        build::build(&ast, objects)
    }

    /// One line on the size of the program, for logs.
    pub fn summary(&self) -> String {
        format!(
            "{} operations, {} tables, {} actions; {} bytes a packet, of which {} are cleared and {} restored per copy",
            self.code.ops.len(),
            self.tables.len(),
            self.actions.len(),
            self.layout.packet_end * 8,
            self.layout.reset_end * 8,
            self.egress_writes.iter().map(|w| w.limbs * 8).sum::<u32>(),
        )
    }
}
