use super::*;

#[test]
fn outcomes_survive_the_way_through_a_status() {
    let outcomes = vec![
        Ok(()),
        Err(UpdateError::new(Code::AlreadyExists, "table t: an entry with this key exists already")),
        Err(UpdateError::new(Code::NotFound, "no table 7")),
        Ok(()),
    ];
    let status = write_status(&outcomes);
    assert_eq!((status.code(), status.message()), (Code::Unknown, "2 of 4 updates failed"));
    assert_eq!(write_outcomes(&status), Some(outcomes));
}

#[test]
fn a_status_without_details_has_no_outcomes() {
    assert_eq!(write_outcomes(&Status::permission_denied("not primary")), None);
    let junk = Status::with_details(Code::Unknown, "junk", vec![0xFF; 9].into());
    assert_eq!(write_outcomes(&junk), None);
}
