//! Walking the JSON with a path, so that every error says where it is.

use std::rc::Rc;

use serde_json::Value;
use thiserror::Error;

use super::num::Num;

/// Deepest nesting accepted. Expressions nest two to three levels per operator.
const MAX_DEPTH: usize = 1000;

/// Why a JSON is not a program that this switch can run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Not JSON at all.
    #[error("not valid json: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Nested too deeply.
    #[error("json is nested more than {MAX_DEPTH} levels deep at byte {byte}")]
    TooDeep {
        /// Offset in the text.
        byte: usize,
    },
    /// JSON of another shape than the BMv2 format's.
    #[error("{path}: expected {expected}, found {found}")]
    Shape {
        /// Path inside the document, with object names where there are some.
        path: String,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A name or an id that nothing in the document has.
    #[error("{path}: no {what} {name:?}")]
    Dangling {
        /// Path inside the document.
        path: String,
        /// Kind of object referred to.
        what: &'static str,
        /// Name or id given.
        name: String,
    },
    /// A part of the format that this switch does not implement.
    #[error("{path}: {what} is not supported")]
    Unsupported {
        /// Path inside the document.
        path: String,
        /// The part.
        what: String,
    },
}

#[derive(Debug)]
enum Step {
    Key(&'static str),
    OwnedKey(String),
    Index(usize, Option<String>),
}

#[derive(Debug)]
struct PathNode {
    parent: Option<Rc<PathNode>>,
    step: Step,
}

/// A value of the document and where it is.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    path: Option<Rc<PathNode>>,
}

type Result<T> = std::result::Result<T, LoadError>;

/// Parses a document after checking its depth, so that neither parsing nor walking can exhaust the stack.
pub(crate) fn parse(text: &str) -> Result<Value> {
    check_depth(text)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = serde::Deserialize::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

fn check_depth(text: &str) -> Result<()> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (byte, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(LoadError::TooDeep { byte });
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

impl<'a> Node<'a> {
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: None }
    }

    fn child(&self, value: &'a Value, step: Step) -> Self {
        Self { value, path: Some(Rc::new(PathNode { parent: self.path.clone(), step })) }
    }

    /// Where this node is: `$.actions[3 "MyIngress.forward"].primitives[0].op`.
    pub(crate) fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut at = self.path.as_deref();
        while let Some(node) = at {
            steps.push(match &node.step {
                Step::Key(k) => format!(".{k}"),
                Step::OwnedKey(k) => format!(".{k}"),
                Step::Index(i, None) => format!("[{i}]"),
                Step::Index(i, Some(name)) => format!("[{i} {name:?}]"),
            });
            at = node.parent.as_deref();
        }
        steps.push("$".to_owned());
        steps.reverse();
        steps.concat()
    }

    pub(crate) fn wrong<T>(&self, expected: impl Into<String>) -> Result<T> {
        Err(LoadError::Shape { path: self.path(), expected: expected.into(), found: self.summary() })
    }

    pub(crate) fn dangling(&self, what: &'static str, name: impl ToString) -> LoadError {
        LoadError::Dangling { path: self.path(), what, name: name.to_string() }
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> LoadError {
        LoadError::Unsupported { path: self.path(), what: what.into() }
    }

    fn summary(&self) -> String {
        match self.value {
            Value::Null => "null or nothing".to_owned(),
            Value::Array(a) => format!("an array of {}", a.len()),
            Value::Object(o) => format!("an object with keys {:?}", o.keys().take(6).collect::<Vec<_>>()),
            other => {
                let text = other.to_string();
                if text.chars().count() > 60 {
                    format!("{}...", text.chars().take(57).collect::<String>())
                } else {
                    text
                }
            }
        }
    }

    /// A member of an object; null if it is absent.
    pub(crate) fn get(&self, key: &'static str) -> Node<'a> {
        let value = self.value.get(key).unwrap_or(&Value::Null);
        self.child(value, Step::Key(key))
    }

    /// A member with a key known at run time only.
    pub(crate) fn get_dynamic(&self, key: &str) -> Node<'a> {
        let value = self.value.get(key).unwrap_or(&Value::Null);
        self.child(value, Step::OwnedKey(key.to_owned()))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }

    /// Elements of an array; none if it is absent.
    pub(crate) fn items(&self) -> Result<Vec<Node<'a>>> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(i, v)| {
                    let name =
                        v.get("name").or_else(|| v.get("op")).and_then(Value::as_str).map(str::to_owned);
                    self.child(v, Step::Index(i, name))
                })
                .collect()),
            _ => self.wrong("an array"),
        }
    }

    /// Element of an array of exactly `len`.
    pub(crate) fn tuple(&self, len: usize) -> Result<Vec<Node<'a>>> {
        let items = self.items()?;
        if items.len() == len && !self.is_null() {
            Ok(items)
        } else {
            self.wrong(format!("an array of exactly {len}"))
        }
    }

    pub(crate) fn string(&self) -> Result<&'a str> {
        match self.value {
            Value::String(s) => Ok(s),
            _ => self.wrong("a string"),
        }
    }

    pub(crate) fn optional_string(&self) -> Result<Option<&'a str>> {
        if self.is_null() { Ok(None) } else { self.string().map(Some) }
    }

    pub(crate) fn unsigned(&self) -> Result<u64> {
        match self.value.as_u64() {
            Some(v) => Ok(v),
            None => self.wrong("a non-negative integer"),
        }
    }

    /// An integer of at most `max`.
    pub(crate) fn bounded(&self, max: u64) -> Result<usize> {
        let value = self.unsigned()?;
        if value <= max { Ok(value as usize) } else { self.wrong(format!("an integer of at most {max}")) }
    }

    pub(crate) fn integer(&self) -> Result<i64> {
        match self.value.as_i64() {
            Some(v) => Ok(v),
            None => self.wrong("an integer"),
        }
    }

    /// A boolean; `default` if it is absent.
    pub(crate) fn flag(&self, default: bool) -> Result<bool> {
        match self.value {
            Value::Null => Ok(default),
            Value::Bool(b) => Ok(*b),
            // p4c writes a header's field of type bool as [name, 1, 0].
            Value::Number(n) if matches!(n.as_u64(), Some(0 | 1)) => Ok(n.as_u64() == Some(1)),
            _ => self.wrong("true or false"),
        }
    }

    pub(crate) fn hex(&self) -> Result<Num> {
        match Num::from_hex(self.string()?) {
            Some(n) => Ok(n),
            None => self.wrong("a hexadecimal string"),
        }
    }
}
