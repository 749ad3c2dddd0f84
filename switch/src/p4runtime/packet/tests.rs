use inca_p4runtime::Value;

use super::*;

fn info() -> P4Info {
    P4Info::from_text(include_str!("../../../../tests/fixtures/p4runtime/objects.p4info.txtpb")).unwrap()
}

fn metadata(fields: &[(u32, &[u8])]) -> Vec<PacketMetadata> {
    fields.iter().map(|&(metadata_id, value)| PacketMetadata { metadata_id, value: value.to_vec() }).collect()
}

fn out(fields: &[(u32, &[u8])]) -> Result<Vec<u8>, String> {
    frame(&info(), &PacketOut { payload: vec![0xEE], metadata: metadata(fields) })
}

#[test]
fn r4_packet_out_metadata_in_any_order_gives_the_same_bytes() {
    // 9 bits of egress port, 1 of replicate, 6 of padding.
    let expected = Ok(vec![0b1000_0001, 0b0100_0000, 0xEE]);
    assert_eq!(out(&[(1, &[1, 2]), (2, &[1]), (3, &[0])]), expected);
    assert_eq!(out(&[(3, &[0, 0]), (2, &[0, 1]), (1, &[0, 1, 2])]), expected);
    let by_name: [(&str, Value); 2] = [("replicate", 1u8.into()), ("egress_port", 258u16.into())];
    assert_eq!(frame(&info(), &info().packet_out(vec![0xEE], &by_name).unwrap()), expected);
}

#[test]
fn r4_missing_unknown_and_wide_metadata_are_refused() {
    assert_eq!(
        out(&[(1, &[1]), (2, &[1])]).unwrap_err(),
        "metadata field pad is given 0 times, expected once"
    );
    assert_eq!(
        out(&[(1, &[1]), (2, &[1]), (2, &[1]), (3, &[0])]).unwrap_err(),
        "metadata field replicate is given 2 times, expected once"
    );
    assert_eq!(
        out(&[(1, &[1]), (2, &[1]), (3, &[0]), (9, &[0])]).unwrap_err(),
        "no metadata field with id 9; valid are 1 (egress_port), 2 (replicate), 3 (pad)"
    );
    assert_eq!(
        out(&[(1, &[2, 0]), (2, &[1]), (3, &[0])]).unwrap_err(),
        "metadata field egress_port: value of 10 bits does not fit 9 bits"
    );
    assert_eq!(
        out(&[(1, &[]), (2, &[1]), (3, &[0])]).unwrap_err(),
        "metadata field egress_port: empty byte string, expected 1 to 2 bytes"
    );
}

#[test]
fn packet_in_metadata_is_canonical() {
    let packet = packet_in(&info(), vec![0b1000_0001, 0b0000_0101, 7, 8]).unwrap();
    assert_eq!(packet.metadata, metadata(&[(1, &[1, 2]), (2, &[5])]));
    assert_eq!(packet.payload, [7, 8]);
    let zero = packet_in(&info(), vec![0, 0]).unwrap();
    assert_eq!((zero.metadata, zero.payload), (metadata(&[(1, &[0]), (2, &[0])]), vec![]));
    assert_eq!(packet_in(&info(), vec![1]), None, "shorter than the header");
}
