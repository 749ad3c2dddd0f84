//! Table `link`: ports that lead to switches.

use super::entry::{Call, TableEntry, exact};

/// A port with a link to another switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The port.
    pub ingress_port: u16,
}

/// The table's entry; its only action is `NoAction`.
pub fn entry(key: Key) -> TableEntry {
    exact("link", [("ingress_port", key.ingress_port.into())], Call::new("NoAction", []))
}
