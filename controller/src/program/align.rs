//! What the accumulation tables share: how a packet's lanes meet the accumulator.

use inca_p4runtime::Value;
use inca_wire::packet::Format;

/// Key `align`, computed by the P4 program (`ALIGN_*` in `p4/accumulate.p4`); table `accumulate` knows each by [`BOTH`] more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Align {
    /// First contribution, all zeros.
    Clear = 1,
    /// First non-zero contribution, from a host.
    Store = 2,
    /// From a host, at or below the accumulator's exponent: the packet is shifted.
    Add = 3,
    /// From a host, above it: the accumulator is shifted.
    Raise = 4,
    /// As `Store`, from a switch: wide lanes.
    StorePartial = 5,
    /// As `Add`, from a switch.
    AddPartial = 6,
    /// As `Raise`, from a switch.
    RaisePartial = 7,
}

impl Align {
    /// Every case with an entry.
    pub const ALL: [Self; 7] = [
        Self::Clear,
        Self::Store,
        Self::Add,
        Self::Raise,
        Self::StorePartial,
        Self::AddPartial,
        Self::RaisePartial,
    ];
}

/// What is added where both planes meet the packet alike (`ALIGN_BOTH`).
const BOTH: u8 = 8;

/// The key of all accumulation tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The tree's number format.
    pub format: Format,
    /// How packet and accumulator meet.
    pub align: Align,
}

impl Key {
    /// For one plane.
    pub(super) fn fields(self) -> [(&'static str, Value); 2] {
        self.fields_with(self.align as u8)
    }

    /// For both at once.
    pub(super) fn fields_of_both(self) -> [(&'static str, Value); 2] {
        self.fields_with(self.align as u8 + BOTH)
    }

    fn fields_with(self, align: u8) -> [(&'static str, Value); 2] {
        [("format", u8::from(self.format).into()), ("align", align.into())]
    }
}
