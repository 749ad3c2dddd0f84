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
    assert!(rtt.base_rto() >= 10 * MS && rtt.base_rto() < 11 * MS, "{:?}", rtt.base_rto());
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
