//! Sizes, worlds and trees without loss.

use super::network::{Network, Plan};
use super::*;
use inca_wire::packet::Format;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn without_loss_every_chunk_is_sent_once() {
    for world in [2, 3, 4, 7, 16] {
        // One word per chunk: C = 128 elements of f32.
        for len in [1, 127, 128, 129, 255, 256, 257, 1000] {
            let mut rng = Rng::new(world as u64 * 1000 + len as u64);
            let plan = vec![(); world];
            let plan: super::Plan =
                plan.iter().map(|()| vec![Tensor::F32(vec![rng.below(1000) as f32 + 1.0; len])]).collect();
            let mut network = Network::new(Plan::star(world, Format::Bfp16));
            start_all(&mut network, &plan);
            run_exact(&mut network, &plan, SECOND, &format!("world {world}, {len} elements"));
            for stats in network.stats() {
                assert_eq!(stats.transmissions, len.div_ceil(128) as u64);
                assert_eq!((stats.retransmissions, stats.stale, stats.garbage, stats.foreign), (0, 0, 0, 0));
            }
        }
    }
}

#[test]
fn trees_of_up_to_three_levels_give_the_same_bits() {
    let shapes: [(&[Option<usize>], &[usize]); 5] = [
        (&[None], &[0, 0, 0, 0]),
        (&[None, Some(0), Some(0)], &[1, 1, 2, 2]),
        (&[None, Some(0), Some(0)], &[1, 2, 2, 2]),
        (&[None, Some(0), Some(1)], &[0, 1, 2, 2]),
        (&[None, Some(0), Some(1), Some(1), Some(0)], &[2, 2, 3, 4]),
    ];
    let mut rng = Rng::new(3);
    let tensors: super::Plan =
        (0..4).map(|_| (0..3).map(|_| wild_f32(&mut rng, 700, true)).collect()).collect();
    for (parents, hosts) in shapes {
        for stripes in [1, 3] {
            let mut plan = Plan::star(4, Format::Bfp16);
            (plan.parents, plan.hosts, plan.stripes) = (parents.to_vec(), hosts.to_vec(), stripes);
            let mut network = Network::new(plan);
            start_all(&mut network, &tensors);
            run_exact(&mut network, &tensors, SECOND, &format!("{parents:?} {hosts:?} {stripes} stripes"));
        }
    }
}

#[test]
fn empty_tensors_complete_at_once_without_packets() {
    let mut network = Network::new(Plan::star(2, Format::I32));
    network.start(0, sum(), Tensor::I32(Vec::new()));
    assert_eq!(network.completed[0].len(), 1);
    assert_eq!(network.packets(), 0);

    // Between others they take a number, but no chunk.
    let mut rng = Rng::new(9);
    let mut network = Network::new(Plan::star(2, Format::I32));
    let plan: super::Plan =
        (0..2).map(|_| [5, 0, 7, 0, 0, 64].map(|len| mild_i32(&mut rng, len)).to_vec()).collect();
    start_all(&mut network, &plan);
    run_exact(&mut network, &plan, SECOND, "empty among others");
    assert_eq!(network.stats()[0].transmissions, 3);
}

#[test]
fn a_world_of_one_needs_no_switch_and_has_the_reference_bits() {
    let mut rng = Rng::new(4);
    for round in 0..20 {
        let mut network = Network::new(Plan { stripes: 0, ..Plan::star(1, Format::Bfp16) });
        let plan = vec![vec![wild_f32(&mut rng, 300 + round, true), wild_f32(&mut rng, 128, false)]];
        start_all(&mut network, &plan);
        run_exact(&mut network, &plan, SECOND, "alone");
        assert_eq!(network.packets(), 0);
    }
    let mut network = Network::new(Plan { stripes: 0, ..Plan::star(1, Format::I32) });
    let plan = vec![vec![Tensor::I32(vec![i32::MIN, -1, 0, 1, i32::MAX])]];
    start_all(&mut network, &plan);
    run_exact(&mut network, &plan, SECOND, "alone");
}

#[test]
fn many_small_operations_share_the_window() {
    // 161 one-chunk operations over 8 slots: in flight together, so far fewer round trips than operations.
    let mut rng = Rng::new(5);
    let mut plan = Plan::star(3, Format::I32);
    plan.window.start = 8;
    let mut network = Network::new(plan);
    let tensors: super::Plan = (0..3).map(|_| (0..161).map(|_| mild_i32(&mut rng, 20)).collect()).collect();
    start_all(&mut network, &tensors);
    let began = network.now();
    run_exact(&mut network, &tensors, SECOND, "161 operations");
    let round_trips = (network.now() - began).as_micros() / 40;
    assert!(round_trips <= 161 / 8 + 2, "{round_trips} round trips");
    assert_eq!(network.stats()[0].transmissions, 161);
}

#[test]
fn the_window_never_exceeds_its_limits() {
    let mut rng = Rng::new(6);
    let mut plan = Plan::star(2, Format::I32);
    (plan.slots, plan.window.start, plan.window.max) = (64, 4, 10);
    let mut network = Network::new(plan);
    network.start(0, sum(), mild_i32(&mut rng, 64 * 100));
    assert_eq!(network.packets(), 4, "the start window");
    network.start(1, sum(), mild_i32(&mut rng, 64 * 100));
    network.run(SECOND, |network| network.completed.iter().all(|done| done.len() == 1));
    assert_eq!(network.stats()[0].window, 10, "grown to the bound");
}
