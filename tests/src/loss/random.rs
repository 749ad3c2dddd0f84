//! Random schedules, each a function of its seed alone.

use std::time::Duration;

use inca_host_agent::protocol::Tensor;

use super::{Group, Tally, call};
use crate::fabric::{Call, Fabric, Faults, Job, LinkFaults, Node};
use crate::inputs;
use crate::rng::Rng;
use inca_wire::packet::Format;

/// The fabrics that schedules run on.
#[derive(Debug)]
pub struct Schedules {
    fabrics: Vec<(Node, Format, Fabric)>,
}

impl Schedules {
    /// Trees of one to three levels, of both formats, with children of both kinds, of one to three slots.
    ///
    /// # Panics
    /// If a switch refuses an entry.
    pub fn new() -> Self {
        use Node::{Host, Switch};
        let shapes = [
            Node::leaf(2),
            Node::leaf(4),
            Node::two_levels(&[1, 1]),
            Node::two_levels(&[2, 1]),
            Node::two_levels(&[1, 2, 2]),
            Switch(vec![Host, Node::leaf(2)]),
            Switch(vec![Host, Switch(vec![Node::leaf(1), Host])]),
            Switch(vec![Node::two_levels(&[1, 1]), Node::leaf(1)]),
            Switch(vec![Host, Node::two_levels(&[1, 2])]),
        ];
        let fabrics = shapes.iter().enumerate().flat_map(|(index, shape)| {
            crate::rig::FORMATS.map(|format| {
                let job = Job { slots: 1 + (index % 3) as u32, ..Job::new(format) };
                (shape.clone(), format, Fabric::new(shape, job))
            })
        });
        Self { fabrics: fabrics.collect() }
    }

    /// Runs a schedule. One in four begins with a generation that a deadline ends in the middle; what that left on its way and in the
    /// slots meets the next one. In one of eight the generation changes and the same ranks go on, in another one a rank dies and the
    /// others go on.
    pub fn run(&mut self, seed: u64, tally: &mut Tally) {
        let mut rng = Rng::of(&[seed, 0x105e]);
        let index = rng.below(self.fabrics.len());
        let (shape, format, fabric) = &mut self.fabrics[index];
        let faults = LinkFaults {
            loss: rng.pick(&[0, 10, 50, 100, 200]),
            duplicate: rng.pick(&[0, 20, 100, 300]),
            reorder: rng.pick(&[0, 50, 300, 600]),
            late: Duration::from_micros(rng.pick(&[60, 400, 3000, 60_000])),
        };
        fabric.renew_quietly(Faults::random(seed, faults), seed);
        if rng.chance(1, 4) {
            let deadline = Some(Duration::from_micros(rng.below(600) as u64));
            let cut_short = Call { deadline, ..call(fabric, *format, seed, 3) };
            if let Err(stuck) = fabric.run(&[cut_short]) {
                tally.hangs += 1;
                tally.failures.push(format!("seed {seed}, the generation that was cut short: {stuck}"));
            }
            tally.packets_dropped += fabric.sent().lost();
            fabric.renew(Faults::random(!seed, faults), !seed);
        }
        let chunks = 1 + rng.below(4);
        let mut calls = vec![call(fabric, *format, seed, chunks)];
        if rng.chance(1, 2) {
            calls.push(call(fabric, *format, !seed, 1));
        }
        let name = || format!("seed {seed}, {shape:?}, {format}");
        let packets = rng.below(60) as u64;
        tally.schedules += 1;
        match rng.below(8) {
            // The generation changes, perhaps twice.
            0 => {
                fabric.begin(&calls, packets);
                for _ in 0..1 + rng.below(2) {
                    tally.changes += 1;
                    tally.copied += fabric.change() as u64;
                    fabric.deliver(calls.len(), rng.below(30) as u64);
                }
                let outcomes = fabric.finish(calls.len());
                tally.judge(name, outcomes, &right(fabric, &calls));
            }
            // A rank dies, the others go on.
            1 => {
                let dead = rng.below(fabric.world());
                let groups = calls.iter().map(|call| Group::new(call, dead, fabric.chunk_words()));
                let groups: Vec<_> = groups.collect();
                fabric.begin(&calls, packets);
                fabric.kill(dead);
                fabric.deliver(calls.len(), rng.below(30) as u64);
                tally.changes += 1;
                tally.copied += fabric.change() as u64;
                let outcomes = fabric.finish(calls.len());
                tally.note(name, Group::judge_all(&groups, fabric, outcomes));
            }
            _ => {
                let outcomes = fabric.run(&calls);
                tally.judge(name, outcomes, &right(fabric, &calls));
            }
        }
        tally.count(fabric);
    }
}

fn right(fabric: &Fabric, calls: &[Call]) -> Vec<Tensor> {
    calls.iter().map(|call| inputs::expected(call, fabric.chunk_words())).collect()
}

impl Default for Schedules {
    fn default() -> Self {
        Self::new()
    }
}
