//! `inca-agent allreduce`: one tensor, from a seed or a file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inca_host_agent::{Communicator, Dtype, ReduceOp, Tensor};
use serde::Serialize;

use crate::args::{AllreduceArgs, CheckArg, SchemeArgs};
use crate::check::{self, Group};
use crate::data::Layout;
use crate::report::{self, Counters, megabytes_per_second};
use crate::{Failure, data};

#[derive(Debug, Serialize)]
struct Report {
    job: String,
    rank: u32,
    world: u32,
    levels: u32,
    /// Why there was no tree and the hosts were a ring; null: trees.
    fallback: Option<String>,
    generation: u32,
    /// The group's ranks at the end.
    members: Vec<u32>,
    /// Which ranks the elements of the last output hold.
    parts: Vec<PartReport>,
    dtype: String,
    format: String,
    op: String,
    count: usize,
    bytes: u64,
    seconds: f64,
    goodput_mb_per_s: f64,
    checked: u64,
    wrong: u64,
    #[serde(flatten)]
    counters: Counters,
}

#[derive(Debug, Serialize)]
struct PartReport {
    first: u64,
    end: u64,
    ranks: Vec<u32>,
}

pub(crate) fn run(args: &AllreduceArgs) -> Result<(), Failure> {
    let SchemeArgs { dtype, op, .. } = args.operation.scheme;
    let format = args.operation.scheme.format()?;
    if args.check != CheckArg::None && args.input.is_some() {
        return Err(Failure::Usage(
            "--check needs generated tensors: with --input no rank knows the others' elements".to_owned(),
        ));
    }
    if let Some(path) = &args.output {
        data::check_writable(path, dtype)?;
    }
    let (input, layout) = input(args, dtype)?;
    let (count, bytes) = (input.len(), dtype.bytes_for(input.len()) as u64);

    let group = Communicator::join(args.join.options(&args.operation.scheme, args.operation.seed)?)?;
    let assignment = group.assignment().clone();
    tracing::info!(
        job = args.join.job,
        rank = args.join.rank,
        generation = assignment.config.generation,
        trees = assignment.config.trees.len(),
        levels = assignment.levels,
        "joined"
    );
    let mut output = input.clone();
    let mut spent = Duration::ZERO;
    for round in 0..args.repeat {
        if round > 0 {
            output = input.clone();
        }
        let start = Instant::now();
        with_progress(&group, count, args.operation.quiet || args.operation.json, || {
            reduce(&group, &mut output, op, args.operation.deadline)
        })?;
        spent += start.elapsed();
    }
    let counters = Counters::of(&group);
    let fallback = assignment.fallback.clone();
    let (members, generation, parts) = (group.members(), group.generation(), group.last_parts());
    crate::leave(group);
    if parts.iter().any(|part| part.ranks.len() < args.join.world as usize) {
        tracing::warn!(
            job = args.join.job,
            ?members,
            "ranks died: the output does not hold all of them everywhere"
        );
    }

    let model = Group::of(&args.join, &args.operation, fallback.is_some())?;
    let mut outcome = check::Outcome::default();
    if parts.is_empty() {
        outcome = check::compare(&model, &output, args.check);
    }
    for part in &parts {
        let range = part.elements.start as usize..part.elements.end as usize;
        let elements = output.view().slice(range.clone());
        outcome.add(check::compare_ranks(&model, &elements, range.start, &part.ranks, args.check));
    }
    if let Some(path) = &args.output {
        data::write(path, &output, &layout)?;
    }
    let total = bytes * u64::from(args.repeat);
    let report = Report {
        job: args.join.job.clone(),
        rank: args.join.rank,
        world: args.join.world,
        levels: assignment.levels,
        fallback,
        generation,
        members,
        parts: parts
            .iter()
            .map(|part| PartReport {
                first: part.elements.start,
                end: part.elements.end,
                ranks: part.ranks.to_vec(),
            })
            .collect(),
        dtype: dtype.to_string(),
        format: format.to_string(),
        op: op.to_string(),
        count,
        bytes,
        seconds: spent.as_secs_f64(),
        goodput_mb_per_s: megabytes_per_second(total, spent),
        checked: outcome.checked,
        wrong: outcome.wrong,
        counters,
    };
    if args.operation.json {
        report::json(&report);
    } else if !args.operation.quiet {
        print(&report, args.check);
    }
    outcome.into_result()
}

fn input(args: &AllreduceArgs, dtype: Dtype) -> Result<(Tensor, Layout), Failure> {
    if let Some(path) = &args.input {
        return data::read(path, dtype);
    }
    let whole = |bytes: u64| dtype.bytes_for(dtype.elements_in(bytes as usize)) as u64 == bytes;
    let count = match (args.count, args.bytes) {
        (Some(count), _) => count as usize,
        (None, Some(bytes)) if whole(bytes) => dtype.elements_in(bytes as usize),
        (None, Some(bytes)) => {
            let size = dtype.bytes_for(1);
            return Err(Failure::Usage(format!(
                "--bytes {bytes}: must be a multiple of {size}, the size of {dtype}"
            )));
        }
        (None, None) => return Err(Failure::Usage("give one of --count, --bytes and --input".to_owned())),
    };
    let bytes = (count as u64).saturating_mul(dtype.bytes_for(2) as u64) / 2;
    data::check_room(if args.count.is_some() { "--count" } else { "--bytes" }, bytes)?;
    let rank = args.join.rank;
    let tensor = data::generate(dtype, args.operation.seed, rank, args.join.world.max(1), 0..count);
    Ok((tensor, Layout::flat(count)))
}

pub(crate) fn reduce(
    group: &Communicator,
    tensor: &mut Tensor,
    op: ReduceOp,
    deadline: Duration,
) -> Result<(), Failure> {
    Ok(group.allreduce(tensor.view_mut(), op, deadline)?)
}

/// Runs the operation with a bar of finished chunks beside it.
fn with_progress<T>(group: &Communicator, elements: usize, quiet: bool, run: impl FnOnce() -> T) -> T {
    let chunks = elements.div_ceil(group.assignment().config.chunk_elements()) as u64;
    let before = group.stats().0.chunks;
    let bar = report::progress(chunks, "allreduce", quiet);
    if bar.is_hidden() {
        return run();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(100));
                bar.set_position(group.stats().0.chunks - before);
            }
        });
        let result = run();
        done.store(true, Ordering::Relaxed);
        bar.finish_and_clear();
        result
    })
}

fn print(report: &Report, check: CheckArg) {
    let Report { rank, world, op, dtype, count, bytes, seconds, goodput_mb_per_s, .. } = report;
    println!(
        "rank {rank} of {world}: {op} of {count} {dtype} elements ({bytes} bytes) in {:.3} ms",
        seconds * 1e3
    );
    report::print_fallback(report.fallback.as_deref());
    println!("goodput {goodput_mb_per_s:.2} MB/s; {}", report.counters);
    match check {
        CheckArg::None => println!("#wrong not checked"),
        _ => println!("#wrong {} of {} elements checked", report.wrong, report.checked),
    }
}
