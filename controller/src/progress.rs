//! What ranks say they have done: for people who look, so nothing depends on it, and it is forgotten when it gets old.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use inca_p4runtime::northbound as api;

use crate::jobs::GroupName;

/// Agents tell every 2 s; what a rank said before so long is no longer shown.
const FRESH: Duration = Duration::from_secs(8);
/// Ranks that are remembered at most, whoever calls: the one that was silent for longest makes room.
const RANKS: usize = 65_536;

/// The last word of each rank.
#[derive(Debug, Default)]
pub struct Progress(Mutex<BTreeMap<(GroupName, u32), (Instant, api::Progress)>>);

impl Progress {
    /// A rank says what it has done since it joined.
    pub fn told(&self, now: Instant, group: GroupName, rank: u32, progress: api::Progress) {
        let mut ranks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.insert((group, rank), (now, progress));
        if ranks.len() > RANKS {
            let oldest = ranks.iter().min_by_key(|(_, (at, _))| *at).map(|(rank, _)| rank.clone());
            oldest.map(|rank| ranks.remove(&rank));
        }
    }

    /// Adds to groups that are open what their ranks said of late.
    pub fn fill(&self, now: Instant, jobs: &mut [api::Job]) {
        let mut ranks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.retain(|_, (at, _)| now.saturating_duration_since(*at) < FRESH);
        for job in jobs.iter_mut().filter(|job| !job.state.starts_with("closed")) {
            let name = GroupName { job: job.name.clone(), group: job.group.clone() };
            let mine = ranks.range((name.clone(), 0)..=(name, u32::MAX));
            // Numbers are the ranks' own words: they must not overflow.
            job.progress = mine.map(|(_, (_, progress))| *progress).reduce(|all, one| api::Progress {
                chunks: all.chunks.max(one.chunks),
                transmissions: all.transmissions.saturating_add(one.transmissions),
                retransmissions: all.retransmissions.saturating_add(one.retransmissions),
                sent_bytes: all.sent_bytes.saturating_add(one.sent_bytes),
            });
        }
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
