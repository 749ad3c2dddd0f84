//! Every entrance under seeded mutations of what a real system sends: a refusal or an answer, never a panic, never silence.
//!
//! `INCA_FUZZ=n` tries n times as many. A failing input is written to `target/fuzz/`; put into `fuzz/regressions/` it is
//! tried first for ever. `fuzz/` runs the same targets guided by coverage.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use inca_tests::fuzz::{Mutator, Target, alarms, arm, regressions, target};

const SEED: u64 = 0x1CA_F022;
/// No input may take longer, on the busiest machine.
const LIMIT: Duration = Duration::from_secs(40);

fn try_one(target: &'static Target, name: &str, input: &[u8]) {
    let before = alarms();
    let outcome =
        within_limit(target, name, input, || catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    if outcome.is_err() || alarms() != before {
        let path = keep(target, name, input);
        panic!("{} input {name} broke a promise (see above); it is kept as {}", target.name, path.display());
    }
}

/// Ends the process if `work` does not come back: nothing else would.
fn within_limit<R>(target: &'static Target, name: &str, input: &[u8], work: impl FnOnce() -> R) -> R {
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        scope.spawn(move || {
            if is_done.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!(
                    "{} input {name} takes more than {LIMIT:?}; see {}",
                    target.name,
                    keep(target, name, input).display()
                );
                std::process::abort();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn keep(target: &Target, name: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz").join(target.name);
    let path = folder.join(name);
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

fn run(name: &str) {
    arm();
    let target = target(name).expect("a target of this name");
    for (path, input) in regressions(target) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        try_one(target, &name, &input);
    }
    let seeds = (target.seeds)();
    for (index, seed) in seeds.iter().enumerate() {
        try_one(target, &format!("seed-{index}"), seed);
    }
    let times: u64 = std::env::var("INCA_FUZZ").ok().and_then(|value| value.parse().ok()).unwrap_or(1);
    let mut mutator = Mutator::new(SEED, &seeds, target.words);
    for index in 0..target.usual * times {
        try_one(target, &format!("mutation-{index}"), &mutator.make());
    }
    println!("{}: {} seeds, {} mutations", target.name, seeds.len(), target.usual * times);
}

#[test]
fn packet() {
    run("packet");
}

#[test]
fn json() {
    run("json");
}

#[test]
fn p4runtime() {
    run("p4runtime");
}

#[test]
fn northbound() {
    run("northbound");
}
