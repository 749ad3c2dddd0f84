//! Link probes: LLDP frames (IEEE 802.1AB) that the controller sends out of every switch port to learn which ports face each other.
//!
//! The mandatory TLVs make the frame real LLDP, so that other tools can read it; the organisation-specific TLV holds what the
//! controller trusts: device id, port, and a nonce that only it knows.

use crate::address::{MAC_PREFIX, MacAddr};
pub use crate::frame::FrameError;
use crate::frame::{ETHERNET_LEN, check_ethertype, check_len, ethernet, mac_at};

/// EtherType of LLDP.
pub const ETHERTYPE_LLDP: u16 = 0x88CC;

const TLV_END: u8 = 0;
const TLV_CHASSIS_ID: u8 = 1;
const TLV_PORT_ID: u8 = 2;
const TLV_TTL: u8 = 3;
const TLV_ORGANISATION: u8 = 127;
/// Chassis and port ids are "locally assigned" text.
const LOCALLY_ASSIGNED: u8 = 7;
const SUBTYPE_LINK_PROBE: u8 = 1;
/// Organisation, subtype, device id, port, nonce.
const ORGANISATION_LEN: usize = 3 + 1 + 8 + 4 + 8;

/// Why a frame is no link probe of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkProbeError {
    /// Not an LLDP frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A TLV reaches beyond the frame, or the frame ends without the end TLV.
    #[error("lldp tlv at byte {at} reaches beyond the frame of {len} bytes")]
    Tlv {
        /// Where the TLV starts.
        at: usize,
        /// Bytes of the frame.
        len: usize,
    },
    /// Chassis id, port id and time to live must come first, in this order.
    #[error("lldp tlv number {position} is of type {given}: expected type {expected}")]
    Order {
        /// Which TLV, from 0.
        position: u8,
        /// Its type.
        given: u8,
        /// The type the standard wants there.
        expected: u8,
    },
    /// LLDP of somebody else.
    #[error(
        "lldp frame without a link probe tlv of organisation 02-1c-a0: sent by something else than an inca controller"
    )]
    Foreign,
}

/// A link probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkProbe {
    /// Ethernet source address.
    pub src_mac: MacAddr,
    /// The switch that sends it.
    pub device_id: u64,
    /// The port it leaves by.
    pub port: u32,
    /// A value only this controller knows, so that no host can invent a link.
    pub nonce: u64,
    /// Seconds the information is good for.
    pub ttl: u16,
}

impl LinkProbe {
    /// The frame, to the LLDP multicast address.
    pub fn emit(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(96);
        frame.extend(ethernet(MacAddr::LLDP, self.src_mac, ETHERTYPE_LLDP));
        push_id(&mut frame, TLV_CHASSIS_ID, &format!("inca-{}", self.device_id));
        push_id(&mut frame, TLV_PORT_ID, &self.port.to_string());
        push_tlv_header(&mut frame, TLV_TTL, 2);
        frame.extend(self.ttl.to_be_bytes());
        push_tlv_header(&mut frame, TLV_ORGANISATION, ORGANISATION_LEN);
        frame.extend(MAC_PREFIX);
        frame.push(SUBTYPE_LINK_PROBE);
        frame.extend(self.device_id.to_be_bytes());
        frame.extend(self.port.to_be_bytes());
        frame.extend(self.nonce.to_be_bytes());
        push_tlv_header(&mut frame, TLV_END, 0);
        frame
    }

    /// The link probe in a frame; other organisations' TLVs and padding after the end are ignored.
    pub fn parse(frame: &[u8]) -> Result<Self, LinkProbeError> {
        check_len("lldp", frame, ETHERNET_LEN)?;
        check_ethertype(frame, ETHERTYPE_LLDP)?;
        let (mut at, mut position) = (ETHERNET_LEN, 0u8);
        let mut ttl = 0;
        let mut found = None;
        loop {
            let out_of_frame = LinkProbeError::Tlv { at, len: frame.len() };
            let header = frame.get(at..at + 2).ok_or(out_of_frame)?;
            let (kind, len) = (header[0] >> 1, usize::from(header[0] & 1) << 8 | usize::from(header[1]));
            let value = frame.get(at + 2..at + 2 + len).ok_or(out_of_frame)?;
            if let Some(&expected) = [TLV_CHASSIS_ID, TLV_PORT_ID, TLV_TTL].get(usize::from(position)) {
                if kind != expected {
                    return Err(LinkProbeError::Order { position, given: kind, expected });
                }
                position += 1;
            }
            match kind {
                TLV_END => break,
                TLV_TTL if len >= 2 => ttl = u16::from_be_bytes([value[0], value[1]]),
                TLV_ORGANISATION => found = found.or(organisation_value(value)),
                _ => {}
            }
            at += 2 + len;
        }
        let (device_id, port, nonce) = found.ok_or(LinkProbeError::Foreign)?;
        Ok(Self { src_mac: mac_at(frame, 6), device_id, port, nonce, ttl })
    }
}

/// Device id, port and nonce, if the TLV is ours.
fn organisation_value(value: &[u8]) -> Option<(u64, u32, u64)> {
    let (organisation, rest) = value.split_first_chunk::<3>()?;
    let ([subtype], rest) = rest.split_first_chunk::<1>()?;
    let (device_id, rest) = rest.split_first_chunk::<8>()?;
    let (port, rest) = rest.split_first_chunk::<4>()?;
    let (nonce, _) = rest.split_first_chunk::<8>()?;
    let ours = *organisation == MAC_PREFIX && *subtype == SUBTYPE_LINK_PROBE;
    ours.then(|| (u64::from_be_bytes(*device_id), u32::from_be_bytes(*port), u64::from_be_bytes(*nonce)))
}

fn push_id(frame: &mut Vec<u8>, kind: u8, id: &str) {
    push_tlv_header(frame, kind, 1 + id.len());
    frame.push(LOCALLY_ASSIGNED);
    frame.extend(id.as_bytes());
}

/// Type in 7 bits, length in 9; ours are all below 256.
fn push_tlv_header(frame: &mut Vec<u8>, kind: u8, len: usize) {
    frame.extend([kind << 1 | (len >> 8) as u8, len as u8]);
}

#[cfg(test)]
mod tests;
