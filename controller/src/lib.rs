//! The inca controller: discovery, reduction trees, installation and the northbound API.
//!
//! * [`inventory`]: the YAML file that names switches and settings;
//! * [`program`]: the P4 program's tables as types, and the entries that make a number format;
//! * [`discovery`]: links and hosts, learnt from packets;
//! * [`graph`]: switches, links and hosts; [`tree`]: reduction trees planned over them.

pub mod discovery;
pub mod graph;
pub mod inventory;
pub mod program;
pub mod tree;
