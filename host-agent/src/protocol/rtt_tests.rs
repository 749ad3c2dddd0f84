use super::*;

const MS: Duration = Duration::from_millis(1);

fn bounds() -> RtoBounds {
    RtoBounds { initial: 50 * MS, min: 2 * MS, min_overtaken: MS, max: 400 * MS }
}

#[test]
fn timeout_follows_the_measured_round_trip() {
    let mut rtt = RttEstimator::new(bounds());
    assert_eq!(rtt.base_rto(), 50 * MS);
    for _ in 0..100 {
        rtt.measure(10 * MS);
    }
    assert_eq!(rtt.smoothed().map(|rtt| rtt.as_millis()), Some(10));
    assert!(rtt.base_rto() >= 15 * MS && rtt.base_rto() < 16 * MS, "{:?}", rtt.base_rto());
    for _ in 0..100 {
        rtt.measure(MS / 100);
    }
    assert_eq!(rtt.base_rto(), 2 * MS, "the lower bound holds");
    assert_eq!(rtt.overtaken_rto(), MS, "so does that of overtaken chunks");
}

#[test]
fn back_off_doubles_up_to_the_bound() {
    let mut rtt = RttEstimator::new(bounds());
    rtt.measure(10 * MS);
    let base = rtt.base_rto();
    assert_eq!(rtt.rto(1), base);
    assert_eq!(rtt.rto(2), base * 2);
    assert_eq!(rtt.rto(3), base * 4);
    assert_eq!(rtt.rto(30), 400 * MS);
    assert_eq!(rtt.rto(u32::MAX), 400 * MS);
}

#[test]
fn back_off_outlives_a_chunk_until_a_clean_measurement() {
    let mut rtt = RttEstimator::new(bounds());
    rtt.measure(4 * MS);
    let base = rtt.base_rto();
    rtt.note_ambiguous(3);
    assert_eq!(rtt.rto(1), base * 4);
    rtt.measure(4 * MS);
    assert_eq!(rtt.rto(1), rtt.base_rto());
}

/// Where most chunks lose a packet somewhere, most round trips last as long as some rank's timeout. If the timeout followed them, they
/// would follow it.
#[test]
fn repeats_of_other_ranks_do_not_feed_the_timeout() {
    let mut rtt = RttEstimator::new(bounds());
    for round in 0..300 {
        // Of ten round trips nine last until somebody's timeout.
        let sample = if round % 10 == 1 { MS / 5 } else { rtt.rto(1) * 9 / 8 };
        rtt.measure(sample);
        if round > 120 {
            assert_eq!(rtt.base_rto(), 2 * MS, "round {round}");
        }
    }
}

/// One freak among long round trips does not make them look like repeats.
#[test]
fn one_short_sample_changes_little() {
    let mut rtt = RttEstimator::new(bounds());
    (0..100).for_each(|_| rtt.measure(40 * MS));
    rtt.measure(MS);
    (0..10).for_each(|_| rtt.measure(40 * MS));
    assert!(rtt.base_rto() > 40 * MS, "{:?}", rtt.base_rto());
}

#[test]
fn a_path_that_becomes_slow_is_believed() {
    let mut rtt = RttEstimator::new(bounds());
    (0..100).for_each(|_| rtt.measure(MS));
    rtt.note_ambiguous(6);
    for _ in 0..100 {
        assert!(rtt.rto(1) > 30 * MS, "the back-off holds until then: {:?}", rtt.rto(1));
        rtt.measure(30 * MS);
    }
    assert!(rtt.base_rto() > 29 * MS, "{:?}", rtt.base_rto());
}

/// A result that took less than the backed-off timeout shows that so much is not needed.
#[test]
fn an_ambiguous_sample_shortens_the_back_off() {
    let mut rtt = RttEstimator::new(bounds());
    (0..100).for_each(|_| rtt.measure(MS / 10));
    rtt.note_ambiguous(8);
    assert_eq!(rtt.rto(1), 256 * MS);
    rtt.measure(7 * MS);
    assert_eq!(rtt.rto(1), 8 * MS);
}

#[test]
fn a_first_sample_that_waited_for_a_repeat_is_soon_forgotten() {
    let mut rtt = RttEstimator::new(bounds());
    rtt.measure(60 * MS);
    (0..12).for_each(|_| rtt.measure(MS / 10));
    assert_eq!(rtt.base_rto(), 2 * MS);
}

#[test]
fn jitter_is_bounded_and_repeatable() {
    let mut seen = std::collections::BTreeSet::new();
    for slot in 0..64 {
        let with = jitter(80 * MS, 7, slot, 3, 1);
        assert!(with >= 80 * MS && with <= 90 * MS, "{with:?}");
        assert_eq!(with, jitter(80 * MS, 7, slot, 3, 1));
        seen.insert(with);
    }
    assert!(seen.len() > 32, "only {} different values", seen.len());
}
