//! The inca controller: discovery, reduction trees, installation and the northbound API.
//!
//! Pure parts, each a state machine or a function with time and events as arguments:
//!
//! * [`inventory`]: the YAML file that names switches and settings;
//! * [`program`]: the P4 program's tables as types, and the entries that make a number format or a tree node;
//! * [`discovery`]: links and hosts, learnt from packets;
//! * [`graph`]: switches, links and hosts; [`tree`]: reduction trees planned over them; [`routing`]: ordinary traffic;
//! * [`jobs`]: who joined, which trees they use, when they end.
//!
//! Parts that act: [`api`] answers over gRPC and REST, [`store`] remembers, [`switch`] keeps one switch at what it should hold, [`control`] ties everything together.
//! [`cli`] is the command `inca`, which asks a controller.

pub mod api;
pub mod cli;
pub mod control;
pub mod discovery;
pub mod graph;
pub mod inventory;
pub mod jobs;
pub mod metrics;
pub mod program;
pub mod progress;
pub mod routing;
pub mod store;
pub mod switch;
#[cfg(test)]
mod topologies;
pub mod tree;
