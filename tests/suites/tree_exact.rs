//! Trees of every shape give every rank the exact sum: i32 element by element, f32 bit for bit as the reference.

use std::time::Duration;

use inca_host_agent::protocol::ReduceOp;
use inca_tests::fabric::{Call, Fabric, Faults, Job, LinkFaults, Node};
use inca_tests::inputs;
use inca_tests::rig::FORMATS;
use inca_tests::sharing::Sharing;
use inca_wire::packet::Format;

const WORDS: u8 = 2;

fn job(format: Format) -> Job {
    Job { chunk_words: WORDS, ..Job::new(format) }
}

/// Workers spread evenly and unevenly, one to three levels, hosts and switches below one switch.
fn shapes() -> Vec<(&'static str, Node)> {
    use Node::{Host, Switch};
    vec![
        ("1", Node::leaf(1)),
        ("2", Node::leaf(2)),
        ("16", Node::leaf(16)),
        ("1+1", Node::two_levels(&[1, 1])),
        ("3+1", Node::two_levels(&[3, 1])),
        ("2+0", Node::two_levels(&[2])),
        ("5+1+2", Node::two_levels(&[5, 1, 2])),
        ("4+4+4+4", Node::two_levels(&[4; 4])),
        ("line", Switch(vec![Host, Switch(vec![Host, Switch(vec![Host, Host])])])),
        (
            "3 levels",
            Switch(vec![Node::two_levels(&[2, 1]), Node::two_levels(&[1, 3]), Switch(vec![Node::leaf(2)])]),
        ),
        ("mixed", Switch(vec![Node::leaf(3), Host, Switch(vec![Host, Node::leaf(2), Host]), Host])),
    ]
}

/// Element counts around the borders of a chunk of `chunk` elements, and of several chunks.
fn counts(chunk: usize) -> [usize; 7] {
    [1, chunk - 1, chunk, chunk + 1, 2 * chunk - 1, 9 * chunk + 7, 0]
}

#[test]
fn i32_sums_are_exact_in_every_shape() {
    for (name, shape) in shapes() {
        let mut fabric = Fabric::new(&shape, job(Format::I32));
        let calls: Vec<Call> = counts(64 * usize::from(WORDS))
            .iter()
            .enumerate()
            .map(|(seed, &count)| Call::sum(inputs::i32s(seed as u64, fabric.world(), count)))
            .collect();
        check(name, &mut fabric, &calls);
    }
}

#[test]
fn f32_sums_are_the_references_bits_in_every_shape() {
    for (name, shape) in shapes() {
        let mut fabric = Fabric::new(&shape, job(Format::Bfp16));
        let calls: Vec<Call> = counts(128 * usize::from(WORDS))
            .iter()
            .enumerate()
            .map(|(seed, &count)| Call::sum(inputs::f32s(seed as u64, fabric.world(), count, 3)))
            .collect();
        check(name, &mut fabric, &calls);
    }
}

#[test]
fn averages_divide_the_exact_sum() {
    for (format, tensors) in
        [(Format::I32, inputs::i32s(5, 3, 300)), (Format::Bfp16, inputs::f32s(5, 3, 300, 2))]
    {
        let mut fabric = Fabric::new(&Node::two_levels(&[2, 1]), job(format));
        check("2+1", &mut fabric, &[Call { op: ReduceOp::Average, tensors, deadline: None }]);
    }
}

/// The same bits for any order in which packets arrive.
#[test]
fn any_arrival_order_gives_the_same_bits() {
    let shape = Node::two_levels(&[5, 1, 2]);
    let mut fabric = Fabric::new(&shape, job(Format::Bfp16));
    let calls = [Call::sum(inputs::f32s(77, fabric.world(), 3 * 256 + 5, 12))];
    let shuffled = LinkFaults { reorder: 700, late: Duration::from_micros(400), ..LinkFaults::default() };
    for seed in 0..50 {
        fabric.renew(Faults::random(seed, shuffled), seed);
        check("5+1+2", &mut fabric, &calls);
    }
}

/// Chunks striped over several trees of one fabric.
#[test]
fn stripes_share_switches() {
    for format in FORMATS {
        let job = Job { stripes: 3, slots: 2, ..job(format) };
        let mut fabric = Fabric::new(&Node::two_levels(&[2, 3]), job);
        let call = match format {
            Format::I32 => Call::sum(inputs::i32s(3, 5, 20 * 128 + 1)),
            _ => Call::sum(inputs::f32s(3, 5, 20 * 256 + 1, 4)),
        };
        check("2+3", &mut fabric, &[call]);
    }
}

/// Jumbo packets: 32 words.
#[test]
fn largest_chunks() {
    for (format, tensors) in
        [(Format::I32, inputs::i32s(8, 4, 5000)), (Format::Bfp16, inputs::f32s(8, 4, 9000, 5))]
    {
        let mut fabric = Fabric::new(&Node::two_levels(&[2, 2]), Job { chunk_words: 32, ..job(format) });
        check("2+2", &mut fabric, &[Call::sum(tensors)]);
    }
}

/// Runs the calls and compares every rank's every element.
fn check(name: &str, fabric: &mut Fabric, calls: &[Call]) {
    inputs::run_and_check(name, fabric, calls).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
}

/// What each of eight jobs gets of an even part, in virtual time, once their windows have found their size.
fn shares(queue: usize, time: Duration) -> Vec<f64> {
    let mut sharing = Sharing::new(8, 1000, 40_000_000, queue);
    sharing.run(Duration::from_millis(500));
    let begun = sharing.done.clone();
    sharing.run(time);
    let done: Vec<u64> = sharing.done.iter().zip(&begun).map(|(now, then)| now - then).collect();
    let even = done.iter().sum::<u64>() as f64 / done.len() as f64;
    assert!(even > 20.0, "{done:?}");
    assert_eq!(sharing.lost > 0, queue < 256, "8 jobs have 16 chunks of two packets in flight");
    done.iter().map(|done| *done as f64 / even).collect()
}

#[test]
fn eight_jobs_at_once_share_a_link_within_a_fifth_of_even_where_its_queue_holds_their_windows() {
    let shares = shares(512, Duration::from_secs(1));
    assert!(shares.iter().all(|share| (0.8..=1.2).contains(share)), "{shares:?}");
}

#[test]
fn none_of_eight_jobs_starves_where_the_queue_overflows() {
    // The smallest windows of all of them are twice a queue of 64.
    let shares = shares(64, Duration::from_secs(4));
    assert!(shares.iter().all(|share| *share >= 0.4), "{shares:?}");
}
