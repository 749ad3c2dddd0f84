//! What is asked of the owner, and what jobs want done: answers, events to ranks, installations.

use std::time::{Duration, Instant};

use inca_p4runtime::northbound;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::{Done, MEMBER_EVENTS, Membership, Owner, Request, report};
use crate::jobs::{self, JobId, JoinError, SubmitError};
use crate::program::Entry;
use crate::switch::{Section, SwitchHandle};

/// How long a switch may take to remove entries before it is left to itself.
const REMOVAL: Duration = Duration::from_secs(1);

impl Owner {
    pub(super) fn request(&mut self, request: Request) {
        let now = Instant::now();
        match request {
            Request::Join { request, reply } => {
                let id = self.next_member;
                let joined = match *self.in_charge.borrow() {
                    true => self.jobs.join(now, id, &request),
                    false => Err(JoinError::Standby),
                };
                match joined {
                    Ok(actions) => {
                        self.next_member += 1;
                        let (sender, events) = mpsc::channel(MEMBER_EVENTS);
                        self.members.insert(id, sender);
                        // A caller that has gone meanwhile is as good as one that goes now.
                        let lost = reply.send(Ok(Membership { id, events })).is_err();
                        self.perform(now, actions);
                        if lost {
                            self.request(Request::Disconnected(id));
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "join refused");
                        self.log.push(report::refused(&request, &error));
                        let actions = self.jobs.refused(now, &request, &error);
                        let _ = reply.send(Err(error));
                        self.perform(now, actions);
                    }
                }
            }
            Request::Leave { request, reply } => match self.jobs.leave(now, &request) {
                Ok(actions) => {
                    let _ = reply.send(Ok(()));
                    self.perform(now, actions);
                }
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            },
            Request::Report { request, reply } => {
                let result = self.jobs.report(now, &request);
                self.answer(now, result, reply);
            }
            Request::HandOver { request, reply } => {
                let result = self.jobs.handed_over(now, &request);
                self.answer(now, result, reply);
            }
            Request::Stalled(request) => {
                let actions = self.jobs.stalled(now, &request);
                self.perform(now, actions);
            }
            Request::Submit { request, reply } => {
                let submitted = match *self.in_charge.borrow() {
                    true => self.jobs.submit(now, &request),
                    false => Err(SubmitError::Standby),
                };
                // On disk before anybody is told.
                self.perform(now, Vec::new());
                let _ = reply.send(submitted);
            }
            Request::Disconnected(id) => {
                self.members.remove(&id);
                let actions = self.jobs.disconnected(now, id);
                self.perform(now, actions);
            }
            Request::Status { counters, reply } => self.status(counters, reply),
            Request::EndJob { request, reply } => {
                let reason = match request.reason.as_str() {
                    "" => "an operator ended it".to_owned(),
                    reason => format!("an operator ended it: {reason}"),
                };
                match self.jobs.end_job(now, &request.job, request.group.as_deref(), &reason) {
                    Ok((names, actions)) => {
                        let _ = reply.send(Ok(names.into_iter().map(|name| name.group).collect()));
                        self.perform(now, actions);
                    }
                    Err(error) => {
                        let _ = reply.send(Err(error));
                    }
                }
            }
            Request::Plan { request, reply } => {
                let _ = reply.send(self.jobs.outlook(now, &request));
            }
            Request::Stop { .. } => {}
        }
    }

    pub(super) fn answer<E>(
        &mut self,
        now: Instant,
        result: Result<Vec<jobs::Action>, E>,
        reply: oneshot::Sender<Result<(), E>>,
    ) {
        match result {
            Ok(actions) => {
                let _ = reply.send(Ok(()));
                self.perform(now, actions);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    pub(super) fn perform(&mut self, now: Instant, actions: Vec<jobs::Action>) {
        self.remember();
        for note in self.jobs.take_notes() {
            self.log.push(report::group(note));
        }
        let mut deaf = Vec::new();
        for action in actions {
            match action {
                jobs::Action::Tell(id, event) => {
                    let event = northbound::JoinEvent { event: Some(event) };
                    if let Some(member) = self.members.get(&id)
                        && member.try_send(event).is_err()
                    {
                        deaf.push(id);
                    }
                }
                jobs::Action::End(id) => {
                    self.members.remove(&id);
                }
                jobs::Action::Install { job, nodes } => {
                    let name = self.jobs.name_of(job).map(ToString::to_string).unwrap_or_default();
                    // `name` is what JSON calls the span itself.
                    let group = tracing::info_span!("group", job = name, id = job);
                    let span = tracing::info_span!(parent: &group, "install", switches = nodes.len());
                    let nodes = nodes.into_iter().filter_map(|(device, entries)| {
                        Some((self.switches.get(&device)?.handle.clone(), entries))
                    });
                    self.working.spawn(install(job, nodes.collect()).instrument(span));
                }
                jobs::Action::Remove { job, devices } => {
                    let handles =
                        devices.iter().filter_map(|device| Some(self.switches.get(device)?.handle.clone()));
                    self.working.spawn(remove(job, handles.collect()));
                }
            }
        }
        for id in deaf {
            self.members.remove(&id);
            let actions = self.jobs.disconnected(now, id);
            self.perform(now, actions);
        }
    }

    pub(super) fn done(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Installed { job, result } => {
                let actions = self.jobs.installed(now, job, result);
                self.perform(now, actions);
            }
            Done::Removed { job } => {
                let actions = self.jobs.removed(now, job);
                self.perform(now, actions);
            }
            Done::Nothing => {}
        }
    }
}

/// Children before parents, one switch after the other: nothing is sent before all is in, so the order only decides what is
/// found out first.
async fn install(job: JobId, nodes: Vec<(SwitchHandle, Vec<Entry>)>) -> Done {
    let begun = Instant::now();
    for (switch, entries) in nodes {
        tracing::debug!(switch = switch.name(), entries = entries.len(), "installing");
        if let Err(error) = switch.apply(Section::Job(job), entries, true).await {
            return Done::Installed { job, result: Err(error.to_string()) };
        }
    }
    tracing::info!(took = ?begun.elapsed(), "trees are installed and read back");
    Done::Installed { job, result: Ok(()) }
}

/// A switch that is away loses the entries when it comes back.
async fn remove(job: JobId, switches: Vec<SwitchHandle>) -> Done {
    let mut removals = JoinSet::new();
    for switch in switches {
        removals.spawn(async move {
            // Whatever is installed there later comes after it.
            match tokio::time::timeout(REMOVAL, switch.apply(Section::Job(job), Vec::new(), false)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, job, "entries are not removed yet"),
                Err(_) => tracing::warn!(job, "a switch does not answer: entries are not removed yet"),
            }
        });
    }
    while removals.join_next().await.is_some() {}
    Done::Removed { job }
}
