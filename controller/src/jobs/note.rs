//! What happens to groups, for those who watch: no part of what the state machine does.

use super::GroupName;

/// Something that happened to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The group.
    pub name: GroupName,
    /// What happened.
    pub what: Happening,
    /// The rank it happened to, if to one.
    pub rank: Option<u16>,
    /// More, in words; may be empty.
    pub detail: String,
}

/// What may happen to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Happening {
    /// A rank joined.
    RankJoined,
    /// A rank left, in good order or because its operation failed.
    RankLeft,
    /// A rank is dead.
    RankLost,
    /// There is no room: the group waits for its turn.
    GroupQueued,
    /// Trees are being installed.
    GroupInstalling,
    /// A generation begins.
    GroupReady,
    /// The others wait for some of the ranks.
    GroupWaits,
    /// A generation ends.
    GroupStopped,
    /// The group has ended.
    GroupClosed,
}

impl Happening {
    /// Its name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RankJoined => "rank_joined",
            Self::RankLeft => "rank_left",
            Self::RankLost => "rank_lost",
            Self::GroupQueued => "group_queued",
            Self::GroupInstalling => "group_installing",
            Self::GroupReady => "group_ready",
            Self::GroupWaits => "group_waits",
            Self::GroupStopped => "group_stopped",
            Self::GroupClosed => "group_closed",
        }
    }

    /// In words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::RankJoined => "rank joined",
            Self::RankLeft => "rank left",
            Self::RankLost => "rank is dead",
            Self::GroupQueued => "group waits in the queue",
            Self::GroupInstalling => "trees are being installed",
            Self::GroupReady => "group is ready",
            Self::GroupWaits => "group waits",
            Self::GroupStopped => "generation is closed",
            Self::GroupClosed => "group is closed",
        }
    }
}

impl Note {
    pub(super) fn new(name: &GroupName, what: Happening, detail: String) -> Self {
        Self { name: name.clone(), what, rank: None, detail }
    }

    pub(super) fn of_rank(self, rank: u16) -> Self {
        Self { rank: Some(rank), ..self }
    }
}
