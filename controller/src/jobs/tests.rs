use std::collections::{BTreeSet, HashSet};

use inca_wire::address::MacAddr;
use proptest::prelude::*;

use super::*;
use crate::graph::{Attachment, Port};
use crate::program::{Match, TableEntry};

mod change;
mod clash;
mod persist;
mod queue;
mod random;
mod tokens;

/// How long a rank without a stream may take to attach again.
const GRACE: Duration = Duration::from_millis(500);

/// Two leaves (1, 2) under a spine (3); hosts 10.0.0.1 and 10.0.0.2 at leaf 1, 10.0.0.3 and 10.0.0.4 at leaf 2.
const INVENTORY: &str = "switches:
  - {name: leaf1, target: 'h:1', device_id: 1}
  - {name: leaf2, target: 'h:2', device_id: 2}
  - {name: spine, target: 'h:3', device_id: 3}
trees: {slots_per_tree: 64, leave_linger_ms: 1000}
";

fn port(device: DeviceId, port: u16) -> Port {
    Port { device, port }
}

fn attachment(host: u8) -> Attachment {
    let device = if host <= 2 { 1 } else { 2 };
    Attachment { at: port(device, 10 + u16::from(host)), mac: MacAddr([2, 0, 0, 0, 0, host]) }
}

fn graph(links: &[DeviceId], hosts: &[u8]) -> Graph {
    let mut graph = Graph::default();
    (1..=3).for_each(|device| graph.add_switch(device));
    links.iter().for_each(|&leaf| graph.add_link(port(leaf, 1), port(3, leaf)));
    hosts.iter().for_each(|&host| graph.add_host(Ipv4Addr::new(10, 0, 0, host), attachment(host)));
    graph
}

pub(super) fn full() -> Graph {
    graph(&[1, 2], &[1, 2, 3, 4])
}

pub(super) fn request(rank: u32, world: u32) -> northbound::JoinRequest {
    northbound::JoinRequest {
        job: "train".to_owned(),
        group: String::new(),
        rank,
        world_size: world,
        format: northbound::Format::Bfp16.into(),
        chunk_words: 5,
        host_address: format!("10.0.0.{}", rank + 1),
        host_udp_port: 4000 + rank,
        protocol_version: 1,
        mtu: 1500,
        ..Default::default()
    }
}

/// What every switch is to hold.
type Nodes = Vec<(DeviceId, Vec<Entry>)>;

/// The jobs, what every member was told, and what is to be installed.
pub(super) struct Run {
    pub(super) now: Instant,
    pub(super) jobs: Jobs,
    told: BTreeMap<MemberId, Vec<JoinEvent>>,
    ended: BTreeSet<MemberId>,
    pub(super) installing: Vec<(JobId, Nodes)>,
    removing: Vec<(JobId, Vec<DeviceId>)>,
    next: MemberId,
    /// Of the latest membership of each rank: by job, group and rank.
    tokens: BTreeMap<(String, String, u32), String>,
}

impl Run {
    pub(super) fn new(graph: Graph) -> Self {
        let inventory = Inventory::from_text("test", INVENTORY).unwrap();
        let mut run = Self {
            now: Instant::now(),
            jobs: Jobs::new(&inventory, 1000),
            told: BTreeMap::new(),
            ended: BTreeSet::new(),
            installing: Vec::new(),
            removing: Vec::new(),
            next: 1,
            tokens: BTreeMap::new(),
        };
        let actions = run.jobs.topology(run.now, graph);
        run.perform(actions);
        run
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Tell(_, JoinEvent::Membership(_)) => {}
                Action::Tell(id, event) => {
                    assert!(!self.ended.contains(&id), "member {id} is told {event:?} after its end");
                    self.told.entry(id).or_default().push(event);
                }
                Action::End(id) => assert!(self.ended.insert(id), "member {id} ended twice"),
                Action::Install { job, nodes } => self.installing.push((job, nodes)),
                Action::Remove { job, devices } => self.removing.push((job, devices)),
            }
        }
    }

    pub(super) fn join(&mut self, request: &northbound::JoinRequest) -> Result<MemberId, JoinError> {
        let id = self.next;
        self.next += 1;
        let mut request = request.clone();
        let key = (request.job.clone(), request.group.clone(), request.rank);
        if request.attach_generation != 0 && request.member_token.is_empty() {
            request.member_token = self.tokens.get(&key).cloned().unwrap_or_default();
        }
        match self.jobs.join(self.now, id, &request) {
            Ok(actions) => {
                if let Some(Action::Tell(_, JoinEvent::Membership(northbound::Membership { token }))) =
                    actions.iter().find(|action| matches!(action, Action::Tell(_, JoinEvent::Membership(_))))
                {
                    self.tokens.insert(key, token.clone());
                }
                self.perform(actions);
                Ok(id)
            }
            Err(error) => {
                let actions = self.jobs.refused(self.now, &request, &error);
                self.perform(actions);
                Err(error)
            }
        }
    }

    /// What a rank of the job "train" shows as a member.
    fn token(&self, rank: u32) -> String {
        self.token_of("train", rank)
    }

    fn token_of(&self, job: &str, rank: u32) -> String {
        self.tokens.get(&(job.to_owned(), String::new(), rank)).cloned().unwrap_or_default()
    }

    pub(super) fn join_all(&mut self, world: u32) -> Vec<MemberId> {
        (0..world).map(|rank| self.join(&request(rank, world)).unwrap()).collect()
    }

    /// Every rank that was told to stop, and has not reported, reports that nothing is finished.
    fn report(&mut self) {
        self.report_as(|_, request| request);
    }

    /// As [`Self::report`], with what each rank has finished.
    fn report_as(&mut self, change: impl Fn(u32, northbound::ReportRequest) -> northbound::ReportRequest) {
        let stopped: Vec<_> = self
            .told
            .iter()
            .filter_map(|(id, events)| match events.last() {
                Some(JoinEvent::Stop(stop)) => Some((*id, stop.attempt)),
                _ => None,
            })
            .collect();
        for (id, attempt) in stopped {
            let Some((job, rank)) = self.jobs.by_member.get(&id).copied() else { continue };
            let job = &self.jobs.jobs[&job];
            let key = (job.name.job.clone(), job.name.group.clone(), rank.into());
            let request = northbound::ReportRequest {
                job: job.name.job.clone(),
                group: job.name.group.clone(),
                rank: rank.into(),
                attempt,
                finished: vec![0; job.places],
                member_token: self.tokens.get(&key).cloned().unwrap_or_default(),
            };
            // A rank that reported twice would be as good.
            if let Ok(actions) = self.jobs.report(self.now, &change(rank.into(), request)) {
                self.perform(actions);
            }
        }
    }

    /// Ends all installations with this result.
    fn install(&mut self, result: Result<(), &str>) {
        for (job, _) in std::mem::take(&mut self.installing) {
            let actions = self.jobs.installed(self.now, job, result.map_err(str::to_owned));
            self.perform(actions);
        }
    }

    fn remove(&mut self) {
        for (job, _) in std::mem::take(&mut self.removing) {
            let actions = self.jobs.removed(self.now, job);
            self.perform(actions);
        }
    }

    /// A running group of all four hosts.
    fn running(world: u32) -> (Self, Vec<MemberId>) {
        let mut run = Self::new(full());
        let members = run.join_all(world);
        run.install(Ok(()));
        (run, members)
    }

    fn leave(&mut self, rank: u32, generation: u32) -> Result<(), LeaveError> {
        let (job, member_token) = ("train".to_owned(), self.token(rank));
        let request = northbound::LeaveRequest { job, rank, generation, member_token, ..Default::default() };
        let actions = self.jobs.leave(self.now, &request)?;
        self.perform(actions);
        Ok(())
    }

    fn disconnect(&mut self, id: MemberId) {
        let actions = self.jobs.disconnected(self.now, id);
        self.perform(actions);
    }

    fn topology(&mut self, graph: Graph) {
        let actions = self.jobs.topology(self.now, graph);
        self.perform(actions);
    }

    /// Lets time pass, tick by tick as they are due.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let (mut looked, mut at_once) = (self.now, 0);
        while let Some(at) = self.jobs.next_timeout().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            at_once = if self.now == looked { at_once + 1 } else { 0 };
            looked = self.now;
            assert!(at_once < 100, "time does not help: {:#?}", self.jobs.jobs);
            let actions = self.jobs.tick(self.now);
            self.perform(actions);
        }
        self.now = end;
    }

    fn last(&self, id: MemberId) -> &JoinEvent {
        self.told[&id].last().unwrap()
    }

    fn waiting(&self, id: MemberId) -> &northbound::Waiting {
        match self.last(id) {
            JoinEvent::Waiting(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    fn assignment(&self, id: MemberId) -> &northbound::Assignment {
        match self.last(id) {
            JoinEvent::Assignment(assignment) => assignment,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn closed(&self, id: MemberId) -> &northbound::Closed {
        match self.last(id) {
            JoinEvent::Closed(closed) => closed,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self) -> String {
        self.jobs.status()[0].state.clone()
    }
}

#[test]
fn a_group_forms_runs_and_ends() {
    let mut run = Run::new(full());
    let first = run.join(&request(0, 3)).unwrap();
    assert_eq!(run.waiting(first).missing_ranks, [1, 2]);
    let others = [run.join(&request(2, 3)).unwrap(), run.join(&request(1, 3)).unwrap()];
    let devices: Vec<_> = run.installing[0].1.iter().map(|(device, _)| *device).collect();
    assert_eq!(devices.last(), Some(&3), "the root comes last");
    assert_eq!(run.state(), "installing");
    run.install(Ok(()));
    let assignment = run.assignment(first).clone();
    assert_eq!((assignment.generation, assignment.world_size, assignment.chunk_words), (1001, 3, 5));
    assert_eq!(assignment.guard_bits, 14);
    let tree = &assignment.trees[0];
    assert_eq!((tree.member, tree.slots, tree.levels), (0, 64, 2));
    assert_eq!((tree.service_address.as_str(), tree.service_port), ("10.255.0.1", 18766));
    assert_eq!(run.assignment(others[0]).trees[0].service_address, "10.255.0.2");
    assert_eq!(run.jobs.slots(3), (64, 4096));
    for rank in 0..3 {
        run.leave(rank, 1001).unwrap();
    }
    assert_eq!(run.removing[0].1, [1, 2, 3]);
    assert_eq!(run.jobs.slots(3).0, 64, "until it is removed");
    run.remove();
    assert_eq!(run.jobs.slots(3).0, 0);
    assert_eq!(run.state(), "closed: all ranks left");
}

#[test]
fn l3_a_missing_rank_is_named_again_and_again() {
    let mut run = Run::new(full());
    let members: Vec<_> = (0..3).map(|rank| run.join(&request(rank, 4)).unwrap()).collect();
    let before = run.told[&members[0]].len();
    run.pass(Duration::from_secs(5));
    assert_eq!(run.told[&members[0]].len(), before + 5);
    assert_eq!(run.waiting(members[0]).missing_ranks, [3]);
    assert_eq!(run.state(), "waiting for rank 3");
}

#[test]
fn l4_a_rank_that_is_there_twice_is_refused() {
    let mut run = Run::new(full());
    let first = run.join(&request(0, 2)).unwrap();
    let message = |result: Result<MemberId, JoinError>| result.unwrap_err().to_string();
    let twice = message(run.join(&request(0, 2)));
    assert_eq!(twice, "job \"train\": rank 0 has joined already, from 10.0.0.1 port 4000");
    // One that asks twice does not disturb the group.
    assert_eq!(run.waiting(first).missing_ranks, [1]);
    run.join(&request(1, 2)).unwrap();
    run.install(Ok(()));
    run.assignment(first);
    assert!(message(run.join(&request(1, 2))).contains("rank 1 has joined already"));
    // Nor does anybody, once it is there.
    let elsewhere = northbound::JoinRequest { host_address: "10.0.0.3".to_owned(), ..request(1, 2) };
    assert!(run.join(&elsewhere).is_err() && run.join(&request(2, 3)).is_err());
    run.assignment(first);
}

#[test]
fn l6_other_chunks_formats_and_versions_are_refused_with_both_numbers() {
    let mut run = Run::new(full());
    let refused = |run: &mut Run, request: northbound::JoinRequest, words: &[&str]| {
        run.join(&northbound::JoinRequest { job: request.job.clone(), ..self::request(0, 2) }).ok();
        let message = run.join(&request).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{word:?} is not in: {message}");
        }
    };
    let base = request(1, 2);
    let with = |change: &dyn Fn(&mut northbound::JoinRequest)| {
        let mut request = base.clone();
        change(&mut request);
        request
    };
    refused(&mut run, with(&|r| r.chunk_words = 2), &["words per chunk 2", "rank 1", "joined with 5"]);
    refused(&mut run, with(&|r| r.format = 1), &["format i32", "joined with bfp16"]);
    refused(&mut run, with(&|r| r.chunk_words = 64), &["chunk_words is 64", "1 to 32"]);
    refused(&mut run, with(&|r| r.chunk_words = 0), &["chunk_words is 0"]);
    refused(&mut run, with(&|r| r.protocol_version = 2), &["protocol_version is 2", "speak 1"]);
    refused(&mut run, with(&|r| r.format = 99), &["format is 99"]);
    refused(&mut run, with(&|r| r.host_address = "h1".to_owned()), &["host_address", "\"h1\""]);
    refused(&mut run, with(&|r| r.host_udp_port = 65536), &["host_udp_port is 65536"]);
    refused(&mut run, with(&|r| r.world_size = 0), &["world_size is 0"]);
    refused(&mut run, with(&|r| r.job = String::new()), &["job is \"\""]);
}

#[test]
fn p5_chunks_that_do_not_fit_the_mtu_are_refused_with_the_numbers() {
    let mut run = Run::new(full());
    let with = |words, mtu| northbound::JoinRequest { chunk_words: words, mtu, ..request(0, 1) };
    let message = run.join(&with(32, 1500)).unwrap_err().to_string();
    assert_eq!(
        message,
        "a chunk of 32 words makes ip packets of 8260 bytes, but the mtu of 10.0.0.1 is 1500: at most 5 words fit"
    );
    // 20 + 8 + 40 + 5 x 256 = 1348.
    assert!(run.join(&with(5, 1347)).is_err());
    run.join(&with(5, 1348)).unwrap();
}

#[test]
fn l2_a_rank_that_dies_ends_the_group_for_all() {
    let (mut run, members) = Run::running(3);
    run.disconnect(members[2]);
    run.pass(GRACE);
    run.report();
    for &survivor in &members[..2] {
        assert_eq!(run.closed(survivor).missing_ranks, [2]);
        assert!(
            run.closed(survivor).reason.contains("rank 2 at 10.0.0.3 is gone"),
            "{:?}",
            run.closed(survivor)
        );
        assert!(run.ended.contains(&survivor));
    }
    // The next group waits neither for the removal nor for the old one's ranks, and has its own generation and memory.
    let members = run.join_all(3);
    let (_, nodes) = run.installing[0].clone();
    run.install(Ok(()));
    assert_eq!(run.assignment(members[0]).generation, 1003);
    assert_eq!(run.jobs.slots(3).0, 128);
    assert_eq!(nodes.len(), 3);
    run.remove();
    assert_eq!(run.jobs.slots(3).0, 64);
}

#[test]
fn a_rank_that_goes_while_the_group_forms_only_leaves_a_gap() {
    let mut run = Run::new(full());
    let first = run.join(&request(0, 2)).unwrap();
    let other = northbound::JoinRequest { rank: 1, world_size: 3, ..request(1, 3) };
    run.disconnect(first);
    assert!(run.jobs.status().is_empty(), "nobody is left");
    // The terms are those of the first to come.
    run.join(&other).unwrap();
}

#[test]
fn l1_a_rank_that_left_is_named_after_the_linger_time() {
    let (mut run, members) = Run::running(2);
    run.leave(0, 1001).unwrap();
    run.pass(Duration::from_millis(999));
    run.assignment(members[1]);
    assert_eq!(run.state(), "draining: ranks are leaving");
    run.pass(Duration::from_millis(1));
    run.report();
    assert_eq!(
        (run.closed(members[1]).reason.as_str(), run.closed(members[1]).missing_ranks.as_slice()),
        ("rank 0 left", &[0][..])
    );
    // Its own stream ends later: no news.
    run.disconnect(members[0]);
    run.disconnect(members[1]);
}

#[test]
fn a_rank_that_reports_a_failure_ends_the_group_at_once() {
    let (mut run, members) = Run::running(3);
    let request = northbound::LeaveRequest {
        job: "train".to_owned(),
        generation: 1001,
        failure: "allreduce 4 exceeded its deadline".to_owned(),
        missing_ranks: vec![2, 70_000],
        member_token: run.token(0),
        ..Default::default()
    };
    let actions = run.jobs.leave(run.now, &request).unwrap();
    run.perform(actions);
    run.report();
    for &other in &members[1..] {
        assert_eq!(
            run.closed(other).reason,
            "rank 0 reports: allreduce 4 exceeded its deadline (rank 2 is at leaf2 port 13)"
        );
        assert_eq!(run.closed(other).missing_ranks, [2]);
        assert!(run.ended.contains(&other));
    }
}

#[test]
fn the_next_group_may_begin_while_the_last_one_drains() {
    let (mut run, members) = Run::running(2);
    run.leave(0, 1001).unwrap();
    let next = run.join(&request(0, 2)).unwrap();
    assert_eq!(run.waiting(next).missing_ranks, [1]);
    // Rank 1 is still in the old one; joining twice at once would be an error, so it is told what is wrong.
    run.leave(1, 1001).unwrap();
    run.disconnect(members[1]);
    run.join(&request(1, 2)).unwrap();
    run.install(Ok(()));
    assert_eq!(run.assignment(next).generation, 1002);
}

#[test]
fn leaves_that_fit_nothing_are_refused() {
    let (mut run, _) = Run::running(2);
    assert!(matches!(run.leave(0, 999), Err(LeaveError::Generation { given: 999, current: 1001, .. })));
    assert!(matches!(run.leave(7, 1001), Err(LeaveError::NotMember { rank: 7, .. })));
    run.leave(0, 1001).unwrap();
    assert!(matches!(run.leave(0, 1001), Err(LeaveError::NotMember { .. })));
    run.leave(1, 1001).unwrap();
    assert!(matches!(run.leave(1, 1001), Err(LeaveError::NoGroup(_))));
}

#[test]
fn hosts_and_links_may_be_found_later() {
    let mut run = Run::new(graph(&[1], &[1]));
    let members = run.join_all(3);
    assert!(!run.waiting(members[0]).host_unknown && run.waiting(members[2]).host_unknown);
    assert_eq!(run.waiting(members[0]).missing_ranks, [0; 0]);
    run.topology(graph(&[1], &[1, 2, 3]));
    assert!(run.state().contains("partitioned"), "{}", run.state());
    run.topology(full());
    run.install(Ok(()));
    run.assignment(members[0]);
}

#[test]
fn a_network_without_a_tree_ends_in_its_reason() {
    let mut run = Run::new(graph(&[1], &[1, 2, 3]));
    let members = run.join_all(3);
    run.pass(Duration::from_secs(8) + WAITING_INTERVAL);
    let reason = &run.closed(members[0]).reason;
    assert_eq!(
        reason,
        "the network is partitioned: ranks [0, 1] are at leaf1, spine; ranks [2] are at leaf2"
    );
    run.topology(graph(&[1, 2], &[]));
    let members = run.join_all(2);
    run.pass(Duration::from_secs(8) + WAITING_INTERVAL);
    let reason = &run.closed(members[0]).reason;
    assert_eq!(reason, "no switch has seen host 10.0.0.1 of rank 0, host 10.0.0.2 of rank 1");
}

#[test]
fn a_failed_installation_is_taken_back() {
    let mut run = Run::new(full());
    let members = run.join_all(3);
    run.install(Err("switch leaf2: no"));
    assert_eq!(run.closed(members[0]).reason, "the trees could not be installed: switch leaf2: no");
    assert_eq!(run.removing[0].1, [1, 2, 3]);
    run.remove();
    assert_eq!(run.jobs.slots(1).0, 0);
}

#[test]
fn a_group_that_ends_while_it_is_installed_is_removed_after_that() {
    let mut run = Run::new(full());
    let members = run.join_all(3);
    run.disconnect(members[0]);
    assert!(run.closed(members[1]).reason.contains("rank 0"));
    assert!(run.removing.is_empty(), "the installation is still going on");
    run.install(Ok(()));
    assert_eq!(run.removing.len(), 1);
    assert!(!run.told[&members[1]].iter().any(|event| matches!(event, JoinEvent::Assignment(_))));
    run.remove();
    assert_eq!(run.jobs.slots(1).0, 0);
}

#[test]
fn s5_groups_of_the_same_job_are_apart() {
    let mut run = Run::new(full());
    let group = |group: &str, rank| northbound::JoinRequest {
        group: group.to_owned(),
        host_udp_port: 5000 + rank,
        ..request(rank, 2)
    };
    for name in ["a", "b"] {
        run.join(&group(name, 0)).unwrap();
        run.join(&group(name, 1)).unwrap();
    }
    let trees: HashSet<_> = run.installing.iter().map(|(_, nodes)| keys(nodes)).collect();
    assert_eq!(trees.len(), 2);
    assert_eq!(run.jobs.slots(1).0, 128);
}

#[test]
fn a_full_switch_refuses_the_group_with_the_numbers() {
    let mut run = Run::new(full());
    for job in 0.. {
        let request = |rank| northbound::JoinRequest {
            job: format!("job{job}"),
            host_udp_port: 4000 + 2 * job + rank,
            ..request(rank, 2)
        };
        let member = run.join(&request(0)).unwrap();
        run.join(&request(1)).unwrap();
        run.install(Ok(()));
        if let JoinEvent::Closed(closed) = run.last(member) {
            assert_eq!(
                closed.reason,
                "leaf1 has no room for the group: 64 slots are needed in a row, 0 are free"
            );
            assert_eq!(job, 4096 / 64);
            return;
        }
    }
}

#[test]
fn stripes_use_different_roots() {
    let text = INVENTORY
        .replace("trees: {", "trees: {stripes: 4, ")
        .replace("trees:", "  - {name: spine2, target: 'h:4', device_id: 4}\ntrees:");
    let inventory = Inventory::from_text("test", &text).unwrap();
    let mut run = Run::new(Graph::default());
    run.jobs = Jobs::new(&inventory, 0);
    let mut graph = full();
    (1..=2).for_each(|leaf| graph.add_link(port(leaf, 2), port(4, leaf)));
    run.topology(graph);
    let members = run.join_all(4);
    run.install(Ok(()));
    let trees = &run.assignment(members[0]).trees;
    assert_eq!(trees.len(), 2, "no third tree is as good");
    let status = run.jobs.status();
    let roots: Vec<_> = status[0]
        .tree
        .iter()
        .filter(|node| node.parent.is_empty())
        .map(|node| node.switch_name.as_str())
        .collect();
    assert_eq!(roots, ["spine", "spine2"]);
    assert_eq!(run.jobs.slots(1).0, 128);
}

/// The keys of all entries as text, to be compared.
fn keys(nodes: &[(DeviceId, Vec<Entry>)]) -> BTreeSet<String> {
    let key = |device: DeviceId, entry: &Entry| match entry {
        Entry::Table(TableEntry { table, matches, .. }) => {
            let exact = |value: &Match| match value {
                Match::Exact(value) => format!("{value:?}"),
                other => panic!("{other:?}"),
            };
            let matches: Vec<_> = matches.iter().map(|(_, value)| exact(value)).collect();
            format!("{device} {table} {matches:?}")
        }
        Entry::Multicast(group) => format!("{device} group {}", group.id),
    };
    nodes.iter().flat_map(|(device, entries)| entries.iter().map(move |entry| key(*device, entry))).collect()
}

#[test]
fn tenants_have_limits_of_groups_and_of_slots() {
    let text = format!("{INVENTORY}limits: {{groups_per_tenant: 2, slots_per_tenant: 100}}\n");
    let inventory = Inventory::from_text("test", &text).unwrap();
    let mut run = Run::new(full());
    run.jobs = Jobs::new(&inventory, 1000);
    run.jobs.topology(run.now, full());
    let joining = |job: &str| {
        let mut joining = request(0, 1);
        joining.job = job.to_owned();
        joining
    };
    run.join(&joining("a/one")).unwrap();
    // 64 of 100 slots are taken: no room for 64 more, though the switch has 4096. Another tenant has a share of its own.
    let second = run.join(&joining("a/two")).unwrap();
    let Some(JoinEvent::Closed(closed)) = run.told[&second].last() else { panic!("{:?}", run.told[&second]) };
    let expected = "leaf1: 64 slots are needed, the tenant \"a\" uses 64 there and may use 100";
    assert_eq!(closed.reason, expected);
    run.join(&joining("b/one")).unwrap();
    run.join(&joining("one")).unwrap();
    assert_eq!(run.jobs.slots(1).0, 3 * 64);
    // Two groups that wait for ranks, then no third.
    for job in ["c/one", "c/two"] {
        run.join(&northbound::JoinRequest { world_size: 2, ..joining(job) }).unwrap();
    }
    let refused = run.join(&joining("c/three")).unwrap_err().to_string();
    assert!(refused.contains("the tenant \"c\" has 2 groups open, and may have 2"), "{refused}");
}
