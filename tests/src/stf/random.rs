//! Seeded entries and frames for any compiled program: what two switches are held against each other with.

use inca_switch::control::MatchKey;

use super::names::{Names, Table, clear_low};
use super::script::{Script, Statement};
use super::{Action, Call, EntryName, Request};
use crate::rng::Rng;

/// Kind of a ternary field that matches all of a value or anything, which only the P4Info tells.
pub(super) const OPTIONAL: &str = "optional";
/// Entries of each table.
const ENTRIES: usize = 10;
/// Members of each action profile.
const MEMBERS: u32 = 6;
/// Groups of each action selector.
const GROUPS: u32 = 3;
/// Ports that frames come in by.
const PORTS: usize = 8;

/// Requests that fill a program's tables and profiles, and what its script says of sessions, groups, meters and counters.
pub fn requests(names: &Names, script: &[Request], rng: &mut Rng) -> Vec<Request> {
    let mut all: Vec<Request> = script.iter().filter(|request| apart_from_tables(request)).cloned().collect();
    for profile in &names.profiles {
        fill_profile(names, profile, rng, &mut all);
    }
    for table in &names.tables {
        if !table.const_default && table.profile.is_none() && has_action(names, table) && rng.chance(1, 2) {
            all.push(Request::Default(table.name.clone(), Action::Call(call(names, table, rng))));
        }
        if table.const_entries || table.keys.is_empty() || !has_action(names, table) {
            continue;
        }
        let mut keys = Vec::new();
        for index in 0..ENTRIES {
            let entry: Vec<MatchKey> =
                table.keys.iter().map(|(_, kind, bits)| key(kind, *bits, rng)).collect();
            let action = match &table.profile {
                None => Action::Call(call(names, table, rng)),
                Some((_, true)) if rng.chance(2, 3) => Action::Group(1 + rng.below(GROUPS as usize) as u32),
                Some(_) => Action::Member(1 + rng.below(MEMBERS as usize) as u32),
            };
            if keys.contains(&entry) {
                continue;
            }
            keys.push(entry.clone());
            // Each its own: between equals a switch may choose.
            let priority = if table.prioritised { 1 + index as i32 } else { 0 };
            all.push(Request::Insert(EntryName { table: table.name.clone(), keys: entry, priority }, action));
        }
    }
    all
}

fn apart_from_tables(request: &Request) -> bool {
    matches!(
        request,
        Request::Session(..) | Request::Multicast(..) | Request::Counter(..) | Request::Meter(..)
    )
}

fn fill_profile(names: &Names, profile: &str, rng: &mut Rng, all: &mut Vec<Request>) {
    let of = |table: &&Table| table.profile.as_ref().is_some_and(|(name, _)| name == profile);
    let Some(table) = names.tables.iter().find(of) else { return };
    for id in 1..=MEMBERS {
        all.push(Request::Member(profile.to_owned(), id, call(names, table, rng)));
    }
    if table.profile.as_ref().is_some_and(|(_, selector)| *selector) {
        for id in 1..=GROUPS {
            let members = (1..=MEMBERS).filter(|member| *member == id || rng.chance(1, 2));
            all.push(Request::Group(profile.to_owned(), id, members.map(|member| (member, 1)).collect()));
        }
    }
}

fn has_action(names: &Names, table: &Table) -> bool {
    table.actions.iter().any(|action| names.actions[*action].0 != "NoAction")
}

fn call(names: &Names, table: &Table, rng: &mut Rng) -> Call {
    // p4c lets NoAction be the default action of tables that do not name it, and then it can be nothing else.
    let usable =
        table.actions.iter().map(|action| &names.actions[*action]).filter(|(name, _)| name != "NoAction");
    let usable: Vec<_> = usable.collect();
    let (action, params) = usable[rng.below(usable.len())];
    Call { action: action.clone(), args: params.iter().map(|(_, bits)| value(*bits, rng)).collect() }
}

/// Often a small number, so that frames meet it.
fn value(bits: u32, rng: &mut Rng) -> Vec<u8> {
    let mut value = vec![0; bits.div_ceil(8).max(1) as usize];
    if rng.chance(3, 4) {
        let low = rng.below(4) as u8;
        if let Some(last) = value.last_mut() {
            *last = low;
        }
    } else {
        value.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
    }
    cut(&mut value, bits);
    value
}

fn cut(value: &mut [u8], bits: u32) {
    if let (Some(first), 1..) = (value.first_mut(), bits % 8) {
        *first &= (1u8 << (bits % 8)) - 1;
    }
}

fn key(kind: &str, bits: u32, rng: &mut Rng) -> MatchKey {
    let mut value = value(bits, rng);
    match kind {
        "lpm" => {
            let prefix_len = rng.below(bits as usize + 1) as u32;
            clear_low(&mut value, bits - prefix_len);
            MatchKey::Lpm { value, prefix_len }
        }
        "ternary" | OPTIONAL => {
            let mut mask = vec![0xff; value.len()];
            match rng.below(3) {
                0 => mask.fill(0),
                1 if kind != OPTIONAL => mask.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8),
                _ => {}
            }
            cut(&mut mask, bits);
            value.iter_mut().zip(&mask).for_each(|(byte, mask)| *byte &= mask);
            MatchKey::Ternary { value, mask }
        }
        "range" => {
            let other = self::value(bits, rng);
            let (low, high) = if value <= other { (value, other) } else { (other, value) };
            MatchKey::Range { low, high }
        }
        _ => MatchKey::Exact(value),
    }
}

/// Frames made from those of the script, spoiled in many ways, and some of nothing but random bytes.
pub fn frames(script: &Script, count: usize, rng: &mut Rng) -> Vec<(u16, Vec<u8>)> {
    let template = |(_, statement): &(usize, Statement)| match statement {
        Statement::Packet(_, frame) => Some(frame.clone()),
        _ => None,
    };
    let templates: Vec<Vec<u8>> = script.statements.iter().filter_map(template).collect();
    (0..count).map(|_| (rng.below(PORTS) as u16, frame(&templates, rng))).collect()
}

fn frame(templates: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    if templates.is_empty() || rng.chance(1, 24) {
        return (0..1 + rng.below(100)).map(|_| rng.next_u64() as u8).collect();
    }
    let mut frame = templates[rng.below(templates.len())].clone();
    for _ in 0..rng.below(8) {
        let at = rng.below(frame.len());
        match rng.below(3) {
            0 => frame[at] = rng.below(4) as u8,
            1 => frame[at] = rng.next_u64() as u8,
            _ => frame[at] ^= 1 << rng.below(8),
        }
    }
    match rng.below(12) {
        0 => frame.truncate(1 + rng.below(frame.len())),
        1 => frame.extend((0..rng.below(60)).map(|_| rng.next_u64() as u8)),
        _ => {}
    }
    frame
}
