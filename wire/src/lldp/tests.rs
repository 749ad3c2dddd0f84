use proptest::prelude::*;

use super::*;

const PROBE: LinkProbe = LinkProbe {
    src_mac: MacAddr([2, 0, 0, 0, 0, 7]),
    device_id: 7,
    port: 12,
    nonce: 0x0123_4567_89AB_CDEF,
    ttl: 30,
};

#[test]
fn the_frame_is_lldp() {
    let mut expected = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 7, 0x88, 0xcc];
    expected.extend(b"\x02\x07\x07inca-7");
    expected.extend(b"\x04\x03\x0712");
    expected.extend(b"\x06\x02\x00\x1e");
    expected.extend(b"\xfe\x18\x02\x1c\xa0\x01\0\0\0\0\0\0\0\x07\0\0\0\x0c\x01\x23\x45\x67\x89\xab\xcd\xef");
    expected.extend(b"\0\0");
    assert_eq!(PROBE.emit(), expected);
}

#[test]
fn cut_frames_never_parse_and_padded_ones_do() {
    let frame = PROBE.emit();
    for len in 0..frame.len() {
        assert!(LinkProbe::parse(&frame[..len]).is_err(), "cut to {len} bytes");
    }
    let padded = [&frame[..], &[0; 20]].concat();
    assert_eq!(LinkProbe::parse(&padded), Ok(PROBE));
}

#[test]
fn foreign_lldp_is_told_apart() {
    let frame = PROBE.emit();
    let organisation = frame.windows(3).position(|bytes| bytes == MAC_PREFIX).unwrap();
    let mut foreign = frame.clone();
    foreign[organisation] = 0x00;
    assert_eq!(LinkProbe::parse(&foreign), Err(LinkProbeError::Foreign));
    let mut disordered = frame;
    disordered[14] = 0x04;
    assert_eq!(
        LinkProbe::parse(&disordered),
        Err(LinkProbeError::Order { position: 0, given: 2, expected: 1 })
    );
}

proptest! {
    #[test]
    fn probes_round_trip(device_id: u64, port: u32, nonce: u64, ttl: u16, mac: [u8; 6]) {
        let probe = LinkProbe { src_mac: MacAddr(mac), device_id, port, nonce, ttl };
        prop_assert_eq!(LinkProbe::parse(&probe.emit()), Ok(probe));
    }

    #[test]
    fn damaged_frames_are_judged_without_panic(damage in prop::collection::vec((14..64usize, any::<u8>()), 1..6)) {
        let mut frame = PROBE.emit();
        for (at, value) in damage {
            if at < frame.len() {
                frame[at] = value;
            }
        }
        let _ = LinkProbe::parse(&frame);
    }
}
