//! `bench-dataplane`: how many packets and bytes a second a switch aggregates: inca's program on BMv2 and on the embedded switch,
//! beside programs with one register operation per element.
//!
//! All of it runs in a network namespace of its own, over veth pairs, with one generator for every program and switch. The runs of
//! all cases alternate, and a case's figure is the median of its runs, so that a noisy minute hits all alike.

mod ends;
mod generator;
mod in_process;
mod report;
mod rig;
mod scheduling;
mod socket;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use inca_tests::bmv2::namespace::in_fresh_namespace;
use inca_wire::address::{MacAddr, service_address, service_mac};
use indicatif::{ProgressBar, ProgressStyle};

use crate::ends::{Load, Role};
use crate::report::{Case, Report};
use crate::rig::{Program, Rig, SwitchKind};

/// Measures the data plane: packets and bytes aggregated a second, per program, role, switch and payload.
///
/// Prints a table with the ratios, and writes it as JSON. Takes root, for the network namespace it measures in; nothing else on
/// the machine is touched. Close other programs first: the switch, its queues and the generator share the cores.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Runs of each case; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Seconds measured in each run, after the warm-up.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Children of the switch: hosts, or switches where it is the root of a tree.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    children: u8,
    /// Slots that each child keeps busy [default: 16 and 64 on BMv2, 64 on the embedded switch].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    slots: Option<u8>,
    /// Measure this switch alone: bmv2 or embedded.
    #[arg(long, env = "SWITCH")]
    switch: Option<SwitchKind>,
    /// Measure only cases whose name contains this, for example "leaf on bmv2".
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Compiled program (P4Info and JSON of this stem) in place of inca's own, to compare a change with it.
    #[arg(long, value_name = "STEM")]
    program: Option<PathBuf>,
    /// Where the figures go.
    #[arg(long, default_value = "target/reports/bench-dataplane.json")]
    report: PathBuf,
    /// Print the report as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        arguments.seconds > 0.0 && arguments.seconds <= 60.0,
        "--seconds {}: more than 0 and at most 60 is valid",
        arguments.seconds
    );
    let available = SwitchKind::available()?;
    let cases: Vec<Case> =
        cases(&arguments).into_iter().filter(|case| available.contains(&case.switch)).collect();
    ensure!(
        !cases.is_empty(),
        "nothing to measure: no case on the switches found here ({}) contains \"{}\"",
        available.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        arguments.only
    );
    // Said now rather than after minutes of measuring.
    report::writable(&arguments.report)?;
    scheduling::in_batches().context("choosing the scheduling policy")?;
    let rates = in_fresh_namespace(|| measure(&arguments, &cases))
        .context("making a network namespace takes root")??;

    let report = Report::new(&cases, &rates, arguments.runs, arguments.children);
    report.write(&arguments.report)?;
    if arguments.json {
        println!("{}", report.json()?)
    } else {
        print!("{report}")
    }
    Ok(())
}

/// Slots that each child keeps busy where BMv2 is fastest; more only take memory there.
const FEW: u32 = 16;
/// Slots that keep the embedded switch busy. BMv2 is measured with as many too: the same load for both.
const MANY: u32 = 64;

fn cases(arguments: &Arguments) -> Vec<Case> {
    let inca = |role, switch, words, slots| Case {
        program: Program::Inca,
        role,
        switch,
        words,
        slots: arguments.slots.map_or(slots, u32::from),
        one_core: false,
        threads: 1,
    };
    let baseline = |program| Case { program, ..inca(Role::Single, SwitchKind::Bmv2, 5, FEW) };
    let mut cases = vec![baseline(Program::PerElement), baseline(Program::Tuned)];
    let roles = [Role::Single, Role::Leaf, Role::Root];
    for (switch, slots) in
        [(SwitchKind::Bmv2, FEW), (SwitchKind::Embedded, MANY), (SwitchKind::InProcess, MANY)]
    {
        cases.push(inca(Role::Single, switch, 1, slots));
        cases.extend(roles.map(|role| inca(role, switch, 5, slots)));
        cases.extend([Role::Single, Role::Leaf].map(|role| inca(role, switch, 32, slots)));
    }
    cases.extend(roles.map(|role| inca(role, SwitchKind::Bmv2, 5, MANY)));
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > scheduling::SWITCH_CORE) {
        for (switch, slots) in
            [(SwitchKind::Bmv2, FEW), (SwitchKind::Bmv2, MANY), (SwitchKind::Embedded, MANY)]
        {
            let case = |role| Case { one_core: true, ..inca(role, switch, 5, slots) };
            cases.extend([Role::Single, Role::Leaf].map(case));
        }
    }
    let two_threads = |role| Case { threads: 2, ..inca(role, SwitchKind::Embedded, 5, MANY) };
    cases.extend(roles.map(two_threads));
    let mut seen = Vec::new();
    // With --slots some are the same.
    cases.retain(|case| {
        !seen.contains(case) && {
            seen.push(*case);
            true
        }
    });
    cases.retain(|case| arguments.switch.is_none_or(|only| only == case.switch));
    cases.retain(|case| case.to_string().contains(&arguments.only));
    cases
}

/// The rate of every run of every case.
fn measure(arguments: &Arguments, cases: &[Case]) -> Result<Vec<Vec<generator::Rate>>> {
    let interfaces = rig::cables(usize::from(arguments.children) + 1)?;
    let bar = ProgressBar::new(u64::from(arguments.runs) * cases.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} [{eta} left]")?);
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..arguments.runs {
        for (case, rates) in cases.iter().zip(&mut rates) {
            bar.set_message(case.to_string());
            let load = load(arguments, case);
            let rate = run(case, &load, arguments, &interfaces).with_context(|| case.to_string())?;
            rates.push(rate);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(rates)
}

fn run(case: &Case, load: &Load, arguments: &Arguments, interfaces: &[String]) -> Result<generator::Rate> {
    let program = arguments.program.as_deref();
    let (warm_up, time) = (Duration::from_millis(300), Duration::from_secs_f64(arguments.seconds));
    if case.switch == SwitchKind::InProcess {
        let compiled = case.program.compiled();
        return in_process::run(load, program.unwrap_or(&compiled), warm_up, time);
    }
    let _core = case.one_core.then(scheduling::OnFirstCore::new).transpose().context("choosing cores")?;
    let _rig = Rig::start(case, load, program).context("starting")?;
    generator::run(load, &interfaces[..load.ports()], warm_up, time)
}

fn load(arguments: &Arguments, case: &Case) -> Load {
    let service: (MacAddr, Ipv4Addr) = (service_mac(rig::DEVICE_ID), service_address(rig::DEVICE_ID));
    Load {
        role: case.role,
        children: arguments.children.into(),
        slots: case.slots,
        words: case.words,
        tree_id: 7,
        generation: 9,
        service,
    }
}
