//! The switch: one program, its state, and the packet path.

use std::sync::Arc;

use crate::control::DigestRecord;
use crate::program::{DigestId, Program};

/// Settings of a switch.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// P4Runtime device id.
    pub device_id: u64,
    /// Port whose packets are packet-in and packet-out.
    pub cpu_port: u16,
    /// `egress_spec` value that means drop.
    pub drop_port: u16,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self { device_id: 0, cpu_port: 255, drop_port: 511 }
    }
}

/// Receives what the switch sends.
pub trait Output {
    /// A frame leaves by this port. The slice lives for the call only.
    fn send(&mut self, port: u16, frame: &[u8]);

    /// A digest message; dropped unless overridden.
    fn digest(&mut self, _digest: DigestId, _record: DigestRecord) {}
}

impl Output for Vec<(u16, Vec<u8>)> {
    fn send(&mut self, port: u16, frame: &[u8]) {
        self.push((port, frame.to_vec()));
    }
}

/// A switch running one program over virtual ports and virtual time.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    program: Arc<Program>,
}

impl Switch {
    /// A switch with empty tables (but for the program's entries), zero registers and counters.
    pub fn new(program: impl Into<Arc<Program>>, config: SwitchConfig) -> Self {
        Self { config, program: program.into() }
    }

    /// Processes one frame to the end: every copy, clone, resubmission and recirculation.
    /// `now_us` is the switch's clock, in microseconds; it should not go back.
    pub fn process(&mut self, _ingress_port: u16, _frame: &[u8], _now_us: u64, _out: &mut impl Output) {
        unimplemented!("being written")
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The settings.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Replaces the program. All state goes: tables, registers, counters, groups, sessions.
    pub fn load(&mut self, program: impl Into<Arc<Program>>) {
        self.program = program.into();
    }
}
