//! The task of one switch: connects, pushes the pipeline where it differs, and keeps the switch's entries at what they should be.
//!
//! What a switch should hold is kept in sections, so that routes, and each job, come and go by themselves. Whatever changes, or
//! whatever an earlier controller left behind, is found by comparing with what the switch holds: nothing is written twice, and a
//! restart disturbs no traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inca_p4runtime::client::{
    CallError, Client, ClientConfig, Events, Link, Mastership, Pipeline, PipelineState, WriteError, delete,
    insert, modify,
};
use inca_p4runtime::p4v1::{Update, update};
use inca_p4runtime::{Access, EntryError, bytestring, client};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Code;

use super::state::{self, Key, State};
use crate::graph::DeviceId;
use crate::inventory::SwitchSpec;
use crate::jobs::JobId;
use crate::metrics::{Metrics, Operation};
use crate::program::{Entry, Reason, events};

/// Wait after a failed connection; doubled after each, up to the longest.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// A part of what a switch should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Number formats and the switch's own addresses.
    Base,
    /// Ordinary traffic.
    Routes,
    /// A job's trees.
    Job(JobId),
}

/// What a switch tells the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchEvent {
    /// It is under control and holds what it should.
    Up {
        /// The pipeline was pushed: whatever the switch knew of trees is gone.
        pushed: bool,
    },
    /// It is not under control, for this reason.
    Down(String),
    /// It has made this controller its primary one, which is not in charge yet.
    Elected,
    /// Another controller has become its primary one.
    Displaced(String),
    /// It handed over a packet.
    PacketIn {
        /// Port the packet came in by.
        port: u16,
        /// Why.
        reason: Reason,
        /// The frame.
        frame: Vec<u8>,
    },
}

/// Why a switch does not hold what it should.
#[derive(Debug, Clone, Error)]
pub enum SwitchError {
    /// It is not under control; it will get there when it is.
    #[error("switch {switch} is {state}")]
    Away {
        /// Its name.
        switch: String,
        /// What is known of it.
        state: String,
    },
    /// An entry does not fit the program.
    #[error("switch {switch}: {error}")]
    Entry {
        /// Its name.
        switch: String,
        /// What does not fit.
        error: EntryError,
    },
    /// The switch refused an entry.
    #[error("switch {switch}: {what}: {reason}")]
    Refused {
        /// Its name.
        switch: String,
        /// The entry.
        what: String,
        /// Why.
        reason: String,
    },
    /// An entry was written, but is not there, or differs.
    #[error("switch {switch}: {what} was written, but {found} is read back")]
    NotKept {
        /// Its name.
        switch: String,
        /// The entry.
        what: String,
        /// `nothing` or `something else`.
        found: &'static str,
    },
    /// The connection failed.
    #[error("{0}")]
    Connection(String),
    /// The controller is ending.
    #[error("switch {0}: the controller is ending")]
    Ending(String),
}

enum Command {
    Set { section: Section, entries: Vec<Entry>, verify: bool, reply: Option<Reply> },
    PacketOut { port: u16, frame: Vec<u8> },
    Counters { reply: oneshot::Sender<Result<BTreeMap<String, u64>, SwitchError>> },
}

type Reply = oneshot::Sender<Result<(), SwitchError>>;

/// Talks to a switch's task; cheap to clone.
#[derive(Debug, Clone)]
pub struct SwitchHandle {
    name: Arc<str>,
    commands: mpsc::UnboundedSender<Command>,
}

impl SwitchHandle {
    /// The switch's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a section, without waiting. No entries: the section is removed.
    pub fn set(&self, section: Section, entries: Vec<Entry>) {
        let _ = self.commands.send(Command::Set { section, entries, verify: false, reply: None });
    }

    /// Sets a section, and reads it back if asked.
    pub async fn apply(
        &self,
        section: Section,
        entries: Vec<Entry>,
        verify: bool,
    ) -> Result<(), SwitchError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Set { section, entries, verify, reply: Some(reply) }, answer).await
    }

    /// Sends a frame out of a port; nothing happens while the switch is away.
    pub fn packet_out(&self, port: u16, frame: Vec<u8>) {
        let _ = self.commands.send(Command::PacketOut { port, frame });
    }

    /// Reads the event counters, by name.
    pub async fn counters(&self) -> Result<BTreeMap<String, u64>, SwitchError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Counters { reply }, answer).await
    }

    async fn ask<T>(
        &self,
        command: Command,
        answer: oneshot::Receiver<Result<T, SwitchError>>,
    ) -> Result<T, SwitchError> {
        let ending = || SwitchError::Ending(self.name.to_string());
        self.commands.send(command).map_err(|_| ending())?;
        answer.await.map_err(|_| ending())?
    }
}

/// The task.
pub struct SwitchTask {
    device: DeviceId,
    name: String,
    config: ClientConfig,
    pipeline: Arc<Pipeline>,
    commands: mpsc::UnboundedReceiver<Command>,
    events: mpsc::Sender<(DeviceId, SwitchEvent)>,
    in_charge: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
    sections: BTreeMap<Section, State>,
    /// What is known of the switch while it is away.
    state: String,
}

/// A connection that is under control.
struct Session {
    client: Client,
    events: Events,
    installed: State,
    pushed: bool,
}

impl SwitchTask {
    /// A task that is not running yet; it ends when its handles are dropped.
    pub fn new(
        spec: &SwitchSpec,
        pipeline: Arc<Pipeline>,
        election_id: u128,
        events: mpsc::Sender<(DeviceId, SwitchEvent)>,
        in_charge: watch::Receiver<bool>,
        metrics: Arc<Metrics>,
        access: Option<&Access>,
    ) -> (Self, SwitchHandle) {
        let (sender, commands) = mpsc::unbounded_channel();
        let scheme = if access.is_some() { "https" } else { "http" };
        let target = format!("{scheme}://{}", spec.target);
        let mut config = ClientConfig::new(spec.name.clone(), target, spec.device_id.into(), election_id);
        config.access = access.cloned().unwrap_or_default();
        let task = Self {
            device: spec.device_id,
            name: spec.name.clone(),
            config,
            pipeline,
            commands,
            events,
            in_charge,
            metrics,
            sections: BTreeMap::new(),
            state: "connecting".to_owned(),
        };
        (task, SwitchHandle { name: spec.name.as_str().into(), commands: sender })
    }

    /// Runs until the handles are dropped.
    pub async fn run(mut self) {
        let mut retry = FIRST_RETRY;
        loop {
            let (config, pipeline) = (self.config.clone(), self.pipeline.clone());
            let (device, events) = (self.device, self.events.clone());
            let opened = self.meanwhile(open(config, pipeline, device, events, self.in_charge.clone())).await;
            if let Some(Err(_)) = &opened {
                self.metrics.failed(&self.name, Operation::Open);
            }
            let reason = match opened {
                None => return,
                Some(Ok(session)) => {
                    retry = FIRST_RETRY;
                    match self.online(session).await {
                        None => return,
                        Some(reason) => reason,
                    }
                }
                Some(Err(reason)) => reason,
            };
            // The client's errors begin with the switch's name, which everybody here knows.
            let reason = reason.strip_prefix(&format!("switch {}: ", self.name)).unwrap_or(&reason);
            let state = format!("unreachable: {reason}");
            // The same thing again and again is said once.
            if state != self.state {
                tracing::warn!(switch = self.name, reason, "switch is unreachable, trying on");
            }
            self.state = state;
            if self.events.send((self.device, SwitchEvent::Down(self.state.clone()))).await.is_err() {
                return;
            }
            if self.meanwhile(tokio::time::sleep(retry)).await.is_none() {
                return;
            }
            retry = (retry * 2).min(LONGEST_RETRY);
        }
    }

    /// Waits for something while the switch is away: what it should hold is noted for later. `None`: the handles are gone.
    async fn meanwhile<T>(&mut self, what: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(what);
        loop {
            tokio::select! {
                result = &mut what => return Some(result),
                command = self.commands.recv() => self.away(command?),
            }
        }
    }

    fn away(&mut self, command: Command) {
        let away = || SwitchError::Away { switch: self.name.clone(), state: self.state.clone() };
        match command {
            Command::Set { section, entries, reply, .. } => {
                let error = away();
                let result = self.note(section, entries).and(Err(error));
                if let Some(reply) = reply {
                    let _ = reply.send(result);
                }
            }
            Command::PacketOut { .. } => {}
            Command::Counters { reply } => {
                let _ = reply.send(Err(away()));
            }
        }
    }

    /// Notes what a section should be.
    fn note(&mut self, section: Section, entries: Vec<Entry>) -> Result<(), SwitchError> {
        let mut state = State::new();
        for entry in entries {
            let entity = entry
                .entity(&self.pipeline.info)
                .map_err(|error| SwitchError::Entry { switch: self.name.clone(), error })?;
            state.extend(state::normal(entity));
        }
        if state.is_empty() {
            self.sections.remove(&section);
        } else {
            self.sections.insert(section, state);
        }
        Ok(())
    }

    fn desired(&self) -> State {
        self.sections.values().flatten().map(|(key, entity)| (key.clone(), entity.clone())).collect()
    }

    /// Serves a connection until it ends, and says why it did. `None`: the handles are gone.
    async fn online(&mut self, mut session: Session) -> Option<String> {
        // All that it should hold was said before it was opened.
        while let Ok(command) = self.commands.try_recv() {
            self.away(command);
        }
        // What an earlier controller left behind goes, what is missing comes.
        match self.reconcile(&mut session).await {
            Ok(failed) => {
                for (key, reason) in failed {
                    let what = state::describe(&self.pipeline.info, &key);
                    tracing::error!(switch = self.name, what, reason, "entry refused");
                }
            }
            Err(reason) => return Some(reason),
        }
        self.state = "ready".to_owned();
        tracing::info!(
            switch = self.name,
            pushed = session.pushed,
            entries = session.installed.len(),
            "switch is ready"
        );
        let up = SwitchEvent::Up { pushed: session.pushed };
        self.events.send((self.device, up)).await.ok()?;
        loop {
            tokio::select! {
                event = session.events.next() => match event {
                    Some(client::Event::PacketIn(packet)) => self.packet_in(&packet).await?,
                    Some(client::Event::Mastership(mastership)) if !mastership.is_primary => {
                        let reason = displaced(&mastership);
                        self.events.send((self.device, SwitchEvent::Displaced(reason.clone()))).await.ok()?;
                        return Some(reason);
                    }
                    Some(client::Event::Closed(reason)) => return Some(reason),
                    Some(client::Event::Error(error)) => {
                        tracing::warn!(switch = self.name, error = error.message, "the switch refused a message");
                    }
                    Some(_) => {}
                    None => return Some("the stream ended".to_owned()),
                },
                command = self.commands.recv() => {
                    if let Err(reason) = self.command(&mut session, command?).await {
                        return Some(reason);
                    }
                }
            }
        }
    }

    async fn packet_in(&self, packet: &inca_p4runtime::p4v1::PacketIn) -> Option<()> {
        let fields = match self.pipeline.info.packet_in_fields(packet) {
            Ok(fields) => fields,
            Err(error) => {
                tracing::warn!(switch = self.name, %error, "packet-in not understood");
                return Some(());
            }
        };
        let number = |name| fields.get(name).and_then(|value| bytestring::to_u64(value));
        let port = number("ingress_port").and_then(|port| u16::try_from(port).ok());
        if let (Some(port), Some(reason)) = (port, number("reason").and_then(Reason::from_number)) {
            let event = SwitchEvent::PacketIn { port, reason, frame: packet.payload.clone() };
            self.events.send((self.device, event)).await.ok()?;
        }
        Some(())
    }

    /// Takes a command, and all commands that wait behind it: changes that come together are written together.
    async fn command(&mut self, session: &mut Session, first: Command) -> Result<(), String> {
        let mut changes: Vec<(Section, bool, Option<Reply>)> = Vec::new();
        let mut counters = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Set { section, entries, verify, reply } => match self.note(section, entries) {
                    Ok(()) => changes.push((section, verify, reply)),
                    Err(error) => {
                        tracing::error!(%error, "entry does not fit the program");
                        reply.map(|reply| reply.send(Err(error)));
                    }
                },
                Command::PacketOut { port, frame } => {
                    let packet = self.pipeline.info.packet_out(frame, &[("egress_port", port.into())]);
                    let packet = packet.map_err(|error| error.to_string())?;
                    session.client.packet_out(packet).await.map_err(|error| error.to_string())?;
                }
                Command::Counters { reply } => counters.push(reply),
            }
            next = self.commands.try_recv().ok();
        }
        for reply in counters {
            let begun = Instant::now();
            let result = self.counters(&session.client).await;
            self.metrics.p4runtime(&self.name, Operation::Counters, begun, result.is_err());
            let _ = reply.send(result.map_err(|error| SwitchError::Connection(error.to_string())));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let (outcome, broken) = match self.reconcile(session).await {
            Ok(failed) => (Ok(failed), None),
            Err(reason) => (Err(SwitchError::Connection(reason.clone())), Some(reason)),
        };
        let verify = outcome.is_ok() && changes.iter().any(|(_, verify, _)| *verify);
        let read = match verify {
            true => {
                let begun = Instant::now();
                let read = read_back(&session.client, &self.pipeline).await;
                self.metrics.p4runtime(&self.name, Operation::ReadBack, begun, read.is_err());
                Some(read)
            }
            false => None,
        };
        for (section, verify, reply) in changes {
            let result = match (&outcome, &read) {
                (Err(error), _) => Err(error.clone()),
                (Ok(failed), _) if self.refused(section, failed).is_some() => {
                    self.refused(section, failed).map_or(Ok(()), Err)
                }
                (Ok(_), Some(Ok(read))) if verify => self.kept(section, read),
                (Ok(_), Some(Err(error))) if verify => Err(SwitchError::Connection(error.to_string())),
                _ => Ok(()),
            };
            match reply {
                Some(reply) => {
                    let _ = reply.send(result);
                }
                None => {
                    if let Err(error) = result {
                        tracing::error!(%error, ?section, "not installed");
                    }
                }
            }
        }
        broken.map_or(Ok(()), Err)
    }

    fn refused(&self, section: Section, failed: &BTreeMap<Key, String>) -> Option<SwitchError> {
        let keys = self.sections.get(&section)?;
        let (key, reason) = failed.iter().find(|(key, _)| keys.contains_key(key))?;
        let what = state::describe(&self.pipeline.info, key);
        Some(SwitchError::Refused { switch: self.name.clone(), what, reason: reason.clone() })
    }

    /// Whether everything of a section was read back.
    fn kept(&self, section: Section, read: &State) -> Result<(), SwitchError> {
        for (key, entity) in self.sections.get(&section).into_iter().flatten() {
            let found = match read.get(key) {
                Some(found) if found == entity => continue,
                Some(_) => "something else",
                None => "nothing",
            };
            let what = state::describe(&self.pipeline.info, key);
            return Err(SwitchError::NotKept { switch: self.name.clone(), what, found });
        }
        Ok(())
    }

    /// Writes the difference between what the switch holds and what it should. Entries that are refused are returned with the
    /// reason; an error is a broken connection.
    async fn reconcile(&self, session: &mut Session) -> Result<BTreeMap<Key, String>, String> {
        let desired = self.desired();
        let updates = state::updates(&self.pipeline.info, &session.installed, &desired);
        if updates.is_empty() {
            return Ok(BTreeMap::new());
        }
        tracing::debug!(switch = self.name, updates = updates.len(), "writing");
        let begun = Instant::now();
        let written = write(&session.client, updates.clone()).await;
        self.metrics.p4runtime(
            &self.name,
            Operation::Write,
            begun,
            !matches!(&written, Ok(failures) if failures.is_empty()),
        );
        let failures = written?;
        // What the switch holds can differ from what is believed, after a write that was cut off: the other operation then.
        let mut again = Vec::new();
        let mut forgiven = BTreeSet::new();
        for (index, code, _) in &failures {
            let update = &updates[*index];
            let Some(entity) = update.entity.clone() else { continue };
            match (update.r#type(), code) {
                (update::Type::Delete, Code::NotFound) => {
                    forgiven.insert(*index);
                }
                (update::Type::Insert, Code::AlreadyExists) => again.push((*index, vec![modify(entity)])),
                (update::Type::Modify, Code::NotFound) => again.push((*index, vec![insert(entity)])),
                (update::Type::Modify, _) => {
                    again.push((*index, vec![delete(entity.clone()), insert(entity)]))
                }
                _ => {}
            }
        }
        for (index, steps) in again {
            let last = steps.len() - 1;
            if !write(&session.client, steps).await?.iter().any(|(step, ..)| *step == last) {
                forgiven.insert(index);
            }
        }
        let mut failed: BTreeMap<usize, String> =
            failures.into_iter().map(|(index, _, reason)| (index, reason)).collect();
        failed.retain(|index, _| !forgiven.contains(index));
        let mut refused = BTreeMap::new();
        for (index, update) in updates.into_iter().enumerate() {
            let is_delete = update.r#type() == update::Type::Delete;
            let Some((key, entity)) = update.entity.and_then(state::normal) else { continue };
            match failed.remove(&index) {
                Some(reason) => {
                    refused.insert(key, reason);
                }
                None if is_delete => {
                    session.installed.remove(&key);
                }
                None => {
                    session.installed.insert(key, entity);
                }
            }
        }
        Ok(refused)
    }

    async fn counters(&self, client: &Client) -> Result<BTreeMap<String, u64>, CallError> {
        let Ok(info) = self.pipeline.info.counter("events") else { return Ok(BTreeMap::new()) };
        let cells = client.read_counter(info.id, None).await?;
        let packets: BTreeMap<i64, u64> = cells
            .into_iter()
            .filter_map(|cell| Some((cell.index?.index, cell.data?.packet_count.max(0) as u64)))
            .collect();
        let named = events().iter().map(|(index, name)| {
            let count = packets.get(&i64::from(*index)).copied().unwrap_or(0);
            (name.clone(), count)
        });
        Ok(named.collect())
    }
}

/// Writes updates; those that were refused come back by index, with code and reason. An error is a broken connection.
async fn write(client: &Client, updates: Vec<Update>) -> Result<Vec<(usize, Code, String)>, String> {
    match client.write(updates).await {
        Ok(()) => Ok(Vec::new()),
        Err(WriteError::Updates { failures, .. }) => Ok(failures
            .into_iter()
            .map(|failure| (failure.index, failure.error.code, failure.error.to_string()))
            .collect()),
        Err(error) => Err(error.to_string()),
    }
}

/// Connects, waits to be in charge, pushes the pipeline if it differs, and reads what the switch holds.
async fn open(
    config: ClientConfig,
    pipeline: Arc<Pipeline>,
    device: DeviceId,
    events_out: mpsc::Sender<(DeviceId, SwitchEvent)>,
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
            let _ = events_out.send((device, SwitchEvent::Down(format!("standby: {reason}")))).await;
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
        let _ = events_out.send((device, SwitchEvent::Elected)).await;
    }
    in_charge.wait_for(|in_charge| *in_charge).await.map_err(|_| "the controller is ending".to_owned())?;
    let state = client.ensure_pipeline(&pipeline).await.map_err(|error| error.to_string())?;
    let pushed = state == PipelineState::Pushed;
    let installed = match pushed {
        true => State::new(),
        false => read_back(&client, &pipeline).await.map_err(|error| error.to_string())?,
    };
    Ok(Session { client, events, installed, pushed })
}

fn displaced(mastership: &Mastership) -> String {
    format!("another controller, with election id {}, is in charge", mastership.election_id)
}

/// All table entries and multicast groups of a switch.
async fn read_back(client: &Client, pipeline: &Pipeline) -> Result<State, CallError> {
    let mut state = State::new();
    for table in pipeline.info.tables() {
        state.extend(
            client.read_table(table.id).await?.into_iter().filter_map(|entry| state::normal(entry.into())),
        );
    }
    let groups = client.read_multicast_groups(0).await?;
    state.extend(groups.into_iter().filter_map(|group| state::normal(group.into())));
    Ok(state)
}
