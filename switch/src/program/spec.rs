//! Parts of a compiled program that execution and control read.

use std::ops::Index;

use super::MeterUnit;
use super::ast::ConstEntry;
use super::num::Num;
use super::op::{KeyPart, Loc, Pc};

/// How a table's entries are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexKind {
    /// No key.
    None,
    /// Hash map.
    Exact,
    /// One hash map per prefix length.
    Lpm,
    /// Rows by priority.
    Rows,
}

/// A table.
#[derive(Debug)]
pub(crate) struct TableSpec {
    pub(crate) parts: Vec<KeyPart>,
    pub(crate) key_limbs: usize,
    /// ANDed to the packed key; empty if the program gives no mask.
    pub(crate) static_mask: Vec<u64>,
    pub(crate) index: IndexKind,
    /// Key fields matched by range.
    pub(crate) range_fields: Vec<usize>,
    pub(crate) field_bits: Vec<u32>,
    pub(crate) has_counter: bool,
    pub(crate) supports_timeout: bool,
    /// Where a direct meter's colour goes, its mask, what is measured.
    pub(crate) direct_meter: Option<(Loc, u64, MeterUnit)>,
    pub(crate) profile: Option<u32>,
    /// Calculation that picks a group's member.
    pub(crate) selector: Option<u32>,
    /// Where to go on after each action.
    pub(crate) next: Vec<(u32, Pc)>,
    pub(crate) hit_next: Option<Pc>,
    pub(crate) miss_override: Option<Pc>,
    /// Where a miss without default action goes.
    pub(crate) miss_next: Pc,
    pub(crate) default: Option<(usize, Vec<Num>)>,
    pub(crate) entries: Vec<ConstEntry>,
}

impl TableSpec {
    /// Whether packets leave something behind at an entry that they hit.
    #[inline(always)]
    pub(crate) fn counts_hits(&self) -> bool {
        self.has_counter || self.supports_timeout || self.direct_meter.is_some()
    }

    /// Where to go on after an action.
    pub(crate) fn next_of(&self, action: u32, hit: bool) -> Pc {
        let fixed = if hit { self.hit_next } else { self.miss_override };
        fixed.unwrap_or_else(|| {
            self.next.iter().find(|(a, _)| *a == action).map_or(super::op::END, |(_, pc)| *pc)
        })
    }

    /// Parts of the key that are matched by range, with their widths.
    pub(crate) fn range_parts(&self) -> impl Iterator<Item = (&KeyPart, u32)> {
        self.range_fields.iter().map(|i| (&self.parts[*i], self.field_bits[*i]))
    }
}

/// An action.
#[derive(Debug)]
pub(crate) struct ActionSpec {
    pub(crate) code: Pc,
    /// Width of each parameter.
    pub(crate) params: Vec<u32>,
}

/// A checksum to verify or update.
#[derive(Debug)]
pub(crate) struct ChecksumSpec {
    /// Code and the limb it leaves its value in.
    pub(crate) condition: Option<(Pc, Loc)>,
    pub(crate) calculation: u32,
    pub(crate) valid: Loc,
    pub(crate) target: Loc,
    pub(crate) mask: u64,
    pub(crate) verify: bool,
    pub(crate) update: bool,
}

/// Parser errors by the codes the program gives them.
#[derive(Debug, Default)]
pub(crate) struct ErrorCodes {
    pub(crate) no_error: u64,
    pub(crate) packet_too_short: u64,
    pub(crate) stack_out_of_bounds: u64,
    pub(crate) header_too_short: u64,
    pub(crate) invalid_argument: u64,
}

/// Metadata that the switch itself reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdField {
    IngressPort,
    PacketLength,
    InstanceType,
    EgressSpec,
    EgressPort,
    McastGrp,
    EgressRid,
    ParserError,
    ChecksumError,
    IngressTimestamp,
    EgressTimestamp,
    EnqTimestamp,
}

impl StdField {
    pub(crate) const ALL: [(Self, &'static str); 12] = [
        (Self::IngressPort, "standard_metadata.ingress_port"),
        (Self::PacketLength, "standard_metadata.packet_length"),
        (Self::InstanceType, "standard_metadata.instance_type"),
        (Self::EgressSpec, "standard_metadata.egress_spec"),
        (Self::EgressPort, "standard_metadata.egress_port"),
        (Self::McastGrp, "intrinsic_metadata.mcast_grp"),
        (Self::EgressRid, "intrinsic_metadata.egress_rid"),
        (Self::ParserError, "standard_metadata.parser_error"),
        (Self::ChecksumError, "standard_metadata.checksum_error"),
        (Self::IngressTimestamp, "intrinsic_metadata.ingress_global_timestamp"),
        (Self::EgressTimestamp, "intrinsic_metadata.egress_global_timestamp"),
        (Self::EnqTimestamp, "queueing_metadata.enq_timestamp"),
    ];
}

/// Where that metadata is, and the mask of its width.
#[derive(Debug, Default)]
pub(crate) struct StdFields(pub(crate) [Option<(Loc, u64)>; StdField::ALL.len()]);

impl Index<StdField> for StdFields {
    type Output = Option<(Loc, u64)>;

    fn index(&self, field: StdField) -> &Self::Output {
        &self.0[field as usize]
    }
}

/// A field whose value a clone, resubmission or recirculation keeps, or a digest carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) at: Loc,
    pub(crate) limbs: u16,
}

/// Limbs that egress may write, and has to find as ingress left them for every copy of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EgressWrite {
    pub(crate) at: Loc,
    pub(crate) limbs: u32,
    /// Validity of the header they belong to: while it is 0, they hold nothing.
    pub(crate) valid: Option<Loc>,
}
