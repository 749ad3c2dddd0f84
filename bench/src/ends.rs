//! The two ends of a switch under test: children that contribute to its slots, and a parent above a leaf. They know nothing of
//! how their frames travel.

use std::net::Ipv4Addr;

use anyhow::Result;
use inca_controller::program::formats::FormatSpec;
use inca_wire::address::MacAddr;
use inca_wire::frame::{OUTER_LEN, UdpFrame};
use inca_wire::packet::{
    EXP_BIAS, Flags, Format, HEADER_LEN, Header, Opcode, PARENT_MEMBER, Packet, WORD_BYTES,
};

/// How much of a frame is looked at: all headers.
pub(crate) const FRAME_ROOM: usize = 128;

/// What the switch under test is in its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Root, with hosts below.
    Single,
    /// Hosts below, a parent above.
    Leaf,
    /// Root, with switches below.
    Root,
}

impl Role {
    /// Its name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Leaf => "leaf",
            Self::Root => "root",
        }
    }

    /// Packets a child sends per sequence.
    pub(crate) const fn packets_per_sequence(self) -> usize {
        if matches!(self, Self::Root) { 2 } else { 1 }
    }
}

/// One measurement's load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The switch's role.
    pub(crate) role: Role,
    /// Children of the switch, at ports 1, 2, ...; a leaf's parent is at the next port.
    pub(crate) children: usize,
    /// Slots that each child keeps busy.
    pub(crate) slots: u32,
    /// Words a packet.
    pub(crate) words: u8,
    /// Tree and generation that the switch was programmed with.
    pub(crate) tree_id: u16,
    /// See `tree_id`.
    pub(crate) generation: u32,
    /// Service address of the switch.
    pub(crate) service: (MacAddr, Ipv4Addr),
}

impl Load {
    /// Ports in use.
    pub(crate) fn ports(&self) -> usize {
        self.children + usize::from(self.role == Role::Leaf)
    }

    /// Ranks in the whole tree: where the children are switches each stands for one rank.
    pub(crate) fn world(&self) -> u16 {
        self.children as u16
    }
}

/// Address of whoever is at this port.
pub(crate) fn neighbour(port: usize) -> (MacAddr, Ipv4Addr) {
    (MacAddr([2, 0, 0, 0, 0, port as u8]), Ipv4Addr::new(10, 0, 0, port as u8))
}

/// Everybody around the switch.
pub(crate) struct Ends {
    children: Vec<Child>,
    parent: Option<Parent>,
}

impl Ends {
    /// All slots at their first sequence.
    pub(crate) fn new(load: &Load) -> Result<Self> {
        let children = (0..load.children).map(|index| child(load, index)).collect::<Result<_>>()?;
        let parent = (load.role == Role::Leaf).then(|| Parent::new(load)).transpose()?;
        Ok(Self { children, parent })
    }

    /// What the neighbour at place `index` (the children, then the parent) has to send for these slots.
    pub(crate) fn frames<'a>(&'a self, index: usize, slots: &'a [u32]) -> impl Iterator<Item = &'a [u8]> {
        let child = self.children.get(index);
        let parent = if child.is_none() { self.parent.as_ref() } else { None };
        slots.iter().flat_map(move |slot| {
            let of_child = child.map_or(&[][..], |child| &child.frames[*slot as usize]);
            let of_parent = parent.map(|parent| &parent.frames[*slot as usize]);
            of_child.iter().chain(of_parent).map(Vec::as_slice)
        })
    }

    /// Takes a frame that came to the neighbour at place `index`. If it lets a slot go on: that slot, which is to be sent now.
    pub(crate) fn take(&mut self, index: usize, frame: &[u8]) -> Option<u32> {
        match self.children.get_mut(index) {
            Some(child) => child.advance(frame),
            None => self.parent.as_mut()?.absorb(frame),
        }
    }
}

/// A child's frames and where it is, per slot.
struct Child {
    frames: Vec<Vec<Vec<u8>>>,
    sequence: Vec<u32>,
}

impl Child {
    /// If the frame is the awaited result of a slot: that slot, its frames now those of the next sequence.
    fn advance(&mut self, frame: &[u8]) -> Option<u32> {
        let packet = headers(frame)?;
        if packet.opcode() != Ok(Opcode::Result) {
            return None;
        }
        let slot = packet.slot();
        let sequence = self.sequence.get_mut(slot as usize)?;
        if packet.sequence() != *sequence {
            return None;
        }
        *sequence += 1;
        for frame in &mut self.frames[slot as usize] {
            set_sequence(frame, *sequence);
        }
        Some(slot)
    }
}

/// The reduction header of a received frame.
fn headers(frame: &[u8]) -> Option<Packet<&[u8]>> {
    (frame.len() >= OUTER_LEN + HEADER_LEN).then(|| Packet::new_unchecked(&frame[OUTER_LEN..]))
}

fn set_sequence(frame: &mut [u8], sequence: u32) {
    Packet::new_unchecked(&mut frame[OUTER_LEN..]).set_sequence(sequence);
}

fn child(load: &Load, index: usize) -> Result<Child> {
    let mut frames = Vec::new();
    for slot in 0..load.slots {
        let mut of_slot = Vec::new();
        for plane in 0..load.role.packets_per_sequence() {
            let mut header = header(load, slot, index as u16);
            if load.role == Role::Root {
                header.opcode = Opcode::Partial;
                header.plane = plane as u8;
                // One host's block, shifted up by the guard bits, as a leaf sends it.
                header.bias = 1 << (15 + guard(load));
            }
            of_slot.push(frame(load, index + 1, &header, index as u64 * 1000 + u64::from(slot))?);
        }
        frames.push(of_slot);
    }
    Ok(Child { frames, sequence: vec![1; load.slots as usize] })
}

/// Guard bits of the group, as the switch is programmed with them.
fn guard(load: &Load) -> u16 {
    FormatSpec::of(Format::Bfp16).guard_bits(load.world())
}

fn header(load: &Load, slot: u32, member: u16) -> Header {
    let mut header = Header::new(Opcode::Contribution, Format::Bfp16, load.tree_id, load.generation);
    header.slot = slot;
    header.sequence = 1;
    header.tag = 0x1234_5678;
    header.member = member;
    header.words = load.words;
    header.contributions = 1;
    // Ranks' exponents differ, as those of real gradients do.
    header.exp_max = EXP_BIAS - member % 3;
    header.exp_min = header.exp_max;
    header
}

fn frame(load: &Load, port: usize, header: &Header, seed: u64) -> Result<Vec<u8>> {
    let mut payload = header.to_bytes().to_vec();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let wide = header.opcode == Opcode::Partial;
    while payload.len() < HEADER_LEN + usize::from(header.words) * WORD_BYTES {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let narrow = (state >> 48) as u16;
        if wide {
            payload.extend((u32::from(narrow) << guard(load)).to_be_bytes());
        } else {
            payload.extend(narrow.max(1).to_be_bytes());
        }
    }
    Ok(UdpFrame::to_switch(neighbour(port), load.service).emit(&payload)?)
}

/// Stands for everything above a leaf: answers each complete sum with a result.
struct Parent {
    frames: Vec<Vec<u8>>,
    planes: Vec<u8>,
    sequence: Vec<u32>,
}

impl Parent {
    fn new(load: &Load) -> Result<Self> {
        let mut frames = Vec::new();
        for slot in 0..load.slots {
            let mut header = header(load, slot, PARENT_MEMBER);
            header.opcode = Opcode::Result;
            header.flags = Flags::NONE;
            header.contributions = load.world();
            frames.push(frame(load, load.ports(), &header, u64::from(slot))?);
        }
        let slots = load.slots as usize;
        Ok(Self { frames, planes: vec![0; slots], sequence: vec![0; slots] })
    }

    /// If the frame completes a slot's sum: that slot, its frame now that sequence's result.
    fn absorb(&mut self, frame: &[u8]) -> Option<u32> {
        let packet = headers(frame)?;
        if packet.opcode() != Ok(Opcode::Partial) {
            return None;
        }
        let (slot, sequence) = (packet.slot(), packet.sequence());
        let index = slot as usize;
        if *self.sequence.get(index)? != sequence {
            self.sequence[index] = sequence;
            self.planes[index] = 0;
            set_sequence(&mut self.frames[index], sequence);
        }
        self.planes[index] |= 1 << packet.plane();
        (self.planes[index] == 3).then_some(slot)
    }
}
