//! Losing, doubling and delaying packets delays results and changes nothing else. `make test-loss` runs more of the same.

use std::time::Duration;

use inca_tests::fabric::{Call, Direction, Fabric, Faults, Job, LinkFaults, Node};
use inca_tests::inputs;
use inca_tests::loss::{self, Exchange, MOST_EXTRA_PACKETS, Schedules, Tally};
use inca_tests::rng::Rng;
use inca_wire::packet::Format;

use Node::{Host, Switch};

fn fabric(shape: &Node, format: Format, slots: u32) -> Fabric {
    Fabric::new(shape, Job { slots, ..Job::new(format) })
}

fn call(fabric: &Fabric, format: Format, seed: u64, chunks: usize) -> Call {
    Call::sum(match format {
        Format::I32 => inputs::i32s(seed, fabric.world(), 64 * chunks - 3),
        _ => inputs::f32s(seed, fabric.world(), 128 * chunks - 3, 9),
    })
}

fn assert_right(tally: &Tally) {
    println!("{tally:?}");
    assert!(tally.is_right(), "{:#?}", tally.failures);
}

/// Every packet of an exchange is lost once, each in a run of its own, on every link and in both directions, in trees of two and three
/// levels. Slots are used several times, so that losses meet slots that others have gone on with.
#[test]
fn every_single_loss_heals() {
    let mut tally = Tally::default();
    for (shape, format) in [
        (Node::two_levels(&[2, 1]), Format::I32),
        (Node::two_levels(&[1, 2]), Format::Bfp16),
        (Switch(vec![Host, Node::leaf(2)]), Format::I32),
        (Switch(vec![Node::two_levels(&[1, 1]), Node::leaf(1)]), Format::Bfp16),
        (Switch(vec![Node::two_levels(&[2, 1]), Host]), Format::I32),
    ] {
        loss::single_losses(&mut Exchange::new(shape, format, 2, 6), &mut tally);
    }
    assert_right(&tally);
    assert_eq!(tally.packets_dropped, tally.single_losses);
    assert!(tally.single_losses > 400, "only {} packets to lose", tally.single_losses);
    assert!((1..=MOST_EXTRA_PACKETS).contains(&tally.worst_extra_packets), "{}", tally.worst_extra_packets);
}

/// Every pair of losses: resends meet losses.
#[test]
fn every_double_loss_heals() {
    let mut tally = Tally::default();
    for shape in [Node::two_levels(&[2, 1]), Switch(vec![Host, Node::leaf(2)])] {
        loss::double_losses(&mut Exchange::new(shape, Format::I32, 1, 2), &mut tally);
    }
    assert_right(&tally);
    assert!(tally.double_losses > 600, "only {} pairs to lose", tally.double_losses);
}

/// Every packet comes twice, or late, by anything from half a hop to several uses of its slot.
#[test]
fn every_packet_may_come_late_or_twice() {
    let mut tally = Tally::default();
    for shape in [Node::two_levels(&[1, 1]), Switch(vec![Host, Node::leaf(1)])] {
        loss::late_packets(&mut Exchange::new(shape, Format::I32, 1, 3), &mut tally);
    }
    assert_right(&tally);
    assert!(tally.late_packets > 1000, "only {} runs", tally.late_packets);
}

/// Every order in which the packets of a small exchange can arrive.
#[test]
fn every_order_gives_the_same_bits() {
    let mut tally = Tally::default();
    for (shape, slots, chunks) in [
        (Node::leaf(2), 1, 4),
        (Node::leaf(3), 1, 2),
        (Node::two_levels(&[1, 1]), 1, 1),
        (Switch(vec![Host, Node::leaf(2)]), 1, 1),
        (Switch(vec![Host, Node::leaf(1)]), 1, 2),
    ] {
        let mut exchange = Exchange::new(shape.clone(), Format::Bfp16, slots, chunks);
        let before = tally.orders;
        assert!(loss::orders(&mut exchange, &mut tally, 50_000), "{shape:?} has more orders");
        println!("{shape:?}: {} orders", tally.orders - before);
    }
    assert_right(&tally);
}

/// Random schedules with loss, duplicates and packets that are overtaken, on small trees of one to three levels.
#[test]
fn random_schedules_with_loss_end_exact() {
    let mut fabrics = Schedules::new();
    let mut tally = Tally::default();
    let count = schedules(10_000);
    (0..count).for_each(|seed| fabrics.run(seed, &mut tally));
    assert_right(&tally);
    assert!(tally.packets_dropped > count, "only {} packets were lost", tally.packets_dropped);
}

/// A failing seed can be run alone: what was before makes no difference.
#[test]
fn a_schedule_is_a_function_of_its_seed() {
    let (mut used, mut tally) = (Schedules::new(), Tally::default());
    for seed in 0..40 {
        used.run(seed, &mut tally);
        let mut alone = Tally::default();
        let before = tally.clone();
        used.run(1000 + seed, &mut tally);
        Schedules::new().run(1000 + seed, &mut alone);
        assert_eq!(tally.packets - before.packets, alone.packets, "seed {seed}");
        assert_eq!(tally.packets_dropped - before.packets_dropped, alone.packets_dropped, "seed {seed}");
    }
}

/// As many random schedules as `INCA_SCHEDULES` says, for long runs.
fn schedules(usual: u64) -> u64 {
    std::env::var("INCA_SCHEDULES").ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// A generation ends in the middle of everything: operations that ran out of time, packets still on their way, slots half full. The
/// next one, with other numbers, on the same slots, is exact from its first chunk on.
#[test]
fn a_generation_may_end_at_any_moment() {
    let faults = LinkFaults { loss: 50, duplicate: 100, reorder: 300, late: Duration::from_millis(2) };
    let mut fabrics = [Node::two_levels(&[2, 2]), Node::Switch(vec![Node::Host, Node::leaf(3)])]
        .map(|shape| fabric(&shape, Format::I32, 2));
    let mut cut_short = 0;
    for seed in 0..schedules(600) {
        let mut rng = Rng::new(seed);
        let fabric = &mut fabrics[rng.below(2)];
        fabric.renew(Faults::random(seed, faults), seed);
        let deadline = Duration::from_micros(rng.below(3000) as u64);
        let short = Call { deadline: Some(deadline), ..call(fabric, Format::I32, seed, 8) };
        let outcomes = fabric.run(&[short]).unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}"));
        cut_short += u64::from(outcomes.iter().any(|results| results[0].is_err()));
        fabric.renew(Faults::random(!seed, faults), seed);
        let calls = [call(fabric, Format::I32, !seed, 5)];
        inputs::run_and_check(&format!("seed {seed}"), fabric, &calls)
            .unwrap_or_else(|stuck| panic!("{seed}: {stuck}"));
    }
    assert!(cut_short > schedules(600) / 3, "only {cut_short} generations ended in the middle");
}

/// A sum of 32 KiB over three levels: every chunk needs 34 packets, so at 5 % most chunks lose one and at 10 % nearly all. What other
/// ranks repeat must not pass for a long round trip.
#[test]
fn loss_in_a_deep_tree_heals_quickly() {
    let shape = Switch(vec![Node::two_levels(&[3, 1]), Node::two_levels(&[2, 2])]);
    let mut fabric = fabric(&shape, Format::Bfp16, 64);
    for (loss, bound) in [(0, 1), (10, 100), (50, 500), (100, 3000)] {
        let faults = LinkFaults { loss, ..LinkFaults::default() };
        let (mut times, mut packets) = (Vec::new(), Vec::new());
        for seed in 0..9 {
            fabric.renew_quietly(Faults::random(seed, faults), seed);
            let begin = fabric.elapsed();
            let calls = [call(&fabric, Format::Bfp16, seed, 128)];
            inputs::run_and_check("deep", &mut fabric, &calls).unwrap_or_else(|stuck| panic!("{stuck}"));
            times.push(fabric.elapsed() - begin);
            packets.push(fabric.sent().sent().values().sum::<u64>());
        }
        times.sort();
        packets.sort();
        println!(
            "{loss} of 1000 lost: median {:?}, longest {:?}, {} packets",
            times[4], times[8], packets[4]
        );
        assert!(times[4] < Duration::from_millis(bound), "{loss} of 1000 lost: {times:?}");
        assert!(packets[8] < 3 * 34 * 128, "{loss} of 1000 lost: {packets:?}");
    }
}

/// A subtree is cut off for a while: all other ranks time out, again and again. Each repeats a slot once for every timeout, and a switch
/// sends a sum up again at most once for every rank that repeats; timeouts double, so a far longer outage costs little more.
#[test]
fn a_slow_subtree_causes_no_storm() {
    let (slots, below) = (16, 8);
    let shape = Node::two_levels(&[below, below, 1]);
    let mut fabric = fabric(&shape, Format::I32, slots as u32);
    let calls = [call(&fabric, Format::I32, 5, 2 * slots)];
    fabric.run(&calls).unwrap_or_else(|stuck| panic!("{stuck}"));
    let usual = fabric.sent().sent().clone();
    let (slow, hosts) = (fabric.links() - 1, fabric.world());
    let mut totals = Vec::new();
    for (outage, timeouts) in [(Duration::from_millis(300), 5), (Duration::from_secs(3), 11)] {
        let when = Duration::from_micros(100)..outage;
        let faults =
            Faults::none().cut_for(slow, Direction::Up, when.clone()).cut_for(slow, Direction::Down, when);
        fabric.renew_quietly(faults, 1);
        let begin = fabric.elapsed();
        inputs::run_and_check("slow", &mut fabric, &calls).unwrap_or_else(|stuck| panic!("{stuck}"));
        let took = fabric.elapsed() - begin;
        assert!(took < outage + Duration::from_millis(700), "took {took:?}");
        let (mut total, mut most) = (0, 0);
        for (&(link, direction), sent) in fabric.sent().sent() {
            let extra = sent - usual[&(link, direction)];
            (total, most) = (total + extra, most.max(extra));
            // A repeat and a probe of each slot; two planes for each rank below.
            let each = if link < hosts { 2 } else { 2 * below };
            let bound = (slots * timeouts * each) as u64;
            assert!(extra <= bound, "{extra} packets more {direction:?} link {link} in {took:?}");
        }
        println!("{outage:?}: took {took:?}, {total} packets more, at most {most} on a link");
        totals.push(total);
    }
    assert!(totals[1] < 3 * totals[0], "ten times the outage, {totals:?} packets");
}

/// Far worse than any network, on a larger tree.
#[test]
fn heavy_loss_heals() {
    let faults = LinkFaults { loss: 300, duplicate: 100, reorder: 500, late: Duration::from_millis(20) };
    let mut fabric = fabric(&Node::two_levels(&[5, 1, 2]), Format::Bfp16, 4);
    for seed in 0..5 {
        fabric.renew(Faults::random(seed, faults), seed);
        let calls = [call(&fabric, Format::Bfp16, seed, 9)];
        inputs::run_and_check(&format!("seed {seed}"), &mut fabric, &calls)
            .unwrap_or_else(|stuck| panic!("{stuck}"));
    }
}

/// A link that is cut for good: every rank that waits for it gets an error at its deadline, and the next generation works.
#[test]
fn a_cut_link_ends_in_errors_and_the_next_generation_is_right() {
    let shape = Node::two_levels(&[2, 1]);
    for (link, direction) in
        [(0, Direction::Up), (1, Direction::Down), (3, Direction::Up), (4, Direction::Down)]
    {
        let mut fabric = fabric(&shape, Format::I32, 2);
        let deadline = Some(Duration::from_secs(2));
        let calls = [Call { deadline, ..call(&fabric, Format::I32, 8, 5) }];
        fabric.renew(Faults::none().cut(link, direction), 0);
        let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("{stuck}"));
        let failed = outcomes.iter().filter(|results| results[0].is_err()).count();
        assert!(failed > 0, "link {link} {direction:?} was cut and nobody noticed");
        fabric.renew(Faults::none(), 1);
        inputs::run_and_check("after the cut", &mut fabric, &calls).unwrap_or_else(|stuck| panic!("{stuck}"));
    }
}
