//! Who changed what: one line of JSON for every call that changes something or was not allowed to.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::extract::Request;
use serde::Serialize;

use super::ApiError;
use super::events::now_ms;
use super::gate::Caller;
use super::listen::Peer;

/// Longest name that is written out: a caller may give any.
const SHOWN: usize = 256;

/// The log. Lines go to the file, if there is one, and to the controller's own log.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    file: Option<Mutex<File>>,
}

#[derive(Serialize)]
struct Line<'a> {
    time_ms: u64,
    /// The token's name; empty: no tokens are in use, or none was given.
    who: &'a str,
    tenant: &'a str,
    address: &'a str,
    action: &'a str,
    object: &'a str,
    /// `done`, or why not.
    outcome: &'a str,
}

impl Audit {
    /// Appends to a file, which is made if it is not there.
    pub(crate) fn to_file(path: &Path) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file: Some(Mutex::new(file)) })
    }

    /// A call that changes something, and what came of it.
    pub(crate) fn done<T>(&self, caller: &Caller, action: &str, object: &str, result: &Result<T, ApiError>) {
        let outcome = result.as_ref().err().map(ToString::to_string);
        self.write(&Line {
            time_ms: now_ms(),
            who: &caller.name,
            tenant: caller.tenant.as_deref().unwrap_or_default(),
            address: &caller.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            action,
            object: cut(object),
            outcome: outcome.as_deref().unwrap_or("done"),
        });
    }

    /// A call that the gate refused.
    pub(super) fn refused(&self, request: &Request, error: &ApiError) {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address.ip().to_string());
        let who = match error {
            ApiError::Forbidden { name, .. } => name.as_str(),
            ApiError::TooMany { who, .. } => who.strip_prefix("token ").unwrap_or_default(),
            _ => "",
        };
        self.write(&Line {
            time_ms: now_ms(),
            who,
            tenant: "",
            address: peer.as_deref().unwrap_or_default(),
            action: request.method().as_str(),
            object: cut(request.uri().path()),
            outcome: &error.to_string(),
        });
    }

    fn write(&self, line: &Line<'_>) {
        let Line { who, address, action, object, outcome, .. } = line;
        tracing::info!(target: "audit", who, address, action, object, outcome);
        let Some(file) = &self.file else { return };
        let written = serde_json::to_string(line).map_err(std::io::Error::from).and_then(|text| {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // One write a line: lines of several controllers in one file do not mix.
            file.write_all((text + "\n").as_bytes())
        });
        if let Err(error) = written {
            tracing::error!(%error, "the audit log is not written");
        }
    }
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    &text[..end]
}
