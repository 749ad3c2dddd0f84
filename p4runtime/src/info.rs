//! The P4Info of a program, checked and indexed: what can be read and written, by name and by id.

use std::{collections::HashMap, path::Path};

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use thiserror::Error;

use crate::{p4config, proto};

mod build;
mod object;
#[cfg(test)]
mod tests;

pub use object::{
    ActionInfo, ActionRefInfo, ArrayInfo, DigestInfo, DirectInfo, FieldInfo, MatchKind, MetadataInfo, Named,
    PacketHeaderInfo, ParamInfo, ProfileInfo, RegisterInfo, TableInfo, Unit, ValueSetInfo,
};

/// Why a P4Info can't be used.
#[derive(Debug, Error)]
pub enum P4InfoError {
    /// The file can't be read.
    #[error("p4info {path}: {source}")]
    File {
        /// Path given.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Not P4Info in protobuf's text format.
    #[error("p4info is not valid text protobuf: {0}")]
    Text(String),
    /// Not P4Info in protobuf's binary format.
    #[error("p4info is not valid binary protobuf: {0}")]
    Binary(#[from] prost::DecodeError),
    /// An object without a preamble, so without id and name.
    #[error("p4info: {what} number {position} has no preamble")]
    NoPreamble {
        /// Kind of object.
        what: &'static str,
        /// Position among its kind, from 0.
        position: usize,
    },
    /// An id used by two objects, or a name by two of a kind.
    #[error("p4info: {what} {name} (id {id}) is declared twice")]
    Duplicate {
        /// Kind of object.
        what: &'static str,
        /// Its name.
        name: String,
        /// Its id.
        id: u32,
    },
    /// A table without the object that it refers to.
    #[error("p4info: {what} {name} refers to {target} {id}, which is not declared")]
    Dangling {
        /// Kind of object.
        what: &'static str,
        /// Its name.
        name: String,
        /// What it refers to.
        target: &'static str,
        /// The id it refers to.
        id: u32,
    },
    /// A match kind that P4Runtime does not define.
    #[error("p4info: table {table}, field {field}: match kind {kind} is not known")]
    MatchKind {
        /// Table name.
        table: String,
        /// Field name.
        field: String,
        /// What the P4Info says.
        kind: String,
    },
}

/// A name or an id that the program does not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no {what} {given} in this program; {}", choices(.valid))]
pub struct UnknownObject {
    /// Kind of object, for example `table`.
    pub what: &'static str,
    /// Name or id asked for.
    pub given: String,
    /// Names that exist.
    pub valid: Vec<String>,
}

/// The P4Info of a program, indexed. Objects of a kind are found by their full name, their alias, or their id.
#[derive(Debug, Clone)]
pub struct P4Info {
    message: p4config::P4Info,
    tables: Index<TableInfo>,
    actions: Index<ActionInfo>,
    profiles: Index<ProfileInfo>,
    counters: Index<ArrayInfo>,
    meters: Index<ArrayInfo>,
    direct: Index<DirectInfo>,
    registers: Index<RegisterInfo>,
    digests: Index<DigestInfo>,
    value_sets: Index<ValueSetInfo>,
    packet_headers: Index<PacketHeaderInfo>,
}

impl P4Info {
    /// Reads a file as the compiler writes it: text if its name ends in `.txt`, `.txtpb` or `.pbtxt`, binary otherwise.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, P4InfoError> {
        let path = path.as_ref();
        let file = |source| P4InfoError::File { path: path.display().to_string(), source };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("txt" | "txtpb" | "pbtxt") => Self::from_text(&std::fs::read_to_string(path).map_err(file)?),
            _ => Self::from_bytes(&std::fs::read(path).map_err(file)?),
        }
    }

    /// Parses protobuf's text format.
    pub fn from_text(text: &str) -> Result<Self, P4InfoError> {
        let descriptor = pool()
            .get_message_by_name("p4.config.v1.P4Info")
            .ok_or_else(|| P4InfoError::Text("the message descriptors are incomplete".into()))?;
        let message = DynamicMessage::parse_text_format(descriptor, text)
            .map_err(|error| P4InfoError::Text(error.to_string()))?;
        Self::from_bytes(&message.encode_to_vec())
    }

    /// Parses protobuf's binary format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, P4InfoError> {
        Self::new(p4config::P4Info::decode(bytes)?)
    }

    /// The message as it goes over the wire.
    pub fn message(&self) -> &p4config::P4Info {
        &self.message
    }
}

macro_rules! lookups {
    ($($field:ident: $info:ty, $what:literal, $find:ident, $by_id:ident, $all:ident;)*) => {
        impl P4Info {$(
            #[doc = concat!("The ", $what, " of this full name or alias.")]
            pub fn $find(&self, name: &str) -> Result<&$info, UnknownObject> {
                self.$field.by_name(name).ok_or_else(|| self.$field.unknown($what, name.to_owned()))
            }

            #[doc = concat!("The ", $what, " of this id.")]
            pub fn $by_id(&self, id: u32) -> Result<&$info, UnknownObject> {
                self.$field.by_id(id).ok_or_else(|| self.$field.unknown($what, format!("with id {id}")))
            }

            #[doc = concat!("Every ", $what, ", in the order of the P4Info.")]
            pub fn $all(&self) -> impl ExactSizeIterator<Item = &$info> {
                self.$field.objects.iter()
            }
        )*}
    };
}

lookups! {
    tables: TableInfo, "table", table, table_by_id, tables;
    actions: ActionInfo, "action", action, action_by_id, actions;
    profiles: ProfileInfo, "action profile", profile, profile_by_id, profiles;
    counters: ArrayInfo, "counter", counter, counter_by_id, counters;
    meters: ArrayInfo, "meter", meter, meter_by_id, meters;
    direct: DirectInfo, "direct resource", direct_resource, direct_resource_by_id, direct_resources;
    registers: RegisterInfo, "register", register, register_by_id, registers;
    digests: DigestInfo, "digest", digest, digest_by_id, digests;
    value_sets: ValueSetInfo, "value set", value_set, value_set_by_id, value_sets;
    packet_headers: PacketHeaderInfo, "packet header", packet_header, packet_header_by_id, packet_headers;
}

/// Descriptors of all messages.
fn pool() -> &'static DescriptorPool {
    static POOL: std::sync::LazyLock<DescriptorPool> = std::sync::LazyLock::new(|| {
        // Made by our own build: a failure here would be a broken build, and shows as an error of every parse.
        DescriptorPool::decode(proto::DESCRIPTORS).unwrap_or_default()
    });
    &POOL
}

/// Objects of one kind.
#[derive(Debug, Clone)]
struct Index<T> {
    objects: Vec<T>,
    by_id: HashMap<u32, usize>,
    by_name: HashMap<String, usize>,
}

impl<T: Named> Index<T> {
    fn new(what: &'static str, objects: Vec<T>) -> Result<Self, P4InfoError> {
        let mut index = Self {
            by_id: HashMap::new(),
            by_name: HashMap::new(),
            objects: Vec::with_capacity(objects.len()),
        };
        for (at, object) in objects.iter().enumerate() {
            let twice = index.by_id.insert(object.id(), at).is_some()
                || index.by_name.insert(object.name().to_owned(), at).is_some();
            if twice {
                return Err(P4InfoError::Duplicate { what, name: object.name().to_owned(), id: object.id() });
            }
        }
        // Full names win over aliases.
        for (at, object) in objects.iter().enumerate() {
            index.by_name.entry(object.alias().to_owned()).or_insert(at);
        }
        index.objects = objects;
        Ok(index)
    }

    fn by_id(&self, id: u32) -> Option<&T> {
        self.by_id.get(&id).map(|&at| &self.objects[at])
    }

    fn by_name(&self, name: &str) -> Option<&T> {
        self.by_name.get(name).map(|&at| &self.objects[at])
    }

    fn unknown(&self, what: &'static str, given: String) -> UnknownObject {
        UnknownObject {
            what,
            given,
            valid: self.objects.iter().map(|object| object.name().to_owned()).collect(),
        }
    }
}

/// `valid are a, b, c`, for error messages.
pub(crate) fn choices(valid: &[String]) -> String {
    if valid.is_empty() { "it has none".to_owned() } else { format!("valid are {}", valid.join(", ")) }
}
