//! Execution of the flat code.

pub(crate) mod calc;
pub(crate) mod hash;
mod headers;
mod limbs;
mod lookup;
pub(crate) mod meter;
mod parse;
mod rare;
pub(crate) mod rules;
mod run;
pub(crate) mod state;
pub(crate) mod table;
mod wide;
mod wire;
mod word;

pub(crate) use run::Machine;

/// What BMv2 keeps beside the header fields of a packet in flight.
#[derive(Debug, Clone)]
pub(crate) struct PacketState {
    pub(crate) now_us: u64,
    /// Length as received, what counters count.
    pub(crate) ingress_length: u64,
    /// Length less headers removed plus headers added.
    pub(crate) length: u64,
    /// Bytes that the parser consumed: the payload begins there.
    pub(crate) parsed: usize,
    pub(crate) exit: bool,
    /// Session and field list.
    pub(crate) clone: Option<(u16, u16)>,
    pub(crate) digest: u16,
    pub(crate) resubmit: u16,
    pub(crate) recirculate: u16,
    pub(crate) truncate: u64,
    /// Code of the parser's error.
    pub(crate) error: Option<u64>,
}

impl PacketState {
    pub(crate) fn new(length: usize, now_us: u64) -> Self {
        Self {
            now_us,
            ingress_length: length as u64,
            length: length as u64,
            parsed: 0,
            exit: false,
            clone: None,
            digest: 0,
            resubmit: 0,
            recirculate: 0,
            truncate: u64::MAX,
            error: None,
        }
    }

    /// For a copy: its requests are its own.
    pub(crate) fn copied(&self) -> Self {
        Self {
            exit: false,
            clone: None,
            digest: 0,
            resubmit: 0,
            recirculate: 0,
            truncate: u64::MAX,
            error: None,
            ..self.clone()
        }
    }
}

/// Things that should not happen in a right program; BMv2 would abort or do anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuntimeFaults {
    /// Register, counter or meter index beyond the array; nothing was read or written.
    pub index_out_of_range: u64,
    /// Stack element that does not exist; reads gave 0.
    pub stack_out_of_range: u64,
    /// Division by zero; gave 0.
    pub division_by_zero: u64,
    /// `assert` or `assume` that failed; the packet was dropped.
    pub asserts_failed: u64,
    /// Resubmissions and recirculations beyond the limit; the packet was dropped.
    pub loops_cut: u64,
    /// Replication to a multicast group or clone session that does not exist.
    pub unknown_groups: u64,
}

impl RuntimeFaults {
    /// The sum of two.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            index_out_of_range: self.index_out_of_range + other.index_out_of_range,
            stack_out_of_range: self.stack_out_of_range + other.stack_out_of_range,
            division_by_zero: self.division_by_zero + other.division_by_zero,
            asserts_failed: self.asserts_failed + other.asserts_failed,
            loops_cut: self.loops_cut + other.loops_cut,
            unknown_groups: self.unknown_groups + other.unknown_groups,
        }
    }
}
