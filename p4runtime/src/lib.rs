//! P4Runtime: messages, client, server glue, byte strings and typed errors.
//!
//! * [`proto`] holds the generated messages ([`p4v1`], [`p4config`]) and our [`northbound`] API.
//! * [`P4Info`] is a program's P4Info, checked and indexed by name and id.
//! * [`EntryBuilder`] makes table entries by name; [`P4Info::decode_entry`] names what comes back.
//! * [`client::Client`] is a controller's connection to one switch.
//! * [`status`] carries the outcome of every update through a gRPC error, in both directions.
//! * [`access`] is what a client shows: tokens and certificates.
//! * [`bytestring`] holds the rules of bit strings.

pub mod access;
pub mod bytestring;
mod causes;
pub mod client;
mod entry;
pub mod info;
mod packet;
pub mod proto;
pub mod status;

pub use access::Access;
pub use bytestring::Value;
pub use causes::chain;
pub use client::{Client, ClientConfig, Pipeline};
pub use entry::{
    Call, DecodedAction, DecodedEntry, EntryBuilder, EntryError, EntryKey, MatchValue, action_call,
};
pub use info::{P4Info, P4InfoError, UnknownObject};
pub use packet::PacketError;
pub use proto::{inca::v1 as northbound, p4::config::v1 as p4config, p4::v1 as p4v1};
