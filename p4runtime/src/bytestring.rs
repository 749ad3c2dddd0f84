//! Byte strings: how P4Runtime carries bit<W> values.
//!
//! A value is an unsigned big-endian integer. Any number of leading zero bytes is accepted; the canonical form, which
//! switches return, is the shortest one, at least one byte long. (P4Runtime specification, "Bytestrings".)

use std::net::Ipv4Addr;

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Why a byte string is not a value of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ByteStringError {
    /// No bytes at all.
    #[error("empty byte string, expected 1 to {} bytes", .width.div_ceil(8))]
    Empty {
        /// Width of the field in bits.
        width: u32,
    },
    /// A bit above the field's width is set.
    #[error("value of {bits} bits does not fit {width} bits")]
    TooWide {
        /// Bits the value needs.
        bits: u32,
        /// Width of the field in bits.
        width: u32,
    },
}

/// The shortest form of a value; a single zero byte for 0 (and for an empty string).
pub fn canonical(value: &[u8]) -> &[u8] {
    match value.iter().position(|&byte| byte != 0) {
        Some(first) => &value[first..],
        None => &[0],
    }
}

/// Bits that a value needs; 0 for the value 0.
pub fn bit_length(value: &[u8]) -> u32 {
    match value.iter().position(|&byte| byte != 0) {
        Some(first) => (value.len() - first) as u32 * 8 - value[first].leading_zeros(),
        None => 0,
    }
}

/// The canonical form of a value of `width` bits. A width of 0 stands for values of no fixed width (translated strings),
/// which pass unchanged.
pub fn fit(value: &[u8], width: u32) -> Result<&[u8], ByteStringError> {
    if width == 0 {
        return Ok(value);
    }
    if value.is_empty() {
        return Err(ByteStringError::Empty { width });
    }
    let bits = bit_length(value);
    if bits > width { Err(ByteStringError::TooWide { bits, width }) } else { Ok(canonical(value)) }
}

/// The value with all its `ceil(width / 8)` bytes, as it lies in a packet. Bytes beyond that width are cut off.
pub fn padded(value: &[u8], width: u32) -> Vec<u8> {
    let length = width.div_ceil(8) as usize;
    let kept = &value[value.len().saturating_sub(length)..];
    let mut bytes = vec![0; length - kept.len()];
    bytes.extend_from_slice(kept);
    bytes
}

/// The all-ones value of `width` bits.
pub fn ones(width: u32) -> Vec<u8> {
    let mut bytes = vec![0xFF; width.div_ceil(8) as usize];
    if let (Some(first), false) = (bytes.first_mut(), width.is_multiple_of(8)) {
        *first = 0xFF >> (8 - width % 8);
    }
    bytes
}

/// The mask of `width` bits whose highest `prefix_len` bits are set.
pub fn prefix_mask(width: u32, prefix_len: u32) -> Vec<u8> {
    let mut bytes = ones(width);
    let host_bits = width.saturating_sub(prefix_len);
    let length = bytes.len();
    for bit in 0..host_bits {
        bytes[length - 1 - (bit / 8) as usize] &= !(1 << (bit % 8));
    }
    bytes
}

/// Whether `value` has a bit set that `mask` has not. Lengths may differ.
pub fn exceeds_mask(value: &[u8], mask: &[u8]) -> bool {
    value
        .iter()
        .rev()
        .enumerate()
        .any(|(i, byte)| byte & !mask.len().checked_sub(i + 1).map_or(0, |at| mask[at]) != 0)
}

/// The value as an integer, if it fits one.
pub fn to_u64(value: &[u8]) -> Option<u64> {
    let value = canonical(value);
    (value.len() <= 8).then(|| value.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Something that can be written to a field: integers, addresses, raw bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Value(Vec<u8>);

impl Value {
    /// The big-endian bytes, not necessarily canonical.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(value: $integer) -> Self {
                Self(canonical(&value.to_be_bytes()).to_vec())
            }
        }
    )*};
}

from_integer!(u8, u16, u32, u64, u128);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self(vec![u8::from(value)])
    }
}

impl From<Ipv4Addr> for Value {
    fn from(value: Ipv4Addr) -> Self {
        Self(value.octets().to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self(value.to_vec())
    }
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(value: [u8; N]) -> Self {
        Self(value.to_vec())
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        value.0
    }
}
