//! Jobs that get no tree, from the controller to the sums: a ring of the hosts where that was asked for, an error where it was not.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use inca_controller::control::Controller;
use inca_controller::inventory::Inventory;
use inca_host_agent::communicator::{Fallback, JobToken};
use inca_host_agent::ring::reference_f32;
use inca_host_agent::{
    CollectiveError, Communicator, Format, JoinError, JoinOptions, OperationError, ReduceOp,
};
use inca_p4runtime::northbound::{Job, StatusResponse};

const WORLD: u32 = 3;
const DEADLINE: Duration = Duration::from_secs(20);

/// A controller whose only switch does not answer: no host is attached to anything.
struct World {
    runtime: tokio::runtime::Runtime,
    controller: Option<Controller>,
    url: String,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let nobody = nobody.expect("a free port");
        let text = format!(
            "listen: ['127.0.0.1:0']\nswitches: [{{name: s1, target: '{nobody}', device_id: 1}}]\nfailure: {{patience_ms: 300}}\n"
        );
        let inventory = Inventory::from_text("test", &text).expect("a valid inventory");
        let controller = runtime.block_on(Controller::start(inventory)).expect("a controller");
        let url = format!("http://{}", controller.addresses()[0]);
        Self { runtime, controller: Some(controller), url }
    }

    fn options(&self, job: &str, rank: u32, format: Format, fallback: Fallback) -> JoinOptions {
        let mut options = JoinOptions::new(&self.url, job, rank, WORLD);
        options.host_address = Some(Ipv4Addr::LOCALHOST);
        options.format = format;
        options.fallback = fallback;
        options.timeout = DEADLINE;
        options
    }

    /// Runs every rank on a thread of its own.
    fn ranks<R: Send>(
        &self,
        job: &str,
        format: Format,
        fallback: impl Fn(u32) -> Fallback,
        work: impl Fn(Result<Communicator, JoinError>) -> R + Sync,
    ) -> Vec<R> {
        thread::scope(|scope| {
            let ranks: Vec<_> = (0..WORLD)
                .map(|rank| {
                    let options = self.options(job, rank, format, fallback(rank));
                    let work = &work;
                    scope.spawn(move || work(Communicator::join(options)))
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        })
    }

    fn status(&self) -> StatusResponse {
        let controller = self.controller.as_ref().expect("a controller");
        self.runtime.block_on(controller.status()).expect("a controller at work")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.take() {
            self.runtime.block_on(controller.stop());
        }
    }
}

fn input(rank: u32, len: usize) -> Vec<f32> {
    (0..len).map(|index| (index as f32 + 0.1) * [1.0, 1e6, -3e-5][rank as usize]).collect()
}

#[test]
fn hosts_without_a_tree_sum_in_a_ring_and_everyone_is_told() {
    let world = World::new();
    let len = 100_003;
    let results = world.ranks(
        "f32",
        Format::Bfp16,
        |_| Fallback::Ring,
        |group| {
            let group = group.expect("joined");
            let reason = group.fallback().expect("a ring").to_owned();
            assert!(reason.contains("no switch"), "{reason}");
            let job = world.status().jobs.into_iter().find(|job| job.name == "f32").expect("the job");
            assert_eq!((job.fallback, job.generation), (reason, group.generation()));
            assert!(job.state.starts_with("running") && job.state.contains("ring"), "{}", job.state);
            let mut sums = input(group.rank(), len);
            for _ in 0..3 {
                sums = input(group.rank(), len);
                group.allreduce_f32(&mut sums, ReduceOp::Sum, DEADLINE).expect("a sum");
            }
            let mut short = vec![group.rank() as f32];
            group.allreduce_f32(&mut short, ReduceOp::Average, DEADLINE).expect("an average");
            assert_eq!(short, [1.0]);
            group.leave().expect("left");
            sums
        },
    );
    let inputs: Vec<_> = (0..WORLD).map(|rank| input(rank, len)).collect();
    for (rank, sums) in results.iter().enumerate() {
        for (index, sum) in sums.iter().enumerate() {
            let values: Vec<f32> = inputs.iter().map(|input| input[index]).collect();
            let expected = reference_f32(&values, ReduceOp::Sum, len, index);
            assert_eq!(sum.to_bits(), expected.to_bits(), "rank {rank}, element {index}");
        }
    }
}

#[test]
fn integers_that_do_not_fit_fail_on_every_rank_and_the_next_sum_is_right() {
    let world = World::new();
    world.ranks(
        "i32",
        Format::I32,
        |_| Fallback::Ring,
        |group| {
            let group = group.expect("joined");
            let error =
                group.allreduce_i32(&mut [i32::MAX, 1], ReduceOp::Sum, DEADLINE).expect_err("too large");
            assert!(
                matches!(error, CollectiveError::Operation(OperationError::OverflowAmong { .. })),
                "{error}"
            );
            let mut right = vec![7; 5000];
            group.allreduce_i32(&mut right, ReduceOp::Sum, DEADLINE).expect("a sum");
            assert!(right.iter().all(|sum| *sum == 21));
        },
    );
}

#[test]
fn by_default_a_job_without_a_tree_is_an_error_with_the_reason() {
    let world = World::new();
    world.ranks(
        "strict",
        Format::I32,
        |_| Fallback::Error,
        |group| match group {
            Err(JoinError::Closed { closed, .. }) => assert!(closed.reason.contains("no switch"), "{closed}"),
            other => panic!("{other:?}"),
        },
    );
}

#[test]
fn ranks_that_disagree_are_all_told_so_at_the_join_and_a_stranger_disturbs_nobody() {
    let world = World::new();
    let fallback = |rank| if rank == 1 { Fallback::Error } else { Fallback::Ring };
    let options = |rank| {
        let mut options = world.options("mixed", rank, Format::I32, fallback(rank));
        options.job_token = JobToken::new("a secret of this job's ranks");
        options
    };
    let begun = Instant::now();
    let told = thread::scope(|scope| {
        let wait = |rank| {
            let waiting = scope.spawn(move || Communicator::join(options(rank)));
            // One after the other.
            let is_here = |job: &Job| job.name == "mixed" && job.joined_ranks.contains(&rank);
            while !world.status().jobs.iter().any(is_here) {
                thread::yield_now();
            }
            waiting
        };
        let waiting = [wait(0), wait(2)];
        let mut stranger = options(1);
        stranger.job_token = JobToken::default();
        stranger.world_size = 7;
        let Err(JoinError::Refused { message, .. }) = Communicator::join(stranger) else { panic!("let in") };
        assert!(message.contains("its first rank gave a job token"), "{message}");
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        let Err(JoinError::Refused { message, .. }) = Communicator::join(options(1)) else {
            panic!("let in")
        };
        let mut told = vec![message];
        for waiting in waiting {
            match waiting.join().expect("no panic") {
                Err(JoinError::Closed { closed, .. }) => told.push(closed.reason),
                other => panic!("{other:?}"),
            }
        }
        told
    });
    for told in told {
        let words = ["fallback error given by rank 1", "rank 0 at 127.0.0.1 joined with ring"];
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
    }
    assert!(begun.elapsed() < DEADLINE / 2, "long before the join timeout");
}

#[test]
fn a_rank_that_does_not_call_is_named_when_the_deadline_is_over() {
    let world = World::new();
    let outcomes = world.ranks(
        "late",
        Format::I32,
        |_| Fallback::Ring,
        |group| {
            let group = group.expect("joined");
            if group.rank() == 2 {
                // Until the others have given up.
                let begin = Instant::now();
                while group.closed().is_none() && begin.elapsed() < DEADLINE {
                    thread::sleep(Duration::from_millis(5));
                }
                return group.closed().expect("the generation ended").missing_ranks;
            }
            let error = group
                .allreduce_i32(&mut [1; 9], ReduceOp::Sum, Duration::from_secs(2))
                .expect_err("incomplete");
            assert!(error.to_string().contains("rank 2"), "{error}");
            group.closed().expect("the generation ended").missing_ranks
        },
    );
    assert_eq!(outcomes, [[2], [2], [2]]);
}
