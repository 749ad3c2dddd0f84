//! A tree of real BMv2 switches between host state machines in virtual time, each BMv2 beside an embedded twin that must send the same.
//! Every packet is lost once, in a run of its own; after every packet the generation changes, or a rank dies.

use inca_tests::bmv2::with_bmv2s;
use inca_tests::fabric::{Call, Fabric, Faults, Job, LinkFaults, Node, switches_of};
use inca_tests::inputs::{self, check};
use inca_tests::loss::{self, Exchange, Tally};
use inca_tests::target::{Embedded, Twins};
use inca_wire::packet::Format;
use std::time::Duration;

/// Calls of `chunks` chunks on this shape, on BMv2: without loss, with every single loss, with random loss.
fn every_single_loss_heals(shape: &Node, format: Format, chunks: usize) {
    let count = switches_of(shape) as u16;
    with_bmv2s(count, |switches| {
        let twins = (1..).zip(switches).map(|(id, bmv2)| Twins(Embedded::with_device_id(id), bmv2)).collect();
        // BMv2's clock can't be set: no verdict may depend on it.
        let job = Job { slots: 2, resend_interval_us: 0, ..Job::new(format) };
        let mut fabric = Fabric::with_switches(shape, job, twins);
        let ranks = fabric.world();
        let calls = [Call::sum(match format {
            Format::I32 => inputs::i32s(1, ranks, 64 * chunks - 5),
            _ => inputs::f32s(1, ranks, 128 * chunks - 5, 9),
        })];
        let expected = [inputs::expected(&calls[0], 1)];
        let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("without loss: {stuck}"));
        check("without loss", &outcomes, &expected);
        for ((link, direction), packets) in fabric.sent().sent().clone() {
            for number in 0..packets {
                let name = format!("packet {number} {direction:?} link {link} lost");
                fabric.renew(Faults::none().drop_packet((link, direction, number)), number);
                let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
                check(&name, &outcomes, &expected);
            }
        }
        let faults = LinkFaults { loss: 50, duplicate: 50, reorder: 300, late: Duration::from_millis(5) };
        for seed in 0..20 {
            let name = format!("seed {seed}");
            fabric.renew(Faults::random(seed, faults), seed);
            let outcomes = fabric.run(&calls).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
            check(&name, &outcomes, &expected);
        }
    });
}

#[test]
fn one_switch() {
    every_single_loss_heals(&Node::leaf(3), Format::Bfp16, 6);
}

#[test]
fn two_levels_of_f32() {
    every_single_loss_heals(&Node::two_levels(&[2, 1]), Format::Bfp16, 4);
}

#[test]
fn hosts_and_a_switch_below_the_root() {
    every_single_loss_heals(&Node::Switch(vec![Node::Host, Node::leaf(2)]), Format::I32, 4);
}

/// After every packet: the same ranks go on, or one of them is dead; on the same switches, whose old entries are removed.
#[test]
fn generations_change_and_ranks_die() {
    let (shape, format) = (Node::two_levels(&[2, 1]), Format::I32);
    with_bmv2s(switches_of(&shape) as u16, |switches| {
        let twins = (1..).zip(switches).map(|(id, bmv2)| Twins(Embedded::with_device_id(id), bmv2)).collect();
        let job = Job { slots: 1, resend_interval_us: 0, ..Job::new(format) };
        let mut exchange = Exchange::on(Fabric::with_switches(&shape, job, twins), shape, format, 2);
        let mut tally = Tally::default();
        loss::changes(&mut exchange, &mut tally, &[]);
        loss::deaths(&mut exchange, &mut tally);
        println!("{tally:?}");
        assert!(tally.is_right(), "{:#?}", tally.failures);
        assert!(tally.copied >= 10, "only {} chunks were handed over", tally.copied);
    });
}
