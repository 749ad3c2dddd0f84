//! What a controller must remember beyond its own life, in one file: groups that are going on, the graph, and numbers that must not
//! come again.
//!
//! The file is a redb database: every change is one transaction, on disk before anybody is told of what it holds. It is
//! opened for each access, so that a second controller that stands by can read it when it takes over.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redb::{Database, DatabaseError, TableDefinition};
use thiserror::Error;

use crate::graph::Graph;
use crate::jobs::Records;

/// Version of everything in the file. One that is not known is refused, never guessed at.
///
/// 1: groups, numbers, topology. 2: tokens of jobs and members, submitted jobs; what is not in a file of version 1 is empty.
const SCHEMA: u64 = 2;
const OLDEST: u64 = 1;
const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("numbers");
const TEXTS: TableDefinition<&str, &str> = TableDefinition::new("texts");
/// Another controller that has the file open is waited for so long.
const PATIENCE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(20);

/// Why the file can't be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Not opened.
    #[error("store {path}: {reason}")]
    Open {
        /// The file.
        path: String,
        /// What the database says.
        reason: String,
    },
    /// Not read or written.
    #[error("store {path}: {what}: {reason}")]
    Access {
        /// The file.
        path: String,
        /// What was tried.
        what: &'static str,
        /// What the database says.
        reason: String,
    },
    /// Written by another version.
    #[error(
        "store {path}: its schema is version {found}, this controller knows {OLDEST} to {SCHEMA}; move the file away to begin anew"
    )]
    Schema {
        /// The file.
        path: String,
        /// Its version.
        found: u64,
    },
    /// What is in it makes no sense.
    #[error("store {path}: {what} can't be understood: {reason}; move the file away to begin anew")]
    Content {
        /// The file.
        path: String,
        /// Which part.
        what: &'static str,
        /// Where and why.
        reason: String,
    },
}

/// What was remembered.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Groups, and numbers that are used up.
    pub records: Records,
    /// Links and hosts.
    pub graph: Graph,
}

/// The file.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// The store at a path; the file is made with the first write.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads everything; nothing if there is no file yet.
    pub fn load(&self) -> Result<Remembered, StoreError> {
        if !self.path.exists() {
            return Ok(Remembered::default());
        }
        let database = self.open()?;
        let failed = |reason: redb::Error| self.access("reading", &reason);
        let transaction = database.begin_read().map_err(|error| failed(error.into()))?;
        let numbers = match transaction.open_table(NUMBERS) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Remembered::default()),
            Err(error) => return Err(failed(error.into())),
        };
        let schema =
            numbers.get("schema").map_err(|error| failed(error.into()))?.map_or(0, |value| value.value());
        if !(OLDEST..=SCHEMA).contains(&schema) {
            return Err(StoreError::Schema { path: self.name(), found: schema });
        }
        let texts = transaction.open_table(TEXTS).map_err(|error| failed(error.into()))?;
        let text = |key: &str| -> Result<Option<String>, StoreError> {
            let found = texts.get(key).map_err(|error| failed(error.into()))?;
            Ok(found.map(|value| value.value().to_owned()))
        };
        let content = |what: &'static str, error: serde_json::Error| StoreError::Content {
            path: self.name(),
            what,
            reason: error.to_string(),
        };
        let records = match text("groups")? {
            Some(text) => serde_json::from_str(&text).map_err(|error| content("groups", error))?,
            None => Records::default(),
        };
        let graph = match text("graph")? {
            Some(text) => serde_json::from_str(&text).map_err(|error| content("graph", error))?,
            None => Graph::default(),
        };
        Ok(Remembered { records, graph })
    }

    /// Remembers the groups, in one transaction that is on disk when this returns.
    pub fn save_groups(&self, records: &Records) -> Result<(), StoreError> {
        self.save("groups", records)
    }

    /// Remembers the graph.
    pub fn save_graph(&self, graph: &Graph) -> Result<(), StoreError> {
        self.save("graph", graph)
    }

    fn save(&self, what: &'static str, value: &impl serde::Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string(value).map_err(|error| StoreError::Content {
            path: self.name(),
            what,
            reason: error.to_string(),
        })?;
        #[allow(clippy::result_large_err)] // The database's own; it goes no further.
        let write = || -> Result<(), redb::Error> {
            // Outlives its transaction.
            let database = self.database()?;
            let transaction = database.begin_write()?;
            {
                let mut numbers = transaction.open_table(NUMBERS)?;
                numbers.insert("schema", SCHEMA)?;
                transaction.open_table(TEXTS)?.insert(what, text.as_str())?;
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| self.access("writing", &error))
    }

    fn open(&self) -> Result<Database, StoreError> {
        self.database().map_err(|error| StoreError::Open { path: self.name(), reason: error.to_string() })
    }

    /// Opens the file, as soon as nobody else has it open.
    fn database(&self) -> Result<Database, DatabaseError> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match Database::create(&self.path) {
                Err(DatabaseError::DatabaseAlreadyOpen) if Instant::now() < give_up => {
                    std::thread::sleep(RETRY);
                }
                opened => return opened,
            }
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn access(&self, what: &'static str, error: &redb::Error) -> StoreError {
        StoreError::Access { path: self.name(), what, reason: error.to_string() }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
