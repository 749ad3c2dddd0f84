//! What strangers can send: each target takes bytes of any kind and gives them to one entrance of the system. It panics where
//! the system breaks a promise, and does nothing otherwise.
//!
//! The same targets run in two ways: under `cargo fuzz` (see `fuzz/`), guided by coverage, for as long as one likes; and in the suite
//! `fuzz_properties`, a bounded number of seeded mutations of the same seeds on any toolchain.
//!
//! | target | entrance |
//! |---|---|
//! | `packet` | frames: the packet types of `wire`, the host agent, and a switch with trees in every role |
//! | `json` | a compiled program for the embedded switch |
//! | `p4runtime` | requests and stream messages to the embedded switch's server |
//! | `northbound` | joins, leaves and questions to a controller that has a switch |

mod inputs;
mod json;
mod mutate;
mod northbound;
mod p4runtime;
mod packet;
mod watch;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use inca_switch::ports::Loss;
use inca_switch::{SwitchConfig, p4runtime as p4runtime_server, runtime};

pub use inputs::{parts, pieces};
pub use mutate::Mutator;
pub use watch::{alarms, arm};

/// Starts an embedded switch without ports; the address of its P4Runtime server.
async fn serve_switch(device_id: u64) -> SocketAddr {
    let config = SwitchConfig { device_id, ..SwitchConfig::default() };
    let running = runtime::start(config, &[], &Loss::default(), None).expect("a packet thread");
    let any = "127.0.0.1:0".parse().expect("an address");
    let bound = p4runtime_server::bind(running.handle, running.events, any, std::future::pending()).await;
    let (address, serve) = bound.expect("a free port");
    tokio::spawn(serve);
    address
}

/// An entrance that is fuzzed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name; folders of seeds and regressions are called so.
    pub name: &'static str,
    /// Takes an input. It panics if the system broke a promise.
    pub run: fn(&[u8]),
    /// Inputs that reach deep: what a real system sends.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Byte strings that mean something here, for mutations.
    pub words: &'static [&'static [u8]],
    /// Mutations in a usual test run.
    pub usual: u64,
}

/// All targets.
pub const TARGETS: [Target; 4] = [packet::TARGET, json::TARGET, p4runtime::TARGET, northbound::TARGET];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Inputs that once broke something, by name; they are tried first for ever.
///
/// # Panics
/// If a file there can't be read.
pub fn regressions(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/regressions").join(target.name);
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.is_file())
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, bytes)
        })
        .collect();
    found.sort();
    found
}
