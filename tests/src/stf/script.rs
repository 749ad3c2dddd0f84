//! The STF format: one statement a line, `#` begins a comment.

use thiserror::Error;

/// A script that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
}

/// An action's name and its arguments by name, as written.
pub type WrittenCall = (String, Vec<(String, String)>);

/// A frame that is expected: hexadecimal digits in upper case, `*` for any digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The digits.
    pub digits: Vec<u8>,
    /// Nothing may follow.
    pub exact: bool,
}

/// How a counter is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Bytes instead of packets.
    pub bytes: bool,
    /// `==`, `!=`, `<`, `<=`, `>`, `>=`.
    pub relation: &'static str,
    /// What the counter is compared with.
    pub value: u64,
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `add TABLE [PRIORITY] FIELD:VALUE... ACTION(ARG:VALUE,...) [= HANDLE]`
    Add {
        /// Table.
        table: String,
        /// Larger wins.
        priority: Option<String>,
        /// Fields and values.
        keys: Vec<(String, String)>,
        /// Action.
        call: WrittenCall,
        /// Name by which later statements know the entry.
        handle: Option<String>,
    },
    /// `setdefault TABLE ACTION(...)`
    SetDefault(String, WrittenCall),
    /// `remove all`
    RemoveAll,
    /// `packet PORT DIGITS`
    Packet(u16, Vec<u8>),
    /// `expect PORT [DIGITS]`; without digits any frame.
    Expect(u16, Option<Pattern>),
    /// `check_counter NAME(INDEX or HANDLE) [packets|bytes RELATION NUMBER]`
    CheckCounter(String, String, Option<Check>),
    /// `member PROFILE ID ACTION(...)`
    Member(String, u32, WrittenCall),
    /// `group PROFILE ID MEMBER...`
    Group(String, u32, Vec<u32>),
    /// `mirroring_add SESSION PORT`
    Mirror(u32, u16),
    /// `mirroring_add_mc SESSION GROUP`
    MirrorGroup(u32, u32),
    /// `mc_mgrp_create GROUP`
    GroupCreate(u32),
    /// `mc_node_create INSTANCE PORT...`
    NodeCreate(u16, Vec<u16>),
    /// `mc_node_associate GROUP NODE`
    NodeAssociate(u32, usize),
    /// `register_write NAME INDEX VALUE`, `register_reset NAME`
    Register(String, Option<usize>, String),
    /// `counter_write NAME INDEX PACKETS BYTES`
    CounterWrite(String, usize, u64, u64),
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`, `meter_array_set_rates NAME ...`; rates a microsecond.
    Meter(String, Option<usize>, Vec<(f64, u64)>),
    /// `wait`, `no_packet`, and statements that only print.
    Nothing,
}

/// A script: statements with their lines.
#[derive(Debug, Clone)]
pub struct Script {
    /// In order.
    pub statements: Vec<(usize, Statement)>,
}

/// Reads a script.
///
/// # Errors
/// At the first statement that is none.
pub fn parse(text: &str) -> Result<Script, ScriptError> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let first = line.split_whitespace().next().unwrap_or("").to_ascii_lowercase();
        match lines.last_mut() {
            _ if line.is_empty() => {}
            // A statement may go on in the next line.
            Some((_, before)) if !KEYWORDS.contains(&first.as_str()) => {
                before.push(' ');
                before.push_str(line);
            }
            _ => lines.push((index + 1, line.to_owned())),
        }
    }
    let parsed = lines.into_iter().map(|(line, text)| {
        let statement = statement(&text).map_err(|problem| ScriptError { line, problem })?;
        Ok((line, statement))
    });
    Ok(Script { statements: parsed.collect::<Result<_, _>>()? })
}

const KEYWORDS: [&str; 26] = [
    "add",
    "setdefault",
    "remove",
    "packet",
    "expect",
    "no_packet",
    "wait",
    "check_counter",
    "member",
    "group",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "mc_mgrp_create",
    "mc_node_create",
    "mc_node_update",
    "mc_node_associate",
    "counter_read",
    "counter_write",
    "register_read",
    "register_write",
    "register_reset",
    "meter_get_rates",
    "meter_set_rates",
    "meter_array_set_rates",
];

fn statement(text: &str) -> Result<Statement, String> {
    let (keyword, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let keyword = keyword.to_ascii_lowercase();
    if let "packet" | "expect" = keyword.as_str() {
        return frame(&keyword, rest);
    }
    let mut tokens = Tokens::new(rest)?;
    let statement = match keyword.as_str() {
        "add" => add(&mut tokens)?,
        "setdefault" => Statement::SetDefault(tokens.word("a table")?, tokens.call()?),
        "remove" => match tokens.word("all")?.to_ascii_lowercase().as_str() {
            "all" => Statement::RemoveAll,
            other => return Err(format!("remove {other}: only \"remove all\" is known")),
        },
        "check_counter" => check_counter(&mut tokens)?,
        "member" => Statement::Member(tokens.word("a profile")?, tokens.small("an id")?, tokens.call()?),
        "group" => {
            Statement::Group(tokens.word("a profile")?, tokens.small("an id")?, tokens.smalls("a member")?)
        }
        "mirroring_add" => Statement::Mirror(tokens.small("a session")?, tokens.small("a port")?),
        "mirroring_add_mc" => Statement::MirrorGroup(tokens.small("a session")?, tokens.small("a group")?),
        "mc_mgrp_create" => Statement::GroupCreate(tokens.small("a group")?),
        "mc_node_create" => Statement::NodeCreate(tokens.small("an instance")?, tokens.smalls("a port")?),
        "mc_node_associate" => Statement::NodeAssociate(tokens.small("a group")?, tokens.small("a node")?),
        "register_write" => {
            let (name, index) = (tokens.word("a register")?, tokens.small("an index")?);
            Statement::Register(name, Some(index), tokens.word("a value")?)
        }
        "register_reset" => Statement::Register(tokens.word("a register")?, None, "0".to_owned()),
        "counter_write" => Statement::CounterWrite(
            tokens.word("a counter")?,
            tokens.small("an index")?,
            tokens.small("packets")?,
            tokens.small("bytes")?,
        ),
        "meter_set_rates" => {
            Statement::Meter(tokens.word("a meter")?, Some(tokens.small("an index")?), tokens.rates()?)
        }
        "meter_array_set_rates" => Statement::Meter(tokens.word("a meter")?, None, tokens.rates()?),
        "wait" | "no_packet" => Statement::Nothing,
        "mirroring_get" | "counter_read" | "register_read" | "meter_get_rates" => {
            return Ok(Statement::Nothing);
        }
        _ => return Err(format!("unknown statement {keyword:?}")),
    };
    tokens.end()?;
    Ok(statement)
}

fn frame(keyword: &str, rest: &str) -> Result<Statement, String> {
    let rest = rest.trim();
    let (port, data) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let port: u16 = port.parse().map_err(|_| format!("{keyword}: port {port:?} is no number up to 65535"))?;
    let mut digits: Vec<u8> = data
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| byte.to_ascii_uppercase())
        .collect();
    if keyword == "packet" {
        if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) || digits.is_empty() {
            return Err("packet: its data must be pairs of hexadecimal digits".to_owned());
        }
        let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        return Ok(Statement::Packet(
            port,
            digits.chunks(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect(),
        ));
    }
    if digits.is_empty() {
        return Ok(Statement::Expect(port, None));
    }
    let exact = digits.last() == Some(&b'$');
    if exact {
        digits.pop();
    }
    match digits.iter().find(|digit| !digit.is_ascii_hexdigit() && **digit != b'*') {
        Some(other) => {
            Err(format!("expect: {:?} is no hexadecimal digit, * or a $ at the end", *other as char))
        }
        None => Ok(Statement::Expect(port, Some(Pattern { digits, exact }))),
    }
}

fn add(tokens: &mut Tokens) -> Result<Statement, String> {
    let table = tokens.word("a table")?;
    let numeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let priority = match tokens.peek(0) {
        Some(first) if numeric(first) && tokens.peek(1) != Some(":") => Some(tokens.word("a priority")?),
        _ => None,
    };
    let mut keys = Vec::new();
    while tokens.peek(1) == Some(":") {
        let field = tokens.word("a field")?;
        tokens.expect(":")?;
        let mut value = tokens.word("a value")?;
        if tokens.peek(0) == Some("/") {
            tokens.expect("/")?;
            value = format!("{value}/{}", tokens.word("a prefix length")?);
        }
        keys.push((field, value));
    }
    let call = tokens.call()?;
    let handle = match tokens.peek(0) {
        Some("=") => {
            tokens.expect("=")?;
            Some(tokens.word("a handle")?)
        }
        _ => None,
    };
    Ok(Statement::Add { table, priority, keys, call, handle })
}

fn check_counter(tokens: &mut Tokens) -> Result<Statement, String> {
    let name = tokens.word("a counter")?;
    tokens.expect("(")?;
    let index = tokens.word("an index or a handle")?;
    tokens.expect(")")?;
    if tokens.peek(0).is_none() {
        return Ok(Statement::CheckCounter(name, index, None));
    }
    let bytes = match tokens.word("packets or bytes")?.as_str() {
        "packets" => false,
        "bytes" => true,
        other => return Err(format!("{other:?} where packets or bytes is needed")),
    };
    let relation = tokens.word("a relation")?;
    let known = ["==", "!=", "<", "<=", ">", ">="].into_iter().find(|known| *known == relation);
    let relation = known.ok_or_else(|| format!("{relation:?} is no relation"))?;
    Ok(Statement::CheckCounter(
        name,
        index,
        Some(Check { bytes, relation, value: tokens.small("a number")? }),
    ))
}

/// Words (names, numbers) and punctuation.
struct Tokens {
    all: Vec<String>,
    at: usize,
}

impl Tokens {
    fn new(text: &str) -> Result<Self, String> {
        let mut all: Vec<String> = Vec::new();
        let mut chars = text.chars().peekable();
        let mut glued = false;
        while let Some(first) = chars.next() {
            let mut token = String::new();
            match first {
                _ if first.is_whitespace() => {
                    glued = false;
                    continue;
                }
                '"' => {
                    token.extend(chars.by_ref().take_while(|c| *c != '"'));
                    if glued && let Some(last) = all.last_mut() {
                        last.push_str(&token);
                        continue;
                    }
                }
                _ if word(first) => {
                    token.push(first);
                    while let Some(next) = chars.next_if(|c| word(*c)) {
                        token.push(next);
                    }
                    if glued && let Some(last) = all.last_mut() {
                        last.push_str(&token);
                        continue;
                    }
                }
                '=' | '<' | '>' | '!' => {
                    token.push(first);
                    token.extend(chars.next_if_eq(&'='));
                }
                ':' | ',' | '(' | ')' | '/' => token.push(first),
                _ => return Err(format!("{first:?} means nothing here")),
            }
            glued = word(first) || first == '"';
            all.push(token);
        }
        Ok(Self { all, at: 0 })
    }

    fn peek(&self, ahead: usize) -> Option<&str> {
        self.all.get(self.at + ahead).map(String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        self.at += 1;
        self.all.get(self.at - 1).cloned()
    }

    fn word(&mut self, what: &str) -> Result<String, String> {
        self.next().ok_or_else(|| format!("{what} is missing at the end"))
    }

    fn small<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, String> {
        let word = self.word(what)?;
        let value = super::number::small(&word)?;
        T::try_from(value).map_err(|_| format!("{what}: {value} is too large"))
    }

    fn smalls<T: TryFrom<u64>>(&mut self, what: &str) -> Result<Vec<T>, String> {
        let mut all = Vec::new();
        while self.peek(0).is_some() {
            all.push(self.small(what)?);
        }
        Ok(all)
    }

    fn rates(&mut self) -> Result<Vec<(f64, u64)>, String> {
        let mut all = Vec::new();
        while self.peek(0).is_some() {
            let rate = self.word("a rate")?;
            let rate = rate.parse().map_err(|_| format!("{rate:?} is no rate"))?;
            self.expect(":")?;
            all.push((rate, self.small("a burst")?));
        }
        if all.len() == 2 { Ok(all) } else { Err(format!("{} rates, where 2 are needed", all.len())) }
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        match self.next() {
            Some(token) if token == wanted => Ok(()),
            Some(token) => Err(format!("{token:?} where {wanted:?} is needed")),
            None => Err(format!("{wanted:?} is missing at the end")),
        }
    }

    fn call(&mut self) -> Result<WrittenCall, String> {
        let name = self.word("an action")?;
        self.expect("(")?;
        let mut args = Vec::new();
        while self.peek(0).is_some_and(|token| token != ")") {
            if !args.is_empty() {
                self.expect(",")?;
            }
            let arg = self.word("an argument's name")?;
            self.expect(":")?;
            args.push((arg, self.word("a value")?));
        }
        self.expect(")")?;
        Ok((name, args))
    }

    fn end(&mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            Some(token) => Err(format!("{token:?} after the end of the statement")),
        }
    }
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$*.[]-".contains(c)
}

#[cfg(test)]
#[path = "script/tests.rs"]
mod tests;
