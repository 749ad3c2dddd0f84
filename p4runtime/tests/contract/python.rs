//! Real clients: p4runtime-shell and finsy, each in a virtual environment of its own.

use std::{path::Path, time::Duration};

use super::Target;

/// What `run_in_venv.py` exits with when the packages can't be installed.
const SKIPPED: i32 = 77;
/// The first run installs the packages.
const PATIENCE: Duration = Duration::from_secs(420);

pub(crate) async fn p4runtime_shell(target: Target) {
    session(&target, "requirements-shell.txt", "p4runtime_shell_session.py", &[]).await;
}

pub(crate) async fn finsy(target: Target) {
    // BMv2's server has no registers.
    let without: &[&str] = if target.is_bmv2 { &["--no-registers"] } else { &[] };
    session(&target, "requirements-finsy.txt", "p4runtime_finsy_session.py", without).await;
}

async fn session(target: &Target, requirements: &str, script: &str, extra: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (python, fixtures) = (root.join("tests/python"), root.join("tests/fixtures/p4runtime"));
    let run = tokio::process::Command::new("python3")
        .arg(python.join("run_in_venv.py"))
        .arg(python.join(requirements))
        .arg(python.join(script))
        .args([target.url.trim_start_matches("http://"), &target.device_id.to_string()])
        .arg(fixtures.join("objects.p4info.txtpb"))
        .arg(fixtures.join("objects.json"))
        .args(extra)
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(PATIENCE, run).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return println!("skipped: python3 can't be run: {error}"),
        Err(_) => panic!("{script} did not end in time"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    if output.status.code() == Some(SKIPPED) {
        return;
    }
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with("session complete\n"), "{text}");
}
