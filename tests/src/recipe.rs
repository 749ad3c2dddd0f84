//! The recipe whose outcome on BMv2 is recorded.

use crate::rig::standard_trees;
use crate::target::{Sent, Target, all_entries};
use crate::traffic::{Mix, Step, Traffic};

/// Name of the recording.
pub const NAME: &str = "bmv2-rig";
/// What the recording says of itself.
pub const ABOUT: &str = "Hashes of what BMv2 (simple_switch_grpc) sent for each frame of the seeded recipe in \
    tests/src/traffic; written by the suite diff_bmv2 with INCA_RECORD=1.";
const SEED: u64 = 0x1ca_2026;
const STEPS: usize = 12_000;

/// The frames.
pub fn recipe() -> Vec<Step> {
    let trees = standard_trees();
    Traffic::new(SEED, &trees, Mix { ordinary: 15, spoiled: 8, garbage: 5 }).take(STEPS).collect()
}

/// Seeds of further recipes: as many as the environment variable `INCA_SEEDS` says, for long runs.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..std::env::var("INCA_SEEDS").ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Installs the rig and feeds the frames; what was sent for each.
pub fn run(target: &mut impl Target, steps: &[Step]) -> Vec<Sent> {
    target.install(&all_entries(&standard_trees()));
    steps.iter().map(|step| target.step(step.port, &step.frame)).collect()
}

/// A frame in words.
pub fn describe(index: usize, step: &Step) -> String {
    format!("frame {index} ({}) at port {}:\n  {}", step.kind, step.port, hex(&step.frame))
}

/// What was sent, in words.
pub fn text(sent: &Sent) -> String {
    let copies: Vec<String> =
        sent.iter().map(|(port, frame)| format!("port {port}: {}", hex(frame))).collect();
    if copies.is_empty() { "nothing".to_owned() } else { copies.join("\n  ") }
}

fn hex(frame: &[u8]) -> String {
    let digits: String = frame.iter().take(120).map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes {digits}{}", frame.len(), if frame.len() > 120 { "..." } else { "" })
}
