//! Everything that is no reduction packet: IPv4 with and without oddities, ARP, link probes, noise, packet-outs.

use std::net::Ipv4Addr;

use inca_wire::address::{ANNOUNCE_ADDRESS, MacAddr, service_address, service_mac};
use inca_wire::frame::{Arp, ArpOperation, UdpFrame};
use inca_wire::lldp::LinkProbe;
use inca_wire::packet::{Format, Header, Opcode, UDP_PORT};

use super::Step;
use crate::rig::{CPU_PORT, DEVICE_ID, Neighbour, PORTS};
use crate::rng::Rng;

/// One frame of ordinary traffic.
pub(super) fn ordinary(rng: &mut Rng) -> Step {
    let port = rng.between(i64::from(*PORTS.start()), i64::from(*PORTS.end())) as u16;
    let (kind, port, frame) = match rng.below(16) {
        0..7 => ("ipv4", port, ipv4(rng, port)),
        7..11 => ("arp", port, arp(rng, port)),
        11 => ("lldp", port, lldp(rng, port)),
        12 => ("announce", port, announce(rng, port)),
        13 => ("noise", port, noise(rng)),
        _ => ("packet-out", CPU_PORT, packet_out(rng)),
    };
    Step { kind, port, frame }
}

fn switch_mac() -> MacAddr {
    service_mac(DEVICE_ID)
}

/// An address the switch knows a route to, or not.
fn destination(rng: &mut Rng) -> Ipv4Addr {
    let port = rng.between(0, 9) as u16;
    match rng.below(8) {
        0 => service_address(100 + port),
        1 => Ipv4Addr::new(172, 16, rng.below(4) as u8, 1),
        2 => service_address(DEVICE_ID),
        3 => Ipv4Addr::new(192, 0, 2, 1),
        _ => Ipv4Addr::new(10, 0, 0, port as u8),
    }
}

fn ipv4(rng: &mut Rng, port: u16) -> Vec<u8> {
    // Some say that they are a switch.
    let from = if rng.below(8) == 0 { Neighbour::switch(port) } else { Neighbour::host(port) };
    let mut payload = vec![0; rng.below(200)];
    rng.fill(&mut payload);
    let mut frame = UdpFrame {
        src_port: rng.between(1024, 1100) as u16,
        dst_port: rng.pick(&[53, 4789, 40_000, UDP_PORT - 1]),
        ttl: rng.pick(&[0, 1, 2, 64, 255]),
        ..UdpFrame::to_switch((from.mac, from.ip), (switch_mac(), destination(rng)))
    }
    .emit(&payload)
    .unwrap_or_default();
    match rng.below(12) {
        // TCP and ICMP: the next header is read for TCP only.
        0..3 => frame[23] = 6,
        3 => frame[23] = 1,
        // Options, a fragment, another version, random flags, a checksum at the edge of the incremental update.
        4 => frame[14] = 0x46,
        5 => frame[21] = rng.below(256) as u8,
        6 => frame[14] = rng.pick(&[0x35, 0x65, 0x44]),
        7 => frame[20] = rng.pick(&[0x20, 0x40, 0x60, 0x80]),
        8 => frame[24..26].copy_from_slice(&rng.pick(&[[0xfe, 0xff], [0xff, 0xff], [0xff, 0], [0, 0]])),
        9 => frame.truncate(rng.between(14, frame.len() as i64) as usize),
        _ => {}
    }
    frame
}

fn arp(rng: &mut Rng, port: u16) -> Vec<u8> {
    let sender = if rng.chance(4, 5) { Neighbour::host(port) } else { Neighbour::host(port + 1) };
    let target = rng.pick(&[
        Neighbour::host(2).ip,
        service_address(DEVICE_ID),
        ANNOUNCE_ADDRESS,
        sender.ip,
        Ipv4Addr::new(10, 0, 0, 200),
    ]);
    let mut request = Arp::request(sender.mac, sender.ip, target);
    if rng.chance(1, 8) {
        request.operation = ArpOperation::Reply;
        request.target_mac = switch_mac();
    }
    let mut frame = request.emit();
    match rng.below(10) {
        0 => frame[15] = 6,
        1 => frame[16..18].copy_from_slice(&[0x86, 0xdd]),
        2 => frame.truncate(rng.between(14, frame.len() as i64) as usize),
        3 => frame[21] = rng.below(5) as u8,
        4..8 => frame.resize(60, 0),
        _ => {}
    }
    frame
}

fn lldp(rng: &mut Rng, port: u16) -> Vec<u8> {
    let probe = LinkProbe {
        src_mac: service_mac(100 + port),
        device_id: rng.next_u64() >> 48,
        port: port.into(),
        nonce: rng.next_u64(),
        ttl: 20,
    };
    probe.emit()
}

fn announce(rng: &mut Rng, port: u16) -> Vec<u8> {
    let from = Neighbour::host(port);
    let header = Header::new(Opcode::Announce, Format::I32, 0, 0);
    let mut frame = UdpFrame::to_switch((from.mac, from.ip), (switch_mac(), ANNOUNCE_ADDRESS))
        .emit_reduction(&header, &[])
        .unwrap_or_default();
    if rng.chance(1, 3) {
        frame.truncate(rng.between(14, frame.len() as i64) as usize);
    }
    frame
}

/// IPv6, VLAN and unknown EtherTypes; multicast DNS as hosts send it.
fn noise(rng: &mut Rng) -> Vec<u8> {
    let ethertype = rng.pick(&[[0x86, 0xdd], [0x81, 0x00], [0x12, 0x34], [0x00, 0x2e]]);
    // The kernel itself drops VLAN frames that end within the tag.
    let shortest = if ethertype == [0x81, 0x00] { 60 } else { 14 };
    let mut frame = vec![0; rng.between(shortest, 120) as usize];
    rng.fill(&mut frame);
    frame[12..14].copy_from_slice(&ethertype);
    frame
}

/// Header of packet_out (9 bits of port, 7 of padding), then a frame.
fn packet_out(rng: &mut Rng) -> Vec<u8> {
    let port = rng.between(i64::from(*PORTS.start()), i64::from(*PORTS.end())) as u16;
    let mut frame = (port << 7).to_be_bytes().to_vec();
    let at = frame.len();
    frame.resize(at + rng.between(14, 300) as usize, 0);
    rng.fill(&mut frame[at..]);
    frame
}
