//! The compiled program against the reference model of the slot protocol: every packet sent and the event every frame is counted
//! under, for random traffic in both formats and every role.

use std::collections::BTreeMap;

use inca_tests::bmv2::with_bmv2;
use inca_tests::install::tree_entries;
use inca_tests::oracle::{Oracle, understood};
use inca_tests::recipe::seeds;
use inca_tests::rig::DEVICE_ID;
use inca_tests::rig::{Tree, standard_trees};
use inca_tests::rng::Rng;
use inca_tests::target::{Embedded, Target, all_entries};
use inca_tests::traffic::{Mix, Step, Traffic, specimens};

const MIX: Mix = Mix { ordinary: 0, spoiled: 12, garbage: 0 };
const STEPS: usize = 20_000;

/// Feeds both and compares; the events the model saw. Most trees of the rig resend always or never, so the clock does not count.
fn compare(
    target: &mut impl Target,
    oracle: &mut Oracle,
    steps: impl Iterator<Item = Step>,
) -> BTreeMap<u32, u64> {
    compare_at(target, oracle, steps.zip(1..))
}

/// The same with the switch's clock set for each frame.
fn compare_at(
    target: &mut impl Target,
    oracle: &mut Oracle,
    steps: impl Iterator<Item = (Step, u64)>,
) -> BTreeMap<u32, u64> {
    let mut events = BTreeMap::new();
    for (index, (step, now_us)) in steps.enumerate() {
        target.set_clock(now_us);
        let verdict = oracle.step(now_us, step.port, &step.frame);
        let sent = understood(&target.step(step.port, &step.frame));
        *events.entry(verdict.event).or_default() += 1;
        assert!(
            sent == verdict.sent,
            "frame {index} ({}) at port {}, model's event {}:\n{}",
            step.kind,
            step.port,
            verdict.event,
            difference(&verdict.sent, &sent)
        );
    }
    events
}

const RESEND_LIMITED: u32 = 12;
const RESEND: u32 = 50;
/// Every way a frame to a slot can end, and those of frames cut before it.
const EVERY_EVENT: [u32; 19] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 31, 48, 49, 50, 51, 52];

#[test]
fn embedded_switch_follows_the_model() {
    let trees = standard_trees();
    let mut embedded = Embedded::with_trees(&trees);
    let mut oracle = Oracle::new(&trees);
    let events = compare(&mut embedded, &mut oracle, Traffic::new(1, &trees, MIX).take(STEPS));
    assert_eq!(embedded.event_counts(), events);
    for event in EVERY_EVENT {
        assert!(events.contains_key(&event), "the traffic never led to event {event}: {events:?}");
    }
}

#[test]
fn bmv2_follows_the_model() {
    let trees = standard_trees();
    with_bmv2(|bmv2| {
        bmv2.install(&all_entries(&trees));
        let events = compare(bmv2, &mut Oracle::new(&trees), Traffic::new(1, &trees, MIX).take(STEPS));
        println!("{events:?}");
    });
}

/// Other seeds one after the other in new generations.
#[test]
fn more_seeds() {
    let mut embedded = Embedded::with_trees(&standard_trees());
    for seed in seeds(2) {
        let mut trees = standard_trees();
        trees.iter_mut().for_each(|tree| tree.generation += seed as u32);
        embedded.install(&tree_entries(DEVICE_ID, &trees));
        compare(&mut embedded, &mut Oracle::new(&trees), Traffic::new(!seed, &trees, MIX).take(5000));
    }
}

/// Resends follow the clock: at most one an interval and slot, also where the clock's 32 bits run over.
#[test]
fn resends_follow_the_clock() {
    let mut trees: Vec<Tree> = standard_trees().into_iter().filter(|tree| tree.parent.is_some()).collect();
    for tree in &mut trees {
        tree.resend_interval_us = 400;
        tree.slots = 1;
    }
    let mut clock = Rng::new(9);
    let mut now = (1 << 32) - 100_000;
    let ticks = std::iter::from_fn(|| {
        now += clock.below(100) as u64;
        Some(now)
    });
    let mut embedded = Embedded::with_trees(&trees);
    let steps = Traffic::new(12, &trees, Mix { spoiled: 0, ..MIX }).take(6000).zip(ticks);
    let events = compare_at(&mut embedded, &mut Oracle::new(&trees), steps);
    let (limited, resent) = (events[&RESEND_LIMITED], events[&RESEND]);
    assert!(limited > 50 && resent > 50, "{limited} resends were refused, {resent} made");
}

/// A new generation of every tree, in the middle of everything: what slots hold of the old one must not matter.
#[test]
fn generations_begin_anew() {
    let mut trees = standard_trees();
    let mut embedded = Embedded::with_trees(&trees);
    let mut oracle = Oracle::new(&trees);
    for round in 0..8 {
        compare(&mut embedded, &mut oracle, Traffic::new(100 + round, &trees, MIX).take(800));
        let old: Vec<Tree> = trees.clone();
        for tree in &mut trees {
            tree.generation += 1;
        }
        embedded.install(&tree_entries(DEVICE_ID, &trees));
        oracle.install(&trees);
        // Packets of the old generation that were still on their way.
        compare(&mut embedded, &mut oracle, Traffic::new(100 + round, &old, MIX).take(100));
    }
}

/// Cut at every length, in every role: nothing but drops, and no slot is touched.
#[test]
fn cut_frames_touch_no_slot() {
    let trees = standard_trees();
    let mut embedded = Embedded::with_trees(&trees);
    let mut oracle = Oracle::new(&trees);
    for tree in trees.iter().filter(|tree| tree.words <= 2) {
        for specimen in specimens(5, tree) {
            let cut = (0..specimen.frame.len()).map(|length| Step {
                kind: "cut",
                port: specimen.port,
                frame: specimen.frame[..length].to_vec(),
            });
            let events = compare(&mut embedded, &mut oracle, cut);
            assert!(events.keys().all(|event| [1, 15, 16, 18].contains(event)), "{events:?}");
        }
    }
    // All go on as if nothing had been.
    compare(&mut embedded, &mut oracle, Traffic::new(6, &trees, MIX).take(1000));
}

type Packets = [(u16, inca_wire::frame::UdpFrame, inca_wire::packet::Header, Vec<u8>)];

fn difference(model: &Packets, switch: &Packets) -> String {
    if model.len() != switch.len() {
        let heads = |packets: &Packets| {
            packets
                .iter()
                .map(|(port, _, header, _)| format!("port {port}: {header:?}"))
                .collect::<Vec<_>>()
                .join("\n  ")
        };
        return format!("model sends\n  {}\nswitch sends\n  {}", heads(model), heads(switch));
    }
    for (model, switch) in model.iter().zip(switch) {
        if model.0 != switch.0 || model.1 != switch.1 || model.2 != switch.2 {
            return format!(
                "model sends {}: {:?} {:?}\nswitch sends {}: {:?} {:?}",
                model.0, model.1, model.2, switch.0, switch.1, switch.2
            );
        }
        if let Some(at) = model.3.iter().zip(&switch.3).position(|(model, switch)| model != switch) {
            let window = |words: &[u8]| words[at / 8 * 8..at / 8 * 8 + 8].to_vec();
            return format!(
                "words of {:?} differ at byte {at}: model {:02x?}, switch {:02x?}",
                model.2,
                window(&model.3),
                window(&switch.3)
            );
        }
    }
    "no difference".to_owned()
}
