//! Whatever happens in whatever order: the same rules hold.

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Join { job: u8, rank: u32, world: u32 },
    Leave(prop::sample::Index),
    Disconnect(prop::sample::Index),
    Installed { which: prop::sample::Index, ok: bool },
    Removed(prop::sample::Index),
    Topology { links: Vec<DeviceId>, hosts: Vec<u8> },
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..3, 0u32..4, 2u32..=4).prop_map(|(job, rank, world)| Step::Join { job, rank, world }),
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
    seen_installing: usize,
    last_generation: u32,
}

impl World {
    fn take(&mut self, step: Step) {
        match step {
            Step::Join { job, rank, world } => {
                let mut request = request(rank % world, world);
                request.job = format!("job{job}");
                request.host_udp_port += 100 * u32::from(job);
                if let Ok(id) = self.run.join(&request) {
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
                    ..Default::default()
                };
                if let Ok(actions) = self.run.jobs.leave(self.run.now, &request) {
                    self.run.perform(actions);
                }
            }
            Step::Disconnect(index) if !self.members.is_empty() => {
                let (id, _) = self.members.swap_remove(index.index(self.members.len()));
                self.run.disconnect(id);
            }
            Step::Installed { which, ok } if !self.run.installing.is_empty() => {
                let at = which.index(self.run.installing.len());
                let (job, _) = self.run.installing.remove(at);
                self.seen_installing -= 1;
                let actions = self.run.jobs.installed(job, if ok { Ok(()) } else { Err("no".to_owned()) });
                self.run.perform(actions);
            }
            Step::Removed(index) if !self.run.removing.is_empty() => {
                let at = index.index(self.run.removing.len());
                let (job, _) = self.run.removing.remove(at);
                assert!(
                    self.installed.remove(&job).is_some(),
                    "job {job} is removed, but was never installed"
                );
                self.run.jobs.removed(job);
            }
            Step::Topology { links, hosts } => self.run.topology(graph(&links, &hosts)),
            Step::Pass(milliseconds) => self.run.pass(Duration::from_millis(milliseconds)),
            _ => {}
        }
        self.check();
    }

    fn check(&mut self) {
        // New installations: higher generations, and no key that any other job has.
        for (job, nodes) in &self.run.installing[self.seen_installing..] {
            let generation = self.run.jobs.jobs[job].generation;
            assert!(
                generation > self.last_generation,
                "generation {generation} after {}",
                self.last_generation
            );
            self.last_generation = generation;
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
        for events in self.run.told.values() {
            let assignments = events.iter().filter(|event| matches!(event, JoinEvent::Assignment(_))).count();
            assert!(assignments <= 1, "{events:?}");
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
            seen_installing: 0,
            last_generation: 1000,
        };
        for step in steps {
            world.take(step);
        }
        // Everybody goes: everything comes back.
        for (id, _) in std::mem::take(&mut world.members) {
            world.run.disconnect(id);
        }
        world.run.install(Ok(()));
        world.run.remove();
        prop_assert!(world.run.jobs.jobs.is_empty(), "{:?}", world.run.jobs.jobs);
        prop_assert!(world.run.jobs.by_name.is_empty() && world.run.jobs.by_member.is_empty());
        for device in 1..=3 {
            prop_assert_eq!(world.run.jobs.pools.get(&device), Some(&Pool::new()));
        }
    }
}
