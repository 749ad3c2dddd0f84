//! The file as written: names, types and defaults of its keys.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::Deserialize;
use serde_yaml::Spanned;

use super::InventoryError;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) switches: Spanned<Vec<Switch>>,
    #[serde(default)]
    pub(super) hosts: Vec<Host>,
    #[serde(default = "default_listen")]
    pub(super) listen: Vec<Spanned<String>>,
    pub(super) service_subnet: Option<Spanned<String>>,
    pub(super) announce_address: Option<Spanned<Ipv4Addr>>,
    #[serde(default)]
    pub(super) discovery: Discovery,
    #[serde(default)]
    pub(super) trees: Trees,
    #[serde(default)]
    pub(super) failure: Failure,
    pub(super) pipeline: Option<Pipeline>,
    #[serde(default)]
    pub(super) security: Security,
    #[serde(default)]
    pub(super) limits: Limits,
    pub(super) store: Option<std::path::PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub(super) name: Spanned<String>,
    pub(super) target: Spanned<String>,
    pub(super) device_id: Spanned<u64>,
    pub(super) ports: Option<Vec<Spanned<u64>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) name: Spanned<String>,
    pub(super) address: Spanned<Ipv4Addr>,
    pub(super) mac: Spanned<String>,
    pub(super) switch: Spanned<String>,
    pub(super) port: Spanned<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Discovery {
    /// Links are looked for on ports 1 to this, where a switch has no list.
    pub(super) ports: Option<Spanned<u64>>,
    pub(super) probe_interval_ms: Option<Spanned<u64>>,
    pub(super) link_timeout_ms: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trees {
    pub(super) slots_per_tree: Option<Spanned<u64>>,
    pub(super) stripes: Option<Spanned<u64>>,
    pub(super) resend_interval_ms: Option<Spanned<u64>>,
    pub(super) leave_linger_ms: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    pub(super) attach_grace_ms: Option<Spanned<u64>>,
    pub(super) report_timeout_ms: Option<Spanned<u64>>,
    pub(super) patience_ms: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pipeline {
    pub(super) json: PathBuf,
    pub(super) p4info: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) groups_per_tenant: Option<Spanned<u64>>,
    pub(super) slots_per_tenant: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Security {
    pub(super) tokens: Option<PathBuf>,
    pub(super) audit: Option<PathBuf>,
    #[serde(default)]
    pub(super) submitted_only: bool,
    pub(super) requests_per_second: Option<Spanned<u64>>,
    pub(super) tls: Option<Tls>,
    pub(super) p4runtime: Option<P4Runtime>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    pub(super) client_ca: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct P4Runtime {
    pub(super) ca: PathBuf,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

fn default_listen() -> Vec<Spanned<String>> {
    let nowhere = serde_yaml::Location::UNKNOWN;
    vec![Spanned { value: "127.0.0.1:50051".to_owned(), referenced: nowhere, defined: nowhere }]
}

impl File {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, InventoryError> {
        let at = |line, column, message| InventoryError::At { path: path.to_owned(), line, column, message };
        // Editors on other systems begin a file with a byte order mark; it is no part of the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Err(at(
                1,
                1,
                "the inventory is empty: it needs `switches`, a list of {name, target, device_id}".to_owned(),
            ));
        }
        if let Some((line, column)) = tab_indent(text) {
            return Err(at(
                line,
                column,
                "a tab in the indentation: yaml is indented with spaces".to_owned(),
            ));
        }
        serde_yaml::from_str_with_options(text, options()).map_err(|error| {
            let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
            let message = error.without_snippet().to_string();
            // The place comes first in our messages, so it need not be said again.
            let place = format!(" at line {line}, column {column}");
            let message = message.strip_suffix(&place).unwrap_or(&message);
            // Of what may be done about it the parser names an option of its own.
            let message = message.split_once(", set DuplicateKeyPolicy").map_or(message, |(what, _)| what);
            let message = match message.strip_prefix("invalid ") {
                Some(what) => misfit(text, line, column, what),
                None => None,
            }
            .unwrap_or_else(|| message.to_owned());
            at(line, column, message)
        })
    }
}

/// What a value of the wrong kind is, whose it is, and what it should be: the parser tells only where it is.
fn misfit(text: &str, line: u64, column: u64, what: &str) -> Option<String> {
    let valid = match what {
        "u64" => "a whole number, not below 0",
        "IPv4 address syntax" => "a dotted IPv4 address",
        "boolean" | "bool" => "true or false",
        _ => return None,
    };
    let before: usize =
        text.split_inclusive('\n').take(usize::try_from(line).ok()?.checked_sub(1)?).map(str::len).sum();
    let row = text.get(before..)?.lines().next()?;
    let start = row.char_indices().nth(usize::try_from(column).ok()?.checked_sub(1)?)?.0;
    let given = row[start..].split([',', ']', '}', '#']).next()?.trim();
    let head = &text[..before + start];
    let key = head.rsplit(':').nth(1)?;
    let key = key
        .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .next()
        .filter(|key| !key.is_empty())?;
    Some(format!("{key} is {given}: must be {valid}"))
}

fn options() -> serde_yaml::Options {
    let mut options = serde_yaml::Options::default();
    options.with_snippet = false;
    options
}

/// The YAML parser's own message on tabs speaks of tokens.
fn tab_indent(text: &str) -> Option<(u64, u64)> {
    text.lines().zip(1..).find_map(|(line, number)| {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let is_blank = indent == line.trim_end().len() || line.trim().is_empty();
        let tab = line[..indent].find('\t').filter(|_| !is_blank)?;
        Some((number, tab as u64 + 1))
    })
}
