//! Writes the seeds of a fuzz target as files, for cargo-fuzz: `fuzz_seeds TARGET FOLDER`.

use std::path::Path;
use std::process::ExitCode;

use inca_tests::fuzz::{TARGETS, regressions, target};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder] = arguments.as_slice() else {
        eprintln!("usage: fuzz_seeds TARGET FOLDER");
        return ExitCode::from(2);
    };
    let Some(target) = target(name) else {
        let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("error: no target {name:?}, known are {}", known.join(", "));
        return ExitCode::from(2);
    };
    let kept = regressions(target).into_iter().map(|(_, input)| input);
    let seeds: Vec<_> = (target.seeds)().into_iter().chain(kept).collect();
    let folder = Path::new(folder);
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        seeds
            .iter()
            .enumerate()
            .try_for_each(|(index, seed)| std::fs::write(folder.join(format!("seed-{index:03}")), seed))
    });
    match written {
        Ok(()) => {
            println!("{} seeds in {}", seeds.len(), folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
