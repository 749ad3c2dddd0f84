//! The task of one switch: connects, pushes the pipeline where it differs, and keeps the switch's entries at what they should be.
//!
//! What a switch should hold is kept in sections, so that each job comes and goes by itself; ordinary traffic, by far the most, is
//! kept as what it follows from, see [`Network`]. Whatever changes, or whatever an earlier controller left behind, is found by
//! comparing with what the switch holds: nothing is written twice, and a restart disturbs no traffic.
//!
//! Writes go in batches, and all switches together have few of them on their way, in turns: memory is bounded whatever changes at
//! once, and no switch waits for another to be done. Packets go to and fro meanwhile, so that no link looks dead because its
//! switch has much to learn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inca_p4runtime::client::{self, CallError, Client, ClientConfig, Pipeline, delete, insert, modify};
use inca_p4runtime::p4v1::{PacketIn, Update, update};
use inca_p4runtime::{Access, EntryError, P4Info, bytestring};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tonic::Code;

use super::handle::{Command, Reply};
use super::session::{self, Refusal, Session};
use super::state::{self, Key, State, Step};
use super::{Section, SwitchError, SwitchEvent, SwitchHandle};
use crate::graph::DeviceId;
use crate::inventory::SwitchSpec;
use crate::metrics::{Metrics, Operation};
use crate::program::{Entry, Reason, events};
use crate::routing::{Change, Network};

/// Wait after a failed connection; doubled after each, up to the longest.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// Updates in one write.
const BATCH: usize = 128;
/// Writes on their way, of all switches.
const WRITES: usize = 8;
/// Switches whose ordinary traffic is brought up to date at a time: what changes at each is a list that may be long.
const NETWORKS: usize = 16;
/// Pipelines pushed, or whole switches read, at a time.
const HEAVY: usize = 4;
/// Refused entries that are logged one by one.
const LOGGED: usize = 8;

/// What the tasks of all switches have in common; cheap to clone.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// What all switches hold alike.
    pub base: Arc<State>,
    /// Where events go.
    pub events: mpsc::Sender<(DeviceId, SwitchEvent)>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    pub(super) writes: Arc<Semaphore>,
    pub(super) networks: Arc<Semaphore>,
    pub(super) heavy: Arc<Semaphore>,
}

impl Shared {
    /// For all switches of a controller.
    pub fn new(
        pipeline: Arc<Pipeline>,
        base: Arc<State>,
        events: mpsc::Sender<(DeviceId, SwitchEvent)>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let turns = |count| Arc::new(Semaphore::new(count));
        let (writes, networks, heavy) = (turns(WRITES), turns(NETWORKS), turns(HEAVY));
        Self { pipeline, base, events, metrics, writes, networks, heavy }
    }
}

/// The task.
pub struct SwitchTask {
    device: DeviceId,
    name: String,
    config: ClientConfig,
    shared: Shared,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Commands that came while something was being done.
    waiting: VecDeque<Command>,
    in_charge: watch::Receiver<bool>,
    sections: BTreeMap<Section, Arc<State>>,
    network: Arc<Network>,
    /// What is known of the switch while it is away.
    state: String,
}

/// Why a connection is no longer served.
enum Ended {
    /// The handles are gone.
    Handles,
    /// It broke, for this reason.
    Lost(String),
}

/// Updates that become messages when it is their turn: as such they are large.
#[derive(Clone, Copy)]
enum Updates<'a> {
    Steps(&'a [Step]),
    Changes(&'a [Change], &'a P4Info),
}

impl Updates<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Steps(steps) => steps.len(),
            Self::Changes(changes, _) => changes.len(),
        }
    }

    fn at(&self, index: usize) -> Result<Update, EntryError> {
        match self {
            Self::Steps(steps) => Ok(steps[index].update()),
            Self::Changes(changes, info) => {
                let Change { kind, rule } = &changes[index];
                let entity = rule.entry().entity(info)?;
                Ok(Update { r#type: (*kind).into(), entity: Some(entity) })
            }
        }
    }
}

impl SwitchTask {
    /// A task that is not running yet; it ends when its handles are dropped.
    pub fn new(
        spec: &SwitchSpec,
        election_id: u128,
        shared: Shared,
        in_charge: watch::Receiver<bool>,
        access: Option<&Access>,
    ) -> (Self, SwitchHandle) {
        let (handle, commands) = SwitchHandle::new(&spec.name);
        let scheme = if access.is_some() { "https" } else { "http" };
        let target = format!("{scheme}://{}", spec.target);
        let mut config = ClientConfig::new(spec.name.clone(), target, spec.device_id.into(), election_id);
        config.access = access.cloned().unwrap_or_default();
        config.batch = BATCH;
        let task = Self {
            device: spec.device_id,
            name: spec.name.clone(),
            config,
            sections: BTreeMap::from([(Section::Base, shared.base.clone())]),
            shared,
            commands,
            waiting: VecDeque::new(),
            in_charge,
            network: Arc::default(),
            state: "connecting".to_owned(),
        };
        (task, handle)
    }

    /// Runs until the handles are dropped.
    pub async fn run(mut self) {
        let mut retry = FIRST_RETRY;
        loop {
            let open =
                session::open(self.config.clone(), self.device, self.shared.clone(), self.in_charge.clone());
            let opened = self.meanwhile(open).await;
            if let Some(Err(_)) = &opened {
                self.shared.metrics.failed(&self.name, Operation::Open);
            }
            let reason = match opened {
                None => return,
                Some(Ok(mut session)) => {
                    retry = FIRST_RETRY;
                    match self.online(&mut session).await {
                        Ended::Handles => return,
                        Ended::Lost(reason) => reason,
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
            for command in std::mem::take(&mut self.waiting) {
                self.away(command);
            }
            let down = SwitchEvent::Down(self.state.clone());
            if self.shared.events.send((self.device, down)).await.is_err() {
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
                let result = self.note(section, &entries).and(Err(error));
                if let Some(reply) = reply {
                    let _ = reply.send(result);
                }
            }
            Command::Route(network) => self.network = network,
            Command::PacketOut { .. } => {}
            Command::Counters { reply } => {
                let _ = reply.send(Err(away()));
            }
        }
    }

    /// Notes what a section should be.
    fn note(&mut self, section: Section, entries: &[Entry]) -> Result<(), SwitchError> {
        let state = state::state(&self.shared.pipeline.info, entries)
            .map_err(|error| SwitchError::Entry { switch: self.name.clone(), error })?;
        if state.is_empty() {
            self.sections.remove(&section);
        } else {
            self.sections.insert(section, Arc::new(state));
        }
        Ok(())
    }

    /// Serves a connection until it ends, and says why it did.
    async fn online(&mut self, session: &mut Session) -> Ended {
        // All that it should hold was said before it was opened.
        while let Ok(command) = self.commands.try_recv() {
            self.away(command);
        }
        match self.serve(session).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn serve(&mut self, session: &mut Session) -> Result<std::convert::Infallible, Ended> {
        // What an earlier controller left behind goes, what is missing comes.
        if !session.pushed {
            let (client, shared) = (session.client.clone(), self.shared.clone());
            let read = async move {
                let _turn = shared.heavy.acquire().await;
                session::read_sections(client, &shared.pipeline.info).await
            };
            let read = self.beside(session, read).await?.map_err(|error| Ended::Lost(error.to_string()))?;
            session.installed = self.known(read);
        }
        self.keep_network(session).await?;
        for (key, reason) in self.keep_sections(session).await? {
            let what = state::describe(&self.shared.pipeline.info, &key);
            tracing::error!(switch = self.name, what, reason, "entry refused");
        }
        self.state = "ready".to_owned();
        let entries = session.installed.len();
        tracing::info!(switch = self.name, pushed = session.pushed, entries, "switch is ready");
        self.tell(SwitchEvent::Up { pushed: session.pushed }).await?;
        loop {
            if self.waiting.is_empty() {
                tokio::select! {
                    event = session.events.next() => self.event(event).await?,
                    command = self.commands.recv() => self.waiting.push_back(command.ok_or(Ended::Handles)?),
                }
            }
            self.work(session).await?;
        }
    }

    /// What was read and is as it should be shares the copy of that.
    fn known(&self, read: State) -> State {
        let same = |(key, entity)| {
            let mut wanted = self.sections.values().filter_map(|section| section.get_key_value(&key));
            match wanted.next() {
                Some((known, should)) if *should == entity => (known.clone(), should.clone()),
                _ => (key, entity),
            }
        };
        read.into_iter().map(same).collect()
    }

    async fn tell(&self, event: SwitchEvent) -> Result<(), Ended> {
        self.shared.events.send((self.device, event)).await.map_err(|_| Ended::Handles)
    }

    async fn event(&self, event: Option<client::Event>) -> Result<(), Ended> {
        match event {
            Some(client::Event::PacketIn(packet)) => self.packet_in(packet).await,
            Some(client::Event::Mastership(mastership)) if !mastership.is_primary => {
                let reason = session::displaced(&mastership);
                self.tell(SwitchEvent::Displaced(reason.clone())).await?;
                Err(Ended::Lost(reason))
            }
            Some(client::Event::Closed(reason)) => Err(Ended::Lost(reason)),
            Some(client::Event::Error(error)) => {
                tracing::warn!(switch = self.name, error = error.message, "the switch refused a message");
                Ok(())
            }
            Some(_) => Ok(()),
            None => Err(Ended::Lost("the stream ended".to_owned())),
        }
    }

    async fn packet_in(&self, packet: PacketIn) -> Result<(), Ended> {
        let fields = match self.shared.pipeline.info.packet_in_fields(&packet) {
            Ok(fields) => fields,
            Err(error) => {
                tracing::warn!(switch = self.name, %error, "packet-in not understood");
                return Ok(());
            }
        };
        let number = |name| fields.get(name).and_then(|value| bytestring::to_u64(value));
        let port = number("ingress_port").and_then(|port| u16::try_from(port).ok());
        if let (Some(port), Some(reason)) = (port, number("reason").and_then(Reason::from_number)) {
            self.tell(SwitchEvent::PacketIn { port, reason, frame: packet.payload }).await?;
        }
        Ok(())
    }

    async fn packet_out(&self, client: &Client, port: u16, frame: Vec<u8>) -> Result<(), Ended> {
        let lost = |error: String| Ended::Lost(error);
        let packet = self.shared.pipeline.info.packet_out(frame, &[("egress_port", port.into())]);
        let packet = packet.map_err(|error| lost(error.to_string()))?;
        client.packet_out(packet).await.map_err(|error| lost(error.to_string()))
    }

    /// Waits for something while packets go to and fro; other commands wait.
    async fn beside<T>(&mut self, session: &mut Session, what: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::pin!(what);
        loop {
            tokio::select! {
                result = &mut what => return Ok(result),
                event = session.events.next() => self.event(event).await?,
                command = self.commands.recv() => match command.ok_or(Ended::Handles)? {
                    Command::PacketOut { port, frame } => self.packet_out(&session.client, port, frame).await?,
                    command => self.waiting.push_back(command),
                },
            }
        }
    }

    /// Does all commands that wait: changes that come together are written together.
    async fn work(&mut self, session: &mut Session) -> Result<(), Ended> {
        let mut changes: Vec<(Section, bool, Option<Reply>)> = Vec::new();
        let mut counters = Vec::new();
        while let Some(command) = self.waiting.pop_front().or_else(|| self.commands.try_recv().ok()) {
            match command {
                Command::Set { section, entries, verify, reply } => match self.note(section, &entries) {
                    Ok(()) => changes.push((section, verify, reply)),
                    Err(error) => {
                        tracing::error!(%error, "entry does not fit the program");
                        reply.map(|reply| reply.send(Err(error)));
                    }
                },
                Command::Route(network) => self.network = network,
                Command::PacketOut { port, frame } => self.packet_out(&session.client, port, frame).await?,
                Command::Counters { reply } => counters.push(reply),
            }
        }
        if !counters.is_empty() {
            self.count(session, counters).await?;
        }
        // Ranks that are told of their trees ask for addresses at once: those come first.
        self.keep_network(session).await?;
        if changes.is_empty() {
            return Ok(());
        }
        match self.change(session, &changes).await {
            Ok(results) => {
                for ((section, _, reply), result) in changes.into_iter().zip(results) {
                    match (reply, result) {
                        (Some(reply), result) => {
                            let _ = reply.send(result);
                        }
                        (None, Err(error)) => tracing::error!(%error, ?section, "not installed"),
                        (None, Ok(())) => {}
                    }
                }
                Ok(())
            }
            Err(ended) => {
                if let Ended::Lost(reason) = &ended {
                    let error = SwitchError::Connection(reason.clone());
                    for reply in changes.into_iter().filter_map(|(_, _, reply)| reply) {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
                Err(ended)
            }
        }
    }

    /// Brings changed sections about; the outcome of each.
    async fn change(
        &mut self,
        session: &mut Session,
        changes: &[(Section, bool, Option<Reply>)],
    ) -> Result<Vec<Result<(), SwitchError>>, Ended> {
        let failed = self.keep_sections(session).await?;
        let mut keys = State::new();
        for (section, verify, _) in changes {
            if *verify && let Some(state) = self.sections.get(section) {
                keys.extend(state.iter().map(|(key, entity)| (key.clone(), entity.clone())));
            }
        }
        let read = match keys.is_empty() {
            true => Ok(State::new()),
            false => {
                let begun = Instant::now();
                let read = session::read_like(session.client.clone(), &keys);
                let read = self.beside(session, read).await?;
                self.shared.metrics.p4runtime(&self.name, Operation::ReadBack, begun, read.is_err());
                read
            }
        };
        let outcome = |(section, verify, _): &(Section, bool, Option<Reply>)| {
            if let Some(error) = self.refused(*section, &failed) {
                return Err(error);
            }
            match &read {
                Ok(read) if *verify => self.kept(*section, read),
                Err(error) if *verify => Err(SwitchError::Connection(error.to_string())),
                _ => Ok(()),
            }
        };
        Ok(changes.iter().map(outcome).collect())
    }

    fn refused(&self, section: Section, failed: &BTreeMap<Arc<Key>, String>) -> Option<SwitchError> {
        let keys = self.sections.get(&section)?;
        let (key, reason) = failed.iter().find(|(key, _)| keys.contains_key(*key))?;
        let what = state::describe(&self.shared.pipeline.info, key);
        Some(SwitchError::Refused { switch: self.name.clone(), what, reason: reason.clone() })
    }

    /// Whether everything of a section was read back.
    fn kept(&self, section: Section, read: &State) -> Result<(), SwitchError> {
        for (key, entity) in self.sections.get(&section).into_iter().flat_map(|section| &**section) {
            let found = match read.get(key) {
                Some(found) if found == entity => continue,
                Some(_) => "something else",
                None => "nothing",
            };
            let what = state::describe(&self.shared.pipeline.info, key);
            return Err(SwitchError::NotKept { switch: self.name.clone(), what, found });
        }
        Ok(())
    }

    /// Writes what sections and switch differ by. Entries that are refused are returned with the reason.
    async fn keep_sections(&mut self, session: &mut Session) -> Result<BTreeMap<Arc<Key>, String>, Ended> {
        let desired = self.sections.values().map(|section| &**section);
        let steps = state::steps(&self.shared.pipeline.info, &session.installed, desired);
        let mut refused = self.write(session, Updates::Steps(&steps)).await?;
        let mut failed = BTreeMap::new();
        for (index, step) in steps.into_iter().enumerate() {
            match refused.remove(&index) {
                Some(reason) => {
                    failed.insert(step.key, reason);
                }
                None if step.kind == update::Type::Delete => {
                    session.installed.remove(&step.key);
                }
                None => {
                    session.installed.insert(step.key, step.entity);
                }
            }
        }
        Ok(failed)
    }

    /// Writes what the network and the switch's ordinary traffic differ by.
    async fn keep_network(&mut self, session: &mut Session) -> Result<(), Ended> {
        if session.network.as_ref().is_some_and(|known| Arc::ptr_eq(known, &self.network)) {
            return Ok(());
        }
        let shared = self.shared.clone();
        let turn = self.beside(session, shared.networks.acquire()).await?;
        let network = self.network.clone();
        let info = &shared.pipeline.info;
        let refused = match session.network.take() {
            Some(before) => {
                let changes = network.changes(&before, self.device);
                self.write(session, Updates::Changes(&changes, info)).await?
            }
            None => {
                let begun = Instant::now();
                let heavy = self.beside(session, shared.heavy.acquire()).await?;
                let read = session::read_routing(session.client.clone(), info);
                let read = self.beside(session, read).await?;
                shared.metrics.p4runtime(&self.name, Operation::ReadBack, begun, read.is_err());
                let read = read.map_err(|error| Ended::Lost(error.to_string()))?;
                let wanted: Vec<_> = network.rules(self.device).iter().map(|rule| rule.entry()).collect();
                let wanted = state::state(info, &wanted).map_err(|error| Ended::Lost(error.to_string()))?;
                let steps = state::steps(info, &read, [&wanted].into_iter());
                drop((read, wanted));
                let refused = self.write(session, Updates::Steps(&steps)).await?;
                drop(heavy);
                refused
            }
        };
        drop(turn);
        for reason in refused.values().take(LOGGED) {
            tracing::error!(switch = self.name, reason, refused = refused.len(), "routes are not installed");
        }
        // What was refused is found by reading, and tried again, with the next change.
        session.network = refused.is_empty().then_some(network);
        Ok(())
    }

    /// Writes updates, batch by batch. Those that are refused are returned by position, with the reason.
    async fn write(
        &mut self,
        session: &mut Session,
        updates: Updates<'_>,
    ) -> Result<BTreeMap<usize, String>, Ended> {
        let (mut refused, mut done) = (BTreeMap::new(), 0);
        while done < updates.len() {
            let turn = self.shared.writes.clone().acquire_owned();
            let turn = self.beside(session, turn).await?;
            let end = updates.len().min(done + BATCH);
            let batch = (done..end).map(|index| updates.at(index)).collect::<Result<_, _>>();
            let batch = batch.map_err(|error| Ended::Lost(error.to_string()))?;
            let failures = self.write_batch(session, batch).await?;
            refused.extend(failures.into_iter().map(|(index, reason)| (done + index, reason)));
            done = end;
            drop(turn);
        }
        Ok(refused)
    }

    async fn write_batch(
        &mut self,
        session: &mut Session,
        batch: Vec<Update>,
    ) -> Result<BTreeMap<usize, String>, Ended> {
        tracing::debug!(switch = self.name, updates = batch.len(), "writing");
        let client = session.client.clone();
        let begun = Instant::now();
        let written = self.beside(session, session::write(client.clone(), batch)).await?;
        let failed = !matches!(&written, Ok(failures) if failures.is_empty());
        self.shared.metrics.p4runtime(&self.name, Operation::Write, begun, failed);
        let mut refused = BTreeMap::new();
        // What the switch holds can differ from what is believed, after a write that was cut off: the other operation then.
        for Refusal { index, update, code, reason } in written.map_err(Ended::Lost)? {
            let kind = update.r#type();
            let again = match (kind, code, update.entity) {
                (update::Type::Delete, Code::NotFound, _) => continue,
                (update::Type::Insert, Code::AlreadyExists, Some(entity)) => vec![modify(entity)],
                (update::Type::Modify, Code::NotFound, Some(entity)) => vec![insert(entity)],
                (update::Type::Modify, _, Some(entity)) => vec![delete(entity.clone()), insert(entity)],
                _ => Vec::new(),
            };
            let last = again.len().checked_sub(1);
            let again = session::write(client.clone(), again);
            let failures = self.beside(session, again).await?.map_err(Ended::Lost)?;
            if last.is_none_or(|last| failures.iter().any(|failure| failure.index == last)) {
                refused.insert(index, reason);
            }
        }
        Ok(refused)
    }

    async fn count(
        &mut self,
        session: &mut Session,
        replies: Vec<oneshot::Sender<Result<BTreeMap<String, u64>, SwitchError>>>,
    ) -> Result<(), Ended> {
        for reply in replies {
            let begun = Instant::now();
            let (client, pipeline) = (session.client.clone(), self.shared.pipeline.clone());
            let result = self.beside(session, async move { counters(&client, &pipeline).await }).await?;
            self.shared.metrics.p4runtime(&self.name, Operation::Counters, begun, result.is_err());
            let _ = reply.send(result.map_err(|error| SwitchError::Connection(error.to_string())));
        }
        Ok(())
    }
}

async fn counters(client: &Client, pipeline: &Pipeline) -> Result<BTreeMap<String, u64>, CallError> {
    let Ok(info) = pipeline.info.counter("events") else { return Ok(BTreeMap::new()) };
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
