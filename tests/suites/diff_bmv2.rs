//! The embedded switch against real BMv2: the same frames give the same bytes, frame by frame and port by port.
//!
//! The frames are a seeded recipe. `INCA_RECORD=1` writes hashes of what BMv2 sent for them to `fixtures/`, to which the suite
//! `golden_bmv2` holds the embedded switch where BMv2 is absent.

use inca_tests::bmv2::with_bmv2;
use inca_tests::cases;
use inca_tests::recipe::{ABOUT, NAME, describe, recipe, run, text};
use inca_tests::recording::Recording;
use inca_tests::target::{Embedded, Sent, Target, all_entries};
use inca_tests::traffic::Step;

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
