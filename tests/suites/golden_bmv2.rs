//! The embedded switch is held to what real BMv2 sent for a seeded recipe of frames: hashes in `fixtures/`, written by the suite
//! `diff_bmv2` with `INCA_RECORD=1`.

use inca_tests::recipe::{ABOUT, NAME, describe, recipe, run, text};
use inca_tests::recording::{RECORD, Recording};
use inca_tests::target::Embedded;

#[test]
fn embedded_switch_sends_what_bmv2_sent() {
    let steps = recipe();
    let embedded = run(&mut Embedded::new(), &steps);
    let recorded = Recording::load(NAME);
    let ours = Recording::new(ABOUT, &steps, &embedded);
    assert_eq!(
        ours.input, recorded.input,
        "the recipe changed: a run with BMv2 and {RECORD}=1 records it anew"
    );
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
