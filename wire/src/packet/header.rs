//! The header as a plain struct.

use super::{
    Flags, Format, HEADER_LEN, NO_EXP_MAX, NO_EXP_MIN, Opcode, PLANE_BOTH, Packet, PacketError, VERSION,
    WORD_BYTES,
};

/// The header of a reduction packet, version 1. Field meanings: `docs/protocol.md`, "Header".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Header {
    /// What the packet is.
    pub opcode: Opcode,
    /// Any flag: the sum is void and no words follow.
    pub flags: Flags,
    /// Number format of the lanes.
    pub format: Format,
    /// One job, group and stripe.
    pub tree_id: u16,
    /// The sender's index; in a result the receiver's.
    pub member: u16,
    /// The tree's generation.
    pub generation: u32,
    /// Slot index within the tree, from 0.
    pub slot: u32,
    /// Per slot, from 1.
    pub sequence: u32,
    /// Operation tag, see [`crate::tag`].
    pub tag: u32,
    /// 0 or 1 in a partial sum, [`PLANE_BOTH`] elsewhere.
    pub plane: u8,
    /// Words that follow, 0 to [`MAX_WORDS`](super::MAX_WORDS).
    pub words: u8,
    /// Ranks summed in this packet.
    pub contributions: u16,
    /// Largest block exponent inside, biased; 0: nothing but zeros.
    pub exp_max: u16,
    /// Smallest block exponent inside, biased; 0xFFFF: nothing but zeros.
    pub exp_min: u16,
    /// Partial sums: what an all-zero lane of the accumulator holds. Probe replies: bitmap of the children that arrived in both
    /// planes.
    pub bias: u64,
}

impl Header {
    /// A header with this opcode, format, tree and generation, and every other field at its neutral value.
    pub const fn new(opcode: Opcode, format: Format, tree_id: u16, generation: u32) -> Self {
        Self {
            opcode,
            flags: Flags::NONE,
            format,
            tree_id,
            member: 0,
            generation,
            slot: 0,
            sequence: 0,
            tag: 0,
            plane: PLANE_BOTH,
            words: 0,
            contributions: 0,
            exp_max: NO_EXP_MAX,
            exp_min: NO_EXP_MIN,
            bias: 0,
        }
    }

    /// The header of a checked packet; version, opcode, format and plane are judged here.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, PacketError> {
        if packet.version() != VERSION {
            return Err(PacketError::Version(packet.version()));
        }
        let (opcode, plane) = (packet.opcode()?, packet.plane());
        let plane_fits = match opcode {
            Opcode::Partial => plane < PLANE_BOTH,
            _ => plane == PLANE_BOTH,
        };
        if !plane_fits {
            return Err(PacketError::Plane { plane, opcode: opcode.into() });
        }
        Ok(Self {
            opcode,
            flags: packet.flags(),
            format: packet.format()?,
            tree_id: packet.tree_id(),
            member: packet.member(),
            generation: packet.generation(),
            slot: packet.slot(),
            sequence: packet.sequence(),
            tag: packet.tag(),
            plane,
            words: packet.words(),
            contributions: packet.contributions(),
            exp_max: packet.exp_max(),
            exp_min: packet.exp_min(),
            bias: packet.bias(),
        })
    }

    /// Header and words of a UDP payload that is exactly one packet.
    pub fn parse_bytes(bytes: &[u8]) -> Result<(Self, &[u8]), PacketError> {
        let header = Self::parse(&Packet::new_checked(bytes)?)?;
        Ok((header, &bytes[HEADER_LEN..]))
    }

    /// Bytes of the words.
    pub const fn payload_len(&self) -> usize {
        self.words as usize * WORD_BYTES
    }

    /// Bytes of the whole packet, words included.
    pub const fn packet_len(&self) -> usize {
        super::packet_len(self.words)
    }

    /// Writes the header into the first [`HEADER_LEN`] bytes of the packet's buffer; the words are left alone.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_version(VERSION);
        packet.set_opcode(self.opcode);
        packet.set_flags(self.flags);
        packet.set_format(self.format);
        packet.set_tree_id(self.tree_id);
        packet.set_member(self.member);
        packet.set_generation(self.generation);
        packet.set_slot(self.slot);
        packet.set_sequence(self.sequence);
        packet.set_tag(self.tag);
        packet.set_plane(self.plane);
        packet.set_words(self.words);
        packet.set_contributions(self.contributions);
        packet.set_exp_max(self.exp_max);
        packet.set_exp_min(self.exp_min);
        packet.set_bias(self.bias);
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut packet = Packet::new_unchecked([0; HEADER_LEN]);
        self.emit(&mut packet);
        packet.into_inner()
    }
}
