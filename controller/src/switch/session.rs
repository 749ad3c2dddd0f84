//! A connection to a switch that is under control.

use std::collections::BTreeSet;
use std::sync::Arc;

use inca_p4runtime::P4Info;
use inca_p4runtime::client::{
    self, CallError, Client, ClientConfig, Events, Link, Mastership, PipelineState, WriteError,
};
use inca_p4runtime::p4v1::Update;
use tokio::sync::watch;
use tonic::Code;

use super::SwitchEvent;
use super::state::{self, State};
use super::task::Shared;
use crate::graph::DeviceId;
use crate::routing::Network;

/// Tables of ordinary traffic: what they hold follows from the topology.
const ROUTING: [&str; 4] = ["link", "arp_proxy", "arp_sender", "ipv4_lpm"];

/// A connection that is under control.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) events: Events,
    /// What the switch holds besides ordinary traffic.
    pub(super) installed: State,
    /// What it holds of ordinary traffic; `None`: it has to be read.
    pub(super) network: Option<Arc<Network>>,
    /// Whether the pipeline was pushed, and everything else is gone.
    pub(super) pushed: bool,
}

/// An update that was refused.
pub(super) struct Refusal {
    /// Its position.
    pub(super) index: usize,
    pub(super) update: Update,
    pub(super) code: Code,
    pub(super) reason: String,
}

/// Writes updates. An error is a broken connection.
pub(super) async fn write(client: Client, updates: Vec<Update>) -> Result<Vec<Refusal>, String> {
    match client.write(updates).await {
        Ok(()) => Ok(Vec::new()),
        Err(WriteError::Updates { failures, .. }) => {
            let refusal = |failure: client::UpdateFailure| Refusal {
                index: failure.index,
                code: failure.error.code,
                reason: failure.error.to_string(),
                update: failure.update,
            };
            Ok(failures.into_iter().map(refusal).collect())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Connects, waits to be in charge, and pushes the pipeline if it differs.
pub(super) async fn open(
    config: ClientConfig,
    device: DeviceId,
    shared: Shared,
    mut in_charge: watch::Receiver<bool>,
) -> Result<Session, String> {
    let (client, mut events) = Client::connect(config).await.map_err(|error| error.to_string())?;
    let first = match &*client.link().borrow() {
        Link::Open(mastership) => Some(mastership.clone()),
        Link::Closed(_) => None,
    };
    let mut current = first.ok_or_else(|| "the stream ended".to_owned())?;
    while !current.is_primary {
        if current.has_primary {
            let reason = displaced(&current);
            tracing::warn!(switch = client.name(), reason, "standing by");
            let _ = shared.events.send((device, SwitchEvent::Down(format!("standby: {reason}")))).await;
        } else {
            // Whoever was in charge has gone. By the specification only a higher id takes its place.
            let election_id = current.election_id.saturating_add(1);
            client.set_election_id(election_id).await.map_err(|error| error.to_string())?;
        }
        let was_in_charge = *in_charge.borrow_and_update();
        current = loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(client::Event::Mastership(mastership)) => break mastership,
                    Some(client::Event::Closed(reason)) => return Err(reason),
                    None => return Err("the stream ended".to_owned()),
                    Some(_) => {}
                },
                // In charge of another switch: one controller for all of them.
                Ok(()) = in_charge.changed(), if !was_in_charge => {
                    if *in_charge.borrow_and_update() {
                        let election_id = current.election_id.saturating_add(1);
                        client.set_election_id(election_id).await.map_err(|error| error.to_string())?;
                    }
                }
            }
        };
    }
    // Nothing is written before it is known what this switch should hold.
    if !*in_charge.borrow() {
        let _ = shared.events.send((device, SwitchEvent::Elected)).await;
    }
    in_charge.wait_for(|in_charge| *in_charge).await.map_err(|_| "the controller is ending".to_owned())?;
    // A pipeline is a megabyte on its way.
    let turn = shared.heavy.acquire().await.map_err(|error| error.to_string())?;
    let state = client.ensure_pipeline(&shared.pipeline).await.map_err(|error| error.to_string())?;
    drop(turn);
    let pushed = state == PipelineState::Pushed;
    let network = pushed.then(Arc::default);
    Ok(Session { client, events, installed: State::new(), network, pushed })
}

pub(super) fn displaced(mastership: &Mastership) -> String {
    format!("another controller, with election id {}, is in charge", mastership.election_id)
}

/// Entries of the tables of ordinary traffic.
pub(super) async fn read_routing(client: Client, info: &P4Info) -> Result<State, CallError> {
    read_tables(&client, info, true).await
}

/// Everything else: entries of the other tables, and multicast groups.
pub(super) async fn read_sections(client: Client, info: &P4Info) -> Result<State, CallError> {
    let mut state = read_tables(&client, info, false).await?;
    state.extend(read_groups(&client).await?);
    Ok(state)
}

/// The tables, and the groups if there are any, that these keys are in.
pub(super) async fn read_like(client: Client, keys: &State) -> Result<State, CallError> {
    let tables: BTreeSet<u32> = keys
        .keys()
        .filter_map(|key| match &**key {
            state::Key::Entry(key) => Some(key.table_id),
            state::Key::Group(_) => None,
        })
        .collect();
    let mut state = State::new();
    for id in tables {
        let entries = client.read_table(id).await?;
        state.extend(entries.into_iter().filter_map(|entry| state::shared(entry.into())));
    }
    if keys.keys().any(|key| matches!(&**key, state::Key::Group(_))) {
        state.extend(read_groups(&client).await?);
    }
    Ok(state)
}

async fn read_tables(client: &Client, info: &P4Info, routing: bool) -> Result<State, CallError> {
    let mut state = State::new();
    for table in info.tables() {
        if ROUTING.contains(&table.name.as_str()) != routing {
            continue;
        }
        let entries = client.read_table(table.id).await?;
        state.extend(entries.into_iter().filter_map(|entry| state::shared(entry.into())));
    }
    Ok(state)
}

async fn read_groups(client: &Client) -> Result<State, CallError> {
    let groups = client.read_multicast_groups(0).await?;
    Ok(groups.into_iter().filter_map(|group| state::shared(group.into())).collect())
}
