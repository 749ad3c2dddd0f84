//! What is on a connection between two ranks: a greeting of 24 bytes, then messages with a header of 24 bytes each; little-endian.
//!
//! | greeting | bytes | |   | header | bytes | |
//! |---|---|---|---|---|---|---|
//! | 0 | 4 | `IMSG` |   | 0 | 1 | kind |
//! | 4 | 4 | version, 1 |   | 1 | 1 | code of the element type |
//! | 8 | 8 | the receiver's secret |   | 2 | 2 | 0 |
//! | 16 | 4 | the sender's rank |   | 4 | 4 | tag |
//! | 20 | 4 | 0 |   | 8 | 8 | elements |
//! | | | |   | 16 | 8 | bytes that follow |

use std::net::{Ipv4Addr, SocketAddrV4};

const MAGIC: [u8; 4] = *b"IMSG";
const VERSION: u32 = 1;
pub(crate) const GREETING_BYTES: usize = 24;
pub(crate) const HEADER_BYTES: usize = 24;

/// What a rank tells all others of itself: where it listens, and what to show there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) address: SocketAddrV4,
    pub(crate) secret: u64,
}

impl Card {
    /// Bytes of a card.
    pub(crate) const BYTES: usize = 14;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.address.ip().octets());
        bytes[4..6].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[6..].copy_from_slice(&self.secret.to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let [a, b, c, d, p, q, secret @ ..] = *bytes;
        let address = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_le_bytes([p, q]));
        Self { address, secret: u64::from_le_bytes(secret) }
    }
}

/// A greeting.
pub(crate) fn greeting(secret: u64, rank: u32) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
    bytes[8..16].copy_from_slice(&secret.to_le_bytes());
    bytes[16..20].copy_from_slice(&rank.to_le_bytes());
    bytes
}

/// The rank that greets, if it shows the secret.
pub(crate) fn greets(bytes: &[u8; GREETING_BYTES], secret: u64) -> Option<u32> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let shown = u64::from(word(8)) | u64::from(word(12)) << 32;
    (bytes[..4] == MAGIC && word(4) == VERSION && shown == secret).then(|| word(16))
}

/// What a message belongs to: those of one kind never meet the other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Of send and receive.
    Message = 1,
    /// A part of an all-to-all.
    Part = 2,
}

/// A message's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) dtype: u8,
    pub(crate) tag: u32,
    pub(crate) elements: u64,
    pub(crate) bytes: u64,
}

impl Head {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        (bytes[0], bytes[1]) = (self.kind as u8, self.dtype);
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.elements.to_le_bytes());
        bytes[16..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// None: no message begins like this.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [kind, dtype, 0, 0, t0, t1, t2, t3, rest @ ..] = *bytes else { return None };
        let (elements, length) = rest.split_first_chunk::<8>()?;
        let length: [u8; 8] = length.try_into().ok()?;
        let kind = [Kind::Message, Kind::Part].into_iter().find(|known| *known as u8 == kind)?;
        let (elements, bytes) = (u64::from_le_bytes(*elements), u64::from_le_bytes(length));
        // No element has more than 8 bytes.
        let plausible = bytes <= elements.saturating_mul(8);
        plausible.then_some(Self { kind, dtype, tag: u32::from_le_bytes([t0, t1, t2, t3]), elements, bytes })
    }
}
