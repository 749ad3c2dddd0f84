//! Groups within a group, as in MPI: each is a communicator of its own, with trees, slots and sequences of its own.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Communicator, JoinError};
use crate::transport::CollectiveError;

/// Color, key.
const ENTRY_BYTES: usize = 16;
/// The color of a rank that joins no group.
const NONE: u64 = u64::MAX;

/// Why a group was not split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The ranks could not tell each other where they want to be.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The new group could not be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The group has no controller to ask for another one.
    #[error("job {job}: its trees were not assigned by a controller, so there is nobody to ask for others")]
    NoController {
        /// Name of the job.
        job: String,
    },
    /// Ranks named different groups.
    #[error("job {job}: rank {rank} asked for the group of ranks {ranks:?}, another one for something else")]
    Disagreement {
        /// Name of the job.
        job: String,
        /// This rank.
        rank: u32,
        /// Its group.
        ranks: Vec<u32>,
    },
    /// A new group of nobody, of strangers, or of somebody twice.
    #[error("job {job}: a group of ranks {ranks:?}: must be some of {members:?}, each once")]
    Ranks {
        /// Name of the job.
        job: String,
        /// The ranks given.
        ranks: Vec<u32>,
        /// The group's ranks.
        members: Vec<u32>,
    },
}

impl Communicator {
    /// Splits the group: ranks of one color form a new one, ordered by key, then by rank. `None`: this rank joins none. A collective: all
    /// ranks must call it. The new group has the same number format and settings; the old one goes on beside it.
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        deadline: Duration,
    ) -> Result<Option<Self>, SplitError> {
        self.split_into(color.map_or(NONE, u64::from), key.into(), deadline)
    }

    /// Forms a group of some ranks, in the order given. A collective: all ranks must call it, with the same list; those not in it get
    /// `None`.
    pub fn new_group(&self, ranks: &[u32], deadline: Duration) -> Result<Option<Self>, SplitError> {
        let members = self.members();
        let is_once = |rank: &u32| ranks.iter().filter(|other| *other == rank).count() == 1;
        if ranks.is_empty() || !ranks.iter().all(|rank| members.contains(rank) && is_once(rank)) {
            let (job, ranks) = (self.joined.config.job.clone(), ranks.to_vec());
            return Err(SplitError::Ranks { job, ranks, members });
        }
        // FNV-1a, so that ranks that name different lists find out.
        let bytes = ranks.iter().flat_map(|rank| rank.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let hashes = self.gather_bytes(&hash.to_le_bytes(), deadline)?;
        if hashes.as_chunks::<8>().0.iter().any(|other| u64::from_le_bytes(*other) != hash) {
            let (job, rank, ranks) = (self.joined.config.job.clone(), self.rank(), ranks.to_vec());
            return Err(SplitError::Disagreement { job, rank, ranks });
        }
        let place = ranks.iter().position(|rank| *rank == self.rank());
        self.split_into(place.map_or(NONE, |_| 0), place.map_or(0, |place| place as i64), deadline)
    }

    fn split_into(&self, color: u64, key: i64, deadline: Duration) -> Result<Option<Self>, SplitError> {
        let job = || self.joined.config.job.clone();
        let options = self.options.as_ref().ok_or_else(|| SplitError::NoController { job: job() })?;
        let started = Instant::now();
        let mut entry = [0; ENTRY_BYTES];
        entry[..8].copy_from_slice(&color.to_le_bytes());
        entry[8..].copy_from_slice(&key.to_le_bytes());
        let entries = self.gather_bytes(&entry, deadline)?;
        let number = self.splits.fetch_add(1, Ordering::Relaxed);
        if color == NONE {
            return Ok(None);
        }
        let entries = entries.as_chunks::<8>().0.as_chunks::<2>().0.iter().zip(self.members());
        let mut ranks: Vec<(i64, u32)> = entries
            .filter(|([theirs, _], _)| u64::from_le_bytes(*theirs) == color)
            .map(|([_, key], rank)| (i64::from_le_bytes(*key), rank))
            .collect();
        ranks.sort_unstable();
        let place = ranks.iter().position(|(_, rank)| *rank == self.rank()).unwrap_or(0);
        let mut options = options.clone();
        // Unlike any other's: of this incarnation of the group, of this split.
        let generation = self.joined.config.generation;
        let separator = if options.group.is_empty() { "" } else { "/" };
        options.group = format!("{}{separator}{generation}.{number}.{color}", options.group);
        (options.rank, options.world_size) = (place as u32, ranks.len() as u32);
        options.timeout = deadline.saturating_sub(started.elapsed());
        Ok(Some(Self::join(options)?))
    }
}
