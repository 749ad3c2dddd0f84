//! The flat code a program is lowered to. Every operand is a [`Loc`]: the index of a limb (64 bits) in the packet's
//! memory, where fields, parameters, temporaries and constants all live. A value of several limbs has its lowest first.

/// Index of a limb in the packet's memory.
pub(crate) type Loc = u32;
/// Index of an operation.
pub(crate) type Pc = u32;

/// End of a pipeline or of the parser.
pub(crate) const END: Pc = 0;

/// Comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Cmp {
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
            Self::Gt => Self::Le,
            Self::Ge => Self::Lt,
        }
    }

    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq => order.is_eq(),
            Self::Ne => order.is_ne(),
            Self::Lt => order.is_lt(),
            Self::Le => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::Ge => order.is_ge(),
        }
    }
}

/// One operation. `d` is the destination, `a` and `b` are operands, `n` counts limbs. Scalar operations (no `n`) are on
/// one limb; `mask` is applied to their result. Wide operations allow `d` to equal `a` or `b`, but not to overlap them
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Ends the pipeline or the parser.
    End,
    Jump {
        to: Pc,
    },
    /// Jumps if the limb is 0.
    JumpZero {
        a: Loc,
        to: Pc,
    },
    JumpNonZero {
        a: Loc,
        to: Pc,
    },
    /// Jumps if the comparison holds.
    JumpCmp {
        a: Loc,
        b: Loc,
        cmp: Cmp,
        to: Pc,
    },
    JumpCmpSigned {
        a: Loc,
        b: Loc,
        cmp: Cmp,
        to: Pc,
    },
    JumpCmpWide {
        a: Loc,
        b: Loc,
        n: u16,
        cmp: Cmp,
        signed: bool,
        to: Pc,
    },

    Mov {
        d: Loc,
        a: Loc,
        mask: u64,
    },
    Add {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    Sub {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    Mul {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    And {
        d: Loc,
        a: Loc,
        b: Loc,
    },
    Or {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    Xor {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    Not {
        d: Loc,
        a: Loc,
        mask: u64,
    },
    /// Shift counts of 64 and more give 0.
    Shl {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    Shr {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    Sar {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    ShlBy {
        d: Loc,
        a: Loc,
        count: u8,
        mask: u64,
    },
    ShrBy {
        d: Loc,
        a: Loc,
        count: u8,
        mask: u64,
    },
    /// Division by zero gives 0 and is counted.
    Div {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    Mod {
        d: Loc,
        a: Loc,
        b: Loc,
        mask: u64,
    },
    /// Sign-extends from `bits`.
    Sext {
        d: Loc,
        a: Loc,
        bits: u8,
    },
    Compare {
        d: Loc,
        a: Loc,
        b: Loc,
        cmp: Cmp,
    },
    CompareSigned {
        d: Loc,
        a: Loc,
        b: Loc,
        cmp: Cmp,
    },

    /// Copies `na` limbs and fills up to `n` with zeros, or with the sign of the highest.
    Extend {
        d: Loc,
        a: Loc,
        n: u16,
        na: u16,
        signed: bool,
    },
    MovWide {
        d: Loc,
        a: Loc,
        n: u16,
    },
    AddWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    SubWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    /// `d` must be distinct from both operands.
    MulWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    DivWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    ModWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    AndWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    OrWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    XorWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    NotWide {
        d: Loc,
        a: Loc,
        n: u16,
    },
    /// Shifts by the limb at `b`; `d` may equal `a`.
    ShlWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
    },
    /// `na` limbs shifted right into `n` limbs.
    ShrWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
        na: u16,
        signed: bool,
    },
    ShlWideBy {
        d: Loc,
        a: Loc,
        count: u32,
        n: u16,
    },
    ShrWideBy {
        d: Loc,
        a: Loc,
        count: u32,
        n: u16,
        na: u16,
        signed: bool,
    },
    /// Sign-extends from `bits`, in place.
    SextWide {
        d: Loc,
        n: u16,
        bits: u32,
    },
    /// Clears the bits from `bits` on, in place.
    MaskWide {
        d: Loc,
        n: u16,
        bits: u32,
    },
    CompareWide {
        d: Loc,
        a: Loc,
        b: Loc,
        n: u16,
        cmp: Cmp,
        signed: bool,
    },
    /// Clamps the signed value of `n` limbs to `[low, high]` (both of `n` limbs), in place.
    Clamp {
        d: Loc,
        low: Loc,
        high: Loc,
        n: u16,
    },

    /// Reads field `access` (index into `Code::accesses`) of the element that the limb at `index` names.
    LoadIndexed {
        d: Loc,
        access: u32,
        index: Loc,
    },
    StoreIndexed {
        a: Loc,
        access: u32,
        index: Loc,
    },
    /// The same for the last element of a stack.
    LoadLast {
        d: Loc,
        access: u32,
        next: Loc,
    },
    StoreLast {
        a: Loc,
        access: u32,
        next: Loc,
    },

    /// Index out of range: nothing is written.
    RegisterRead {
        d: Loc,
        n: u16,
        register: u32,
        index: Loc,
    },
    RegisterWrite {
        a: Loc,
        register: u32,
        index: Loc,
    },
    /// Adds to a cell, modulo its width, which is a whole number of limbs.
    RegisterAdd {
        a: Loc,
        register: u32,
        index: Loc,
    },
    Count {
        counter: u32,
        index: Loc,
    },
    Meter {
        d: Loc,
        meter: u32,
        index: Loc,
    },

    AddHeader {
        header: u32,
    },
    RemoveHeader {
        header: u32,
    },
    AddHeaderIndexed {
        group: u32,
        index: Loc,
    },
    RemoveHeaderIndexed {
        group: u32,
        index: Loc,
    },
    AssignHeader {
        to: u32,
        from: u32,
    },
    /// Either side may be picked at run time: `group` is an index into `Code::groups`, or `u32::MAX` for a fixed header.
    AssignHeaderIndexed {
        to: HeaderPick,
        from: HeaderPick,
    },
    AssignStack {
        to: u32,
        from: u32,
    },
    Push {
        stack: u32,
        count: Loc,
    },
    Pop {
        stack: u32,
        count: Loc,
    },
    AssignVariable {
        to: FieldPick,
        from: FieldPick,
    },
    /// 1 if both headers are valid and equal.
    HeaderEqual {
        d: Loc,
        a: HeaderPick,
        b: HeaderPick,
    },

    Exit,
    /// Ends the pipeline if `Exit` was executed.
    CheckExit,
    Drop,
    /// `d = base + hash % size`, 64 bits, then masked.
    Hash {
        d: Loc,
        base: Loc,
        size: Loc,
        calculation: u32,
    },
    Random {
        d: Loc,
        low: Loc,
        high: Loc,
    },
    Digest {
        list: Loc,
    },
    Clone {
        session: Loc,
        fields: Loc,
    },
    Resubmit {
        fields: Loc,
    },
    Recirculate {
        fields: Loc,
    },
    Truncate {
        length: Loc,
    },
    Assert {
        a: Loc,
        message: u32,
    },
    Log {
        message: u32,
    },

    /// Looks the table up, runs the action, goes on where the entry says.
    Apply {
        table: u32,
    },
    /// End of an action that a table runs.
    Return,

    Extract {
        header: u32,
    },
    ExtractNext {
        stack: u32,
    },
    ExtractUnionNext {
        stack: u32,
        member: u32,
    },
    ExtractVariable {
        header: u32,
        bits: Loc,
    },
    ExtractNextVariable {
        stack: u32,
        bits: Loc,
    },
    /// Reads packet bits beyond what was parsed.
    Lookahead {
        d: Loc,
        n: u16,
        offset: u32,
        bits: u32,
    },
    Advance {
        bits: Loc,
    },
    /// Ends the parser with this error.
    ParserError {
        error: Loc,
    },
    Select {
        select: u32,
    },
}

/// A header named outright, or picked from a group by a limb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderPick {
    /// Header if `index` is `Loc::MAX`, otherwise group.
    pub(crate) id: u32,
    pub(crate) index: Loc,
}

/// A variable-length field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldPick {
    pub(crate) header: u32,
    pub(crate) field: u32,
}

/// One field in each element of a stack.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) offsets: Vec<Loc>,
    pub(crate) limbs: u16,
}

/// Part of a key: some limbs of memory moved to their place in the packed key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPart {
    pub(crate) source: KeySource,
    /// Limb of the key.
    pub(crate) limb: u16,
    /// Bits to shift left by (only for one-limb parts).
    pub(crate) shift: u8,
    pub(crate) limbs: u16,
    /// Validity limb to honour (an invalid header's fields are matched as 0), or `Loc::MAX`.
    pub(crate) valid: Loc,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum KeySource {
    Memory(Loc),
    /// Index into `Code::accesses` and where the stack's count is.
    Last {
        access: u32,
        next: Loc,
    },
    Lookahead {
        offset: u32,
        bits: u32,
    },
}

/// A `select` of the parser.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub(crate) parts: Vec<KeyPart>,
    pub(crate) limbs: usize,
    /// Widths of the key's fields in bits, for value sets.
    pub(crate) field_bits: Vec<u32>,
    pub(crate) cases: Vec<SelectCase>,
    /// Mask, value and target of every case, where the key is one limb of memory or packet and no case is a value set.
    pub(crate) narrow: Option<Vec<(u64, u64, Pc)>>,
    pub(crate) default: Pc,
}

impl Select {
    /// What [`Self::narrow`] should be.
    pub(crate) fn narrowed(&self) -> Option<Vec<(u64, u64, Pc)>> {
        let last = self.parts.iter().any(|part| matches!(part.source, KeySource::Last { .. }));
        if self.limbs != 1 || last {
            return None;
        }
        let narrow = |case: &SelectCase| match case {
            SelectCase::Value { value, mask, to } => Some((mask[0], value[0], *to)),
            SelectCase::ValueSet { .. } => None,
        };
        self.cases.iter().map(narrow).collect()
    }
}

#[derive(Debug, Clone)]
pub(crate) enum SelectCase {
    Value { value: Vec<u64>, mask: Vec<u64>, to: Pc },
    ValueSet { set: u32, mask: Vec<u64>, to: Pc },
}

impl Op {
    /// The jump target, to be patched.
    pub(crate) fn target_mut(&mut self) -> Option<&mut Pc> {
        match self {
            Self::Jump { to }
            | Self::JumpZero { to, .. }
            | Self::JumpNonZero { to, .. }
            | Self::JumpCmp { to, .. }
            | Self::JumpCmpSigned { to, .. }
            | Self::JumpCmpWide { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Destination and mask of a scalar operation whose result can be masked for nothing.
    pub(crate) fn mask_mut(&mut self) -> Option<(Loc, &mut u64)> {
        match self {
            Self::Mov { d, mask, .. }
            | Self::Add { d, mask, .. }
            | Self::Sub { d, mask, .. }
            | Self::Mul { d, mask, .. }
            | Self::Or { d, mask, .. }
            | Self::Xor { d, mask, .. }
            | Self::Not { d, mask, .. }
            | Self::Shl { d, mask, .. }
            | Self::Shr { d, mask, .. }
            | Self::Sar { d, mask, .. }
            | Self::ShlBy { d, mask, .. }
            | Self::ShrBy { d, mask, .. }
            | Self::Div { d, mask, .. }
            | Self::Mod { d, mask, .. } => Some((*d, mask)),
            _ => None,
        }
    }

    /// First limb and count of what this operation writes, where that is known from the operation alone.
    pub(crate) fn writes(&self) -> Option<(Loc, u32)> {
        match *self {
            Self::And { d, .. }
            | Self::Mov { d, .. }
            | Self::Add { d, .. }
            | Self::Sub { d, .. }
            | Self::Mul { d, .. }
            | Self::Or { d, .. }
            | Self::Xor { d, .. }
            | Self::Not { d, .. }
            | Self::Shl { d, .. }
            | Self::Shr { d, .. }
            | Self::Sar { d, .. }
            | Self::ShlBy { d, .. }
            | Self::ShrBy { d, .. }
            | Self::Div { d, .. }
            | Self::Mod { d, .. }
            | Self::Sext { d, .. }
            | Self::Compare { d, .. }
            | Self::CompareSigned { d, .. }
            | Self::CompareWide { d, .. }
            | Self::HeaderEqual { d, .. }
            | Self::Hash { d, .. }
            | Self::Random { d, .. }
            | Self::Meter { d, .. } => Some((d, 1)),
            Self::Extend { d, n, .. }
            | Self::MovWide { d, n, .. }
            | Self::AddWide { d, n, .. }
            | Self::SubWide { d, n, .. }
            | Self::MulWide { d, n, .. }
            | Self::DivWide { d, n, .. }
            | Self::ModWide { d, n, .. }
            | Self::AndWide { d, n, .. }
            | Self::OrWide { d, n, .. }
            | Self::XorWide { d, n, .. }
            | Self::NotWide { d, n, .. }
            | Self::ShlWide { d, n, .. }
            | Self::ShrWide { d, n, .. }
            | Self::ShlWideBy { d, n, .. }
            | Self::ShrWideBy { d, n, .. }
            | Self::SextWide { d, n, .. }
            | Self::MaskWide { d, n, .. }
            | Self::Clamp { d, n, .. }
            | Self::Lookahead { d, n, .. }
            | Self::RegisterRead { d, n, .. } => Some((d, u32::from(n))),
            _ => None,
        }
    }
}
