//! Frames around reduction packets: Ethernet, IPv4 without options and UDP, and ARP for IPv4.
//!
//! For tests, the switch harness and the controller. A host needs none of it: its kernel builds the frames.

use std::net::Ipv4Addr;

use crate::address::MacAddr;
use crate::packet::{HEADER_LEN, Header, Packet, PacketError, UDP_PORT};

/// Bytes of an Ethernet header.
pub const ETHERNET_LEN: usize = 14;
/// Bytes of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;
/// Bytes of a UDP header.
pub const UDP_LEN: usize = 8;
/// Bytes before a reduction packet.
pub const OUTER_LEN: usize = ETHERNET_LEN + IPV4_LEN + UDP_LEN;
/// Ethernet's least frame, without the checksum: shorter ones are padded by the sender's hardware.
pub const MIN_FRAME_LEN: usize = 60;

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;

const IPPROTO_UDP: u8 = 17;
const ARP_LEN: usize = 28;

/// Why bytes are not the frame asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Fewer bytes than the headers.
    #[error("{what} frame of {len} bytes: needs at least {least}")]
    Truncated {
        /// Which kind of frame.
        what: &'static str,
        /// Bytes given.
        len: usize,
        /// Bytes of the headers.
        least: usize,
    },
    /// Another EtherType.
    #[error("ethertype is {given:#06x}: expected {expected:#06x}")]
    EtherType {
        /// The frame's.
        given: u16,
        /// The one asked for.
        expected: u16,
    },
    /// Not version 4 with a header of 20 bytes.
    #[error("first byte of the ipv4 header is {0:#04x}: expected 0x45 (version 4, no options)")]
    Ipv4Header(u8),
    /// The IPv4 header checksum is wrong.
    #[error("ipv4 header checksum does not match")]
    Ipv4Checksum,
    /// A fragment of a datagram.
    #[error("ipv4 datagram is a fragment (flags and offset field {0:#06x})")]
    Fragment(u16),
    /// Another transport protocol.
    #[error("ipv4 protocol is {0}: expected 17 (udp)")]
    Protocol(u8),
    /// The lengths of IPv4, UDP and the frame disagree.
    #[error(
        "ipv4 total length {ipv4}, udp length {udp}, {available} bytes after the ethernet header: they must agree"
    )]
    Lengths {
        /// IPv4 total length.
        ipv4: u16,
        /// UDP length.
        udp: u16,
        /// Bytes after the Ethernet header.
        available: usize,
    },
    /// A payload too large for a UDP datagram.
    #[error("udp payload of {0} bytes: at most 65507")]
    TooLarge(usize),
    /// ARP, but not for Ethernet and IPv4, or an unknown operation.
    #[error("arp packet is not an ethernet/ipv4 request or reply")]
    Arp,
    /// The UDP payload is not a reduction packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

/// Addresses of a UDP/IPv4 frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpFrame {
    /// Ethernet source.
    pub src_mac: MacAddr,
    /// Ethernet destination.
    pub dst_mac: MacAddr,
    /// IPv4 source.
    pub src_ip: Ipv4Addr,
    /// IPv4 destination.
    pub dst_ip: Ipv4Addr,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
    /// IPv4 time to live.
    pub ttl: u8,
}

impl UdpFrame {
    /// A frame towards a switch: both ports 18766, time to live 64.
    pub fn to_switch(src: (MacAddr, Ipv4Addr), dst: (MacAddr, Ipv4Addr)) -> Self {
        Self {
            src_mac: src.0,
            dst_mac: dst.0,
            src_ip: src.1,
            dst_ip: dst.1,
            src_port: UDP_PORT,
            dst_port: UDP_PORT,
            ttl: 64,
        }
    }

    /// The frame of this payload, with a right IPv4 checksum, UDP checksum 0 and no Ethernet padding.
    pub fn emit(&self, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
        let too_large = |_| FrameError::TooLarge(payload.len());
        let udp_len = u16::try_from(UDP_LEN + payload.len()).map_err(too_large)?;
        let ip_len = u16::try_from(IPV4_LEN + UDP_LEN + payload.len()).map_err(too_large)?;

        let mut frame = Vec::with_capacity(OUTER_LEN + payload.len());
        frame.extend(ethernet(self.dst_mac, self.src_mac, ETHERTYPE_IPV4));
        let mut ip = [0; IPV4_LEN];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
        ip[6..8].copy_from_slice(&0x4000u16.to_be_bytes()); // don't fragment
        ip[8] = self.ttl;
        ip[9] = IPPROTO_UDP;
        ip[12..16].copy_from_slice(&self.src_ip.octets());
        ip[16..20].copy_from_slice(&self.dst_ip.octets());
        let checksum = internet_checksum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        frame.extend(ip);
        frame.extend(self.src_port.to_be_bytes());
        frame.extend(self.dst_port.to_be_bytes());
        frame.extend(udp_len.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        Ok(frame)
    }

    /// Addresses and payload of a frame. All lengths must agree; padding of a frame of at most [`MIN_FRAME_LEN`] bytes is cut off.
    /// The UDP checksum is not looked at: virtual links leave it partial.
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        check_len("udp", frame, OUTER_LEN)?;
        check_ethertype(frame, ETHERTYPE_IPV4)?;
        let (ip, udp) = (&frame[ETHERNET_LEN..][..IPV4_LEN], &frame[ETHERNET_LEN + IPV4_LEN..]);
        if ip[0] != 0x45 {
            return Err(FrameError::Ipv4Header(ip[0]));
        }
        if internet_checksum(ip) != 0 {
            return Err(FrameError::Ipv4Checksum);
        }
        let fragment = u16_at(ip, 6) & 0x3FFF;
        if fragment != 0 {
            return Err(FrameError::Fragment(fragment));
        }
        if ip[9] != IPPROTO_UDP {
            return Err(FrameError::Protocol(ip[9]));
        }
        let (ipv4_len, udp_len, available) = (u16_at(ip, 2), u16_at(udp, 4), frame.len() - ETHERNET_LEN);
        let padded = frame.len() <= MIN_FRAME_LEN;
        let (ip_bytes, udp_bytes) = (usize::from(ipv4_len), usize::from(udp_len));
        let fits = if padded { ip_bytes <= available } else { ip_bytes == available };
        if !fits || udp_bytes < UDP_LEN || ip_bytes != IPV4_LEN + udp_bytes {
            return Err(FrameError::Lengths { ipv4: ipv4_len, udp: udp_len, available });
        }
        let addresses = Self {
            src_mac: mac_at(frame, 6),
            dst_mac: mac_at(frame, 0),
            src_ip: ip_at(ip, 12),
            dst_ip: ip_at(ip, 16),
            src_port: u16_at(udp, 0),
            dst_port: u16_at(udp, 2),
            ttl: ip[8],
        };
        Ok((addresses, &udp[UDP_LEN..udp_bytes]))
    }

    /// The frame of a reduction packet. `words` are written as they are, whatever the header says, so that tests can build wrong
    /// packets.
    pub fn emit_reduction(&self, header: &Header, words: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut payload = vec![0; HEADER_LEN + words.len()];
        header.emit(&mut Packet::new_unchecked(&mut payload));
        payload[HEADER_LEN..].copy_from_slice(words);
        self.emit(&payload)
    }

    /// Addresses, header and words of a reduction packet's frame; the UDP ports are not judged.
    pub fn parse_reduction(frame: &[u8]) -> Result<(Self, Header, &[u8]), FrameError> {
        let (addresses, payload) = Self::parse(frame)?;
        let (header, words) = Header::parse_bytes(payload)?;
        Ok((addresses, header, words))
    }
}

/// What an ARP packet wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ArpOperation {
    /// Who has the target address?
    Request = 1,
    /// The sender has it.
    Reply = 2,
}

/// An ARP packet for Ethernet and IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arp {
    /// Request or reply.
    pub operation: ArpOperation,
    /// Sender's Ethernet address; also the frame's source.
    pub sender_mac: MacAddr,
    /// Sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// Target's Ethernet address; zero in a request.
    pub target_mac: MacAddr,
    /// Target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Who has `target_ip`?
    pub fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        let operation = ArpOperation::Request;
        Self { operation, sender_mac, sender_ip, target_mac: MacAddr::default(), target_ip }
    }

    /// The answer to this request: its target address is at `mac`.
    pub fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: ArpOperation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// The frame: requests are broadcast, replies go to the target.
    pub fn emit(&self) -> Vec<u8> {
        let dst = match self.operation {
            ArpOperation::Request => MacAddr::BROADCAST,
            ArpOperation::Reply => self.target_mac,
        };
        let mut frame = Vec::with_capacity(ETHERNET_LEN + ARP_LEN);
        frame.extend(ethernet(dst, self.sender_mac, ETHERTYPE_ARP));
        frame.extend(ARP_PREFIX);
        frame.extend((self.operation as u16).to_be_bytes());
        frame.extend(self.sender_mac.0);
        frame.extend(self.sender_ip.octets());
        frame.extend(self.target_mac.0);
        frame.extend(self.target_ip.octets());
        frame
    }

    /// The ARP packet of a frame; padding after it is ignored.
    pub fn parse(frame: &[u8]) -> Result<Self, FrameError> {
        check_len("arp", frame, ETHERNET_LEN + ARP_LEN)?;
        check_ethertype(frame, ETHERTYPE_ARP)?;
        let arp = &frame[ETHERNET_LEN..];
        let operation = match u16_at(arp, 6) {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            _ => return Err(FrameError::Arp),
        };
        if arp[..6] != ARP_PREFIX {
            return Err(FrameError::Arp);
        }
        Ok(Self {
            operation,
            sender_mac: mac_at(arp, 8),
            sender_ip: ip_at(arp, 14),
            target_mac: mac_at(arp, 18),
            target_ip: ip_at(arp, 24),
        })
    }
}

/// Hardware Ethernet, protocol IPv4, address lengths 6 and 4.
const ARP_PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// The internet checksum (RFC 1071) of a header; 0 when the header's own checksum is in place and right.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

pub(crate) fn ethernet(dst: MacAddr, src: MacAddr, ethertype: u16) -> [u8; ETHERNET_LEN] {
    let mut header = [0; ETHERNET_LEN];
    header[..6].copy_from_slice(&dst.0);
    header[6..12].copy_from_slice(&src.0);
    header[12..].copy_from_slice(&ethertype.to_be_bytes());
    header
}

pub(crate) fn check_len(what: &'static str, frame: &[u8], least: usize) -> Result<(), FrameError> {
    let len = frame.len();
    if len < least { Err(FrameError::Truncated { what, len, least }) } else { Ok(()) }
}

pub(crate) fn check_ethertype(frame: &[u8], expected: u16) -> Result<(), FrameError> {
    let given = u16_at(frame, 12);
    if given == expected { Ok(()) } else { Err(FrameError::EtherType { given, expected }) }
}

pub(crate) fn mac_at(bytes: &[u8], at: usize) -> MacAddr {
    let mut mac = [0; 6];
    mac.copy_from_slice(&bytes[at..at + 6]);
    MacAddr(mac)
}

fn ip_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests;
