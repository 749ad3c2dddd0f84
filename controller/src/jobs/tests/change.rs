//! Generations that end and are followed by others.

use super::*;
use crate::jobs::ReportError;

/// Two leaves under two spines (3, 4).
fn two_spines(links: &[(DeviceId, DeviceId)]) -> Graph {
    let mut graph = graph(&[], &[1, 2, 3, 4]);
    graph.add_switch(4);
    links.iter().for_each(|&(leaf, spine)| graph.add_link(port(leaf, spine - 2), port(spine, leaf)));
    graph
}

const ALL_LINKS: [(DeviceId, DeviceId); 4] = [(1, 3), (2, 3), (1, 4), (2, 4)];

fn running_on_two_spines() -> (Run, Vec<MemberId>) {
    let mut run = Run::new(Graph::default());
    let text = INVENTORY.replace("trees:", "  - {name: spine2, target: 'h:4', device_id: 4}\ntrees:");
    run.jobs = Jobs::new(&Inventory::from_text("test", &text).unwrap(), 1000);
    run.topology(two_spines(&ALL_LINKS));
    let members = run.join_all(3);
    run.install(Ok(()));
    (run, members)
}

/// The rank's place differs from the others' in the first slot.
fn ahead(rank: u32) -> impl Fn(u32, northbound::ReportRequest) -> northbound::ReportRequest {
    move |reporter, mut request| {
        request.finished[0] = 7 + u64::from(reporter == rank);
        request
    }
}

fn chunk(slot: u32) -> northbound::KeptChunk {
    let slot = Some(northbound::SlotIndex { tree: 0, slot });
    northbound::KeptChunk { slot, tag: 77, elements: vec![1, 2, 3, 4], ..Default::default() }
}

impl Run {
    fn hand_over(&mut self, rank: u32, chunks: &[northbound::KeptChunk]) -> Result<(), ReportError> {
        let Phase::Changing(change) = &self.jobs.jobs.values().next().unwrap().phase else {
            panic!("no change")
        };
        let JoinEvent::Stop(stop) = change.stop() else { panic!("no stop") };
        let request = northbound::HandOverRequest {
            job: "train".to_owned(),
            rank,
            attempt: stop.attempt,
            chunks: chunks.to_vec(),
            member_token: self.token(rank),
            ..Default::default()
        };
        let actions = self.jobs.handed_over(self.now, &request)?;
        self.perform(actions);
        Ok(())
    }

    #[track_caller]
    fn resume(&self, id: MemberId) -> northbound::Resume {
        self.assignment(id).resume.clone().unwrap()
    }

    fn attach(&mut self, rank: u32, generation: u32) -> Result<MemberId, JoinError> {
        self.join(&northbound::JoinRequest { attach_generation: generation, ..request(rank, 3) })
    }
}

#[test]
fn m2_a_broken_link_is_replaced_by_another_tree() {
    let (mut run, members) = running_on_two_spines();
    assert_eq!(run.jobs.jobs[&1].plan.as_ref().unwrap().devices(), [1, 2, 3]);
    run.topology(two_spines(&[(1, 3), (1, 4), (2, 4)]));
    assert_eq!(run.state(), "changing trees: the link from leaf2 port 1 to spine port 2 is down");
    let JoinEvent::Stop(stop) = run.last(members[0]) else { panic!("{:?}", run.last(members[0])) };
    assert_eq!(stop.attempt, 1002);
    run.report();
    assert!(run.installing.is_empty(), "not before the old entries are gone");
    run.remove();
    run.install(Ok(()));
    for &member in &members {
        let assignment = run.assignment(member);
        assert_eq!((assignment.generation, assignment.world_size), (1002, 3));
        assert_eq!(run.resume(member).finished, vec![0; 64]);
        assert!(run.resume(member).copies.is_empty());
    }
    assert_eq!(run.jobs.jobs[&1].plan.as_ref().unwrap().devices(), [1, 2, 4]);
    assert_eq!((run.jobs.slots(3).0, run.jobs.slots(4).0), (0, 64));
    // Ranks of one leaf need no link.
    let (mut run, members) = Run::running(2);
    run.topology(graph(&[], &[1, 2, 3, 4]));
    run.assignment(members[0]);
}

#[test]
fn m2_a_link_that_comes_back_in_time_is_used_again_and_one_that_does_not_is_named() {
    let (mut run, members) = Run::running(3);
    run.topology(graph(&[1], &[1, 2, 3, 4]));
    run.report();
    run.remove();
    assert!(run.state().starts_with("waiting for a tree: the network is partitioned"), "{}", run.state());
    run.pass(Duration::from_secs(2));
    run.topology(full());
    run.install(Ok(()));
    assert_eq!(run.resume(members[2]).reason, "the link from leaf2 port 1 to spine port 2 is down");

    run.topology(graph(&[1], &[1, 2, 3, 4]));
    run.report();
    run.remove();
    run.pass(Duration::from_secs(8));
    assert_eq!(
        run.closed(members[0]).reason,
        "the link from leaf2 port 1 to spine port 2 is down, and there is no other tree: the network is partitioned: ranks [0, 1] are at leaf1, spine; ranks [2] are at leaf2"
    );
    run.remove();
    assert!(run.jobs.jobs.is_empty());
    assert_eq!(run.jobs.pools[&1], Pool::new());
}

#[test]
fn a_switch_that_died_is_avoided() {
    let (mut run, members) = running_on_two_spines();
    let mut without = two_spines(&[(1, 4), (2, 4)]);
    without = {
        let mut rest = Graph::default();
        for device in [1, 2, 4] {
            rest.add_switch(device);
        }
        for leaf in [1, 2] {
            rest.add_link(port(leaf, 2), port(4, leaf));
        }
        without.hosts().for_each(|(address, at)| rest.add_host(address, at));
        rest
    };
    run.topology(without);
    run.report();
    run.remove();
    run.install(Ok(()));
    assert_eq!(run.resume(members[0]).reason, "switch spine is unreachable");
}

#[test]
fn a_host_that_moves_is_served_where_it_is_now() {
    let (mut run, members) = Run::running(2);
    let mut moved = full();
    moved.add_host(Ipv4Addr::new(10, 0, 0, 2), attachment(3));
    run.topology(moved);
    run.report();
    run.remove();
    run.install(Ok(()));
    assert_eq!(run.resume(members[0]).reason, "the host of rank 1 is no longer at leaf1 port 12");
    assert_eq!(run.assignment(members[1]).trees[0].service_address, "10.255.0.2");
}

#[test]
fn a_chunk_that_only_some_ranks_have_is_handed_over() {
    let (mut run, members) = running_on_two_spines();
    run.topology(two_spines(&[(1, 3), (1, 4), (2, 4)]));
    run.report_as(ahead(1));
    run.remove();
    assert!(run.installing.is_empty(), "ranks would begin at different chunks");
    let JoinEvent::Fetch(fetch) = run.last(members[1]) else { panic!("{:?}", run.last(members[1])) };
    assert_eq!(fetch.slots, [northbound::SlotIndex { tree: 0, slot: 0 }]);
    run.hand_over(1, &[chunk(0)]).unwrap();
    run.install(Ok(()));
    for (rank, &member) in members.iter().enumerate() {
        assert_eq!(run.resume(member).finished[0], 8);
        let copies = if rank == 1 { vec![] } else { vec![chunk(0)] };
        assert_eq!(run.resume(member).copies, copies, "rank {rank}");
    }
}

#[test]
fn l2_what_a_survivor_has_finished_succeeds_at_all() {
    let (mut run, members) = Run::running(3);
    run.disconnect(members[2]);
    run.pass(GRACE);
    run.report_as(ahead(0));
    run.hand_over(0, &[chunk(0)]).unwrap();
    assert_eq!(run.closed(members[1]).copies, [chunk(0)]);
    assert!(run.closed(members[0]).copies.is_empty());
}

#[test]
fn what_a_rank_finished_before_it_left_is_kept_for_the_others() {
    let (mut run, members) = Run::running(3);
    let mut finished = vec![7; 64];
    finished[0] = 8;
    let leave = northbound::LeaveRequest {
        job: "train".to_owned(),
        generation: 1001,
        finished,
        kept: (0..64).map(chunk).collect(),
        member_token: run.token(0),
        ..Default::default()
    };
    let actions = run.jobs.leave(run.now, &leave).unwrap();
    run.perform(actions);
    run.topology(graph(&[1], &[1, 2, 3, 4]));
    run.report_as(|_, mut request| {
        request.finished = vec![7; 64];
        request
    });
    for &member in &members[1..] {
        assert_eq!(run.closed(member).copies, [chunk(0)]);
    }
}

#[test]
fn a_lost_stream_is_forgiven_if_the_rank_attaches_again() {
    let (mut run, members) = Run::running(3);
    run.disconnect(members[1]);
    run.pass(GRACE / 2);
    let again = run.attach(1, 1001).unwrap();
    run.pass(Duration::from_secs(60));
    assert_eq!(run.state(), "running");
    assert!(!run.told.contains_key(&again), "nothing has changed: {:?}", run.told.get(&again));
    // Also if its old stream has not ended yet.
    run.attach(1, 1001).unwrap();
    assert!(run.ended.contains(&again));
    let stranger = northbound::JoinRequest { host_udp_port: 1, ..request(1, 3) };
    let error = run.join(&northbound::JoinRequest { attach_generation: 1001, ..stranger }).unwrap_err();
    assert!(matches!(error, JoinError::NoMember { .. }), "{error}");
    assert!(matches!(run.attach(1, 1000), Err(JoinError::NoMember { .. })));
}

#[test]
fn a_rank_that_attaches_hears_what_it_missed() {
    let (mut run, members) = running_on_two_spines();
    run.disconnect(members[1]);
    run.topology(two_spines(&[(1, 3), (1, 4), (2, 4)]));
    let again = run.attach(1, 1001).unwrap();
    assert!(matches!(run.last(again), JoinEvent::Stop(_)));
    run.report();
    run.remove();
    run.disconnect(again);
    run.install(Ok(()));
    let again = run.attach(1, 1001).unwrap();
    assert_eq!(run.assignment(again).generation, 1002);
    // The end, too.
    run.disconnect(again);
    run.disconnect(members[0]);
    let actions = run.jobs.leave(
        run.now,
        &northbound::LeaveRequest {
            job: "train".to_owned(),
            rank: 2,
            generation: 1002,
            failure: "no".to_owned(),
            member_token: run.token(2),
            ..Default::default()
        },
    );
    run.perform(actions.unwrap());
    run.pass(GRACE);
    let again = run.attach(1, 1002);
    assert!(matches!(again, Err(JoinError::NoMember { .. })), "{again:?}");
}

#[test]
fn l2_a_rank_that_is_started_again_begins_the_next_group_at_once() {
    let (mut run, members) = Run::running(3);
    run.disconnect(members[2]);
    let anew = run.join(&request(2, 3)).unwrap();
    assert_eq!(run.waiting(anew).missing_ranks, [0, 1]);
    run.report();
    for &survivor in &members[..2] {
        assert_eq!(run.closed(survivor).missing_ranks, [2]);
        assert!(run.closed(survivor).reason.contains("was started again"));
    }
    run.join(&request(0, 3)).unwrap();
    run.join(&request(1, 3)).unwrap();
    run.install(Ok(()));
    assert!(run.assignment(anew).generation > 1001);
}

#[test]
fn a_rank_that_does_not_report_is_dead() {
    let (mut run, members) = Run::running(3);
    run.topology(graph(&[1], &[1, 2, 3, 4]));
    let actions = {
        // Ranks 0 and 1 report, rank 2 is silent.
        run.told.get_mut(&members[2]).unwrap().pop();
        run.report();
        run.now += Duration::from_secs(2);
        run.jobs.tick(run.now)
    };
    run.perform(actions);
    run.report();
    let closed = run.closed(members[0]);
    assert_eq!(closed.missing_ranks, [2]);
    assert_eq!(closed.reason, "rank 2 does not answer");
}

#[test]
fn l2_survivors_go_on_as_a_smaller_group_if_all_want_that() {
    let mut run = Run::new(full());
    let shrink = |rank| northbound::JoinRequest {
        on_failure: northbound::OnFailure::Shrink.into(),
        ..request(rank, 3)
    };
    run.join(&shrink(0)).unwrap();
    let second = run.join(&shrink(1)).unwrap();
    let third = run.join(&shrink(2)).unwrap();
    run.install(Ok(()));
    run.disconnect(second);
    run.pass(GRACE);
    run.report_as(ahead(2));
    run.hand_over(2, &[chunk(0)]).unwrap();
    run.remove();
    run.install(Ok(()));
    let assignment = run.assignment(third);
    assert_eq!((assignment.world_size, &assignment.members[..]), (2, &[0, 2][..]));
    assert_eq!(assignment.trees[0].member, 2);
    assert_eq!(run.resume(third).finished[0], 8);
    let error = run.join(&shrink(1)).unwrap_err();
    assert_eq!(error, JoinError::RankLost { name: run.jobs.jobs[&1].name.clone(), rank: 1 });
    // One after the other, down to the last.
    run.disconnect(third);
    run.pass(GRACE);
    run.report_as(ahead(0));
    run.remove();
    run.install(Ok(()));
    assert_eq!(run.jobs.status()[0].joined_ranks, [0]);
}

#[test]
fn stragglers_are_named_to_all_ranks() {
    let (mut run, members) = Run::running(3);
    let stalled = |run: &mut Run, rank, missing: &[u32]| {
        let request = northbound::StalledRequest {
            job: "train".to_owned(),
            rank,
            generation: 1001,
            chunk: 5,
            missing_ranks: missing.to_vec(),
            member_token: run.token(rank),
            ..Default::default()
        };
        let actions = run.jobs.stalled(run.now, &request);
        run.perform(actions);
    };
    // Rank 2 is alone at its leaf: nobody sees it missing at its own, but it is the only one that does not wait.
    for _ in 0..2 {
        stalled(&mut run, 0, &[]);
        stalled(&mut run, 1, &[]);
        run.now += Duration::from_secs(1);
    }
    assert_eq!(run.waiting(members[0]).missing_ranks, [2]);
    assert_eq!(run.waiting(members[2]).missing_ranks, [2]);
    // Later a leaf sees who it is.
    run.now += Duration::from_secs(10);
    for _ in 0..2 {
        stalled(&mut run, 0, &[1]);
        stalled(&mut run, 2, &[]);
    }
    assert_eq!(run.waiting(members[2]).missing_ranks, [1]);
}
