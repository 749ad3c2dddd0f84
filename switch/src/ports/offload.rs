//! Segmentation offload between the kernel and a packet socket (`PACKET_VNET_HDR`): datagrams of one flow and one size travel as one
//! frame with the headers once, as a network card with UDP segmentation offload takes them. The kernel's price is per frame, so
//! this is where most of a software switch's time is saved. Nothing here makes a system call.

/// Ethernet, IPv4 without options, UDP.
const HEADERS: usize = ETHERNET + IPV4 + 8;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
/// Offsets from the beginning of the frame.
const ETHERTYPE: usize = 12;
const TOTAL_LEN: usize = ETHERNET + 2;
const IDENTIFICATION: usize = ETHERNET + 4;
const FRAGMENT: usize = ETHERNET + 6;
const PROTOCOL: usize = ETHERNET + 9;
const IPV4_CHECKSUM: usize = ETHERNET + 10;
const ADDRESSES: usize = ETHERNET + 12;
const UDP: usize = ETHERNET + IPV4;
const UDP_LEN: usize = UDP + 4;
const UDP_CHECKSUM: usize = UDP + 6;

/// Largest frame that is joined: an IPv4 packet has 65,535 bytes at most.
const MAX_JOINED: usize = ETHERNET + 65_535;
/// Most datagrams in one frame: Linux's `UDP_MAX_SEGMENTS` is this at least.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// Bytes of the header before each frame.
pub(crate) const VNET_HEADER: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_UDP_L4: u8 = 5;

/// `struct virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order.
pub(crate) type VnetHeader = [u8; VNET_HEADER];

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Vnet {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl Vnet {
    fn read(bytes: &VnetHeader) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    fn bytes(self) -> VnetHeader {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (to, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Calls `each` with every frame that was received as this one, whose bytes it uses up. Checksums that the sender left to the
/// hardware are completed.
pub(crate) fn split(vnet: &VnetHeader, frame: &mut [u8], mut each: impl FnMut(&[u8])) {
    let vnet = Vnet::read(vnet);
    let size = usize::from(vnet.gso_size);
    if vnet.gso_type != GSO_UDP_L4 || size == 0 || !is_plain_udp(frame) {
        if vnet.flags & NEEDS_CSUM != 0 {
            complete_checksum(frame, vnet.csum_start.into(), vnet.csum_offset.into());
        }
        return each(frame);
    }
    let mut headers = [0; HEADERS];
    headers.copy_from_slice(&frame[..HEADERS]);
    let identification = word_at(&headers, IDENTIFICATION);
    let payload = frame.len() - HEADERS;
    for (i, at) in (0..payload).step_by(size).enumerate() {
        // The headers go where the payload before ended: that is done with.
        let segment = &mut frame[at..HEADERS + (at + size).min(payload)];
        let len = segment.len();
        segment[..HEADERS].copy_from_slice(&headers);
        set_lengths(segment, len, identification.wrapping_add(i as u16));
        // None, which IPv4 allows: there is no wire on which bits could change.
        set_word(segment, UDP_CHECKSUM, 0);
        each(segment);
    }
}

/// Lengths and identification in the headers of a frame of `len` bytes, and the IPv4 checksum over them.
fn set_lengths(frame: &mut [u8], len: usize, identification: u16) {
    set_word(frame, TOTAL_LEN, (len - ETHERNET) as u16);
    set_word(frame, UDP_LEN, (len - UDP) as u16);
    set_word(frame, IDENTIFICATION, identification);
    set_word(frame, IPV4_CHECKSUM, 0);
    let checksum = !folded(sum(&frame[ETHERNET..UDP]));
    set_word(frame, IPV4_CHECKSUM, checksum);
}

/// The sender left the sum of the pseudo-header where the checksum belongs.
fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) {
    if start + offset + 2 > frame.len() {
        return;
    }
    let checksum = !folded(sum(&frame[start..]));
    // 0 would say that there is none.
    set_word(frame, start + offset, if checksum == 0 { 0xffff } else { checksum });
}

/// Headers of frames that are sent as one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joined {
    /// How many frames, at least 1.
    pub(crate) frames: usize,
    /// What goes before them.
    pub(crate) vnet: VnetHeader,
    /// The headers of all, if there is more than one; then only the payloads follow.
    pub(crate) headers: [u8; HEADERS],
}

impl Joined {
    /// Bytes of a frame that the common headers stand for.
    pub(crate) const HEADERS: usize = HEADERS;

    /// As many of the first frames as may go as one: datagrams without UDP checksum, alike but for identification and payload, of
    /// one size (the last may be shorter).
    pub(crate) fn first_of(frames: &[&[u8]]) -> Self {
        let mut joined = Self { frames: 1, vnet: [0; VNET_HEADER], headers: [0; HEADERS] };
        let Some((first, others)) = frames.split_first() else { return joined };
        if others.is_empty() || !may_join(first) {
            return joined;
        }
        let mut total = first.len();
        for next in others.iter().take(MAX_SEGMENTS - 1) {
            let payload = next.len().saturating_sub(HEADERS);
            if next.len() > first.len()
                || payload == 0
                || total + payload > MAX_JOINED
                || !may_join(next)
                || !alike(first, next)
            {
                break;
            }
            joined.frames += 1;
            total += payload;
            if next.len() < first.len() {
                break;
            }
        }
        if joined.frames > 1 {
            joined.write_headers(first, total);
        }
        joined
    }

    fn write_headers(&mut self, first: &[u8], total: usize) {
        let headers = &mut self.headers;
        headers.copy_from_slice(&first[..HEADERS]);
        set_lengths(headers, total, word_at(first, IDENTIFICATION));
        // The kernel completes this for each datagram: addresses, protocol, length.
        let pseudo = sum(&headers[ADDRESSES..UDP]) + 17 + (total - UDP) as u64;
        set_word(headers, UDP_CHECKSUM, folded(pseudo));
        let vnet = Vnet {
            flags: NEEDS_CSUM,
            gso_type: GSO_UDP_L4,
            hdr_len: HEADERS as u16,
            gso_size: (first.len() - HEADERS) as u16,
            csum_start: UDP as u16,
            csum_offset: (UDP_CHECKSUM - UDP) as u16,
        };
        self.vnet = vnet.bytes();
    }
}

/// IPv4 without options or fragments, UDP, nothing behind it.
fn is_plain_udp(frame: &[u8]) -> bool {
    frame.len() > HEADERS
        && word_at(frame, ETHERTYPE) == 0x0800
        && frame[ETHERNET] == 0x45
        && word_at(frame, FRAGMENT) & 0x3fff == 0
        && frame[PROTOCOL] == 17
}

/// A datagram that the kernel makes again from joined headers, bit for bit but for a checksum where there was none.
fn may_join(frame: &[u8]) -> bool {
    is_plain_udp(frame)
        && word_at(frame, UDP_CHECKSUM) == 0
        && usize::from(word_at(frame, TOTAL_LEN)) == frame.len() - ETHERNET
        && usize::from(word_at(frame, UDP_LEN)) == frame.len() - UDP
        && folded(sum(&frame[ETHERNET..UDP])) == 0xffff
}

/// The same but for lengths, identification, checksums and payload.
fn alike(a: &[u8], b: &[u8]) -> bool {
    a[..TOTAL_LEN] == b[..TOTAL_LEN]
        && a[FRAGMENT..IPV4_CHECKSUM] == b[FRAGMENT..IPV4_CHECKSUM]
        && a[ADDRESSES..UDP_LEN] == b[ADDRESSES..UDP_LEN]
}

fn word_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn set_word(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Sum of the 16-bit words (RFC 1071), not folded yet.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let whole: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    whole + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests;
