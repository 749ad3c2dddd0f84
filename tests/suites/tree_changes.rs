//! Generations that change in the middle of operations, after every packet: nobody gets another bit than without a change, and where a
//! rank died all survivors get the same, which says what it is the sum of.

use std::time::Duration;

use inca_tests::fabric::{Call, Direction, Fabric, Faults, Job, Node};
use inca_tests::inputs;
use inca_tests::loss::{self, Exchange, Tally};
use inca_tests::target::Embedded;
use inca_wire::packet::Format;

use Node::{Host, Switch};

fn shapes() -> [(Node, Format); 4] {
    [
        (Node::leaf(3), Format::Bfp16),
        (Node::two_levels(&[2, 1]), Format::I32),
        (Switch(vec![Host, Node::leaf(2)]), Format::Bfp16),
        (Switch(vec![Node::two_levels(&[1, 2]), Host]), Format::I32),
    ]
}

fn assert_right(tally: &Tally) {
    println!("{tally:?}");
    assert!(tally.is_right(), "{:#?}", tally.failures);
    assert!(tally.copied > 100, "only {} chunks were handed over", tally.copied);
}

/// What was on its way is lost, or arrives in the new generation; a second change follows soon, or when the exchange is well under way.
#[test]
fn a_generation_may_change_after_any_packet() {
    let mut tally = Tally::default();
    for (shape, format) in shapes() {
        loss::changes(&mut Exchange::new(shape, format, 2, 5), &mut tally, &[1, 7, 30]);
    }
    assert_right(&tally);
}

#[test]
fn any_rank_may_die_after_any_packet() {
    let mut tally = Tally::default();
    for (shape, format) in shapes() {
        loss::deaths(&mut Exchange::new(shape, format, 2, 5), &mut tally);
    }
    assert_right(&tally);
}

/// Each switch in turn comes back with nothing in it, after every packet: the next generation finds it as good as any.
#[test]
fn a_switch_may_restart_empty_after_any_packet() {
    let shape = Switch(vec![Node::leaf(2), Host]);
    let job = Job { slots: 2, ..Job::new(Format::I32) };
    let mut fabric = Fabric::new(&shape, job);
    let calls = [Call::sum(inputs::i32s(3, 3, 4 * 64))];
    let right = [inputs::expected(&calls[0], fabric.chunk_words())];
    fabric.run(&calls).unwrap_or_else(|stuck| panic!("{stuck}"));
    let packets = fabric.sent().sent().values().sum::<u64>();
    for index in 0..2 {
        for after in 0..packets {
            let name = format!("switch {index} restarts after {after} packets");
            fabric.renew_quietly(Faults::none(), after);
            fabric.begin(&calls, after);
            fabric.restart(index, Embedded::with_device_id(index as u16 + 1));
            fabric.deliver(1, 20);
            fabric.change();
            let outcomes = fabric.finish(1).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
            inputs::check(&name, &outcomes, &right);
        }
    }
}

/// A packet of a rank that is dead arrives in the middle of the next generation. It matches no entry and does nothing; where its entry
/// was left behind, it makes the slot begin anew in the old generation, and the others never finish.
#[test]
fn entries_that_stay_behind_are_a_danger() {
    for stay in [false, true] {
        let mut fabric = Fabric::new(&Node::leaf(3), Job { slots: 1, ..Job::new(Format::I32) });
        if stay {
            fabric.leave_entries();
        }
        fabric.renew_quietly(Faults::none().copy_packet((0, Direction::Up, 0), Duration::from_millis(1)), 0);
        let tensors = inputs::i32s(3, 3, 64 * 60);
        let calls = [Call { deadline: Some(Duration::from_secs(1)), ..Call::sum(tensors) }];
        fabric.begin(&calls, 8);
        fabric.kill(0);
        fabric.change();
        let outcomes = fabric.finish(1).unwrap_or_else(|stuck| panic!("{stuck}"));
        for rank in [1, 2] {
            assert_eq!(outcomes[rank][0].is_err(), stay, "rank {rank}: {:?}", outcomes[rank][0]);
        }
    }
}
