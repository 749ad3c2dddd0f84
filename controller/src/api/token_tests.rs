use super::*;

fn entry(name: &str, tenant: Option<&str>, role: Role) -> (String, String) {
    make(name, tenant, role).unwrap()
}

fn error(text: &str) -> String {
    parse("tokens.yaml", text).unwrap_err().to_string()
}

#[test]
fn what_is_made_is_found() {
    let folder = std::env::temp_dir().join(format!("inca-tokens-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("tokens.yaml");
    let (ci, ci_entry) = entry("ci", Some("research"), Role::Submit);
    let (ops, ops_entry) = entry("ops", None, Role::Admin);
    std::fs::write(&path, format!("tokens:\n{ci_entry}\n{ops_entry}\n")).unwrap();
    let tokens = Tokens::from_file(&path).unwrap();
    let now = Instant::now();
    let find = |header: &str| tokens.find(now, Some(header.as_bytes()));
    let expected = Token { name: "ci".into(), tenant: Some("research".into()), role: Role::Submit };
    assert_eq!(find(&format!("Bearer {ci}")).unwrap(), expected);
    assert_eq!(find(&format!("bearer {ops} ")).unwrap().role, Role::Admin);
    for wrong in ["Bearer", "Bearer ", "Basic abc", "", &format!("Bearer {ci}0"), &format!("Bearer{ci}")] {
        assert!(find(wrong).is_err(), "{wrong}");
    }
    assert!(matches!(tokens.find(now, None), Err(ApiError::NoToken)));
    // A file that is wrong changes nothing; one that is right takes a token away.
    let touch = |text: &str, seconds| {
        std::fs::write(&path, text).unwrap();
        let time = SystemTime::now() + Duration::from_secs(seconds);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    touch("tokens: 7\n", 10);
    assert!(tokens.find(now + LOOK, Some(format!("Bearer {ci}").as_bytes())).is_ok());
    touch(&format!("tokens:\n{ops_entry}\n"), 20);
    assert!(tokens.find(now + LOOK, Some(format!("Bearer {ci}").as_bytes())).is_ok(), "looked too early");
    let later = now + 2 * LOOK;
    assert!(matches!(tokens.find(later, Some(format!("Bearer {ci}").as_bytes())), Err(ApiError::WrongToken)));
    assert!(tokens.find(later, Some(format!("Bearer {ops}").as_bytes())).is_ok());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_file_says_what_is_wrong_with_it() {
    let good = "ab".repeat(32);
    assert!(error("tokens: [{name: a, role: root, sha256: x}]").contains("root"));
    assert!(error("tokens: [{name: a, role: read, sha256: abc}]").contains("64 hexadecimal digits"));
    assert!(
        error(&format!("tokens: [{{name: 'a b', role: read, sha256: {good}}}]")).contains("\"a b\" must be")
    );
    assert!(
        error(&format!("tokens: [{{name: a, tenant: x/y, role: read, sha256: {good}}}]")).contains("x/y")
    );
    let twice = format!("{{name: a, role: read, sha256: {good}}}");
    assert!(error(&format!("tokens: [{twice}, {twice}]")).contains("twice"));
    let same = format!("{{name: b, role: read, sha256: {good}}}");
    assert!(error(&format!("tokens: [{twice}, {same}]")).contains("same sha256"));
    assert!(error("token: []").contains("token"));
    assert!(matches!(Tokens::from_file(Path::new("/nonexistent")), Err(TokenFileError::Read { .. })));
    assert!(make("a b", None, Role::Read).is_err());
}

#[test]
fn roles_include_those_before() {
    assert!(Role::Read < Role::Submit && Role::Submit < Role::Admin);
}
