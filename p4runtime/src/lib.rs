//! P4Runtime: messages, client, server glue, byte strings and typed errors.

pub mod proto;

pub use proto::{inca::v1 as northbound, p4::config::v1 as p4config, p4::v1 as p4v1};
