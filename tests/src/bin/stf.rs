//! Packet tests in p4c's STF format, on the embedded switch and on BMv2.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use inca_tests::stf::folder::{Case, Kind, cases};
use inca_tests::stf::run::Verdict;
use indicatif::ProgressBar;
use serde_json::json;

/// Runs every NAME.stf of a folder on a fresh switch with the program NAME.json beside it. BMv2 is programmed through
/// NAME.p4info.txtpb, where that is there.
///
/// p4c's own programs: from a checkout of p4c, for each testdata/p4_16_samples/NAME.stf whose program includes v1model.p4,
///   p4c-bm2-ss -o FOLDER/NAME.json --p4runtime-files FOLDER/NAME.p4info.txtpb testdata/p4_16_samples/NAME.p4
///   cp testdata/p4_16_samples/NAME.stf FOLDER/
/// then: stf --switch both FOLDER
#[derive(Debug, Parser)]
#[command(verbatim_doc_comment)]
struct Options {
    /// Where the scripts and programs are.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/programs"))]
    folder: PathBuf,
    /// Which switch runs them; with both, what BMv2 passes is what the embedded switch is held to.
    #[arg(long, value_enum, default_value = "embedded")]
    switch: Which,
    /// Only scripts whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Prints what the switch sends for each packet, as statements for a script, and checks nothing.
    #[arg(long, conflicts_with = "json")]
    show: bool,
    /// Prints the report as JSON. It is written to target/reports/stf.json either way.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Embedded,
    Bmv2,
    Both,
}

/// One script's verdicts.
struct Row {
    name: String,
    embedded: Option<Verdict>,
    bmv2: Option<Verdict>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match all(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn all(options: &Options) -> Result<bool, String> {
    let folder = |error| format!("{}: {error}", options.folder.display());
    let mut cases = cases(&options.folder).map_err(folder)?;
    cases.retain(|case| case.name.contains(&options.only));
    if cases.is_empty() {
        return Err(format!(
            "{}: no scripts NAME.stf whose name contains {:?}",
            options.folder.display(),
            options.only
        ));
    }
    if options.show {
        return show(&cases, options.switch);
    }
    let bar = ProgressBar::new(cases.len() as u64);
    let rows: Vec<Row> = cases
        .iter()
        .map(|case| {
            let row = row(case, options.switch);
            bar.inc(1);
            row
        })
        .collect();
    bar.finish_and_clear();
    let report = report(&rows);
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/reports");
    std::fs::create_dir_all(&reports).map_err(|error| error.to_string())?;
    std::fs::write(reports.join("stf.json"), format!("{text}\n")).map_err(|error| error.to_string())?;
    if options.json {
        println!("{text}");
    } else {
        print(&rows, options.switch);
    }
    Ok(rows.iter().all(|row| !wrong(row, options.switch)))
}

fn show(cases: &[Case], which: Which) -> Result<bool, String> {
    let kind = if which == Which::Bmv2 { Kind::Bmv2 } else { Kind::Embedded };
    for case in cases {
        let loaded = case.load().map_err(|verdict| format!("{}: {verdict:?}", case.name))?;
        let mut bench = case.bench(&loaded, kind).map_err(|error| format!("{}: {error}", case.name))?;
        println!("# {}", case.name);
        let lines = inca_tests::stf::run::show(&loaded.names, &loaded.script, bench.as_mut());
        lines?.iter().for_each(|line| println!("{line}"));
    }
    Ok(true)
}

fn row(case: &Case, which: Which) -> Row {
    let run = |wanted: Which, kind| (which == wanted || which == Which::Both).then(|| case.run(kind));
    Row {
        name: case.name.clone(),
        embedded: run(Which::Embedded, Kind::Embedded),
        bmv2: run(Which::Bmv2, Kind::Bmv2),
    }
}

/// With both switches only what BMv2 passes counts.
fn wrong(row: &Row, which: Which) -> bool {
    let failed = |verdict: &Option<Verdict>| matches!(verdict, Some(Verdict::Fail(_)));
    match which {
        Which::Embedded => failed(&row.embedded),
        Which::Bmv2 => failed(&row.bmv2),
        Which::Both => row.bmv2 == Some(Verdict::Pass) && row.embedded != Some(Verdict::Pass),
    }
}

fn word(verdict: &Option<Verdict>) -> &'static str {
    match verdict {
        None => "-",
        Some(Verdict::Pass) => "pass",
        Some(Verdict::Fail(_)) => "FAIL",
        Some(Verdict::Skip(_)) => "skipped",
    }
}

fn reason(verdict: &Option<Verdict>) -> Option<&str> {
    match verdict {
        Some(Verdict::Fail(reason) | Verdict::Skip(reason)) => Some(reason),
        _ => None,
    }
}

fn counts<'a>(verdicts: impl Iterator<Item = &'a Option<Verdict>>) -> (usize, usize, usize) {
    verdicts.fold((0, 0, 0), |(pass, fail, skip), verdict| match verdict {
        Some(Verdict::Pass) => (pass + 1, fail, skip),
        Some(Verdict::Fail(_)) => (pass, fail + 1, skip),
        Some(Verdict::Skip(_)) => (pass, fail, skip + 1),
        None => (pass, fail, skip),
    })
}

/// What BMv2 passes, and how much of that the embedded switch passes.
fn held(rows: &[Row]) -> (usize, usize) {
    let by_bmv2 = rows.iter().filter(|row| row.bmv2 == Some(Verdict::Pass));
    let both = by_bmv2.clone().filter(|row| row.embedded == Some(Verdict::Pass));
    (by_bmv2.count(), both.count())
}

fn report(rows: &[Row]) -> serde_json::Value {
    let summary = |(passed, failed, skipped)| json!({"passed": passed, "failed": failed, "skipped": skipped});
    let (by_bmv2, both) = held(rows);
    let one = |verdict: &Option<Verdict>| json!({"verdict": word(verdict).to_lowercase(), "reason": reason(verdict)});
    json!({
        "scripts": rows.len(),
        "embedded": summary(counts(rows.iter().map(|row| &row.embedded))),
        "bmv2": summary(counts(rows.iter().map(|row| &row.bmv2))),
        "passed_by_bmv2": by_bmv2,
        "of_these_by_embedded": both,
        "rows": rows.iter().map(|row| json!({
            "name": row.name, "embedded": one(&row.embedded), "bmv2": one(&row.bmv2),
        })).collect::<Vec<_>>(),
    })
}

fn print(rows: &[Row], which: Which) {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    println!("{:width$}  embedded  bmv2     reason", "script");
    for row in rows {
        let reasons: Vec<String> = [("embedded", &row.embedded), ("bmv2", &row.bmv2)]
            .into_iter()
            .filter_map(|(switch, verdict)| Some(format!("{switch}: {}", reason(verdict)?)))
            .collect();
        let line = format!(
            "{:width$}  {:8}  {:7}  {}",
            row.name,
            word(&row.embedded),
            word(&row.bmv2),
            reasons.join("; ")
        );
        println!("{}", line.trim_end());
    }
    for (name, (pass, fail, skip)) in [
        ("embedded", counts(rows.iter().map(|row| &row.embedded))),
        ("bmv2", counts(rows.iter().map(|row| &row.bmv2))),
    ] {
        if pass + fail + skip > 0 {
            println!("{name}: {pass} passed, {fail} failed, {skip} skipped");
        }
    }
    if which == Which::Both {
        let (by_bmv2, both) = held(rows);
        let percent = 100.0 * both as f64 / by_bmv2.max(1) as f64;
        println!("of {by_bmv2} that BMv2 passes the embedded switch passes {both} ({percent:.1} %)");
    }
}
