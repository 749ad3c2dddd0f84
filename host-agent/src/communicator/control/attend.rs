//! A member's conversation with the controller, until it leaves or the group ends.
//!
//! The controller is not needed while sums go on: when its stream is lost, the rank attaches again, for as long as it takes.

use std::ops::ControlFlow;
use std::time::Duration;

use inca_p4runtime::access::Line;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::{
    self, HandOverRequest, JoinEvent, JoinRequest, LeaveRequest, Progress, ProgressRequest, ReportRequest,
    StalledRequest, join_event::Event,
};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tonic::{Code, Streaming};

use super::{CONNECT_RETRY, Request, Session, convert};
use crate::protocol::{Account, Closed, NextGeneration};
use crate::transport::Engine;

/// How long leaving may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between looks at whether a chunk does not finish.
const STALL_LOOK: Duration = Duration::from_millis(300);
/// Between words of what this rank has done.
const PROGRESS: Duration = Duration::from_secs(2);
/// How long the controller may take to answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// A stream, and the connection that it came by.
type Connection = (ControllerClient<Line>, Streaming<JoinEvent>);

/// What a member does.
struct Member<'a> {
    session: &'a Session,
    driver: Engine,
    /// Slots of every tree: fixed for the group's life.
    slots: &'a [usize],
    /// The highest generation or attempt that was heard of: what belongs to earlier ones is void.
    attempt: u32,
    /// Stopped, and not in a new generation yet.
    stopped: bool,
    /// The chunk that did not finish when last looked at.
    stalled: Option<u64>,
}

impl Session {
    /// Keeps the stream open until either side ends the membership.
    pub(super) async fn attend(
        &self,
        client: ControllerClient<Line>,
        stream: Streaming<JoinEvent>,
        driver: Engine,
        slots: &[usize],
        mut inbox: mpsc::UnboundedReceiver<Request>,
    ) {
        let attempt = driver.membership().0;
        let mut member = Member { session: self, driver, slots, attempt, stopped: false, stalled: None };
        let mut connection = (client, stream);
        let mut look = tokio::time::interval(STALL_LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut progress = tokio::time::interval(PROGRESS);
        progress.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let (client, stream) = &mut connection;
            tokio::select! {
                _ = look.tick() => member.look(client).await,
                _ = progress.tick() => member.tell_progress(client.clone()),
                event = stream.message() => {
                    let reason = match event {
                        Ok(Some(JoinEvent { event: Some(event) })) => {
                            match member.obey(client, event).await {
                                ControlFlow::Continue(()) => continue,
                                ControlFlow::Break(()) => return,
                            }
                        }
                        // An event of a later version.
                        Ok(Some(JoinEvent { event: None })) => continue,
                        Ok(None) => "it ended the stream".to_owned(),
                        Err(status) => status.message().to_owned(),
                    };
                    match member.attach(reason, &mut inbox).await {
                        Some(attached) => connection = attached,
                        None => return,
                    }
                }
                told = inbox.recv() => {
                    member.leave(Some(client), told).await;
                    return;
                }
            }
        }
    }
}

impl Member<'_> {
    /// Does what the controller says.
    async fn obey(&mut self, client: &mut ControllerClient<Line>, event: Event) -> ControlFlow<()> {
        let (job, group) = (self.session.options.job.clone(), self.session.options.group.clone());
        let rank = self.session.options.rank;
        let member_token = self.session.member_token();
        match event {
            Event::Stop(stop) if stop.attempt >= self.attempt => {
                (self.attempt, self.stopped) = (stop.attempt, true);
                tracing::warn!(job, rank, reason = stop.reason, "stopped");
                // A generation that has ended here is reported by itself.
                let Some(finished) = self.driver.suspend(stop.reason).await else {
                    return ControlFlow::Continue(());
                };
                let finished = convert::flat(finished);
                let report =
                    ReportRequest { job, group, rank, attempt: stop.attempt, finished, member_token };
                told("report", timeout(CALL_TIMEOUT, client.report(report)).await);
            }
            Event::Fetch(fetch) if fetch.attempt == self.attempt => {
                let slots = fetch.slots.iter().map(|index| (index.tree as usize, index.slot)).collect();
                let chunks = self.driver.kept(slots).await.into_iter().map(convert::northbound_chunk);
                let chunks = chunks.collect();
                let request =
                    HandOverRequest { job, group, rank, attempt: fetch.attempt, chunks, member_token };
                told("chunks", timeout(CALL_TIMEOUT, client.hand_over(request)).await);
            }
            Event::Assignment(assignment) if assignment.generation >= self.attempt => {
                self.attempt = assignment.generation;
                if let Err(reason) = self.resume(assignment).await {
                    // Not to go on would let the others wait.
                    tracing::error!(job, rank, reason, "the next generation can't be entered");
                    let reason = format!("the next generation can't be entered: {reason}");
                    let closed = Closed { reason, missing_ranks: Vec::new() };
                    self.driver.close(closed.clone(), Vec::new());
                    self.leave(Some(client), Some(Request::EndedHere(closed, Account::default()))).await;
                    return ControlFlow::Break(());
                }
            }
            Event::Waiting(waiting) if !waiting.missing_ranks.is_empty() => {
                tracing::warn!(job, rank, missing = ?waiting.missing_ranks, "the group waits for ranks");
                self.driver.note_missing(waiting.missing_ranks);
            }
            Event::Closed(closed) => {
                let (closed, copies) = convert::closed(closed);
                tracing::debug!(job, rank, %closed, "the controller closed the group");
                self.driver.close(closed, copies);
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// Tells the controller of a chunk that has not finished since it was looked at last.
    async fn look(&mut self, client: &mut ControllerClient<Line>) {
        let stalled = self.driver.stalled().await;
        let before = std::mem::replace(&mut self.stalled, stalled.as_ref().map(|stalled| stalled.chunk));
        let Some(stalled) = stalled.filter(|stalled| before == Some(stalled.chunk)) else { return };
        let request = StalledRequest {
            job: self.session.options.job.clone(),
            group: self.session.options.group.clone(),
            rank: self.session.options.rank,
            generation: self.driver.membership().0,
            chunk: stalled.chunk,
            missing_ranks: stalled.missing,
            member_token: self.session.member_token(),
        };
        told("stall", timeout(CALL_TIMEOUT, client.stalled(request)).await);
    }

    /// Tells what this rank has done, beside the conversation: nothing waits for it, and nothing is lost with it.
    fn tell_progress(&self, mut client: ControllerClient<Line>) {
        let (stats, _) = self.driver.stats();
        let request = ProgressRequest {
            job: self.session.options.job.clone(),
            group: self.session.options.group.clone(),
            rank: self.session.options.rank,
            progress: Some(Progress {
                chunks: stats.chunks,
                transmissions: stats.transmissions,
                retransmissions: stats.retransmissions,
                sent_bytes: stats.sent_bytes,
            }),
        };
        tokio::spawn(async move { timeout(CALL_TIMEOUT, client.progress(request)).await });
    }

    /// Goes on in the generation that the controller opened.
    async fn resume(&mut self, assignment: northbound::Assignment) -> Result<(), String> {
        let current = self.driver.membership().0;
        if assignment.generation == current && !self.stopped {
            // Told again after the stream was lost.
            return Ok(());
        }
        let resume = assignment.resume.clone().ok_or("it does not say where to begin")?;
        let finished = convert::by_tree(&resume.finished, self.slots)
            .ok_or_else(|| format!("{} places are given", resume.finished.len()))?;
        let members = match assignment.members.as_slice() {
            [] => (0..assignment.world_size).collect(),
            members => members.to_vec(),
        };
        if members.len() != assignment.world_size as usize || !members.contains(&self.session.options.rank) {
            return Err(format!("members {members:?} in a world of {}", assignment.world_size));
        }
        let generation = assignment.generation;
        let (joined, trees) = self.session.judge(assignment).map_err(|error| error.to_string())?;
        if self.driver.suspend(resume.reason.clone()).await.is_none() {
            return Ok(());
        }
        let next = NextGeneration { generation, members, trees: joined.config.trees, finished };
        let copies = resume.copies.into_iter().map(convert::chunk).collect();
        self.driver.resume(next, trees, copies).await.map_err(|error| error.to_string())?;
        self.stopped = false;
        let (job, rank) = (&self.session.options.job, self.session.options.rank);
        tracing::info!(job, rank, generation, after = resume.reason, "going on in a new generation");
        Ok(())
    }

    /// Attaches again after the stream was lost. `None`: it is over.
    async fn attach(
        &mut self,
        reason: String,
        inbox: &mut mpsc::UnboundedReceiver<Request>,
    ) -> Option<Connection> {
        let (job, rank) = (self.session.options.job.clone(), self.session.options.rank);
        tracing::warn!(job, rank, reason, "lost the controller; sums go on");
        loop {
            let attempt = async {
                let attached = self.try_attach().await;
                if matches!(attached, Err(None)) {
                    sleep(CONNECT_RETRY).await;
                }
                attached
            };
            tokio::select! {
                attached = attempt => match attached {
                    Ok(connection) => {
                        tracing::info!(job, rank, "the controller is back");
                        return Some(connection);
                    }
                    Err(None) => {}
                    Err(Some(refusal)) => {
                        let reason = format!(
                            "the connection to the controller was lost ({reason}), and it does not take this rank back: {refusal}"
                        );
                        self.driver.close(Closed { reason, missing_ranks: Vec::new() }, Vec::new());
                        return None;
                    }
                },
                told = inbox.recv() => {
                    self.leave(None, told).await;
                    return None;
                }
            }
        }
    }

    /// One attempt. `Err(None)`: not reached, try again; with a reason: refused for good.
    async fn try_attach(&self) -> Result<Connection, Option<String>> {
        let words = |error: super::JoinError| Some(error.to_string());
        let endpoint = self.session.endpoint().map_err(words)?;
        let channel = endpoint.connect().await.map_err(|_| None)?;
        let mut client = self.session.client(channel).map_err(words)?;
        let request = JoinRequest {
            attach_generation: self.driver.membership().0,
            attach_stopped: self.stopped,
            ..self.session.join_request().map_err(words)?
        };
        match timeout(CALL_TIMEOUT, client.join(request)).await {
            Ok(Ok(response)) => Ok((client, response.into_inner())),
            Ok(Err(status)) if is_final(status.code()) => Err(Some(status.message().to_owned())),
            Ok(Err(_)) | Err(_) => Err(None),
        }
    }

    /// Leaves, if there is a connection: in good order, or because the generation has ended here.
    async fn leave(&self, client: Option<&mut ControllerClient<Line>>, told: Option<Request>) {
        let (closed, account, reply) = match told {
            Some(Request::EndedHere(closed, account)) => (closed, account, None),
            Some(Request::Leave(reply)) => (Closed::default(), self.driver.retire().await, Some(reply)),
            None => (Closed::default(), self.driver.retire().await, None),
        };
        // A generation that ended here first is reported, so that it ends for all at once, with the reason.
        let request = LeaveRequest {
            job: self.session.options.job.clone(),
            group: self.session.options.group.clone(),
            rank: self.session.options.rank,
            generation: self.driver.membership().0,
            failure: closed.reason,
            missing_ranks: closed.missing_ranks,
            finished: convert::flat(account.finished),
            kept: account.kept.into_iter().map(convert::northbound_chunk).collect(),
            member_token: self.session.member_token(),
        };
        let result = match client {
            None => Err("it can't be reached".to_owned()),
            Some(client) => match timeout(LEAVE_TIMEOUT, client.leave(request)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(status)) => Err(status.message().to_owned()),
                Err(_) => Err(format!("no answer within {LEAVE_TIMEOUT:?}")),
            },
        };
        if let Some(reply) = reply {
            let _ = reply.send(result);
        }
    }
}

/// Whether trying again is of no use.
fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::NotFound
            | Code::AlreadyExists
            | Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
    )
}

/// Says if a message did not get through: the stream is lost then too, or the controller gives this rank up.
fn told<T, E>(what: &str, result: Result<Result<T, tonic::Status>, E>) {
    match result {
        Ok(Ok(_)) => {}
        Ok(Err(status)) => tracing::warn!(what, reason = status.message(), "the controller did not take it"),
        Err(_) => tracing::warn!(what, "the controller did not answer"),
    }
}
