//! The reduction packet: 40 bytes of header, then `words` words of 2048 bits, the payload of a UDP datagram.
//!
//! [`Packet`] is a view of bytes in place, for code that patches fields; [`Header`] is the header as a plain struct. Field meanings
//! and rules are those of `docs/protocol.md`, version 1.

mod header;
#[cfg(test)]
mod tests;
mod types;

pub use header::Header;
pub use types::{Flags, Format, Opcode, UnknownFormat};

/// Protocol version in every header.
pub const VERSION: u8 = 1;
/// UDP destination port of every reduction packet towards a switch.
pub const UDP_PORT: u16 = 18766;
/// Bytes of the header.
pub const HEADER_LEN: usize = 40;
/// Bits of a word.
pub const WORD_BITS: usize = 2048;
/// Bytes of a word.
pub const WORD_BYTES: usize = WORD_BITS / 8;
/// Most words in a packet.
pub const MAX_WORDS: usize = 32;
/// Bytes of the largest packet (a UDP payload).
pub const MAX_PACKET_LEN: usize = HEADER_LEN + MAX_WORDS * WORD_BYTES;
/// Largest number of ranks of a group: `contributions` has 16 bits.
pub const MAX_WORLD: usize = 0xFFFF;
/// Bias of the exponent fields: 16384 stands for 2^0.
pub const EXP_BIAS: u16 = 16384;
/// `exp_max` of a packet that holds nothing but zeros.
pub const NO_EXP_MAX: u16 = 0;
/// `exp_min` of a packet that holds nothing but zeros.
pub const NO_EXP_MIN: u16 = 0xFFFF;
/// Lanes of both planes are in the packet; partial sums carry plane 0 or 1 instead.
pub const PLANE_BOTH: u8 = 2;
/// `member` under which a switch knows its parent.
pub const PARENT_MEMBER: u16 = 0xFFFF;

/// Where the fields are.
mod field {
    use core::ops::{Range, RangeFrom};

    pub(super) const VERSION: usize = 0;
    pub(super) const OPCODE: usize = 1;
    pub(super) const FLAGS: usize = 2;
    pub(super) const FORMAT: usize = 3;
    pub(super) const TREE_ID: Range<usize> = 4..6;
    pub(super) const MEMBER: Range<usize> = 6..8;
    pub(super) const GENERATION: Range<usize> = 8..12;
    pub(super) const SLOT: Range<usize> = 12..16;
    pub(super) const SEQUENCE: Range<usize> = 16..20;
    pub(super) const TAG: Range<usize> = 20..24;
    pub(super) const PLANE: usize = 24;
    pub(super) const WORDS: usize = 25;
    pub(super) const CONTRIBUTIONS: Range<usize> = 26..28;
    pub(super) const EXP_MAX: Range<usize> = 28..30;
    pub(super) const EXP_MIN: Range<usize> = 30..32;
    pub(super) const BIAS: Range<usize> = 32..40;
    pub(super) const PAYLOAD: RangeFrom<usize> = 40..;
}

/// Why bytes are not a reduction packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Fewer bytes than a header.
    #[error("reduction packet of {len} bytes: the header alone has {HEADER_LEN}")]
    Truncated {
        /// Bytes given.
        len: usize,
    },
    /// The length does not agree with the word count.
    #[error("reduction packet of {len} bytes with {words} words: must be {expected} bytes")]
    Length {
        /// Bytes given.
        len: usize,
        /// The header's word count.
        words: u8,
        /// Bytes that many words make.
        expected: usize,
    },
    /// The word count is out of range.
    #[error("field words is {0}: at most {MAX_WORDS}")]
    TooManyWords(u8),
    /// A flagged packet, or one of an opcode without payload, has words.
    #[error("{words} words in a packet with flags {flags} and opcode {opcode}: it must have none")]
    UnexpectedWords {
        /// The header's word count.
        words: u8,
        /// The header's flags.
        flags: Flags,
        /// The header's opcode.
        opcode: u8,
    },
    /// An unflagged contribution, partial or result without words.
    #[error("no words in an unflagged packet with opcode {0}: needs 1 to {MAX_WORDS}")]
    NoWords(u8),
    /// Another protocol version.
    #[error("field version is {0}: this side speaks {VERSION}")]
    Version(u8),
    /// No such opcode.
    #[error("field opcode is {0}: known are 1 to 6")]
    Opcode(u8),
    /// No such number format.
    #[error("field format is {0}: known are 1 (i32) to 12 (max64)")]
    Format(u8),
    /// The plane does not fit the opcode.
    #[error("field plane is {plane} in a packet with opcode {opcode}: partials carry 0 or 1, all others 2")]
    Plane {
        /// The header's plane.
        plane: u8,
        /// The header's opcode.
        opcode: u8,
    },
}

/// A reduction packet in a buffer: the payload of a UDP datagram.
///
/// Accessors panic on a buffer that [`Packet::new_checked`] would have refused as too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Takes the buffer as it is; for building packets.
    pub fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// Takes a buffer that is exactly one packet: length and word count agree, and words are there just where the opcode and
    /// the flags want them. Other fields are judged by [`Header::parse`].
    pub fn new_checked(buffer: T) -> Result<Self, PacketError> {
        let packet = Self { buffer };
        packet.check_len()?;
        Ok(packet)
    }

    fn check_len(&self) -> Result<(), PacketError> {
        let len = self.buffer.as_ref().len();
        if len < HEADER_LEN {
            return Err(PacketError::Truncated { len });
        }
        let (words, flags, opcode) = (self.words(), self.flags(), self.opcode_raw());
        if usize::from(words) > MAX_WORDS {
            return Err(PacketError::TooManyWords(words));
        }
        let carries_words = flags.is_empty() && Opcode::try_from(opcode).is_ok_and(Opcode::has_payload);
        if carries_words && words == 0 {
            return Err(PacketError::NoWords(opcode));
        }
        if !carries_words && words != 0 {
            return Err(PacketError::UnexpectedWords { words, flags, opcode });
        }
        let expected = packet_len(words);
        if len != expected {
            return Err(PacketError::Length { len, words, expected });
        }
        Ok(())
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Field `version`.
    pub fn version(&self) -> u8 {
        self.u8(field::VERSION)
    }

    /// Field `opcode` as it stands.
    pub fn opcode_raw(&self) -> u8 {
        self.u8(field::OPCODE)
    }

    /// Field `opcode`.
    pub fn opcode(&self) -> Result<Opcode, PacketError> {
        Opcode::try_from(self.opcode_raw())
    }

    /// Field `flags`.
    pub fn flags(&self) -> Flags {
        Flags::from_bits(self.u8(field::FLAGS))
    }

    /// Field `format`.
    pub fn format(&self) -> Result<Format, PacketError> {
        Format::try_from(self.u8(field::FORMAT))
    }

    /// Field `tree_id`.
    pub fn tree_id(&self) -> u16 {
        u16::from_be_bytes(self.array(field::TREE_ID))
    }

    /// Field `member`.
    pub fn member(&self) -> u16 {
        u16::from_be_bytes(self.array(field::MEMBER))
    }

    /// Field `generation`.
    pub fn generation(&self) -> u32 {
        u32::from_be_bytes(self.array(field::GENERATION))
    }

    /// Field `slot`.
    pub fn slot(&self) -> u32 {
        u32::from_be_bytes(self.array(field::SLOT))
    }

    /// Field `sequence`.
    pub fn sequence(&self) -> u32 {
        u32::from_be_bytes(self.array(field::SEQUENCE))
    }

    /// Field `tag`.
    pub fn tag(&self) -> u32 {
        u32::from_be_bytes(self.array(field::TAG))
    }

    /// Field `plane`.
    pub fn plane(&self) -> u8 {
        self.u8(field::PLANE)
    }

    /// Field `words`.
    pub fn words(&self) -> u8 {
        self.u8(field::WORDS)
    }

    /// Field `contributions`.
    pub fn contributions(&self) -> u16 {
        u16::from_be_bytes(self.array(field::CONTRIBUTIONS))
    }

    /// Field `exp_max`.
    pub fn exp_max(&self) -> u16 {
        u16::from_be_bytes(self.array(field::EXP_MAX))
    }

    /// Field `exp_min`.
    pub fn exp_min(&self) -> u16 {
        u16::from_be_bytes(self.array(field::EXP_MIN))
    }

    /// Field `bias`.
    pub fn bias(&self) -> u64 {
        u64::from_be_bytes(self.array(field::BIAS))
    }

    /// The words, [`WORD_BYTES`] bytes each.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[field::PAYLOAD]
    }

    fn u8(&self, at: usize) -> u8 {
        self.buffer.as_ref()[at]
    }

    fn array<const N: usize>(&self, at: core::ops::Range<usize>) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer.as_ref()[at]);
        bytes
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets field `version`.
    pub fn set_version(&mut self, value: u8) {
        self.set(field::VERSION..field::VERSION + 1, &[value]);
    }

    /// Sets field `opcode`.
    pub fn set_opcode(&mut self, value: Opcode) {
        self.set(field::OPCODE..field::OPCODE + 1, &[value.into()]);
    }

    /// Sets field `flags`.
    pub fn set_flags(&mut self, value: Flags) {
        self.set(field::FLAGS..field::FLAGS + 1, &[value.bits()]);
    }

    /// Sets field `format`.
    pub fn set_format(&mut self, value: Format) {
        self.set(field::FORMAT..field::FORMAT + 1, &[value.into()]);
    }

    /// Sets field `tree_id`.
    pub fn set_tree_id(&mut self, value: u16) {
        self.set(field::TREE_ID, &value.to_be_bytes());
    }

    /// Sets field `member`.
    pub fn set_member(&mut self, value: u16) {
        self.set(field::MEMBER, &value.to_be_bytes());
    }

    /// Sets field `generation`.
    pub fn set_generation(&mut self, value: u32) {
        self.set(field::GENERATION, &value.to_be_bytes());
    }

    /// Sets field `slot`.
    pub fn set_slot(&mut self, value: u32) {
        self.set(field::SLOT, &value.to_be_bytes());
    }

    /// Sets field `sequence`.
    pub fn set_sequence(&mut self, value: u32) {
        self.set(field::SEQUENCE, &value.to_be_bytes());
    }

    /// Sets field `tag`.
    pub fn set_tag(&mut self, value: u32) {
        self.set(field::TAG, &value.to_be_bytes());
    }

    /// Sets field `plane`.
    pub fn set_plane(&mut self, value: u8) {
        self.set(field::PLANE..field::PLANE + 1, &[value]);
    }

    /// Sets field `words`.
    pub fn set_words(&mut self, value: u8) {
        self.set(field::WORDS..field::WORDS + 1, &[value]);
    }

    /// Sets field `contributions`.
    pub fn set_contributions(&mut self, value: u16) {
        self.set(field::CONTRIBUTIONS, &value.to_be_bytes());
    }

    /// Sets field `exp_max`.
    pub fn set_exp_max(&mut self, value: u16) {
        self.set(field::EXP_MAX, &value.to_be_bytes());
    }

    /// Sets field `exp_min`.
    pub fn set_exp_min(&mut self, value: u16) {
        self.set(field::EXP_MIN, &value.to_be_bytes());
    }

    /// Sets field `bias`.
    pub fn set_bias(&mut self, value: u64) {
        self.set(field::BIAS, &value.to_be_bytes());
    }

    /// The words, to be written in place.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[field::PAYLOAD]
    }

    fn set(&mut self, at: core::ops::Range<usize>, bytes: &[u8]) {
        self.buffer.as_mut()[at].copy_from_slice(bytes);
    }
}

/// Bytes of a packet with this many words.
pub const fn packet_len(words: u8) -> usize {
    HEADER_LEN + words as usize * WORD_BYTES
}
