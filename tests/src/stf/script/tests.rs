use super::{Check, Pattern, Statement, parse};

fn one(text: &str) -> Statement {
    let mut statements = parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).statements;
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).1
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn entries() {
    let statement =
        one("add a.b 100 data.f1:0x**0101 \"h.ip.src\":0x0a000000/8\n  c.set(val:0x7f, port:2) = $A # why");
    let expected = Statement::Add {
        table: "a.b".to_owned(),
        priority: Some("100".to_owned()),
        keys: pairs(&[("data.f1", "0x**0101"), ("h.ip.src", "0x0a000000/8")]),
        call: ("c.set".to_owned(), pairs(&[("val", "0x7f"), ("port", "2")])),
        handle: Some("$A".to_owned()),
    };
    assert_eq!(statement, expected);
    let defaults = one("SETDEFAULT t act()");
    assert_eq!(defaults, Statement::SetDefault("t".to_owned(), ("act".to_owned(), Vec::new())));
}

#[test]
fn frames() {
    assert_eq!(one("packet 510 0f A0"), Statement::Packet(510, vec![0x0f, 0xa0]));
    let pattern = |digits: &str, exact| Some(Pattern { digits: digits.into(), exact });
    assert_eq!(one("expect 1 0*  ff$"), Statement::Expect(1, pattern("0*FF", true)));
    assert_eq!(one("expect 1 0*"), Statement::Expect(1, pattern("0*", false)));
    assert_eq!(one("expect 1"), Statement::Expect(1, None));
}

#[test]
fn counters_and_groups() {
    let check = Check { bytes: true, relation: ">=", value: 3 };
    assert_eq!(
        one("check_counter c(10) bytes >= 3"),
        Statement::CheckCounter("c".to_owned(), "10".to_owned(), Some(check))
    );
    assert_eq!(one("mc_node_create 400 6 7"), Statement::NodeCreate(400, vec![6, 7]));
    assert_eq!(
        one("meter_set_rates m 1 0.5:2 1:3"),
        Statement::Meter("m".to_owned(), Some(1), vec![(0.5, 2), (1.0, 3)])
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, line, problem) in [
        ("wait\npacket 1 123", 2, "packet: its data must be pairs of hexadecimal digits"),
        ("expect 1 0g", 1, "expect: 'G' is no hexadecimal digit, * or a $ at the end"),
        ("packet x 00", 1, "packet: port \"x\" is no number up to 65535"),
        ("add t a:1 act(", 1, "\")\" is missing at the end"),
        ("setdefault t act() more", 1, "\"more\" after the end of the statement"),
        ("frobnicate", 1, "unknown statement \"frobnicate\""),
        ("check_counter c(1) packets ~ 3", 1, "'~' means nothing here"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.line, error.problem.as_str()), (line, problem));
    }
}
