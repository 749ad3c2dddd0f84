//! An exhaustive check of the slot protocol: every schedule of a small tree, with any loss, duplication and reordering.
//!
//! The network never forgets: a packet once sent may arrive at any time, any number of times, or never. So a state is what the
//! hosts and switches hold and the set of packets sent so far, and all states that any schedule reaches are enumerated. In each, no
//! host has accepted anything but the right result; and from what hosts and switches hold, with every packet in flight lost, a
//! network that loses nothing any more leads to the end.

mod agreement;
mod explore;
mod network;
mod topology;

use agreement::{Policy, Rule, Scenario};
use explore::{Fault, explore};
use network::Verdict;
use topology::{Node, Operation, Topology};

use crate::model::slot::Broken;

use Node::{Host, Switch};
use Operation::{FarApart, Integers, Mismatched, NotFinite, Overflowing};

fn leaf(hosts: usize) -> Node {
    Switch(vec![Host; hosts])
}

/// Explores, and prints what it took: the figures show that the check has not become empty.
fn check(name: &str, root: Node, operations: &[Operation], states: usize) {
    let explored = explore(&Topology::new(&root, operations), Fault::None);
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

/// Resends are limited in time, whichever child asks.
#[test]
fn limited_resends() {
    for (name, root) in [
        ("one leaf", Switch(vec![leaf(2), Host])),
        ("both kinds", Switch(vec![Host, leaf(2), Host, leaf(2)])),
        ("line of three", Switch(vec![Switch(vec![leaf(2), Host]), Host])),
    ] {
        let explored = explore(&Topology::new(&root, &[Integers; 3]).limited(), Fault::None);
        println!("{name}: {} states", explored.states);
        assert_eq!(explored.verdict, Verdict::Right, "{name}: {:#?}", explored.trace);
    }
}

/// The check can fail: it finds every rule of the slot protocol broken.
#[test]
fn broken_rules_are_found() {
    use Broken::*;
    for (rule, verdict) in [
        // More contributions than ranks: no host takes the result.
        (AddsRepeats, Verdict::Stuck),
        (TellsVersionsApartOnly, Verdict::Wrong),
        (StoreNotApart, Verdict::Stuck),
        (ForgetsPrevious, Verdict::Stuck),
        (NeverResends, Verdict::Stuck),
        (ResendsOnePlane, Verdict::Stuck),
        (PlanesShareBitmap, Verdict::Wrong),
        (FullByOnePlane, Verdict::Wrong),
        (TakesAnyResult, Verdict::Stuck),
    ] {
        let topology = Topology::new(&Switch(vec![leaf(2), Host]), &[Integers; 3]).limited().broken(rule);
        let explored = explore(&topology, Fault::None);
        println!("{rule:?}: {:?} after {} states", explored.verdict, explored.states);
        assert_eq!(explored.verdict, verdict, "{rule:?}: {:?}", explored.trace);
    }
}

fn change(policy: Policy, name: &str, root: Node, (operations, attempts): (usize, u8), states: usize) {
    let topology = Topology::new(&root, &[Integers; 3][..operations]);
    let explored = agreement::explore(&topology, Scenario { policy, attempts, broken: None });
    println!("{policy:?}, {name}: {} states", explored.states);
    assert_eq!(explored.verdict, Verdict::Right, "{policy:?}, {name}: {:?}", explored.trace);
    assert_eq!(explored.states, states, "{policy:?}, {name}: number of states");
}

/// A generation change at any time, a second one in the middle of it, while packets of all generations are on their way.
#[test]
fn generations_change() {
    let two_levels = || Switch(vec![leaf(2), Host]);
    let three_levels = || Switch(vec![Switch(vec![leaf(1), Host]), Host]);
    for (policy, states) in [
        (Policy::Same, [22_607, 59_888, 6333]),
        (Policy::Shrink, [136_502, 368_407, 33_255]),
        (Policy::Abort, [14_165, 21_287, 9138]),
    ] {
        change(policy, "one switch", leaf(3), (2, 2), states[0]);
        change(policy, "two levels", two_levels(), (2, 2), states[1]);
        change(policy, "three levels", three_levels(), (2, 1), states[2]);
    }
}

/// The check can fail: it finds every rule of the agreement broken.
#[test]
fn broken_agreements_are_found() {
    use Broken::{KeepsSlots, TakesAnyGeneration};
    use Rule::*;
    for (rule, policy, verdict) in [
        (OwnPlace, Policy::Same, Verdict::Wrong),
        (SequencesGoOn, Policy::Same, Verdict::Stuck),
        (TakesResultsAfterReport, Policy::Shrink, Verdict::Disagree),
        (SumsAgain, Policy::Shrink, Verdict::Disagree),
        (RetainsNothing, Policy::Same, Verdict::Stuck),
        (ForgetsWhenReady, Policy::Same, Verdict::Stuck),
        (NumberReused, Policy::Same, Verdict::Stuck),
        (TakesOldOpen, Policy::Shrink, Verdict::Stuck),
        (AgreesWithoutAll, Policy::Shrink, Verdict::Disagree),
    ] {
        let topology = Topology::new(&leaf(3), &[Integers; 2]);
        let explored = agreement::explore(&topology, Scenario { policy, attempts: 2, broken: Some(rule) });
        println!("{rule:?}: {:?} after {} states", explored.verdict, explored.states);
        assert_eq!(explored.verdict, verdict, "{rule:?}: {:?}", explored.trace);
    }
    for (rule, verdict) in [(KeepsSlots, Verdict::Stuck), (TakesAnyGeneration, Verdict::Wrong)] {
        let topology = Topology::new(&leaf(3), &[Integers; 2]).broken(rule);
        let scenario = Scenario { policy: Policy::Same, attempts: 2, broken: None };
        let explored = agreement::explore(&topology, scenario);
        println!("{rule:?}: {:?} after {} states", explored.verdict, explored.states);
        assert_eq!(explored.verdict, verdict, "{rule:?}: {:?}", explored.trace);
    }
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
