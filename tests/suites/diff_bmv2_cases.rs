//! Known exchanges with a real BMv2: those of `tree_cases`, and drops against multicast groups in a program of their own, as
//! the embedded switch does them in its test of the same name.

use inca_tests::bmv2::{Bmv2, with_bmv2, with_program};
use inca_tests::cases;
use inca_tests::rig::Tree;
use inca_tests::target::{Target, all_entries};

fn with_trees(work: impl FnOnce(&mut Bmv2, &[Tree]) + Send) {
    with_bmv2(|bmv2| {
        let trees = cases::trees();
        bmv2.install(&all_entries(&trees));
        work(bmv2, &trees);
    });
}

#[test]
fn p1_an_old_duplicate_is_not_added_by_bmv2() {
    with_trees(cases::p1);
}

#[test]
fn p1b_a_lost_result_is_replayed_by_bmv2_after_the_next_sequence_began() {
    with_trees(cases::p1b);
}

#[test]
fn p2_slots_out_of_range_are_dropped_and_counted_by_bmv2() {
    with_trees(cases::p2);
}

/// A link carries no frame shorter than an Ethernet header.
#[test]
fn p3_a_packet_cut_at_any_length_touches_no_slot_of_bmv2() {
    with_trees(|bmv2, trees| cases::p3(bmv2, trees, 14));
}

/// What ingress does last wins: `mark_to_drop` clears the multicast group. A port's frames leave in order, so what a later frame
/// brings proves that an earlier one brought nothing more.
#[test]
fn p4_drop_and_multicast_on_bmv2() {
    let program =
        |ending| format!("{}/../switch/tests/programs/replication.{ending}", env!("CARGO_MANIFEST_DIR"));
    with_program(&program("p4info.txtpb"), &program("json"), 0..=4, |bmv2| {
        bmv2.multicast(1, &[(1, 10), (2, 20), (1, 11)]);
        let frame = |op: u8, count: u8, rid: u8, mark: u8| {
            let mut frame = vec![0; 60];
            (frame[0], frame[1], frame[3], frame[4]) = (op, count, rid, mark);
            frame
        };
        let (drop_then_multicast, multicast_then_drop, neither, unknown_group, drop_then_port) =
            (1, 2, 3, 4, 5);
        for mark in [0xA, 0xB] {
            for op in [drop_then_multicast, multicast_then_drop, unknown_group, neither, drop_then_port] {
                bmv2.send(3, &frame(op, 0, 0, mark));
            }
        }
        let copies = |rids: &[u8]| -> Vec<Vec<u8>> {
            let each = |mark| rids.iter().map(move |rid| frame(1, 1, *rid, mark));
            [0xA, 0xB].into_iter().flat_map(each).collect()
        };
        // In which order a group's copies leave one port is the switch's own affair.
        let mut both = bmv2.receive(1, 4);
        both.sort_by_key(|copy| (copy[4], copy[3]));
        assert_eq!(both, copies(&[10, 11]));
        assert_eq!(bmv2.receive(2, 2), copies(&[20]));
        let twice = |op| [frame(op, 0, 0, 0xA), frame(op, 0, 0, 0xB)];
        assert_eq!(bmv2.receive(0, 2), twice(neither));
        assert_eq!(bmv2.receive(4, 2), twice(drop_then_port));
        bmv2.expect_silence();
    });
}
