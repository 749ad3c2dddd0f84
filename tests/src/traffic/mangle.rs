//! Ways to spoil a reduction packet.

use inca_wire::frame::OUTER_LEN;

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
