//! The recipe whose outcome on BMv2 is recorded: our own programs in `programs/`, with random entries and frames.

use std::path::PathBuf;

use inca_p4runtime::P4Info;

use super::folder::{Case, Kind, Loaded, cases};
use super::run::requests;
use super::{Bench, BenchError, Request, Sent, random};
use crate::rng::Rng;

/// Name of the recording.
pub const NAME: &str = "bmv2-programs";
/// What the recording says of itself.
pub const ABOUT: &str = "Hashes of what BMv2 (simple_switch_grpc) sent for each frame of the seeded recipe in \
    tests/src/stf/recipe.rs; written by the suite programs with INCA_RECORD=1.";
/// Times that a program gets new entries on a new switch.
const ROUNDS: u64 = 2;
/// Frames of each round.
const FRAMES: usize = 1000;

/// The folder of our programs and scripts.
pub fn folder() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/programs").into()
}

/// One program with entries and frames.
#[derive(Debug)]
pub struct Round {
    /// The program.
    pub case: Case,
    /// Its files, read.
    pub loaded: Loaded,
    /// What the switch is told before.
    pub requests: Vec<Request>,
    /// What it is fed.
    pub frames: Vec<(u16, Vec<u8>)>,
}

/// The rounds of all programs, of a seed.
///
/// # Panics
/// If a program or script can't be read.
pub fn rounds(seed: u64) -> Vec<Round> {
    let folder = folder();
    let cases = cases(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut all = Vec::new();
    for (index, case) in cases.into_iter().enumerate() {
        for round in 0..ROUNDS {
            let mut loaded = case.load().unwrap_or_else(|verdict| panic!("{}: {verdict:?}", case.name));
            let mut rng = Rng::of(&[seed, index as u64, round]);
            let said = requests(&loaded.names, &loaded.script)
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let info = P4Info::from_file(&case.info).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            loaded.names.learn(&info);
            let requests = random::requests(&loaded.names, &said, &mut rng);
            let frames = random::frames(&loaded.script, FRAMES, &mut rng);
            all.push(Round { case: case.clone(), loaded, requests, frames });
        }
    }
    all
}

impl Round {
    /// A new switch, filled.
    ///
    /// # Errors
    /// If it does not take the program or the requests.
    pub fn start(&self, kind: Kind) -> Result<Box<dyn Bench>, BenchError> {
        let mut bench = self.case.programmed(&self.loaded, kind)?;
        for request in &self.requests {
            bench.apply(request).map_err(|error| BenchError::Refused(format!("{request:?}: {error}")))?;
        }
        Ok(bench)
    }

    /// What a new switch sends for each frame, sorted: the order between ports is each switch's own affair.
    ///
    /// # Errors
    /// If it refuses something, or dies.
    pub fn run(&self, kind: Kind) -> Result<Vec<Sent>, BenchError> {
        let mut sent = self.start(kind)?.process(&self.frames)?;
        sent.iter_mut().for_each(|sent| sent.sort());
        Ok(sent)
    }
}
