//! Our messages against the official descriptors, which come from the Python package index.

use std::{fs, path::Path, process::Command};

use inca_p4runtime::proto::DESCRIPTORS;

/// What `run_in_venv.py` exits with when the environment can't be made.
const SKIPPED: i32 = 77;

#[test]
fn every_declaration_equals_the_official_one() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python");
    let descriptors = Path::new(env!("CARGO_TARGET_TMPDIR")).join("descriptors.bin");
    fs::write(&descriptors, DESCRIPTORS).expect("the target directory is writable");
    let run = Command::new("python3")
        .arg(python.join("run_in_venv.py"))
        .arg(python.join("requirements-p4runtime.txt"))
        .arg(python.join("p4runtime_descriptors.py"))
        .arg(&descriptors)
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => return println!("skipped: python3 can't be run: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    if output.status.code() == Some(SKIPPED) {
        return;
    }
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("0 differ"), "the script must have compared: {text}");
}
