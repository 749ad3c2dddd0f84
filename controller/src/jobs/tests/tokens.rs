//! What ranks must show: the job's token to join, their own for whatever they ask for as members.

use super::*;
use crate::jobs::{Records, ReportError, SubmitError};

const SECRET: &str = "a secret of the whole job";

fn showing(token: &str, rank: u32, world: u32) -> northbound::JoinRequest {
    northbound::JoinRequest { job_token: token.to_owned(), ..request(rank, world) }
}

fn submit(run: &mut Run, job: &str, idle_seconds: u32) -> Result<String, SubmitError> {
    let request = northbound::SubmitRequest { job: job.to_owned(), idle_seconds };
    run.jobs.submit(run.now, &request).map(|submitted| submitted.job_token)
}

#[track_caller]
fn refused(result: Result<MemberId, JoinError>, words: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, JoinError::JobToken { .. }), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn the_first_rank_sets_the_token_of_its_job_and_of_all_its_groups() {
    let mut run = Run::new(full());
    let first = run.join(&showing(SECRET, 0, 2)).unwrap();
    refused(run.join(&request(1, 2)), "its first rank gave a job token");
    refused(run.join(&showing("another secret, as long", 1, 2)), "not the one that its first rank gave");
    let group = northbound::JoinRequest { group: "tensor".to_owned(), ..request(1, 2) };
    refused(run.join(&group), "its first rank gave a job token");
    // A stranger's terms, or nonsense, are no reason for the others to stop.
    refused(run.join(&request(1, 3)), "its first rank gave a job token");
    assert!(run.join(&northbound::JoinRequest { chunk_words: 99, ..request(1, 2) }).is_err());
    assert!(run.join(&showing("short", 1, 2)).unwrap_err().to_string().contains("job_token is 5 bytes long"));
    assert_eq!(run.waiting(first).missing_ranks, [1]);
    run.join(&showing(SECRET, 1, 2)).unwrap();
    run.install(Ok(()));
    run.assignment(first);
    // Nor may a stranger come as a rank that was started again.
    run.disconnect(first);
    refused(run.join(&request(0, 2)), "its first rank gave a job token");
    assert_eq!(run.state(), "running");
    // The other way round: who shows one where none is shown is in another job.
    let mut run = Run::new(full());
    run.join(&request(0, 2)).unwrap();
    refused(run.join(&showing(SECRET, 1, 2)), "its first rank gave none");
}

#[test]
fn a_submitted_job_is_joined_with_its_token_again_and_again_until_it_is_withdrawn() {
    let mut run = Run::new(full());
    let token = submit(&mut run, "train", 60).unwrap();
    assert!(token.starts_with("inca_job_") && token.len() > 64, "{token}");
    assert_eq!(run.state(), "submitted: no rank has joined");
    let taken = submit(&mut run, "train", 0).unwrap_err().to_string();
    assert_eq!(taken, "job \"train\" is there already: it was submitted");
    refused(run.join(&request(0, 2)), "is joined with its job token");
    refused(run.join(&showing(SECRET, 0, 2)), "is not that of its submission");
    for _ in 0..2 {
        let members: Vec<_> = (0..2).map(|rank| run.join(&showing(&token, rank, 2)).unwrap()).collect();
        run.install(Ok(()));
        let generation = run.assignment(members[0]).generation;
        (0..2).for_each(|rank| run.leave(rank, generation).unwrap());
        run.remove();
    }
    // Idle for long: the name is free.
    run.pass(Duration::from_secs(59));
    refused(run.join(&request(0, 2)), "is joined with its job token");
    run.pass(Duration::from_secs(2));
    run.join(&request(0, 2)).unwrap();
    let taken = submit(&mut run, "train", 0).unwrap_err().to_string();
    assert_eq!(taken, "job \"train\" is there already: ranks have joined it");
    assert!(matches!(submit(&mut run, "", 0), Err(SubmitError::Name(_))));
    assert!(matches!(submit(&mut run, "other", u32::MAX), Err(SubmitError::Idle(u32::MAX))));
    // Ended by an operator: free at once, whether ranks were there or not.
    submit(&mut run, "other", 0).unwrap();
    let (groups, actions) = run.jobs.end_job(run.now, "other", None, "no").unwrap();
    assert!(groups.is_empty() && actions.is_empty());
    submit(&mut run, "other", 0).unwrap();
}

#[test]
fn an_operator_may_want_every_job_submitted() {
    let text = format!("{INVENTORY}security: {{submitted_only: true}}\n");
    let mut run = Run::new(full());
    run.jobs = Jobs::new(&Inventory::from_text("test", &text).unwrap(), 1000);
    refused(run.join(&showing(SECRET, 0, 2)), "submitted jobs only");
    let token = submit(&mut run, "train", 0).unwrap();
    run.join(&showing(&token, 0, 2)).unwrap();
}

#[test]
fn every_request_of_a_member_takes_its_token() {
    let (mut run, members) = Run::running(3);
    let (own, others) = (run.token(1), run.token(2));
    assert!(own != others && own.starts_with("inca_member_"), "{own}");
    for wrong in ["", "inca_member_", SECRET, others.as_str()] {
        let leave = northbound::LeaveRequest {
            job: "train".to_owned(),
            rank: 1,
            generation: 1001,
            failure: "a stranger says so".to_owned(),
            member_token: wrong.to_owned(),
            ..Default::default()
        };
        let error = run.jobs.leave(run.now, &leave).unwrap_err();
        assert!(matches!(error, LeaveError::Token { rank: 1, .. }), "{error}");
        assert!(wrong.len() < 5 || !error.to_string().contains(wrong), "{error}");
        let stalled = northbound::StalledRequest {
            job: "train".to_owned(),
            rank: 1,
            generation: 1001,
            chunk: 5,
            missing_ranks: vec![2],
            member_token: wrong.to_owned(),
            ..Default::default()
        };
        for _ in 0..3 {
            assert_eq!(run.jobs.stalled(run.now, &stalled), []);
        }
        let attach = northbound::JoinRequest {
            attach_generation: 1001,
            member_token: if wrong.is_empty() { "x".to_owned() } else { wrong.to_owned() },
            ..request(1, 3)
        };
        let error = run.join(&attach).unwrap_err();
        assert!(matches!(error, JoinError::MemberToken { rank: 1, .. }), "{error}");
    }
    assert!(!run.ended.contains(&members[1]), "its own stream is where it was");
    // Between two generations.
    run.topology(graph(&[1], &[1, 2, 3, 4]));
    let JoinEvent::Stop(stop) = run.last(members[1]).clone() else { panic!("{:?}", run.last(members[1])) };
    let report = |token: &str, finished| northbound::ReportRequest {
        job: "train".to_owned(),
        rank: 1,
        attempt: stop.attempt,
        finished,
        member_token: token.to_owned(),
        ..Default::default()
    };
    // A wrong number of slots would be this rank's death.
    let error = run.jobs.report(run.now, &report(&others, vec![])).unwrap_err();
    assert!(matches!(error, ReportError::Token { rank: 1, .. }), "{error}");
    let chunks = northbound::HandOverRequest {
        job: "train".to_owned(),
        rank: 1,
        attempt: stop.attempt,
        ..Default::default()
    };
    let error = run.jobs.handed_over(run.now, &chunks).unwrap_err();
    assert!(matches!(error, ReportError::Token { rank: 1, .. }), "{error}");
    assert!(run.jobs.report(run.now, &report(&own, vec![0; 64])).is_ok());
}

#[test]
fn tokens_are_the_same_for_the_next_controller_which_reads_digests_alone() {
    let mut run = Run::new(full());
    let awaited = submit(&mut run, "awaited", 0).unwrap();
    let job_token = submit(&mut run, "train", 0).unwrap();
    for rank in 0..3 {
        run.join(&showing(&job_token, rank, 3)).unwrap();
    }
    let held = northbound::JoinRequest { job: "held".to_owned(), host_udp_port: 9, ..showing(SECRET, 0, 1) };
    run.join(&held).unwrap();
    run.install(Ok(()));
    let text = serde_json::to_string(&run.jobs.records()).unwrap();
    let members = (0..3).map(|rank| run.token(rank));
    for token in members.chain([job_token.clone(), awaited.clone(), SECRET.to_owned()]) {
        assert!(!text.contains(&token), "{token} is in {text}");
        assert!(!format!("{:?}", run.jobs).contains(&token), "{token} is in the debug output");
    }
    let records: Records = serde_json::from_str(&text).unwrap();
    let mut next = Run::new(full());
    let (_, actions) = next.jobs.restore(next.now, records, &full());
    next.perform(actions);
    let attach = |token: String| northbound::JoinRequest {
        attach_generation: 1001,
        member_token: token,
        ..showing(&job_token, 1, 3)
    };
    assert!(matches!(next.join(&attach(run.token(2))), Err(JoinError::MemberToken { .. })));
    next.join(&attach(run.token(1))).unwrap();
    refused(next.join(&request(0, 3)), "is joined with its job token");
    let held = |token: &str| northbound::JoinRequest {
        job: "held".to_owned(),
        group: "another".to_owned(),
        host_udp_port: 10,
        ..showing(token, 0, 1)
    };
    refused(next.join(&held("")), "its first rank gave a job token");
    next.join(&held(SECRET)).unwrap();
    let awaited_by = |token: &str| northbound::JoinRequest {
        job: "awaited".to_owned(),
        host_udp_port: 11,
        ..showing(token, 0, 1)
    };
    refused(next.join(&awaited_by(&job_token)), "is not that of its submission");
    next.join(&awaited_by(&awaited)).unwrap();
    // Records of before there were tokens hold none: their ranks attach as they did.
    let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
    old.as_object_mut().unwrap().remove("submitted");
    for group in old["groups"].as_array_mut().unwrap() {
        group.as_object_mut().unwrap().remove("token");
        group.as_object_mut().unwrap().remove("queue");
        for member in group["members"].as_array_mut().unwrap() {
            member.as_object_mut().unwrap().remove("token");
        }
    }
    let records: Records = serde_json::from_value(old).unwrap();
    let mut next = Run::new(full());
    next.jobs.restore(next.now, records, &full());
    next.join(&northbound::JoinRequest { attach_generation: 1001, ..request(1, 3) }).unwrap();
}
