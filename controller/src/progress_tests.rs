use super::*;

fn group(job: &str, group: &str) -> GroupName {
    GroupName { job: job.into(), group: group.into() }
}

fn done(chunks: u64) -> api::Progress {
    api::Progress { chunks, transmissions: 2 * chunks, retransmissions: 1, sent_bytes: u64::MAX }
}

fn job(name: &str, group: &str, state: &str) -> api::Job {
    api::Job { name: name.into(), group: group.into(), state: state.into(), ..Default::default() }
}

#[test]
fn ranks_of_one_group_count_together_and_of_others_apart() {
    let (progress, now) = (Progress::default(), Instant::now());
    progress.told(now, group("a", ""), 0, done(5));
    progress.told(now, group("a", ""), 1, done(9));
    progress.told(now, group("a", ""), 1, done(7));
    progress.told(now, group("a", "tensor"), 0, done(1));
    let mut jobs = [
        job("a", "", "running"),
        job("a", "tensor", "running"),
        job("a", "", "closed: x"),
        job("b", "", "running"),
    ];
    progress.fill(now, &mut jobs);
    let sum = api::Progress { chunks: 7, transmissions: 24, retransmissions: 2, sent_bytes: u64::MAX };
    assert_eq!(jobs.map(|job| job.progress), [Some(sum), Some(done(1)), None, None]);
}

#[test]
fn what_is_old_is_forgotten_and_memory_has_a_bound() {
    let (progress, now) = (Progress::default(), Instant::now());
    for rank in 0..RANKS as u32 + 9 {
        progress.told(now + Duration::from_nanos(rank.into()), group("a", ""), rank, done(1));
    }
    assert_eq!(progress.0.lock().unwrap().len(), RANKS);
    let mut jobs = [job("a", "", "running")];
    progress.fill(now + FRESH - Duration::from_millis(1), &mut jobs);
    assert_eq!(jobs[0].progress.unwrap().retransmissions, RANKS as u64);
    jobs[0].progress = None;
    progress.fill(now + FRESH + Duration::from_secs(1), &mut jobs);
    assert_eq!(jobs[0].progress, None);
    assert!(progress.0.lock().unwrap().is_empty());
}
