//! A request to join, parsed, and why one is refused.

use std::net::Ipv4Addr;

use inca_p4runtime::northbound;
use inca_wire::frame::{IPV4_LEN, UDP_LEN};
use inca_wire::packet::{self, Format, MAX_WORDS, WORD_BYTES};
use inca_wire::tensor::Dtype;
use thiserror::Error;

use super::secret::Digest;

/// Longest name of a job or a group.
pub(super) const MAX_NAME_LEN: usize = 128;
/// Lengths of a job token: a short one could be guessed.
const TOKEN_LEN: std::ops::RangeInclusive<usize> = 16..=256;
/// Longest time in the queue that may be asked for: a week.
const MAX_QUEUE: u32 = 7 * 24 * 3600;

/// A group of ranks: a job and one of its communicators.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName {
    /// The job.
    pub job: String,
    /// The communicator; empty: all of the job.
    pub group: String,
}

impl GroupName {
    /// Whose job it is; empty: nobody's in particular.
    pub fn tenant(&self) -> &str {
        self.job.split_once('/').map_or("", |(tenant, _)| tenant)
    }
}

impl std::fmt::Display for GroupName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group.as_str() {
            "" => write!(f, "job {:?}", self.job),
            group => write!(f, "job {:?}, group {group:?}", self.job),
        }
    }
}

/// What all ranks of a group must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Number of ranks.
    pub world: u16,
    /// Number format.
    pub format: Format,
    /// Words per chunk.
    pub words: u8,
    /// The others go on when a rank dies.
    pub shrinks: bool,
    /// Without a tree the hosts become a ring.
    pub ring: bool,
    /// How many seconds it waits where the switches have no room, 0: without end; `None`: not at all.
    pub queue: Option<u32>,
    /// Type of the elements, as far as ranks say.
    pub dtype: Option<Dtype>,
}

/// A rank that wants to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    /// What it joins.
    pub name: GroupName,
    /// As what.
    pub rank: u16,
    /// Its terms.
    pub terms: Terms,
    /// Its data-plane address.
    pub address: Ipv4Addr,
    /// The UDP port results go to.
    pub udp_port: u16,
    /// Where it awaits its neighbour in a ring; 0: nowhere.
    pub ring_port: u16,
    /// The job's token, if it shows one.
    pub(super) job_token: Option<Digest>,
}

/// Why a rank may not join. See [`super::Jobs::refused`] for what that means to the ranks that wait.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JoinError {
    /// A field that no group would take.
    #[error("{field} is {given}: {valid}")]
    Field {
        /// The request's field.
        field: &'static str,
        /// What it holds.
        given: String,
        /// What it may hold.
        valid: String,
    },
    /// Chunks would not fit the host's interface.
    #[error(
        "a chunk of {words} words makes ip packets of {needed} bytes, but the mtu of {address} is {mtu}: at most {most} words \
         fit"
    )]
    Mtu {
        /// Words per chunk.
        words: u8,
        /// Bytes of an IP packet with so many.
        needed: usize,
        /// The host's MTU.
        mtu: u32,
        /// The host.
        address: Ipv4Addr,
        /// Words that would fit.
        most: usize,
    },
    /// Other terms than the group's.
    #[error(
        "{name}: {what} {given} given by rank {rank}, but rank {other} at {address} joined with {agreed}"
    )]
    Terms {
        /// The group.
        name: GroupName,
        /// Which of the terms.
        what: &'static str,
        /// The newcomer's.
        given: String,
        /// The newcomer.
        rank: u16,
        /// A rank that joined before.
        other: u16,
        /// Its address.
        address: Ipv4Addr,
        /// The group's.
        agreed: String,
    },
    /// The tenant has as many groups as it may.
    #[error("{name}: the tenant {tenant:?} has {open} groups open, and may have {limit}: end one first")]
    Groups {
        /// The group.
        name: GroupName,
        /// The tenant; empty: jobs without one.
        tenant: String,
        /// Groups it has.
        open: usize,
        /// Groups it may have.
        limit: usize,
    },
    /// It does not show the token that the job takes.
    #[error("{name}: rank {rank} may not join: {why}")]
    JobToken {
        /// The group.
        name: GroupName,
        /// The newcomer.
        rank: u16,
        /// What is wrong.
        why: &'static str,
    },
    /// It does not show the token of the membership that it wants to take up again.
    #[error("{name}: the member token given is not that of rank {rank}")]
    MemberToken {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u16,
    },
    /// The group could not form, just before.
    #[error("{name}: could not form: {reason}")]
    Spoiled {
        /// The group.
        name: GroupName,
        /// What its other ranks were told.
        reason: String,
    },
    /// The system has no random numbers.
    #[error("no token can be made: the system has no random numbers")]
    NoRandom,
    /// This controller is not the one to ask.
    #[error("this controller stands by: another one is in charge")]
    Standby,
    /// The rank is there already.
    #[error("{name}: rank {rank} has joined already, from {address} port {udp_port}")]
    RankTaken {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u16,
        /// Where it is.
        address: Ipv4Addr,
        /// Its UDP port.
        udp_port: u16,
    },
    /// The rank died, and the others went on.
    #[error(
        "{name}: rank {rank} was lost, and the group has gone on without it: it can't come back until the group ends"
    )]
    RankLost {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u16,
    },
    /// A rank that attaches again is no member.
    #[error(
        "{name}: rank {rank} is no member in generation {generation}: the group ended, or it was taken for dead"
    )]
    NoMember {
        /// The group.
        name: GroupName,
        /// The rank.
        rank: u16,
        /// The generation it was in.
        generation: u32,
    },
    /// Another rank gets its results at the same address and port.
    #[error(
        "{name}: rank {rank} wants results at {address} port {udp_port}, where rank {other} gets its own"
    )]
    AddressTaken {
        /// The group.
        name: GroupName,
        /// The newcomer.
        rank: u16,
        /// The address of both.
        address: Ipv4Addr,
        /// The port of both.
        udp_port: u16,
        /// The rank that has it.
        other: u16,
    },
}

impl Joining {
    /// Judges every field by itself.
    pub fn parse(request: &northbound::JoinRequest) -> Result<Self, JoinError> {
        let field = |field, given: &dyn std::fmt::Display, valid: String| JoinError::Field {
            field,
            given: given.to_string(),
            valid,
        };
        if request.protocol_version != u32::from(packet::VERSION) {
            let valid = format!("this controller and its switches speak {}", packet::VERSION);
            return Err(field("protocol_version", &request.protocol_version, valid));
        }
        for (what, name, least) in [("job", &request.job, 1), ("group", &request.group, 0)] {
            if !is_name(name, least) {
                let valid = format!("must be {least} to {MAX_NAME_LEN} bytes without control characters");
                return Err(field(what, &format!("{name:?}"), valid));
            }
        }
        let job_token = token(&request.job_token)?;
        let world = match u16::try_from(request.world_size) {
            Ok(world @ 1..) => world,
            _ => return Err(field("world_size", &request.world_size, format!("must be 1 to {}", u16::MAX))),
        };
        let rank = u16::try_from(request.rank).ok().filter(|rank| *rank < world);
        let rank = rank.ok_or_else(|| {
            let valid = format!("must be 0 to {} in a world of {world}", world - 1);
            // A caller's -1 arrives as a very large number.
            field("rank", &(request.rank as i32), valid)
        })?;
        let format = u8::try_from(request.format).ok().and_then(|number| Format::try_from(number).ok());
        let format = format.ok_or_else(|| {
            let known = Format::ALL.map(|format| format!("{} ({format})", u8::from(format))).join(", ");
            field("format", &request.format, format!("must be one of {known}"))
        })?;
        if let Err(error) = format.guard_bits(world.into()) {
            return Err(field("world_size", &world, error.to_string()));
        }
        let words = u8::try_from(request.chunk_words)
            .ok()
            .filter(|words| (1..=MAX_WORDS).contains(&usize::from(*words)));
        let words = words.ok_or_else(|| {
            let valid =
                format!("the switch program takes chunks of 1 to {MAX_WORDS} words of {WORD_BYTES} bytes");
            field("chunk_words", &request.chunk_words, valid)
        })?;
        let address: Ipv4Addr = request.host_address.parse().map_err(|_| {
            field(
                "host_address",
                &format!("{:?}", request.host_address),
                "must be a dotted ipv4 address".to_owned(),
            )
        })?;
        let udp_port = match u16::try_from(request.host_udp_port) {
            Ok(port @ 1..) => port,
            _ => {
                return Err(field(
                    "host_udp_port",
                    &request.host_udp_port,
                    format!("must be 1 to {}", u16::MAX),
                ));
            }
        };
        // 0: the agent does not know its interface.
        let needed = IPV4_LEN + UDP_LEN + packet::packet_len(words);
        if request.mtu != 0 && (request.mtu as usize) < needed {
            let most =
                (request.mtu as usize).saturating_sub(IPV4_LEN + UDP_LEN + packet::HEADER_LEN) / WORD_BYTES;
            return Err(JoinError::Mtu { words, needed, mtu: request.mtu, address, most });
        }
        let name = GroupName { job: request.job.clone(), group: request.group.clone() };
        let shrinks = request.on_failure() == northbound::OnFailure::Shrink;
        let ring = request.fallback() == northbound::Fallback::Ring;
        let ring_port = match u16::try_from(request.ring_port) {
            Ok(port) if ring == (port != 0) => port,
            _ => {
                let valid = match ring {
                    true => format!("with fallback ring it must be 1 to {}", u16::MAX),
                    false => "must be 0 without fallback ring".to_owned(),
                };
                return Err(field("ring_port", &request.ring_port, valid));
            }
        };
        let queue = match request.on_full() {
            northbound::OnFull::Queue if request.queue_seconds <= MAX_QUEUE => Some(request.queue_seconds),
            northbound::OnFull::Refuse if request.queue_seconds == 0 => None,
            mode => {
                let valid = match mode {
                    northbound::OnFull::Queue => format!("must be 0 (without end) to {MAX_QUEUE}"),
                    northbound::OnFull::Refuse => "must be 0 without on_full queue".to_owned(),
                };
                return Err(field("queue_seconds", &request.queue_seconds, valid));
            }
        };
        let dtype = match request.element_type.as_str() {
            "" => None,
            name => Some(name.parse::<Dtype>().map_err(|_| {
                let given: String = name.chars().take(32).collect();
                let known = Dtype::ALL.map(Dtype::name).join(", ");
                field("element_type", &format!("{given:?}"), format!("must be one of {known}"))
            })?),
        };
        let terms = Terms { world, format, words, shrinks, ring, queue, dtype };
        Ok(Self { name, rank, terms, address, udp_port, ring_port, job_token })
    }
}

/// Whether it may name a job or a group.
pub(super) fn is_name(name: &str, least: usize) -> bool {
    (least..=MAX_NAME_LEN).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// The digest of a job token, if one is given. What was given is never repeated.
pub(super) fn token(given: &str) -> Result<Option<Digest>, JoinError> {
    match given.len() {
        0 => Ok(None),
        length if TOKEN_LEN.contains(&length) => Ok(Some(Digest::of(given))),
        length => Err(JoinError::Field {
            field: "job_token",
            given: format!("{length} bytes long"),
            valid: format!("must be {} to {}", TOKEN_LEN.start(), TOKEN_LEN.end()),
        }),
    }
}

impl Terms {
    /// The first of the terms that differs: its name, and both values.
    pub(super) fn clash(&self, agreed: &Self) -> Option<(&'static str, String, String)> {
        if self.world != agreed.world {
            Some(("world size", self.world.to_string(), agreed.world.to_string()))
        } else if self.format != agreed.format {
            Some(("format", self.format.to_string(), agreed.format.to_string()))
        } else if self.words != agreed.words {
            Some(("words per chunk", self.words.to_string(), agreed.words.to_string()))
        } else if self.shrinks != agreed.shrinks {
            let word = |shrinks| if shrinks { "shrink" } else { "abort" }.to_owned();
            Some(("on-failure", word(self.shrinks), word(agreed.shrinks)))
        } else if self.ring != agreed.ring {
            let word = |ring| if ring { "ring" } else { "error" }.to_owned();
            Some(("fallback", word(self.ring), word(agreed.ring)))
        } else if self.queue != agreed.queue {
            Some(("on-full", self.on_full(), agreed.on_full()))
        } else if let (Some(given), Some(other)) = (self.dtype, agreed.dtype)
            && given != other
        {
            Some(("element type", given.name().to_owned(), other.name().to_owned()))
        } else {
            None
        }
    }

    fn on_full(&self) -> String {
        match self.queue {
            None => "refuse".to_owned(),
            Some(0) => "queue".to_owned(),
            Some(seconds) => format!("queue for {seconds} s"),
        }
    }
}
