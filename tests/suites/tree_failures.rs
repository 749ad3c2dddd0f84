//! Ranks that are missing, late or cut off: an error in bounded time that names who is missing, never a wrong sum, never a hang.

use std::time::Duration;

use inca_host_agent::protocol::{OperationError, Tensor};
use inca_tests::fabric::{Call, Direction, Fabric, Faults, Job, Node, Outcomes};
use inca_tests::inputs;
use inca_wire::packet::Format;

/// Ranks 0, 1, 2 at one leaf, 3 and 4 at another.
fn fabric() -> Fabric {
    Fabric::new(&Node::two_levels(&[3, 2]), Job::new(Format::I32))
}

fn calls(fabric: &Fabric) -> [Call; 1] {
    [Call { deadline: Some(Duration::from_secs(2)), ..Call::sum(inputs::i32s(3, fabric.world(), 2000)) }]
}

fn run(fabric: &mut Fabric, calls: &[Call]) -> Outcomes {
    fabric.run(calls).unwrap_or_else(|stuck| panic!("{stuck}"))
}

fn text(result: &Result<Tensor, OperationError>) -> String {
    match result {
        Err(error @ OperationError::DeadlineExceeded { .. }) => error.to_string(),
        other => panic!("expected a deadline, got {other:?}"),
    }
}

/// A rank whose packets never arrive: all ranks fail at the deadline; those at its leaf name it, those at the other leaf name the
/// ranks behind the root.
#[test]
fn a_silent_rank_is_named() {
    let mut fabric = fabric();
    let calls = calls(&fabric);
    fabric.renew(Faults::none().cut(1, Direction::Up), 0);
    let outcomes = run(&mut fabric, &calls);
    for rank in [0, 2] {
        let text = text(&outcomes[rank][0]);
        assert!(text.contains("waits at the leaf switch for rank 1 "), "rank {rank}: {text}");
    }
    for rank in [3, 4] {
        let text = text(&outcomes[rank][0]);
        assert!(text.contains("some of ranks [0, 1, 2]"), "rank {rank}: {text}");
    }
    text_names_silence(&outcomes[1][0]);
}

/// The cut-off rank itself hears nothing at all.
fn text_names_silence(result: &Result<Tensor, OperationError>) {
    let text = text(result);
    assert!(text.contains("without any answer"), "{text}");
}

/// A rank that does not call while the others do.
#[test]
fn a_rank_that_never_calls_is_named() {
    let mut fabric = fabric();
    let call = calls(&fabric);
    let each: Vec<Vec<Call>> =
        (0..5).map(|rank| if rank == 4 { Vec::new() } else { call.to_vec() }).collect();
    let outcomes = fabric.run_each(&each).unwrap_or_else(|stuck| panic!("{stuck}"));
    assert!(text(&outcomes[3][0]).contains("for rank 4 "), "{}", text(&outcomes[3][0]));
    assert!(text(&outcomes[0][0]).contains("some of ranks [3, 4]"), "{}", text(&outcomes[0][0]));
    assert!(outcomes[4].is_empty());
}

/// After a deadline the endpoints stay closed; a new generation on the same slots is right.
#[test]
fn after_a_deadline_a_new_generation_is_right() {
    let mut fabric = fabric();
    let calls = calls(&fabric);
    for link in 0..fabric.links() {
        for direction in [Direction::Up, Direction::Down] {
            fabric.renew(Faults::none().cut(link, direction), 0);
            let outcomes = run(&mut fabric, &calls);
            assert!(outcomes.iter().any(|results| results[0].is_err()), "link {link} {direction:?} is cut");
            for (rank, results) in outcomes.iter().enumerate() {
                if let Ok(tensor) = &results[0] {
                    assert_eq!(
                        tensor,
                        &inputs::expected(&calls[0], 1),
                        "rank {rank}, link {link} {direction:?} is cut"
                    );
                }
            }
            fabric.renew(Faults::none(), 0);
            inputs::run_and_check("after it", &mut fabric, &calls).unwrap_or_else(|stuck| panic!("{stuck}"));
        }
    }
}
