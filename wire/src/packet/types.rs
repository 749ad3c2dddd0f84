//! Opcode, flags and number format of a packet.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};
use core::str::FromStr;

use super::PacketError;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Opcode {
    /// Host to leaf: narrow lanes, both planes.
    Contribution = 1,
    /// Switch to parent: wide lanes, one plane.
    Partial = 2,
    /// Root to switches to hosts: narrow lanes, rounded.
    Result = 3,
    /// Member to switch: what does this slot wait for.
    Probe = 4,
    /// Switch to that member.
    ProbeReply = 5,
    /// Host to the announce address: handed to the controller.
    Announce = 6,
}

impl Opcode {
    /// Whether an unflagged packet of this kind carries words.
    pub const fn has_payload(self) -> bool {
        matches!(self, Self::Contribution | Self::Partial | Self::Result)
    }
}

impl From<Opcode> for u8 {
    fn from(opcode: Opcode) -> u8 {
        opcode as u8
    }
}

impl TryFrom<u8> for Opcode {
    type Error = PacketError;

    fn try_from(value: u8) -> Result<Self, PacketError> {
        Ok(match value {
            1 => Self::Contribution,
            2 => Self::Partial,
            3 => Self::Result,
            4 => Self::Probe,
            5 => Self::ProbeReply,
            6 => Self::Announce,
            _ => return Err(PacketError::Opcode(value)),
        })
    }
}

/// Number format of the lanes; `docs/number-formats.md` defines each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Format {
    /// 32-bit integers in 64-bit accumulator lanes.
    I32 = 1,
    /// 16-bit mantissas with one exponent per chunk, in 32-bit accumulator lanes.
    Bfp16 = 2,
    /// 8-bit integers in 16-bit accumulator lanes.
    I8 = 3,
    /// 16-bit integers in 32-bit accumulator lanes.
    I16 = 4,
    /// 64-bit integers in 128-bit accumulator lanes.
    I64 = 5,
    /// 8-bit mantissas with one exponent per chunk, in 16-bit accumulator lanes.
    Bfp8 = 6,
    /// 32-bit mantissas with one exponent per chunk, in 64-bit accumulator lanes.
    Bfp32 = 7,
    /// Floating-point elements as 64-bit digits of one fixed point per chunk: sums of the inputs, rounded once.
    Exact = 8,
    /// Sort keys of 8 bits: minimum and maximum.
    Max8 = 9,
    /// Sort keys of 16 bits.
    Max16 = 10,
    /// Sort keys of 32 bits.
    Max32 = 11,
    /// Sort keys of 64 bits.
    Max64 = 12,
}

impl Format {
    /// Every format there is, in the order of their ids.
    pub const ALL: [Self; 12] = [
        Self::I32,
        Self::Bfp16,
        Self::I8,
        Self::I16,
        Self::I64,
        Self::Bfp8,
        Self::Bfp32,
        Self::Exact,
        Self::Max8,
        Self::Max16,
        Self::Max32,
        Self::Max64,
    ];

    /// Its name on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::Bfp16 => "bfp16",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I64 => "i64",
            Self::Bfp8 => "bfp8",
            Self::Bfp32 => "bfp32",
            Self::Exact => "exact",
            Self::Max8 => "max8",
            Self::Max16 => "max16",
            Self::Max32 => "max32",
            Self::Max64 => "max64",
        }
    }
}

impl From<Format> for u8 {
    fn from(format: Format) -> u8 {
        format as u8
    }
}

impl TryFrom<u8> for Format {
    type Error = PacketError;

    fn try_from(value: u8) -> Result<Self, PacketError> {
        Self::ALL.into_iter().find(|format| *format as u8 == value).ok_or(PacketError::Format(value))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no number format has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("number format {given:?}: known are {}", Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat {
    /// What was given.
    pub given: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownFormat { given: name.to_owned() })
    }
}

/// Flag bits of a packet. Any flag means that the sum is void and that no words follow; bits without a name count as flags too, so
/// that a receiver never takes a later version's flagged result for a sum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Contributions of different operations met.
    pub const MISMATCH: Self = Self(1 << 0);
    /// Exponents are further apart than the guard bits.
    pub const RANGE: Self = Self(1 << 1);
    /// A contribution holds NaN or infinities.
    pub const NONFINITE: Self = Self(1 << 2);
    /// An integer sum does not fit the delivered width.
    pub const OVERFLOW: Self = Self(1 << 3);
    /// Only in a probe reply: the slot's sequence is finished.
    pub const DONE: Self = Self(1 << 7);

    const NAMES: [(Self, &'static str); 5] = [
        (Self::MISMATCH, "MISMATCH"),
        (Self::RANGE, "RANGE"),
        (Self::NONFINITE, "NONFINITE"),
        (Self::OVERFLOW, "OVERFLOW"),
        (Self::DONE, "DONE"),
    ];

    /// Takes all eight bits as they are.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// All eight bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other`'s flags are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut unnamed = self.0;
        let mut separator = "";
        for (flag, name) in Self::NAMES {
            if self.contains(flag) {
                write!(f, "{separator}{name}")?;
                separator = "|";
                unnamed &= !flag.0;
            }
        }
        if unnamed != 0 {
            write!(f, "{separator}{unnamed:#04x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({self})")
    }
}
