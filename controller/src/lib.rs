//! The inca controller: discovery, reduction trees, installation and the northbound API.
//!
//! * [`program`]: the P4 program's tables as types, and the entries that make a number format;

pub mod program;
