//! Headers between bytes and limbs.

use crate::program::layout::{FieldLoc, HeaderLoc};

/// Reads up to 64 bits at a bit position. Bits beyond the end read 0.
#[inline]
pub(super) fn read_bits(bytes: &[u8], at: usize, bits: u32) -> u64 {
    if bits == 0 {
        return 0;
    }
    let (first, skip) = (at / 8, (at % 8) as u32);
    let last = (at + bits as usize).div_ceil(8);
    let mut value: u128 = 0;
    for i in first..last {
        value = (value << 8) | u128::from(bytes.get(i).copied().unwrap_or(0));
    }
    let below = (last - first) as u32 * 8 - skip - bits;
    let value = (value >> below) as u64;
    if bits == 64 { value } else { value & ((1 << bits) - 1) }
}

/// Writes up to 64 bits at a bit position, leaving the bits around.
#[inline]
pub(super) fn write_bits(bytes: &mut [u8], at: usize, bits: u32, value: u64) {
    if bits == 0 {
        return;
    }
    let (first, skip) = (at / 8, (at % 8) as u32);
    let last = (at + bits as usize).div_ceil(8);
    let below = (last - first) as u32 * 8 - skip - bits;
    let ones = if bits == 64 { u128::from(u64::MAX) } else { (1u128 << bits) - 1 };
    let (mut value, mut mask) = ((u128::from(value) & ones) << below, ones << below);
    for i in (first..last).rev() {
        if let Some(byte) = bytes.get_mut(i) {
            *byte = (*byte & !(mask as u8)) | value as u8;
        }
        value >>= 8;
        mask >>= 8;
    }
}

/// Big-endian bytes into limbs, lowest limb first.
#[inline(always)]
fn read_wide(bytes: &[u8], limbs: &mut [u64]) {
    let (head, words) = bytes.as_rchunks::<8>();
    for (limb, word) in limbs.iter_mut().zip(words.iter().rev()) {
        *limb = u64::from_be_bytes(*word);
    }
    if let Some(limb) = limbs.get_mut(words.len()) {
        *limb = head.iter().fold(0, |acc, b| (acc << 8) | u64::from(*b));
    }
}

#[inline(always)]
fn write_wide(bytes: &mut [u8], limbs: &[u64]) {
    let (head, words) = bytes.as_rchunks_mut::<8>();
    let full = words.len();
    for (limb, word) in limbs.iter().zip(words.iter_mut().rev()) {
        *word = limb.to_be_bytes();
    }
    if !head.is_empty() {
        let top = limbs.get(full).copied().unwrap_or(0).to_be_bytes();
        let n = head.len();
        head.copy_from_slice(&top[8 - n..]);
    }
}

/// A value of `bits` at a bit position into limbs.
#[inline(always)]
pub(super) fn read_value(bytes: &[u8], at: usize, bits: u32, limbs: &mut [u64]) {
    if at.is_multiple_of(8) && bits.is_multiple_of(8) {
        let (first, last) = (at / 8, (at + bits as usize) / 8);
        if let Some(bytes) = bytes.get(first..last) {
            match *bytes {
                [a] => limbs[0] = u64::from(a),
                [a, b] => limbs[0] = u64::from(u16::from_be_bytes([a, b])),
                [a, b, c, d] => limbs[0] = u64::from(u32::from_be_bytes([a, b, c, d])),
                _ => read_wide(bytes, limbs),
            }
            return;
        }
    }
    let mut left = bits;
    for limb in limbs {
        let n = left.min(64);
        *limb = read_bits(bytes, at + (left - n) as usize, n);
        left -= n;
    }
}

pub(super) fn write_value(bytes: &mut [u8], at: usize, bits: u32, limbs: &[u64]) {
    if at.is_multiple_of(8) && bits.is_multiple_of(8) {
        let (first, last) = (at / 8, (at + bits as usize) / 8);
        if let Some(bytes) = bytes.get_mut(first..last) {
            write_wide(bytes, limbs);
            return;
        }
    }
    let mut left = bits;
    for limb in limbs {
        let n = left.min(64);
        write_bits(bytes, at + (left - n) as usize, n, *limb);
        left -= n;
    }
}

fn limbs_of<'m>(mem: &'m [u64], field: &FieldLoc) -> &'m [u64] {
    &mem[field.at as usize..field.at as usize + usize::from(field.limbs)]
}

/// Fills a header's fields from what begins with its bytes. `variable_bits`: length of its variable-length field.
#[inline(always)]
pub(super) fn extract(header: &HeaderLoc, bytes: &[u8], variable_bits: u32, mem: &mut [u64]) {
    if header.variable.is_some() {
        return extract_variable(header, bytes, variable_bits, mem);
    }
    for field in &header.fields {
        let (first, skip) = (field.bit_offset as usize / 8, field.bit_offset % 8);
        if field.limbs == 1
            && skip + field.bits <= 64
            && let Some(window) = bytes.get(first..first + 8)
            && let Ok(window) = <[u8; 8]>::try_from(window)
        {
            // What follows the header in the packet is shifted out.
            mem[field.at as usize] = (u64::from_be_bytes(window) << skip) >> (64 - field.bits);
        } else {
            let limbs = &mut mem[field.at as usize..field.at as usize + usize::from(field.limbs)];
            read_value(bytes, field.bit_offset as usize, field.bits, limbs);
        }
    }
}

fn extract_variable(header: &HeaderLoc, bytes: &[u8], variable_bits: u32, mem: &mut [u64]) {
    let mut shift = 0;
    for field in &header.fields {
        let at = (field.bit_offset + shift) as usize;
        let bits = if field.variable { variable_bits } else { field.bits };
        let (from, to) = (field.at as usize, field.at as usize + usize::from(field.limbs));
        if field.variable {
            mem[from..to].fill(0);
            shift = variable_bits;
        }
        if bits > 0 {
            read_value(bytes, at, bits, &mut mem[from..to]);
        }
    }
}

/// Length of a header on the wire in bytes.
pub(super) fn header_len(header: &HeaderLoc, mem: &[u64]) -> usize {
    let variable = header.variable.map_or(0, |(_, len)| mem[len as usize] as usize / 8);
    header.bytes as usize + variable
}

/// Appends a header's bytes.
#[inline(always)]
pub(super) fn emit(header: &HeaderLoc, mem: &[u64], out: &mut Vec<u8>) {
    if header.variable.is_some() {
        return emit_variable(header, mem, out);
    }
    let start = out.len();
    out.resize(start + header.bytes as usize, 0);
    let mut rest = &mut out[start..];
    // Bits of the fields so far that are not written yet, and their number, below 64.
    let (mut pending, mut count) = (0u128, 0u32);
    for field in &header.fields {
        if field.limbs > 1 {
            if !count.is_multiple_of(8) || !field.bits.is_multiple_of(8) {
                // Not at a byte: the slow way for all of it.
                return emit_fields(header, mem, &mut out[start..]);
            }
            rest = put(rest, pending as u64, count);
            (pending, count) = (0, 0);
            let (wide, after) = std::mem::take(&mut rest).split_at_mut(field.bits as usize / 8);
            write_wide(wide, limbs_of(mem, field));
            rest = after;
            continue;
        }
        let ones = u64::MAX >> (64 - field.bits.clamp(1, 64));
        pending = (pending << field.bits) | u128::from(mem[field.at as usize] & ones);
        count += field.bits;
        if count >= 64 {
            count -= 64;
            rest = put(rest, (pending >> count) as u64, 64);
        }
    }
    put(rest, pending as u64, count);
}

/// Writes the lowest `bits` of a value, a whole number of bytes, and returns the room behind them.
#[inline(always)]
fn put(room: &mut [u8], value: u64, bits: u32) -> &mut [u8] {
    let bytes = (bits as usize / 8).min(room.len());
    let (here, after) = room.split_at_mut(bytes);
    here.copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
    after
}

fn emit_fields(header: &HeaderLoc, mem: &[u64], bytes: &mut [u8]) {
    for field in &header.fields {
        write_value(bytes, field.bit_offset as usize, field.bits, limbs_of(mem, field));
    }
}

fn emit_variable(header: &HeaderLoc, mem: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + header_len(header, mem), 0);
    let bytes = &mut out[start..];
    let mut shift = 0;
    for field in &header.fields {
        let at = (field.bit_offset + shift) as usize;
        let bits = match header.variable {
            Some((_, len)) if field.variable => {
                shift = mem[len as usize] as u32;
                shift
            }
            _ => field.bits,
        };
        write_value(bytes, at, bits, limbs_of(mem, field));
    }
}
