//! A clash while a group forms is named on every rank: those that wait, the one that is refused, those that come late.

use super::*;

type Change = fn(&mut northbound::JoinRequest);

/// What ranks may differ in: how the odd one differs, and what everybody is told.
const CLASHES: [(Change, &[&str]); 14] = [
    (|odd| odd.world_size = 5, &["world size 5 given by rank 1", "rank 0 at 10.0.0.1 joined with 4"]),
    (|odd| odd.format = 1, &["format i32 given by rank 1", "joined with bfp16"]),
    (|odd| odd.chunk_words = 4, &["words per chunk 4 given by rank 1", "joined with 5"]),
    (|odd| odd.on_failure = 1, &["on-failure shrink given by rank 1", "joined with abort"]),
    (
        |odd| (odd.fallback, odd.ring_port) = (1, 7000),
        &["fallback ring given by rank 1", "joined with error"],
    ),
    (|odd| odd.on_full = 1, &["on-full queue given by rank 1", "joined with refuse"]),
    (
        |odd| odd.element_type = "i32".to_owned(),
        &["element type i32 given by rank 1", "rank 0 at 10.0.0.1 joined with f32"],
    ),
    (|odd| odd.protocol_version = 2, &["rank 1 at 10.0.0.2", "protocol_version is 2", "speak 1"]),
    (|odd| odd.rank = 4, &["rank 4 at 10.0.0.2", "must be 0 to 3 in a world of 4"]),
    (|odd| odd.rank = u32::MAX, &["rank -1 at 10.0.0.2", "must be 0 to 3 in a world of 4"]),
    (|odd| odd.rank = 0, &["rank 0 at 10.0.0.2", "has joined already, from 10.0.0.1 port 4000"]),
    (|odd| odd.chunk_words = 33, &["rank 1 at 10.0.0.2", "chunk_words is 33", "1 to 32"]),
    (|odd| odd.mtu = 576, &["rank 1 at 10.0.0.2", "the mtu of 10.0.0.2 is 576"]),
    (
        |odd| (odd.host_address, odd.host_udp_port) = ("10.0.0.1".to_owned(), 4000),
        &["rank 1 at 10.0.0.1", "where rank 0 gets its own"],
    ),
];

fn typed(rank: u32) -> northbound::JoinRequest {
    northbound::JoinRequest { element_type: "f32".to_owned(), ..request(rank, 4) }
}

#[test]
fn l4_l6_every_clash_is_named_on_every_rank_whenever_it_comes() {
    for (change, words) in CLASHES {
        // The odd one comes second, third and last of four.
        for before in [vec![0], vec![0, 2], vec![0, 2, 3]] {
            let mut run = Run::new(full());
            let waiting: Vec<_> = before.iter().map(|rank| run.join(&typed(*rank)).unwrap()).collect();
            let mut odd = typed(1);
            change(&mut odd);
            let now = run.now;
            let mut told = vec![run.join(&odd).unwrap_err().to_string()];
            for member in &waiting {
                told.push(run.closed(*member).reason.clone());
                assert!(run.ended.contains(member));
            }
            let late: Vec<u32> = (2..4).filter(|rank| !before.contains(rank)).collect();
            told.extend(late.iter().map(|rank| run.join(&typed(*rank)).unwrap_err().to_string()));
            assert_eq!((told.len(), run.now), (4, now), "everybody, at once");
            // The refused one knows which it is, and where.
            let words = |at: usize| words.iter().filter(move |word| at > 0 || !word.contains(" at 10.0.0."));
            for (at, told) in told.iter().enumerate() {
                words(at).for_each(|word| assert!(told.contains(word), "no {word:?} in {told:?}"));
            }
            // Started again, all the same now: nothing is left of it.
            let members: Vec<_> = (0..4).map(|rank| run.join(&typed(rank)).unwrap()).collect();
            run.install(Ok(()));
            members.iter().for_each(|member| drop(run.assignment(*member).clone()));
        }
    }
}

#[test]
fn the_odd_one_may_be_the_first() {
    let mut run = Run::new(full());
    let first = run.join(&northbound::JoinRequest { world_size: 3, ..typed(0) }).unwrap();
    let told = run.join(&typed(1)).unwrap_err().to_string();
    assert_eq!(told, "job \"train\": world size 4 given by rank 1, but rank 0 at 10.0.0.1 joined with 3");
    assert_eq!(run.closed(first).reason, format!("rank 1 at 10.0.0.2 was refused: {told}"));
    for rank in [2, 3] {
        let late = run.join(&typed(rank)).unwrap_err();
        assert!(matches!(late, JoinError::Spoiled { .. }), "{late}");
        assert!(late.to_string().contains(&told), "{late}");
    }
    // Much later it is another start.
    let mut run = Run::new(full());
    run.join(&typed(0)).unwrap();
    run.join(&request(1, 3)).unwrap_err();
    run.pass(Duration::from_secs(10));
    run.join(&typed(2)).unwrap();
}

#[test]
fn ranks_that_say_no_type_go_with_any_and_the_first_that_says_one_decides() {
    let mut run = Run::new(full());
    run.join(&request(0, 4)).unwrap();
    run.join(&typed(1)).unwrap();
    run.join(&request(2, 4)).unwrap();
    let odd = northbound::JoinRequest { element_type: "f16".to_owned(), ..typed(3) };
    let told = run.join(&odd).unwrap_err().to_string();
    assert!(told.contains("element type f16 given by rank 3"), "{told}");
    let unknown = northbound::JoinRequest { element_type: "f33".to_owned(), ..request(0, 4) };
    let told = run.join(&unknown).unwrap_err().to_string();
    assert!(told.contains("element_type is \"f33\": must be one of f32, i32"), "{told}");
}
