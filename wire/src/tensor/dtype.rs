//! Element types.

use core::fmt;
use core::str::FromStr;

use crate::float::FloatKind;

/// Element types of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32 = 1,
    /// 32-bit two's complement integers.
    I32 = 2,
    /// IEEE 754 binary16.
    F16 = 3,
    /// bfloat16, the upper half of binary32.
    Bf16 = 4,
    /// OCP 8-bit floating point E4M3: to 448, no infinities.
    F8E4M3 = 5,
    /// OCP 8-bit floating point E5M2.
    F8E5M2 = 6,
    /// 8-bit integers.
    I8 = 7,
    /// 16-bit integers.
    I16 = 8,
    /// 64-bit integers.
    I64 = 9,
    /// Unsigned 8-bit integers.
    U8 = 10,
    /// 4-bit integers, -8 to 7, two in a byte, the first in the low half.
    I4 = 11,
}

/// The range of an integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegerKind {
    /// Bits.
    pub bits: u32,
    /// Smallest value.
    pub least: i64,
    /// Largest value.
    pub most: i64,
}

impl Dtype {
    /// Every type there is.
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::I32,
        Self::F16,
        Self::Bf16,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::I8,
        Self::I16,
        Self::I64,
        Self::U8,
        Self::I4,
    ];

    /// The code that is hashed into operation tags: ranks must agree on it.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Its name on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::I4 => "i4",
        }
    }

    /// Bits of one element.
    pub const fn bits(self) -> u32 {
        match self {
            Self::I4 => 4,
            Self::F8E4M3 | Self::F8E5M2 | Self::I8 | Self::U8 => 8,
            Self::F16 | Self::Bf16 | Self::I16 => 16,
            Self::F32 | Self::I32 => 32,
            Self::I64 => 64,
        }
    }

    /// Bytes that this many elements take.
    pub const fn bytes_for(self, elements: usize) -> usize {
        match self {
            Self::I4 => elements.div_ceil(2),
            _ => elements * (self.bits() as usize / 8),
        }
    }

    /// Elements that fit into this many bytes.
    pub const fn elements_in(self, bytes: usize) -> usize {
        match self {
            Self::I4 => bytes * 2,
            _ => bytes / (self.bits() as usize / 8),
        }
    }

    /// The bits of a float type.
    pub const fn float(self) -> Option<FloatKind> {
        match self {
            Self::F32 => Some(FloatKind::F32),
            Self::F16 => Some(FloatKind::F16),
            Self::Bf16 => Some(FloatKind::BF16),
            Self::F8E4M3 => Some(FloatKind::E4M3),
            Self::F8E5M2 => Some(FloatKind::E5M2),
            _ => None,
        }
    }

    /// The range of an integer type.
    pub const fn integer(self) -> Option<IntegerKind> {
        const fn signed(bits: u32) -> Option<IntegerKind> {
            let most = i64::MAX >> (64 - bits);
            Some(IntegerKind { bits, least: -most - 1, most })
        }
        match self {
            Self::U8 => Some(IntegerKind { bits: 8, least: 0, most: 255 }),
            Self::I4 | Self::I8 | Self::I16 | Self::I32 | Self::I64 => signed(self.bits()),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no element type has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("element type {given:?}: known are {}", Dtype::ALL.map(Dtype::name).join(", "))]
pub struct UnknownDtype {
    /// What was given.
    pub given: String,
}

impl FromStr for Dtype {
    type Err = UnknownDtype;

    fn from_str(name: &str) -> Result<Self, UnknownDtype> {
        let known = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| UnknownDtype { given: name.to_owned() })
    }
}
