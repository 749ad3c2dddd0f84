use super::*;

fn push(log: &EventLog, count: usize) {
    for number in 0..count {
        log.push(Draft { kind: "link_up", message: number.to_string(), ..Default::default() });
    }
}

#[test]
fn the_last_events_are_remembered_in_order() {
    let log = EventLog::new(Arc::default());
    assert!(log.since(0).is_empty());
    push(&log, REMEMBERED + 10);
    let all = log.since(0);
    assert_eq!((all.len(), all[0].number), (REMEMBERED, 11));
    assert!(all.is_sorted_by_key(|event| event.number));
    assert_eq!(log.since(all[0].number + 5).len(), REMEMBERED - 6);
    assert!(log.since(u64::MAX).is_empty());
}

#[tokio::test]
async fn who_watches_gets_old_events_and_new_ones_each_once() {
    let log = EventLog::new(Arc::default());
    push(&log, 3);
    let (old, new) = (log.watch(1, false), log.watch(0, true));
    push(&log, 2);
    let numbers =
        |events: Vec<northbound::Event>| events.iter().map(|event| event.number).collect::<Vec<_>>();
    assert_eq!(numbers(old.take(4).collect().await), [2, 3, 4, 5]);
    assert_eq!(numbers(new.take(2).collect().await), [4, 5]);
}

#[tokio::test]
async fn a_slow_reader_is_told_what_it_missed() {
    let log = EventLog::new(Arc::default());
    let watch = log.watch(0, false);
    tokio::pin!(watch);
    push(&log, WAITING + 7);
    let first = watch.next().await.unwrap();
    assert_eq!((first.kind.as_str(), first.number), ("missed", 0));
    assert!(first.message.starts_with("7 events"), "{}", first.message);
    assert_eq!(watch.next().await.unwrap().number, 8);
}
