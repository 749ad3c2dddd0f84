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
        overflow: chunk.overflow,
        elements: chunk.elements,
    }
}

pub(super) fn chunk(chunk: northbound::KeptChunk) -> KeptChunk {
    let SlotIndex { tree, slot } = chunk.slot.unwrap_or_default();
    let (tag, overflow, elements) = (chunk.tag, chunk.overflow, chunk.elements);
    KeptChunk { tree: tree as usize, slot, tag, overflow, elements }
}

/// The reason of an end, and the chunks that come with it.
pub(super) fn closed(closed: northbound::Closed) -> (Closed, Vec<KeptChunk>) {
    let copies = closed.copies.into_iter().map(chunk).collect();
    (Closed { reason: closed.reason, missing_ranks: closed.missing_ranks }, copies)
}
