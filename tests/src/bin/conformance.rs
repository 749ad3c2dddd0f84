//! Holds our host agent and a switch to the conformance vectors, or writes them anew (`docs/conformance.md`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use inca_tests::bmv2::with_bmv2;
use inca_tests::conformance::{Broken, Vector, folder, triples};
use inca_tests::target::{Embedded, Target};

const HELP: &str = "\
conformance [write|check] [--switch embedded|bmv2|none] [--json] [FOLDER]

  check     (default) the host agent, then the switch, against every vector; writes target/reports/conformance.json
  write     has the reference model write every vector anew
  --switch  which switch to check (default: embedded)
  --json    print the report as JSON
  FOLDER    of the vectors (default: tests/conformance)";

struct Options {
    write: bool,
    switch: String,
    json: bool,
    folder: PathBuf,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            eprintln!("error: {what}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let done = if options.write { write(&options.folder) } else { check(&options) };
    match done {
        Ok(code) => code,
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { write: false, switch: "embedded".to_owned(), json: false, folder: folder() };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-h" | "--help" => return Ok(None),
            "check" => options.write = false,
            "write" => options.write = true,
            "--json" => options.json = true,
            "--switch" => match arguments.next().as_deref() {
                Some(switch @ ("embedded" | "bmv2" | "none")) => options.switch = switch.to_owned(),
                other => return Err(format!("--switch {other:?}: must be embedded, bmv2 or none")),
            },
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            path => options.folder = path.into(),
        }
    }
    Ok(Some(options))
}

fn write(folder: &Path) -> Result<ExitCode, String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for (dtype, format, op) in triples() {
        let vector = Vector::generate(dtype, format, op);
        let path = folder.join(vector.file());
        std::fs::write(&path, vector.text()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{} vectors written to {}", triples().len(), folder.display());
    Ok(ExitCode::SUCCESS)
}

fn check(options: &Options) -> Result<ExitCode, String> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&options.folder)
        .map_err(|error| format!("{}: {error}", options.folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let vectors: Result<Vec<Vector>, Broken> = paths.iter().map(|path| Vector::read(path)).collect();
    let vectors = vectors.map_err(|error| error.to_string())?;
    let mut failures: Vec<Broken> = vectors.iter().filter_map(|vector| vector.check_agent().err()).collect();
    match options.switch.as_str() {
        "none" => {}
        "bmv2" => {
            let found = with_bmv2(|bmv2| check_switch(bmv2, &vectors));
            failures.extend(found.ok_or("BMv2 can't be run here")?);
        }
        _ => failures.extend(check_switch(&mut Embedded::new(), &vectors)),
    }
    let report = serde_json::json!({
        "vectors": vectors.len(),
        "switch": options.switch,
        "failures": failures.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/reports");
    std::fs::create_dir_all(&reports).map_err(|error| error.to_string())?;
    std::fs::write(reports.join("conformance.json"), format!("{text}\n"))
        .map_err(|error| error.to_string())?;
    if options.json {
        println!("{text}");
    } else {
        failures.iter().for_each(|failure| println!("{failure}"));
        println!(
            "{} vectors, host agent and switch {}: {} do not hold",
            vectors.len(),
            options.switch,
            failures.len()
        );
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_switch(target: &mut impl Target, vectors: &[Vector]) -> Vec<Broken> {
    let check = |(index, vector): (usize, &Vector)| {
        vector.check_switch(target, 1 + 8 * index as u32, index as u64).err()
    };
    vectors.iter().enumerate().filter_map(check).collect()
}
