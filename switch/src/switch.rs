//! The switch: one program, its state, and the packet path of BMv2's `simple_switch`, run to completion.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::control::{DigestRecord, Replica};
use crate::exec::rules::Rules;
use crate::exec::state::State;
use crate::exec::{Machine, PacketState, RuntimeFaults};
use crate::program::op::Loc;
use crate::program::{DigestId, EgressWrite, Kept, OrderBy, Program, StdField};

/// `instance_type` of packets, as simple_switch numbers them.
mod instance {
    pub(super) const NORMAL: u64 = 0;
    pub(super) const INGRESS_CLONE: u64 = 1;
    pub(super) const EGRESS_CLONE: u64 = 2;
    pub(super) const RECIRCULATED: u64 = 4;
    pub(super) const REPLICATED: u64 = 5;
    pub(super) const RESUBMITTED: u64 = 6;
}

/// Settings of a switch.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// P4Runtime device id.
    pub device_id: u64,
    /// Port whose packets are packet-in and packet-out.
    pub cpu_port: u16,
    /// `egress_spec` value that means drop.
    pub drop_port: u16,
    /// Seed of the program's `random`.
    pub seed: u64,
    /// Most clones, resubmissions and recirculations that one received frame may cause; what is beyond is dropped and
    /// counted. BMv2 has no limit and would go on for ever.
    pub max_passes: u32,
    /// Packet threads, each with registers of its own; 1 and more.
    pub threads: usize,
    /// Header field, as in `inca.slot`, by whose value packets are the threads': those of one value are processed one after another,
    /// by one thread. Packets without the header are the first thread's. A program without this field, or with meters, has all its
    /// packets processed by the first.
    pub order_by: Option<String>,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            device_id: 0,
            cpu_port: 255,
            drop_port: 511,
            seed: 0,
            max_passes: 1024,
            threads: 1,
            order_by: None,
        }
    }
}

/// Receives what the switch sends.
pub trait Output {
    /// A frame leaves by this port. The slice lives for the call only.
    fn send(&mut self, port: u16, frame: &[u8]);

    /// A digest message; dropped unless overridden.
    fn digest(&mut self, _digest: DigestId, _record: DigestRecord) {}
}

impl Output for Vec<(u16, Vec<u8>)> {
    fn send(&mut self, port: u16, frame: &[u8]) {
        self.push((port, frame.to_vec()));
    }
}

/// A switch running one program over virtual ports and virtual time.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    program: Arc<Program>,
    pub(crate) machine: Machine,
    buffers: Buffers,
    pub(crate) now_us: u64,
    /// The switches of the other packet threads, while the control plane has them all.
    pub(crate) peers: Vec<Switch>,
    share: Option<Share>,
}

/// Which packets are a thread's.
#[derive(Debug)]
struct Share {
    order_by: Option<OrderBy>,
    threads: u64,
    me: usize,
}

impl Share {
    /// The other thread that a parsed packet belongs to.
    fn other(&self, memory: &[u64]) -> Option<usize> {
        let value = self.order_by.and_then(|field| field.value(memory)).unwrap_or(0);
        let owner = (value % self.threads) as usize;
        (owner != self.me).then_some(owner)
    }
}

/// Memory that is used again for every packet.
#[derive(Debug, Default)]
struct Buffers {
    out: Vec<u8>,
    /// What egress may write, as ingress left it.
    snapshot: Vec<u64>,
    /// Where in the packet's memory the parts of the snapshot belong.
    ranges: Vec<Range<usize>>,
    replicas: Vec<Replica>,
    /// Whole packets put aside while a clone is processed.
    spare: Vec<Vec<u64>>,
    again: VecDeque<Pass>,
}

/// A packet that goes through ingress once more.
#[derive(Debug)]
struct Pass {
    frame: Vec<u8>,
    instance: u64,
    kept: Vec<(Kept, Vec<u64>)>,
}

impl Switch {
    /// A switch with empty tables (but for the program's entries), zero registers and counters.
    pub fn new(program: impl Into<Arc<Program>>, config: SwitchConfig) -> Self {
        let mut switch = Self::with_state(program.into(), config, |program, config| {
            State::new(program, config.seed, false)
        });
        switch.install_program_entries();
        switch
    }

    /// Like [`Self::new`], but it has no registers, counters and meters: only what the control plane says.
    pub(crate) fn rules_only(program: Arc<Program>, config: SwitchConfig) -> Self {
        let mut switch = Self::with_state(program, config, |_, _| State::none());
        switch.install_program_entries();
        switch
    }

    /// The parts of a switch, one for each thread ([`SwitchConfig::threads`]): they share the rules, and each has registers and
    /// counters of its own.
    pub(crate) fn parts(program: &Arc<Program>, config: &SwitchConfig) -> Vec<Self> {
        let first = Self::new(Arc::clone(program), config.clone());
        if config.threads <= 1 {
            return vec![first];
        }
        let order_by = config.order_by.as_deref().map(|field| program.order_by(field));
        if let Some(Err(error)) = &order_by {
            tracing::warn!(%error, "one thread has to process all packets");
        }
        let order_by = order_by.and_then(Result::ok);
        if order_by.is_some() {
            tracing::info!(config.threads, config.order_by, "packet threads share the packets");
        }
        let rules = &first.machine.rules;
        let part = |me: usize| {
            // Threads draw different random numbers.
            let config = SwitchConfig { seed: config.seed.wrapping_add(me as u64), ..config.clone() };
            let state = |program: &Program, config: &SwitchConfig| State::new(program, config.seed, true);
            let mut part = Self::with_state(Arc::clone(program), config, state);
            part.machine.rules = Arc::clone(rules);
            part.share = Some(Share { order_by, threads: part.config.threads as u64, me });
            part
        };
        (0..config.threads).map(part).collect()
    }

    fn with_state(
        program: Arc<Program>,
        config: SwitchConfig,
        state: impl FnOnce(&Program, &SwitchConfig) -> State,
    ) -> Self {
        let rules = Arc::new(Rules::new(&program));
        let machine = Machine::new(&program, rules, state(&program, &config), config.drop_port);
        Self {
            config,
            program,
            machine,
            buffers: Buffers::default(),
            now_us: 0,
            peers: Vec::new(),
            share: None,
        }
    }

    /// Processes one frame to the end: every copy, clone, resubmission and recirculation.
    /// `now_us` is the switch's clock, in microseconds; it should not go back.
    pub fn process(&mut self, ingress_port: u16, frame: &[u8], now_us: u64, out: &mut impl Output) {
        let _ = self.process_own(ingress_port, frame, now_us, out);
    }

    /// [`Self::process`], but only if the packet is this thread's.
    ///
    /// # Errors
    /// The thread that it belongs to.
    pub(crate) fn process_own(
        &mut self,
        ingress_port: u16,
        frame: &[u8],
        now_us: u64,
        out: &mut impl Output,
    ) -> Result<(), usize> {
        self.now_us = now_us;
        self.machine.state.now_us = now_us;
        let Self { config, program, machine, buffers, share, .. } = self;
        let mut run = Run {
            program,
            config,
            m: machine,
            b: buffers,
            out,
            port: ingress_port,
            now_us,
            passes: config.max_passes,
        };
        run.ingress(frame, None, share.as_ref())?;
        while let Some(pass) = run.b.again.pop_front() {
            run.ingress(&pass.frame, Some(&pass), None)?;
        }
        Ok(())
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The settings.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Replaces the program. All state goes: tables, registers, counters, groups, sessions.
    pub fn load(&mut self, program: impl Into<Arc<Program>>) {
        let now_us = self.now_us;
        *self = Self::new(program, self.config.clone());
        self.now_us = now_us;
    }

    /// Moves the clock on without a packet: entries inserted from now on count as idle from here.
    pub fn set_clock(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// What went wrong inside programs since the switch was made.
    pub fn faults(&self) -> RuntimeFaults {
        self.threads().fold(RuntimeFaults::default(), |sum, switch| sum.plus(switch.machine.faults))
    }

    /// The rules, to change them: packets go on with the snapshot that they have.
    pub(crate) fn rules_mut(&mut self) -> &mut Rules {
        Arc::make_mut(&mut self.machine.rules)
    }

    /// This switch and those of its other threads.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &Switch> {
        std::iter::once(self).chain(&self.peers)
    }

    /// What packets left behind, of each thread.
    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = &mut State> {
        std::iter::once(&mut self.machine.state)
            .chain(self.peers.iter_mut().map(|peer| &mut peer.machine.state))
    }
}

/// One received frame's way through the switch.
struct Run<'a, O: Output> {
    program: &'a Program,
    config: &'a SwitchConfig,
    m: &'a mut Machine,
    b: &'a mut Buffers,
    out: &'a mut O,
    port: u16,
    now_us: u64,
    passes: u32,
}

impl<O: Output> Run<'_, O> {
    fn set(&mut self, field: StdField, value: u64) {
        self.m.set_std(self.program, field, value);
    }

    fn reset(&mut self) {
        let end = self.program.layout.reset_end as usize;
        self.m.mem[..end].fill(0);
    }

    fn reset_metadata(&mut self) {
        let (start, end) = (self.program.layout.metadata as usize, self.program.layout.reset_end as usize);
        self.m.mem[start..end].fill(0);
    }

    fn parse(&mut self, frame: &[u8]) -> PacketState {
        let mut packet = PacketState::new(frame.len(), self.now_us);
        self.m.run(self.program, &mut packet, frame, self.program.parser_start);
        packet
    }

    /// One pass. `Err`: the packet is another thread's, and nothing happened.
    fn ingress(&mut self, frame: &[u8], pass: Option<&Pass>, share: Option<&Share>) -> Result<(), usize> {
        self.reset();
        match pass {
            None => {
                self.set(StdField::IngressPort, self.port.into());
                self.set(StdField::InstanceType, instance::NORMAL);
                self.set(StdField::IngressTimestamp, self.now_us);
            }
            // Metadata of these starts from zero, but for what the field list keeps.
            Some(pass) => {
                self.restore_kept(&pass.kept);
                self.set(StdField::InstanceType, pass.instance);
            }
        }
        self.set(StdField::PacketLength, frame.len() as u64);
        let mut packet = self.parse(frame);
        if let Some(owner) = share.and_then(|share| share.other(&self.m.mem)) {
            return Err(owner);
        }
        let error = packet.error.unwrap_or(self.program.errors.no_error);
        self.set(StdField::ParserError, error);
        let wrong = self.verify_checksums(&mut packet, frame);
        self.set(StdField::ChecksumError, wrong.into());
        self.m.run(self.program, &mut packet, frame, self.program.ingress_start);
        packet.exit = false;
        self.after_ingress(packet, frame);
        Ok(())
    }

    fn verify_checksums(&mut self, packet: &mut PacketState, frame: &[u8]) -> bool {
        let mut wrong = false;
        for checksum in self.program.checksums.iter().filter(|c| c.verify) {
            if checksum.valid != Loc::MAX && self.m.mem[checksum.valid as usize] == 0 {
                continue;
            }
            if checksum.condition.is_none_or(|c| self.m.holds(self.program, packet, frame, c)) {
                let payload = frame.get(packet.parsed..).unwrap_or(&[]);
                let sum = self.m.calculate(self.program, checksum.calculation, payload);
                wrong |= sum != self.m.mem[checksum.target as usize];
            }
        }
        wrong
    }

    fn after_ingress(&mut self, mut packet: PacketState, frame: &[u8]) {
        let egress_spec = self.m.std(self.program, StdField::EgressSpec);
        let group = self.m.std(self.program, StdField::McastGrp);
        if let Some((session, fields)) = packet.clone.take() {
            self.clone_ingress(session, fields, frame);
        }
        if packet.digest != 0 {
            self.digest(packet.digest);
        }
        if packet.resubmit != 0 {
            self.again(frame.to_vec(), instance::RESUBMITTED, packet.resubmit);
            return;
        }
        if group != 0 {
            self.set(StdField::InstanceType, instance::REPLICATED);
            let mut replicas = std::mem::take(&mut self.b.replicas);
            replicas.clear();
            match self.m.rules.multicast.get(&(group as u32)) {
                Some(copies) => replicas.extend(&**copies),
                None => self.m.faults.unknown_groups += 1,
            }
            self.replicate(&packet.copied(), frame, &replicas);
            self.b.replicas = replicas;
            return;
        }
        if egress_spec == u64::from(self.config.drop_port) {
            return;
        }
        self.set(StdField::InstanceType, instance::NORMAL);
        self.egress(egress_spec as u16, packet, frame);
    }

    /// One copy per replica, each from the packet as it is now.
    fn replicate(&mut self, packet: &PacketState, frame: &[u8], replicas: &[Replica]) {
        let Some((last, others)) = replicas.split_last() else { return };
        let mut snapshot = std::mem::take(&mut self.b.snapshot);
        let mut ranges = std::mem::take(&mut self.b.ranges);
        if !others.is_empty() {
            snapshot.clear();
            ranges.clear();
            let held = |w: &&EgressWrite| w.valid.is_none_or(|valid| self.m.mem[valid as usize] != 0);
            for write in self.program.egress_writes.iter().filter(held) {
                let range = write.at as usize..(write.at + write.limbs) as usize;
                snapshot.extend_from_slice(&self.m.mem[range.clone()]);
                ranges.push(range);
            }
        }
        for replica in others {
            self.copy_out(packet, frame, *replica);
            let mut rest = snapshot.as_slice();
            for range in &ranges {
                let (part, more) = rest.split_at(range.len());
                self.m.mem[range.clone()].copy_from_slice(part);
                rest = more;
            }
        }
        self.b.snapshot = snapshot;
        self.b.ranges = ranges;
        self.copy_out(packet, frame, *last);
    }

    fn copy_out(&mut self, packet: &PacketState, frame: &[u8], replica: Replica) {
        self.set(StdField::EgressRid, replica.instance.into());
        self.egress(replica.port, packet.clone(), frame);
    }

    fn egress(&mut self, port: u16, mut packet: PacketState, frame: &[u8]) {
        self.set(StdField::EnqTimestamp, self.now_us);
        self.set(StdField::EgressTimestamp, self.now_us);
        self.set(StdField::EgressPort, port.into());
        // Anything but the drop port.
        self.set(StdField::EgressSpec, u64::from(self.config.drop_port) + 1);
        self.set(StdField::PacketLength, packet.length);
        self.m.run(self.program, &mut packet, frame, self.program.egress_start);
        if let Some((session, fields)) = packet.clone.take() {
            self.clone_egress(session, fields, &packet, frame);
        }
        if self.m.std(self.program, StdField::EgressSpec) == u64::from(self.config.drop_port) {
            return;
        }
        let mut bytes = std::mem::take(&mut self.b.out);
        self.deparse(&mut packet, frame, &mut bytes);
        if packet.recirculate != 0 {
            self.again(bytes.clone(), instance::RECIRCULATED, packet.recirculate);
        } else {
            self.out.send(port, &bytes);
        }
        self.b.out = bytes;
    }

    fn deparse(&mut self, packet: &mut PacketState, frame: &[u8], bytes: &mut Vec<u8>) {
        let payload = frame.get(packet.parsed..).unwrap_or(&[]);
        for checksum in self.program.checksums.iter().filter(|c| c.update) {
            if checksum.condition.is_none_or(|c| self.m.holds(self.program, packet, frame, c)) {
                let sum = self.m.calculate(self.program, checksum.calculation, payload);
                self.m.mem[checksum.target as usize] = sum & checksum.mask;
            }
        }
        bytes.clear();
        self.m.emit(self.program, bytes);
        bytes.extend_from_slice(payload);
        bytes.truncate(usize::try_from(packet.truncate).unwrap_or(usize::MAX));
    }

    fn pass_left(&mut self) -> bool {
        if self.passes == 0 {
            self.m.faults.loops_cut += 1;
            return false;
        }
        self.passes -= 1;
        true
    }

    fn again(&mut self, frame: Vec<u8>, instance: u64, fields: u16) {
        if self.pass_left() {
            let kept = self.kept(fields);
            self.b.again.push_back(Pass { frame, instance, kept });
        }
    }

    fn kept(&self, fields: u16) -> Vec<(Kept, Vec<u64>)> {
        let list = self.program.field_lists.get(&fields).map_or(&[][..], Vec::as_slice);
        let value = |k: &Kept| self.m.mem[k.at as usize..k.at as usize + usize::from(k.limbs)].to_vec();
        list.iter().map(|k| (*k, value(k))).collect()
    }

    fn restore_kept(&mut self, kept: &[(Kept, Vec<u64>)]) {
        for (field, value) in kept {
            let at = field.at as usize;
            self.m.mem[at..at + value.len()].copy_from_slice(value);
        }
    }

    fn put_aside(&mut self) -> Vec<u64> {
        let mut saved = self.b.spare.pop().unwrap_or_default();
        saved.clear();
        saved.extend_from_slice(&self.m.mem[..self.program.layout.packet_end as usize]);
        saved
    }

    fn take_back(&mut self, saved: Vec<u64>) {
        self.m.mem[..saved.len()].copy_from_slice(&saved);
        self.b.spare.push(saved);
    }

    /// Replicas of a clone session and its length limit.
    fn session(&mut self, session: u16) -> Option<(Vec<Replica>, u64)> {
        match self.m.rules.sessions.get(&u32::from(session)) {
            Some(s) => {
                let limit = if s.packet_length_bytes == 0 { u64::MAX } else { s.packet_length_bytes.into() };
                Some((s.replicas.clone(), limit))
            }
            None => {
                self.m.faults.unknown_groups += 1;
                None
            }
        }
    }

    /// A clone of the packet as it came in: parsed again, without what ingress did.
    fn clone_ingress(&mut self, session: u16, fields: u16, frame: &[u8]) {
        let Some((replicas, limit)) = self.session(session) else { return };
        if !self.pass_left() {
            return;
        }
        let kept = self.kept(fields);
        let saved = self.put_aside();
        self.reset();
        self.set(StdField::IngressPort, self.port.into());
        let mut packet = self.parse(frame).copied();
        packet.truncate = limit;
        self.reset_metadata();
        self.restore_kept(&kept);
        self.set(StdField::InstanceType, instance::INGRESS_CLONE);
        self.replicate(&packet, frame, &replicas);
        self.take_back(saved);
    }

    /// A clone of the packet as egress leaves it.
    fn clone_egress(&mut self, session: u16, fields: u16, packet: &PacketState, frame: &[u8]) {
        let Some((replicas, limit)) = self.session(session) else { return };
        if !self.pass_left() {
            return;
        }
        let kept = self.kept(fields);
        let saved = self.put_aside();
        self.reset_metadata();
        self.restore_kept(&kept);
        self.set(StdField::InstanceType, instance::EGRESS_CLONE);
        let mut copy = packet.copied();
        copy.truncate = limit;
        self.replicate(&copy, frame, &replicas);
        self.take_back(saved);
    }

    fn digest(&mut self, id: u16) {
        let Some(index) = self.program.learn_lists.iter().position(|(list, _)| *list == id) else { return };
        let fields = self.program.learn_lists[index].1.iter().map(|field| {
            let value = &self.m.mem[field.at as usize..field.at as usize + usize::from(field.limbs)];
            crate::control::shortest(value)
        });
        let record = DigestRecord { fields: fields.collect() };
        self.out.digest(DigestId(index as u32), record);
    }
}
