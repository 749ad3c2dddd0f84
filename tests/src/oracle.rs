//! The reference model as an oracle for whole frames: what a switch must send, and under which event it must count the frame.

use inca_wire::address::{service_address, service_mac};
use inca_wire::frame::{ETHERNET_LEN, IPV4_LEN, OUTER_LEN, UdpFrame};
use inca_wire::model::slot::{self, SwitchModel};
use inca_wire::packet::{
    Flags, Format, HEADER_LEN, Header, MAX_WORDS, Opcode, PARENT_MEMBER, Packet, UDP_PORT, VERSION,
    WORD_BYTES,
};

use crate::rig::{CPU_PORT, ChildKind, DEVICE_ID, Neighbour, Tree};
use crate::target::Sent;

/// What the model says to one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Index of the counter `events`.
    pub event: u32,
    /// Port, addresses, header and words of each packet, sorted; a packet-in is not among them.
    pub sent: Vec<(u16, UdpFrame, Header, Vec<u8>)>,
}

/// Indices of `events` for frames that never reach a slot.
const PARSER_ERROR: u32 = 1;
const BAD_LENGTH: u32 = 2;
const BAD_VERSION: u32 = 3;
const NO_ROUTE: u32 = 15;
const UNKNOWN_ETHERTYPE: u32 = 18;
const TO_CONTROLLER: u32 = 33;

/// The model of the rig's switch.
#[derive(Debug)]
pub struct Oracle {
    trees: Vec<Tree>,
    model: SwitchModel,
}

impl Oracle {
    /// With these trees installed.
    pub fn new(trees: &[Tree]) -> Self {
        Self { trees: trees.to_vec(), model: SwitchModel::new(trees.iter().map(config)) }
    }

    /// Installs changed trees.
    pub fn install(&mut self, trees: &[Tree]) {
        self.trees = trees.to_vec();
        trees.iter().map(config).for_each(|config| self.model.install(config));
    }

    /// A frame that began as a reduction packet to the switch's service address arrives by `port`.
    pub fn step(&mut self, now_us: u64, port: u16, frame: &[u8]) -> Verdict {
        match dissect(frame) {
            Err(event) => Verdict { event, sent: Vec::new() },
            Ok((header, words)) => {
                let outcome = self.model.handle(now_us, port, &header, words);
                let tree = self.trees.iter().find(|tree| tree.tree_id == header.tree_id);
                let sent = outcome.sent.into_iter().map(|sent| {
                    let to = tree.map(|tree| receiver(tree, &sent)).expect("only installed trees send");
                    (sent.port, to, sent.header, sent.words)
                });
                let mut sent: Vec<_> = sent.collect();
                sent.sort_by_key(|(port, _, header, _)| (*port, header.member, header.plane));
                Verdict { event: outcome.event as u32, sent }
            }
        }
    }
}

/// What a switch sent, in the model's terms; packet-ins are left out.
///
/// # Panics
/// If a frame is no reduction packet.
pub fn understood(sent: &Sent) -> Vec<(u16, UdpFrame, Header, Vec<u8>)> {
    let parse = |(port, frame): &(u16, Vec<u8>)| {
        let (to, payload) =
            UdpFrame::parse(frame).unwrap_or_else(|error| panic!("at port {port}: {error}: {frame:02x?}"));
        assert!(payload.len() >= HEADER_LEN, "at port {port}: no reduction packet: {frame:02x?}");
        let (header, words) = (header(&Packet::new_unchecked(payload)), &payload[HEADER_LEN..]);
        (*port, to, header, words.to_vec())
    };
    let mut sent: Vec<_> = sent.iter().filter(|(port, _)| *port != CPU_PORT).map(parse).collect();
    sent.sort_by_key(|(port, _, header, _)| (*port, header.member, header.plane));
    sent
}

/// The packet of a frame, or the event of one that is none. Lengths are judged as docs/protocol.md says; cut inside the outer
/// headers, a frame is ordinary traffic that leads nowhere.
fn dissect(frame: &[u8]) -> Result<(Header, &[u8]), u32> {
    if frame.len() < ETHERNET_LEN + IPV4_LEN {
        return Err(UNKNOWN_ETHERTYPE);
    }
    if frame.len() < OUTER_LEN + HEADER_LEN {
        return Err(NO_ROUTE);
    }
    let packet = Packet::new_unchecked(&frame[OUTER_LEN..]);
    let words = usize::from(packet.words());
    let length = OUTER_LEN + HEADER_LEN + words * WORD_BYTES;
    if (1..=MAX_WORDS).contains(&words) && frame.len() < length {
        return Err(PARSER_ERROR);
    }
    // A host's announcement is the controller's business, whatever address it is sent to.
    if packet.opcode() == Ok(Opcode::Announce) {
        return Err(TO_CONTROLLER);
    }
    let field = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let lengths = (field(ETHERNET_LEN + 2), field(ETHERNET_LEN + IPV4_LEN + 4), frame.len());
    if words > MAX_WORDS || lengths != (length - ETHERNET_LEN, length - ETHERNET_LEN - IPV4_LEN, length) {
        return Err(BAD_LENGTH);
    }
    if packet.version() != VERSION {
        return Err(BAD_VERSION);
    }
    Ok((header(&packet), &frame[OUTER_LEN + HEADER_LEN..]))
}

/// The header without judging it. The model has no words for unknown opcodes and formats: an opcode that no member may send and a
/// format that no tree here has stand for them.
fn header(packet: &Packet<&[u8]>) -> Header {
    let format = packet.format().unwrap_or_else(|_| other_format(packet));
    Header {
        opcode: packet.opcode().unwrap_or(Opcode::ProbeReply),
        flags: Flags::from_bits(packet.flags().bits()),
        format,
        tree_id: packet.tree_id(),
        member: packet.member(),
        generation: packet.generation(),
        slot: packet.slot(),
        sequence: packet.sequence(),
        tag: packet.tag(),
        plane: packet.plane(),
        words: packet.words(),
        contributions: packet.contributions(),
        exp_max: packet.exp_max(),
        exp_min: packet.exp_min(),
        bias: packet.bias(),
    }
}

/// The rig's trees 0x1.. are i32, those of 0x2.. are bfp16.
fn other_format(packet: &Packet<&[u8]>) -> Format {
    if packet.tree_id() >> 8 == 1 { Format::Bfp16 } else { Format::I32 }
}

fn receiver(tree: &Tree, sent: &slot::Sent) -> UdpFrame {
    let (to, dst_port): (Neighbour, u16) = if sent.header.opcode == Opcode::Partial {
        (tree.parent.expect("only a tree with a parent sends sums").at, UDP_PORT)
    } else {
        let child = tree.children.iter().find(|child| {
            let is_host = matches!(child.kind, ChildKind::Host { .. });
            let member = if is_host { child.member } else { PARENT_MEMBER };
            (child.at.port, member) == (sent.port, sent.header.member)
        });
        let child = child.expect("results and replies go to children");
        match child.kind {
            ChildKind::Host { udp_port } => (child.at, udp_port),
            ChildKind::Switch { .. } => (child.at, UDP_PORT),
        }
    };
    let from = (service_mac(DEVICE_ID), service_address(DEVICE_ID));
    UdpFrame { dst_port, ..UdpFrame::to_switch(from, (to.mac, to.ip)) }
}

fn config(tree: &Tree) -> slot::TreeConfig {
    let child = |child: &crate::rig::Child| slot::Child {
        port: child.at.port,
        member: child.member,
        kind: match child.kind {
            ChildKind::Host { .. } => slot::ChildKind::Host,
            ChildKind::Switch { .. } => slot::ChildKind::Switch,
        },
    };
    slot::TreeConfig {
        tree_id: tree.tree_id,
        generation: tree.generation,
        format: tree.format,
        guard: tree.guard,
        world: tree.world,
        slots: tree.slots,
        words: tree.words,
        children: tree.children.iter().map(child).collect(),
        parent: tree.parent.map(|parent| slot::Parent { port: parent.at.port, member: parent.member }),
        resend_interval_us: tree.resend_interval_us,
    }
}
