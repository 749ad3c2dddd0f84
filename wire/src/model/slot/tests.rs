//! Single rows of the table, by packets; the exhaustive check of their interplay is `model::check`.

use super::*;
use crate::format::{Encoded, integer};
use crate::packet::{EXP_BIAS, NO_EXP_MAX, NO_EXP_MIN, WORD_BYTES};

const TREE: u16 = 5;
const PARENT_PORT: u16 = 9;

/// Two hosts at ports 1 and 2.
fn config(parent: Option<Parent>) -> TreeConfig {
    let child = |rank| Child { port: rank + 1, member: rank, kind: ChildKind::Host };
    TreeConfig {
        tree_id: TREE,
        generation: 1,
        format: Format::I32,
        guard: 0,
        world: if parent.is_some() { 4 } else { 2 },
        slots: 2,
        words: 2,
        children: vec![child(0), child(1)],
        parent,
        resend_interval_us: 1000,
        broken: None,
    }
}

fn root() -> SwitchModel {
    SwitchModel::new([config(None)])
}

fn inner() -> SwitchModel {
    SwitchModel::new([config(Some(Parent { port: PARENT_PORT, member: 6 }))])
}

fn integers(value: i32, words: u8) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(words) * WORD_BYTES];
    let lanes = vec![value; usize::from(words) * Format::I32.lanes_per_word()];
    integer::encode(Format::I32, &lanes, &mut bytes, i64::from).unwrap();
    bytes
}

/// The first element of a packet's words.
fn first(sent: &Sent) -> i32 {
    let mut value = [0];
    integer::decode(Format::I32, &sent.words, &mut value, |first, value| *first = value as i32).unwrap();
    value[0]
}

fn header(opcode: Opcode, member: u16, sequence: u32) -> Header {
    let mut header =
        Header { member, sequence, tag: 77, contributions: 1, ..Header::new(opcode, Format::I32, TREE, 1) };
    Encoded::at(EXP_BIAS).describe(&mut header, 1);
    header
}

fn contribution(rank: u16, sequence: u32) -> Header {
    header(Opcode::Contribution, rank, sequence)
}

fn contribute(switch: &mut SwitchModel, rank: u16, sequence: u32, value: i32) -> Outcome {
    switch.handle(0, rank + 1, &contribution(rank, sequence), &integers(value, 1))
}

fn event(switch: &mut SwitchModel, port: u16, header: Header) -> Event {
    switch.handle(0, port, &header, &integers(1, header.words)).event
}

/// P1: an old duplicate arrives after the slot was reused.
#[test]
fn p1_an_old_duplicate_is_not_added() {
    let mut switch = root();
    assert_eq!(contribute(&mut switch, 0, 1, 10).event, Event::Contribution);
    let done = contribute(&mut switch, 1, 1, 1);
    assert_eq!(done.event, Event::Completed);
    assert_eq!(
        done.sent.iter().map(|sent| (sent.port, sent.header.member, first(sent))).collect::<Vec<_>>(),
        [(1, 0, 11), (2, 1, 11)]
    );
    assert_eq!(contribute(&mut switch, 1, 2, 20).event, Event::Contribution);
    let again = contribute(&mut switch, 0, 1, 10);
    assert_eq!((again.event, first(&again.sent[0])), (Event::Replay, 11));
    assert_eq!(first(&contribute(&mut switch, 0, 2, 2).sent[0]), 22);
}

/// P1b: the sibling is a sequence ahead, and the lost result is still there.
#[test]
fn p1b_a_lost_result_is_replayed_after_the_next_sequence_began() {
    let mut switch = root();
    contribute(&mut switch, 0, 1, 10);
    let result = contribute(&mut switch, 1, 1, 1).sent[1].clone();
    contribute(&mut switch, 0, 2, 5);
    assert_eq!(contribute(&mut switch, 1, 1, 1), Outcome { event: Event::Replay, sent: vec![result] });
    assert_eq!(first(&contribute(&mut switch, 1, 2, 6).sent[1]), 11);
    assert_eq!(contribute(&mut switch, 1, 1, 1).event, Event::BadSequence);
}

#[test]
fn duplicates_and_wrong_sequences_are_dropped() {
    let mut switch = root();
    assert_eq!(contribute(&mut switch, 0, 0, 1).event, Event::BadSequence);
    assert_eq!(contribute(&mut switch, 0, 2, 1).event, Event::BadSequence);
    contribute(&mut switch, 0, 1, 1);
    assert_eq!(contribute(&mut switch, 0, 1, 1).event, Event::Duplicate);
    assert_eq!(contribute(&mut switch, 0, 2, 1).event, Event::BadSequence);
    assert_eq!(contribute(&mut switch, 1, 0, 1).event, Event::BadSequence);
    assert_eq!(first(&contribute(&mut switch, 1, 1, 2).sent[0]), 3);
}

/// P2, and everything else that is not installed.
#[test]
fn p2_only_installed_packets_touch_a_slot() {
    let mut switch = root();
    contribute(&mut switch, 0, 1, 1);
    let before = switch.clone();
    let good = contribution(1, 1);
    for slot in [2, 3, u32::MAX] {
        assert_eq!(event(&mut switch, 2, Header { slot, ..good }), Event::BadSlot);
    }
    assert_eq!(event(&mut switch, 2, Header { tree_id: 6, ..good }), Event::UnknownTree);
    for generation in [0, 2] {
        assert_eq!(event(&mut switch, 2, Header { generation, ..good }), Event::StaleGeneration);
    }
    assert_eq!(event(&mut switch, 2, Header { format: Format::Bfp16, ..good }), Event::BadFormat);
    assert_eq!(event(&mut switch, 2, Header { words: 3, ..good }), Event::BadFormat);
    assert_eq!(event(&mut switch, 2, Header { words: 0, ..good }), Event::BadFormat);
    assert_eq!(event(&mut switch, 2, Header { flags: Flags::RANGE, ..good }), Event::BadFormat);
    assert_eq!(event(&mut switch, 2, Header { flags: Flags::DONE, words: 0, ..good }), Event::BadFormat);
    assert_eq!(event(&mut switch, 2, Header { contributions: 2, ..good }), Event::BadFormat);
    // Not being a member is said first, whatever else is wrong.
    assert_eq!(event(&mut switch, 3, Header { generation: 9, slot: 9, ..good }), Event::NotAdmitted);
    assert_eq!(event(&mut switch, 1, good), Event::NotAdmitted);
    assert_eq!(event(&mut switch, 2, Header { member: 2, ..good }), Event::NotAdmitted);
    assert_eq!(event(&mut switch, 2, header(Opcode::Result, PARENT_MEMBER, 1)), Event::NotAdmitted);
    assert_eq!(event(&mut switch, 2, header(Opcode::Result, 1, 1)), Event::BadOpcode);
    assert_eq!(event(&mut switch, 2, Header { opcode: Opcode::Partial, plane: 0, ..good }), Event::BadOpcode);
    assert_eq!(event(&mut switch, 2, Header { opcode: Opcode::ProbeReply, ..good }), Event::BadOpcode);
    assert_eq!(event(&mut switch, 2, Header { plane: 0, ..good }), Event::BadOpcode);
    assert_eq!(switch, before);
    switch.remove(TREE);
    assert_eq!(event(&mut switch, 2, good), Event::UnknownTree);
}

#[test]
fn an_inner_switch_sends_the_sum_up_and_the_result_down() {
    let mut switch = inner();
    contribute(&mut switch, 0, 1, 3);
    let up = contribute(&mut switch, 1, 1, -5);
    assert_eq!(up.event, Event::Completed);
    for (plane, sent) in up.sent.iter().enumerate() {
        let expected =
            Header { plane: plane as u8, contributions: 2, bias: 1 << 32, ..header(Opcode::Partial, 6, 1) };
        assert_eq!((sent.port, sent.header), (PARENT_PORT, expected));
        assert!(sent.words.chunks(8).all(|lane| lane == (((1u64 << 32) - 2).to_be_bytes())));
    }

    let result = Header { member: PARENT_MEMBER, contributions: 4, ..header(Opcode::Result, 6, 1) };
    let words = integers(11, 1);
    let refused = [
        Header { contributions: 3, ..result },
        Header { sequence: 2, ..result },
        Header { words: 2, ..result },
        Header { words: 0, ..result },
        Header { flags: Flags::RANGE, ..result },
    ];
    for header in refused {
        assert_eq!(switch.handle(0, PARENT_PORT, &header, &words), Event::ResultIgnored.into());
    }
    let down = switch.handle(0, PARENT_PORT, &result, &words);
    assert_eq!(down.event, Event::Result);
    for (rank, sent) in down.sent.iter().enumerate() {
        assert_eq!((sent.port, first(sent)), (rank as u16 + 1, 11));
        assert_eq!(sent.header, Header { member: rank as u16, ..result });
    }
    assert_eq!(switch.handle(0, PARENT_PORT, &result, &words), Event::ResultIgnored.into());
}

#[test]
fn a_result_before_the_slot_is_full_is_ignored() {
    let mut switch = inner();
    contribute(&mut switch, 0, 1, 3);
    let result = Header { member: PARENT_MEMBER, contributions: 4, ..header(Opcode::Result, 6, 1) };
    assert_eq!(event(&mut switch, PARENT_PORT, result), Event::ResultIgnored);
}

#[test]
fn resends_are_limited_per_slot() {
    let mut switch = inner();
    let mut at = |now, rank| switch.handle(now, rank + 1, &contribution(rank, 1), &integers(1, 1));
    at(5000, 0);
    let up = at(5000, 1);
    assert_eq!(at(5999, 0).event, Event::ResendLimited);
    assert_eq!(at(6000, 0), Outcome { event: Event::Resend, sent: up.sent.clone() });
    // Whichever child asks.
    assert_eq!(at(6999, 1).event, Event::ResendLimited);
    // The switch's clock wraps round.
    assert_eq!(at((1 << 32) + 7000, 1), Outcome { event: Event::Resend, sent: up.sent });
}

#[test]
fn what_would_make_a_packet_grow_is_not_sent() {
    let mut switch = inner();
    contribute(&mut switch, 0, 1, 3);
    contribute(&mut switch, 1, 1, 4);
    let wider = Header { words: 2, ..contribution(0, 1) };
    let empty = Header { words: 0, flags: Flags::NONFINITE, ..contribution(0, 1) };
    for header in [wider, empty] {
        let outcome = switch.handle(9999, 1, &header, &integers(1, header.words));
        assert_eq!(outcome, Event::ReplayMisfit.into());
    }
    let result = Header { member: PARENT_MEMBER, contributions: 4, ..header(Opcode::Result, 6, 1) };
    switch.handle(9999, PARENT_PORT, &result, &integers(11, 1));
    for header in [wider, empty] {
        assert_eq!(event(&mut switch, 1, header), Event::ReplayMisfit);
    }
}

/// Whoever comes first: every rank sees the same flag, and nothing of either operation.
#[test]
fn different_operations_are_flagged() {
    let other_tag = |rank| Header { tag: 78, ..contribution(rank, 1) };
    let other_words = |rank| Header { words: 2, ..contribution(rank, 1) };
    for other in [other_tag, other_words] {
        for (one, two) in [(contribution(0, 1), other(1)), (other(0), contribution(1, 1))] {
            let mut switch = root();
            switch.handle(0, 1, &one, &integers(1, one.words));
            let done = switch.handle(0, 2, &two, &integers(1, two.words));
            assert_eq!(done.event, Event::Completed);
            let Header { flags, tag, contributions, words, exp_max, exp_min, .. } = done.sent[0].header;
            assert_eq!((flags, tag, contributions, words), (Flags::MISMATCH, 0, 2, 0));
            assert_eq!((exp_max, exp_min), (NO_EXP_MAX, NO_EXP_MIN));
            assert!(done.sent[0].words.is_empty());
            // The next sequence is right again.
            contribute(&mut switch, 0, 2, 8);
            assert_eq!(first(&contribute(&mut switch, 1, 2, 1).sent[0]), 9);
        }
    }
}

/// A flagged contribution has no words, which is no mismatch, first or last.
#[test]
fn flags_of_contributions_are_merged() {
    let flagged = |rank| {
        let mut header = contribution(rank, 1);
        Encoded::NONFINITE.describe(&mut header, 1);
        header
    };
    for (one, two) in [(flagged(0), contribution(1, 1)), (contribution(0, 1), flagged(1))] {
        let mut switch = root();
        switch.handle(0, 1, &one, &integers(1, one.words));
        let done = switch.handle(0, 2, &two, &integers(1, two.words));
        assert_eq!((done.sent[0].header.flags, done.sent[0].header.tag), (Flags::NONFINITE, 77));
        assert_eq!(done.sent[0].header.exp_max, EXP_BIAS);
    }
}

#[test]
fn probes_tell_what_a_slot_waits_for() {
    let mut switch = root();
    let probe = Header { words: 0, ..header(Opcode::Probe, 1, 0) };
    let ask = |switch: &mut SwitchModel| {
        let outcome = switch.handle(0, 2, &probe, &[]);
        assert_eq!((outcome.event, outcome.sent.len(), outcome.sent[0].port), (Event::Probe, 1, 2));
        let Header { opcode, sequence, contributions, bias, flags, .. } = outcome.sent[0].header;
        assert_eq!(opcode, Opcode::ProbeReply);
        (sequence, contributions, bias, flags)
    };
    assert_eq!(ask(&mut switch), (0, 0, 0, Flags::DONE));
    contribute(&mut switch, 0, 1, 1);
    assert_eq!(ask(&mut switch), (1, 1, 0b01, Flags::NONE));
    contribute(&mut switch, 1, 1, 1);
    assert_eq!(ask(&mut switch), (1, 2, 0b11, Flags::DONE));
}

#[test]
fn a_new_generation_starts_anew() {
    let mut switch = root();
    contribute(&mut switch, 0, 1, 1);
    contribute(&mut switch, 1, 1, 1);
    contribute(&mut switch, 0, 2, 1);
    switch.install(TreeConfig { generation: 2, ..config(None) });
    assert_eq!(contribute(&mut switch, 1, 2, 1).event, Event::StaleGeneration);
    let mut send = |rank: u16, sequence, value| {
        let header = Header { generation: 2, ..contribution(rank, sequence) };
        switch.handle(0, rank + 1, &header, &integers(value, 1))
    };
    assert_eq!(send(1, 3, 7).event, Event::BadSequence);
    assert_eq!(send(1, 1, 7).event, Event::Contribution);
    assert_eq!(first(&send(0, 1, 8).sent[0]), 15);
}

/// The numbers of the P4 program's counter, under its names.
#[test]
fn events_are_those_of_the_program() {
    let source = include_str!("../../../../p4/constants.p4");
    let value = |name: &str| {
        let line = source.lines().find(|line| line.split_whitespace().nth(2) == Some(name));
        let value =
            line.and_then(|line| line.split(['=', ';']).nth(1)).map(|value| value.trim().parse::<u8>());
        value.unwrap_or_else(|| panic!("{name} is not in constants.p4")).unwrap()
    };
    let events = [
        ("DROP_UNKNOWN_TREE", Event::UnknownTree),
        ("DROP_STALE_GENERATION", Event::StaleGeneration),
        ("DROP_BAD_SLOT", Event::BadSlot),
        ("DROP_BAD_FORMAT", Event::BadFormat),
        ("DROP_NOT_ADMITTED", Event::NotAdmitted),
        ("DROP_BAD_OPCODE", Event::BadOpcode),
        ("DROP_BAD_SEQUENCE", Event::BadSequence),
        ("DROP_DUPLICATE", Event::Duplicate),
        ("DROP_RESEND_LIMITED", Event::ResendLimited),
        ("DROP_RESULT_IGNORED", Event::ResultIgnored),
        ("DROP_REPLAY_MISFIT", Event::ReplayMisfit),
        ("EVENT_CONTRIBUTION", Event::Contribution),
        ("EVENT_COMPLETED", Event::Completed),
        ("EVENT_REPLAY", Event::Replay),
        ("EVENT_RESEND", Event::Resend),
        ("EVENT_RESULT", Event::Result),
        ("EVENT_PROBE", Event::Probe),
    ];
    for (name, event) in events {
        assert_eq!(value(name), event as u8, "{name}");
    }
}
