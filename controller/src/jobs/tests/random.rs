//! Whatever happens in whatever order: the same rules hold.

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Join { job: u8, rank: u32, world: u32 },
    Leave(prop::sample::Index),
    Disconnect(prop::sample::Index),
    Installed { which: prop::sample::Index, ok: bool },
    Removed(prop::sample::Index),
    Attach(prop::sample::Index),
    Report { which: prop::sample::Index, ahead: u64 },
    HandOver,
    Topology { links: Vec<DeviceId>, hosts: Vec<u8> },
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..3, 0u32..4, 2u32..=4).prop_map(|(job, rank, world)| Step::Join { job, rank, world }),
        1 => any::<prop::sample::Index>().prop_map(Step::Attach),
        4 => (any::<prop::sample::Index>(), 0u64..4).prop_map(|(which, ahead)| Step::Report { which, ahead }),
        2 => Just(Step::HandOver),
        1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        1 => any::<prop::sample::Index>().prop_map(Step::Disconnect),
        3 => (any::<prop::sample::Index>(), prop::bool::weighted(0.9)).prop_map(|(which, ok)| Step::Installed { which, ok }),
        2 => any::<prop::sample::Index>().prop_map(Step::Removed),
        1 => (prop::sample::subsequence(vec![1, 2], 0..=2), prop::sample::subsequence(vec![1, 2, 3, 4], 2..=4))
            .prop_map(|(links, hosts)| Step::Topology { links, hosts }),
        1 => (0u64..3000).prop_map(Step::Pass),
    ]
}

/// What the outside world knows.
struct World {
    run: Run,
    /// Members that were admitted and have not been ended, with what they asked for.
    members: Vec<(MemberId, northbound::JoinRequest)>,
    /// Keys of the entries of every job that is, or may be, in the switches.
    installed: BTreeMap<JobId, BTreeSet<String>>,
    /// Members whose stream ended, with the generation they were in.
    streamless: Vec<(u32, northbound::JoinRequest)>,
    /// Streams of ranks that were members before.
    told_before: HashSet<MemberId>,
    seen_installing: usize,
    /// Every generation that was installed, and each job's last.
    generations: HashSet<u32>,
    last_generation: BTreeMap<JobId, u32>,
}

impl World {
    fn take(&mut self, step: Step) {
        match step {
            Step::Join { job, rank, world } => {
                let mut request = request(rank % world, world);
                request.job = format!("job{job}");
                // Jobs differ in what happens when a rank dies.
                request.on_failure = i32::from(job == 1);
                request.host_udp_port += 100 * u32::from(job);
                if let Ok(id) = self.run.join(&request) {
                    request.member_token = self.run.token_of(&request.job, request.rank);
                    self.members.push((id, request));
                }
            }
            Step::Leave(index) if !self.members.is_empty() => {
                let (id, request) = self.members[index.index(self.members.len())].clone();
                let generation =
                    self.run.told.get(&id).into_iter().flatten().rev().find_map(|event| match event {
                        JoinEvent::Assignment(assignment) => Some(assignment.generation),
                        _ => None,
                    });
                let request = northbound::LeaveRequest {
                    job: request.job,
                    rank: request.rank,
                    generation: generation.unwrap_or(0),
                    member_token: request.member_token,
                    ..Default::default()
                };
                if let Ok(actions) = self.run.jobs.leave(self.run.now, &request) {
                    self.run.perform(actions);
                }
            }
            Step::Disconnect(index) if !self.members.is_empty() => {
                let (id, request) = self.members.swap_remove(index.index(self.members.len()));
                self.run.disconnect(id);
                self.streamless.push((self.generation(id), request));
            }
            Step::Attach(index) if !self.streamless.is_empty() => {
                let (generation, request) = self.streamless.swap_remove(index.index(self.streamless.len()));
                let attach = northbound::JoinRequest { attach_generation: generation, ..request.clone() };
                if generation > 0
                    && let Ok(id) = self.run.join(&attach)
                {
                    self.told_before.insert(id);
                    self.members.push((id, request));
                }
            }
            Step::Report { which, ahead } if !self.members.is_empty() => {
                let (id, request) = self.members[which.index(self.members.len())].clone();
                if let Some(JoinEvent::Stop(stop)) = self.run.told.get(&id).and_then(|events| events.last()) {
                    let places = self.run.jobs.jobs.values().map(|job| job.places).max().unwrap_or(0);
                    let mut finished = vec![0; places];
                    // Now and then more than one ahead, which can't be.
                    if let Some(first) = finished.first_mut() {
                        *first = ahead;
                    }
                    let report = northbound::ReportRequest {
                        job: request.job,
                        rank: request.rank,
                        attempt: stop.attempt,
                        finished,
                        member_token: request.member_token,
                        ..Default::default()
                    };
                    if let Ok(actions) = self.run.jobs.report(self.run.now, &report) {
                        self.run.perform(actions);
                    }
                }
            }
            Step::HandOver => self.hand_over(),
            Step::Installed { which, ok } if !self.run.installing.is_empty() => {
                let at = which.index(self.run.installing.len());
                let (job, _) = self.run.installing.remove(at);
                self.seen_installing -= 1;
                let actions = self.run.jobs.installed(
                    self.run.now,
                    job,
                    if ok { Ok(()) } else { Err("no".to_owned()) },
                );
                self.run.perform(actions);
            }
            Step::Removed(index) if !self.run.removing.is_empty() => {
                let at = index.index(self.run.removing.len());
                let (job, _) = self.run.removing.remove(at);
                assert!(
                    self.installed.remove(&job).is_some(),
                    "job {job} is removed, but was never installed"
                );
                let actions = self.run.jobs.removed(self.run.now, job);
                self.run.perform(actions);
            }
            Step::Topology { links, hosts } => self.run.topology(graph(&links, &hosts)),
            Step::Pass(milliseconds) => self.run.pass(Duration::from_millis(milliseconds)),
            _ => {}
        }
        self.check();
    }

    fn generation(&self, id: MemberId) -> u32 {
        let events = self.run.told.get(&id).into_iter().flatten().rev();
        let generation = |event: &JoinEvent| match event {
            JoinEvent::Assignment(assignment) => Some(assignment.generation),
            _ => None,
        };
        events.filter_map(generation).next().unwrap_or(0)
    }

    /// Whoever was asked for chunks gives them.
    fn hand_over(&mut self) {
        for (id, request) in self.members.clone() {
            if let Some(JoinEvent::Fetch(fetch)) = self.run.told.get(&id).and_then(|events| events.last()) {
                let chunk = |slot: &northbound::SlotIndex| northbound::KeptChunk {
                    slot: Some(*slot),
                    ..Default::default()
                };
                let request = northbound::HandOverRequest {
                    job: request.job,
                    rank: request.rank,
                    attempt: fetch.attempt,
                    chunks: fetch.slots.iter().map(chunk).collect(),
                    member_token: request.member_token,
                    ..Default::default()
                };
                if let Ok(actions) = self.run.jobs.handed_over(self.run.now, &request) {
                    self.run.perform(actions);
                }
            }
        }
    }

    fn check(&mut self) {
        // New installations: generations that are new, and higher for each job, and no key that any other job has.
        for (job, nodes) in &self.run.installing[self.seen_installing..] {
            let generation = self.run.jobs.jobs[job].generation;
            assert!(self.generations.insert(generation), "generation {generation} again");
            let last = self.last_generation.insert(*job, generation);
            assert!(last < Some(generation), "generation {generation} after {last:?}");
            let keys = keys(nodes);
            assert_eq!(
                keys.len(),
                nodes.iter().map(|(_, entries)| entries.len()).sum::<usize>(),
                "a key twice"
            );
            for (other, taken) in &self.installed {
                assert!(
                    keys.is_disjoint(taken),
                    "jobs {job} and {other} share {:?}",
                    keys.intersection(taken).next()
                );
            }
            self.installed.insert(*job, keys);
        }
        self.seen_installing = self.run.installing.len();
        self.members.retain(|(id, _)| !self.run.ended.contains(id));
        for (id, events) in &self.run.told {
            let generations = events.iter().filter_map(|event| match event {
                JoinEvent::Assignment(assignment) => {
                    Some((assignment.generation, assignment.resume.is_some()))
                }
                _ => None,
            });
            let generations: Vec<_> = generations.collect();
            assert!(generations.is_sorted_by(|a, b| a.0 < b.0), "{events:?}");
            let first = usize::from(!self.told_before.contains(id));
            assert!(generations.iter().skip(first).all(|(_, resumes)| *resumes), "{events:?}");
            let waits = events.iter().skip_while(|event| matches!(event, JoinEvent::Waiting(_)));
            assert!(waits.clone().all(|event| !matches!(event, JoinEvent::Waiting(_))), "{events:?}");
        }
    }
}

proptest! {
    #[test]
    fn rules_hold_in_any_order(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World {
            run: Run::new(full()),
            members: Vec::new(),
            installed: BTreeMap::new(),
            streamless: Vec::new(),
            told_before: HashSet::new(),
            seen_installing: 0,
            generations: HashSet::new(),
            last_generation: BTreeMap::new(),
        };
        for step in steps {
            world.take(step);
        }
        // Everybody goes: everything comes back.
        for (id, _) in std::mem::take(&mut world.members) {
            world.run.disconnect(id);
        }
        // The dead are buried, what is going on ends, groups that can't go on give up.
        for _ in 0..8 {
            world.run.pass(Duration::from_secs(9));
            world.run.install(Ok(()));
            world.run.remove();
        }
        prop_assert!(world.run.jobs.jobs.is_empty(), "{:?}", world.run.jobs.jobs);
        prop_assert!(world.run.jobs.turns().is_empty());
        prop_assert!(world.run.jobs.by_name.is_empty() && world.run.jobs.by_member.is_empty());
        for device in 1..=3 {
            prop_assert_eq!(world.run.jobs.pools.get(&device), Some(&Pool::new()));
        }
    }
}
