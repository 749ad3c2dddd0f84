//! A controller ends at any moment; the next one goes on with what was remembered.

use super::*;
use crate::jobs::Records;

/// The jobs of a new controller that has read the store, and what it has installed.
fn next_controller(run: &Run) -> (Run, Vec<(JobId, DeviceId, Vec<Entry>)>) {
    let text = serde_json::to_string(&run.jobs.records()).unwrap();
    let records: Records = serde_json::from_str(&text).unwrap();
    assert_eq!(records, run.jobs.records(), "what is written is read");
    let mut next = Run::new(Graph::default());
    next.now = run.now;
    next.tokens = run.tokens.clone();
    let (sections, actions) = next.jobs.restore(next.now, records, &run.jobs.graph);
    next.perform(actions);
    (next, sections)
}

fn sorted(nodes: &Nodes) -> Vec<(DeviceId, Vec<String>)> {
    let mut nodes: Vec<_> = nodes
        .iter()
        .map(|(device, entries)| {
            let mut entries: Vec<String> = entries.iter().map(|entry| format!("{entry:?}")).collect();
            entries.sort();
            (*device, entries)
        })
        .collect();
    nodes.sort();
    nodes
}

fn attach(run: &mut Run, rank: u32, generation: u32) -> Result<MemberId, JoinError> {
    let request = northbound::JoinRequest { attach_generation: generation, ..request(rank, 4) };
    run.join(&request)
}

/// Four ranks that run, what was installed for them, and their generation.
fn running() -> (Run, Nodes, u32) {
    let mut run = Run::new(full());
    for rank in 0..4 {
        run.join(&request(rank, 4)).unwrap();
    }
    let (job, nodes) = run.installing.remove(0);
    let actions = run.jobs.installed(run.now, job, Ok(()));
    run.perform(actions);
    let generation = run.jobs.jobs[&job].generation;
    (run, nodes, generation)
}

#[test]
fn a_running_group_is_installed_as_it_was_and_its_ranks_attach() {
    let (run, nodes, generation) = running();
    let (mut next, sections) = next_controller(&run);
    let again: Nodes = sections.into_iter().map(|(_, device, entries)| (device, entries)).collect();
    assert_eq!(sorted(&again), sorted(&nodes), "the same entries: nothing is to be written");
    assert_eq!(next.jobs.slots(1), run.jobs.slots(1));
    assert_eq!(next.jobs.status()[0].state, "running");
    for rank in 0..4 {
        attach(&mut next, rank, generation).unwrap();
    }
    next.now += Duration::from_secs(60);
    let actions = next.jobs.tick(next.now);
    assert_eq!(actions, [], "nobody is taken for dead");
    assert_eq!(next.jobs.status()[0].generation, generation);
    // The next group gets other slots and a higher generation.
    let other = northbound::JoinRequest { job: "other".to_owned(), world_size: 1, ..request(0, 1) };
    next.join(&other).unwrap();
    let used: u32 = [1, 2, 3].map(|device| next.jobs.slots(device).0).iter().sum();
    assert!(used > [1, 2, 3].map(|device| run.jobs.slots(device).0).iter().sum());
    assert!(next.jobs.jobs.values().all(|job| job.name.job == "train" || job.generation > generation));
}

#[test]
fn a_rank_that_does_not_come_back_is_dead_and_the_group_ends_with_its_name() {
    let (run, _, generation) = running();
    let (mut next, _) = next_controller(&run);
    let members: Vec<_> = (0..3).map(|rank| attach(&mut next, rank, generation).unwrap()).collect();
    for _ in 0..40 {
        next.now += Duration::from_millis(500);
        let actions = next.jobs.tick(next.now);
        next.perform(actions);
    }
    // The ranks are asked what they have finished, and told who is missing.
    for member in members {
        let told = next.told[&member].iter().any(|event| match event {
            JoinEvent::Stop(stop) => stop.reason.contains("rank 3"),
            JoinEvent::Closed(closed) => closed.missing_ranks.contains(&3),
            _ => false,
        });
        assert!(told, "{:?}", next.told[&member]);
    }
}

#[test]
fn a_group_between_two_generations_goes_on_with_an_attempt_of_its_own() {
    let (mut run, _, generation) = running();
    let actions = run.jobs.topology(run.now, graph(&[1], &[1, 2, 3, 4]));
    run.perform(actions);
    assert!(run.jobs.status()[0].state.contains("chang"), "{}", run.jobs.status()[0].state);
    let (mut next, sections) = next_controller(&run);
    assert!(sections.is_empty(), "its trees are given up");
    assert_eq!(next.jobs.slots(1).0, 0);
    let member = attach(&mut next, 0, generation).unwrap();
    let Some(JoinEvent::Stop(stop)) = next.told[&member].last() else { panic!("{:?}", next.told[&member]) };
    assert!(stop.attempt > generation);
}

#[test]
fn groups_that_form_or_have_ended_are_not_remembered() {
    let mut run = Run::new(full());
    run.join(&request(0, 4)).unwrap();
    let (next, sections) = next_controller(&run);
    assert!(sections.is_empty() && next.jobs.status().is_empty());
    let (mut next, _) = next_controller(&run);
    assert!(matches!(attach(&mut next, 0, 1), Err(JoinError::NoMember { .. })));
}

#[test]
fn a_group_that_does_not_fit_the_switches_is_forgotten() {
    let (run, _, generation) = running();
    let records = run.jobs.records();
    let other = "switches: [{name: other, target: 'h:9', device_id: 9}]\n";
    let mut jobs = Jobs::new(&Inventory::from_text("test", other).unwrap(), 0);
    let (sections, actions) = jobs.restore(run.now, records, &Graph::default());
    assert!(sections.is_empty() && actions.is_empty() && jobs.status().is_empty());
    let request = northbound::JoinRequest { attach_generation: generation, ..request(0, 4) };
    assert!(matches!(jobs.join(run.now, 1, &request), Err(JoinError::NoMember { .. })));
}
