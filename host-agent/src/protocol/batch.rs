//! Where an endpoint writes its packets.

use inca_wire::packet::MAX_PACKET_LEN;

/// A caller-provided buffer of outgoing datagrams, back to back, so that runs of equal size to one tree can go out in one system
/// call. Allocated once and reused.
#[derive(Debug)]
pub struct TransmitBatch {
    bytes: Box<[u8]>,
    used: usize,
    packets: Vec<OutgoingPacket>,
    max_packets: usize,
}

/// One datagram of a [`TransmitBatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingPacket {
    /// Index into the endpoint's trees: the destination is that tree's service address.
    pub tree: usize,
    /// First byte in the batch.
    pub start: usize,
    /// Bytes.
    pub len: usize,
}

impl TransmitBatch {
    /// Room for at most `max_packets` (at least 1) datagrams of any legal size.
    pub fn new(max_packets: usize) -> Self {
        let max_packets = max_packets.max(1);
        Self {
            bytes: vec![0; max_packets * MAX_PACKET_LEN].into_boxed_slice(),
            used: 0,
            packets: Vec::with_capacity(max_packets),
            max_packets,
        }
    }

    /// Forgets all datagrams.
    pub fn clear(&mut self) {
        self.used = 0;
        self.packets.clear();
    }

    /// Whether no further datagram fits.
    pub fn is_full(&self) -> bool {
        self.packets.len() == self.max_packets
    }

    /// Whether there is no datagram.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The datagrams, in the order they should leave.
    pub fn packets(&self) -> &[OutgoingPacket] {
        &self.packets
    }

    /// Bytes of the datagrams, back to back.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Bytes of one datagram.
    pub fn contents(&self, packet: &OutgoingPacket) -> &[u8] {
        &self.bytes[packet.start..packet.start + packet.len]
    }

    /// Lets `write` fill the next datagram in a buffer of `MAX_PACKET_LEN` stale bytes; it returns how many it used. Nothing is
    /// added if it fails. Must not be called when full.
    pub(super) fn push<E>(
        &mut self,
        tree: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        debug_assert!(!self.is_full(), "the endpoint checks for room first");
        let start = self.used;
        let len = write(&mut self.bytes[start..start + MAX_PACKET_LEN])?;
        self.packets.push(OutgoingPacket { tree, start, len });
        self.used = start + len;
        Ok(len)
    }

    #[cfg(test)]
    pub(crate) fn push_for_test(&mut self, tree: usize, contents: &[u8]) {
        let written = self.push(tree, |buffer| {
            buffer[..contents.len()].copy_from_slice(contents);
            Ok::<_, std::convert::Infallible>(contents.len())
        });
        assert_eq!(written, Ok(contents.len()));
    }
}
