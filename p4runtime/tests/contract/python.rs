//! Real clients: p4runtime-shell and finsy, each in a virtual environment of its own.

use std::{path::Path, time::Duration};

use super::{Target, venv};

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
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/p4runtime");
    let fixture = |name| fixtures.join(name).display().to_string();
    let (p4info, json, device) =
        (fixture("objects.p4info.txtpb"), fixture("objects.json"), target.device_id.to_string());
    let mut arguments = vec![target.url.trim_start_matches("http://"), &device, &p4info, &json];
    arguments.extend(extra);
    venv::session(requirements, script, &arguments, PATIENCE).await;
}
