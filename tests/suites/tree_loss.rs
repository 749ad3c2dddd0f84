//! Losing, doubling and delaying packets delays results and changes nothing else.

use std::time::Duration;

use inca_tests::fabric::{Call, Direction, Fabric, Faults, Job, LinkFaults, Node};
use inca_tests::inputs::{self, check};
use inca_tests::rng::Rng;
use inca_wire::packet::Format;

fn fabric(shape: &Node, format: Format, slots: u32) -> Fabric {
    Fabric::new(shape, Job { slots, ..Job::new(format) })
}

fn call(fabric: &Fabric, format: Format, seed: u64, chunks: usize) -> Call {
    Call::sum(match format {
        Format::I32 => inputs::i32s(seed, fabric.world(), 64 * chunks - 3),
        Format::Bfp16 => inputs::f32s(seed, fabric.world(), 128 * chunks - 3, 9),
    })
}

/// Every packet of an exchange on a tree of two levels is lost once, each in a run of its own, on every link and in both directions.
/// Slots are used several times, so that losses meet slots that others have gone on with.
#[test]
fn every_single_loss_heals() {
    for (shape, format) in [
        (Node::two_levels(&[2, 1]), Format::I32),
        (Node::two_levels(&[1, 2]), Format::Bfp16),
        (Node::Switch(vec![Node::Host, Node::leaf(2)]), Format::I32),
        (Node::Switch(vec![Node::two_levels(&[1, 1]), Node::leaf(1)]), Format::Bfp16),
    ] {
        let mut fabric = fabric(&shape, format, 2);
        let call = call(&fabric, format, 3, 6);
        let expected = [inputs::expected(&call, 1)];
        let calls = [call];
        let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("{shape:?} without loss: {stuck}"));
        check("without loss", &outcomes, &expected);
        let sent = fabric.sent().sent().clone();
        assert_eq!(sent.len(), 2 * fabric.links(), "every link carries packets both ways");
        for ((link, direction), packets) in sent {
            for number in 0..packets {
                let name = format!("{shape:?}, packet {number} {direction:?} link {link} lost");
                fabric.renew(Faults::none().drop_packet(link, direction, number), number);
                let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
                check(&name, &outcomes, &expected);
                assert_eq!(fabric.sent().lost(), 1, "{name}");
            }
        }
    }
}

/// Every pair of losses on the up-link of a leaf and anywhere below it: resends meet losses.
#[test]
fn pairs_of_losses_heal() {
    let shape = Node::two_levels(&[2, 1]);
    let mut fabric = fabric(&shape, Format::I32, 1);
    let call = call(&fabric, Format::I32, 4, 2);
    let expected = [inputs::expected(&call, 1)];
    let calls = [call];
    fabric.run(&calls).unwrap_or_else(|stuck| panic!("{stuck}"));
    let sent: Vec<_> = fabric.sent().sent().clone().into_iter().collect();
    let packets: Vec<_> = sent
        .iter()
        .flat_map(|&((link, direction), count)| (0..count + 2).map(move |k| (link, direction, k)))
        .collect();
    for (index, &(a, to_a, k)) in packets.iter().enumerate() {
        for &(b, to_b, l) in &packets[index + 1..] {
            let name = format!("packets {k} {to_a:?} link {a} and {l} {to_b:?} link {b} lost");
            fabric.renew(Faults::none().drop_packet(a, to_a, k).drop_packet(b, to_b, l), 1);
            let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
            check(&name, &outcomes, &expected);
        }
    }
}

/// Random schedules with 5 % loss, duplicates and packets that are overtaken, on small trees of one to three levels.
#[test]
fn random_schedules_with_loss_end_exact() {
    let schedules = schedules(6000);
    let faults = LinkFaults { loss: 50, duplicate: 50, reorder: 200, late: Duration::from_millis(3) };
    let shapes = [
        Node::leaf(3),
        Node::two_levels(&[2, 1]),
        Node::two_levels(&[1, 1, 2]),
        Node::Switch(vec![Node::Host, Node::two_levels(&[1, 2])]),
    ];
    let mut fabrics: Vec<_> = shapes
        .iter()
        .flat_map(|shape| Format::ALL.map(|format| (fabric(shape, format, 3), format, shape)))
        .collect();
    let mut lost = 0;
    for seed in 0..schedules {
        let mut rng = Rng::new(seed);
        let index = rng.below(fabrics.len());
        let (fabric, format, shape) = &mut fabrics[index];
        fabric.renew(Faults::random(seed, faults), seed);
        let calls = [call(fabric, *format, seed, 1 + rng.below(8)), call(fabric, *format, !seed, 1)];
        let name = format!("{shape:?}, {format}, seed {seed}");
        inputs::run_and_check(&name, fabric, &calls).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
        lost += fabric.sent().lost();
    }
    assert!(lost > schedules, "only {lost} packets were lost");
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
