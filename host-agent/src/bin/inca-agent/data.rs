//! Tensors: generated from a seed, so that every rank knows all ranks' inputs, or read from files.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use inca_host_agent::{Dtype, Tensor};
use npyz::WriterBuilder as _;

use crate::Failure;

/// The elements that a rank contributes, in this range of its tensor.
///
/// i32: uniform over what can't overflow in a group of this size. f32: uniform mantissas; the scale changes by rank and by every 1000
/// elements, so that the ranks' block exponents differ and have to be aligned.
pub(crate) fn generate(dtype: Dtype, seed: u64, rank: u32, world: u32, range: Range<usize>) -> Tensor {
    let random = |index: usize| mix(mix(seed ^ u64::from(rank) << 32) ^ index as u64);
    match dtype {
        Dtype::I32 => {
            let limit = i64::from(i32::MAX) / i64::from(world);
            let span = 2 * limit as u64 + 1;
            Tensor::I32(
                range.map(|index| ((((random(index) >> 32) * span) >> 32) as i64 - limit) as i32).collect(),
            )
        }
        _ => {
            let element = |index: usize| {
                let scale = mix(seed ^ u64::from(rank) << 40 ^ (index / 1000) as u64) % 6;
                let mantissa = ((random(index) >> 40) as i64 - (1 << 23)) as f32 / (1 << 23) as f32;
                mantissa * 2f32.powi(-(scale as i32))
            };
            Tensor::F32(range.map(element).collect())
        }
    }
}

/// Elements of a tensor.
pub(crate) fn len(tensor: &Tensor) -> usize {
    use inca_host_agent::protocol::TensorBuffer as _;
    tensor.input().len()
}

/// How a tensor lies in a file of NumPy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    shape: Vec<u64>,
    order: npyz::Order,
}

impl Layout {
    /// One dimension.
    pub(crate) fn flat(elements: usize) -> Self {
        Self { shape: vec![elements as u64], order: npyz::Order::C }
    }
}

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npy")
}

/// Reads a NumPy array (.npy) or raw little-endian elements.
pub(crate) fn read(path: &Path, dtype: Dtype) -> Result<(Tensor, Layout), Failure> {
    let failure =
        |reason: String| Failure::File { what: "reading", path: path.display().to_string(), reason };
    let bytes = fs::read(path).map_err(|error| failure(error.to_string()))?;
    if is_npy(path) {
        return read_npy(&bytes, dtype).map_err(failure);
    }
    let (len, size) = (bytes.len(), dtype.size());
    if len % size != 0 {
        return Err(failure(format!("{len} bytes are no whole number of {dtype} elements of {size} bytes")));
    }
    Ok((decode(&bytes, dtype), Layout::flat(len / size)))
}

fn read_npy(bytes: &[u8], dtype: Dtype) -> Result<(Tensor, Layout), String> {
    let file = npyz::NpyFile::new(bytes).map_err(|error| format!("not a NumPy array: {error}"))?;
    let layout = Layout { shape: file.shape().to_vec(), order: file.order() };
    let given = file.dtype().descr();
    let wrong = |error| format!("elements are {given}, not {dtype} as --dtype says: {error}");
    let tensor = match dtype {
        Dtype::I32 => Tensor::I32(file.into_vec().map_err(wrong)?),
        _ => Tensor::F32(file.into_vec().map_err(wrong)?),
    };
    Ok((tensor, layout))
}

/// Elements from raw little-endian bytes; what is left over at the end is no element.
pub(crate) fn decode(bytes: &[u8], dtype: Dtype) -> Tensor {
    let (elements, _) = bytes.as_chunks::<4>();
    match dtype {
        Dtype::I32 => Tensor::I32(elements.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()),
        _ => Tensor::F32(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
    }
}

/// Raw little-endian bytes of the elements.
pub(crate) fn encode(tensor: &Tensor) -> Vec<u8> {
    match tensor {
        Tensor::F32(elements) => elements.iter().flat_map(|element| element.to_le_bytes()).collect(),
        Tensor::I32(elements) => elements.iter().flat_map(|element| element.to_le_bytes()).collect(),
        _ => Vec::new(),
    }
}

/// Writes a NumPy array (.npy) of this layout or raw little-endian elements.
pub(crate) fn write(path: &Path, tensor: &Tensor, layout: &Layout) -> Result<(), Failure> {
    let bytes = if is_npy(path) { npy(tensor, layout) } else { Ok(encode(tensor)) };
    bytes.and_then(|bytes| fs::write(path, bytes)).map_err(|error| Failure::File {
        what: "writing",
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}

fn npy(tensor: &Tensor, layout: &Layout) -> io::Result<Vec<u8>> {
    fn write<T: npyz::AutoSerialize + Copy>(elements: &[T], layout: &Layout) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let options = npyz::WriteOptions::new().default_dtype().order(layout.order).shape(&layout.shape);
        let mut writer = options.writer(&mut bytes).begin_nd()?;
        writer.extend(elements.iter().copied())?;
        writer.finish()?;
        Ok(bytes)
    }
    match tensor {
        Tensor::F32(elements) => write(elements, layout),
        Tensor::I32(elements) => write(elements, layout),
        _ => Err(io::Error::other("a tensor of an unknown type")),
    }
}

/// One step of the SplitMix64 generator.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back_in_their_shape() {
        for (tensor, dtype) in [
            (generate(Dtype::F32, 1, 0, 2, 0..24), Dtype::F32),
            (generate(Dtype::I32, 1, 0, 2, 0..24), Dtype::I32),
        ] {
            for order in [npyz::Order::C, npyz::Order::Fortran] {
                let layout = Layout { shape: vec![2, 3, 4], order };
                let bytes = npy(&tensor, &layout).unwrap();
                let (read, read_layout) = read_npy(&bytes, dtype).unwrap();
                assert_eq!((encode(&read), read_layout), (encode(&tensor), layout));
            }
        }
        let bytes = npy(&generate(Dtype::F32, 1, 0, 2, 0..8), &Layout::flat(8)).unwrap();
        let error = read_npy(&bytes, Dtype::I32).unwrap_err();
        assert!(error.contains("<f4") && error.contains("i32"), "{error}");
        for cut in 0..bytes.len() {
            assert!(read_npy(&bytes[..cut], Dtype::F32).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn parts_are_cut_from_the_whole() {
        for dtype in [Dtype::F32, Dtype::I32] {
            let whole = generate(dtype, 7, 1, 3, 0..5000);
            let part = generate(dtype, 7, 1, 3, 990..2010);
            match (whole, part) {
                (Tensor::F32(whole), Tensor::F32(part)) => assert_eq!(whole[990..2010], part[..]),
                (Tensor::I32(whole), Tensor::I32(part)) => assert_eq!(whole[990..2010], part[..]),
                other => panic!("{other:?}"),
            }
            assert_ne!(generate(dtype, 7, 0, 3, 0..100), generate(dtype, 7, 1, 3, 0..100));
            assert_ne!(generate(dtype, 7, 0, 3, 0..100), generate(dtype, 8, 0, 3, 0..100));
        }
    }

    #[test]
    fn integers_never_overflow() {
        for world in [1, 2, 3, 65_535] {
            let Tensor::I32(elements) = generate(Dtype::I32, 3, 0, world, 0..10_000) else { panic!("i32") };
            let most = elements.iter().map(|element| i64::from(*element).abs()).max().unwrap_or(0);
            assert!(most * i64::from(world) <= i64::from(i32::MAX), "world {world}: {most}");
            assert!(most > i64::from(i32::MAX) / i64::from(world) / 2, "world {world}: uses its range");
        }
    }
}
