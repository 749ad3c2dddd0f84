//! A compiled program.

mod info;

pub(crate) use info::Objects;
pub use info::{
    ActionId, ActionInfo, CounterId, CounterInfo, DigestId, DigestInfo, MatchFieldInfo, MatchKind, MeterId,
    MeterInfo, MeterUnit, ParamInfo, ProfileId, ProfileInfo, RegisterId, RegisterInfo, TableId, TableInfo,
    ValueSetId, ValueSetInfo,
};
use thiserror::Error;

/// A program that p4c's BMv2 backend compiled, checked and lowered to flat code. Immutable; share it in an `Arc`.
#[derive(Debug)]
pub struct Program {
    pub(crate) objects: Objects,
}

/// Why a JSON is not a program that this switch can run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Not JSON at all.
    #[error("not valid json: {0}")]
    Syntax(#[from] serde_json::Error),
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
}

impl Program {
    /// Compiles what `p4c-bm2-ss` wrote.
    pub fn from_json(_json: &str) -> Result<Self, LoadError> {
        unimplemented!("being written")
    }
}
