//! The documents of the REST API, and of `--json`: what gRPC's messages say, under the same names.

use std::collections::BTreeMap;

use inca_p4runtime::northbound as api;
use inca_wire::packet::Format;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What an agent must know before it can join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Info {
    /// Version of the controller.
    pub controller_version: String,
    /// Version of the reduction protocol.
    pub protocol_version: u32,
    /// Where a host sends its ANNOUNCE packets.
    pub announce_address: String,
    /// UDP port of reduction packets.
    pub udp_port: u32,
}

/// That the controller works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// False while it stands by.
    pub in_charge: bool,
}

/// Everything that the controller sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the controller.
    pub controller_version: String,
    /// The controller's clock: milliseconds since 1970.
    pub time_ms: u64,
    /// False while it stands by.
    pub in_charge: bool,
    /// The switches of the inventory.
    pub switches: Vec<Switch>,
    /// Directions of links between switches.
    pub links: Vec<Link>,
    /// Hosts that are known.
    pub hosts: Vec<Host>,
    /// Groups that are there, then those that ended last.
    pub jobs: Vec<Group>,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// P4Runtime device id.
    pub device_id: u64,
    /// P4Runtime server.
    pub target: String,
    /// `ready`, `connecting`, or `unreachable: ...`.
    pub state: String,
    /// Ports that links are looked for on.
    pub ports: Vec<u32>,
    /// Packets by event; empty unless asked for.
    pub counters: BTreeMap<String, u64>,
    /// Where contributions are sent.
    pub service_address: String,
    /// Slots in use.
    pub slots_used: u32,
    /// Slots there are.
    pub slots_total: u32,
}

/// One direction of a link between two switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Link {
    /// The sending switch.
    pub from_switch: String,
    /// Its port.
    pub from_port: u32,
    /// The receiving switch.
    pub to_switch: String,
    /// Its port.
    pub to_port: u32,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// Data-plane address.
    pub address: String,
    /// Ethernet address.
    pub mac: String,
    /// The switch it is attached to.
    pub switch_name: String,
    /// Port there.
    pub port: u32,
}

/// A group of ranks of a job: the job's world (`group` is empty), or one of its communicators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The job.
    pub name: String,
    /// The group inside the job.
    pub group: String,
    /// Ranks it has when it is complete.
    pub world_size: u32,
    /// Number format.
    pub format: String,
    /// Words of 2048 bits per chunk.
    pub chunk_words: u32,
    /// Generation; 0 before the first one.
    pub generation: u32,
    /// `submitted: ...`, `waiting for ...`, `queued, place 1 of 2: ...`, `installing`, `running`, `closed: ...`.
    pub state: String,
    /// Its place among the groups that wait for room in the switches, from 1; 0: it does not.
    pub queue_position: u32,
    /// Ranks that are here.
    pub joined_ranks: Vec<u32>,
    /// Switches of its trees.
    pub tree: Vec<TreeNode>,
    /// Why it runs as a ring of its hosts; empty: it has trees.
    pub fallback: String,
    /// What its ranks told of late; `null`: none did.
    pub progress: Option<Progress>,
}

/// What the ranks of a group have done since they joined, as they say: the chunks of the rank that is furthest, the other numbers of
/// all ranks together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Chunks finished.
    pub chunks: u64,
    /// Contributions sent, repetitions included.
    pub transmissions: u64,
    /// Contributions sent again.
    pub retransmissions: u64,
    /// UDP payload of the contributions, in bytes.
    pub sent_bytes: u64,
}

/// One switch of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreeNode {
    /// The tree: one per stripe.
    pub tree_id: u32,
    /// The switch.
    pub switch_name: String,
    /// Its parent; empty at the root.
    pub parent: String,
    /// Ranks attached to it.
    pub ranks: Vec<u32>,
    /// Switches below.
    pub child_switches: Vec<String>,
    /// Own port to the parent; 0 at the root.
    pub port: u32,
    /// The parent's port; 0 at the root.
    pub parent_port: u32,
}

/// A tree of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tree {
    /// The job.
    pub job: String,
    /// The group inside the job.
    pub group: String,
    /// Generation of its group.
    pub generation: u32,
    /// Its number.
    pub tree_id: u32,
    /// Its switches.
    pub nodes: Vec<TreeNode>,
}

/// Slots of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Slots {
    /// The switch.
    pub switch_name: String,
    /// In use.
    pub used: u32,
    /// There are.
    pub total: u32,
}

/// What is asked about trees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlanRequest {
    /// A job that is there: its ranks, format and chunks are taken where they are not given.
    pub job: String,
    /// The group inside it.
    pub group: String,
    /// Data-plane addresses, one per rank in order.
    pub hosts: Vec<String>,
    /// Number format, as `bfp16`; empty: the group's, or `bfp16`.
    pub format: String,
    /// Words per chunk; 0: the group's, or 5.
    pub chunk_words: u32,
    /// Elements of one sum; 0: one chunk.
    pub elements: u64,
    /// Plan anew with what is free now, even if the group has trees.
    pub dry_run: bool,
}

/// Trees, and what a sum puts on each link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Ranks.
    pub world_size: u32,
    /// Number format.
    pub format: String,
    /// Words per chunk.
    pub chunk_words: u32,
    /// Elements of the sum.
    pub elements: u64,
    /// Its chunks.
    pub chunks: u64,
    /// The trees are in the switches already.
    pub installed: bool,
    /// Why the switches have no room for them; empty: they have.
    pub refusal: String,
    /// Switches of the trees.
    pub tree: Vec<TreeNode>,
    /// Load of each direction of each link.
    pub links: Vec<LinkLoad>,
    /// What the trees need of each switch.
    pub slots: Vec<SlotShare>,
}

/// What one sum puts on one direction of a link, if no packet is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkLoad {
    /// A switch's name or a host's address.
    pub from: String,
    /// 0 at a host.
    pub from_port: u32,
    /// A switch's name or a host's address.
    pub to: String,
    /// 0 at a host.
    pub to_port: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes of whole Ethernet frames without checksum.
    pub bytes: u64,
}

/// Slots of a switch that trees need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotShare {
    /// The switch.
    pub switch_name: String,
    /// Needed by these trees.
    pub needed: u32,
    /// In use, without what a plan that is not installed needs.
    pub used: u32,
    /// There are.
    pub total: u32,
}

/// A job whose name is to be kept for its ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Submit {
    /// Its name: 1 to 128 bytes without control characters.
    #[schema(min_length = 1, max_length = 128)]
    pub job: String,
    /// The name is free again once no rank has been there for so long; 0: a day.
    pub idle_seconds: u32,
}

/// A job that was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// Its name, as its ranks may give it.
    pub job: String,
    /// What its ranks show when they join. Told this once: the controller keeps a digest.
    pub job_token: String,
    /// The name is free again once no rank has been there for so long.
    pub idle_seconds: u32,
}

/// What to do with a job that is deleted.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct EndJob {
    /// One group of the job; not given: all of them.
    pub group: Option<String>,
    /// What its ranks are told.
    pub reason: String,
}

/// The groups that end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// The job.
    pub job: String,
    /// Its groups; the job's world is "".
    pub groups: Vec<String>,
}

/// Where a list or a stream of events begins.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct After {
    /// Begin after the event of this number, as far back as it is remembered.
    pub after: u64,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows by one with each event; begins anew with each controller.
    pub number: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// `switch_up`, `link_down`, `group_ready`, ...
    pub kind: String,
    /// In words.
    pub message: String,
    /// The switch it is about; empty: none, or several.
    pub switch_name: String,
    /// The job it is about.
    pub job: String,
    /// The group inside the job.
    pub group: String,
    /// The rank it is about.
    pub rank: Option<u32>,
}

/// A refusal (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of refusal: a URN.
    pub r#type: String,
    /// The kind of refusal, in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was refused, and why.
    pub detail: String,
}

/// The name of a number format; `?` if there is none of this number.
pub fn format_name(number: i32) -> &'static str {
    let format = u8::try_from(number).ok().and_then(|number| Format::try_from(number).ok());
    format.map_or("?", Format::name)
}

/// The API's number of a format; 0 for no name. `None`: there is no such format.
pub fn format_number(name: &str) -> Option<i32> {
    if name.is_empty() {
        return Some(0);
    }
    Format::ALL.into_iter().find(|format| format.name() == name).map(|format| u8::from(format).into())
}

impl From<api::InfoResponse> for Info {
    fn from(info: api::InfoResponse) -> Self {
        Self {
            controller_version: info.controller_version,
            protocol_version: info.protocol_version,
            announce_address: info.announce_address,
            udp_port: info.udp_port,
        }
    }
}

impl From<api::StatusResponse> for Status {
    fn from(status: api::StatusResponse) -> Self {
        Self {
            controller_version: status.controller_version,
            time_ms: status.time_ms,
            in_charge: status.in_charge,
            switches: all(status.switches),
            links: all(status.links),
            hosts: all(status.hosts),
            jobs: all(status.jobs),
        }
    }
}

impl From<api::Switch> for Switch {
    fn from(switch: api::Switch) -> Self {
        Self {
            name: switch.name,
            device_id: switch.device_id,
            target: switch.target,
            state: switch.state,
            ports: switch.ports,
            counters: switch.counters.into_iter().collect(),
            service_address: switch.service_address,
            slots_used: switch.slots_used,
            slots_total: switch.slots_total,
        }
    }
}

impl From<api::Link> for Link {
    fn from(link: api::Link) -> Self {
        Self {
            from_switch: link.from_switch,
            from_port: link.from_port,
            to_switch: link.to_switch,
            to_port: link.to_port,
        }
    }
}

impl From<api::Host> for Host {
    fn from(host: api::Host) -> Self {
        Self { address: host.address, mac: host.mac, switch_name: host.switch_name, port: host.port }
    }
}

impl From<api::Job> for Group {
    fn from(job: api::Job) -> Self {
        Self {
            format: format_name(job.format).to_owned(),
            queue_position: job.queue_position,
            name: job.name,
            group: job.group,
            world_size: job.world_size,
            chunk_words: job.chunk_words,
            generation: job.generation,
            state: job.state,
            joined_ranks: job.joined_ranks,
            tree: all(job.tree),
            fallback: job.fallback,
            progress: job.progress.map(Progress::from),
        }
    }
}

impl From<api::Progress> for Progress {
    fn from(progress: api::Progress) -> Self {
        Self {
            chunks: progress.chunks,
            transmissions: progress.transmissions,
            retransmissions: progress.retransmissions,
            sent_bytes: progress.sent_bytes,
        }
    }
}

impl From<api::TreeNode> for TreeNode {
    fn from(node: api::TreeNode) -> Self {
        Self {
            tree_id: node.tree_id,
            switch_name: node.switch_name,
            parent: node.parent,
            ranks: node.ranks,
            child_switches: node.child_switches,
            port: node.port,
            parent_port: node.parent_port,
        }
    }
}

impl From<&Switch> for Slots {
    fn from(switch: &Switch) -> Self {
        Self { switch_name: switch.name.clone(), used: switch.slots_used, total: switch.slots_total }
    }
}

impl From<api::SubmitResponse> for Submitted {
    fn from(submitted: api::SubmitResponse) -> Self {
        let api::SubmitResponse { job, job_token, idle_seconds } = submitted;
        Self { job, job_token, idle_seconds }
    }
}

impl From<api::PlanResponse> for Plan {
    fn from(plan: api::PlanResponse) -> Self {
        Self {
            world_size: plan.world_size,
            format: format_name(plan.format).to_owned(),
            chunk_words: plan.chunk_words,
            elements: plan.elements,
            chunks: plan.chunks,
            installed: plan.installed,
            refusal: plan.refusal,
            tree: all(plan.tree),
            links: all(plan.links),
            slots: all(plan.slots),
        }
    }
}

impl From<api::LinkLoad> for LinkLoad {
    fn from(load: api::LinkLoad) -> Self {
        Self {
            from: load.from,
            from_port: load.from_port,
            to: load.to,
            to_port: load.to_port,
            packets: load.packets,
            bytes: load.bytes,
        }
    }
}

impl From<api::SlotShare> for SlotShare {
    fn from(share: api::SlotShare) -> Self {
        Self { switch_name: share.switch_name, needed: share.needed, used: share.used, total: share.total }
    }
}

impl From<api::Event> for Event {
    fn from(event: api::Event) -> Self {
        Self {
            number: event.number,
            time_ms: event.time_ms,
            kind: event.kind,
            message: event.message,
            switch_name: event.switch_name,
            job: event.job,
            group: event.group,
            rank: event.rank,
        }
    }
}

fn all<A: Into<B>, B>(list: Vec<A>) -> Vec<B> {
    list.into_iter().map(Into::into).collect()
}

/// The trees of a group, each with its nodes.
pub fn trees(group: &Group) -> Vec<Tree> {
    let mut trees: BTreeMap<u32, Vec<TreeNode>> = BTreeMap::new();
    for node in &group.tree {
        trees.entry(node.tree_id).or_default().push(node.clone());
    }
    let tree = |(tree_id, nodes)| Tree {
        job: group.name.clone(),
        group: group.group.clone(),
        generation: group.generation,
        tree_id,
        nodes,
    };
    trees.into_iter().map(tree).collect()
}
