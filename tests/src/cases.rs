//! Short exchanges with one switch whose right outcome is known: late duplicates, lost results, bad slots, cut packets. They run on
//! the embedded switch and on BMv2 alike.

use inca_wire::address::{service_address, service_mac};
use inca_wire::frame::UdpFrame;
use inca_wire::packet::{
    EXP_BIAS, Flags, Format, Header, Opcode, PARENT_MEMBER, PLANE_BOTH, UDP_PORT, WORD_BYTES,
};

use crate::rig::{Child, ChildKind, DEVICE_ID, Neighbour, Parent, Tree};
use crate::target::{Sent, Target};

/// Two members each: hosts at the root, hosts at a leaf, switches at the root.
pub fn trees() -> Vec<Tree> {
    let host = |member: u16| Child {
        at: Neighbour::host(1 + member),
        member,
        kind: ChildKind::Host { udp_port: 40_000 + member },
    };
    let switch = |member: u16| Child {
        at: Neighbour::switch(5 + member),
        member,
        kind: ChildKind::Switch { ranks: 1 + member },
    };
    let tree = |tree_id, world, children, parent| Tree {
        tree_id,
        generation: 3,
        format: Format::I32,
        words: 1,
        slots: 4,
        guard: 0,
        world,
        children,
        parent,
        resend_interval_us: 0,
    };
    let parent = Some(Parent { at: Neighbour::switch(7), member: 1 });
    vec![
        tree(1, 2, vec![host(0), host(1)], None),
        tree(2, 3, vec![host(0), host(1)], parent),
        tree(3, 3, vec![switch(0), switch(1)], None),
    ]
}

/// A tree on a switch, spoken to as its members would.
#[derive(Debug)]
pub struct Dialogue<'a, T: Target> {
    target: &'a mut T,
    tree: &'a Tree,
    slot: u32,
}

impl<'a, T: Target> Dialogue<'a, T> {
    /// About this slot of the tree.
    pub fn new(target: &'a mut T, tree: &'a Tree, slot: u32) -> Self {
        Self { target, tree, slot }
    }

    fn header(&self, opcode: Opcode, sequence: u32) -> Header {
        let mut header = Header::new(opcode, self.tree.format, self.tree.tree_id, self.tree.generation);
        (header.slot, header.sequence, header.tag) = (self.slot, sequence, 0x7000 + sequence);
        header
    }

    /// A child contributes `value` in every lane: one packet of a host, two of a switch.
    pub fn contribute(&mut self, child: usize, sequence: u32, value: i32) -> Sent {
        let frames = self.contribution(child, sequence, value);
        let port = self.tree.children[child].at.port;
        frames.iter().flat_map(|frame| self.target.step(port, frame)).collect()
    }

    /// The frames of a contribution.
    pub fn contribution(&self, child: usize, sequence: u32, value: i32) -> Vec<Vec<u8>> {
        let member = self.tree.children[child];
        let mut header = self.header(Opcode::Contribution, sequence);
        (header.member, header.contributions) = (member.member, member.ranks());
        (header.exp_max, header.exp_min, header.words) = (EXP_BIAS, EXP_BIAS, 1);
        match member.kind {
            ChildKind::Host { .. } => vec![emit(&header, &narrow(value), member.at)],
            ChildKind::Switch { ranks } => {
                header.opcode = Opcode::Partial;
                header.bias = u64::from(ranks) << 31;
                let lane = header.bias.wrapping_add_signed(value.into());
                let words: Vec<u8> = lane.to_be_bytes().repeat(WORD_BYTES / 8);
                [0, 1].map(|plane| emit(&Header { plane, ..header }, &words, member.at)).into()
            }
        }
    }

    /// The parent sends the result `value`.
    pub fn result(&mut self, sequence: u32, value: i32) -> Sent {
        let parent = self.tree.parent.expect("a leaf has a parent");
        let mut header = self.header(Opcode::Result, sequence);
        (header.member, header.contributions) = (PARENT_MEMBER, self.tree.world);
        (header.exp_max, header.exp_min, header.words) = (EXP_BIAS, EXP_BIAS, 1);
        self.target.step(parent.at.port, &emit(&header, &narrow(value), parent.at))
    }

    /// A child asks where the slot stands; the reply's header.
    pub fn probe(&mut self, child: usize) -> Header {
        let member = self.tree.children[child];
        let header = Header { member: member.member, ..self.header(Opcode::Probe, 0) };
        let sent = self.target.step(member.at.port, &emit(&header, &[], member.at));
        let [(port, frame)] = sent.as_slice() else { panic!("a probe is answered once, not with {sent:?}") };
        assert_eq!(*port, member.at.port);
        UdpFrame::parse_reduction(frame).expect("the reply is a reduction packet").1
    }

    /// Asserts that exactly these children got the result `value` of this sequence, complete and addressed to them.
    #[track_caller]
    pub fn expect_result(&self, sent: &Sent, sequence: u32, children: &[usize], value: i32) {
        assert_eq!(sent.len(), children.len(), "copies of the result of sequence {sequence}");
        for (child, (port, frame)) in children.iter().zip(sent) {
            let member = self.tree.children[*child];
            let (to, header, words) = UdpFrame::parse_reduction(frame).expect("a reduction packet");
            let (expected_port, expected_member) = match member.kind {
                ChildKind::Host { udp_port } => (udp_port, member.member),
                ChildKind::Switch { .. } => (UDP_PORT, PARENT_MEMBER),
            };
            assert_eq!(
                (*port, to.dst_mac, to.dst_ip, to.dst_port, to.ttl),
                (member.at.port, member.at.mac, member.at.ip, expected_port, 64)
            );
            assert_eq!((to.src_mac, to.src_ip), (service_mac(DEVICE_ID), service_address(DEVICE_ID)));
            let wanted = Header {
                member: expected_member,
                words: 1,
                contributions: self.tree.world,
                exp_max: EXP_BIAS,
                exp_min: EXP_BIAS,
                ..self.header(Opcode::Result, sequence)
            };
            assert_eq!(header, wanted);
            assert_eq!(words, narrow(value), "every lane is {value}");
        }
    }

    /// Asserts that the sum `value` of this sequence went to the parent, one packet per plane.
    #[track_caller]
    pub fn expect_sum(&self, sent: &Sent, sequence: u32, value: i64) {
        let parent = self.tree.parent.expect("a leaf has a parent");
        assert_eq!(sent.len(), 2, "one packet per plane");
        for (plane, (port, frame)) in sent.iter().enumerate() {
            let (to, header, words) = UdpFrame::parse_reduction(frame).expect("a reduction packet");
            assert_eq!((*port, to.dst_mac, to.dst_ip), (parent.at.port, parent.at.mac, parent.at.ip));
            assert_eq!(to.dst_port, UDP_PORT);
            let ranks = self.tree.children.len() as u64;
            let wanted = Header {
                member: parent.member,
                plane: plane as u8,
                words: 1,
                contributions: ranks as u16,
                exp_max: EXP_BIAS,
                exp_min: EXP_BIAS,
                bias: ranks << 31,
                ..self.header(Opcode::Partial, sequence)
            };
            assert_eq!(header, wanted);
            let lane = (ranks << 31).wrapping_add_signed(value);
            assert_eq!(words, lane.to_be_bytes().repeat(WORD_BYTES / 8), "every lane is {value}");
        }
    }
}

/// A word with this number in every narrow lane.
fn narrow(value: i32) -> Vec<u8> {
    ((value as u32) ^ (1 << 31)).to_be_bytes().repeat(WORD_BYTES / 4)
}

fn emit(header: &Header, words: &[u8], from: Neighbour) -> Vec<u8> {
    debug_assert!(header.opcode == Opcode::Partial || header.plane == PLANE_BOTH);
    debug_assert_eq!(header.flags, Flags::NONE);
    UdpFrame::to_switch((from.mac, from.ip), (service_mac(DEVICE_ID), service_address(DEVICE_ID)))
        .emit_reduction(header, words)
        .expect("a packet fits a datagram")
}

/// An old duplicate arrives after its slot was used again: it must not be taken for the new sequence's contribution.
pub fn late_duplicate_at_root(target: &mut impl Target, tree: &Tree) {
    let mut slot = Dialogue::new(target, tree, 0);
    assert_eq!(slot.contribute(0, 1, 10), []);
    let sent = slot.contribute(1, 1, 1);
    slot.expect_result(&sent, 1, &[0, 1], 11);
    assert_eq!(slot.contribute(0, 2, 20), []);
    // The slot is in sequence 2, not done: the duplicate is answered with the stored result of 1, to its sender alone.
    let sent: Sent = slot.contribute(0, 1, 10);
    let copies = sent.len();
    assert_eq!(copies, slot.contribution(0, 1, 10).len());
    for copy in sent {
        slot.expect_result(&vec![copy], 1, &[0], 11);
    }
    let sent = slot.contribute(1, 2, 2);
    slot.expect_result(&sent, 2, &[0, 1], 22);
}

/// The same at a leaf.
pub fn late_duplicate_at_leaf(target: &mut impl Target, tree: &Tree) {
    let mut slot = Dialogue::new(target, tree, 0);
    assert_eq!(slot.contribute(0, 1, 10), []);
    let sent = slot.contribute(1, 1, 1);
    slot.expect_sum(&sent, 1, 11);
    let sent = slot.result(1, 1011);
    slot.expect_result(&sent, 1, &[0, 1], 1011);
    assert_eq!(slot.contribute(0, 2, 20), []);
    let sent = slot.contribute(0, 1, 10);
    slot.expect_result(&sent, 1, &[0], 1011);
    // A late copy of the old result is no result of sequence 2.
    assert_eq!(slot.result(1, 1011), []);
    let sent = slot.contribute(1, 2, 2);
    slot.expect_sum(&sent, 2, 22);
    assert_eq!(slot.result(1, 1011), []);
    let sent = slot.result(2, 1022);
    slot.expect_result(&sent, 2, &[0, 1], 1022);
}

/// The result reaches child 0 only, which goes on; child 1 asks again and must get it, then the next is right.
pub fn lost_result_at_root(target: &mut impl Target, tree: &Tree) {
    let mut slot = Dialogue::new(target, tree, 1);
    assert_eq!(slot.contribute(0, 1, 5), []);
    let sent = slot.contribute(1, 1, 6);
    slot.expect_result(&sent, 1, &[0, 1], 11);
    assert_eq!(slot.contribute(0, 2, -7), []);
    for _ in 0..3 {
        for copy in slot.contribute(1, 1, 6) {
            slot.expect_result(&vec![copy], 1, &[1], 11);
        }
    }
    let sent = slot.contribute(1, 2, -8);
    slot.expect_result(&sent, 2, &[0, 1], -15);
    // And when nobody has gone on yet.
    for copy in slot.contribute(1, 2, -8) {
        slot.expect_result(&vec![copy], 2, &[1], -15);
    }
}

/// The same at a leaf, where the sum or the result may be lost above as well.
pub fn lost_result_at_leaf(target: &mut impl Target, tree: &Tree) {
    let mut slot = Dialogue::new(target, tree, 1);
    assert_eq!(slot.contribute(0, 1, 5), []);
    let sent = slot.contribute(1, 1, 6);
    slot.expect_sum(&sent, 1, 11);
    // Lost above: whoever asks, the stored sum goes up again, both planes.
    for child in [0, 1, 1] {
        let sent = slot.contribute(child, 1, [5, 6][child]);
        slot.expect_sum(&sent, 1, 11);
    }
    let sent = slot.result(1, 111);
    slot.expect_result(&sent, 1, &[0, 1], 111);
    assert_eq!(slot.contribute(0, 2, 7), []);
    let sent = slot.contribute(1, 1, 6);
    slot.expect_result(&sent, 1, &[1], 111);
    let sent = slot.contribute(1, 2, 8);
    slot.expect_sum(&sent, 2, 15);
    // Child 1 never got the result of 1 here: it is still there while 2 waits for its own.
    let sent = slot.contribute(1, 1, 6);
    slot.expect_result(&sent, 1, &[1], 111);
    let sent = slot.result(2, 222);
    slot.expect_result(&sent, 2, &[0, 1], 222);
}

/// Index of the counter `events` for packets to slots that the tree does not have.
const BAD_SLOT: u32 = 6;

/// Slot indices beyond the tree's touch nothing, and are counted.
pub fn bad_slots(target: &mut impl Target, tree: &Tree) {
    let last = tree.slots - 1;
    let before = Dialogue::new(target, tree, last).probe(0);
    let counted = |target: &mut _| Target::event_counts(target).get(&BAD_SLOT).copied().unwrap_or(0);
    let (count, mut packets) = (counted(target), 0);
    for slot in [tree.slots, tree.slots + 1, 1 << 16, u32::MAX - 1, u32::MAX] {
        for child in 0..tree.children.len() {
            let mut slot = Dialogue::new(target, tree, slot);
            packets += slot.contribution(child, 1, 1).len() as u64;
            assert_eq!(slot.contribute(child, 1, 1), [], "slot {}", slot.slot);
        }
    }
    assert_eq!(counted(target) - count, packets);
    assert_eq!(Dialogue::new(target, tree, last).probe(0), before);
}

/// A packet cut at any length touches no slot; `shortest` is the least a link carries.
pub fn cut_packets(target: &mut impl Target, tree: &Tree, shortest: usize) {
    let mut slot = Dialogue::new(target, tree, 2);
    let before = slot.probe(0);
    let port = tree.children[0].at.port;
    for frame in slot.contribution(0, 1, 3) {
        for length in shortest..frame.len() {
            let sent = slot.target.step(port, &frame[..length]);
            assert_eq!(sent, [], "cut to {length} of {} bytes", frame.len());
        }
    }
    assert_eq!(slot.probe(0), before);
    let mut sum = 0;
    for child in 0..tree.children.len() {
        let value = 3 + child as i32;
        sum += value;
        let sent = slot.contribute(child, 1, value);
        if child + 1 == tree.children.len() {
            if tree.parent.is_some() {
                slot.expect_sum(&sent, 1, sum.into());
            } else {
                slot.expect_result(&sent, 1, &[0, 1], sum);
            }
        } else {
            assert_eq!(sent, []);
        }
    }
}

/// P1 in every tree of [`trees`], untouched.
pub fn p1(target: &mut impl Target, trees: &[Tree]) {
    for tree in trees {
        match tree.parent {
            Some(_) => late_duplicate_at_leaf(target, tree),
            None => late_duplicate_at_root(target, tree),
        }
    }
}

/// P1b in every tree of [`trees`], untouched.
pub fn p1b(target: &mut impl Target, trees: &[Tree]) {
    for tree in trees {
        match tree.parent {
            Some(_) => lost_result_at_leaf(target, tree),
            None => lost_result_at_root(target, tree),
        }
    }
}

/// P2 in every tree.
pub fn p2(target: &mut impl Target, trees: &[Tree]) {
    trees.iter().for_each(|tree| bad_slots(target, tree));
}

/// P3 in every tree of [`trees`], untouched; `shortest` is the least a link carries.
pub fn p3(target: &mut impl Target, trees: &[Tree], shortest: usize) {
    trees.iter().for_each(|tree| cut_packets(target, tree, shortest));
}
