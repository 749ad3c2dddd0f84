//! What a switch's task is told, and what it tells.

use std::collections::BTreeMap;
use std::sync::Arc;

use inca_p4runtime::EntryError;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::jobs::JobId;
use crate::program::{Entry, Reason};
use crate::routing::Network;

/// A part of what a switch should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Number formats and the addresses that only switches have: alike in all switches.
    Base,
    /// The switch's own address.
    Own,
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

pub(super) enum Command {
    Set { section: Section, entries: Vec<Entry>, verify: bool, reply: Option<Reply> },
    Route(Arc<Network>),
    PacketOut { port: u16, frame: Vec<u8> },
    Counters { reply: oneshot::Sender<Result<BTreeMap<String, u64>, SwitchError>> },
}

pub(super) type Reply = oneshot::Sender<Result<(), SwitchError>>;

/// Talks to a switch's task; cheap to clone.
#[derive(Debug, Clone)]
pub struct SwitchHandle {
    name: Arc<str>,
    commands: mpsc::UnboundedSender<Command>,
}

impl SwitchHandle {
    pub(super) fn new(name: &str) -> (Self, mpsc::UnboundedReceiver<Command>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        (Self { name: name.into(), commands }, receiver)
    }

    /// The switch's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a section, without waiting. No entries: the section is removed.
    pub fn set(&self, section: Section, entries: Vec<Entry>) {
        let _ = self.commands.send(Command::Set { section, entries, verify: false, reply: None });
    }

    /// Sets ordinary traffic, without waiting: this switch's part of the network. What is set later waits until it is written.
    pub fn route(&self, network: Arc<Network>) {
        let _ = self.commands.send(Command::Route(network));
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
