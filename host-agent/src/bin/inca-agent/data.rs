//! Tensors: generated from a seed, so that every rank knows all ranks' inputs, or read from files.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use half::{bf16, f16};
use inca_host_agent::{Dtype, Tensor};
use inca_wire::float::FloatKind;
use inca_wire::tensor::I4Vec;
use npyz::WriterBuilder as _;

use crate::Failure;

/// The elements that a rank contributes, in this range of its tensor (of i4 from an even one on).
///
/// Integers: uniform over what can't overflow in a group of this size. Floats: uniform mantissas; the scale changes by rank and by every
/// 1000 elements, so that the ranks' block exponents differ and have to be aligned.
pub(crate) fn generate(dtype: Dtype, seed: u64, rank: u32, world: u32, range: Range<usize>) -> Tensor {
    let random = |index: usize| mix(mix(seed ^ u64::from(rank) << 32) ^ index as u64);
    let float = |index: usize| {
        let scale = mix(seed ^ u64::from(rank) << 40 ^ (index / 1000) as u64) % 6;
        let mantissa = ((random(index) >> 40) as i64 - (1 << 23)) as f32 / (1 << 23) as f32;
        mantissa * 2f32.powi(-(scale as i32))
    };
    let limit = |most: i64| most / i64::from(world.max(1));
    let integer = |most: i64| {
        let (limit, span) = (limit(most), 2 * limit(most) as u128 + 1);
        move |index: usize| ((u128::from(random(index) >> 32 << 32) * span) >> 64) as i64 - limit
    };
    let bytes = |values: Vec<u8>| Tensor::from_le_bytes(dtype, &values);
    match dtype {
        Dtype::F32 => Tensor::F32(range.map(float).collect()),
        Dtype::F16 => Tensor::F16(range.map(|index| f16::from_f32(float(index))).collect()),
        Dtype::Bf16 => Tensor::Bf16(range.map(|index| bf16::from_f32(float(index))).collect()),
        Dtype::F8E4M3 => {
            bytes(range.map(|index| FloatKind::E4M3.from_f64(float(index).into()) as u8).collect())
        }
        Dtype::F8E5M2 => {
            bytes(range.map(|index| FloatKind::E5M2.from_f64(float(index).into()) as u8).collect())
        }
        Dtype::I8 => Tensor::I8(range.map(|index| integer(i8::MAX.into())(index) as i8).collect()),
        Dtype::I16 => Tensor::I16(range.map(|index| integer(i16::MAX.into())(index) as i16).collect()),
        Dtype::I32 => Tensor::I32(range.map(|index| integer(i32::MAX.into())(index) as i32).collect()),
        Dtype::I64 => Tensor::I64(range.map(integer(i64::MAX)).collect()),
        Dtype::U8 => Tensor::U8(
            range.map(|index| (random(index) % (limit(u8::MAX.into()) as u64 + 1)) as u8).collect(),
        ),
        Dtype::I4 => {
            let values: Vec<i8> = range.map(|index| integer(7)(index) as i8).collect();
            Tensor::I4(I4Vec::from_values(&values))
        }
    }
}

/// Refuses a tensor that this machine has no memory for: an allocation that fails would end the process without a word.
pub(crate) fn check_room(option: &str, bytes: u64) -> Result<(), Failure> {
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    match memory {
        Some(memory) if bytes > memory => Err(Failure::Usage(format!(
            "{option}: a tensor of {bytes} bytes, this machine has {memory} bytes of memory"
        ))),
        _ => Ok(()),
    }
}

/// Bytes of memory, from Linux's `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
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
    let (len, elements) = (bytes.len(), dtype.elements_in(bytes.len()));
    if dtype.bytes_for(elements) != len {
        let size = dtype.bytes_for(1);
        return Err(failure(format!("{len} bytes are no whole number of {dtype} elements of {size} bytes")));
    }
    Ok((Tensor::from_le_bytes(dtype, &bytes), Layout::flat(elements)))
}

fn read_npy(bytes: &[u8], dtype: Dtype) -> Result<(Tensor, Layout), String> {
    let file = npyz::NpyFile::new(bytes).map_err(|error| format!("not a NumPy array: {error}"))?;
    let layout = Layout { shape: file.shape().to_vec(), order: file.order() };
    let dimensions = layout.shape.iter().filter(|length| **length > 1).count();
    if layout.order == npyz::Order::Fortran && dimensions > 1 {
        // Elements meet by their place in memory, so ranks of different orders would add the wrong ones.
        return Err(format!(
            "the array of shape {:?} lies in Fortran order, and ranks' elements meet in C order: save numpy.ascontiguousarray(array)",
            layout.shape
        ));
    }
    let given = file.dtype().descr();
    let wrong = |error| format!("elements are {given}, not {dtype} as --dtype says: {error}");
    let tensor = match dtype {
        Dtype::F32 => Tensor::F32(file.into_vec().map_err(wrong)?),
        Dtype::F16 => Tensor::F16(file.into_vec().map_err(wrong)?),
        Dtype::I8 => Tensor::I8(file.into_vec().map_err(wrong)?),
        Dtype::I16 => Tensor::I16(file.into_vec().map_err(wrong)?),
        Dtype::I32 => Tensor::I32(file.into_vec().map_err(wrong)?),
        Dtype::I64 => Tensor::I64(file.into_vec().map_err(wrong)?),
        Dtype::U8 => Tensor::U8(file.into_vec().map_err(wrong)?),
        // NumPy knows no such types: their bytes.
        Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::I4 => {
            return Err(format!("NumPy has no {dtype}: give raw bytes in a file of another name"));
        }
    };
    Ok((tensor, layout))
}

/// Refuses a file that could not be written in the end, before anything is summed.
pub(crate) fn check_writable(path: &Path, dtype: Dtype) -> Result<(), Failure> {
    let failure =
        |reason: String| Failure::File { what: "writing", path: path.display().to_string(), reason };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(failure(format!("there is no folder {}", folder.display())));
    }
    if is_npy(path) && matches!(dtype, Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::I4) {
        return Err(failure(format!("NumPy has no {dtype}: name the file otherwise to get raw bytes")));
    }
    Ok(())
}

/// Writes a NumPy array (.npy) of this layout or raw little-endian elements.
pub(crate) fn write(path: &Path, tensor: &Tensor, layout: &Layout) -> Result<(), Failure> {
    let bytes = if is_npy(path) { npy(tensor, layout) } else { Ok(tensor.view().to_le_bytes()) };
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
        Tensor::F16(elements) => write(elements, layout),
        Tensor::I8(elements) => write(elements, layout),
        Tensor::I16(elements) => write(elements, layout),
        Tensor::I32(elements) => write(elements, layout),
        Tensor::I64(elements) => write(elements, layout),
        Tensor::U8(elements) => write(elements, layout),
        other => Err(io::Error::other(format!("NumPy has no {}", other.dtype()))),
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
        for dtype in [Dtype::F32, Dtype::F16, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64, Dtype::U8] {
            let tensor = generate(dtype, 1, 0, 2, 0..24);
            for (shape, order) in [(vec![2, 3, 4], npyz::Order::C), (vec![1, 24], npyz::Order::Fortran)] {
                let layout = Layout { shape, order };
                let bytes = npy(&tensor, &layout).unwrap();
                let (read, read_layout) = read_npy(&bytes, dtype).unwrap();
                assert_eq!((read, read_layout), (tensor.clone(), layout));
            }
            let fortran = Layout { shape: vec![2, 12], order: npyz::Order::Fortran };
            let error = read_npy(&npy(&tensor, &fortran).unwrap(), dtype).unwrap_err();
            assert!(error.contains("Fortran") && error.contains("[2, 12]"), "{error}");
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
        for dtype in Dtype::ALL {
            let whole = generate(dtype, 7, 1, 3, 0..5000);
            let part = generate(dtype, 7, 1, 3, 990..2010);
            assert_eq!((whole.len(), part.len(), whole.dtype()), (5000, 1020, dtype));
            let same = |index| whole.view().bits(990 + index) == part.view().bits(index);
            assert!((0..1020).all(same), "{dtype}");
            assert_ne!(generate(dtype, 7, 0, 3, 0..100), generate(dtype, 7, 1, 3, 0..100));
            assert_ne!(generate(dtype, 7, 0, 3, 0..100), generate(dtype, 8, 0, 3, 0..100));
        }
    }

    #[test]
    fn tensors_beyond_memory_are_refused() {
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16 << 10));
        assert_eq!(total_memory("MemTotal: many kB\n"), None);
        assert!(check_room("--bytes", 1 << 20).is_ok());
        let error = check_room("--bytes", u64::MAX).unwrap_err().to_string();
        assert!(
            error.starts_with("--bytes: a tensor of 18446744073709551615 bytes, this machine has "),
            "{error}"
        );
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
