//! Checksums, hashes, signed and saturating arithmetic, control flow inside actions, digests.

mod common;

use common::{load, process};
use inca_switch::control::{ActionCall, DigestRecord, EntryAction, MatchKey, TableEntry};
use inca_switch::program::DigestId;
use inca_switch::{Output, Switch};

fn switch() -> Switch {
    load(include_str!("programs/sums.json"))
}

fn csum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// An IP-like header of 20 bytes with this checksum (the right one if `None`).
fn ip(version: u8, tos: u8, checksum: Option<u16>) -> Vec<u8> {
    let mut h = vec![version << 4 | 5, tos, 0, 99, 1, 2, 3, 4, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = checksum.unwrap_or_else(|| csum(&h));
    h[8..10].copy_from_slice(&sum.to_be_bytes());
    h
}

#[test]
fn checksums_are_verified_on_condition_and_updated() {
    let mut sw = switch();
    let right = ip(4, 0, None);
    assert_eq!(process(&mut sw, 1, &right), vec![(1, right.clone())]);
    // Wrong: noticed, and mended on the way out.
    assert_eq!(process(&mut sw, 1, &ip(4, 0, Some(1))), vec![(2, right)]);
    // Another version: neither verified nor updated.
    let other = ip(5, 0, Some(1));
    assert_eq!(process(&mut sw, 1, &other), vec![(1, other)]);
}

#[test]
fn a_checksum_over_the_payload() {
    let mut sw = switch();
    for payload in [&b""[..], b"a", b"abcdefg"] {
        let mut frame = ip(4, 1, None);
        frame.extend([0, 7, 0, 9, 0, 8 + payload.len() as u8, 0xDE, 0xAD]);
        frame.extend(payload);
        let out = process(&mut sw, 1, &frame);
        let mut covered = frame[10..24].to_vec();
        covered.extend(payload);
        frame[24..26].copy_from_slice(&csum(&covered).to_be_bytes());
        assert_eq!(out, vec![(1, frame)]);
    }
}

/// Results of one operation: 16, 32 and 64 bits, and whether the end of ingress was reached.
fn calc(sw: &mut Switch, op: u8, a: i8, b: i8, c: u8, d: u8) -> (u16, u32, u64, u8) {
    let mut frame = ip(4, 2, None);
    frame.extend([op, a as u8, b as u8, c, d]);
    frame.extend([0; 15]);
    let out = process(sw, 1, &frame);
    assert_eq!(out.len(), 1);
    let r = &out[0].1[23..];
    (
        u16::from_be_bytes(r[..2].try_into().unwrap()),
        u32::from_be_bytes(r[2..6].try_into().unwrap()),
        u64::from_be_bytes(r[6..14].try_into().unwrap()),
        r[14],
    )
}

#[test]
fn signed_and_saturating_arithmetic() {
    let mut sw = switch();
    let corners = [i8::MIN, -100, -1, 0, 1, 100, i8::MAX];
    for a in corners {
        for b in corners {
            let out16 = |sw: &mut Switch, op| calc(sw, op, a, b, a as u8, b as u8).0;
            assert_eq!(out16(&mut sw, 1), u16::from(a.wrapping_add(b) as u8));
            assert_eq!(out16(&mut sw, 2), u16::from(a.saturating_add(b) as u8));
            assert_eq!(out16(&mut sw, 3), u16::from(a.saturating_sub(b) as u8));
            assert_eq!(out16(&mut sw, 4), u16::from((a as u8).saturating_add(b as u8)));
            assert_eq!(out16(&mut sw, 5), u16::from((a as u8).saturating_sub(b as u8)));
            assert_eq!(out16(&mut sw, 6), u16::from((a >> 2) as u8));
            assert_eq!(out16(&mut sw, 7), u16::from(a < b));
            assert_eq!(calc(&mut sw, 9, a, b, 0, 0).1, i32::from(a) as u32);
        }
    }
}

#[test]
fn concatenation_and_slices() {
    let mut sw = switch();
    assert_eq!(calc(&mut sw, 8, 0, 0, 0xAB, 0xCD), (0xABCD, 0xAB00, 0xD << 60, 1));
}

#[test]
fn hashes() {
    let mut sw = switch();
    // CRC-32 of the inputs' bytes, and the base added to the remainder.
    let crc32 = |bytes: &[u8]| {
        let mut crc = u32::MAX;
        for b in bytes {
            crc ^= u32::from(*b);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
            }
        }
        !crc
    };
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    let want = 100 + crc32(&[10, 0, 0, 1, 10, 0, 0, 2, 77]) % 1000;
    assert_eq!(calc(&mut sw, 10, 0, 0, 77, 0).1, want);
    let crc16 = |bytes: &[u8]| {
        let mut crc = 0u16;
        for b in bytes {
            crc ^= u16::from(*b);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 };
            }
        }
        crc
    };
    assert_eq!(calc(&mut sw, 11, 0, 0, 1, 2).0, crc16(&[1, 2]) % 0xFFFF);
}

#[test]
fn conditions_and_return_inside_an_action() {
    let mut sw = switch();
    assert_eq!(calc(&mut sw, 12, 0, 0, 11, 11), (3, 1, 5, 1));
    assert_eq!(calc(&mut sw, 12, 0, 0, 11, 10), (2, 1, 5, 1));
    assert_eq!(calc(&mut sw, 12, 0, 0, 10, 11), (1, 0, 5, 1));
    assert_eq!(calc(&mut sw, 12, 0, 0, 10, 10), (0, 0, 0, 1));
    // An entry with another limit.
    let table = sw.program().table("I.nest").unwrap();
    let action = sw.program().table_action(table, "I.nested").unwrap();
    let entry = TableEntry {
        keys: vec![MatchKey::Exact(vec![12])],
        priority: 0,
        action: EntryAction::Call(ActionCall { action, args: vec![vec![0]] }),
        metadata: vec![],
        idle_timeout_ns: 0,
    };
    sw.table_insert(table, entry).unwrap();
    assert_eq!(calc(&mut sw, 12, 0, 0, 1, 0), (2, 1, 5, 1));
}

#[test]
fn exit_ends_the_pipeline() {
    let mut sw = switch();
    assert_eq!(calc(&mut sw, 13, 0, 0, 0, 0), (1, 0, 0, 0));
    assert_eq!(calc(&mut sw, 1, 1, 1, 0, 0).3, 1);
}

#[test]
fn random_stays_in_its_bounds_and_repeats_by_seed() {
    let draw = |sw: &mut Switch| (0..200).map(|_| calc(sw, 14, 0, 0, 0, 0).1).collect::<Vec<_>>();
    let values = draw(&mut switch());
    assert!(values.iter().all(|v| (10..=20).contains(v)));
    assert!((10..=20).all(|v| values.contains(&v)));
    assert_eq!(values, draw(&mut switch()));
}

#[test]
fn a_failed_assertion_drops_the_packet() {
    let mut sw = switch();
    assert_eq!(calc(&mut sw, 17, 0, 0, 1, 0).0, 5);
    let mut frame = ip(4, 2, None);
    frame.extend([17, 0, 0, 0, 0]);
    frame.extend([0; 15]);
    assert!(process(&mut sw, 1, &frame).is_empty());
    assert_eq!(sw.faults().asserts_failed, 1);
}

#[derive(Default)]
struct Digests(Vec<(DigestId, DigestRecord)>);

impl Output for Digests {
    fn send(&mut self, _port: u16, _frame: &[u8]) {}

    fn digest(&mut self, digest: DigestId, record: DigestRecord) {
        self.0.push((digest, record));
    }
}

/// Two in one packet: the last one is sent, as in BMv2.
#[test]
fn digests() {
    let mut sw = switch();
    let mut frame = ip(4, 2, None);
    frame.extend([16, 0, 0, 7, 0]);
    frame.extend([0; 15]);
    let mut out = Digests::default();
    sw.process(1, &frame, 0, &mut out);
    let id = sw.program().digest("tuple_3").unwrap();
    assert_eq!(out.0, vec![(id, DigestRecord { fields: vec![vec![7], vec![10, 0, 0, 1]] })]);
}
