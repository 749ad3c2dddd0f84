//! What one sum puts on every link of its trees, if no packet is lost.
//!
//! A chunk goes up a host's link once, as narrow lanes; up a link between switches in two packets, one for each plane of wide lanes;
//! and down every link once. The format `exact` sends every chunk twice at least: first a bare header with the exponents, then
//! the digits (more than once where the elements of a chunk differ by much).

use std::collections::BTreeMap;

use inca_wire::frame::OUTER_LEN;
use inca_wire::packet::{Format, packet_len};

use super::plan::Plan;
use crate::graph::Port;

/// Planes that a sum of wide lanes is sent up in.
const PLANES: u64 = 2;

/// Packets and bytes of one direction of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) packets: u64,
    /// Ethernet frames, without checksum.
    pub(super) bytes: u64,
}

impl Load {
    const fn times(self, factor: u64) -> Self {
        Self { packets: self.packets.saturating_mul(factor), bytes: self.bytes.saturating_mul(factor) }
    }

    fn add(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// One end of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Host(u16),
    Switch(Port),
}

/// A sum's size as packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) format: Format,
    /// Words of a full chunk, at least 1.
    pub(super) words: u8,
    pub(super) elements: u64,
}

impl Sum {
    /// Elements of a full chunk.
    pub(super) const fn chunk(&self) -> u64 {
        let words = if self.words == 0 { 1 } else { self.words };
        words as u64 * self.format.lanes_per_word() as u64
    }

    pub(super) const fn chunks(&self) -> u64 {
        self.elements.div_ceil(self.chunk())
    }

    /// What the chunks of one of several trees put on a link that carries each once: chunk k goes to tree k modulo their number.
    pub(super) fn of_tree(&self, tree: u64, trees: u64) -> Load {
        let chunks = self.chunks();
        let mine = (chunks + trees - 1 - tree) / trees;
        let mut load = Load::default();
        let full = self.elements / self.chunk();
        let full_mine = (full + trees - 1 - tree) / trees;
        load.add(self.frame(self.chunk()).times(full_mine));
        if mine > full_mine {
            load.add(self.frame(self.elements % self.chunk()));
        }
        load
    }

    /// Every pass of one chunk.
    fn frame(&self, elements: u64) -> Load {
        let words = self.format.words_for(elements as usize) as u8;
        let mut load = Load { packets: 1, bytes: (OUTER_LEN + packet_len(words)) as u64 };
        if self.format == Format::Exact {
            load.add(Load { packets: 1, bytes: (OUTER_LEN + packet_len(0)) as u64 });
        }
        load
    }
}

impl Plan {
    /// What a sum puts on each direction of each link.
    pub(super) fn loads(&self, sum: &Sum) -> BTreeMap<(End, End), Load> {
        let mut loads: BTreeMap<(End, End), Load> = BTreeMap::new();
        let mut put = |from, to, load| loads.entry((from, to)).or_default().add(load);
        let trees = self.stripes.len() as u64;
        for (stripe, index) in self.stripes.iter().zip(0..) {
            let once = sum.of_tree(index, trees);
            for node in &stripe.tree.nodes {
                for (rank, port) in node.ranks() {
                    let (host, leaf) = (End::Host(rank), End::Switch(Port { device: node.device, port }));
                    put(host, leaf, once);
                    put(leaf, host, once);
                }
            }
            for (child, parent) in stripe.tree.links() {
                put(End::Switch(child), End::Switch(parent), once.times(PLANES));
                put(End::Switch(parent), End::Switch(child), once);
            }
        }
        loads
    }
}
