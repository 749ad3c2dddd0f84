//! Python sessions, each in a virtual environment of its own (`tests/python/run_in_venv.py`).

use std::{path::Path, time::Duration};

/// What `run_in_venv.py` exits with when the packages can't be installed.
const SKIPPED: i32 = 77;

/// Runs a script of `tests/python` to its end; it says last that its session is complete. The first run installs the packages.
pub(crate) async fn session(requirements: &str, script: &str, arguments: &[&str], patience: Duration) {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python");
    let run = tokio::process::Command::new("python3")
        .arg(python.join("run_in_venv.py"))
        .arg(python.join(requirements))
        .arg(python.join(script))
        .args(arguments)
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(patience, run).await {
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
