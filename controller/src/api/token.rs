//! Bearer tokens: who they belong to and what they are good for, from a file that holds no secret.
//!
//! ```yaml
//! tokens:
//!   - {name: operations, role: admin, sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae}
//!   - {name: ci, tenant: research, role: submit, sha256: fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9}
//! ```
//!
//! A token is looked up by its SHA-256, so how long that takes says nothing of the tokens there are. The file is read again when it
//! changes; one that is wrong then leaves those in force that were.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::ApiError;

/// Time between two looks at whether the file has changed.
const LOOK: Duration = Duration::from_secs(1);
/// Longest name of a token or a tenant.
const MAX_NAME: usize = 64;

/// What a token is good for; each role includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look at everything: network, own jobs, metrics.
    Read,
    /// Join jobs.
    Submit,
    /// End jobs.
    Admin,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        })
    }
}

/// Why a token file can't be used.
#[derive(Debug, Error)]
pub enum TokenFileError {
    /// It can't be read.
    #[error("token file {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is not YAML of this form.
    #[error("token file {path}: {reason}")]
    Form {
        /// The file.
        path: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// An entry that can't be.
    #[error("token file {path}: token {name:?}: {reason}")]
    Entry {
        /// The file.
        path: String,
        /// The token's name.
        name: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// A token of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) tenant: Option<String>,
    pub(crate) role: Role,
}

type Set = HashMap<[u8; 32], Token>;

/// The tokens in force.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    set: Arc<Set>,
    changed: Option<SystemTime>,
    looked: Instant,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tokens: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    tenant: Option<String>,
    role: Role,
    sha256: String,
}

impl Tokens {
    /// Reads the file.
    pub(crate) fn from_file(path: &Path) -> Result<Self, TokenFileError> {
        let changed = changed(path);
        let set = Arc::new(read(path)?);
        let current = Mutex::new(Current { set, changed, looked: Instant::now() });
        Ok(Self { path: path.to_owned(), current })
    }

    /// The token of an `Authorization` header.
    pub(crate) fn find(&self, now: Instant, header: Option<&[u8]>) -> Result<Token, ApiError> {
        let header = header.ok_or(ApiError::NoToken)?;
        let scheme = header.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        let token = scheme.and(header.get(7..)).map(<[u8]>::trim_ascii).ok_or(ApiError::NoToken)?;
        let digest: [u8; 32] = Sha256::digest(token).into();
        self.set(now).get(&digest).cloned().ok_or(ApiError::WrongToken)
    }

    fn set(&self, now: Instant) -> Arc<Set> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(current.looked) >= LOOK {
            current.looked = now;
            let changed = changed(&self.path);
            if changed != current.changed {
                current.changed = changed;
                match read(&self.path) {
                    Ok(set) => {
                        tracing::info!(path = %self.path.display(), tokens = set.len(), "token file is read again");
                        current.set = Arc::new(set);
                    }
                    Err(error) => tracing::error!(%error, "the tokens stay as they were"),
                }
            }
        }
        current.set.clone()
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn read(path: &Path) -> Result<Set, TokenFileError> {
    let shown = || path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| TokenFileError::Read { path: shown(), source })?;
    parse(&shown(), &text)
}

fn parse(path: &str, text: &str) -> Result<Set, TokenFileError> {
    let file: File = serde_yaml::from_str(text).map_err(|error| TokenFileError::Form {
        path: path.to_owned(),
        reason: error.without_snippet().to_string(),
    })?;
    let mut set = Set::new();
    for Entry { name, tenant, role, sha256 } in file.tokens {
        let wrong =
            |reason: String| TokenFileError::Entry { path: path.to_owned(), name: name.clone(), reason };
        for text in [Some(&name), tenant.as_ref()].into_iter().flatten() {
            if !is_name(text) {
                let valid = format!("must be 1 to {MAX_NAME} ASCII letters, digits, '_', '.' or '-'");
                return Err(wrong(format!("{text:?} {valid}")));
            }
        }
        let digest = digest(&sha256).ok_or_else(|| {
            wrong(
                "sha256 must be 64 hexadecimal digits: `inca token` makes tokens and their entries"
                    .to_owned(),
            )
        })?;
        if set.values().any(|other: &Token| other.name == name) {
            return Err(wrong("this name is there twice".to_owned()));
        }
        if set.insert(digest, Token { name: name.clone(), tenant, role }).is_some() {
            return Err(wrong("another token has the same sha256".to_owned()));
        }
    }
    Ok(set)
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> =
        hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let mut digest = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(digest)
}

/// A new token, and its entry for the file.
///
/// # Errors
/// If the system has no random numbers, or a name is not valid.
pub fn make(name: &str, tenant: Option<&str>, role: Role) -> std::io::Result<(String, String)> {
    use std::io::{Error, ErrorKind, Read};
    for text in [Some(name), tenant].into_iter().flatten() {
        if !is_name(text) {
            let reason = format!("{text:?} must be 1 to {MAX_NAME} ASCII letters, digits, '_', '.' or '-'");
            return Err(Error::new(ErrorKind::InvalidInput, reason));
        }
    }
    let mut random = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token = format!("inca_{}", hex(&random));
    let tenant = tenant.map(|tenant| format!("tenant: {tenant}, ")).unwrap_or_default();
    let sha256 = hex(&Sha256::digest(token.as_bytes()));
    Ok((token, format!("  - {{name: {name}, {tenant}role: {role}, sha256: {sha256}}}")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
