//! Loss, duplication, reordering, late ranks: everything heals, with the right bits and a bounded number of packets.

use super::network::{Links, Network, PERFECT, Plan};
use super::*;
use crate::protocol::WindowLimits;
use inca_wire::packet::Format;

/// A plan drawn from a seed: 1 to 3 levels, 2 to 6 ranks, few slots, small or large windows, bad links.
fn drawn(rng: &mut Rng) -> Plan {
    let world = 2 + rng.below(5) as usize;
    let switches = 1 + rng.below(4) as usize;
    // A switch is at most two below the root.
    let mut parents: Vec<Option<usize>> = vec![None];
    for index in 1..switches {
        let parent = rng.below(index as u64) as usize;
        let parent = parents[parent]
            .map_or(parent, |grandparent| if parents[grandparent].is_some() { grandparent } else { parent });
        parents.push(Some(parent));
    }
    // Every switch that has no children needs a host, or the root would wait for it for ever.
    let mut hosts: Vec<usize> = (1..switches).filter(|index| !parents.contains(&Some(*index))).collect();
    while hosts.len() < world {
        hosts.push(rng.below(switches as u64) as usize);
    }
    let start = 1 + rng.below(8) as usize;
    Plan {
        parents,
        hosts,
        format: [Format::Bfp16, Format::I32][rng.below(2) as usize],
        chunk_words: 1 + rng.below(2) as u8,
        slots: 1 + rng.below(8) as u32,
        stripes: 1 + rng.below(3) as usize,
        window: WindowLimits { start, min: 1, max: start + rng.below(20) as usize },
        links: Links {
            latency_us: 5 + rng.below(100),
            jitter_us: [0, 10, 500][rng.below(3) as usize],
            loss: [0.0, 0.01, 0.1, 0.3][rng.below(4) as usize],
            duplication: [0.0, 0.02, 0.3][rng.below(3) as usize],
        },
        seed: rng.next(),
    }
}

fn tensors(rng: &mut Rng, plan: &Plan, nonfinite: bool) -> super::Plan {
    let lens: Vec<_> = (0..1 + rng.below(4)).map(|_| rng.below(1500) as usize).collect();
    let tensor = |rng: &mut Rng, len| match plan.format {
        Format::I32 => mild_i32(rng, len),
        _ => wild_f32(rng, len, nonfinite),
    };
    (0..plan.hosts.len()).map(|_| lens.iter().map(|len| tensor(rng, *len)).collect()).collect()
}

#[test]
fn random_networks_heal_with_the_reference_bits() {
    for seed in 0..1500 {
        let mut rng = Rng::new(seed);
        let plan = drawn(&mut rng);
        let nonfinite = rng.below(2) == 0;
        let tensors = tensors(&mut rng, &plan, nonfinite);
        let what = format!("seed {seed}: {plan:?}");
        let loss = plan.links.loss;
        let mut network = Network::new(plan);
        start_all(&mut network, &tensors);
        run_exact(&mut network, &tensors, Duration::from_secs(60), &what);
        for stats in network.stats() {
            // A pass needs its contribution and its result, through up to four lossy links each way, and each rank's loss makes all
            // others repeat: at 30 % loss some tens of repetitions per pass are plausible, thousands are not.
            let passes = stats.chunks + stats.extra_passes;
            let bound = if loss == 0.0 { 3 } else { 60 } * passes + 20;
            assert!(stats.transmissions <= bound, "{what}: {stats:?}");
            assert_eq!((stats.garbage, stats.foreign, stats.incomplete), (0, 0, 0), "{what}");
        }
    }
}

#[test]
fn any_single_loss_heals() {
    let shapes: [(&[Option<usize>], &[usize]); 3] = [
        (&[None], &[0, 0]),
        (&[None, Some(0), Some(0)], &[1, 1, 2]),
        (&[None, Some(0), Some(1)], &[0, 1, 2]),
    ];
    for (parents, hosts) in shapes {
        for format in [Format::I32, Format::Bfp16] {
            let mut plan = Plan::star(hosts.len(), format);
            (plan.parents, plan.hosts, plan.slots) = (parents.to_vec(), hosts.to_vec(), 2);
            let mut rng = Rng::new(11);
            let tensor = |rng: &mut Rng| match format {
                Format::I32 => mild_i32(rng, 300),
                _ => wild_f32(rng, 600, true),
            };
            let tensors: super::Plan =
                hosts.iter().map(|_| vec![tensor(&mut rng), tensor(&mut rng)]).collect();
            let mut network = Network::new(plan.clone());
            start_all(&mut network, &tensors);
            run_exact(&mut network, &tensors, Duration::from_secs(1), "no loss");
            let packets = network.packets();
            assert!(packets >= 40, "{packets} packets");
            for lost in 0..packets {
                let mut network = Network::new(plan.clone());
                network.lose = Some(lost);
                start_all(&mut network, &tensors);
                let what = format!("{parents:?} {hosts:?} {format}: packet {lost} of {packets} lost");
                run_exact(&mut network, &tensors, Duration::from_secs(1), &what);
                let retransmissions: u64 = network.stats().iter().map(|stats| stats.retransmissions).sum();
                assert!((1..=20).contains(&retransmissions), "{what}: {retransmissions} retransmissions");
            }
        }
    }
}

#[test]
fn a_rank_that_comes_late_costs_few_packets() {
    let mut rng = Rng::new(21);
    let mut network = Network::new(Plan::star(3, Format::I32));
    let tensors: super::Plan = (0..3).map(|_| vec![mild_i32(&mut rng, 64 * 50)]).collect();
    network.start(0, sum(), tensors[0][0].clone());
    network.start(1, sum(), tensors[1][0].clone());
    network.run(Duration::from_secs(2), |_| false);
    let waiting = network.stats()[0];
    // Four slots in flight, timeouts of 5, 10, ... 100 ms: about 25 transmissions each in 2 s.
    assert!((40..=110).contains(&waiting.transmissions), "{waiting:?}");
    assert_eq!(waiting.window_reductions, 0, "waiting is no congestion");
    network.start(2, sum(), tensors[2][0].clone());
    let began = network.now();
    run_exact(&mut network, &tensors, Duration::from_secs(1), "late rank");
    assert!(network.now() - began < Duration::from_millis(5), "{:?} after it came", network.now() - began);
}

#[test]
fn a_link_that_was_down_is_used_again_within_the_largest_timeout() {
    let mut rng = Rng::new(22);
    let mut network = Network::new(Plan::star(2, Format::I32));
    network.dark_us = (500, 2_000_000);
    let tensors: super::Plan = (0..2).map(|_| vec![mild_i32(&mut rng, 64 * 400)]).collect();
    let began = network.now();
    start_all(&mut network, &tensors);
    run_exact(&mut network, &tensors, Duration::from_secs(3), "down for two seconds");
    // 100 ms and the jitter after it came back at the latest, then at full speed.
    let healed = network.now() - began;
    assert!(healed > Duration::from_secs(2) && healed < Duration::from_millis(2130), "{healed:?}");
    let stats = network.stats()[0];
    assert!(stats.retransmissions < 300, "{stats:?}");
}

#[test]
fn a_loss_halves_the_window_and_results_grow_it_again() {
    let mut rng = Rng::new(23);
    let mut plan = Plan::star(2, Format::I32);
    (plan.slots, plan.window.start, plan.links) = (64, 64, Links { loss: 0.02, ..PERFECT });
    let mut network = Network::new(plan);
    let tensors: super::Plan = (0..2).map(|_| vec![mild_i32(&mut rng, 64 * 3000)]).collect();
    start_all(&mut network, &tensors);
    run_exact(&mut network, &tensors, Duration::from_secs(20), "2 % loss");
    let stats = network.stats()[0];
    assert!(stats.window_reductions >= 3, "{stats:?}");
    assert!((2..=64).contains(&stats.window), "{stats:?}");
}

#[test]
fn round_trips_longer_than_the_first_timeout_are_learnt() {
    let mut rng = Rng::new(24);
    let mut plan = Plan::star(2, Format::I32);
    plan.links.latency_us = 10_000;
    let mut network = Network::new(plan);
    let tensors: super::Plan = (0..2).map(|_| vec![mild_i32(&mut rng, 64 * 200)]).collect();
    start_all(&mut network, &tensors);
    run_exact(&mut network, &tensors, Duration::from_secs(5), "20 ms of latency");
    let stats = network.stats()[0];
    // Without a persistent back-off every one of the 200 chunks would be sent twice.
    assert!(stats.retransmissions < 40, "{stats:?}");
    assert_eq!(stats.smoothed_rtt.map(|rtt| rtt.as_millis()), Some(20), "{stats:?}");
}
