//! A switch that is fed one frame at a time: embedded or BMv2.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use inca_controller::program::Entry;
use inca_switch::{Program, Switch, SwitchConfig};

use crate::install::{install, remove, rig_entries, switch_entries, tree_entries};
use crate::rig::{CPU_PORT, DEVICE_ID, Tree};

/// The folder of the compiled program; the environment variable `INCA_COMPILED` names another, to try a program out.
pub fn compiled() -> PathBuf {
    let ours = || concat!(env!("CARGO_MANIFEST_DIR"), "/../p4/compiled").into();
    std::env::var_os("INCA_COMPILED").map_or_else(ours, PathBuf::from)
}

/// The compiled program, loaded once per process.
///
/// # Panics
/// If `p4/compiled/inca.json` is missing or the embedded switch can't run it.
pub fn program() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let load = || {
        let path = compiled().join("inca.json");
        let json =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Arc::new(Program::from_json(&json).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    };
    PROGRAM.get_or_init(load).clone()
}

/// What a switch sends for one frame, sorted by port and bytes: in which order a multicast group's copies leave one port is each
/// switch's own affair. The CPU port carries packet-ins.
pub type Sent = Vec<(u16, Vec<u8>)>;

/// Size of the counter `events`.
pub const EVENTS: u32 = 64;

/// A switch under test.
pub trait Target {
    /// Installs entries; those with the same keys are replaced.
    fn install(&mut self, entries: &[Entry]);

    /// Removes entries, as far as they are there.
    fn remove(&mut self, entries: &[Entry]);

    /// Feeds one frame and returns everything the switch sends because of it.
    fn step(&mut self, port: u16, frame: &[u8]) -> Sent;

    /// Packets per index of the counter `events`, those that are not zero. Frames that only mark the end of a step are counted too.
    fn event_counts(&mut self) -> BTreeMap<u32, u64>;

    /// Sets the switch's clock, if it can be set. It never goes back.
    fn set_clock(&mut self, _microseconds: u64) {}
}

impl<T: Target> Target for &mut T {
    fn install(&mut self, entries: &[Entry]) {
        (**self).install(entries);
    }

    fn remove(&mut self, entries: &[Entry]) {
        (**self).remove(entries);
    }

    fn step(&mut self, port: u16, frame: &[u8]) -> Sent {
        (**self).step(port, frame)
    }

    fn event_counts(&mut self) -> BTreeMap<u32, u64> {
        (**self).event_counts()
    }

    fn set_clock(&mut self, microseconds: u64) {
        (**self).set_clock(microseconds);
    }
}

impl<T: Target + ?Sized> Target for Box<T> {
    fn install(&mut self, entries: &[Entry]) {
        (**self).install(entries);
    }

    fn remove(&mut self, entries: &[Entry]) {
        (**self).remove(entries);
    }

    fn step(&mut self, port: u16, frame: &[u8]) -> Sent {
        (**self).step(port, frame)
    }

    fn event_counts(&mut self) -> BTreeMap<u32, u64> {
        (**self).event_counts()
    }

    fn set_clock(&mut self, microseconds: u64) {
        (**self).set_clock(microseconds);
    }
}

/// Two switches that must send the same.
#[derive(Debug)]
pub struct Twins<A, B>(pub A, pub B);

impl<A: Target, B: Target> Target for Twins<A, B> {
    fn install(&mut self, entries: &[Entry]) {
        self.0.install(entries);
        self.1.install(entries);
    }

    fn remove(&mut self, entries: &[Entry]) {
        self.0.remove(entries);
        self.1.remove(entries);
    }

    fn step(&mut self, port: u16, frame: &[u8]) -> Sent {
        let (first, second) = (self.0.step(port, frame), self.1.step(port, frame));
        assert!(
            first == second,
            "for {frame:02x?} at port {port} one sends\n{first:02x?}\nthe other\n{second:02x?}"
        );
        first
    }

    fn event_counts(&mut self) -> BTreeMap<u32, u64> {
        self.0.event_counts()
    }

    fn set_clock(&mut self, microseconds: u64) {
        self.0.set_clock(microseconds);
        self.1.set_clock(microseconds);
    }
}

/// Every entry of the rig with these trees.
pub fn all_entries(trees: &[Tree]) -> Vec<Entry> {
    let mut entries = switch_entries(DEVICE_ID);
    entries.extend(rig_entries());
    entries.extend(tree_entries(DEVICE_ID, trees));
    entries
}

/// The embedded switch, in process.
#[derive(Debug)]
pub struct Embedded {
    switch: Switch,
    now_us: u64,
}

impl Embedded {
    /// The rig's switch, running the compiled program, with nothing installed.
    pub fn new() -> Self {
        Self::with_device_id(DEVICE_ID)
    }

    /// The same with another device id.
    pub fn with_device_id(device_id: u16) -> Self {
        let config =
            SwitchConfig { device_id: device_id.into(), cpu_port: CPU_PORT, ..SwitchConfig::default() };
        Self { switch: Switch::new(program(), config), now_us: 0 }
    }

    /// A switch with the rig's entries and these trees.
    pub fn with_trees(trees: &[Tree]) -> Self {
        let mut embedded = Self::new();
        embedded.install(&all_entries(trees));
        embedded
    }
}

impl Default for Embedded {
    fn default() -> Self {
        Self::new()
    }
}

impl Target for Embedded {
    fn install(&mut self, entries: &[Entry]) {
        for entry in entries {
            install(&mut self.switch, entry).unwrap_or_else(|error| panic!("{entry:?}: {error}"));
        }
    }

    fn remove(&mut self, entries: &[Entry]) {
        for entry in entries {
            remove(&mut self.switch, entry).unwrap_or_else(|error| panic!("{entry:?}: {error}"));
        }
    }

    fn step(&mut self, port: u16, frame: &[u8]) -> Sent {
        self.now_us += 1;
        let mut out: Vec<(u16, Vec<u8>)> = Vec::new();
        self.switch.process(port, frame, self.now_us, &mut out);
        out.sort();
        out
    }

    fn event_counts(&mut self) -> BTreeMap<u32, u64> {
        let counter = self.switch.program().counter("events").expect("the program counts events");
        let count = |index| {
            let read = self.switch.counter_read(counter, index as usize);
            (index, read.unwrap_or_else(|error| panic!("event {index}: {error}")).packets)
        };
        (0..EVENTS).map(count).filter(|(_, packets)| *packets > 0).collect()
    }

    fn set_clock(&mut self, microseconds: u64) {
        self.now_us = self.now_us.max(microseconds);
    }
}
