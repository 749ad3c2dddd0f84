//! The embedded switch against real BMv2: the same frames give the same bytes, frame by frame and port by port.
//!
//! The frames are a seeded recipe. `INCA_RECORD=1` writes hashes of what BMv2 sent for them to `fixtures/`, to which the suite
//! `golden_bmv2` holds the embedded switch where BMv2 is absent.

use inca_tests::bmv2::with_bmv2;
use inca_tests::recipe::{ABOUT, NAME, describe, recipe, run, seeds, text};
use inca_tests::recording::Recording;
use inca_tests::rig::standard_trees;
use inca_tests::target::{Embedded, Sent, Target, Twins, all_entries};
use inca_tests::traffic::{Mix, Step, Traffic};

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

/// Other seeds one after the other, each in new generations, so that the slots hold what the seed before left there. Both switches count
/// the same events.
#[test]
fn more_seeds_and_the_event_counters() {
    let mix = Mix { ordinary: 10, spoiled: 15, garbage: 10 };
    with_bmv2(|bmv2| {
        let mut embedded = Embedded::new();
        for seed in seeds(2) {
            let mut trees = standard_trees();
            trees.iter_mut().for_each(|tree| tree.generation += seed as u32);
            let mut twins = Twins(&mut embedded, &mut *bmv2);
            twins.install(&all_entries(&trees));
            for step in Traffic::new(seed, &trees, mix).take(3000) {
                twins.step(step.port, &step.frame);
            }
        }
        let counts = |target: &mut dyn Target| {
            let mut counts = target.event_counts();
            // The markers behind each frame on BMv2 are forwarded, or go to or come from the controller.
            counts.retain(|event, _| ![FORWARDED, TO_CONTROLLER, FROM_CONTROLLER].contains(event));
            counts
        };
        assert_eq!(counts(&mut embedded), counts(bmv2));
    });
}

const FORWARDED: u32 = 32;
const TO_CONTROLLER: u32 = 33;
const FROM_CONTROLLER: u32 = 34;

/// A recipe that only ever made the switch drop would prove nothing.
fn assert_coverage(steps: &[Step], sent: &[Sent]) {
    let answered = sent.iter().filter(|sent| !sent.is_empty()).count();
    assert!(answered * 5 > steps.len(), "only {answered} of {} frames were answered", steps.len());
}
