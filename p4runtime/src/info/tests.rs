use super::*;
use crate::p4config::action_ref::Scope;

fn objects() -> P4Info {
    P4Info::from_text(include_str!("../../../tests/fixtures/p4runtime/objects.p4info.txtpb")).unwrap()
}

#[test]
fn objects_are_found_by_name_alias_and_id() {
    let info = objects();
    let table = info.table("ObjectsIngress.ternary_match").unwrap();
    assert_eq!(info.table("ternary_match").unwrap().id, table.id);
    assert_eq!(info.table_by_id(table.id).unwrap().name, "ObjectsIngress.ternary_match");
    assert_eq!(table.id >> 24, 2, "a table's id starts with its kind");
    let fields: Vec<_> = table.fields.iter().map(|f| (f.id, f.name.as_str(), f.width, f.kind)).collect();
    assert_eq!(fields, [(1, "port", 9, MatchKind::Exact), (2, "kind", 16, MatchKind::Ternary)]);
    assert!(table.needs_priority && table.const_default_action.is_some());
    let value = &info.action("set_word").unwrap().params[0];
    assert_eq!((value.id, value.name.as_str(), value.width), (1, "value", 2048));
}

#[test]
fn resources_and_flags_of_tables() {
    let info = objects();
    let exact = info.table("exact_match").unwrap();
    assert_eq!(exact.direct_counter, Some(info.direct_resource("forwarded").unwrap().id));
    assert!(exact.direct_meter.is_none() && exact.idle_timeout && !exact.is_const && !exact.needs_priority);
    assert_eq!(exact.size, 16);
    let range = info.table("range_match").unwrap();
    assert_eq!(range.direct_meter, Some(info.direct_resource("policed").unwrap().id));
    assert_eq!(range.fields[1].kind, MatchKind::Optional);
    assert!(info.table("fixed").unwrap().is_const);
    let lpm = info.table("lpm_match").unwrap();
    let drop = info.action("drop").unwrap().id;
    assert!(lpm.actions.contains(&ActionRefInfo { id: drop, scope: Scope::DefaultOnly }));
    let profile = info.profile_by_id(info.table("by_path").unwrap().profile.unwrap()).unwrap();
    assert!(profile.with_selector && profile.name == "ObjectsIngress.paths");
    assert!(!info.profile("shared").unwrap().with_selector);
}

#[test]
fn arrays_and_packet_headers() {
    let info = objects();
    let words = info.register("words").unwrap();
    assert_eq!((words.size, words.width), (16, Some(2048)));
    assert_eq!(info.counter("seen").unwrap().unit, object::Unit::Both);
    assert_eq!(info.meter("rate").unwrap().unit, object::Unit::Packets);
    let out = info.packet_header("packet_out").unwrap();
    assert_eq!(out.bits(), 16);
    let padding: Vec<_> = out.fields.iter().filter(|f| f.is_padding).map(|f| f.name.as_str()).collect();
    assert_eq!(padding, ["pad"]);
    assert_eq!(info.value_set("special").unwrap().fields[0].width, 16);
}

#[test]
fn unknown_names_list_what_exists() {
    let error = objects().meter("no_such").unwrap_err();
    assert_eq!(error.to_string(), "no meter no_such in this program; valid are ObjectsIngress.rate");
    let error = objects().table_by_id(7).unwrap_err();
    assert!(
        error.to_string().starts_with("no table with id 7 in this program; valid are ObjectsIngress."),
        "{error}"
    );
}

#[test]
fn broken_text_is_an_error_with_a_reason() {
    for (text, part) in [
        ("tables {", "text protobuf"),
        ("no_such_field: 1", "no_such_field"),
        ("tables { size: \"many\" }", "text protobuf"),
        ("tables { size: 4 }", "table number 0 has no preamble"),
        (
            "actions { preamble { id: 1 name: \"a\" } } actions { preamble { id: 1 name: \"b\" } }",
            "declared twice",
        ),
        (
            "actions { preamble { id: 1 name: \"a\" } } actions { preamble { id: 2 name: \"a\" } }",
            "declared twice",
        ),
        ("tables { preamble { id: 5 name: \"t\" } action_refs { id: 9 } }", "refers to action 9"),
        ("tables { preamble { id: 5 name: \"t\" } implementation_id: 8 }", "refers to action profile 8"),
        (
            "tables { preamble { id: 5 name: \"t\" } match_fields { id: 1 name: \"f\" other_match_type: \"fuzzy\" } }",
            "match kind fuzzy is not known",
        ),
    ] {
        let error = P4Info::from_text(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn binary_form_equals_text_form() {
    let info = objects();
    let again = P4Info::from_bytes(&info.message().encode_to_vec()).unwrap();
    assert_eq!(again.message(), info.message());
}
