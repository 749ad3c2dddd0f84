//! The embedded switch against real BMv2: the same frames give the same bytes, frame by frame and port by port.
//!
//! The frames are a seeded recipe; hashes of what BMv2 sent for them are committed in `fixtures/`, so the embedded switch is held to
//! the real one also where that is absent. `INCA_RECORD=1` with BMv2 on PATH writes them.

use inca_tests::bmv2::with_bmv2;
use inca_tests::cases;
use inca_tests::recording::{RECORD, Recording};
use inca_tests::rig::standard_trees;
use inca_tests::target::{Embedded, Sent, Target, all_entries};
use inca_tests::traffic::{Mix, Step, Traffic};

const NAME: &str = "bmv2-rig";
const ABOUT: &str = "Hashes of what BMv2 (simple_switch_grpc) sent for each frame of the seeded recipe in \
    tests/src/traffic; written by the suite diff_bmv2 with INCA_RECORD=1.";
const SEED: u64 = 0x1ca_2026;
const STEPS: usize = 12_000;

fn recipe() -> Vec<Step> {
    let trees = standard_trees();
    Traffic::new(SEED, &trees, Mix { ordinary: 15, spoiled: 8, garbage: 5 }).take(STEPS).collect()
}

fn run(target: &mut impl Target, steps: &[Step]) -> Vec<Sent> {
    target.install(&all_entries(&standard_trees()));
    steps.iter().map(|step| target.step(step.port, &step.frame)).collect()
}

#[test]
fn embedded_switch_sends_what_bmv2_sent() {
    let steps = recipe();
    let embedded = run(&mut Embedded::new(), &steps);
    let recorded = Recording::load(NAME);
    let ours = Recording::new(ABOUT, &steps, &embedded);
    assert_eq!(ours.input, recorded.input, "the recipe changed: a run with BMv2 and {RECORD}=1 records it anew");
    if let Some(first) = ours.first_difference(&recorded) {
        panic!(
            "first difference at {}\nembedded sent {}\nrecorded with program {}, now {}",
            describe(first, &steps[first]),
            text(&embedded[first]),
            recorded.program,
            ours.program
        );
    }
}

#[test]
fn bmv2_and_embedded_switch_send_the_same() {
    let steps = recipe();
    let Some(bmv2) = with_bmv2(|bmv2| run(bmv2, &steps)) else { return };
    Recording::new(ABOUT, &steps, &bmv2).save_if_asked(NAME);
    let embedded = run(&mut Embedded::new(), &steps);
    for (index, (embedded, bmv2)) in embedded.iter().zip(&bmv2).enumerate() {
        assert!(
            embedded == bmv2,
            "first difference at {}\nbmv2 sent     {}\nembedded sent {}",
            describe(index, &steps[index]),
            text(bmv2),
            text(embedded)
        );
    }
    assert_coverage(&steps, &bmv2);
}

#[test]
fn known_exchanges_end_right_on_bmv2() {
    let trees = cases::trees();
    with_bmv2(|bmv2| {
        bmv2.install(&all_entries(&trees));
        // A link carries no frame shorter than an Ethernet header.
        cases::all(bmv2, &trees, 14);
    });
}

/// A recipe that only ever made the switch drop would prove nothing.
fn assert_coverage(steps: &[Step], sent: &[Sent]) {
    let answered = sent.iter().filter(|sent| !sent.is_empty()).count();
    assert!(answered * 5 > steps.len(), "only {answered} of {} frames were answered", steps.len());
}

fn describe(index: usize, step: &Step) -> String {
    format!("frame {index} ({}) at port {}:\n  {}", step.kind, step.port, hex(&step.frame))
}

fn text(sent: &Sent) -> String {
    let copies: Vec<String> = sent.iter().map(|(port, frame)| format!("port {port}: {}", hex(frame))).collect();
    if copies.is_empty() { "nothing".to_owned() } else { copies.join("\n  ") }
}

fn hex(frame: &[u8]) -> String {
    let digits: String = frame.iter().take(120).map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes {digits}{}", frame.len(), if frame.len() > 120 { "..." } else { "" })
}
