//! What contributions, partial sums and results hold: a function of (seed, tree, slot, sequence, child), so that a packet sent
//! again is the same packet.

use inca_wire::format::Kind;
use inca_wire::packet::{EXP_BIAS, Flags, Format, NO_EXP_MAX, NO_EXP_MIN, WORD_BYTES};

use crate::rig::{ChildKind, Tree};
use crate::rng::Rng;

/// Scalars and words of one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Flags; any: no words.
    pub flags: Flags,
    /// Operation tag.
    pub tag: u32,
    /// Largest exponent, biased.
    pub exp_max: u16,
    /// Smallest exponent, biased.
    pub exp_min: u16,
    /// What a zero lane of a partial holds.
    pub bias: u64,
    /// Words, 256 bytes each.
    pub words: Vec<u8>,
}

/// What all packets of one sequence of a slot have in common.
struct Sequence {
    tag: u32,
    words: u8,
    /// Bits of a mantissa.
    magnitude: u32,
    /// Lowest exponent and how far up they go.
    base: u16,
    spread: u16,
    /// Of 16 ranks so many send a zero block.
    zeros: usize,
}

/// Which content is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Which {
    /// Of the recipe.
    pub seed: u64,
    /// Slot of the tree.
    pub slot: u32,
    /// Sequence of the slot.
    pub sequence: u32,
}

impl Which {
    fn rng(self, tree: &Tree, part: u64) -> Rng {
        Rng::of(&[self.seed, u64::from(tree.tree_id), u64::from(self.slot), u64::from(self.sequence), part])
    }

    fn sequence(self, tree: &Tree) -> Sequence {
        let mut rng = self.rng(tree, u64::MAX);
        let lane = lane_bits(tree.format);
        let spreads = [0, 1, u16::from(tree.guard), u16::from(tree.guard) + 1];
        Sequence {
            tag: rng.next_u64() as u32,
            words: if rng.chance(3, 4) { tree.words } else { rng.between(1, tree.words.into()) as u8 },
            magnitude: rng.pick(&[1, 5, lane - 6, lane - 1]),
            base: EXP_BIAS - 30 + rng.below(40) as u16,
            spread: if tree.format.kind() != Kind::Block { 0 } else { rng.pick(&spreads) },
            zeros: rng.pick(&[0, 0, 3, 16]),
        }
    }

    /// What a child sends of a plane; a host sends both at once.
    pub fn from_child(self, tree: &Tree, child: usize, plane: u8) -> Content {
        match tree.children[child].kind {
            ChildKind::Host { .. } => self.contribution(tree, child),
            ChildKind::Switch { ranks } => self.partial(tree, child, ranks, plane),
        }
    }

    /// One host's contribution.
    fn contribution(self, tree: &Tree, child: usize) -> Content {
        let sequence = self.sequence(tree);
        let mut rng = self.rng(tree, child as u64);
        if let Some(flagged) = odd_one(&mut rng, &sequence) {
            return flagged;
        }
        let block = Block::random(&mut rng, tree.format, &sequence);
        Content {
            flags: Flags::NONE,
            tag: sequence.tag ^ mismatch(&mut rng),
            exp_max: block.exponent.unwrap_or(NO_EXP_MAX),
            exp_min: block.exponent.unwrap_or(NO_EXP_MIN),
            bias: 0,
            words: block.offset_binary(tree.format),
        }
    }

    /// One plane of a child switch's sum of `ranks` contributions, as an honest switch would send it.
    fn partial(self, tree: &Tree, child: usize, ranks: u16, plane: u8) -> Content {
        let sequence = self.sequence(tree);
        let mut rng = self.rng(tree, child as u64);
        if let Some(flagged) = odd_one(&mut rng, &sequence) {
            return flagged;
        }
        let tag = sequence.tag ^ mismatch(&mut rng);
        let within = Sequence { spread: sequence.spread.min(tree.guard.into()), ..sequence };
        let blocks: Vec<Block> = (0..ranks).map(|_| Block::random(&mut rng, tree.format, &within)).collect();
        let exponents = || blocks.iter().filter_map(|block| block.exponent);
        let mut content = Content {
            flags: Flags::NONE,
            tag,
            exp_max: exponents().max().unwrap_or(NO_EXP_MAX),
            exp_min: exponents().min().unwrap_or(NO_EXP_MIN),
            bias: 0,
            words: Vec::new(),
        };
        let lane = lane_bits(tree.format);
        let mut lanes = vec![0u128; lanes_per_word(lane * 2) * usize::from(within.words)];
        for block in &blocks {
            let Some(exponent) = block.exponent else { continue };
            let shift = u16::from(tree.guard) - (content.exp_max - exponent);
            // Of lanes of 64 bits the header has the low half of the bias.
            content.bias = content.bias.wrapping_add((1 << (lane - 1)) << shift);
            for (wide, narrow) in lanes.iter_mut().zip(block.lanes.iter().skip(plane.into()).step_by(2)) {
                let narrow = ((narrow + (1 << (lane - 1))) as u128) << shift;
                *wide = if tree.format.kind() == Kind::Max { narrow.max(*wide) } else { *wide + narrow };
            }
        }
        content.words = pack(&lanes, lane * 2);
        content
    }

    /// A result as the parent would send it; not the true sum: a switch can't know. Without words if no contribution had any.
    pub fn result(self, tree: &Tree, has_words: bool) -> Content {
        let sequence = self.sequence(tree);
        let mut rng = self.rng(tree, u64::MAX - 1);
        if rng.chance(1, 6) || !has_words {
            let flags = rng.pick(&[Flags::MISMATCH, Flags::RANGE, Flags::NONFINITE, Flags::OVERFLOW]);
            let tag = if flags == Flags::MISMATCH { 0 } else { sequence.tag };
            return Content { flags, ..void(tag) };
        }
        let block = Block::random(&mut rng, tree.format, &sequence);
        Content {
            flags: Flags::NONE,
            tag: sequence.tag,
            exp_max: block.exponent.unwrap_or(NO_EXP_MAX),
            exp_min: block.exponent.unwrap_or(NO_EXP_MIN),
            bias: 0,
            words: block.offset_binary(tree.format),
        }
    }
}

/// Bits of a narrow lane.
pub fn lane_bits(format: Format) -> u32 {
    format.lane_bits()
}

/// One rank's mantissas and their exponent; None: all zero.
struct Block {
    exponent: Option<u16>,
    lanes: Vec<i128>,
}

impl Block {
    fn random(rng: &mut Rng, format: Format, sequence: &Sequence) -> Self {
        let bits = lane_bits(format);
        let count = lanes_per_word(bits) * usize::from(sequence.words);
        // Where there are no exponents a zero block is none of an honest rank; the wide accumulators of 64-bit lanes rely on that.
        let zero = rng.chance(sequence.zeros, 16);
        if zero && format.lane_bits() < 64 && format.kind() != Kind::Max {
            return Self { exponent: None, lanes: vec![0; count] };
        }
        let exponent = match format.kind() {
            Kind::Block => sequence.base + rng.below(usize::from(sequence.spread) + 1) as u16,
            Kind::Integer | Kind::Max => EXP_BIAS,
        };
        let largest = i64::MAX >> (63 - sequence.magnitude);
        let lanes = (0..count).map(|_| number(rng, largest).into()).collect();
        Self { exponent: Some(exponent), lanes }
    }

    fn offset_binary(&self, format: Format) -> Vec<u8> {
        let bits = lane_bits(format);
        let lanes: Vec<u128> = self.lanes.iter().map(|lane| (lane + (1 << (bits - 1))) as u128).collect();
        pack(&lanes, bits)
    }
}

/// From -largest to largest.
fn number(rng: &mut Rng, largest: i64) -> i64 {
    if largest == i64::MAX { (rng.next_u64() as i64).max(-largest) } else { rng.between(-largest, largest) }
}

/// A contribution that carries a flag instead of words, now and then.
fn odd_one(rng: &mut Rng, sequence: &Sequence) -> Option<Content> {
    if !rng.chance(1, 24) {
        return None;
    }
    let flags = rng.pick(&[Flags::NONFINITE, Flags::RANGE, Flags::NONFINITE | Flags::RANGE, Flags::MISMATCH]);
    let mut content = Content { flags, ..void(sequence.tag) };
    if flags.contains(Flags::RANGE) {
        content.exp_min = sequence.base;
        content.exp_max = sequence.base + sequence.spread;
    }
    Some(content)
}

fn void(tag: u32) -> Content {
    Content { flags: Flags::NONE, tag, exp_max: NO_EXP_MAX, exp_min: NO_EXP_MIN, bias: 0, words: Vec::new() }
}

/// What another operation's tag differs by, now and then.
fn mismatch(rng: &mut Rng) -> u32 {
    if rng.chance(1, 24) { 1 + rng.below(1000) as u32 } else { 0 }
}

fn lanes_per_word(bits: u32) -> usize {
    WORD_BYTES * 8 / bits as usize
}

/// Lanes to words: lane 0 of each word in its last bytes.
fn pack(lanes: &[u128], bits: u32) -> Vec<u8> {
    let bytes = bits as usize / 8;
    let mut words = Vec::with_capacity(lanes.len() * bytes);
    for word in lanes.chunks(lanes_per_word(bits)) {
        for lane in word.iter().rev() {
            words.extend_from_slice(&lane.to_be_bytes()[16 - bytes..]);
        }
    }
    words
}
