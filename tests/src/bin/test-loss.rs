//! `test-loss`: whole trees of embedded switches and host state machines in virtual time, under every loss and under random schedules.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use inca_tests::fabric::Node;
use inca_tests::loss::{self, Exchange, Schedules, Tally};
use inca_wire::packet::Format;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Loses, doubles, delays and reorders packets in reduction trees of one to three levels: every rank must get the exact sum.
///
/// Switches run the compiled P4 program, hosts the real protocol, links and time are virtual. First everything that can be
/// enumerated: each single loss, each pair of losses, each order of arrival, each packet late or twice, a change of the generation or
/// the death of a rank after each packet. Then random schedules, each a function of its seed.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Random schedules.
    #[arg(long, default_value_t = 1_000_000)]
    schedules: u64,
    /// Seed of the first one; the others follow.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Run this schedule alone, and nothing else: one that failed.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; 0: as many as there are cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Where the figures go.
    #[arg(long, default_value = "target/reports/test-loss.json")]
    report: PathBuf,
    /// Print the report as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    tally: Tally,
    seconds: f64,
    schedules_per_s: f64,
}

/// A piece of work that is not a random schedule.
type Piece = Box<dyn Fn(&mut Tally) + Send + Sync>;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        let mut tally = Tally::default();
        Schedules::new().run(seed, &mut tally);
        println!("seed {seed}: {} packets, {} lost", tally.packets, tally.packets_dropped);
        return Ok(verdict(&tally));
    }
    ensure!(arguments.schedules > 0, "--schedules 0: 1 or more is valid");
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let started = Instant::now();
    let pieces = pieces();
    let bar = bar("enumerated", pieces.len() as u64);
    let mut tally =
        spread(threads, pieces.len() as u64, &bar, || {}, |(), piece, tally| pieces[piece as usize](tally));
    bar.finish_and_clear();

    let bar = self::bar("random", arguments.schedules);
    let began = Instant::now();
    let run = |fabrics: &mut Schedules, index, tally: &mut Tally| {
        fabrics.run(arguments.first_seed.wrapping_add(index), tally);
    };
    tally.add(spread(threads, arguments.schedules, &bar, Schedules::new, |fabrics, index, tally| {
        run(fabrics, index, tally);
    }));
    bar.finish_and_clear();

    let schedules_per_s = tally.schedules as f64 / began.elapsed().as_secs_f64();
    let code = verdict(&tally);
    let report = Report { tally, seconds: started.elapsed().as_secs_f64(), schedules_per_s };
    write(&report, &arguments)?;
    Ok(code)
}

/// Everything that is enumerated.
fn pieces() -> Vec<Piece> {
    use Node::{Host, Switch};
    let three_levels = || Switch(vec![Node::two_levels(&[2, 1]), Node::two_levels(&[1, 2])]);
    let line = || Switch(vec![Host, Switch(vec![Host, Switch(vec![Host, Host])])]);
    let mixed = || Switch(vec![Host, Node::leaf(2), Host, Node::two_levels(&[1, 1])]);
    let mut pieces: Vec<Piece> = Vec::new();
    for shape in
        [Node::leaf(3), Node::two_levels(&[2, 1]), Node::two_levels(&[8, 2]), three_levels(), line(), mixed()]
    {
        for format in inca_tests::rig::FORMATS {
            let shape = shape.clone();
            pieces.push(Box::new(move |tally| {
                loss::single_losses(&mut Exchange::new(shape.clone(), format, 2, 6), tally);
            }));
        }
    }
    for shape in [Node::two_levels(&[2, 1]), Switch(vec![Host, Node::leaf(2)]), line(), three_levels()] {
        pieces.push(Box::new(move |tally| {
            loss::double_losses(&mut Exchange::new(shape.clone(), Format::I32, 1, 2), tally);
        }));
    }
    for shape in [Node::leaf(3), Node::two_levels(&[2, 1]), mixed(), three_levels()] {
        pieces.push(Box::new(move |tally| {
            let mut exchange = Exchange::new(shape.clone(), Format::Bfp16, 2, 5);
            loss::changes(&mut exchange, tally, &[1, 7, 30]);
            loss::deaths(&mut exchange, tally);
        }));
    }
    for shape in [Node::two_levels(&[2, 1]), Switch(vec![Host, Node::leaf(2)]), line()] {
        pieces.push(Box::new(move |tally| {
            loss::late_packets(&mut Exchange::new(shape.clone(), Format::I32, 1, 3), tally);
        }));
    }
    for (shape, slots, chunks) in [
        (Node::leaf(2), 1, 6),
        (Node::leaf(2), 2, 3),
        (Node::leaf(3), 1, 2),
        (Node::two_levels(&[1, 1]), 1, 1),
        (Node::two_levels(&[2, 1]), 1, 1),
        (Switch(vec![Host, Node::leaf(2)]), 1, 1),
        (Switch(vec![Host, Node::leaf(1)]), 1, 3),
        (Switch(vec![Host, Switch(vec![Node::leaf(1), Host])]), 1, 1),
    ] {
        pieces.push(Box::new(move |tally| {
            let mut exchange = Exchange::new(shape.clone(), Format::Bfp16, slots, chunks);
            let all = loss::orders(&mut exchange, tally, 2_000_000);
            assert!(all, "{shape:?}, {chunks} chunks: more orders than were run");
        }));
    }
    pieces
}

/// Runs `count` pieces on so many threads, each with a state of its own.
fn spread<S>(
    threads: usize,
    count: u64,
    bar: &ProgressBar,
    state: impl Fn() -> S + Sync,
    run: impl Fn(&mut S, u64, &mut Tally) + Sync,
) -> Tally {
    let (next, total) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut state, mut tally) = (state(), Tally::default());
                let (mut told, mut failures) = (Instant::now(), 0);
                let mut done = 0;
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    run(&mut state, index, &mut tally);
                    done += 1;
                    for failure in tally.failures.iter().skip(failures) {
                        bar.suspend(|| eprintln!("FAILED {failure}"));
                    }
                    failures = tally.failures.len();
                    if told.elapsed() > Duration::from_millis(200) {
                        advance(bar, std::mem::take(&mut done));
                        told = Instant::now();
                    }
                }
                advance(bar, done);
                total.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).add(tally);
            });
        }
    });
    total.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Moves the bar; where there is none, each tenth of the way is a line.
fn advance(bar: &ProgressBar, done: u64) {
    let tenth = |position: u64| position * 10 / bar.length().unwrap_or(1).max(1);
    let before = bar.position();
    bar.inc(done);
    if bar.is_hidden() && tenth(before) < tenth(before + done) {
        eprintln!("{}: {} of {}", bar.message(), before + done, bar.length().unwrap_or(0));
    }
}

/// Progress: a bar on a terminal.
fn bar(what: &'static str, length: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(length), target).with_message(what);
    let style = ProgressStyle::with_template("{msg:11} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn verdict(tally: &Tally) -> ExitCode {
    for failure in &tally.failures {
        eprintln!("FAILED {failure}");
    }
    if tally.worst_extra_packets > loss::MOST_EXTRA_PACKETS {
        eprintln!("FAILED a single loss cost {} packets more on a link", tally.worst_extra_packets);
    }
    if tally.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(report: &Report, arguments: &Arguments) -> Result<()> {
    let json = serde_json::to_string_pretty(report)?;
    if let Some(folder) = arguments.report.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let path = arguments.report.display();
    std::fs::write(&arguments.report, format!("{json}\n")).with_context(|| format!("writing {path}"))?;
    if arguments.json {
        println!("{json}");
        return Ok(());
    }
    let Report { tally, seconds, schedules_per_s } = report;
    for (what, count) in [
        ("single losses", tally.single_losses),
        ("double losses", tally.double_losses),
        ("orders of arrival", tally.orders),
        ("packets late or twice", tally.late_packets),
        ("random schedules", tally.schedules),
        ("generation changes", tally.changes),
        ("chunks handed over", tally.copied),
        ("packets", tally.packets),
        ("packets dropped", tally.packets_dropped),
        ("worst extra packets", tally.worst_extra_packets),
        ("wrong", tally.wrong),
        ("hangs", tally.hangs),
    ] {
        println!("{what:<22} {count:>12}");
    }
    println!("{seconds:.0} s, {schedules_per_s:.0} random schedules a second; written to {path}");
    Ok(())
}
