//! What ranks tell each other when they have called different operations: "Mismatch" in `docs/protocol.md`.

use std::fmt;

use super::operation::{Collective, OperationText, ReduceOp};
use super::tensor::Dtype;

/// Bytes of a description: a whole number of lanes in every format of integers and keys.
pub(super) const DESCRIPTION_BYTES: usize = 16;

/// What each rank has called, as far as it could be told: ranks of one call together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls(pub Vec<(Vec<u32>, String)>);

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (ranks, call)) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { " (" } else { "; " })?;
            match ranks.as_slice() {
                [] => f.write_str(call)?,
                [rank] => write!(f, "rank {rank}: {call}")?,
                ranks => write!(f, "ranks {ranks:?}: {call}")?,
            }
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

/// A call in 16 bytes: 1, collective, op, type, root (2 bytes), 0 (2), elements (8); little-endian.
pub(super) fn describe(text: &OperationText) -> [u8; DESCRIPTION_BYTES] {
    let mut bytes = [0; DESCRIPTION_BYTES];
    (bytes[0], bytes[1], bytes[2], bytes[3]) = (1, text.collective.code(), text.op.code(), text.dtype.code());
    // Ranks have 16 bits.
    bytes[4..6].copy_from_slice(&(text.collective.root().unwrap_or(0) as u16).to_le_bytes());
    bytes[8..].copy_from_slice(&text.elements.to_le_bytes());
    bytes
}

/// All descriptions, one behind the other, of these ranks.
pub(super) fn read(bytes: &[u8], ranks: &[u32]) -> Calls {
    let mut calls = Calls::default();
    for (bytes, rank) in bytes.as_chunks::<DESCRIPTION_BYTES>().0.iter().zip(ranks) {
        let Some(call) = words(bytes) else { continue };
        match calls.0.iter_mut().find(|(_, other)| *other == call) {
            Some((ranks, _)) => ranks.push(*rank),
            None => calls.0.push((vec![*rank], call)),
        }
    }
    calls
}

fn words(bytes: &[u8; DESCRIPTION_BYTES]) -> Option<String> {
    let [1, collective, op, dtype, low, high, _, _, elements @ ..] = *bytes else { return None };
    let root = u16::from_le_bytes([low, high]);
    let known = [
        Collective::Allreduce,
        Collective::Reduce { root },
        Collective::Broadcast { root },
        Collective::Allgather,
        Collective::ReduceScatter,
        Collective::Barrier,
        Collective::Alltoall,
    ];
    let text = OperationText {
        id: Default::default(),
        collective: known.into_iter().find(|known| known.code() == collective)?,
        op: ReduceOp::ALL.into_iter().find(|known| known.code() == op)?,
        dtype: Dtype::ALL.into_iter().find(|known| known.code() == dtype)?,
        elements: u64::from_le_bytes(elements),
    };
    Some(text.call())
}
