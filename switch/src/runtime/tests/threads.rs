//! Several packet threads: what they share, what they keep apart, and the order of packets.

use std::collections::BTreeMap;

use super::*;
use crate::control::{ActionCall, CounterValue, EntryAction, EntryKey, MatchKey, TableEntry};
use crate::switch::Switch;

const PORTS: [u16; 4] = [1, 2, 3, 4];
const FRAMES: usize = 1500;

fn slots() -> Arc<Program> {
    Arc::new(Program::from_json(include_str!("../../../tests/programs/slots.json")).unwrap())
}

fn config(threads: usize) -> SwitchConfig {
    SwitchConfig { threads, order_by: Some("slot.slot".to_owned()), ..SwitchConfig::default() }
}

fn key(slot: u8) -> Vec<MatchKey> {
    vec![MatchKey::Exact(vec![slot])]
}

/// An entry that sends a slot's packets back, or out of a port.
fn route(switch: &Switch, slot: u8, port: Option<u8>) -> TableEntry {
    let table = switch.program().table("I.route").unwrap();
    let name = if port.is_some() { "I.send" } else { "I.back" };
    let action = switch.program().table_action(table, name).unwrap();
    let call = ActionCall { action, args: port.map(|port| vec![port]).into_iter().collect() };
    TableEntry {
        keys: key(slot),
        priority: 0,
        action: EntryAction::Call(call),
        metadata: vec![],
        idle_timeout_ns: 0,
    }
}

fn frame(slot: u8, value: u8) -> Vec<u8> {
    let mut frame = vec![slot, value];
    frame.resize(60, 0);
    frame
}

/// What the chain of a slot holds after these values.
fn chain(values: impl IntoIterator<Item = u8>) -> u32 {
    values.into_iter().fold(0, |chain: u32, value| chain.wrapping_mul(31).wrapping_add(value.into()))
}

/// Frames of each port: slots that no other port uses, in a mixed order.
fn traffic(port: u16) -> Vec<(u8, u8)> {
    let slot = |i: usize| (port as u8 - 1) * 64 + (i * 29 % 61) as u8;
    (0..FRAMES).map(|i| (slot(i), (i * 7 + usize::from(port)) as u8)).collect()
}

fn run(threads: usize) -> bool {
    let (specs, hosts) = wires(&PORTS);
    let running = start(config(threads), &specs, &Loss::default(), Some(slots())).unwrap();
    let rules = |switch: &mut Switch| {
        let table = switch.program().table("I.route").unwrap();
        (0..=255).try_for_each(|slot| switch.table_insert(table, route(switch, slot, None)))
    };
    block_on(running.handle.with_rules(rules)).unwrap().unwrap();
    // Small bursts of all ports in turn, so that the kernel's queues hold them.
    let mut sent = vec![0; PORTS.len()];
    let mut got: Vec<Vec<Vec<u8>>> = vec![Vec::new(); PORTS.len()];
    while sent[0] < FRAMES {
        for (i, (host, port)) in hosts.iter().zip(PORTS).enumerate() {
            let burst: Vec<Vec<u8>> = traffic(port)
                .iter()
                .skip(sent[i])
                .take(50)
                .map(|(slot, value)| frame(*slot, *value))
                .collect();
            send(host, &burst.iter().map(Vec::as_slice).collect::<Vec<_>>());
            sent[i] += burst.len();
        }
        for (i, host) in hosts.iter().enumerate() {
            let missing = sent[i] - got[i].len();
            got[i].extend(receive_within(host, missing, Duration::from_secs(2)));
            if got[i].len() < sent[i] {
                finish(running);
                return false;
            }
        }
    }
    // Every slot saw its packets in order: what each brought back is the chain up to it.
    let mut want: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for (port, got) in PORTS.into_iter().zip(&got) {
        let mut of_slot: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for frame in got {
            let result = u32::from_be_bytes(frame[2..6].try_into().unwrap());
            of_slot.entry(frame[0]).or_default().push(result);
        }
        let mut values: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (slot, value) in traffic(port) {
            values.entry(slot).or_default().push(value);
        }
        for (slot, values) in values {
            let chains: Vec<u32> = (1..=values.len()).map(|n| chain(values[..n].to_vec())).collect();
            assert_eq!(of_slot[&slot], chains, "slot {slot}");
            want.insert(slot, values);
        }
    }
    // The control plane sees one switch: registers, counters, hits of entries.
    let found = running.handle.with_blocking(|switch| {
        let program = Arc::clone(switch.program());
        let (table, chains) = (program.table("I.route").unwrap(), program.register("I.chains").unwrap());
        let counter = program.counter("I.slots").unwrap();
        let of = |slot: u8| {
            let view = switch.table_get(table, &EntryKey { keys: key(slot), priority: 0 }).unwrap();
            let register = switch.register_read(chains, slot.into()).unwrap();
            (register, switch.counter_read(counter, slot.into()).unwrap(), view.counter.unwrap())
        };
        (0..=255).map(of).collect::<Vec<_>>()
    });
    for (slot, (register, count, hits)) in found.unwrap().into_iter().enumerate() {
        let values = want.get(&(slot as u8)).cloned().unwrap_or_default();
        let packets = values.len() as u64;
        let value = register.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        assert_eq!(value, chain(values), "slot {slot}");
        assert_eq!(count, CounterValue { packets, bytes: packets * 60 }, "slot {slot}");
        assert_eq!(hits.packets, packets, "slot {slot}");
    }
    let stats = block_on(running.handle.stats()).unwrap();
    assert!(
        stats.ports.iter().all(|(_, s)| s.rx_frames as usize == FRAMES && s.tx_frames as usize == FRAMES)
    );
    assert_eq!(stats.handed_dropped, 0);
    finish(running);
    true
}

#[test]
fn slots_keep_their_order_with_any_number_of_threads() {
    for threads in [1, 2, 3, 5] {
        with_namespace("slots_keep_their_order_with_any_number_of_threads", move || {
            let mut first = true;
            attempts(|| {
                // A namespace of its own for each attempt would cost more than the cables.
                if !std::mem::take(&mut first) {
                    PORTS.iter().for_each(|port| ip(&format!("link del s{port}")));
                }
                run(threads)
            });
        });
    }
}

#[test]
fn all_threads_have_what_the_control_plane_wrote() {
    with_namespace("all_threads_have_what_the_control_plane_wrote", || {
        let (specs, hosts) = wires(&[1, 2]);
        // No program yet; then one by the control plane.
        let running = start(config(3), &specs, &Loss::default(), None).unwrap();
        assert_eq!(block_on(running.handle.with_rules(|_| ())), Err(RuntimeError::NoProgram));
        block_on(running.handle.load(slots())).unwrap();
        let write = |switch: &mut Switch| {
            let program = Arc::clone(switch.program());
            let (table, chains) = (program.table("I.route").unwrap(), program.register("I.chains").unwrap());
            let counter = program.counter("I.slots").unwrap();
            for slot in 0..6 {
                switch.table_insert(table, route(switch, slot, None)).unwrap();
                switch.register_write(chains, slot.into(), &[7]).unwrap();
                let value = CounterValue { packets: 10, bytes: 0 };
                switch.counter_write(counter, slot.into(), value).unwrap();
            }
            [1, 2]
                .into_iter()
                .for_each(|port| switch.table_insert(table, route(switch, 200 + port, Some(port))).unwrap());
        };
        running.handle.with_blocking(write).unwrap();
        // A new link drops frames until the kernel has seen that it is up.
        for (host, slot) in hosts.iter().zip([201, 202]) {
            attempts(|| {
                send(&hosts[0], &[&frame(slot, 0)]);
                !receive_within(host, 1, Duration::from_secs(1)).is_empty()
            });
        }
        let answers = |slots: std::ops::Range<u8>| {
            slots.for_each(|slot| send(&hosts[0], &[&frame(slot, 1)]));
            let mut got = receive(&hosts[0], 6);
            got.sort();
            got.iter().map(|f| (f[0], f[5])).collect::<Vec<_>>()
        };
        assert_eq!(answers(0..6), (0..6).map(|slot| (slot, (7 * 31 + 1) as u8)).collect::<Vec<_>>());
        // A change of rules holds for every packet after it, whichever thread it is for.
        let away = |switch: &mut Switch| {
            let table = switch.program().table("I.route").unwrap();
            (0..6).for_each(|slot| switch.table_modify(table, route(switch, slot, Some(2))).unwrap());
        };
        block_on(running.handle.with_rules(away)).unwrap();
        (0..6).for_each(|slot| send(&hosts[0], &[&frame(slot, 1)]));
        assert_eq!(receive(&hosts[1], 6).len(), 6);
        // Both ways of writing see what the other has done.
        let entries = |switch: &mut Switch| {
            let (table, counter) =
                (switch.program().table("I.route").unwrap(), switch.program().counter("I.slots").unwrap());
            let counts: Vec<u64> =
                (0..6).map(|slot| switch.counter_read(counter, slot).unwrap().packets).collect();
            (switch.table_entries(table).unwrap(), counts)
        };
        let (entries, counts) = running.handle.with_blocking(entries).unwrap();
        assert_eq!(counts, [12; 6]);
        let entries = &entries[..6];
        assert!(entries.iter().all(|view| view.counter.unwrap().packets == 2), "{entries:?}");
        assert!(
            entries
                .iter()
                .all(|view| matches!(&view.entry.action, EntryAction::Call(call) if call.args == [[2]]))
        );
        // A fresh program begins with nothing, in all threads.
        block_on(running.handle.load(slots())).unwrap();
        let table_len =
            |switch: &mut Switch| switch.table_len(switch.program().table("I.route").unwrap()).unwrap();
        assert_eq!(block_on(running.handle.with_rules(table_len)), Ok(0));
        block_on(running.handle.with_rules(|switch: &mut Switch| {
            let table = switch.program().table("I.route").unwrap();
            (0..6).for_each(|slot| switch.table_insert(table, route(switch, slot, None)).unwrap());
        }))
        .unwrap();
        assert_eq!(answers(0..6), (0..6).map(|slot| (slot, 1)).collect::<Vec<_>>());
        finish(running);
    });
}

#[test]
fn packets_that_no_field_orders_are_one_threads() {
    with_namespace("packets_that_no_field_orders_are_one_threads", || {
        let (specs, hosts) = wires(&[1, 4]);
        // This program has no such field: it runs, in order, on one thread.
        let running = start(config(3), &specs, &Loss::default(), Some(program())).unwrap();
        let sent: Vec<Vec<u8>> = (0..100).map(|i| super::frame(5, i, 60)).collect();
        send(&hosts[0], &sent.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(receive(&hosts[1], 100), sent);
        finish(running);
    });
    let error = start(config(65), &[], &Loss::default(), None).unwrap_err();
    assert_eq!(error.to_string(), "65 packet threads given; valid are 1 to 64");
    assert!(matches!(start(config(0), &[], &Loss::default(), None), Err(StartError::Threads { threads: 0 })));
}
