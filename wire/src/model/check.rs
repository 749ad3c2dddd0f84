//! An exhaustive check of the slot protocol: every schedule of a small tree, with any loss, duplication and reordering.
//!
//! The network never forgets: a packet once sent may arrive at any time, any number of times, or never. So a state is what the
//! hosts and switches hold and the set of packets sent so far, and all states that any schedule reaches are enumerated. In each, no
//! host has accepted anything but the right result; and from what hosts and switches hold, with every packet in flight lost, a
//! network that loses nothing any more leads to the end.

mod explore;
mod topology;

use explore::{Fault, Verdict, explore};
use topology::{Node, Operation, Topology};

use Node::{Host, Switch};
use Operation::{FarApart, Integers, Mismatched, NotFinite, Overflowing};

fn leaf(hosts: usize) -> Node {
    Switch(vec![Host; hosts])
}

/// Explores, and prints what it took: the figures show that the check has not become empty.
fn check(name: &str, root: Node, operations: &[Operation], states: usize) {
    check_with(Fault::None, name, root, operations, states);
}

fn check_with(fault: Fault, name: &str, root: Node, operations: &[Operation], states: usize) {
    let explored = explore(&Topology::new(&root, operations), fault);
    println!("{name}: {} states, {} of hosts and switches", explored.states, explored.held);
    assert_eq!(explored.verdict, Verdict::Right, "{name}: {:#?}", explored.trace);
    assert_eq!(explored.states, states, "{name}: number of states");
}

#[test]
fn one_switch() {
    check("one switch", leaf(8), &[Integers; 3], 13_631);
}

#[test]
fn two_levels() {
    check("two levels", Switch(vec![leaf(4), leaf(4)]), &[Integers; 3], 15_097);
    check("three leaves", Switch(vec![leaf(2), leaf(2), leaf(2)]), &[Integers; 3], 4859);
}

#[test]
fn children_of_both_kinds() {
    check("both kinds", Switch(vec![Host, leaf(3), Host, leaf(2)]), &[Integers; 3], 7739);
}

#[test]
fn three_levels() {
    check(
        "line of four",
        Switch(vec![Switch(vec![Switch(vec![leaf(2), Host]), Host]), Host]),
        &[Integers; 3],
        915,
    );
    check("three levels", Switch(vec![Switch(vec![leaf(2), leaf(2)]), leaf(2)]), &[Integers; 3], 4989);
}

/// The second passes' packets: a flagged result and then the chunk again, unflagged.
#[test]
fn flagged_results() {
    let root = || Switch(vec![leaf(2), Host]);
    check("not finite", root(), &[Integers, NotFinite, Integers], 99);
    check("far apart", root(), &[FarApart, NotFinite, FarApart], 300);
    check("mismatched", root(), &[Mismatched, Integers], 117);
    check("overflowing", root(), &[Overflowing, Integers], 61);
}

/// A generation change at any time: nothing of the old generation gets into the new one.
#[test]
fn generations_change() {
    check_with(Fault::Renew, "new generation, one switch", leaf(3), &[Integers; 3], 1003);
    check_with(Fault::Renew, "new generation, two levels", Switch(vec![leaf(2), Host]), &[Integers; 3], 2297);
}

/// The check can fail: a switch that forgets its registers without a new generation is stuck.
#[test]
fn a_switch_that_forgets_is_found_to_be_stuck() {
    let explored = explore(&Topology::new(&leaf(2), &[Integers, Integers]), Fault::Forget);
    assert_eq!(explored.verdict, Verdict::Stuck);
}

/// The check can fail: a rank that sends other data under a sequence it has used makes wrong results.
#[test]
fn a_reused_sequence_is_found_to_be_wrong() {
    let explored = explore(&Topology::new(&leaf(2), &[Integers, Integers]), Fault::ReuseSequence);
    assert_eq!(explored.verdict, Verdict::Wrong);
}
