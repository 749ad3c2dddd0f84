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
}

impl Case {
    fn payload(&self) -> usize {
        usize::from(self.words) * WORD_BYTES
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {}, {} bytes", self.program.name(), self.role.name(), self.switch, self.payload())
    }
}

/// One case's figures.
#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    role: &'static str,
    switch: String,
    payload: usize,
    packets_per_s: f64,
    bytes_per_s: f64,
    /// Lowest and highest run, in packets a second.
    range: [f64; 2],
    /// Runs in which a slot stalled and was sent again.
    stalled_runs: usize,
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
    /// Packets a second of the embedded switch against BMv2: single switch, 1280 bytes.
    ratio_embedded_to_bmv2: Option<f64>,
    runs: u16,
    children: u8,
    cores: usize,
}

impl Report {
    /// Medians of the runs, which are in the order of the cases.
    pub(crate) fn new(cases: &[Case], rates: &[Vec<Rate>], runs: u16, children: u8) -> Self {
        let rows: Vec<Row> = cases.iter().zip(rates).map(|(case, rates)| row(case, rates)).collect();
        let find = |program: Program, role: Role, switch: SwitchKind, words: u8| {
            cases
                .iter()
                .position(|case| *case == Case { program, role, switch, words })
                .map(|index| &rows[index])
        };
        let bytes =
            |program, role, words| find(program, role, SwitchKind::Bmv2, words).map(|row| row.bytes_per_s);
        let against = |baseline, role, words| {
            Some(bytes(Program::Inca, role, words)? / bytes(baseline, Role::Single, 5)?)
        };
        let packets = |switch| find(Program::Inca, Role::Single, switch, 5).map(|row| row.packets_per_s);
        Self {
            ratio_single_1280: against(Program::PerElement, Role::Single, 5),
            ratio_leaf_1280: against(Program::PerElement, Role::Leaf, 5),
            ratio_single_8192: against(Program::PerElement, Role::Single, 32),
            ratio_single_1280_tuned: against(Program::Tuned, Role::Single, 5),
            ratio_leaf_1280_tuned: against(Program::Tuned, Role::Leaf, 5),
            ratio_single_8192_tuned: against(Program::Tuned, Role::Single, 32),
            ratio_embedded_to_bmv2: packets(SwitchKind::Embedded)
                .zip(packets(SwitchKind::Bmv2))
                .map(|(a, b)| a / b),
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

    /// Writes the JSON, making its folder.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        std::fs::write(path, self.json()? + "\n").with_context(|| format!("writing {}", path.display()))
    }
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
            "{:<18} {:<7} {:<9} {:>8} {:>12} {:>10}   range",
            "program", "role", "switch", "payload", "packets/s", "MB/s"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<18} {:<7} {:<9} {:>8} {:>12.0} {:>10.1}   {:.0}-{:.0}{}",
                row.program,
                row.role,
                row.switch,
                row.payload,
                row.packets_per_s,
                row.bytes_per_s / 1e6,
                row.range[0],
                row.range[1],
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
        if let Some(ratio) = self.ratio_embedded_to_bmv2 {
            writeln!(f, "packets a second, embedded switch against bmv2: {ratio:.1} x")?;
        }
        Ok(())
    }
}
