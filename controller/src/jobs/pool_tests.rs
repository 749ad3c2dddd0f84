use proptest::prelude::*;

use super::*;

fn need(slots: u32, words: u8, children: usize, is_root: bool) -> Need {
    Need { slots, words, children, is_root }
}

#[test]
fn a_full_switch_says_what_is_missing() {
    let mut pool = Pool::new();
    let error = pool.take(need(SLOTS + 1, 1, 1, true)).unwrap_err();
    assert_eq!(error.to_string(), "4097 slots are needed in a row, 4096 are free");
    assert_eq!(pool, Pool::new(), "nothing was taken");
    let error = pool.take(need(1024, 32, 1, true)).unwrap_err();
    assert_eq!(error.to_string(), "32768 words are needed in a row, 32737 are free");
    assert_eq!(pool, Pool::new());
}

#[test]
fn the_last_slot_begins_where_the_program_takes_it() {
    let mut pool = Pool::new();
    let share = pool.take(need(1, 32, 1, true)).unwrap();
    assert_eq!(share.first_word, 0);
    // The rest, word by word: no first word beyond SLOT_WORDS - MAX_WORDS.
    let last = (0..).map_while(|_| pool.take(need(1, 31, 1, true)).ok()).last().unwrap();
    assert!(last.first_word <= SLOT_WORDS - MAX_WORDS as u32);
}

proptest! {
    /// Shares in use never overlap, and everything comes back.
    #[test]
    fn shares_never_overlap(steps in prop::collection::vec((1u32..600, 1u8..=32, 1usize..=64, any::<bool>(), any::<prop::sample::Index>()), 1..60)) {
        let mut pool = Pool::new();
        let mut used: Vec<(Need, Share)> = Vec::new();
        for (slots, words, children, is_root, index) in steps {
            let need = need(slots, words, children, is_root);
            match pool.take(need) {
                Ok(share) => {
                    for (other, its) in &used {
                        let apart = |a: u32, len: u32, b: u32, its: u32| a + len <= b || b + its <= a;
                        prop_assert!(apart(share.first_slot, need.slots, its.first_slot, other.slots));
                        prop_assert!(apart(share.first_word, need.words(), its.first_word, other.words()));
                        prop_assert!(apart(
                            share.first_replica.into(), need.replicas(), its.first_replica.into(), other.replicas()
                        ));
                        prop_assert!(share.down_group != its.down_group && share.down_group != its.up_group);
                        prop_assert!(is_root || share.up_group != its.up_group && share.up_group != its.down_group);
                    }
                    prop_assert!(share.first_replica > 0 && share.down_group > 0);
                    prop_assert_eq!(share.up_group == 0, is_root);
                    used.push((need, share));
                }
                Err(_) => {
                    if !used.is_empty() {
                        let (need, share) = used.swap_remove(index.index(used.len()));
                        pool.give_back(need, share);
                    }
                }
            }
            prop_assert_eq!(pool.slots_used(), used.iter().map(|(need, _)| need.slots).sum::<u32>());
        }
        for (need, share) in used {
            pool.give_back(need, share);
        }
        prop_assert_eq!(pool, Pool::new());
    }
}
