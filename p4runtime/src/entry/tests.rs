use super::*;

fn objects() -> P4Info {
    P4Info::from_text(include_str!("../../../tests/fixtures/p4runtime/objects.p4info.txtpb")).unwrap()
}

fn refused(builder: EntryBuilder<'_>) -> String {
    builder.build().unwrap_err().to_string()
}

#[test]
fn an_entry_by_name_has_ids_and_canonical_values() {
    let info = objects();
    let entry = EntryBuilder::new(&info)
        .table("ternary_match")
        .exact("port", [0, 0, 7])
        .ternary("kind", 0x0800u16, 0xFF00u16)
        .priority(10)
        .action("set_word", [("value", [0xFF; 256].into())])
        .build()
        .unwrap();
    assert_eq!(entry.table_id, info.table("ternary_match").unwrap().id);
    assert_eq!(entry.r#match[0].field_match_type, Some(FieldMatchType::Exact(Exact { value: vec![7] })));
    let decoded = info.decode_entry(&entry).unwrap();
    assert_eq!(
        decoded.to_string(),
        "ObjectsIngress.ternary_match[kind=0x0800&0xff00, port=0x07] priority 10 -> \
         ObjectsIngress.set_word(value=0xffffffffffffffff...ffffffffffffffff (256 bytes))"
    );
}

#[test]
fn matches_of_everything_are_left_out() {
    let info = objects();
    let lpm = |length| {
        EntryBuilder::new(&info)
            .table("lpm_match")
            .lpm("key", 0u8, length)
            .action("NoAction", [])
            .build()
            .unwrap()
    };
    assert_eq!(lpm(0).r#match.len(), 0);
    assert_eq!(lpm(1).r#match.len(), 1);
    let range = EntryBuilder::new(&info)
        .table("range_match")
        .range("kind", 0u8, u16::MAX)
        .priority(1)
        .action("NoAction", [])
        .build()
        .unwrap();
    assert_eq!(range.r#match, []);
    let ternary = EntryBuilder::new(&info)
        .table("ternary_match")
        .exact("port", 1u8)
        .ternary("kind", 0u8, 0u8)
        .priority(1)
        .action("NoAction", [])
        .build()
        .unwrap();
    assert_eq!(ternary.r#match.len(), 1);
}

#[test]
fn every_mistake_names_what_is_valid() {
    let info = objects();
    let of = |table: &str| EntryBuilder::new(&info).table(table);
    let exact = || of("exact_match").exact("dst", 1u8);
    let forward = |builder: EntryBuilder<'_>| refused(builder.action("forward", [("port", 1u8.into())]));
    assert!(
        forward(of("nowhere")).starts_with("no table nowhere in this program; valid are ObjectsIngress.")
    );
    assert_eq!(
        forward(exact().exact("mac", 1u8)),
        "table ObjectsIngress.exact_match has no match field mac; valid are dst"
    );
    assert_eq!(
        forward(exact().exact("dst", 1u8)),
        "table ObjectsIngress.exact_match, field dst: given twice"
    );
    assert_eq!(
        forward(of("exact_match")),
        "table ObjectsIngress.exact_match: exact match field dst is missing"
    );
    assert_eq!(
        forward(of("exact_match").ternary("dst", 1u8, 1u8)),
        "table ObjectsIngress.exact_match, field dst: is matched as exact, not as ternary"
    );
    assert_eq!(
        forward(of("exact_match").exact("dst", 1u64 << 48)),
        "table ObjectsIngress.exact_match, field dst: value of 49 bits does not fit 48 bits"
    );
    assert_eq!(
        forward(of("exact_match").exact("dst", vec![])),
        "table ObjectsIngress.exact_match, field dst: empty byte string, expected 1 to 6 bytes"
    );
    assert_eq!(
        forward(exact().priority(5)),
        "table ObjectsIngress.exact_match: priority 5 given, expected none: every field is exact or lpm"
    );
    assert_eq!(refused(exact()), "table ObjectsIngress.exact_match: the entry has no action");
    assert_eq!(
        refused(exact().action("set_key", [("value", 1u8.into())])),
        "table ObjectsIngress.exact_match does not allow action ObjectsIngress.set_key in an entry; valid are \
         ObjectsIngress.forward, ObjectsIngress.flood, ObjectsIngress.to_controller, ObjectsIngress.drop"
    );
    assert_eq!(
        refused(exact().action("forward", [("prot", 1u8.into())])),
        "action ObjectsIngress.forward has no parameter prot; valid are port"
    );
    assert_eq!(
        refused(exact().action("forward", [])),
        "action ObjectsIngress.forward: parameter port is given 0 times, expected once"
    );
    assert_eq!(
        refused(exact().action("forward", [("port", 512u16.into())])),
        "action ObjectsIngress.forward, parameter port: value of 10 bits does not fit 9 bits"
    );
}

#[test]
fn masks_prefixes_ranges_and_priorities_are_checked() {
    let info = objects();
    let of = |table: &str| EntryBuilder::new(&info).table(table).action("NoAction", []);
    assert_eq!(
        refused(of("lpm_match").lpm("key", 1u8, 24)),
        "table ObjectsIngress.lpm_match, field key: the value has bits set beyond its prefix of 24 bits"
    );
    assert_eq!(
        refused(of("lpm_match").lpm("key", 1u8, 33)),
        "table ObjectsIngress.lpm_match, field key: prefix length 33 given, valid are 0 to 32"
    );
    assert_eq!(
        refused(of("ternary_match").exact("port", 1u8).ternary("kind", 3u8, 1u8).priority(1)),
        "table ObjectsIngress.ternary_match, field kind: the value has bits set outside of its mask"
    );
    assert_eq!(
        refused(of("ternary_match").exact("port", 1u8)),
        "table ObjectsIngress.ternary_match: priority 0 given, expected above 0: a field is not exact or lpm"
    );
    assert_eq!(
        refused(of("range_match").range("kind", 256u16, 9u8).priority(1)),
        "table ObjectsIngress.range_match, field kind: the range's low end is above its high end"
    );
}

#[test]
fn default_entries_and_action_scopes() {
    let info = objects();
    let drop =
        EntryBuilder::new(&info).table("lpm_match").default_entry().action("drop", []).build().unwrap();
    assert!(drop.is_default_action && drop.r#match.is_empty());
    let error = refused(EntryBuilder::new(&info).table("lpm_match").lpm("key", 0u8, 0).action("drop", []));
    assert!(error.contains("does not allow action ObjectsIngress.drop in an entry"), "{error}");
}

#[test]
fn indirect_tables_take_members_groups_and_one_shots() {
    let info = objects();
    let of = || EntryBuilder::new(&info).table("by_path").exact("src", 5u8);
    assert!(of().member(1).build().is_ok() && of().group(1).build().is_ok());
    let shot = of()
        .one_of("send_by", [("port", 1u8.into())], 2)
        .one_of("send_by", [("port", 2u8.into())], 1)
        .build()
        .unwrap();
    assert!(
        info.decode_entry(&shot)
            .unwrap()
            .to_string()
            .ends_with("-> 2 x ObjectsIngress.send_by(port=0x01) | 1 x ObjectsIngress.send_by(port=0x02)")
    );
    assert!(refused(of().action("send_by", [("port", 1u8.into())])).contains("in an action profile"));
    let plain = EntryBuilder::new(&info).table("exact_match").exact("dst", 5u8).member(1);
    assert!(refused(plain).contains("has no action profile"));
}

#[test]
fn keys_compare_without_padding_and_order() {
    let info = objects();
    let a = EntryBuilder::new(&info)
        .table("ternary_match")
        .exact("port", 1u8)
        .ternary("kind", 1u8, 1u8)
        .priority(3)
        .build_key()
        .unwrap();
    let mut b = a.clone();
    b.r#match.reverse();
    let Some(FieldMatchType::Exact(exact)) = &mut b.r#match[1].field_match_type else {
        panic!("an exact match")
    };
    exact.value = vec![0, 1];
    assert_ne!(a, b);
    assert_eq!(EntryKey::from(&a), EntryKey::from(&b));
    b.priority = 4;
    assert_ne!(EntryKey::from(&a), EntryKey::from(&b));
}
