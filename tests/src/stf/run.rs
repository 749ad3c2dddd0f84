//! A script on a bench.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Memory, Names};
use super::script::{Check, Pattern, Script, Statement};
use super::{Bench, BenchError, Request};

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As expected.
    Pass,
    /// Not so, with the reason.
    Fail(String),
    /// This kind of switch can't run it.
    Skip(String),
}

/// True if a script needs a control plane.
pub fn needs_control(script: &Script) -> bool {
    let free = |statement: &Statement| {
        matches!(statement, Statement::Packet(..) | Statement::Expect(..) | Statement::Nothing)
    };
    !script.statements.iter().all(|(_, statement)| free(statement))
}

/// The control plane's statements alone.
///
/// # Errors
/// If a name means nothing in the program.
pub fn requests(names: &Names, script: &Script) -> Result<Vec<Request>, String> {
    let mut memory = Memory::default();
    let mut all = Vec::new();
    for (line, statement) in &script.statements {
        let request =
            names.request(statement, &mut memory).map_err(|error| format!("line {line}: {error}"))?;
        all.extend(request);
    }
    Ok(all)
}

/// Runs a script.
pub fn run(names: &Names, script: &Script, bench: &mut dyn Bench) -> Verdict {
    match Run::new(script).all(names, script, bench) {
        Ok(()) => Verdict::Pass,
        Err(Stop::Failed(reason)) => Verdict::Fail(reason),
        Err(Stop::Cannot(reason)) => Verdict::Skip(reason),
    }
}

/// The script as a switch answers it: each packet with the frames it causes, as `expect` statements.
///
/// # Errors
/// If the switch refuses a statement, or dies.
pub fn show(names: &Names, script: &Script, bench: &mut dyn Bench) -> Result<Vec<String>, String> {
    let mut memory = Memory::default();
    let mut lines = Vec::new();
    for (line, statement) in &script.statements {
        let at = |error: &dyn std::fmt::Display| format!("line {line}: {error}");
        if let Statement::Packet(port, frame) = statement {
            lines.push(format!("packet {port} {}", hex(frame)));
            let sent = bench.process(&[(*port, frame.clone())]).map_err(|error| at(&error))?;
            let expected = sent.into_iter().flatten();
            lines.extend(expected.map(|(port, frame)| format!("expect {port} {}$", hex(&frame))));
        } else if let Some(request) = names.request(statement, &mut memory).map_err(|error| at(&error))? {
            bench.apply(&request).map_err(|error| at(&error))?;
            lines.push(format!("# {request:?}"));
        }
    }
    Ok(lines)
}

enum Stop {
    Failed(String),
    Cannot(String),
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

struct Run {
    /// Ports that the script mentions: all others go unseen.
    ports: BTreeSet<u16>,
    waiting: Vec<(u16, Vec<u8>)>,
    sent: BTreeMap<u16, Vec<Vec<u8>>>,
    expected: BTreeMap<u16, Vec<Option<Pattern>>>,
}

impl Run {
    fn new(script: &Script) -> Self {
        let port = |(_, statement): &(usize, Statement)| match statement {
            Statement::Packet(port, _) | Statement::Expect(port, _) => Some(*port),
            _ => None,
        };
        let ports = script.statements.iter().filter_map(port).collect();
        Self { ports, waiting: Vec::new(), sent: BTreeMap::new(), expected: BTreeMap::new() }
    }

    fn all(mut self, names: &Names, script: &Script, bench: &mut dyn Bench) -> Result<(), Stop> {
        let mut memory = Memory::default();
        for (line, statement) in &script.statements {
            let at = |error: String| format!("line {line}: {error}");
            let on_bench = |error: BenchError| match error {
                BenchError::Cannot(reason) => Stop::Cannot(at(reason)),
                BenchError::Refused(reason) => Stop::Failed(at(reason)),
            };
            match statement {
                Statement::Packet(port, frame) => self.waiting.push((*port, frame.clone())),
                Statement::Expect(port, pattern) => {
                    self.expected.entry(*port).or_default().push(pattern.clone());
                }
                Statement::CheckCounter(name, index, check) => {
                    self.flush(bench).map_err(on_bench)?;
                    let counter = names.counter(name, index, &memory).map_err(at)?;
                    let value = bench.counter(&counter).map_err(on_bench)?;
                    compare(name, *check, value).map_err(at)?;
                }
                other => {
                    self.flush(bench).map_err(on_bench)?;
                    if let Some(request) = names.request(other, &mut memory).map_err(at)? {
                        bench.apply(&request).map_err(on_bench)?;
                    }
                }
            }
        }
        self.flush(bench).map_err(|error| match error {
            BenchError::Cannot(reason) => Stop::Cannot(reason),
            BenchError::Refused(reason) => Stop::Failed(reason),
        })?;
        Ok(self.compare()?)
    }

    fn flush(&mut self, bench: &mut dyn Bench) -> Result<(), BenchError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        for (port, frame) in bench.process(&std::mem::take(&mut self.waiting))?.into_iter().flatten() {
            self.sent.entry(port).or_default().push(frame);
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), String> {
        for port in &self.ports {
            let sent = self.sent.get(port).map_or(&[][..], Vec::as_slice);
            let expected = self.expected.get(port).map_or(&[][..], Vec::as_slice);
            for (index, (frame, pattern)) in sent.iter().zip(expected).enumerate() {
                if let Some(pattern) = pattern {
                    matches(pattern, frame)
                        .map_err(|problem| format!("port {port}, frame {}: {problem}", index + 1))?;
                }
            }
            if sent.len() != expected.len() {
                let seen: Vec<String> = sent.iter().map(|frame| hex(frame)).collect();
                return Err(format!(
                    "port {port}: {} frames where {} are expected: {}",
                    sent.len(),
                    expected.len(),
                    seen.join(" ")
                ));
            }
        }
        Ok(())
    }
}

fn compare(
    name: &str,
    check: Option<Check>,
    value: inca_switch::control::CounterValue,
) -> Result<(), String> {
    let Some(check) = check else { return Ok(()) };
    let found = if check.bytes { value.bytes } else { value.packets };
    let holds = match check.relation {
        "==" => found == check.value,
        "!=" => found != check.value,
        "<" => found < check.value,
        "<=" => found <= check.value,
        ">" => found > check.value,
        _ => found >= check.value,
    };
    let unit = if check.bytes { "bytes" } else { "packets" };
    if holds {
        Ok(())
    } else {
        Err(format!("counter {name}: {found} {unit}, not {} {}", check.relation, check.value))
    }
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn matches(pattern: &Pattern, frame: &[u8]) -> Result<(), String> {
    let seen = hex(frame);
    let wanted = String::from_utf8_lossy(&pattern.digits);
    let same = pattern.digits.len() <= seen.len()
        && pattern.digits.iter().zip(seen.as_bytes()).all(|(want, got)| *want == b'*' || want == got)
        && (!pattern.exact || pattern.digits.len() == seen.len());
    let end = if pattern.exact { "$" } else { "" };
    if same { Ok(()) } else { Err(format!("{seen} where {wanted}{end} is expected")) }
}
