//! Ways to spoil a reduction packet.

use inca_wire::frame::{ETHERNET_LEN, IPV4_LEN, OUTER_LEN, internet_checksum};
use inca_wire::packet::{HEADER_LEN, MAX_WORDS, WORD_BYTES};

use super::Step;
use crate::rig::{PORTS, Tree};
use crate::rng::Rng;

/// Offsets of the header's fields from the frame's start, and their bytes.
const VERSION: (usize, usize) = (OUTER_LEN, 1);
const OPCODE: (usize, usize) = (OUTER_LEN + 1, 1);
const FLAGS: (usize, usize) = (OUTER_LEN + 2, 1);
const FORMAT: (usize, usize) = (OUTER_LEN + 3, 1);
const TREE_ID: (usize, usize) = (OUTER_LEN + 4, 2);
const MEMBER: (usize, usize) = (OUTER_LEN + 6, 2);
const GENERATION: (usize, usize) = (OUTER_LEN + 8, 4);
const SLOT: (usize, usize) = (OUTER_LEN + 12, 4);
const SEQUENCE: (usize, usize) = (OUTER_LEN + 16, 4);
const TAG: (usize, usize) = (OUTER_LEN + 20, 4);
const PLANE: (usize, usize) = (OUTER_LEN + 24, 1);
const WORDS: (usize, usize) = (OUTER_LEN + 25, 1);
const CONTRIBUTIONS: (usize, usize) = (OUTER_LEN + 26, 2);

/// One header field gets a wrong value; lengths stay right but where the word count itself is the field.
pub(super) fn wrong_field(rng: &mut Rng, tree: &Tree, step: &mut Step) {
    let generation = tree.generation;
    let ((at, bytes), value) = match rng.below(14) {
        0 => (VERSION, rng.below(4) as u64),
        1 => (OPCODE, rng.below(10) as u64),
        2 => (FLAGS, rng.next_u64()),
        3 => (FORMAT, rng.below(4) as u64),
        4 => (TREE_ID, rng.below(0x400) as u64),
        5 => (MEMBER, rng.pick(&[0, 1, 2, 3, 4, 8, 0xFFFE, 0xFFFF])),
        6 => (GENERATION, rng.pick(&[0, generation - 1, generation + 1, !0]) as u64),
        7 | 8 => (SLOT, rng.pick(&[tree.slots, tree.slots + 1, u32::MAX, 1 << 31]) as u64),
        9 => (SEQUENCE, rng.pick(&[0, 1, u32::MAX, u32::MAX - 1]) as u64),
        10 => (TAG, rng.next_u64()),
        11 => (PLANE, rng.below(4) as u64),
        12 => (WORDS, rng.below(40) as u64),
        _ => (CONTRIBUTIONS, rng.below(20) as u64),
    };
    if let Some(field) = step.frame.get_mut(at..at + bytes) {
        field.copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
    }
    step.kind = "wrong field";
}

/// More or fewer words than the others send, or than the tree's slots have room for; all lengths agree.
pub(super) fn wrong_words(rng: &mut Rng, tree: &Tree, step: &mut Step) {
    step.kind = "wrong words";
    let frame = &mut step.frame;
    if frame.len() < OUTER_LEN + HEADER_LEN {
        return;
    }
    let words = rng.between(0, i64::from(tree.words) + 2).min(MAX_WORDS as i64) as usize;
    frame.resize(OUTER_LEN + HEADER_LEN + words * WORD_BYTES, 0x5A);
    frame[WORDS.0] = words as u8;
    let length = (frame.len() - ETHERNET_LEN) as u16;
    frame[ETHERNET_LEN + 2..ETHERNET_LEN + 4].copy_from_slice(&length.to_be_bytes());
    let udp = ETHERNET_LEN + IPV4_LEN + 4;
    frame[udp..udp + 2].copy_from_slice(&(length - IPV4_LEN as u16).to_be_bytes());
    fix_checksum(frame);
}

/// Random service class, identification and "don't fragment": legal and without meaning for the switch.
pub(super) fn vary_ipv4(rng: &mut Rng, frame: &mut [u8]) {
    if frame.len() < OUTER_LEN {
        return;
    }
    frame[ETHERNET_LEN + 1] = rng.below(256) as u8;
    rng.fill(&mut frame[ETHERNET_LEN + 4..ETHERNET_LEN + 6]);
    frame[ETHERNET_LEN + 6] = rng.pick(&[0x00, 0x40]);
    fix_checksum(frame);
}

fn fix_checksum(frame: &mut [u8]) {
    let header = &mut frame[ETHERNET_LEN..ETHERNET_LEN + IPV4_LEN];
    header[10..12].fill(0);
    let checksum = internet_checksum(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// The frame is cut, longer than it says, lies about its lengths, or comes in by another port.
pub(super) fn wrong_frame(rng: &mut Rng, step: &mut Step) {
    let frame = &mut step.frame;
    match rng.below(6) {
        // What no Ethernet carries (less than its header) can't be sent on a real link.
        0 | 1 => frame.truncate(rng.between(14, frame.len() as i64) as usize),
        2 => frame.resize(frame.len() + 1 + rng.below(300), 0xA5),
        3 => frame[17] = frame[17].wrapping_add(1 + rng.below(255) as u8),
        4 => frame[39] = frame[39].wrapping_add(1 + rng.below(255) as u8),
        _ => step.port = rng.between(i64::from(*PORTS.start()), i64::from(*PORTS.end())) as u16,
    }
    step.kind = "wrong frame";
}
