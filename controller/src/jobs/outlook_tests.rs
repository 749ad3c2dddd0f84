use super::*;
use crate::jobs::tests::{Run, full, request};

fn ask(hosts: &[&str]) -> northbound::PlanRequest {
    northbound::PlanRequest {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        elements: 1 << 20,
        ..Default::default()
    }
}

fn outlook(run: &Run, request: &northbound::PlanRequest) -> Result<northbound::PlanResponse, OutlookError> {
    run.jobs.outlook(run.now, request)
}

#[test]
fn every_link_of_a_tree_has_its_bytes_and_nothing_is_taken() {
    let run = Run::new(full());
    let plan = outlook(&run, &ask(&["10.0.0.1", "10.0.0.2", "10.0.0.3"])).unwrap();
    assert_eq!((plan.world_size, plan.chunk_words, plan.installed, plan.refusal.as_str()), (3, 5, false, ""));
    // 640 elements a chunk; the last one has 256, in 2 words.
    assert_eq!(plan.chunks, 1639);
    let once = 1638 * 1362 + 594;
    let load = |from: &str, to: &str| {
        let found = plan.links.iter().find(|load| load.from == from && load.to == to);
        found.map(|load| (load.packets, load.bytes))
    };
    assert_eq!(load("10.0.0.1", "leaf1"), Some((1639, once)));
    assert_eq!(load("leaf2", "10.0.0.3"), Some((1639, once)));
    // Two planes up, one result down.
    let (up, down) = match plan.tree.iter().find(|node| node.parent.is_empty()).unwrap().switch_name.as_str()
    {
        "spine" => (("leaf1", "spine"), ("spine", "leaf1")),
        root => panic!("{root}"),
    };
    assert_eq!(load(up.0, up.1), Some((2 * 1639, 2 * once)));
    assert_eq!(load(down.0, down.1), Some((1639, once)));
    assert_eq!(plan.links.len(), 10);
    assert_eq!(plan.slots.len(), 3);
    assert!(plan.slots.iter().all(|share| (share.needed, share.used) == (64, 0)), "{:?}", plan.slots);
    assert_eq!(run.jobs.slots(1).0, 0);
}

#[test]
fn a_group_that_is_there_shows_what_it_has_or_would_get() {
    let mut run = Run::new(full());
    run.join_all(2);
    let named = northbound::PlanRequest { job: "train".to_owned(), ..Default::default() };
    let plan = outlook(&run, &named).unwrap();
    assert!(plan.installed);
    assert_eq!((plan.chunks, plan.elements, plan.slots[0].used), (1, 640, 64));
    let again = outlook(&run, &northbound::PlanRequest { dry_run: true, chunk_words: 3, ..named }).unwrap();
    assert!(!again.installed);
    assert_eq!((again.chunk_words, again.elements, again.tree.len()), (3, 384, 1));
}

#[test]
fn a_plan_that_does_not_fit_says_why() {
    let mut run = Run::new(full());
    let mut names = 0;
    // 64 slots of 32 words each: 16 such groups fill a switch's words.
    loop {
        let mut joining = request(0, 1);
        joining.job = format!("job{names}");
        joining.chunk_words = 32;
        joining.mtu = 0;
        run.join(&joining).unwrap();
        if run.installing.len() == names {
            break;
        }
        names += 1;
        assert!(names < 100);
    }
    let request = northbound::PlanRequest { chunk_words: 32, ..ask(&["10.0.0.1"]) };
    let plan = outlook(&run, &request).unwrap();
    assert!(plan.refusal.starts_with("leaf1 has no room for the group: 2048 words"), "{}", plan.refusal);
}

#[test]
fn questions_without_an_answer_are_refused() {
    let run = Run::new(full());
    let error = |request: &northbound::PlanRequest| outlook(&run, request).unwrap_err().to_string();
    assert!(error(&ask(&[])).contains("job \"\""), "{}", error(&ask(&[])));
    assert!(error(&ask(&["10.0.0.9"])).contains("no switch has seen host 10.0.0.9"));
    assert!(error(&ask(&["ten"])).contains("host_address"));
    assert!(
        error(&northbound::PlanRequest { elements: u64::MAX, ..ask(&["10.0.0.1"]) }).contains("elements is")
    );
    assert!(error(&northbound::PlanRequest { chunk_words: 33, ..ask(&["10.0.0.1"]) }).contains("1 to 32"));
}

#[test]
fn stripes_share_the_chunks() {
    for (elements, trees) in [(0, 1), (1, 3), (639, 2), (640, 2), (641, 2), (6401, 3), (1 << 20, 4)] {
        let sum = Sum { format: Format::Bfp16, words: 5, elements };
        let parts = (0..trees).map(|tree| sum.of_tree(tree, trees));
        let all = parts.fold((0, 0), |all, part| (all.0 + part.packets, all.1 + part.bytes));
        let whole = sum.of_tree(0, 1);
        assert_eq!(all, (whole.packets, whole.bytes), "{elements} over {trees}");
        assert_eq!(whole.packets, sum.chunks());
    }
}
