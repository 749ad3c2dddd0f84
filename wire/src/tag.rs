//! The 32-bit operation tag: ranks whose tags differ are not in the same operation.

/// What identifies a collective call within its group. The codes of `collective`, `op` and `dtype` are the host library's;
/// all that counts here is that ranks in the same call give the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Number of the operation in its group, counted alike by every rank.
    pub number: u64,
    /// Which collective: allreduce, broadcast, ...
    pub collective: u8,
    /// Which reduction: sum, average, ...
    pub op: u8,
    /// Element type of the caller's tensor.
    pub dtype: u8,
    /// Elements of the caller's tensor.
    pub elements: u64,
}

impl Operation {
    /// Tag of one pass of one chunk of this operation.
    ///
    /// 32-bit FNV-1a over the big-endian bytes of number, collective, op, dtype, elements, chunk, pass (in this order, 24 bytes), then
    /// murmur3's 32-bit finaliser. Every step is a bijection of the state, so two inputs that differ in a single byte never have
    /// the same tag; others collide once in 2^32.
    pub fn tag(&self, chunk: u32, pass: u8) -> u32 {
        let hash = fnv1a(FNV_OFFSET, &self.number.to_be_bytes());
        let hash = fnv1a(hash, &[self.collective, self.op, self.dtype]);
        let hash = fnv1a(hash, &self.elements.to_be_bytes());
        let hash = fnv1a(hash, &chunk.to_be_bytes());
        finalise(fnv1a(hash, &[pass]))
    }
}

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

fn fnv1a(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME))
}

fn finalise(mut hash: u32) -> u32 {
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests;
