//! `inca-agent perf`: a sweep over sizes.

mod run;

use std::time::{Duration, Instant};

use inca_host_agent::{Communicator, Dtype};
use serde::Serialize;

use crate::Failure;
use crate::args::{CheckArg, CollectiveArg, PerfArgs, SchemeArgs};
use crate::check::{self, Group};
use crate::data;
use crate::report::{self, Counters, megabytes_per_second};

#[derive(Debug, Serialize)]
struct Row {
    size: u64,
    count: usize,
    #[serde(rename = "type")]
    dtype: String,
    format: String,
    redop: String,
    in_place: bool,
    /// Mean of the iterations.
    time_us: f64,
    /// Half of the iterations took no longer.
    median_us: f64,
    fastest_us: f64,
    algbw_mb_per_s: f64,
    busbw_mb_per_s: f64,
    /// None: not checked.
    wrong: Option<u64>,
    retransmissions: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    job: String,
    collective: String,
    rank: u32,
    world: u32,
    levels: u32,
    /// Why there was no tree and the hosts were a ring; null: trees.
    fallback: Option<String>,
    trees: usize,
    slots: u32,
    chunk_words: u8,
    iterations: u32,
    warmup: u32,
    rows: Vec<Row>,
    #[serde(flatten)]
    counters: Counters,
}

pub(crate) fn run(args: &PerfArgs) -> Result<(), Failure> {
    let sizes = sizes(args)?;
    let group = Communicator::join(args.join.options(&args.operation.scheme, args.operation.seed)?)?;
    let config = &group.assignment().config;
    let mut report = Report {
        job: args.join.job.clone(),
        collective: run::name(args.collective).to_owned(),
        rank: args.join.rank,
        world: args.join.world,
        levels: group.assignment().levels,
        fallback: group.fallback().map(str::to_owned),
        trees: config.trees.len(),
        slots: config.trees.iter().map(|tree| tree.slots).sum(),
        chunk_words: config.chunk_words,
        iterations: args.iterations,
        warmup: args.warmup,
        rows: Vec::new(),
        counters: Counters::of(&group),
    };
    let text = !args.operation.json && !args.operation.quiet;
    if text {
        print_head(&report, args);
    }
    let places = run::places(args);
    let rounds = (sizes.len() * places.len()) as u64 * u64::from(args.warmup + args.iterations);
    let bar = report::progress(rounds, "perf", !text);
    let mut wrong = check::Outcome::default();
    if args.collective == CollectiveArg::Sendrecv {
        group.connect_peers(args.operation.deadline)?;
    }
    for size in sizes {
        for in_place in &places {
            let (row, outcome) = measure(args, &group, size, *in_place, &bar)?;
            if text {
                bar.suspend(|| print_row(&row));
            }
            wrong.add(outcome);
            report.rows.push(row);
        }
    }
    bar.finish_and_clear();
    report.counters = Counters::of(&group);
    crate::leave(group);
    if args.operation.json {
        report::json(&report);
    } else if text {
        print_foot(&report);
    }
    wrong.into_result()
}

/// Sizes of the sweep, each a whole number of elements.
fn sizes(args: &PerfArgs) -> Result<Vec<u64>, Failure> {
    let (least, most) = (args.min_bytes, args.max_bytes);
    if least > most {
        return Err(Failure::Usage(format!("-b {least} is above -e {most}")));
    }
    data::check_room("-e", most)?;
    if args.collective == CollectiveArg::Barrier {
        return Ok(vec![0]);
    }
    let dtype = args.operation.scheme.dtype;
    // As many elements for each rank, and whole bytes.
    let parts = if run::has_parts(args.collective) { args.join.world.max(1) as usize } else { 1 };
    let unit = if dtype == Dtype::I4 { 2 * parts } else { parts };
    let mut sizes = Vec::new();
    let mut size = least;
    while size <= most {
        let elements = dtype.elements_in(size as usize);
        let elements = if parts > 1 { elements / unit * unit } else { elements };
        sizes.push(dtype.bytes_for(elements) as u64);
        match size.max(1).checked_mul(args.factor) {
            Some(next) => size = next,
            None => break,
        }
    }
    sizes.dedup();
    Ok(sizes)
}

fn measure(
    args: &PerfArgs,
    group: &Communicator,
    size: u64,
    in_place: bool,
    bar: &indicatif::ProgressBar,
) -> Result<(Row, check::Outcome), Failure> {
    let SchemeArgs { dtype, op, .. } = args.operation.scheme;
    let call = run::Call::new(args, dtype.elements_in(size as usize), in_place);
    let mut times = Vec::with_capacity(args.iterations as usize);
    let mut before = 0;
    let mut buffers = call.buffers();
    for round in 0..args.warmup + args.iterations {
        if round == args.warmup {
            before = group.stats().0.retransmissions;
        }
        if in_place {
            buffers = call.buffers();
        }
        let start = Instant::now();
        buffers = call.run(group, buffers)?;
        if round >= args.warmup {
            times.push(start.elapsed());
        }
        bar.inc(1);
    }
    let retransmissions = group.stats().0.retransmissions - before;
    let time = times.iter().sum::<Duration>() / args.iterations;
    times.sort_unstable();
    let model = Group::of(&args.join, &args.operation, group.fallback().is_some())?;
    let outcome = call.check(&model, &buffers, args.check);
    let algbw = megabytes_per_second(size, time);
    let row = Row {
        size,
        count: dtype.elements_in(size as usize),
        dtype: dtype.to_string(),
        format: group.assignment().config.format.to_string(),
        redop: if run::reduces(args.collective) { op.to_string() } else { "none".to_owned() },
        in_place,
        time_us: time.as_secs_f64() * 1e6,
        median_us: median(&times).as_secs_f64() * 1e6,
        fastest_us: times[0].as_secs_f64() * 1e6,
        algbw_mb_per_s: algbw,
        busbw_mb_per_s: algbw * run::bus_factor(args.collective, args.join.world),
        wrong: (args.check != CheckArg::None).then_some(outcome.wrong),
        retransmissions,
    };
    Ok((row, outcome))
}

/// Median of times in order, of which there is one at least.
fn median(sorted: &[Duration]) -> Duration {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2
}

fn print_head(report: &Report, args: &PerfArgs) {
    let Report { job, rank, world, levels, trees, slots, chunk_words, iterations, warmup, .. } = report;
    println!(
        "# job {job}, rank {rank} of {world}; {trees} tree(s) of {levels} level(s), {slots} slots, {chunk_words} words per chunk"
    );
    report::print_fallback(report.fallback.as_deref());
    println!(
        "# {}: {iterations} operations per size after {warmup} to warm up; MB = 10^6 bytes; check: {:?}",
        report.collective, args.check
    );
    println!(
        "#{:>11} {:>10} {:>6} {:>8} {:>5} {:>12} {:>10} {:>10} {:>8} {:>8}",
        "size", "count", "type", "redop", "place", "time", "algbw", "busbw", "#wrong", "#resent"
    );
    println!(
        "#{:>11} {:>10} {:>6} {:>8} {:>5} {:>12} {:>10} {:>10} {:>8} {:>8}",
        "(B)", "(elements)", "", "", "", "(us)", "(MB/s)", "(MB/s)", "", ""
    );
}

fn print_row(row: &Row) {
    let wrong = row.wrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
    println!(
        "{:>12} {:>10} {:>6} {:>8} {:>5} {:>12.1} {:>10.3} {:>10.3} {:>8} {:>8}",
        row.size,
        row.count,
        row.dtype,
        row.redop,
        if row.in_place { "in" } else { "out" },
        row.time_us,
        row.algbw_mb_per_s,
        row.busbw_mb_per_s,
        wrong,
        row.retransmissions
    );
}

fn print_foot(report: &Report) {
    let wrong: u64 = report.rows.iter().filter_map(|row| row.wrong).sum();
    let average =
        report.rows.iter().map(|row| row.busbw_mb_per_s).sum::<f64>() / report.rows.len().max(1) as f64;
    println!("# {}", report.counters);
    println!("# out of bounds values: {wrong} {}", if wrong == 0 { "OK" } else { "FAILED" });
    println!("# average busbw: {average:.3} MB/s");
}
