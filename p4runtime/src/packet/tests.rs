use super::*;

fn objects() -> P4Info {
    P4Info::from_text(include_str!("../../../tests/fixtures/p4runtime/objects.p4info.txtpb")).unwrap()
}

#[test]
fn every_field_is_sent_padding_included() {
    let info = objects();
    let out = info.packet_out(vec![1], &[("replicate", 1u8.into()), ("egress_port", 300u16.into())]).unwrap();
    let metadata: Vec<_> = out.metadata.iter().map(|m| (m.metadata_id, m.value.as_slice())).collect();
    assert_eq!(metadata, [(1, &[1, 44][..]), (2, &[1]), (3, &[0])]);
}

#[test]
fn missing_doubled_unknown_and_wide_fields_are_refused() {
    let info = objects();
    let out = |fields: &[(&str, Value)]| info.packet_out(vec![], fields).unwrap_err().to_string();
    assert_eq!(
        out(&[("egress_port", 1u8.into())]),
        "packet_out: metadata field replicate is given 0 times, expected once"
    );
    assert_eq!(
        out(&[("replicate", 0u8.into()), ("replicate", 0u8.into()), ("egress_port", 1u8.into())]),
        "packet_out: metadata field replicate is given 2 times, expected once"
    );
    assert_eq!(
        out(&[("egress", 1u8.into())]),
        "packet_out has no metadata field egress; valid are egress_port, replicate, pad"
    );
    assert_eq!(
        out(&[("replicate", 0u8.into()), ("egress_port", 512u16.into())]),
        "packet_out: metadata field egress_port: value of 10 bits does not fit 9 bits"
    );
}

#[test]
fn packet_in_fields_are_named() {
    let info = objects();
    let metadata = |id, value: &[u8]| PacketMetadata { metadata_id: id, value: value.to_vec() };
    let packet = PacketIn { payload: vec![], metadata: vec![metadata(2, &[0, 5]), metadata(1, &[1, 2])] };
    let fields = info.packet_in_fields(&packet).unwrap();
    assert_eq!(fields, BTreeMap::from([("ingress_port", vec![1, 2]), ("reason", vec![5])]));
    let packet = PacketIn { payload: vec![], metadata: vec![metadata(9, &[0])] };
    assert!(info.packet_in_fields(&packet).unwrap_err().to_string().contains("with id 9"));
}
