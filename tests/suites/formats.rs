//! Every number format on both switches: random blocks against the reference model, in every role a switch has, and the same bits in
//! every order.

use std::time::Duration;

use inca_host_agent::protocol::Tensor;
use inca_tests::bmv2::{with_bmv2, with_bmv2s};
use inca_tests::conformance::{Vector, folder, triples};
use inca_tests::fabric::{Call, Fabric, Faults, Job, LinkFaults, Node, switches_of};
use inca_tests::inputs::{check, expected_in};
use inca_tests::oracle::{Oracle, understood};
use inca_tests::rig::trees_of;
use inca_tests::target::{Embedded, Target, all_entries};
use inca_tests::traffic::{Mix, Traffic};
use inca_wire::packet::{Format, Opcode};

/// Only what correct members send.
const HONEST: Mix = Mix { ordinary: 0, spoiled: 0, garbage: 0 };

/// Feeds packets of trees of this format until so many blocks with words, of hosts and of switches, were taken in; everything that is sent
/// must be what the model sends.
fn random_blocks(target: &mut impl Target, format: Format, wanted: usize) {
    let trees = trees_of(&[format]);
    target.install(&all_entries(&trees));
    let mut oracle = Oracle::new(&trees);
    let (mut blocks, mut results) = (0, 0);
    let seed = 0x1ca0 + u64::from(u8::from(format));
    for (index, step) in Traffic::new(seed, &trees, HONEST).enumerate() {
        // The rig's trees resend always or never: no clock counts.
        let verdict = oracle.step(index as u64, step.port, &step.frame);
        let sent = understood(&target.step(step.port, &step.frame));
        assert!(
            sent == verdict.sent,
            "{format}, frame {index} ({}) at port {}: the switch sends\n{sent:02x?}\nthe model\n{:02x?}",
            step.kind,
            step.port,
            verdict.sent
        );
        const CONTRIBUTION: u32 = 31;
        const COMPLETED: u32 = 48;
        blocks += usize::from([CONTRIBUTION, COMPLETED].contains(&verdict.event));
        results += verdict
            .sent
            .iter()
            .filter(|(_, _, header, _)| header.opcode == Opcode::Result && header.words > 0)
            .count();
        if blocks >= wanted {
            break;
        }
    }
    println!("{format}: {blocks} blocks, {results} results with words");
    assert!(results > blocks / 20, "{format}: only {results} results");
}

/// Blocks per format: as many as the environment variable `INCA_BLOCKS` says, for long runs.
fn blocks(usual: usize) -> usize {
    std::env::var("INCA_BLOCKS").ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_blocks_of_every_format() {
    for format in Format::ALL {
        random_blocks(&mut Embedded::new(), format, blocks(2000));
    }
}

#[test]
fn random_blocks_of_every_format_on_bmv2() {
    for format in Format::ALL {
        if with_bmv2(|bmv2| random_blocks(bmv2, format, 2000)).is_none() {
            return;
        }
    }
}

/// Four ranks with 1e8, 1, -1e8, 1 at one, two and three levels.
fn shapes() -> [(&'static str, Node); 3] {
    use Node::{Host, Switch};
    [
        ("one level", Node::leaf(4)),
        ("two levels", Node::two_levels(&[2, 2])),
        ("three levels", Switch(vec![Host, Switch(vec![Host, Switch(vec![Host, Host])])])),
    ]
}

/// The values in a format's type, and what they must sum to where the format holds it.
fn values(format: Format) -> Option<[Tensor; 4]> {
    let values = [1e8, 1.0, -1e8, 1.0];
    match format {
        Format::I32 => Some(values.map(|value| Tensor::I32(vec![value as i32; 3]))),
        Format::I64 => Some(values.map(|value| Tensor::I64(vec![value as i64; 3]))),
        Format::Bfp8 | Format::Bfp16 | Format::Bfp32 | Format::Exact => {
            Some(values.map(|value| Tensor::F32(vec![value as f32; 3])))
        }
        _ => None,
    }
}

/// Every permutation of 0 to 3.
fn orders() -> Vec<Vec<usize>> {
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                orders.push(vec![a, b, c, 6 - a - b - c]);
            }
        }
    }
    orders
}

/// All 24 orders of arrival, each with the values placed in another order too, at no and 5 % loss.
fn every_order<T: Target>(name: &str, fabric: &mut Fabric<T>) {
    for format in Format::ALL {
        let Some(values) = values(format) else { continue };
        let job = Job { resend_interval_us: 0, ..Job::new(format) };
        let expected = [expected_in(&Call::sum(values.to_vec()), format, 1)];
        if matches!(format, Format::I32 | Format::I64 | Format::Bfp32 | Format::Exact) {
            assert!((0..3).all(|index| expected[0].view().text(index) == "2"), "{format}: {expected:?}");
        }
        let orders = orders();
        assert_eq!(orders.len(), 24);
        for (number, order) in orders.iter().enumerate() {
            let placed = &orders[number * 7 % 24];
            let call = Call::sum(placed.iter().map(|&at| values[at].clone()).collect());
            for loss in [0, 50] {
                let faults = LinkFaults { loss, late: Duration::from_millis(1), ..LinkFaults::default() };
                fabric.renew_job(job.clone(), Faults::random(number as u64, faults), number as u64);
                let calls = vec![vec![call.clone()]; 4];
                let outcomes = fabric.run_started_in_order(&calls, order);
                let place = format!("{name}, {format}, order {order:?}, values {placed:?}, loss {loss}/1000");
                check(&place, &outcomes.unwrap_or_else(|stuck| panic!("{place}: {stuck}")), &expected);
            }
        }
    }
}

#[test]
fn every_order_gives_the_same_bits() {
    for (name, shape) in shapes() {
        every_order(name, &mut Fabric::new(&shape, Job::new(Format::I32)));
    }
}

#[test]
fn every_order_gives_the_same_bits_on_bmv2() {
    for (name, shape) in shapes() {
        let ran = with_bmv2s(switches_of(&shape) as u16, |switches| {
            let job = Job { resend_interval_us: 0, ..Job::new(Format::I32) };
            every_order(name, &mut Fabric::with_switches(&shape, job, switches));
        });
        if ran.is_none() {
            return;
        }
    }
}

/// The committed vectors are what the model writes today, and the host agent and the embedded switch hold to them.
#[test]
fn conformance_vectors_hold() {
    let mut embedded = Embedded::new();
    for (index, (dtype, format, op)) in triples().into_iter().enumerate() {
        let vector = Vector::generate(dtype, format, op);
        let committed = Vector::read(&folder().join(vector.file())).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            committed == vector,
            "{} is not what the model writes: cargo run -p inca-tests --bin conformance -- write",
            vector.file()
        );
        committed.check_agent().unwrap_or_else(|error| panic!("{error}"));
        let checked = committed.check_switch(&mut embedded, 1 + 8 * index as u32, index as u64);
        checked.unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn conformance_vectors_hold_on_bmv2() {
    with_bmv2(|bmv2| {
        for (index, (dtype, format, op)) in triples().into_iter().enumerate() {
            let vector = Vector::generate(dtype, format, op);
            let checked = vector.check_switch(bmv2, 1 + 8 * index as u32, index as u64);
            checked.unwrap_or_else(|error| panic!("{error}"));
        }
    });
}
