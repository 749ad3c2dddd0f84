//! Tables, profiles, counters, meters, registers: what packets see and what the control plane is told.

mod common;

use common::{load, process};
use inca_switch::Switch;
use inca_switch::control::{
    ActionCall, CounterValue, EntryAction, EntryKey, ErrorKind, GroupMember, MatchKey, MeterConfig,
    OneShotMember, ProfileError, ProfileGroup, ProfileMember, StateError, TableEntry, TableError,
};
use inca_switch::program::{ActionId, TableId};

fn switch() -> Switch {
    load(include_str!("programs/tables.json"))
}

fn exact(value: u64) -> MatchKey {
    MatchKey::Exact(value.to_be_bytes().to_vec())
}

struct Control<'a>(&'a mut Switch, TableId);

impl<'a> Control<'a> {
    fn new(sw: &'a mut Switch, name: &str) -> Self {
        let table = sw.program().table(name).unwrap();
        Self(sw, table)
    }

    fn action(&self, name: &str) -> ActionId {
        self.0.program().table_action(self.1, name).unwrap()
    }

    fn call(&self, action: &str, args: &[u64]) -> ActionCall {
        let args = args.iter().map(|a| a.to_be_bytes().to_vec()).collect();
        ActionCall { action: self.action(action), args }
    }

    fn entry(&self, keys: Vec<MatchKey>, priority: i32, action: EntryAction) -> TableEntry {
        TableEntry { keys, priority, action, metadata: vec![], idle_timeout_ns: 0 }
    }

    fn insert(
        &mut self,
        keys: Vec<MatchKey>,
        priority: i32,
        action: &str,
        arg: u64,
    ) -> Result<(), TableError> {
        let action = EntryAction::Call(self.call(action, &[arg]));
        let entry = self.entry(keys, priority, action);
        self.0.table_insert(self.1, entry)
    }

    fn delete(&mut self, keys: Vec<MatchKey>, priority: i32) -> Result<(), TableError> {
        self.0.table_delete(self.1, &EntryKey { keys, priority })
    }
}

/// A packet of the program: result and `c` as they come back.
fn lookup(sw: &mut Switch, kind: u8, a: u32, b: u16, c: u8, wide: u128) -> (u32, u8) {
    let mut frame = vec![kind];
    frame.extend(a.to_be_bytes());
    frame.extend(b.to_be_bytes());
    frame.push(c << 1);
    frame.extend(wide.to_be_bytes());
    frame.extend([0; 4]);
    let out = process(sw, 1, &frame);
    assert_eq!(out.len(), 1);
    let f = &out[0].1;
    (u32::from_be_bytes(f[24..28].try_into().unwrap()), f[7] >> 1)
}

#[test]
fn exact_entries_and_their_life() {
    let mut sw = switch();
    assert_eq!(lookup(&mut sw, 0, 1, 2, 3, 0).0, 0xDEF0);
    let mut t = Control::new(&mut sw, "I.exact_t");
    let keys = || vec![exact(1), exact(2), exact(3)];
    t.insert(keys(), 0, "I.set", 55).unwrap();
    assert_eq!(t.insert(keys(), 0, "I.set", 55).unwrap_err().kind(), ErrorKind::AlreadyExists);
    // The same key in another form is the same key.
    let short = vec![MatchKey::Exact(vec![1]), MatchKey::Exact(vec![0, 2]), MatchKey::Exact(vec![3])];
    assert_eq!(t.insert(short.clone(), 0, "I.set", 55).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let view = t.0.table_get(t.1, &EntryKey { keys: keys(), priority: 0 }).unwrap();
    let shortest = vec![MatchKey::Exact(vec![1]), MatchKey::Exact(vec![2]), MatchKey::Exact(vec![3])];
    assert_eq!(view.entry.keys, shortest);
    assert_eq!(
        view.entry.action,
        EntryAction::Call(ActionCall { action: t.action("I.set"), args: vec![vec![55]] })
    );
    assert_eq!(lookup(&mut sw, 0, 1, 2, 3, 0).0, 55);
    // Direct counter: packets and bytes of hits only.
    let t = Control::new(&mut sw, "I.exact_t");
    let view = t.0.table_get(t.1, &EntryKey { keys: short.clone(), priority: 0 }).unwrap();
    assert_eq!(view.counter, Some(CounterValue { packets: 1, bytes: 28 }));
    t.0.direct_counter_write(
        t.1,
        &EntryKey { keys: keys(), priority: 0 },
        CounterValue { packets: 9, bytes: 9 },
    )
    .unwrap();
    let modified = t.entry(keys(), 0, EntryAction::Call(t.call("I.add", &[5])));
    t.0.table_modify(t.1, modified).unwrap();
    assert_eq!(lookup(&mut sw, 0, 1, 2, 3, 0).0, 5);
    let mut t = Control::new(&mut sw, "I.exact_t");
    let view = t.0.table_get(t.1, &EntryKey { keys: keys(), priority: 0 }).unwrap();
    assert_eq!(view.counter, Some(CounterValue { packets: 10, bytes: 37 }));
    t.delete(keys(), 0).unwrap();
    assert_eq!(t.delete(keys(), 0).unwrap_err().kind(), ErrorKind::NotFound);
    let missing = t.entry(keys(), 0, EntryAction::Call(t.call("I.set", &[5])));
    assert_eq!(t.0.table_modify(t.1, missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(lookup(&mut sw, 0, 1, 2, 3, 0).0, 0xDEF0);
    // The indirect counter counted every packet.
    let counter = sw.program().counter("I.by_c").unwrap();
    assert_eq!(sw.counter_read(counter, 3).unwrap(), CounterValue { packets: 4, bytes: 112 });
}

#[test]
fn wrong_entries_are_refused_with_the_reason() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.exact_t");
    let k = |c: u64| vec![exact(1), exact(2), exact(c)];
    assert!(matches!(t.insert(k(128), 0, "I.set", 1), Err(TableError::BadKey { .. })));
    let empty = vec![exact(1), MatchKey::Exact(vec![]), exact(3)];
    assert!(matches!(t.insert(empty, 0, "I.set", 1), Err(TableError::BadKey { .. })));
    assert!(matches!(t.insert(k(1)[..2].to_vec(), 0, "I.set", 1), Err(TableError::KeyCount { .. })));
    assert!(matches!(t.insert(k(1), 5, "I.set", 1), Err(TableError::BadPriority { .. })));
    assert!(matches!(t.insert(k(1), 0, "I.set", 1 << 32), Err(TableError::BadArg { .. })));
    let two = t.entry(k(1), 0, EntryAction::Call(t.call("I.set", &[1, 2])));
    assert!(matches!(t.0.table_insert(t.1, two), Err(TableError::ArgCount { .. })));
    let lpm = vec![exact(1), MatchKey::Lpm { value: vec![1], prefix_len: 1 }, exact(3)];
    assert!(matches!(t.insert(lpm, 0, "I.set", 1), Err(TableError::KeyKind { .. })));
    let member = t.entry(k(1), 0, EntryAction::Member(1));
    assert!(matches!(t.0.table_insert(t.1, member), Err(TableError::WrongActionSort { .. })));
    // An action of another table.
    let other = t.0.program().table("I.wide_t").unwrap();
    let foreign = t.0.program().table_action(other, "I.set").unwrap();
    let call = EntryAction::Call(ActionCall { action: foreign, args: vec![vec![1]] });
    let entry = t.entry(k(1), 0, call);
    assert!(matches!(t.0.table_insert(t.1, entry), Err(TableError::ActionNotInTable { .. })));
    // Four entries fit.
    for i in 0..4 {
        t.insert(k(i), 0, "I.set", 1).unwrap();
    }
    assert_eq!(t.insert(k(9), 0, "I.set", 1).unwrap_err().kind(), ErrorKind::ResourceExhausted);
    let message = t.insert(k(200), 0, "I.set", 1).unwrap_err().to_string();
    assert_eq!(message, "table I.exact_t, field h.key.c: a value of 8 bits, valid are at most 7");
}

#[test]
fn defaults_change_and_come_back() {
    let mut sw = switch();
    let t = Control::new(&mut sw, "I.exact_t");
    let action = EntryAction::Call(t.call("I.set", &[0xDEF0]));
    assert_eq!(
        t.0.table_default(t.1).unwrap(),
        Some(EntryAction::Call(ActionCall { action: t.action("I.set"), args: vec![vec![0xDE, 0xF0]] }))
    );
    let new = EntryAction::Call(t.call("I.set", &[7]));
    t.0.table_set_default(t.1, Some(new)).unwrap();
    assert_eq!(lookup(&mut sw, 0, 1, 2, 3, 0).0, 7);
    let t = Control::new(&mut sw, "I.exact_t");
    t.0.table_set_default(t.1, None).unwrap();
    assert_eq!(lookup(&mut sw, 0, 1, 2, 3, 0).0, 0xDEF0);
    let t = Control::new(&mut sw, "I.const_t");
    assert_eq!(t.0.table_set_default(t.1, Some(action)).unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn keys_of_128_bits() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.wide_t");
    let wide = 0x0123_4567_89AB_CDEF_0011_2233_4455_6677u128;
    t.insert(vec![MatchKey::Exact(wide.to_be_bytes().to_vec())], 0, "I.set", 1).unwrap();
    assert_eq!(lookup(&mut sw, 1, 0, 0, 0, wide).0, 1);
    assert_eq!(lookup(&mut sw, 1, 0, 0, 0, wide ^ 1 << 127).0, 0);
    assert_eq!(lookup(&mut sw, 1, 0, 0, 0, wide ^ 1).0, 0);
}

#[test]
fn the_longest_prefix_wins() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.lpm_t");
    let key = |b: u64, value: u32, prefix_len| {
        vec![exact(b), MatchKey::Lpm { value: value.to_be_bytes().to_vec(), prefix_len }]
    };
    t.insert(key(1, 0x0A00_0000, 8), 0, "I.measured", 8).unwrap();
    t.insert(key(1, 0x0A01_0000, 16), 0, "I.measured", 16).unwrap();
    t.insert(key(1, 0x0A01_0203, 32), 0, "I.measured", 32).unwrap();
    t.insert(key(1, 0, 0), 0, "I.measured", 1).unwrap();
    assert!(matches!(t.insert(key(1, 0x0A01_0001, 16), 0, "I.measured", 1), Err(TableError::BadKey { .. })));
    assert!(matches!(t.insert(key(1, 0, 33), 0, "I.measured", 1), Err(TableError::BadKey { .. })));
    for (a, want) in [(0x0A01_0203, 32), (0x0A01_0204, 16), (0x0AFF_0000, 8), (0x0B00_0000, 1)] {
        assert_eq!(lookup(&mut sw, 2, a, 1, 5, 0), (want, 0), "{a:x}");
    }
    // Another exact field: a miss, which the program sees.
    assert_eq!(lookup(&mut sw, 2, 0x0A01_0203, 2, 5, 0), (0, 99));
    let mut t = Control::new(&mut sw, "I.lpm_t");
    t.delete(key(1, 0x0A01_0000, 16), 0).unwrap();
    assert_eq!(lookup(&mut sw, 2, 0x0A01_0204, 1, 5, 0).0, 8);
}

#[test]
fn ternary_entries_by_priority() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.ternary_t");
    let key = |value: u32, mask: u32, c: Option<u8>| {
        let bytes = |v: u32| v.to_be_bytes().to_vec();
        vec![
            MatchKey::Ternary { value: bytes(value), mask: bytes(mask) },
            exact(1),
            MatchKey::Optional(c.map(|c| vec![c])),
        ]
    };
    t.insert(key(0x1200, 0xFF00, None), 10, "I.set", 10).unwrap();
    t.insert(key(0x1230, 0xFFF0, None), 20, "I.set", 20).unwrap();
    t.insert(key(0x1230, 0xFFF0, Some(5)), 30, "I.set", 30).unwrap();
    // The same key at another priority is another entry.
    t.insert(key(0x1200, 0xFF00, None), 11, "I.set", 11).unwrap();
    assert!(matches!(t.insert(key(1, 1, None), 0, "I.set", 0), Err(TableError::BadPriority { .. })));
    assert!(matches!(t.insert(key(1, 1, None), -1, "I.set", 0), Err(TableError::BadPriority { .. })));
    assert!(matches!(t.insert(key(3, 1, None), 1, "I.set", 0), Err(TableError::BadKey { .. })));
    assert_eq!(lookup(&mut sw, 3, 0x1235, 1, 5, 0).0, 30);
    assert_eq!(lookup(&mut sw, 3, 0x1235, 1, 6, 0).0, 20);
    assert_eq!(lookup(&mut sw, 3, 0x1245, 1, 6, 0).0, 11);
    assert_eq!(lookup(&mut sw, 3, 0x1345, 1, 6, 0).0, 1);
    assert_eq!(lookup(&mut sw, 3, 0x1235, 2, 5, 0).0, 1);
    let mut t = Control::new(&mut sw, "I.ternary_t");
    t.delete(key(0x1200, 0xFF00, None), 11).unwrap();
    assert_eq!(lookup(&mut sw, 3, 0x1245, 1, 6, 0).0, 10);
}

/// Among equal priorities the lower handle wins, and handles are given lowest first, as in BMv2.
#[test]
fn ties_go_to_the_earlier_entry() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.ternary_t");
    let key = |mask: u8| {
        vec![MatchKey::Ternary { value: vec![0], mask: vec![mask] }, exact(1), MatchKey::Optional(None)]
    };
    t.insert(key(1), 5, "I.set", 1001).unwrap();
    t.insert(key(2), 5, "I.set", 1002).unwrap();
    assert_eq!(lookup(&mut sw, 3, 0, 1, 0, 0).0, 1001);
    let mut t = Control::new(&mut sw, "I.ternary_t");
    t.delete(key(1), 5).unwrap();
    t.insert(key(4), 5, "I.set", 1004).unwrap();
    assert_eq!(lookup(&mut sw, 3, 0, 1, 0, 0).0, 1004);
}

#[test]
fn ranges() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.range_t");
    let wide = |v: u128| v.to_be_bytes().to_vec();
    let key = |low: u16, high: u16, from: u128, to: u128| {
        vec![
            MatchKey::Range { low: low.to_be_bytes().to_vec(), high: high.to_be_bytes().to_vec() },
            MatchKey::Ternary { value: vec![1], mask: vec![1] },
            MatchKey::Range { low: wide(from), high: wide(to) },
        ]
    };
    let big = 1u128 << 100;
    t.insert(key(10, 20, 5, big), 1, "I.set", 100).unwrap();
    t.insert(key(15, 15, 0, u128::MAX), 2, "I.set", 200).unwrap();
    assert!(matches!(t.insert(key(20, 10, 0, 1), 1, "I.set", 1), Err(TableError::BadKey { .. })));
    for (b, c, w, want) in [
        (10, 1, 5, 100),
        (20, 3, big, 100),
        (9, 1, 5, 2),
        (21, 1, 5, 2),
        (10, 2, 5, 2),
        (10, 1, 4, 2),
        (10, 1, big + 1, 2),
        (15, 1, u128::MAX, 200),
    ] {
        assert_eq!(lookup(&mut sw, 4, 0, b, c, w).0, want, "{b} {c} {w}");
    }
}

#[test]
fn const_entries() {
    let mut sw = switch();
    for (a, b, want) in
        [(0x15, 6, 100), (0x10, 4, 101), (0x10, 6, 100), (0x77, 7, 102), (0x77, 8, 5), (0x77, 101, 9)]
    {
        assert_eq!(lookup(&mut sw, 5, a, b, 0, 0).0, want, "{a:x} {b}");
    }
    let mut t = Control::new(&mut sw, "I.const_t");
    let entries = t.0.table_entries(t.1).unwrap();
    assert_eq!(entries.len(), 4);
    assert!(entries.iter().all(|e| e.is_const));
    assert!(entries[0].entry.priority > entries[1].entry.priority);
    let key = entries[0].entry.keys.clone();
    assert_eq!(
        t.delete(key.clone(), entries[0].entry.priority).unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
    assert_eq!(t.insert(key, 1, "I.set", 1).unwrap_err().kind(), ErrorKind::PermissionDenied);
}

/// A field of an invalid header is matched as 0, whatever it held before.
#[test]
fn invalid_headers_match_as_zero() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.valid_t");
    t.insert(vec![exact(1), exact(0xABCD)], 0, "I.set", 1).unwrap();
    t.insert(vec![exact(0), exact(0)], 0, "I.set", 2).unwrap();
    let mut frame = vec![6, 0, 0, 0, 0, 0, 0, 1];
    frame.extend([0; 20]);
    frame.extend([0, 0, 0xAB, 0xCD]);
    let result = |sw: &mut Switch, frame: &[u8]| process(sw, 1, frame)[0].1[27];
    assert_eq!(result(&mut sw, &frame), 1);
    frame[7] = 0;
    assert_eq!(result(&mut sw, &frame), 2);
    frame[7] = 1;
    frame[31] = 0;
    assert_eq!(result(&mut sw, &frame), 77);
}

#[test]
fn action_profile_members() {
    let mut sw = switch();
    let profile = sw.program().profile("I.profile").unwrap();
    let t = Control::new(&mut sw, "I.indirect_t");
    let member = |id, call| ProfileMember { id, call };
    let (set, add) = (t.call("I.set", &[5]), t.call("I.add", &[6]));
    let entry = |t: &Control, a: u64, id| t.entry(vec![exact(a)], 0, EntryAction::Member(id));
    // Nothing there yet.
    let early = entry(&t, 1, 10);
    assert_eq!(t.0.table_insert(t.1, early).unwrap_err().kind(), ErrorKind::NotFound);
    t.0.member_insert(profile, member(10, set.clone())).unwrap();
    t.0.member_insert(profile, member(11, add.clone())).unwrap();
    assert_eq!(
        t.0.member_insert(profile, member(10, set.clone())).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    t.0.member_insert(profile, member(12, set.clone())).unwrap();
    assert_eq!(
        t.0.member_insert(profile, member(13, set.clone())).unwrap_err().kind(),
        ErrorKind::ResourceExhausted
    );
    for (a, id) in [(1, 10), (2, 11)] {
        let e = entry(&t, a, id);
        t.0.table_insert(t.1, e).unwrap();
    }
    assert_eq!(t.0.member_delete(profile, 10).unwrap_err().kind(), ErrorKind::FailedPrecondition);
    t.0.member_delete(profile, 12).unwrap();
    // The next node depends on the member's action.
    assert_eq!(lookup(&mut sw, 7, 1, 0, 9, 0), (5, 1));
    assert_eq!(lookup(&mut sw, 7, 2, 0, 9, 0), (6, 2));
    // A miss without default action does nothing.
    assert_eq!(lookup(&mut sw, 7, 3, 0, 9, 0), (0, 9));
    sw.member_modify(profile, member(10, add)).unwrap();
    assert_eq!(lookup(&mut sw, 7, 1, 0, 9, 0), (6, 2));
    let group = ProfileGroup { id: 1, max_size: 0, members: vec![] };
    assert!(matches!(sw.group_insert(profile, group), Err(ProfileError::NoSelector { .. })));
}

fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    for b in bytes {
        crc ^= u16::from(*b);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 };
        }
    }
    crc
}

/// The member is the hash modulo the sum of weights; the hash is over the selector's fields, bit by bit.
#[test]
fn selectors_hash_over_their_fields() {
    let mut sw = switch();
    let profile = sw.program().profile("I.selector").unwrap();
    let t = Control::new(&mut sw, "I.selected_t");
    for id in 1..=3 {
        let call = t.call("I.set", &[u64::from(id) * 100]);
        t.0.member_insert(profile, ProfileMember { id, call }).unwrap();
    }
    let m = |member, weight| GroupMember { member, weight, watch_port: None };
    let group = |id, members| ProfileGroup { id, max_size: 8, members };
    assert!(matches!(t.0.group_insert(profile, group(1, vec![m(1, 0)])), Err(ProfileError::BadGroup { .. })));
    assert!(matches!(t.0.group_insert(profile, group(1, vec![m(1, 9)])), Err(ProfileError::BadGroup { .. })));
    assert!(matches!(t.0.group_insert(profile, group(1, vec![m(9, 1)])), Err(ProfileError::NotFound { .. })));
    t.0.group_insert(profile, group(1, vec![m(1, 1), m(3, 2)])).unwrap();
    let by_group = t.entry(vec![exact(1)], 0, EntryAction::Group(1));
    t.0.table_insert(t.1, by_group).unwrap();
    let one_shot =
        |value, weight| OneShotMember { call: t.call("I.set", &[value]), weight, watch_port: None };
    let shots = EntryAction::OneShot(vec![one_shot(7, 1), one_shot(8, 1), one_shot(9, 3)]);
    let by_shots = t.entry(vec![exact(2)], 0, shots);
    t.0.table_insert(t.1, by_shots).unwrap();
    for b in 0..200u16 {
        // b is 16 bits, c is 7: 23 bits, one zero bit at the end.
        let c = (b % 128) as u8;
        let hash = usize::from(crc16(&[(b >> 8) as u8, b as u8, c << 1]));
        assert_eq!(lookup(&mut sw, 8, 1, b, c, 0).0, [100, 300, 300][hash % 3]);
        assert_eq!(lookup(&mut sw, 8, 2, b, c, 0).0, [7, 8, 9, 9, 9][hash % 5]);
    }
    assert_eq!(sw.member_delete(profile, 3).unwrap_err().kind(), ErrorKind::FailedPrecondition);
    assert_eq!(sw.group_delete(profile, 1).unwrap_err().kind(), ErrorKind::FailedPrecondition);
    sw.group_modify(profile, group(1, vec![m(2, 1)])).unwrap();
    assert_eq!(lookup(&mut sw, 8, 1, 1, 1, 0).0, 200);
    sw.group_modify(profile, group(1, vec![])).unwrap();
    assert_eq!(lookup(&mut sw, 8, 1, 1, 1, 0).0, 0);
}

#[test]
fn meters_colour_by_the_clock() {
    let mut sw = switch();
    let meter = sw.program().meter("I.rate").unwrap();
    let colour = |sw: &mut Switch, now_us| {
        let mut frame = vec![9, 0, 0, 0, 2, 0, 0, 0];
        frame.extend([0; 20]);
        let mut out = Vec::new();
        sw.process(1, &frame, now_us, &mut out);
        out[0].1[27]
    };
    assert_eq!(colour(&mut sw, 0), 0);
    let config = MeterConfig { cir: 1000, cburst: 2, pir: 2000, pburst: 4 };
    sw.meter_write(meter, 2, Some(config)).unwrap();
    assert_eq!(sw.meter_read(meter, 2).unwrap(), Some(config));
    let burst: Vec<u8> = (0..6).map(|_| colour(&mut sw, 0)).collect();
    assert_eq!(burst, [0, 0, 1, 1, 2, 2]);
    // After 1 ms: two tokens of the peak rate, one of the committed.
    let later: Vec<u8> = (0..3).map(|_| colour(&mut sw, 1000)).collect();
    assert_eq!(later, [0, 1, 2]);
    let wrong = MeterConfig { cir: 5, cburst: 1, pir: 4, pburst: 1 };
    assert!(matches!(sw.meter_write(meter, 2, Some(wrong)), Err(StateError::BadValue { .. })));
    assert!(matches!(sw.meter_write(meter, 4, None), Err(StateError::Index { .. })));
    sw.meter_write(meter, 2, None).unwrap();
    assert_eq!(colour(&mut sw, 1000), 0);
}

#[test]
fn direct_meters_set_their_field() {
    let mut sw = switch();
    let mut t = Control::new(&mut sw, "I.lpm_t");
    let keys = vec![exact(1), MatchKey::Lpm { value: vec![0], prefix_len: 0 }];
    t.insert(keys.clone(), 0, "I.measured", 8).unwrap();
    let config = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 2 };
    t.0.direct_meter_write(t.1, &EntryKey { keys: keys.clone(), priority: 0 }, Some(config)).unwrap();
    let colours: Vec<u8> = (0..3).map(|_| lookup(&mut sw, 2, 0, 1, 0, 0).1).collect();
    assert_eq!(colours, [0, 1, 2]);
    let t = Control::new(&mut sw, "I.lpm_t");
    assert_eq!(t.0.table_get(t.1, &EntryKey { keys, priority: 0 }).unwrap().meter, Some(config));
}

#[test]
fn registers_of_200_bits() {
    let mut sw = switch();
    let cells = sw.program().register("I.cells").unwrap();
    let all_ones = vec![0xFF; 25];
    sw.register_write(cells, 3, &all_ones).unwrap();
    let frame = |index: u8| {
        let mut f = vec![10, 0, 0, 0, index, 0x12, 0x34, 0];
        f.extend([0; 20]);
        f
    };
    let out = process(&mut sw, 1, &frame(3));
    assert_eq!(out[0].1[8..28], [0xFF; 20]);
    // Shifted left by 8, cut to 200 bits, the low bits ORed in.
    let mut want = vec![0xFF; 23];
    want.extend([0x12 | 0xFF, 0x34]);
    assert_eq!(sw.register_read(cells, 3).unwrap(), want);
    assert_eq!(sw.register_read(cells, 2).unwrap(), vec![0]);
    assert!(matches!(sw.register_read(cells, 8), Err(StateError::Index { last: 7, .. })));
    assert!(matches!(sw.register_write(cells, 0, &[1; 26]), Err(StateError::BadValue { .. })));
    assert!(matches!(sw.register_write(cells, 0, &[]), Err(StateError::BadValue { .. })));
    // Out of range from a packet: nothing is read or written, and it is counted.
    let out = process(&mut sw, 1, &frame(8));
    assert_eq!(out[0].1[8..28], [0; 20]);
    assert_eq!(sw.faults().index_out_of_range, 2);
}

#[test]
fn idle_entries_are_reported_once() {
    let mut sw = switch();
    let t = Control::new(&mut sw, "I.ternary_t");
    let keys =
        vec![MatchKey::Ternary { value: vec![5], mask: vec![0xFF] }, exact(1), MatchKey::Optional(None)];
    let mut entry = t.entry(keys, 7, EntryAction::Call(t.call("I.set", &[1])));
    entry.idle_timeout_ns = 2_000_000;
    t.0.table_insert(t.1, entry).unwrap();
    let table = t.1;
    assert!(sw.expired_entries(1_999).is_empty());
    assert_eq!(lookup(&mut sw, 3, 5, 1, 0, 0).0, 1);
    // The packet came at 1 ms.
    assert!(sw.expired_entries(2_999).is_empty());
    let expired = sw.expired_entries(3_000);
    assert_eq!(expired.len(), 1);
    assert_eq!((expired[0].0, expired[0].1.idle_ns), (table, 2_000_000));
    assert!(sw.expired_entries(9_000).is_empty());
    // Not every table has timeouts.
    let t = Control::new(&mut sw, "I.exact_t");
    let mut entry = t.entry(vec![exact(1), exact(1), exact(1)], 0, EntryAction::Call(t.call("I.set", &[1])));
    entry.idle_timeout_ns = 1;
    assert!(matches!(t.0.table_insert(t.1, entry), Err(TableError::NoResource { .. })));
}

#[test]
fn a_new_program_starts_from_nothing() {
    let mut sw = switch();
    let cells = sw.program().register("I.cells").unwrap();
    sw.register_write(cells, 0, &[1]).unwrap();
    let mut t = Control::new(&mut sw, "I.wide_t");
    t.insert(vec![exact(0)], 0, "I.set", 1).unwrap();
    let program = sw.program().clone();
    sw.load(program);
    assert_eq!(sw.register_read(cells, 0).unwrap(), vec![0]);
    assert_eq!(lookup(&mut sw, 1, 0, 0, 0, 0).0, 0);
    // Const entries are there again.
    assert_eq!(lookup(&mut sw, 5, 0x10, 4, 0, 0).0, 101);
}
