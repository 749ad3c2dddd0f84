//! Calculations over header fields: checksums, hashes, selectors.

use super::wire;
use crate::program::Program;
use crate::program::op::Loc;

/// One input of a calculation.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// A field, skipped if its header is invalid.
    Field {
        valid: Loc,
        at: Loc,
        limbs: u16,
        bits: u32,
        variable: Loc,
    },
    Const {
        bytes: Vec<u8>,
        bits: u32,
    },
    /// A whole header, skipped if it is invalid.
    Header {
        header: u32,
    },
}

/// A calculation, ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Calc {
    pub(crate) algorithm: super::hash::Algorithm,
    pub(crate) input: Vec<Input>,
    pub(crate) with_payload: bool,
}

impl Calc {
    /// Concatenates the inputs, bit by bit, zeros up to a whole byte at the end.
    pub(super) fn gather(&self, program: &Program, mem: &[u64], payload: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let mut bit = 0usize;
        for input in &self.input {
            match input {
                Input::Field { valid, at, limbs, bits, variable } => {
                    if *valid != Loc::MAX && mem[*valid as usize] == 0 {
                        continue;
                    }
                    let bits = if *variable == Loc::MAX { *bits } else { mem[*variable as usize] as u32 };
                    out.resize((bit + bits as usize).div_ceil(8), 0);
                    let value = &mem[*at as usize..*at as usize + usize::from(*limbs)];
                    wire::write_value(out, bit, bits, value);
                    bit += bits as usize;
                }
                Input::Const { bytes, bits } => {
                    out.resize((bit + *bits as usize).div_ceil(8), 0);
                    let mut left = *bits;
                    for chunk in bytes.rchunks(8) {
                        let n = left.min(64);
                        let value = chunk.iter().fold(0u64, |acc, b| (acc << 8) | u64::from(*b));
                        wire::write_bits(out, bit + (left - n) as usize, n, value);
                        left -= n;
                    }
                    bit += *bits as usize;
                }
                Input::Header { header } => {
                    let header = &program.layout.headers[*header as usize];
                    if mem[header.valid as usize] != 0 || header.metadata {
                        out.truncate(bit.div_ceil(8));
                        wire::emit(header, mem, out);
                        bit = out.len() * 8;
                    }
                }
            }
        }
        if self.with_payload {
            out.extend_from_slice(payload);
        }
    }
}
