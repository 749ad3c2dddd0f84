//! What happens, as logs and as events for those who watch.

use inca_p4runtime::northbound;

use super::{Owner, Switch};
use crate::api::Draft;
use crate::discovery::Change;
use crate::graph::Port;
use crate::jobs::{JoinError, Note};

impl Owner {
    /// A change of the topology.
    pub(super) fn report(&self, change: Change) {
        let name = |device| self.switches.get(&device).map_or("?", |switch: &Switch| switch.name.as_str());
        let link = |kind, a: Port, b: Port, what: &str| {
            let (from, to) = (name(a.device), name(b.device));
            switch(kind, from, &format!("port {} {what} {to} port {}", a.port, b.port))
        };
        let draft = match change {
            Change::LinkUp(a, b) => {
                let (from, to) = (name(a.device), name(b.device));
                tracing::info!(from, from_port = a.port, to, to_port = b.port, "link is up");
                link("link_up", a, b, "reaches")
            }
            Change::LinkDown(a, b) => {
                let (from, to) = (name(a.device), name(b.device));
                tracing::warn!(from, from_port = a.port, to, to_port = b.port, "link is down");
                link("link_down", a, b, "no longer reaches")
            }
            Change::HostFound(address, at) => {
                let (switch_name, port) = (name(at.at.device), at.at.port);
                tracing::info!(%address, mac = %at.mac, switch = switch_name, port, "host found");
                switch("host_found", switch_name, &format!("port {port}: host {address} is here"))
            }
            Change::HostLost(address, at) => {
                let (switch_name, port) = (name(at.at.device), at.at.port);
                tracing::info!(%address, switch = switch_name, port, "no host: the port is a link");
                switch(
                    "host_lost",
                    switch_name,
                    &format!("port {port} is a link: host {address} is not there"),
                )
            }
        };
        self.log.push(draft);
    }
}

/// Something about a switch.
pub(super) fn switch(kind: &'static str, name: &str, what: &str) -> Draft {
    Draft { kind, message: format!("{name} {what}"), switch: name.to_owned(), ..Default::default() }
}

/// Something about this controller.
pub(super) fn office(kind: &'static str, message: &str) -> Draft {
    Draft { kind, message: message.to_owned(), ..Default::default() }
}

/// Something about a group.
pub(super) fn group(note: Note) -> Draft {
    let who = note.rank.map(|rank| format!("{rank} ")).unwrap_or_default();
    // "rank 3 joined", "group is ready".
    let what = note.what.describe().replacen("rank ", &format!("rank {who}"), 1);
    let detail = if note.detail.is_empty() { String::new() } else { format!(": {}", note.detail) };
    Draft {
        kind: note.what.name(),
        message: format!("{}: {what}{detail}", note.name),
        job: note.name.job,
        group: note.name.group,
        rank: note.rank,
        ..Default::default()
    }
}

/// A rank that may not join. Names and numbers are as it gave them.
pub(super) fn refused(request: &northbound::JoinRequest, error: &JoinError) -> Draft {
    /// A name that was refused for its length may be of any.
    const SHOWN: usize = 128;
    let cut = |name: &str| name.chars().take(SHOWN).collect();
    Draft {
        kind: "join_refused",
        message: cut_message(&error.to_string()),
        job: cut(&request.job),
        group: cut(&request.group),
        rank: u16::try_from(request.rank).ok(),
        ..Default::default()
    }
}

fn cut_message(message: &str) -> String {
    const SHOWN: usize = 512;
    message.chars().take(SHOWN).collect()
}
