//! What a call reduces and how: element type, operation and number format, and whether they go together.

use core::fmt;
use core::str::FromStr;

use crate::format::{Format, FormatError, Kind};
use crate::tensor::Dtype;

/// How elements are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReduceOp {
    /// The sum over all ranks.
    Sum,
    /// The sum divided by the world size at each host. Floats: the exact quotient of the sum that the format carries, rounded once, so an
    /// average that fits is never infinite. Integers: rounded to nearest, ties to even; right even where the sum does not fit the type.
    Average,
    /// The smallest element; of floats IEEE 754-2019 `minimum`: -0 is below +0, and NaN if any element is.
    Min,
    /// The largest element; of floats IEEE 754-2019 `maximum`.
    Max,
    /// The product. Refused, see [`SchemeError::Product`].
    Product,
}

impl ReduceOp {
    /// Every operation there is a name for.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Average, Self::Min, Self::Max, Self::Product];

    /// The code that is hashed into operation tags.
    pub const fn code(self) -> u8 {
        match self {
            Self::Sum => 1,
            Self::Average => 2,
            Self::Min => 3,
            Self::Max => 4,
            Self::Product => 5,
        }
    }

    /// Its name on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Average => "average",
            Self::Min => "min",
            Self::Max => "max",
            Self::Product => "product",
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no operation has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reduction {given:?}: known are sum, average (or avg), min and max")]
pub struct UnknownOp {
    /// What was given.
    pub given: String,
}

impl FromStr for ReduceOp {
    type Err = UnknownOp;

    fn from_str(name: &str) -> Result<Self, UnknownOp> {
        let name = if name == "avg" { "average" } else { name };
        let known = Self::ALL.into_iter().find(|op| op.name() == name);
        known.ok_or_else(|| UnknownOp { given: name.to_owned() })
    }
}

/// Why a call can't be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// Products are not offered.
    #[error(
        "product is not offered: a product of n numbers of w bits has n x w bits, which no accumulator of the switches holds, and rounding on the way would make the result depend on the order; add logarithms, or gather and multiply at the hosts"
    )]
    Product,
    /// The format can't carry the type through the operation.
    #[error("number format {format} does not carry {op} of {dtype}: use {}", names(*dtype, *op))]
    Format {
        /// Element type.
        dtype: Dtype,
        /// Operation.
        op: ReduceOp,
        /// The format given.
        format: Format,
    },
    /// The group is too large for the format.
    #[error(transparent)]
    World(#[from] FormatError),
}

fn names(dtype: Dtype, op: ReduceOp) -> String {
    Scheme::formats(dtype, op).iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

/// Element type, operation, number format and group size of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    pub(crate) dtype: Dtype,
    pub(crate) op: ReduceOp,
    pub(crate) format: Format,
    pub(crate) world: u32,
}

impl Scheme {
    /// Checks that the format carries this type through this operation, in a group of `world` ranks.
    pub fn new(dtype: Dtype, op: ReduceOp, format: Format, world: u32) -> Result<Self, SchemeError> {
        if op == ReduceOp::Product {
            return Err(SchemeError::Product);
        }
        if !Self::formats(dtype, op).contains(&format) {
            return Err(SchemeError::Format { dtype, op, format });
        }
        format.guard_bits(world as usize)?;
        Ok(Self { dtype, op, format, world })
    }

    /// The formats that carry this type through this operation, the default first.
    pub const fn formats(dtype: Dtype, op: ReduceOp) -> &'static [Format] {
        use Format::{Bfp8, Bfp16, Bfp32, Exact, I8, I16, I32, I64, Max8, Max16, Max32, Max64};
        match op {
            ReduceOp::Sum | ReduceOp::Average => match dtype {
                Dtype::F32 | Dtype::F16 | Dtype::Bf16 => &[Bfp16, Bfp8, Bfp32, Exact],
                Dtype::F8E4M3 | Dtype::F8E5M2 => &[Bfp8, Bfp16, Bfp32, Exact],
                Dtype::I4 | Dtype::I8 => &[I8, I16, I32, I64],
                // A byte without a sign does not fit a lane with one.
                Dtype::U8 | Dtype::I16 => &[I16, I32, I64],
                Dtype::I32 => &[I32, I64],
                Dtype::I64 => &[I64],
            },
            ReduceOp::Min | ReduceOp::Max => match dtype.bits() {
                4 | 8 => &[Max8],
                16 => &[Max16],
                32 => &[Max32],
                _ => &[Max64],
            },
            ReduceOp::Product => &[],
        }
    }

    /// The format that carries this type through this operation if none is asked for.
    pub fn default_format(dtype: Dtype, op: ReduceOp) -> Result<Format, SchemeError> {
        Self::formats(dtype, op).first().copied().ok_or(SchemeError::Product)
    }

    /// Element type.
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Operation.
    pub const fn op(&self) -> ReduceOp {
        self.op
    }

    /// Number format.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether there is a residual to be fed back: f32, quantised to blocks.
    pub const fn has_residual(&self) -> bool {
        matches!((self.dtype, self.format.kind()), (Dtype::F32, Kind::Block))
    }

    /// By how many the sum is divided.
    pub(crate) const fn divisor(&self) -> u32 {
        match self.op {
            ReduceOp::Average => self.world,
            _ => 1,
        }
    }

    /// Whether the smallest element is wanted.
    pub(crate) const fn least(&self) -> bool {
        matches!(self.op, ReduceOp::Min)
    }

    /// Whether floating-point elements travel as integers.
    pub(crate) const fn is_exact_float(&self) -> bool {
        matches!(self.format.kind(), Kind::Integer) && self.dtype.float().is_some()
    }
}
