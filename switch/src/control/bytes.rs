//! Byte strings of the control plane and limbs of the packet's memory.

/// Shortest big-endian form of a value (at least one byte).
pub(crate) fn shortest(limbs: &[u64]) -> Vec<u8> {
    let all: Vec<u8> = limbs.iter().rev().flat_map(|l| l.to_be_bytes()).collect();
    strip(&all).to_vec()
}

fn strip(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    &bytes[zeros.min(bytes.len().saturating_sub(1))..]
}

fn bit_len(bytes: &[u8]) -> usize {
    let bytes = strip(bytes);
    bytes.first().map_or(0, |top| bytes.len() * 8 - top.leading_zeros() as usize)
}

/// Checks that a value is given and fits; returns its shortest form.
pub(super) fn canonical(bytes: &[u8], bits: u32) -> Result<Vec<u8>, String> {
    if bytes.is_empty() {
        return Err("an empty byte string, valid are 1 byte and more".to_owned());
    }
    let given = bit_len(bytes);
    if given > bits as usize {
        return Err(format!("a value of {given} bits, valid are at most {bits}"));
    }
    Ok(strip(bytes).to_vec())
}

/// Value in `n` limbs, lowest first. What does not fit is cut.
pub(super) fn limbs(bytes: &[u8], n: usize) -> Vec<u64> {
    let mut out: Vec<u64> =
        bytes.rchunks(8).map(|c| c.iter().fold(0, |acc, b| (acc << 8) | u64::from(*b))).collect();
    out.resize(n, 0);
    out
}

/// Big-endian mask of `bits` bits with the highest `ones` set.
pub(super) fn prefix_mask(bits: u32, ones: u32) -> Vec<u8> {
    let n = bits.div_ceil(8) as usize;
    let mut mask = vec![0; n];
    for bit in 0..ones.min(bits) {
        let at = (bits - 1 - bit) as usize;
        mask[n - 1 - at / 8] |= 1 << (at % 8);
    }
    mask
}

/// `a & b`, aligned at the low end, shortest form.
pub(super) fn and(a: &[u8], b: &[u8]) -> Vec<u8> {
    let n = a.len().min(b.len());
    let both: Vec<u8> = a[a.len() - n..].iter().zip(&b[b.len() - n..]).map(|(x, y)| x & y).collect();
    strip(&both).to_vec()
}

/// Order of two values.
pub(super) fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let (a, b) = (strip(a), strip(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}
