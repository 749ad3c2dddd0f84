use proptest::prelude::*;

use super::*;
use crate::address::{service_address, service_mac};
use crate::packet::{Flags, Format, Opcode, WORD_BYTES};

const HOST: (MacAddr, Ipv4Addr) = (MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));

fn addresses() -> UdpFrame {
    UdpFrame::to_switch(HOST, (service_mac(7), service_address(7)))
}

fn contribution(words: u8) -> Header {
    Header { words, ..Header::new(Opcode::Contribution, Format::I32, 3, 9) }
}

#[test]
fn known_ipv4_checksum() {
    // The worked example of RFC 1071's folklore: 45 00 00 73 ... has checksum b861.
    let mut header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7,
    ];
    assert_eq!(internet_checksum(&header), 0xb861);
    header[10..12].copy_from_slice(&0xb861u16.to_be_bytes());
    assert_eq!(internet_checksum(&header), 0);
}

#[test]
fn reduction_frames_round_trip() {
    let words = vec![0x5A; 2 * WORD_BYTES];
    let frame = addresses().emit_reduction(&contribution(2), &words).unwrap();
    assert_eq!(frame.len(), OUTER_LEN + HEADER_LEN + words.len());
    assert_eq!(&frame[40..42], [0, 0], "udp checksum");
    assert_eq!(UdpFrame::parse_reduction(&frame), Ok((addresses(), contribution(2), &words[..])));
}

#[test]
fn padding_is_cut_off_short_frames_only() {
    let mut short = addresses().emit(b"ping").unwrap();
    short.resize(MIN_FRAME_LEN, 0);
    assert_eq!(UdpFrame::parse(&short), Ok((addresses(), &b"ping"[..])));
    short.push(0);
    assert!(matches!(UdpFrame::parse(&short), Err(FrameError::Lengths { .. })));
}

/// P3 of the known cases, with the outer headers left as they were.
#[test]
fn p3_cut_at_every_length_never_parses() {
    let frame = addresses().emit_reduction(&contribution(1), &[1; WORD_BYTES]).unwrap();
    for len in 0..frame.len() {
        assert!(UdpFrame::parse_reduction(&frame[..len]).is_err(), "cut to {len} bytes");
    }
    let flagged = Header { flags: Flags::NONFINITE, ..contribution(0) };
    let frame = addresses().emit_reduction(&flagged, &[]).unwrap();
    for len in 0..frame.len() {
        assert!(UdpFrame::parse_reduction(&frame[..len]).is_err(), "flagged, cut to {len} bytes");
    }
}

/// P3 again, with outer headers that fit the cut payload: only the word count gives the cut away.
#[test]
fn p3_cut_payload_in_a_right_datagram_never_parses() {
    let frame = addresses().emit_reduction(&contribution(2), &[1; 2 * WORD_BYTES]).unwrap();
    for len in 0..frame.len() - OUTER_LEN {
        let cut = addresses().emit(&frame[OUTER_LEN..][..len]).unwrap();
        assert!(UdpFrame::parse(&cut).is_ok());
        assert!(UdpFrame::parse_reduction(&cut).is_err(), "payload cut to {len} bytes");
    }
}

#[test]
fn wrong_outer_headers_are_named() {
    let frame = addresses().emit(&[0; 64]).unwrap();
    let with = |at: usize, value: u8, mend: bool| {
        let mut frame = frame.clone();
        frame[at] = value;
        if mend {
            frame[24..26].copy_from_slice(&[0, 0]);
            let checksum = internet_checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        UdpFrame::parse(&frame).map(|_| ())
    };
    assert_eq!(with(12, 0x86, false), Err(FrameError::EtherType { given: 0x8600, expected: 0x0800 }));
    assert_eq!(with(14, 0x46, true), Err(FrameError::Ipv4Header(0x46)));
    assert_eq!(with(22, 1, false), Err(FrameError::Ipv4Checksum));
    assert_eq!(with(20, 0x20, true), Err(FrameError::Fragment(0x2000)));
    assert_eq!(with(23, 6, true), Err(FrameError::Protocol(6)));
    assert_eq!(with(39, 71, false), Err(FrameError::Lengths { ipv4: 92, udp: 71, available: 92 }));
    assert_eq!(addresses().emit(&[0; 65508]), Err(FrameError::TooLarge(65508)));
}

#[test]
fn arp_round_trips() {
    let request = Arp::request(HOST.0, HOST.1, service_address(7));
    let frame = request.emit();
    assert_eq!(&frame[..14], [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 1, 8, 6]);
    assert_eq!(Arp::parse(&frame), Ok(request));
    let reply = request.reply(service_mac(7));
    assert_eq!(Arp::parse(&reply.emit()), Ok(reply));
    assert_eq!((reply.target_mac, reply.target_ip, reply.sender_ip), (HOST.0, HOST.1, service_address(7)));
    for len in 0..frame.len() {
        assert!(Arp::parse(&frame[..len]).is_err(), "cut to {len} bytes");
    }
    for at in 14..22 {
        let mut damaged = frame.clone();
        damaged[at] ^= 0x80;
        assert_eq!(Arp::parse(&damaged), Err(FrameError::Arp), "byte {at}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_judged_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = UdpFrame::parse_reduction(&bytes);
        let _ = Arp::parse(&bytes);
    }

    #[test]
    fn payloads_round_trip(payload in prop::collection::vec(any::<u8>(), 0..2000), ttl: u8, src_port: u16) {
        let addresses = UdpFrame { ttl, src_port, ..addresses() };
        let frame = addresses.emit(&payload).unwrap();
        prop_assert_eq!(UdpFrame::parse(&frame), Ok((addresses, &payload[..])));
    }
}
