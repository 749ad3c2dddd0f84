//! Medians, ratios, the table and the JSON.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use inca_wire::packet::WORD_BYTES;
use serde::Serialize;

use crate::ends::Role;
use crate::generator::Rate;
use crate::rig::{Program, SwitchKind};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    /// The program.
    pub(crate) program: Program,
    /// The switch's role in its tree.
    pub(crate) role: Role,
    /// The switch.
    pub(crate) switch: SwitchKind,
    /// Words a packet.
    pub(crate) words: u8,
    /// Slots that each child keeps busy.
    pub(crate) slots: u32,
    /// Whether the switch has one core to itself, and only that.
    pub(crate) one_core: bool,
    /// Packet threads of the embedded switch.
    pub(crate) threads: usize,
}

impl Case {
    fn payload(&self) -> usize {
        usize::from(self.words) * WORD_BYTES
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} on {}, {} bytes",
            self.program.name(),
            self.role.name(),
            self.switch,
            self.payload()
        )?;
        if self.threads > 1 {
            write!(f, ", {} threads", self.threads)?;
        }
        if self.one_core { write!(f, ", one core") } else { Ok(()) }
    }
}

/// One case's figures.
#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    role: &'static str,
    switch: String,
    payload: usize,
    one_core: bool,
    /// Packet threads of the embedded switch.
    threads: usize,
    /// Slots that each child kept busy.
    slots: u32,
    packets_per_s: f64,
    bytes_per_s: f64,
    /// Lowest and highest run, in packets a second.
    range: [f64; 2],
    /// Runs in which a slot stalled and was sent again.
    stalled_runs: usize,
}

/// How many times BMv2's packets a second, by role.
#[derive(Debug, Clone, Copy, Serialize)]
struct ToBmv2 {
    single: Option<f64>,
    leaf: Option<f64>,
    root: Option<f64>,
    /// The least of those measured.
    least: Option<f64>,
}

impl ToBmv2 {
    fn new(of: impl Fn(Role) -> Option<f64>) -> Self {
        let [single, leaf, root] = [Role::Single, Role::Leaf, Role::Root].map(of);
        let least = [single, leaf, root].into_iter().flatten().min_by(f64::total_cmp);
        Self { single, leaf, root, least }
    }
}

/// The figures of a benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// Bytes a second against one register operation per element at 1280 bytes, both on BMv2.
    ratio_single_1280: Option<f64>,
    ratio_leaf_1280: Option<f64>,
    ratio_single_8192: Option<f64>,
    /// The same against the tuned variant of that program.
    ratio_single_1280_tuned: Option<f64>,
    ratio_leaf_1280_tuned: Option<f64>,
    ratio_single_8192_tuned: Option<f64>,
    /// Packets a second at 1280 bytes against BMv2 under the same load.
    embedded_to_bmv2: ToBmv2,
    /// The same with two packet threads.
    embedded_two_threads_to_bmv2: ToBmv2,
    /// With two packet threads, BMv2 under the load that suits it best.
    embedded_two_threads_to_bmv2_best: ToBmv2,
    /// With one, BMv2 under the load that suits it best.
    embedded_to_bmv2_best: ToBmv2,
    /// One core for each switch, the same load.
    embedded_to_bmv2_one_core: ToBmv2,
    /// One core for each, BMv2 under the load that suits it best.
    embedded_to_bmv2_one_core_best: ToBmv2,
    /// The library in the generator's thread against BMv2 over a network at its best.
    in_process_to_bmv2_best: ToBmv2,
    runs: u16,
    children: u8,
    cores: usize,
}

impl Report {
    /// Medians of the runs, which are in the order of the cases.
    pub(crate) fn new(cases: &[Case], rates: &[Vec<Rate>], runs: u16, children: u8) -> Self {
        let rows: Vec<Row> = cases.iter().zip(rates).map(|(case, rates)| row(case, rates)).collect();
        // The fastest row of this kind, whatever its load.
        let find = |program: Program, role: Role, switch: SwitchKind, words: u8| {
            let of_kind = |case: &Case| {
                (case.program, case.role, case.switch, case.words, case.one_core, case.threads)
                    == (program, role, switch, words, false, 1)
            };
            let found = cases.iter().zip(&rows).filter(|(case, _)| of_kind(case)).map(|(_, row)| row);
            found.max_by(|a, b| a.packets_per_s.total_cmp(&b.packets_per_s))
        };
        let bytes =
            |program, role, words| find(program, role, SwitchKind::Bmv2, words).map(|row| row.bytes_per_s);
        let against = |baseline, role, words| {
            Some(bytes(Program::Inca, role, words)? / bytes(baseline, Role::Single, 5)?)
        };
        // `best`: against BMv2's fastest row instead of the one under the same load.
        let to_bmv2 = |switch: SwitchKind, threads: usize, one_core: bool, best: bool| {
            ToBmv2::new(|role| {
                let of = |switch: SwitchKind, threads: usize, slots: Option<u32>| {
                    let of_kind = |case: &Case| {
                        (case.program, case.role, case.switch, case.words) == (Program::Inca, role, switch, 5)
                            && (case.one_core, case.threads) == (one_core, threads)
                            && slots.is_none_or(|slots| slots == case.slots)
                    };
                    let found = cases.iter().zip(&rows).filter(|(case, _)| of_kind(case));
                    found.max_by(|(_, a), (_, b)| a.packets_per_s.total_cmp(&b.packets_per_s))
                };
                let (case, ours) = of(switch, threads, None)?;
                let (_, theirs) = of(SwitchKind::Bmv2, 1, (!best).then_some(case.slots))?;
                Some(ours.packets_per_s / theirs.packets_per_s)
            })
        };
        Self {
            ratio_single_1280: against(Program::PerElement, Role::Single, 5),
            ratio_leaf_1280: against(Program::PerElement, Role::Leaf, 5),
            ratio_single_8192: against(Program::PerElement, Role::Single, 32),
            ratio_single_1280_tuned: against(Program::Tuned, Role::Single, 5),
            ratio_leaf_1280_tuned: against(Program::Tuned, Role::Leaf, 5),
            ratio_single_8192_tuned: against(Program::Tuned, Role::Single, 32),
            embedded_to_bmv2: to_bmv2(SwitchKind::Embedded, 1, false, false),
            embedded_two_threads_to_bmv2: to_bmv2(SwitchKind::Embedded, 2, false, false),
            embedded_two_threads_to_bmv2_best: to_bmv2(SwitchKind::Embedded, 2, false, true),
            embedded_to_bmv2_best: to_bmv2(SwitchKind::Embedded, 1, false, true),
            embedded_to_bmv2_one_core: to_bmv2(SwitchKind::Embedded, 1, true, false),
            embedded_to_bmv2_one_core_best: to_bmv2(SwitchKind::Embedded, 1, true, true),
            in_process_to_bmv2_best: to_bmv2(SwitchKind::InProcess, 1, false, true),
            rows,
            runs,
            children,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The report as JSON.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Writes the JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.json()? + "\n").with_context(|| format!("writing {}", path.display()))
    }
}

/// Makes the folder of a report, and says if it can't be written there.
pub(crate) fn writable(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("--report: making {}", folder.display()))?;
    }
    let open = std::fs::OpenOptions::new().append(true).create(true).open(path);
    open.map(drop).with_context(|| format!("--report: {}", path.display()))
}

fn row(case: &Case, rates: &[Rate]) -> Row {
    let mut sorted: Vec<f64> = rates.iter().map(|rate| rate.packets_per_s).collect();
    sorted.sort_by(f64::total_cmp);
    let packets_per_s = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    Row {
        program: case.program.name(),
        role: case.role.name(),
        switch: case.switch.to_string(),
        payload: case.payload(),
        one_core: case.one_core,
        threads: case.threads,
        slots: case.slots,
        packets_per_s,
        bytes_per_s: packets_per_s * case.payload() as f64,
        range: [sorted.first().copied().unwrap_or_default(), sorted.last().copied().unwrap_or_default()],
        stalled_runs: rates.iter().filter(|rate| rate.repeats > 0).count(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:<7} {:<10} {:>8} {:>6} {:>12} {:>10}   range",
            "program", "role", "switch", "payload", "slots", "packets/s", "MB/s"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<18} {:<7} {:<10} {:>8} {:>6} {:>12.0} {:>10.1}   {:.0}-{:.0}{}{}{}",
                row.program,
                row.role,
                row.switch,
                row.payload,
                row.slots,
                row.packets_per_s,
                row.bytes_per_s / 1e6,
                row.range[0],
                row.range[1],
                if row.one_core { ", one core" } else { "" },
                if row.threads > 1 { format!(", {} threads", row.threads) } else { String::new() },
                if row.stalled_runs > 0 {
                    format!(", {} runs stalled", row.stalled_runs)
                } else {
                    String::new()
                },
            )?;
        }
        writeln!(
            f,
            "\nbytes a second on bmv2 against one register operation per element at 1280 bytes (tuned for bmv2):"
        )?;
        let ratios = [
            ("single switch, 1280 bytes", self.ratio_single_1280, self.ratio_single_1280_tuned),
            ("leaf, 1280 bytes", self.ratio_leaf_1280, self.ratio_leaf_1280_tuned),
            ("single switch, 8192 bytes", self.ratio_single_8192, self.ratio_single_8192_tuned),
        ];
        for (what, plain, tuned) in ratios {
            if let (Some(plain), Some(tuned)) = (plain, tuned) {
                writeln!(f, "  {what:<27} {plain:>6.1} x   ({tuned:.1} x)")?;
            }
        }
        if self.embedded_to_bmv2_best.least.or(self.in_process_to_bmv2_best.least).is_some() {
            writeln!(f, "packets a second at 1280 bytes against bmv2, as single switch, leaf, root:")?;
        }
        let ratios = [
            ("embedded, same load", &self.embedded_to_bmv2),
            ("embedded with two threads, same load", &self.embedded_two_threads_to_bmv2),
            ("embedded with two threads, bmv2 at its best load", &self.embedded_two_threads_to_bmv2_best),
            ("embedded, bmv2 at its best load", &self.embedded_to_bmv2_best),
            ("embedded, one core each, same load", &self.embedded_to_bmv2_one_core),
            ("embedded, one core each, bmv2 at its best load", &self.embedded_to_bmv2_one_core_best),
            ("in process, bmv2 at its best load", &self.in_process_to_bmv2_best),
        ];
        for (what, ToBmv2 { single, leaf, root, least }) in ratios {
            if least.is_some() {
                let text =
                    |ratio: &Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1} x"));
                writeln!(f, "  {what:<48} {:>7} {:>7} {:>7}", text(single), text(leaf), text(root))?;
            }
        }
        Ok(())
    }
}
