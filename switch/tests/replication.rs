//! Drops, replication, clones, resubmission, recirculation, truncation, as simple_switch does them.

mod common;

use common::{load, process};
use inca_switch::Switch;
use inca_switch::control::{CloneSession, Replica, ReplicationError};

fn switch() -> Switch {
    load(include_str!("programs/replication.json"))
}

fn replicas(list: &[(u16, u16)]) -> Vec<Replica> {
    list.iter().map(|&(port, instance)| Replica { port, instance }).collect()
}

/// P4, drop against multicast (the same on BMv2 in `tests/suites/diff_bmv2_cases.rs`): what is set last by mark_to_drop wins, since it clears the group too.
#[test]
fn p4_drop_and_multicast() {
    let mut sw = switch();
    sw.multicast_insert(1, replicas(&[(1, 10), (2, 20), (1, 11)])).unwrap();
    // Drop, then multicast: replicated, each copy from the packet as ingress left it.
    let out = process(&mut sw, 7, &[1, 0, 0, 0, 0xEE]);
    let copy = |rid: u8| vec![1, 1, 0, rid, 0xEE];
    assert_eq!(out, vec![(1, copy(10)), (2, copy(20)), (1, copy(11))]);
    // Multicast, then drop: nothing.
    assert!(process(&mut sw, 7, &[2, 0, 0, 0]).is_empty());
    // Neither: unicast to port 0.
    assert_eq!(process(&mut sw, 7, &[3, 0, 0, 0]), vec![(0, vec![3, 0, 0, 0])]);
    // A group that does not exist: no copies.
    assert!(process(&mut sw, 7, &[4, 0, 0, 0]).is_empty());
    assert_eq!(sw.faults().unknown_groups, 1);
    // Drop, then a port: that port.
    assert_eq!(process(&mut sw, 7, &[5, 0, 0, 0]), vec![(4, vec![5, 0, 0, 0])]);
}

#[test]
fn ingress_clone_is_the_received_packet_with_its_field_list() {
    let mut sw = switch();
    let session = CloneSession { replicas: replicas(&[(9, 0), (10, 3)]), packet_length_bytes: 0 };
    sw.clone_session_insert(5, session).unwrap();
    let out = process(&mut sw, 1, &[6, 0, 0, 1, 0xEE]);
    // `kept` came along, `lost` did not, the header is as received but for what egress wrote.
    let clone = vec![6, 0, 0x12, 0x34, 0xEE];
    assert_eq!(out, vec![(9, clone.clone()), (10, clone), (2, vec![6, 0, 0xAA, 0xAA, 0xEE])]);
}

#[test]
fn egress_clone_is_the_packet_as_egress_left_it() {
    let mut sw = switch();
    sw.clone_session_insert(5, CloneSession { replicas: replicas(&[(9, 0)]), packet_length_bytes: 3 })
        .unwrap();
    let out = process(&mut sw, 1, &[7, 1, 2, 3, 0xEE]);
    // The clone is cut to three bytes; `lost` reads 0 in it.
    assert_eq!(out, vec![(9, vec![7, 1, 0x43]), (2, vec![7, 1, 0xCC, 0xCC, 0xEE])]);
}

#[test]
fn a_clone_to_no_session_is_nothing() {
    let mut sw = switch();
    assert_eq!(process(&mut sw, 1, &[6, 0, 0, 1]), vec![(2, vec![6, 0, 0xAA, 0xAA])]);
}

#[test]
fn resubmission_starts_from_the_received_packet() {
    let mut sw = switch();
    assert_eq!(process(&mut sw, 1, &[8, 0, 0, 1, 0xEE]), vec![(3, vec![8, 9, 0, 1, 0xEE])]);
}

#[test]
fn recirculation_starts_from_the_sent_packet() {
    let mut sw = switch();
    assert_eq!(process(&mut sw, 1, &[9, 0, 0, 1]), vec![(3, vec![9, 3, 0, 7])]);
}

#[test]
fn truncation() {
    let mut sw = switch();
    assert_eq!(process(&mut sw, 1, &[10, 0, 0, 1, 2, 3, 4, 5]), vec![(2, vec![10, 0, 0, 1, 2, 3])]);
    assert_eq!(process(&mut sw, 1, &[10, 0, 0, 1]), vec![(2, vec![10, 0, 0, 1])]);
}

#[test]
fn an_endless_resubmission_ends() {
    let mut sw = switch();
    assert!(process(&mut sw, 1, &[11, 0, 0, 1]).is_empty());
    assert_eq!(sw.faults().loops_cut, 1);
    // The next packet is not affected.
    assert_eq!(process(&mut sw, 1, &[3, 0, 0, 0]).len(), 1);
}

/// Every copy sees the header removed by ingress, although an earlier copy added it.
#[test]
fn copies_do_not_see_each_other() {
    let mut sw = switch();
    sw.multicast_insert(2, replicas(&[(1, 0), (2, 0), (3, 0)])).unwrap();
    let out = process(&mut sw, 1, &[12, 5, 6, 7, 0xEE, 0xFF]);
    // Length: six received, four removed. The header that egress adds starts from zero.
    let copy = vec![0, 0, 0, 2, 0xEE, 0xFF];
    assert_eq!(out, vec![(1, copy.clone()), (2, copy.clone()), (3, copy)]);
}

#[test]
fn control_of_groups_and_sessions() {
    let mut sw = switch();
    let bad = |e: Result<(), ReplicationError>| e.unwrap_err();
    assert!(matches!(bad(sw.multicast_insert(0, vec![])), ReplicationError::BadId { .. }));
    assert!(matches!(bad(sw.multicast_insert(65536, vec![])), ReplicationError::BadId { .. }));
    let twice = replicas(&[(1, 1), (1, 1)]);
    assert!(matches!(bad(sw.multicast_insert(1, twice)), ReplicationError::DuplicateReplica { .. }));
    sw.multicast_insert(1, replicas(&[(1, 1)])).unwrap();
    assert!(matches!(bad(sw.multicast_insert(1, vec![])), ReplicationError::AlreadyExists { .. }));
    sw.multicast_modify(1, replicas(&[(2, 2)])).unwrap();
    assert_eq!(sw.multicast_get(1), Some(&replicas(&[(2, 2)])[..]));
    sw.multicast_delete(1).unwrap();
    assert!(matches!(bad(sw.multicast_delete(1)), ReplicationError::NotFound { .. }));
    assert!(matches!(bad(sw.multicast_modify(1, vec![])), ReplicationError::NotFound { .. }));
    assert!(matches!(
        bad(sw.clone_session_insert(32768, Default::default())),
        ReplicationError::BadId { .. }
    ));
    assert!(sw.multicast_ids().is_empty() && sw.clone_session_ids().is_empty());
}
