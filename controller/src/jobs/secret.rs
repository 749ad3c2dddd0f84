//! Tokens of jobs and of memberships: made here, kept as digests.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Where tokens come from: a key of the system's random numbers, and how many were made of it.
pub(super) struct Mint {
    key: Option<[u8; 32]>,
    made: u64,
}

/// What is kept of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Mint {
    pub(super) fn new() -> Self {
        use std::io::Read;
        let mut key = [0; 32];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut key));
        Self { key: read.ok().map(|()| key), made: 0 }
    }

    /// A token that nobody can guess. `None`: this system has no random numbers.
    pub(super) fn token(&mut self, kind: &str) -> Option<String> {
        let hash = Sha256::new().chain_update(self.key?).chain_update(self.made.to_be_bytes());
        self.made += 1;
        Some(format!("inca_{kind}_{}", hex(&hash.finalize())))
    }
}

impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mint").field("made", &self.made).finish_non_exhaustive()
    }
}

impl Digest {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether it is this token's; how long that takes says nothing of where they differ.
    pub(super) fn is_of(&self, token: &str) -> bool {
        self.is(&Self::of(token))
    }

    /// The same of two digests.
    pub(super) fn is(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest(..)")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |at: usize| -> Option<u8> { u8::from_str_radix(text.get(at..at + 2)?, 16).ok() };
        let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(digit).collect();
        let bytes = bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("a digest must be 64 hexadecimal digits"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
