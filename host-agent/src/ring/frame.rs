//! What travels on the ring's connections: frames of a header of 32 bytes and a payload, little-endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `IRNG` |
//! | 4 | 1 | kind |
//! | 5 | 1 | flags: a sum did not fit (result); ranks called different operations (abort) |
//! | 8 | 8 | number of the operation |
//! | 16 | 4 | tag: hash of the operation |
//! | 20 | 4 | segment |
//! | 24 | 4 | chunk of the segment |
//! | 28 | 4 | bytes of the payload |

use super::machine::Lost;

const MAGIC: [u8; 4] = *b"IRNG";
const HEADER_BYTES: usize = 32;
/// Longest payload: a chunk of partial sums, or a reason.
pub(super) const MOST_BYTES: usize = 1 << 17;

/// Kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Who sends here: the first frame of a connection.
    Hello,
    /// A chunk of partial sums.
    Partial,
    /// A chunk of results.
    Final,
    /// The sender is alive: how many operations it has started, and whom it waits for.
    Beat,
    /// The generation has ended.
    Abort,
    /// The sender leaves in good order.
    Bye,
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) flagged: bool,
    pub(super) operation: u64,
    pub(super) tag: u32,
    pub(super) segment: u32,
    pub(super) chunk: u32,
}

impl Head {
    /// A frame that is not about a chunk.
    pub(super) fn of(kind: Kind) -> Self {
        Self { kind, flagged: false, operation: 0, tag: 0, segment: 0, chunk: 0 }
    }

    /// Appends a frame whose payload `fill` appends.
    pub(super) fn emit(&self, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend(MAGIC);
        out.extend([self.kind as u8, u8::from(self.flagged), 0, 0]);
        out.extend(self.operation.to_le_bytes());
        for word in [self.tag, self.segment, self.chunk, 0] {
            out.extend(word.to_le_bytes());
        }
        fill(out);
        let length = (out.len() - start - HEADER_BYTES) as u32;
        out[start + 28..start + HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    }
}

/// A frame's header and body, and how long it is.
pub(super) type Parsed<'a> = (Head, &'a [u8], usize);

/// The first frame of the bytes; `None` if it is not all there.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Parsed<'_>>, Lost> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let broken = |what: String| Err(Lost::Garbage(what));
    if header[..4] != MAGIC {
        return broken(format!("a frame begins with {:02x?}", &header[..4]));
    }
    let kinds = [Kind::Hello, Kind::Partial, Kind::Final, Kind::Beat, Kind::Abort, Kind::Bye];
    let Some(kind) = kinds.into_iter().find(|kind| *kind as u8 == header[4]) else {
        return broken(format!("kind {}: known are 0 to 5", header[4]));
    };
    let word =
        |at: usize| header[at..at + 4].iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let length = word(28) as usize;
    if length > MOST_BYTES {
        return broken(format!("a payload of {length} bytes: at most {MOST_BYTES}"));
    }
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    let head = Head {
        kind,
        flagged: header[5] & 1 == 1,
        operation: u64::from(word(8)) | u64::from(word(12)) << 32,
        tag: word(16),
        segment: word(20),
        chunk: word(24),
    };
    Ok(Some((head, payload, HEADER_BYTES + length)))
}

/// A sequence of numbers at a payload's front.
pub(super) fn numbers(payload: &[u8]) -> impl Iterator<Item = u32> + '_ {
    payload.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}
