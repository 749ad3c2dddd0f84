//! Whose a job's name is: jobs that were submitted are joined with the token of the submission, others with the one that their
//! first rank came with, if it did.

use std::time::{Duration, Instant};

use inca_p4runtime::northbound;
use thiserror::Error;

use super::join::{MAX_NAME_LEN, is_name};
use super::secret::Digest;
use super::{GroupName, Job, Jobs, JoinError, Joining, Phase};

/// Submitted jobs of one tenant, at most.
const MAX_SUBMITTED: usize = 1024;
/// How long an idle job keeps its name unless it is said.
const IDLE: Duration = Duration::from_secs(24 * 3600);
/// The longest time that may be said.
const MAX_IDLE: u32 = 366 * 24 * 3600;

/// A job that was submitted.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) token: Digest,
    pub(super) idle_seconds: u32,
    /// Since when no rank is there.
    pub(super) idle: Option<Instant>,
}

/// Why a job can't be submitted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// No name for a job.
    #[error("job is {0:?}: must be 1 to {MAX_NAME_LEN} bytes without control characters")]
    Name(String),
    /// Too long.
    #[error("idle_seconds is {0}: must be 0 (a day) to {MAX_IDLE}")]
    Idle(u32),
    /// The name is in use.
    #[error("job {job:?} is there already: {what}")]
    Taken {
        /// The job.
        job: String,
        /// As what.
        what: &'static str,
    },
    /// The tenant has too many.
    #[error("the tenant {tenant:?} has {MAX_SUBMITTED} submitted jobs: delete some")]
    TooMany {
        /// The tenant; empty: jobs without one.
        tenant: String,
    },
    /// The system has no random numbers.
    #[error("no token can be made: the system has no random numbers")]
    NoRandom,
    /// This controller is not the one to ask.
    #[error("this controller stands by: another one is in charge")]
    Standby,
}

impl Submission {
    fn is_over(&self, now: Instant) -> bool {
        self.over_at().is_some_and(|at| now >= at)
    }

    fn over_at(&self) -> Option<Instant> {
        self.idle.map(|since| since + Duration::from_secs(self.idle_seconds.into()))
    }
}

impl Jobs {
    /// Reserves a name for ranks that show the token in the answer.
    pub fn submit(
        &mut self,
        now: Instant,
        request: &northbound::SubmitRequest,
    ) -> Result<northbound::SubmitResponse, SubmitError> {
        let job = &request.job;
        if !is_name(job, 1) {
            return Err(SubmitError::Name(job.chars().take(MAX_NAME_LEN).collect()));
        }
        let idle_seconds = match request.idle_seconds {
            0 => IDLE.as_secs() as u32,
            seconds if seconds <= MAX_IDLE => seconds,
            seconds => return Err(SubmitError::Idle(seconds)),
        };
        self.forget_idle(now);
        if self.submitted.contains_key(job) {
            return Err(SubmitError::Taken { job: job.clone(), what: "it was submitted" });
        }
        if self.jobs.values().any(|open| open.name.job == *job && open.has_name()) {
            return Err(SubmitError::Taken { job: job.clone(), what: "ranks have joined it" });
        }
        let name = GroupName { job: job.clone(), group: String::new() };
        let same = |other: &&String| other.split_once('/').map_or("", |(tenant, _)| tenant) == name.tenant();
        if self.submitted.keys().filter(same).count() >= MAX_SUBMITTED {
            return Err(SubmitError::TooMany { tenant: name.tenant().to_owned() });
        }
        let token = self.mint.token("job").ok_or(SubmitError::NoRandom)?;
        let submission = Submission { token: Digest::of(&token), idle_seconds, idle: Some(now) };
        self.submitted.insert(job.clone(), submission);
        tracing::info!(job, idle_seconds, "job is submitted");
        Ok(northbound::SubmitResponse { job: job.clone(), job_token: token, idle_seconds })
    }

    /// Whether a newcomer shows the token that its job takes.
    pub(super) fn may_enter(&self, joining: &Joining) -> Result<(), JoinError> {
        self.shows_token(&joining.name, joining.rank, joining.job_token.as_ref())
    }

    pub(super) fn shows_token(
        &self,
        name: &GroupName,
        rank: u16,
        given: Option<&Digest>,
    ) -> Result<(), JoinError> {
        let refused = |why| Err(JoinError::JobToken { name: name.clone(), rank, why });
        if let Some(submission) = self.submitted.get(&name.job) {
            return match given {
                Some(given) if given.is(&submission.token) => Ok(()),
                Some(_) => refused("the job token given is not that of its submission"),
                None => refused("the job was submitted, and is joined with its job token"),
            };
        }
        if self.submitted_only {
            return refused("this controller takes ranks of submitted jobs only");
        }
        let holder = self.jobs.values().find(|open| open.name.job == name.job && open.has_name());
        match (holder.map(|open| &open.token), given) {
            (None, _) | (Some(None), None) => Ok(()),
            (Some(Some(token)), Some(given)) if given.is(token) => Ok(()),
            (Some(Some(_)), Some(_)) => {
                refused("the job token given is not the one that its first rank gave")
            }
            (Some(Some(_)), None) => refused("its first rank gave a job token, this one gives none"),
            (Some(None), Some(_)) => refused("a job token is given, its first rank gave none"),
        }
    }

    /// Names that nobody used for long are free again.
    pub(super) fn forget_idle(&mut self, now: Instant) {
        let open: Vec<String> = self.jobs.values().map(|open| open.name.job.clone()).collect();
        for (job, submission) in &mut self.submitted {
            match open.contains(job) {
                true => submission.idle = None,
                false => {
                    submission.idle.get_or_insert(now);
                }
            }
        }
        self.submitted.retain(|job, submission| {
            let is_over = submission.is_over(now);
            if is_over {
                tracing::info!(job, "submitted job is forgotten: no rank was there for long");
            }
            !is_over
        });
    }

    /// When [`Self::forget_idle`] is due.
    pub(super) fn idle_timeout(&self) -> Option<Instant> {
        self.submitted.values().filter_map(Submission::over_at).min()
    }

    /// Gives a submitted name back. Whether it was one.
    pub(super) fn withdraw(&mut self, job: &str) -> bool {
        self.submitted.remove(job).is_some()
    }

    /// Submitted jobs that no rank has joined, as the API shows them.
    pub(super) fn awaited(&self) -> impl Iterator<Item = northbound::Job> + '_ {
        let is_awaited = |job: &&String| !self.jobs.values().any(|open| open.name.job == **job);
        self.submitted.keys().filter(is_awaited).map(|job| northbound::Job {
            name: job.clone(),
            state: "submitted: no rank has joined".to_owned(),
            ..Default::default()
        })
    }
}

impl Job {
    /// Whether its name is in use: a group that comes to its end leaves it to the next one.
    fn has_name(&self) -> bool {
        !matches!(self.phase, Phase::Draining { .. } | Phase::Closing { .. }) && !self.is_ending()
    }
}
