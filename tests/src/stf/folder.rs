//! All scripts of a folder: `NAME.stf` beside `NAME.json`, with `NAME.p4info.txtpb` where BMv2 is to be programmed.

use std::path::{Path, PathBuf};

use super::bmv2::{self, Bmv2};
use super::embedded::Embedded;
use super::names::Names;
use super::run::{Verdict, needs_control, run};
use super::script::{Script, parse};
use super::{Bench, BenchError};

/// Which switch runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In process.
    Embedded,
    /// `simple_switch_grpc` from PATH.
    Bmv2,
}

/// A script with its program.
#[derive(Debug, Clone)]
pub struct Case {
    /// File name without ending.
    pub name: String,
    /// The script's path.
    pub script: PathBuf,
    /// The program's path; the file may be missing.
    pub json: PathBuf,
    /// The P4Info's path; the file may be missing.
    pub info: PathBuf,
}

/// The scripts of a folder, by name.
///
/// # Errors
/// If the folder can't be read.
pub fn cases(folder: &Path) -> std::io::Result<Vec<Case>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let script = entry?.path();
        let Some(name) = script.file_name().and_then(|name| name.to_str()?.strip_suffix(".stf")) else {
            continue;
        };
        let beside = |ending: &str| folder.join(format!("{name}{ending}"));
        let (name, json, info) = (name.to_owned(), beside(".json"), beside(".p4info.txtpb"));
        all.push(Case { name, script, json, info });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// A script read, with what its names mean.
#[derive(Debug)]
pub struct Loaded {
    /// The script.
    pub script: Script,
    /// The program's names.
    pub names: Names,
    /// The program.
    pub json: String,
}

impl Case {
    /// Reads the files.
    ///
    /// # Errors
    /// If one is missing or makes no sense.
    pub fn load(&self) -> Result<Loaded, Verdict> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        if !self.json.is_file() {
            return Err(Verdict::Skip("it is not compiled".to_owned()));
        }
        let text = read(&self.script).map_err(Verdict::Fail)?;
        let script = parse(&text).map_err(|error| Verdict::Fail(error.to_string()))?;
        let json = read(&self.json).map_err(Verdict::Fail)?;
        let names = Names::new(&json).map_err(Verdict::Fail)?;
        Ok(Loaded { script, names, json })
    }

    /// A fresh switch with the program.
    ///
    /// # Errors
    /// If the switch does not take the program, or is not there.
    pub fn bench(&self, loaded: &Loaded, kind: Kind) -> Result<Box<dyn Bench>, BenchError> {
        self.start(loaded, kind, needs_control(&loaded.script))
    }

    /// The same, to be programmed whether the script has statements for it or not.
    ///
    /// # Errors
    /// As [`Self::bench`].
    pub fn programmed(&self, loaded: &Loaded, kind: Kind) -> Result<Box<dyn Bench>, BenchError> {
        self.start(loaded, kind, true)
    }

    fn start(&self, loaded: &Loaded, kind: Kind, control: bool) -> Result<Box<dyn Bench>, BenchError> {
        match kind {
            Kind::Embedded => Ok(Box::new(Embedded::new(&loaded.json)?)),
            Kind::Bmv2 => {
                let binary = bmv2::find()
                    .ok_or_else(|| BenchError::Cannot("simple_switch_grpc not found".to_owned()))?;
                let info = (control && self.info.is_file()).then_some(self.info.as_path());
                Ok(Box::new(Bmv2::start(&binary, &self.json, info)?))
            }
        }
    }

    /// Runs the script on a fresh switch.
    pub fn run(&self, kind: Kind) -> Verdict {
        let loaded = match self.load() {
            Ok(loaded) => loaded,
            Err(verdict) => return verdict,
        };
        match self.bench(&loaded, kind) {
            Ok(mut bench) => run(&loaded.names, &loaded.script, bench.as_mut()),
            Err(BenchError::Cannot(reason)) => Verdict::Skip(reason),
            Err(BenchError::Refused(reason)) => Verdict::Fail(reason),
        }
    }
}
