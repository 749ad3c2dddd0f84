//! The queue: turns, limits of time, what frees room, and that nobody is forgotten, in virtual time.

use super::*;

/// Room for two groups in each switch.
fn two_fit(limits: &str) -> Run {
    let text = INVENTORY.replace("slots_per_tree: 64", "slots_per_tree: 2048");
    let mut run = Run::new(full());
    run.jobs = Jobs::new(&Inventory::from_text("test", &format!("{text}{limits}")).unwrap(), 1000);
    run.topology(full());
    run
}

/// A job of one rank at the first host, that waits if it must.
fn job(name: &str) -> northbound::JoinRequest {
    let port = name.bytes().fold(7u32, |port, byte| (port * 31 + u32::from(byte)) % 60_000) + 1;
    northbound::JoinRequest {
        job: name.to_owned(),
        host_udp_port: port,
        on_full: northbound::OnFull::Queue.into(),
        ..request(0, 1)
    }
}

impl Run {
    fn enter(&mut self, name: &str) -> MemberId {
        let id = self.join(&job(name)).unwrap();
        self.install(Ok(()));
        id
    }

    fn depart(&mut self, name: &str) {
        let open = self.jobs.jobs.values().find(|open| open.name.job == name && open.assigned.is_some());
        let request = northbound::LeaveRequest {
            job: name.to_owned(),
            generation: open.unwrap().generation,
            member_token: self.token_of(name, 0),
            ..Default::default()
        };
        let actions = self.jobs.leave(self.now, &request).unwrap();
        self.perform(actions);
        self.remove();
        self.install(Ok(()));
    }

    fn runs(&self, name: &str) -> bool {
        self.jobs.jobs.values().any(|open| open.name.job == name && open.phase == Phase::Running)
    }

    fn line(&self) -> Vec<String> {
        self.jobs.turns().iter().map(|id| self.jobs.jobs[id].name.job.clone()).collect()
    }
}

#[test]
fn a_full_switch_lets_groups_wait_and_tells_them_their_place() {
    let mut run = two_fit("");
    run.enter("one");
    run.enter("two");
    let (third, fourth) = (run.enter("three"), run.enter("four"));
    let reason = "leaf1 has no room for the group: 2048 slots are needed in a row, 0 are free";
    assert_eq!((run.waiting(third).queue_position, run.waiting(third).queue_reason.as_str()), (1, reason));
    assert_eq!(run.waiting(fourth).queue_position, 2);
    let behind = "1 groups wait in the queue for the same switches or tenant, and come first";
    assert_eq!(run.waiting(fourth).queue_reason, behind);
    let status = run.jobs.status();
    assert_eq!((status[2].queue_position, status[0].queue_position), (1, 0));
    assert_eq!(status[2].state, format!("queued, place 1 of 2: {reason}"));
    let note = run.jobs.take_notes().into_iter().find(|note| note.what == Happening::GroupQueued).unwrap();
    assert_eq!(
        (note.name.job.as_str(), note.detail),
        ("three", format!("place 1 of 2: {reason}").replace("of 2", "of 1"))
    );
    // They hear of it again and again.
    let heard = run.told[&fourth].len();
    run.pass(Duration::from_secs(3));
    assert_eq!(run.told[&fourth].len(), heard + 3);
    // A leave, a crash and the end of a job let the next one in.
    run.depart("one");
    assert!(run.runs("three") && !run.runs("four"));
    run.pass(WAITING_INTERVAL);
    assert_eq!(run.waiting(fourth).queue_position, 1);
    run.disconnect(third);
    run.pass(GRACE);
    run.remove();
    run.install(Ok(()));
    assert!(run.runs("four"), "{:?}", run.jobs.status());
    let fifth = run.enter("five");
    let (_, actions) = run.jobs.end_job(run.now, "two", None, "maintenance").unwrap();
    run.perform(actions);
    run.report();
    run.remove();
    run.install(Ok(()));
    assert!(run.runs("five"));
    assert!(run.assignment(fifth).generation > 1000);
}

#[test]
fn who_does_not_want_to_wait_is_refused_with_the_numbers_and_overtakes_nobody() {
    let mut run = two_fit("");
    run.enter("one");
    let large = northbound::JoinRequest { world_size: 2, ..job("both") };
    run.join(&large).unwrap();
    let second = northbound::JoinRequest { rank: 1, host_address: "10.0.0.3".to_owned(), ..large.clone() };
    run.enter("two");
    let last = run.join(&second).unwrap();
    assert_eq!(run.waiting(last).queue_position, 1);
    // There is room at leaf 2, which the one that waits needs too: nobody takes it.
    let at_leaf2 = |name: &str, on_full: i32| {
        let host_address = "10.0.0.4".to_owned();
        northbound::JoinRequest { host_address, on_full, ..job(name) }
    };
    let hasty = run.join(&at_leaf2("hasty", 0)).unwrap();
    assert_eq!(
        run.closed(hasty).reason,
        "1 groups wait in the queue for the same switches or tenant, and come first"
    );
    let patient = run.join(&at_leaf2("patient", 1)).unwrap();
    assert_eq!(run.waiting(patient).queue_position, 2);
    // The first one's ranks lose patience: the way is free for those behind.
    run.disconnect(last);
    run.install(Ok(()));
    assert!(run.runs("patient"));
    let mut run = two_fit("");
    run.enter("one");
    run.enter("two");
    let refused = run.join(&northbound::JoinRequest { on_full: 0, ..job("three") }).unwrap();
    let reason = "leaf1 has no room for the group: 2048 slots are needed in a row, 0 are free";
    assert_eq!(run.closed(refused).reason, reason);
}

#[test]
fn waiting_has_an_end_if_it_is_to_have_one() {
    let mut run = two_fit("");
    run.enter("one");
    run.enter("two");
    let hurried = run.join(&northbound::JoinRequest { queue_seconds: 5, ..job("hurried") }).unwrap();
    let ring = northbound::JoinRequest { queue_seconds: 5, fallback: 1, ring_port: 7000, ..job("ring") };
    let ring = run.join(&ring).unwrap();
    run.pass(Duration::from_millis(4999));
    assert_eq!(run.line(), ["hurried", "ring"]);
    run.pass(Duration::from_millis(1));
    assert_eq!(
        run.closed(hurried).reason,
        "no room after 5s in the queue, at place 1 of 2: leaf1 has no room for the group: 2048 slots are needed in a row, 0 are free"
    );
    let reason = &run.assignment(ring).ring.as_ref().unwrap().reason;
    assert!(reason.starts_with("no room after 5s in the queue"), "{reason}");
    assert!(run.line().is_empty());
    let wrong = run.join(&northbound::JoinRequest { queue_seconds: 5, on_full: 0, ..job("x") });
    assert!(wrong.unwrap_err().to_string().contains("queue_seconds is 5: must be 0 without on_full queue"));
    // What can never fit does not wait.
    let mut run = two_fit("limits: {slots_per_tenant: 2000}\n");
    let never = run.join(&job("a/never")).unwrap();
    let expected = "leaf1: 2048 slots are needed, the tenant \"a\" uses 0 there and may use 2000";
    assert_eq!(run.closed(never).reason, expected);
}

#[test]
fn a_tenant_at_its_own_limit_waits_for_itself_and_holds_up_nobody() {
    let mut run = two_fit("limits: {slots_per_tenant: 2048, groups_per_tenant: 1}\n");
    run.enter("a/one");
    let waits = run.enter("a/two");
    assert_eq!(run.waiting(waits).queue_reason, "the tenant \"a\" has 1 groups, and may have 1 at once");
    let hasty = run.join(&northbound::JoinRequest { on_full: 0, ..job("a/three") }).unwrap_err();
    assert!(matches!(hasty, JoinError::Groups { open: 2, limit: 1, .. }), "{hasty}");
    run.enter("b/one");
    assert!(run.runs("b/one"), "{:?}", run.jobs.status());
    run.depart("a/one");
    assert!(run.runs("a/two"));
}

#[test]
fn tenants_take_turns_however_many_groups_they_have_waiting() {
    let mut run = two_fit("");
    run.enter("a/0");
    run.enter("a/1");
    for number in 2..8 {
        run.enter(&format!("a/{number}"));
    }
    run.enter("b/0");
    run.enter("b/1");
    run.enter("c/0");
    let mut admitted = Vec::new();
    let mut running = vec!["a/0".to_owned(), "a/1".to_owned()];
    while !run.line().is_empty() {
        let line = run.line();
        run.depart(&running.remove(0));
        let next = line.into_iter().find(|name| run.runs(name)).expect("a free place is taken");
        admitted.push(next.clone());
        running.push(next);
    }
    // b and c come to their first turn before a has had two more; each keeps its own order.
    assert_eq!(admitted.len(), 9);
    let place = |name: &str| admitted.iter().position(|other| other == name).unwrap();
    assert!(place("b/0") <= 2 && place("c/0") <= 2, "{admitted:?}");
    assert!(place("b/1") <= 5, "{admitted:?}");
    assert!((2..7).all(|number| place(&format!("a/{number}")) < place(&format!("a/{}", number + 1))));
}

#[test]
fn a_group_that_moves_to_another_tree_comes_before_those_that_wait() {
    let mut run = two_fit("");
    let members: Vec<_> = (0..2)
        .map(|rank| {
            let host_address = format!("10.0.0.{}", 1 + 2 * rank);
            run.join(&northbound::JoinRequest { rank, world_size: 2, host_address, ..job("tree") }).unwrap()
        })
        .collect();
    run.install(Ok(()));
    run.enter("one");
    let waits = run.enter("waits");
    run.topology(graph(&[1], &[1, 2, 3, 4]));
    run.report();
    run.remove();
    assert_eq!(run.waiting(waits).queue_position, 1, "the place of the one that moves is its own");
    run.topology(full());
    run.install(Ok(()));
    assert!(run.runs("tree") && run.assignment(members[0]).resume.is_some());
    assert_eq!(run.waiting(waits).queue_position, 1);
}

#[derive(Debug, Clone)]
enum Step {
    Enter { tenant: u8, hosts: u8, waits: bool },
    Go(prop::sample::Index),
    Vanish(prop::sample::Index),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..3, 1u8..4, prop::bool::weighted(0.8))
            .prop_map(|(tenant, hosts, waits)| Step::Enter { tenant, hosts, waits }),
        3 => any::<prop::sample::Index>().prop_map(Step::Go),
        2 => any::<prop::sample::Index>().prop_map(Step::Vanish),
        1 => (0u64..3000).prop_map(Step::Pass),
    ]
}

/// Groups that come and go, and the order in which each tenant's queued.
struct World {
    run: Run,
    next: u32,
    /// Every rank that joined, with its job's name.
    ranks: Vec<(MemberId, u32, String)>,
    lines: BTreeMap<String, Vec<String>>,
}

impl World {
    fn new() -> Self {
        Self { run: two_fit(""), next: 0, ranks: Vec::new(), lines: BTreeMap::new() }
    }

    /// A group at host 1, at host 3, or at both.
    fn enter(&mut self, tenant: u8, hosts: u8, waits: bool) -> String {
        self.next += 1;
        let name = format!("{}/{}", char::from(b'a' + tenant), self.next);
        let addresses: Vec<u8> = [1, 3].into_iter().filter(|host| hosts & (1 << (host / 2)) != 0).collect();
        for (rank, host) in (0..).zip(&addresses) {
            let joining = northbound::JoinRequest {
                rank,
                world_size: addresses.len() as u32,
                host_address: format!("10.0.0.{host}"),
                on_full: waits.into(),
                host_udp_port: 1 + self.next * 2 + rank,
                ..job(&name)
            };
            let id = self.run.join(&joining).unwrap();
            self.ranks.push((id, rank, name.clone()));
        }
        name
    }

    /// All that is going on in the switches ends; then the rules are looked at.
    fn settle(&mut self) {
        let waits: BTreeSet<String> = self.run.line().into_iter().collect();
        for (id, queued) in self.run.jobs.jobs.iter().filter(|(_, open)| open.queued.is_some()) {
            let line = self.lines.entry(queued.name.tenant().to_owned()).or_default();
            if !line.contains(&queued.name.job) {
                line.push(queued.name.job.clone());
            }
            assert!(self.run.jobs.place_of(*id).is_some());
        }
        for _ in 0..4 {
            self.run.report();
            self.run.remove();
            self.run.install(Ok(()));
        }
        for line in self.lines.values_mut() {
            // Who was let in was the first of its tenant's: those before it have gone.
            let here = self.run.line();
            let let_in: Vec<bool> = line.iter().map(|name| !here.contains(name)).collect();
            assert!(let_in.is_sorted_by(|a, b| a >= b), "{line:?}: {let_in:?} of {waits:?}");
            line.retain(|name| here.contains(name));
        }
        for device in 1..=3 {
            let needs = self.run.jobs.jobs.values().filter_map(|open| open.plan.as_ref());
            let needed: u32 =
                needs.flat_map(Plan::needs).filter(|(at, _)| *at == device).map(|(_, need)| need.slots).sum();
            assert_eq!(self.run.jobs.slots(device).0, needed, "switch {device}");
        }
    }

    /// One of the groups that run ends.
    fn go(&mut self, which: usize) -> bool {
        let running: Vec<(String, u32)> = self
            .run
            .jobs
            .jobs
            .values()
            .filter(|open| open.phase == Phase::Running)
            .map(|open| (open.name.job.clone(), open.generation))
            .collect();
        let Some((name, generation)) = running.get(which % running.len().max(1)) else { return false };
        for (_, rank, _) in self.ranks.iter().filter(|(_, _, other)| other == name) {
            let request = northbound::LeaveRequest {
                job: name.clone(),
                rank: *rank,
                generation: *generation,
                member_token: self.run.token_of(name, *rank),
                ..Default::default()
            };
            let actions = self.run.jobs.leave(self.run.now, &request).unwrap();
            self.run.perform(actions);
        }
        self.ranks.retain(|(_, _, other)| other != name);
        self.settle();
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn slots_are_given_once_and_come_back_and_every_group_comes_to_its_turn(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Enter { tenant, hosts, waits } => drop(world.enter(tenant, hosts, waits)),
                Step::Go(which) => drop(world.go(which.index(1 << 16))),
                Step::Vanish(which) if !world.ranks.is_empty() => {
                    let (id, _, name) = world.ranks[which.index(world.ranks.len())].clone();
                    // It may have gone out of the line by itself.
                    world.lines.values_mut().for_each(|line| line.retain(|other| *other != name));
                    if !world.run.ended.contains(&id) {
                        world.run.disconnect(id);
                    }
                    world.ranks.retain(|(other, ..)| *other != id);
                    world.run.pass(GRACE);
                }
                Step::Pass(time) => world.run.pass(Duration::from_millis(time)),
                Step::Vanish(_) => {}
            }
            world.settle();
        }
        // Nobody else comes: with each group that goes the line gets shorter, to its end.
        while !world.run.line().is_empty() {
            let before = world.run.line().len();
            prop_assert!(world.go(0), "nothing runs, {:?} wait", world.run.line());
            prop_assert!(world.go(0) || world.run.line().is_empty() || world.run.line().len() < before);
        }
    }

    /// Two tenants bring a new group for each one that goes; the third has one that needs all switches.
    #[test]
    fn a_tenant_is_not_starved_by_others_that_always_have_more(sides in prop::collection::vec((0u8..2, 1u8..3), 40)) {
        let mut world = World::new();
        for tenant in [0, 1, 0, 1, 0, 1] {
            world.enter(tenant, 1 + tenant, true);
            world.settle();
        }
        let large = world.enter(2, 3, true);
        world.settle();
        prop_assert!(world.run.line().contains(&large));
        let mut rounds = 0;
        for (tenant, hosts) in sides {
            world.enter(tenant, hosts, true);
            world.settle();
            if !world.run.line().contains(&large) {
                break;
            }
            prop_assert!(world.go(rounds));
            rounds += 1;
        }
        prop_assert!(!world.run.line().contains(&large), "still waiting after {rounds} have gone");
        prop_assert!(rounds <= 20, "{rounds}");
    }
}
