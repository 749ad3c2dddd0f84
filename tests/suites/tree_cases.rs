//! Known exchanges with one embedded switch as root and as leaf. The same run on BMv2 in `diff_bmv2`.

use inca_tests::cases;
use inca_tests::target::Embedded;

#[test]
fn known_exchanges_end_right() {
    let trees = cases::trees();
    cases::all(&mut Embedded::with_trees(&trees), &trees, 0);
}
