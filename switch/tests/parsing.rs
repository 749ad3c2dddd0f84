//! Parser, header stacks, variable length, unions, value sets.

mod common;

use common::{load, process};
use inca_switch::Switch;

fn switch() -> Switch {
    load(include_str!("programs/parsing.json"))
}

/// The frame sent for a frame: headers, the tail header split off.
fn run(sw: &mut Switch, frame: &[u8]) -> Vec<u8> {
    let out = process(sw, 1, frame);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].0, 1);
    out[0].1.clone()
}

/// Error code, packet length, value.
fn tail(error: u8, length: u8, value: u16) -> [u8; 4] {
    [error, length, (value >> 8) as u8, value as u8]
}

#[test]
fn a_loop_over_a_stack() {
    let mut sw = switch();
    let items = [[2, 0, 1], [4, 0, 2], [7, 0, 3]].concat();
    let frame = [&[1, 0x00][..], &items, &[0xEE]].concat();
    let want = [&[1, 0x00][..], &items, &tail(0, 12, 0), &[0xEE]].concat();
    assert_eq!(run(&mut sw, &frame), want);
}

#[test]
fn a_stack_overrun_keeps_what_was_read() {
    let mut sw = switch();
    let items = [2, 0, 1].repeat(5);
    let frame = [&[1, 0][..], &items].concat();
    // Four elements fit; the fifth stays payload, behind the header that ingress adds.
    let want = [&[1, 0][..], &items[..12], &tail(3, 17, 0), &items[12..]].concat();
    assert_eq!(run(&mut sw, &frame), want);
}

#[test]
fn a_frame_cut_at_every_length() {
    let mut sw = switch();
    let whole = [1, 0, 2, 0, 1, 4, 0, 2, 7, 0, 3];
    for n in 0..whole.len() {
        let headers = if n < 2 { 0 } else { 2 + (n - 2) / 3 * 3 };
        let want = [&whole[..headers], &tail(1, n as u8, 0), &whole[headers..n]].concat();
        assert_eq!(run(&mut sw, &whole[..n]), want, "{n} bytes");
    }
}

#[test]
fn masks_and_lookahead() {
    let mut sw = switch();
    // Mode 2 with the top flag set looks ahead; 9 leads on to the items.
    let frame = [2, 0x0F, 9, 0, 1];
    assert_eq!(run(&mut sw, &frame), [&frame[..], &tail(0, 5, 9)].concat());
    // Another value: accepted, nothing consumed.
    assert_eq!(run(&mut sw, &[2, 0x08, 8]), [&[2, 0x08][..], &tail(0, 3, 8), &[8]].concat());
    // Without the flag: not even looked at.
    assert_eq!(run(&mut sw, &[2, 0x07, 9]), [&[2, 0x07][..], &tail(0, 3, 0), &[9]].concat());
    // Looking beyond the end is an error.
    assert_eq!(run(&mut sw, &[2, 0x08]), [&[2, 0x08][..], &tail(1, 2, 0)].concat());
    // Three bits, with a mask over the mode.
    assert_eq!(run(&mut sw, &[0x6B, 0x03, 0xA0]), [&[0x6B, 0x03][..], &tail(0, 3, 5), &[0xA0]].concat());
}

#[test]
fn variable_length() {
    let mut sw = switch();
    for length in [0u8, 1, 5, 39, 40] {
        let data: Vec<u8> = (0..length).map(|i| i ^ 0x5A).collect();
        let frame = [&[3, 0, length][..], &data, &[0xEE]].concat();
        let want = [&frame[..frame.len() - 1], &tail(0, frame.len() as u8, 0), &[0xEE]].concat();
        assert_eq!(run(&mut sw, &frame), want, "{length}");
    }
    // Longer than the header allows.
    let frame = [&[3, 0, 41][..], &[1; 41]].concat();
    assert_eq!(run(&mut sw, &frame)[..6], [&[3, 0][..], &tail(4, 44, 0)].concat());
    // Longer than the packet.
    assert_eq!(run(&mut sw, &[3, 0, 5, 1, 2]), [&[3, 0][..], &tail(1, 5, 0), &[5, 1, 2]].concat());
    // Removed: its bytes go, and the length seen in egress falls by all of them.
    let frame = [&[3, 0xF1, 4][..], &[9; 4], &[0xEE]].concat();
    assert_eq!(run(&mut sw, &frame), [&[3, 0xF1][..], &tail(0, 8 + 4 - 5, 0), &[0xEE]].concat());
}

#[test]
fn unions_have_one_valid_member() {
    let mut sw = switch();
    assert_eq!(run(&mut sw, &[4, 0, 1, 5, 6]), [&[4, 0, 1, 5, 6][..], &tail(0, 5, 0)].concat());
    assert_eq!(run(&mut sw, &[4, 0, 2, 5, 6, 7, 8]), [&[4, 0, 2, 5, 6, 7, 8][..], &tail(0, 7, 0)].concat());
    // Setting the other member valid makes the first invalid; its field was read before.
    let out = run(&mut sw, &[4, 1, 1, 5, 6]);
    assert_eq!(out, [&[4, 1, 2, 0, 0, 5, 6][..], &tail(0, 5, 0)].concat());
}

#[test]
fn verify_and_advance() {
    let mut sw = switch();
    assert_eq!(run(&mut sw, &[5, 0x40, 1, 0, 0]), [&[5, 0x40, 1, 0, 0][..], &tail(0, 5, 0)].concat());
    assert_eq!(run(&mut sw, &[5, 0x50, 1, 0, 0]), [&[5, 0x50][..], &tail(50, 5, 0), &[1, 0, 0]].concat());
    // Bytes that are skipped are gone.
    assert_eq!(run(&mut sw, &[6, 0x20, 8, 8, 1, 0, 0]), [&[6, 0x20, 1, 0, 0][..], &tail(0, 7, 0)].concat());
    assert_eq!(run(&mut sw, &[6, 0x30, 8, 8]), [&[6, 0x30][..], &tail(1, 4, 0), &[8, 8]].concat());
}

#[test]
fn value_sets() {
    let mut sw = switch();
    let frame = [7, 0, 3, 0x12, 0x34];
    let missed = [&[7, 0][..], &tail(0, 5, 0), &frame[2..]].concat();
    assert_eq!(run(&mut sw, &frame), missed);
    let set = sw.program().value_set("P.known").unwrap();
    sw.value_set_write(set, vec![vec![0x03, 0x12], vec![0x99]]).unwrap();
    assert_eq!(run(&mut sw, &frame), [&frame[..], &tail(0, 5, 0)].concat());
    sw.value_set_write(set, vec![vec![0x99]]).unwrap();
    assert_eq!(run(&mut sw, &frame), missed);
    assert_eq!(sw.value_set_read(set).unwrap(), vec![vec![0, 0x99]]);
    assert!(sw.value_set_write(set, vec![vec![1, 0, 0]]).is_err());
    assert!(sw.value_set_write(set, vec![vec![1]; 5]).is_err());
}

#[test]
fn stacks_are_pushed_popped_copied_and_indexed() {
    let mut sw = switch();
    let mut with = |flags: u8, items: &[[u8; 3]]| {
        let frame = [&[1, flags][..], &items.concat()].concat();
        let out = run(&mut sw, &frame);
        out[2..out.len() - 4].to_vec()
    };
    let (a, b, c, d) = ([2, 0, 1], [4, 0, 2], [6, 0, 3], [9, 0, 4]);
    let (last_a, last_b) = ([3, 0, 1], [5, 0, 2]);
    // push_front(1): the new first is invalid until set; the last falls off.
    assert_eq!(with(0x01, &[a, b, c, d]), [[84, 0, 7], a, b, c].concat());
    assert_eq!(with(0x01, &[last_a]), [[84, 0, 7], last_a].concat());
    // pop_front(2).
    assert_eq!(with(0x02, &[a, b, c, d]), [c, d].concat());
    assert_eq!(with(0x02, &[last_a]), Vec::<u8>::new());
    // items[1] = items[0]; items[3] = items[2], which is invalid here: so becomes items[3].
    assert_eq!(with(0x03, &[a, last_b]), [a, a].concat());
    assert_eq!(with(0x03, &[a, b, c, d]), [a, a, c, c].concat());
    // items[left].more = items[0].more + 1, the index at run time.
    assert_eq!(with(0x24, &[a, b, c, d]), [a, b, [6, 0, 2], d].concat());
}
