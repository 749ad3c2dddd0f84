//! What BMv2 sent for each frame of a recipe, as hashes that are committed: the embedded switch is held to them where BMv2 is absent.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::target::{Sent, compiled};
use crate::traffic::Step;

/// Set to 1 to let a run with BMv2 write its hashes.
pub const RECORD: &str = "INCA_RECORD";

/// Hashes of one recipe's frames and of what BMv2 sent for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// What it is and who wrote it.
    pub about: String,
    /// `p4/compiled/SOURCES.sha256` when it was made, to explain a difference.
    pub program: String,
    /// Frames.
    pub steps: usize,
    /// Hash of all frames and their ports, 16 hexadecimal digits.
    pub input: String,
    /// 8 hexadecimal digits for each frame, [`PER_LINE`] frames a line.
    pub sent: Vec<String>,
}

const PER_LINE: usize = 16;
const DIGITS: usize = 8;

impl Recording {
    /// Of these frames and what was sent for them.
    pub fn new(about: &str, steps: &[Step], sent: &[Sent]) -> Self {
        let mut input = Fnv::default();
        for step in steps {
            input.frame(step.port, &step.frame);
        }
        let hashes: Vec<String> = sent.iter().map(hash).collect();
        Self {
            about: about.to_owned(),
            program: program_stamp(),
            steps: steps.len(),
            input: format!("{:016x}", input.0),
            sent: hashes.chunks(PER_LINE).map(<[String]>::concat).collect(),
        }
    }

    /// The first frame for which two recordings of the same recipe differ.
    pub fn first_difference(&self, other: &Self) -> Option<usize> {
        let (ours, theirs) = (self.sent.concat(), other.sent.concat());
        let mut pairs = ours.as_bytes().chunks(DIGITS).zip(theirs.as_bytes().chunks(DIGITS));
        let longer = ours.len() != theirs.len();
        pairs
            .position(|(ours, theirs)| ours != theirs)
            .or(longer.then_some(ours.len().min(theirs.len()) / DIGITS))
    }

    /// The committed recording of this name.
    ///
    /// # Panics
    /// If there is none, or it can't be read.
    pub fn load(name: &str) -> Self {
        let path = path(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; a run with BMv2 and {RECORD}=1 writes it", path.display())
        });
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Writes it if the environment asks for it; true if so.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn save_if_asked(&self, name: &str) -> bool {
        let asked = std::env::var(RECORD).is_ok_and(|value| value == "1");
        if asked {
            let path = path(name);
            let text = serde_json::to_string_pretty(self).expect("strings and numbers are json");
            std::fs::write(&path, text + "\n").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        asked
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(format!("{name}.json"))
}

fn program_stamp() -> String {
    let path = compiled().join("SOURCES.sha256");
    std::fs::read_to_string(path).unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
}

fn hash(sent: &Sent) -> String {
    let mut hash = Fnv::default();
    for (port, frame) in sent {
        hash.frame(*port, frame);
    }
    // Both halves count.
    format!("{:08x}", (hash.0 >> 32) as u32 ^ hash.0 as u32)
}

/// 64-bit FNV-1a: enough to notice a difference, and it never changes.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn frame(&mut self, port: u16, frame: &[u8]) {
        self.bytes(&port.to_be_bytes());
        self.bytes(&(frame.len() as u32).to_be_bytes());
        self.bytes(frame);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
