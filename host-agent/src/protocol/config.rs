//! Settings of an endpoint.

use inca_wire::packet::{Format, MAX_WORDS};

use super::error::ConfigError;
use super::rtt::RtoBounds;
use super::window::WindowLimits;

/// What the controller assigned to this rank, and how to pace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Name of the job, for errors.
    pub job: String,
    /// Ranks of the group.
    pub world_size: u32,
    /// The trees' generation.
    pub generation: u32,
    /// Number format of the lanes.
    pub format: Format,
    /// Words of 2048 bits per chunk, 1 to 32.
    pub chunk_words: u8,
    /// One tree per stripe; chunk k goes to tree k mod n.
    pub trees: Vec<TreeConfig>,
    /// Pacing.
    pub tuning: Tuning,
}

/// One tree as its member sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeConfig {
    /// The tree's id in packets.
    pub tree_id: u16,
    /// This rank's index at its leaf.
    pub member: u16,
    /// Slots of the tree.
    pub slots: u32,
    /// Per child bit of the leaf switch the ranks below it, to name who is missing; empty if unknown.
    pub leaf_children: Vec<Vec<u32>>,
    /// The leaf switch and this host's port there, in words, for errors; empty if unknown.
    pub leaf: String,
}

/// Pacing of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tuning {
    /// Bounds of the retransmission timeout.
    pub rto: RtoBounds,
    /// Bounds of the window, per tree.
    pub window: WindowLimits,
    /// Seeds the jitter of timeouts; ranks should differ.
    pub seed: u64,
}

impl EndpointConfig {
    /// Elements per chunk.
    pub fn chunk_elements(&self) -> usize {
        usize::from(self.chunk_words) * self.format.lanes_per_word()
    }

    /// Whether an endpoint can be made of it.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let job = || self.job.clone();
        let most = self.format.max_world();
        if self.world_size == 0 || self.world_size as usize > most {
            let (world_size, format) = (self.world_size, self.format);
            return Err(ConfigError::WorldSize { job: job(), world_size, format, most });
        }
        if self.chunk_words == 0 || usize::from(self.chunk_words) > MAX_WORDS {
            return Err(ConfigError::ChunkWords { job: job(), words: self.chunk_words });
        }
        // A world of one rank needs no switch.
        if self.trees.is_empty() && self.world_size > 1 {
            return Err(ConfigError::NoTrees { job: job(), world_size: self.world_size });
        }
        for (index, tree) in self.trees.iter().enumerate() {
            if tree.slots == 0 {
                return Err(ConfigError::NoSlots { job: job(), tree_id: tree.tree_id });
            }
            if self.trees[..index].iter().any(|other| other.tree_id == tree.tree_id) {
                return Err(ConfigError::DuplicateTree { job: job(), tree_id: tree.tree_id });
            }
        }
        Ok(())
    }
}
