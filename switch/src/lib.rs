//! The embedded switch: executes compiled BMv2 JSON and serves P4Runtime.
//!
//! * [`Program`] is a compiled program: what `p4c-bm2-ss` wrote, checked and lowered to flat code.
//! * [`Switch`] runs one program over virtual ports and virtual time, deterministically and in process.
//! * [`control`] is the control plane's view of a switch: tables, profiles, registers, replication.
//! * [`p4runtime`] serves P4Runtime for a running switch.
//! * [`runtime`] owns a switch on a packet thread; the control plane talks to it through a [`runtime::SwitchHandle`].

pub mod control;
mod exec;
pub mod p4runtime;
pub mod ports;
pub mod program;
pub mod runtime;
mod switch;

pub use exec::RuntimeFaults;
pub use program::{LoadError, Program};
pub use switch::{Output, Switch, SwitchConfig};
