use super::*;

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);
const C: ConnectionId = ConnectionId(3);

fn update(id: u128) -> MasterArbitrationUpdate {
    MasterArbitrationUpdate { device_id: 7, election_id: Some(id.into()), ..Default::default() }
}

/// (to, code, highest id) of notices.
fn told(notices: Vec<Notice>) -> Vec<(ConnectionId, Code, u128)> {
    notices
        .into_iter()
        .map(|notice| {
            let code = Code::from_i32(notice.update.status.expect("status").code);
            (notice.to, code, notice.update.election_id.unwrap_or_default().into())
        })
        .collect()
}

fn elections() -> Elections {
    Elections::new(7)
}

#[test]
fn the_highest_id_is_primary_and_everyone_hears_of_it() {
    let mut all = elections();
    assert_eq!(told(all.arbitrate(A, update(10)).unwrap()), [(A, Code::Ok, 10)]);
    assert_eq!(told(all.arbitrate(B, update(5)).unwrap()), [(B, Code::AlreadyExists, 10)]);
    let promoted = told(all.arbitrate(C, update(1 << 100)).unwrap());
    assert_eq!(
        promoted,
        [(A, Code::AlreadyExists, 1 << 100), (B, Code::AlreadyExists, 1 << 100), (C, Code::Ok, 1 << 100)]
    );
    assert!(all.is_primary(C) && !all.is_primary(A));
    assert!(all.authorise("", 1 << 100).is_ok());
    assert_eq!(all.authorise("", 10).unwrap_err().code(), Code::PermissionDenied);
}

#[test]
fn a_leaving_primary_leaves_none_until_its_id_is_reached() {
    let mut all = elections();
    all.arbitrate(A, update(10)).unwrap();
    all.arbitrate(B, update(5)).unwrap();
    assert_eq!(told(all.leave(A)), [(B, Code::NotFound, 10)]);
    assert_eq!(all.authorise("", 10).unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(told(all.arbitrate(B, update(9)).unwrap()), [(B, Code::NotFound, 10)]);
    assert_eq!(told(all.arbitrate(B, update(10)).unwrap()), [(B, Code::Ok, 10)]);
    assert_eq!(told(all.leave(A)), [], "a connection leaves once");
}

#[test]
fn a_primary_may_step_down() {
    let mut all = elections();
    all.arbitrate(A, update(10)).unwrap();
    all.arbitrate(B, update(5)).unwrap();
    assert_eq!(
        told(all.arbitrate(A, update(3)).unwrap()),
        [(A, Code::NotFound, 10), (B, Code::NotFound, 10)]
    );
    assert_eq!(all.primaries().count(), 0);
}

#[test]
fn watchers_have_no_id_and_never_become_primary() {
    let mut all = elections();
    let watcher = MasterArbitrationUpdate { device_id: 7, ..Default::default() };
    assert_eq!(told(all.arbitrate(A, watcher.clone()).unwrap()), [(A, Code::NotFound, 0)]);
    assert_eq!(told(all.arbitrate(B, update(0)).unwrap()), [(B, Code::NotFound, 0)]);
    assert_eq!(told(all.arbitrate(C, update(1)).unwrap()).len(), 3);
    assert!(all.is_primary(C));
}

#[test]
fn an_id_belongs_to_one_controller_of_a_role() {
    let mut all = elections();
    all.arbitrate(A, update(10)).unwrap();
    assert_eq!(all.arbitrate(B, update(10)).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(told(all.arbitrate(A, update(10)).unwrap()), [(A, Code::Ok, 10)], "its own id again is fine");
    let role = Some(Role { name: "monitor".into(), ..Default::default() });
    let other_role = MasterArbitrationUpdate { role, ..update(10) };
    assert_eq!(told(all.arbitrate(C, other_role).unwrap()), [(C, Code::Ok, 10)]);
    assert!(all.authorise("monitor", 10).is_ok());
    assert_eq!(all.authorise("nobody", 10).unwrap_err().code(), Code::NotFound);
    assert_eq!(all.primaries().count(), 2);
}

#[test]
fn device_and_role_of_a_stream_are_fixed() {
    let mut all = elections();
    let wrong = MasterArbitrationUpdate { device_id: 8, ..update(1) };
    assert_eq!(all.arbitrate(A, wrong.clone()).unwrap_err().code(), Code::NotFound);
    all.arbitrate(A, update(1)).unwrap();
    assert_eq!(all.arbitrate(A, wrong).unwrap_err().code(), Code::FailedPrecondition);
    let role = Some(Role { name: "other".into(), ..Default::default() });
    let other_role = MasterArbitrationUpdate { role, ..update(1) };
    assert_eq!(all.arbitrate(A, other_role).unwrap_err().code(), Code::FailedPrecondition);
}

#[test]
fn role_configurations_and_crowds_are_refused() {
    let mut all = elections();
    let role = Some(Role { config: Some(Default::default()), ..Default::default() });
    let configured = MasterArbitrationUpdate { role, ..update(1) };
    assert_eq!(all.arbitrate(A, configured).unwrap_err().code(), Code::InvalidArgument);
    for i in 0..MAX_CONTROLLERS as u64 {
        all.arbitrate(ConnectionId(100 + i), update(100 + u128::from(i))).unwrap();
    }
    assert_eq!(all.arbitrate(A, update(1)).unwrap_err().code(), Code::ResourceExhausted);
    all.leave(ConnectionId(100));
    assert!(all.arbitrate(A, update(1)).is_ok());
}
