//! The same closed loop without a network: frames go into the switch's library and come out of it, on one thread.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use inca_switch::{Output, Switch, SwitchConfig};
use inca_tests::install::install;

use crate::ends::{Ends, FRAME_ROOM, Load};
use crate::generator::Rate;
use crate::rig;

/// Rounds between two looks at the clock.
const ROUNDS: usize = 16;

/// What the switch sends, by port: only the headers are kept, since nobody looks at more.
struct Outbox {
    ports: Vec<Vec<Vec<u8>>>,
    used: Vec<usize>,
}

impl Output for Outbox {
    fn send(&mut self, port: u16, frame: &[u8]) {
        let Some(index) = rig::index_of(port).filter(|index| *index < self.ports.len()) else { return };
        let (frames, used) = (&mut self.ports[index], &mut self.used[index]);
        if *used == frames.len() {
            frames.push(Vec::with_capacity(FRAME_ROOM));
        }
        frames[*used].clear();
        frames[*used].extend_from_slice(&frame[..frame.len().min(FRAME_ROOM)]);
        *used += 1;
    }
}

/// Runs the loop for `warm_up` and then for `time` on a switch of this process.
pub(crate) fn run(load: &Load, program: &Path, warm_up: Duration, time: Duration) -> Result<Rate> {
    let json = program.with_extension("json");
    let text = std::fs::read_to_string(&json).with_context(|| format!("reading {}", json.display()))?;
    let program =
        inca_switch::Program::from_json(&text).with_context(|| format!("loading {}", json.display()))?;
    let config = SwitchConfig { device_id: rig::DEVICE_ID.into(), ..SwitchConfig::default() };
    let mut switch = Switch::new(program, config);
    for entry in rig::tree_entries(load) {
        install(&mut switch, &entry)?;
    }
    let mut ends = Ends::new(load)?;
    let mut out = Outbox { ports: vec![Vec::new(); load.ports()], used: vec![0; load.ports()] };
    let (begin, mut measured_from, mut finished) = (cpu_time(), None, 0u64);
    // Which slots of which port are to be sent.
    let mut due: Vec<Vec<u32>> = vec![(0..load.slots).collect(); load.children];
    due.resize(load.ports(), Vec::new());
    loop {
        let now = cpu_time();
        if measured_from.is_none() && now - begin >= warm_up {
            measured_from = Some((now, finished));
        }
        if let Some((from, before)) = measured_from
            && now - from >= time
        {
            return Ok(Rate::of(load, finished - before, now - from, 0));
        }
        let now_us = (now - begin).as_micros() as u64;
        for _ in 0..ROUNDS {
            for (index, due) in due.iter_mut().enumerate() {
                for frame in ends.frames(index, due) {
                    switch.process(rig::number(index + 1), frame, now_us, &mut out);
                }
                due.clear();
            }
            let mut answered = 0;
            for (index, due) in due.iter_mut().enumerate() {
                for frame in &out.ports[index][..out.used[index]] {
                    due.extend(ends.take(index, frame));
                }
                out.used[index] = 0;
                answered += due.len();
                if index < load.children {
                    finished += due.len() as u64;
                }
            }
            ensure!(answered > 0, "the switch answers nothing");
        }
    }
}

/// Time that this thread had a processor: what others on the machine take does not count.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
