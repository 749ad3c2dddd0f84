//! `docs/p4runtime-compliance.md` names a test for every row: each of them exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The functions of all sources in these folders.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        ["switch", "p4runtime", "tests", "controller"].map(|it| root().join(it)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").map(|entry| entry.expect("entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|it| it == "rs" || it == "py") {
                let text = std::fs::read_to_string(&entry).expect("source");
                let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect::<Vec<_>>();
                let named = words.windows(2).filter(|pair| matches!(pair[0], "fn" | "def"));
                names.extend(named.map(|pair| pair[1].to_owned()));
            }
        }
    }
    names
}

/// Section and the tests of each row.
fn rows(text: &str) -> Vec<(String, Vec<String>)> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [section, _, _, tests] = cells[..] else { panic!("a row has four cells: {line}") };
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (section.to_owned(), tests)
    };
    text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| section")).map(row).collect()
}

#[test]
fn every_row_names_a_test_that_exists() {
    let text = std::fs::read_to_string(root().join("docs/p4runtime-compliance.md")).expect("the table");
    let (functions, rows) = (functions(), rows(&text));
    assert!(rows.len() >= 50, "{} rows", rows.len());
    for (section, tests) in rows {
        assert!(!tests.is_empty(), "{section}: no test is named");
        for test in tests {
            assert!(functions.contains(&test), "{section}: there is no test {test}");
        }
    }
}
