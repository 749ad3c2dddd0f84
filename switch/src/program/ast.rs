//! The program as the JSON states it, names resolved: the input of lowering.

use super::num::Num;

/// Field index that stands for a header's validity (`$valid$`).
pub(crate) const VALID: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FieldRef {
    pub(crate) header: u32,
    /// Index in the header's type, or [`VALID`].
    pub(crate) field: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct FieldType {
    pub(crate) name: String,
    /// Width in bits; of a varbit field the largest.
    pub(crate) bits: u32,
    pub(crate) signed: bool,
    pub(crate) saturating: bool,
    pub(crate) variable: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct HeaderType {
    pub(crate) fields: Vec<FieldType>,
}

#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) ty: usize,
    pub(crate) metadata: bool,
    /// Other members of the union it belongs to.
    pub(crate) union_peers: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct Stack {
    pub(crate) ty: usize,
    pub(crate) headers: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct Union {
    pub(crate) headers: Vec<u32>,
    /// Name of each member, in order.
    pub(crate) members: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct UnionStack {
    pub(crate) unions: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    BoolAnd,
    BoolOr,
    TwosComplement,
    SaturateUnsigned,
    SaturateSigned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UnOp {
    Complement,
    BoolNot,
    ToBool,
    ToData,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Data,
    Bool,
}

/// A header named outright or picked from a stack at run time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum HeaderExpr {
    Fixed(u32),
    /// Element of a stack.
    Indexed {
        stack: u32,
        index: Box<Expr>,
    },
    /// Member of an element of a union stack.
    UnionIndexed {
        stack: u32,
        index: Box<Expr>,
        member: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Expr {
    Const(Num),
    Bool(bool),
    Field(FieldRef),
    /// Field of the last element of a stack.
    Last {
        stack: u32,
        field: u32,
    },
    /// Parameter of the action.
    Param(u32),
    Register {
        register: u32,
        index: Box<Expr>,
    },
    Access {
        header: HeaderExpr,
        field: u32,
    },
    Unary(UnOp, Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    Valid(HeaderExpr),
    ValidUnion(u32),
    /// Index of the last element of a stack (its count less 1).
    LastIndex(u32),
    /// Elements counted in a stack.
    StackSize(u32),
    HeaderEq {
        left: HeaderExpr,
        right: HeaderExpr,
        negate: bool,
    },
}

/// Where a value is assigned to.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Field(FieldRef),
    Last { stack: u32, field: u32 },
    Access { header: HeaderExpr, field: u32 },
    Register { register: u32, index: Expr },
}

#[derive(Debug, Clone)]
pub(crate) enum Primitive {
    Assign {
        to: Place,
        value: Expr,
    },
    AssignVariable {
        to: FieldRef,
        from: FieldRef,
    },
    AssignHeader {
        to: HeaderExpr,
        from: HeaderExpr,
    },
    AssignStack {
        to: u32,
        from: u32,
    },
    /// Members of unions, one by one.
    AssignUnions {
        to: Vec<u32>,
        from: Vec<u32>,
    },
    /// All unions of a stack, and how many are counted.
    AssignUnionStack {
        to: u32,
        from: u32,
    },
    AddHeader(HeaderExpr),
    RemoveHeader(HeaderExpr),
    Push {
        stack: u32,
        count: Expr,
    },
    Pop {
        stack: u32,
        count: Expr,
    },
    Jump(usize),
    JumpIfZero {
        condition: Expr,
        target: usize,
    },
    Exit,
    Drop,
    Count {
        counter: u32,
        index: Expr,
    },
    Meter {
        meter: u32,
        index: Expr,
        to: Place,
    },
    RegisterRead {
        to: Place,
        register: u32,
        index: Expr,
    },
    RegisterWrite {
        register: u32,
        index: Expr,
        value: Expr,
    },
    Hash {
        to: Place,
        base: Expr,
        calculation: u32,
        size: Expr,
    },
    Random {
        to: Place,
        low: Expr,
        high: Expr,
    },
    Digest {
        list: Expr,
    },
    CloneIngress {
        session: Expr,
        fields: Expr,
    },
    CloneEgress {
        session: Expr,
        fields: Expr,
    },
    Resubmit {
        fields: Expr,
    },
    Recirculate {
        fields: Expr,
    },
    Truncate {
        length: Expr,
    },
    Assert {
        condition: Expr,
        what: &'static str,
    },
    Log {
        format: String,
        args: Vec<Expr>,
    },
    Nop,
}

#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) name: String,
    /// Name and width of each parameter.
    pub(crate) params: Vec<(String, u32)>,
    pub(crate) primitives: Vec<Primitive>,
    /// Path in the JSON, for errors of lowering.
    pub(crate) path: String,
}

#[derive(Debug, Clone)]
pub(crate) enum ParserOp {
    Extract(u32),
    ExtractNext(u32),
    ExtractUnionNext { stack: u32, member: u32 },
    ExtractVariable { header: u32, bits: Expr },
    ExtractNextVariable { stack: u32, bits: Expr },
    Set { to: FieldRef, value: Expr },
    SetLookahead { to: FieldRef, offset: u32, bits: u32 },
    Verify { condition: Expr, error: Expr },
    Advance(Expr),
    Run(Primitive),
}

#[derive(Debug, Clone)]
pub(crate) enum SelectKey {
    Field(FieldRef),
    Last { stack: u32, field: u32 },
    UnionLast { stack: u32, member: u32, field: u32 },
    Lookahead { offset: u32, bits: u32 },
}

#[derive(Debug, Clone)]
pub(crate) enum Case {
    /// Bytes of the padded fields, concatenated, and a mask likewise.
    Value {
        value: Vec<u8>,
        mask: Option<Vec<u8>>,
    },
    ValueSet {
        set: u32,
        mask: Option<Vec<u8>>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct ParserState {
    pub(crate) ops: Vec<ParserOp>,
    pub(crate) keys: Vec<SelectKey>,
    /// Cases in order; the target is a state index, `None`: accept.
    pub(crate) cases: Vec<(Case, Option<usize>)>,
    pub(crate) default: Option<usize>,
    pub(crate) path: String,
}

#[derive(Debug, Clone)]
pub(crate) enum CalcInput {
    Field(FieldRef),
    Const { bytes: Vec<u8>, bits: u32 },
    Header(u32),
}

#[derive(Debug, Clone)]
pub(crate) struct Calculation {
    pub(crate) algorithm: crate::exec::hash::Algorithm,
    pub(crate) input: Vec<CalcInput>,
    pub(crate) with_payload: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Checksum {
    pub(crate) target: FieldRef,
    pub(crate) calculation: u32,
    pub(crate) condition: Option<Expr>,
    pub(crate) update: bool,
    pub(crate) verify: bool,
    pub(crate) path: String,
}

#[derive(Debug, Clone)]
pub(crate) struct TableKey {
    pub(crate) kind: super::MatchKind,
    pub(crate) target: FieldRef,
    pub(crate) name: String,
    /// Static mask, bytes of the field padded.
    pub(crate) mask: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub(crate) struct ConstEntry {
    pub(crate) keys: Vec<crate::control::MatchKey>,
    pub(crate) priority: i32,
    pub(crate) action: usize,
    pub(crate) args: Vec<Num>,
}

/// A node of a control flow: table, condition or action call; `None` ends the pipeline.
pub(crate) type Next = Option<usize>;

#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) keys: Vec<TableKey>,
    pub(crate) is_range: bool,
    /// Indices into the program's actions, in the order of `next`.
    pub(crate) actions: Vec<usize>,
    pub(crate) next: Vec<Next>,
    /// Overrides `next` on a hit, on a miss.
    pub(crate) hit_next: Option<Next>,
    pub(crate) miss_next: Option<Next>,
    /// Where a miss goes when there is no default action.
    pub(crate) base_next: Next,
    pub(crate) default: Option<(usize, Vec<Num>)>,
    pub(crate) entries: Vec<ConstEntry>,
    pub(crate) direct_meter: Option<u32>,
}

#[derive(Debug, Clone)]
pub(crate) enum FlowNode {
    /// Index into the program's tables.
    Table(usize),
    Condition {
        expr: Expr,
        then: Next,
        other: Next,
    },
    Call {
        action: usize,
        next: Next,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    pub(crate) nodes: Vec<FlowNode>,
    /// Path of each node, for errors of lowering.
    pub(crate) paths: Vec<String>,
    pub(crate) start: Next,
}

#[derive(Debug, Clone)]
pub(crate) struct MeterArray {
    pub(crate) unit: super::MeterUnit,
    pub(crate) size: usize,
    /// Target field of a direct meter.
    pub(crate) direct_target: Option<FieldRef>,
}

/// Everything of a document.
#[derive(Debug, Default)]
pub(crate) struct Ast {
    pub(crate) types: Vec<HeaderType>,
    pub(crate) headers: Vec<Header>,
    pub(crate) stacks: Vec<Stack>,
    pub(crate) unions: Vec<Union>,
    pub(crate) union_stacks: Vec<UnionStack>,
    pub(crate) aliases: std::collections::HashMap<String, FieldRef>,
    pub(crate) errors: std::collections::HashMap<String, u64>,
    pub(crate) states: Vec<ParserState>,
    pub(crate) parser_start: Option<usize>,
    pub(crate) deparser: Vec<u32>,
    pub(crate) calculations: Vec<Calculation>,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) actions: Vec<Action>,
    pub(crate) tables: Vec<Table>,
    pub(crate) selectors: Vec<Option<u32>>,
    pub(crate) meters: Vec<MeterArray>,
    /// Indirect meters and counters: index of the array among `Objects`, by position in the JSON.
    pub(crate) ingress: Option<Pipeline>,
    pub(crate) egress: Option<Pipeline>,
    /// Field lists by id: what a clone, resubmission or recirculation keeps.
    pub(crate) field_lists: std::collections::HashMap<u64, Vec<FieldRef>>,
    /// Digest lists: id and fields.
    pub(crate) learn_lists: Vec<(u64, Vec<FieldRef>)>,
}
