//! What to join.

use std::net::Ipv4Addr;
use std::time::Duration;

use inca_p4runtime::Access;
use inca_wire::packet::{Format, MAX_WORDS, MAX_WORLD};
use inca_wire::scheme::{Scheme, SchemeError};

use super::error::JoinError;
use crate::protocol::{Dtype, ReduceOp, Tuning};

/// Words per chunk that fit into an ordinary 1500-byte MTU.
pub(super) const DEFAULT_CHUNK_WORDS: u8 = 5;

/// What becomes of a group when one of its ranks dies. All ranks must choose the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// It ends for all, with an error that names the rank.
    #[default]
    Abort,
    /// The others go on without it; the results say what they hold.
    Shrink,
}

/// What becomes of a group for which there is no reduction tree: no room in a switch, no path, a switch without the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback {
    /// The join fails, with the reason.
    #[default]
    Error,
    /// The hosts sum in a ring of their own over TCP, see [`crate::ring`]. [`super::Communicator::fallback`] tells why.
    Ring,
}

/// What becomes of a group for which the switches have no room now. All ranks must choose the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFull {
    /// It is refused, with the numbers.
    #[default]
    Refuse,
    /// It waits for its turn, for at most this long if a time is given. That time does not count for [`JoinOptions::timeout`].
    Queue(Option<Duration>),
}

/// What a job's ranks show. Logs do not hold it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct JobToken(Option<String>);

impl JobToken {
    /// A token; an empty one is none.
    pub fn new(token: impl Into<String>) -> Self {
        Self(Some(token.into()).filter(|token| !token.is_empty()))
    }

    pub(super) fn shown(&self) -> String {
        self.0.clone().unwrap_or_default()
    }
}

impl std::fmt::Debug for JobToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "JobToken(...)" } else { "JobToken(none)" })
    }
}

/// What to join, and as whom.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The controller's northbound address, as `http://192.0.2.1:9559`. Several, separated by commas, where others stand by.
    pub controller: String,
    /// Name of the job.
    pub job: String,
    /// Group inside the job; empty: the job's world.
    pub group: String,
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks of the group.
    pub world_size: u32,
    /// Number format, see [`JoinOptions::carry`] and `docs/number-formats.md`.
    pub format: Format,
    /// Words of 2048 bits per chunk, 1 to 32; the block length of block formats.
    pub chunk_words: u8,
    /// The host's data-plane address; otherwise that of `interface`.
    pub host_address: Option<Ipv4Addr>,
    /// The data-plane interface; otherwise that of `host_address`, or the only one there is.
    pub interface: Option<String>,
    /// How long to wait for the controller, the other ranks and the trees.
    pub timeout: Duration,
    /// What becomes of the group when a rank dies.
    pub on_failure: OnFailure,
    /// What becomes of the group if there is no tree for it; all ranks must agree.
    pub fallback: Fallback,
    /// What becomes of the group if the switches have no room for it; all ranks must agree.
    pub on_full: OnFull,
    /// The job's token: the one that its submission was answered with, or any secret of 16 to 256 bytes that all its ranks have, so that
    /// nobody else can join it.
    pub job_token: JobToken,
    /// Type of the elements to be reduced, if that is known: ranks that say must agree. Set by [`JoinOptions::carry`].
    pub dtype: Option<Dtype>,
    /// The token and the certificates that the controller wants, if it wants any.
    pub access: Access,
    /// Pacing. The seed is mixed with the rank.
    pub tuning: Tuning,
}

impl JoinOptions {
    /// Options for one rank of a job, with defaults for the rest: bfp16, chunks of 5 words, one minute to join.
    pub fn new(controller: impl Into<String>, job: impl Into<String>, rank: u32, world_size: u32) -> Self {
        Self {
            controller: controller.into(),
            job: job.into(),
            group: String::new(),
            rank,
            world_size,
            format: Format::Bfp16,
            chunk_words: DEFAULT_CHUNK_WORDS,
            host_address: None,
            interface: None,
            timeout: Duration::from_secs(60),
            on_failure: OnFailure::default(),
            fallback: Fallback::default(),
            on_full: OnFull::default(),
            job_token: JobToken::default(),
            dtype: None,
            access: Access::default(),
            tuning: Tuning::default(),
        }
    }

    /// Chooses the number format for calls of this type and reduction: the one given, if it carries them, or the default.
    ///
    /// # Errors
    /// If the format does not carry them, the group is too large for it, or the reduction is not offered at all.
    pub fn carry(&mut self, dtype: Dtype, op: ReduceOp, format: Option<Format>) -> Result<(), SchemeError> {
        let format = match format {
            Some(format) => format,
            None => Scheme::default_format(dtype, op)?,
        };
        self.format = Scheme::new(dtype, op, format, self.world_size)?.format();
        self.dtype = Some(dtype);
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), JoinError> {
        let bad = |what| Err(JoinError::Options { what });
        if self.job.is_empty() {
            return bad("the job's name is empty: give it one".to_owned());
        }
        if self.world_size == 0 || self.world_size as usize > MAX_WORLD {
            return bad(format!("world size {}: must be 1 to {MAX_WORLD}", self.world_size));
        }
        if self.rank >= self.world_size {
            let most = self.world_size - 1;
            return bad(format!("rank {} in a world of {}: must be 0 to {most}", self.rank, self.world_size));
        }
        if self.chunk_words == 0 || usize::from(self.chunk_words) > MAX_WORDS {
            return bad(format!("{} words per chunk: must be 1 to {MAX_WORDS}", self.chunk_words));
        }
        Ok(())
    }
}
