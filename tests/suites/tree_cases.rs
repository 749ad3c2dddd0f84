//! Known exchanges with one embedded switch as root and as leaf. The same on BMv2 in `diff_bmv2_cases`.

use inca_tests::cases;
use inca_tests::rig::Tree;
use inca_tests::target::Embedded;

fn fresh() -> (Embedded, Vec<Tree>) {
    let trees = cases::trees();
    (Embedded::with_trees(&trees), trees)
}

#[test]
fn p1_an_old_duplicate_is_not_added() {
    let (mut switch, trees) = fresh();
    cases::p1(&mut switch, &trees);
}

#[test]
fn p1b_a_lost_result_is_replayed_after_the_next_sequence_began() {
    let (mut switch, trees) = fresh();
    cases::p1b(&mut switch, &trees);
}

#[test]
fn p2_slots_out_of_range_are_dropped_and_counted() {
    let (mut switch, trees) = fresh();
    cases::p2(&mut switch, &trees);
}

#[test]
fn p3_a_packet_cut_at_any_length_touches_no_slot() {
    let (mut switch, trees) = fresh();
    cases::p3(&mut switch, &trees, 0);
}
