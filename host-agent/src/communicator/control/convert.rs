//! Places and chunks as the controller's messages carry them.

use inca_p4runtime::northbound::{self, SlotIndex};

use crate::protocol::{Closed, EndpointConfig, KeptChunk};

/// Slots of every tree.
pub(super) fn slots(config: &EndpointConfig) -> Vec<usize> {
    config.trees.iter().map(|tree| tree.slots as usize).collect()
}

/// One number per slot, tree by tree, in one list.
pub(super) fn flat(places: Vec<Vec<u64>>) -> Vec<u64> {
    places.into_iter().flatten().collect()
}

/// The reverse of [`flat`]; `None` if there are too few or too many.
pub(super) fn by_tree(mut places: &[u64], slots: &[usize]) -> Option<Vec<Vec<u64>>> {
    let mut trees = Vec::with_capacity(slots.len());
    for &slots in slots {
        let (tree, rest) = places.split_at_checked(slots)?;
        trees.push(tree.to_vec());
        places = rest;
    }
    places.is_empty().then_some(trees)
}

pub(super) fn northbound_chunk(chunk: KeptChunk) -> northbound::KeptChunk {
    northbound::KeptChunk {
        slot: Some(SlotIndex { tree: chunk.tree as u32, slot: chunk.slot }),
        tag: chunk.tag,
        overflow: chunk.overflow.is_some(),
        elements: chunk.elements,
        overflow_index: chunk.overflow.map_or(0, |(index, _)| index),
        overflow_sum: chunk.overflow.map_or_else(Vec::new, |(_, sum)| sum.to_be_bytes().to_vec()),
    }
}

pub(super) fn chunk(chunk: northbound::KeptChunk) -> KeptChunk {
    let SlotIndex { tree, slot } = chunk.slot.unwrap_or_default();
    let sum = chunk.overflow_sum.as_slice().try_into().map_or(0, i128::from_be_bytes);
    let overflow = chunk.overflow.then_some((chunk.overflow_index, sum));
    let (tag, elements) = (chunk.tag, chunk.elements);
    KeptChunk { tree: tree as usize, slot, tag, overflow, elements }
}

/// The reason of an end, and the chunks that come with it.
pub(super) fn closed(closed: northbound::Closed) -> (Closed, Vec<KeptChunk>) {
    let copies = closed.copies.into_iter().map(chunk).collect();
    (Closed { reason: closed.reason, missing_ranks: closed.missing_ranks }, copies)
}
