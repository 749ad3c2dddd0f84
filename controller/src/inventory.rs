//! The inventory: a YAML file that names the switches and holds the controller's settings.
//!
//! ```
//! # let text = "
//! switches:
//!   - {name: leaf1, target: 127.0.0.1:9559, device_id: 1}
//!   - {name: leaf2, target: 127.0.0.1:9560, device_id: 2}
//! trees:
//!   slots_per_tree: 16
//! # ";
//! let inventory = inca_controller::inventory::Inventory::from_text("inca.yaml", text)?;
//! assert_eq!(inventory.switches[1].service_address.to_string(), "10.255.0.2");
//! # Ok::<(), inca_controller::inventory::InventoryError>(())
//! ```
//!
//! What is wrong is reported with file, line and column; nothing is started then.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use inca_p4runtime::Access;
use inca_wire::address::MacAddr;
use thiserror::Error;

use crate::api::TlsFiles;

mod file;
#[cfg(test)]
mod tests;
mod validate;

/// Longest name: what the kernel takes for a network interface.
pub const MAX_NAME_LEN: usize = 15;

/// Everything the file says, checked, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// The switches, in the file's order.
    pub switches: Vec<SwitchSpec>,
    /// Hosts that need not be learnt.
    pub hosts: Vec<HostSpec>,
    /// Where the northbound API listens.
    pub listen: Vec<SocketAddr>,
    /// The address hosts announce themselves to.
    pub announce_address: Ipv4Addr,
    /// How links are found.
    pub discovery: DiscoverySettings,
    /// How trees are laid out.
    pub trees: TreeSettings,
    /// How failures are dealt with.
    pub failure: FailureSettings,
    /// The file in which this controller remembers what the next one must know.
    pub store: Option<PathBuf>,
    /// Whether it waits until no other controller is in charge.
    pub standby: bool,
    /// Who may do what, and how that is kept secret.
    pub security: SecuritySettings,
    /// What one tenant may have.
    pub limits: Limits,
    /// Another compiled program than the built-in one.
    pub pipeline: Option<PipelinePaths>,
}

/// A switch to control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Name, unique.
    pub name: String,
    /// P4Runtime server, `host:port`.
    pub target: String,
    /// P4Runtime device id, unique.
    pub device_id: u16,
    /// Where contributions are sent: the service subnet's address number `device_id`.
    pub service_address: Ipv4Addr,
    /// Ports that links are looked for on.
    pub ports: Vec<u16>,
}

/// A host whose attachment is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Name, unique among hosts and switches.
    pub name: String,
    /// Data-plane address, unique.
    pub address: Ipv4Addr,
    /// Ethernet address.
    pub mac: MacAddr,
    /// Name of the switch it is attached to.
    pub switch: String,
    /// Port there.
    pub port: u16,
}

/// How links are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// Time between two probes of a link.
    pub probe_interval: Duration,
    /// A link that brought no probe for so long is down.
    pub link_timeout: Duration,
}

/// How trees are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeSettings {
    /// Slots of a tree: chunks in flight per rank.
    pub slots_per_tree: u32,
    /// Trees a group is spread over, where the topology has different ones.
    pub stripes: u16,
    /// A switch repeats a sum no more often.
    pub resend_interval: Duration,
    /// A job is taken down so long after its first rank left in good order: the others may still fetch their last results.
    pub leave_linger: Duration,
}

/// How failures are dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureSettings {
    /// A rank whose stream ended may attach again for so long; then it is taken for dead.
    pub attach_grace: Duration,
    /// How long a rank may take to report, once its generation was stopped.
    pub report_timeout: Duration,
    /// How long a group waits for a topology that has a tree for it.
    pub patience: Duration,
}

/// What one tenant may have at a time; jobs without a tenant count together. 0: as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Groups that are open.
    pub groups_per_tenant: u32,
    /// Slots of any one switch.
    pub slots_per_tenant: u32,
}

/// Who may do what, and how that is kept secret. Nothing is set by default: the API listens on loopback then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecuritySettings {
    /// The file with the tokens that calls must show.
    pub tokens: Option<PathBuf>,
    /// The file that says who changed what.
    pub audit: Option<PathBuf>,
    /// Ranks of jobs that were not submitted are refused.
    pub submitted_only: bool,
    /// Calls a second of one caller; 0: no limit.
    pub requests_per_second: u32,
    /// The API over TLS.
    pub tls: Option<TlsFiles>,
    /// P4Runtime over TLS, to all switches.
    pub p4runtime: Option<Access>,
}

/// Files of a compiled P4 program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelinePaths {
    /// BMv2 JSON.
    pub json: PathBuf,
    /// P4Info, text or binary.
    pub p4info: PathBuf,
}

/// Why an inventory can't be used.
#[derive(Debug, Error)]
pub enum InventoryError {
    /// The file can't be read.
    #[error("inventory {path}: {source}")]
    Read {
        /// Path given.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not UTF-8.
    #[error("inventory {path}: byte {at} is not utf-8 text")]
    NotText {
        /// Path given.
        path: String,
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Something at a place in the file.
    #[error("{path}:{line}:{column}: {message}")]
    At {
        /// Path given.
        path: String,
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
        /// What is wrong, and what would be right.
        message: String,
    },
}

impl Inventory {
    /// Reads and checks a file. Relative paths in it are relative to its folder.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, InventoryError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let bytes =
            std::fs::read(path).map_err(|source| InventoryError::Read { path: name.clone(), source })?;
        let text = String::from_utf8(bytes).map_err(|error| InventoryError::NotText {
            path: name.clone(),
            at: error.utf8_error().valid_up_to(),
        })?;
        let mut inventory = Self::from_text(&name, &text)?;
        if let Some(folder) = path.parent() {
            for file in inventory.files() {
                *file = folder.join(&*file);
            }
        }
        Ok(inventory)
    }

    /// Every file that it names.
    fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let security = &mut self.security;
        let tls = security.tls.iter_mut().flat_map(|tls| {
            [Some(&mut tls.cert), Some(&mut tls.key), tls.client_ca.as_mut()].into_iter().flatten()
        });
        let p4runtime = security.p4runtime.iter_mut().flat_map(|access| {
            let identity = access.identity.iter_mut().flat_map(|(cert, key)| [cert, key]);
            access.ca.iter_mut().chain(identity)
        });
        let pipeline = self.pipeline.iter_mut().flat_map(|files| [&mut files.json, &mut files.p4info]);
        let single = [&mut self.store, &mut security.tokens, &mut security.audit].into_iter().flatten();
        single.chain(tls).chain(p4runtime).chain(pipeline)
    }

    /// Checks text; `path` is for messages alone.
    pub fn from_text(path: &str, text: &str) -> Result<Self, InventoryError> {
        let file = file::File::parse(path, text)?;
        validate::validate(path, file)
    }
}
