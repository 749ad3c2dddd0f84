//! Python's arrays as the library wants them: whole runs of elements of a known type.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use inca_host_agent::{Dtype, TensorMut, TensorRef};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use crate::errors::named;

/// An array that is in use: its memory can't go away or be resized while this lives.
pub(crate) struct Array {
    buffer: PyUntypedBuffer,
    dtype: Dtype,
    elements: usize,
}

impl Array {
    /// An array to be read. `dtype` names the element type where the array can't (bfloat16, 8-bit floats, packed 4-bit integers).
    pub(crate) fn input(value: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Self> {
        let py = value.py();
        let refuse = |message: String| named(py, "ArrayError", message);
        let what = describe(value);
        let buffer = PyUntypedBuffer::get(value).map_err(|error| {
            named(py, "DtypeError", format!("{what} gives no buffer of numbers: {error}"))
        })?;
        if !buffer.is_c_contiguous() {
            let (shape, strides) = (buffer.shape(), buffer.strides());
            return Err(refuse(format!(
                "{what} of shape {shape:?} and strides {strides:?} bytes is not C-contiguous: copy it (numpy.ascontiguousarray) and copy the result back"
            )));
        }
        let (item_size, item_count) = (buffer.item_size(), buffer.item_count());
        let format = buffer.format().to_string_lossy().into_owned();
        let dtype = match dtype {
            Some(name) => named_dtype(py, name, item_size, &format)?,
            None => format_dtype(&format, item_size).ok_or_else(|| {
                named(
                    py,
                    "DtypeError",
                    format!(
                        "{what} has elements of format {format:?} ({item_size} bytes): use float32, float16, int8, uint8, int16, int32 or int64 of this machine's byte order, or give dtype="
                    ),
                )
            })?,
        };
        let elements = match dtype {
            Dtype::I4 => item_count * 2,
            _ => item_count,
        };
        let align = if dtype == Dtype::I4 { 1 } else { dtype.bits() as usize / 8 };
        if elements > 0 && buffer.buf_ptr().align_offset(align) != 0 {
            return Err(refuse(format!(
                "{what} begins at an address that is no multiple of {align} bytes: copy it"
            )));
        }
        Ok(Self { buffer, dtype, elements })
    }

    /// An array to be written.
    pub(crate) fn output(value: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Self> {
        let array = Self::input(value, dtype)?;
        if array.buffer.readonly() {
            let message = format!("{} is read-only: it is to hold the result", describe(value));
            return Err(named(value.py(), "ArrayError", message));
        }
        Ok(array)
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    /// Its first element; of an empty array an address that is aligned and not null.
    pub(crate) fn pointer(&self) -> *mut u8 {
        match self.elements {
            0 => std::ptr::NonNull::<u128>::dangling().as_ptr().cast(),
            _ => self.buffer.buf_ptr().cast(),
        }
    }

    /// The elements, to be read.
    pub(crate) fn view(&self) -> TensorRef<'_> {
        // SAFETY: the buffer keeps so many initialised elements of this type where they are, aligned. That nobody writes meanwhile is asked
        // of the caller, as of any Python code that releases the interpreter while it uses a buffer.
        unsafe { TensorRef::from_raw(self.pointer(), self.elements, self.dtype) }
    }

    /// The elements, to be written: of an array made by [`Array::output`].
    pub(crate) fn view_mut(&mut self) -> TensorMut<'_> {
        // SAFETY: as in `view`; `output` has seen that the buffer is writable.
        unsafe { TensorMut::from_raw(self.pointer(), self.elements, self.dtype) }
    }

    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> Range<usize> {
        let start = self.pointer() as usize;
        start..start + self.buffer.len_bytes()
    }

    /// Whether the two share a byte without being the same.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.bytes(), other.bytes());
        a != b && a.start < b.end && b.start < a.end
    }
}

/// Memory, and whether it is written.
type Use = (Range<usize>, bool);

/// The memory that calls of one group are using.
#[derive(Clone, Default)]
pub(crate) struct InUse(Arc<Mutex<Vec<Use>>>);

/// One call's part of it, until it is dropped.
pub(crate) struct Claim {
    in_use: InUse,
    claimed: Vec<Use>,
}

impl InUse {
    /// Claims the memory of a call; refused if another call writes what this one uses, or uses what this one writes.
    pub(crate) fn claim(&self, input: Option<&Array>, output: Option<&Array>) -> Option<Claim> {
        let arrays = [(input, false), (output, true)];
        let claimed: Vec<_> = arrays
            .into_iter()
            .filter_map(|(array, writes)| Some((array?.bytes(), writes)))
            .filter(|(bytes, _)| !bytes.is_empty())
            .collect();
        let mut in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let clashes = |(a, a_writes): &Use| {
            in_use.iter().any(|(b, b_writes)| (*a_writes || *b_writes) && a.start < b.end && b.start < a.end)
        };
        if claimed.iter().any(clashes) {
            return None;
        }
        in_use.extend(claimed.iter().cloned());
        Some(Claim { in_use: self.clone(), claimed })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut in_use = self.in_use.0.lock().unwrap_or_else(PoisonError::into_inner);
        for claimed in &self.claimed {
            if let Some(at) = in_use.iter().position(|other| other == claimed) {
                in_use.swap_remove(at);
            }
        }
    }
}

fn describe(value: &Bound<'_, PyAny>) -> String {
    match value.get_type().name() {
        Ok(name) => format!("the {name}"),
        Err(_) => "the array".to_owned(),
    }
}

/// The type of a buffer's elements, as module `struct` writes it.
fn format_dtype(format: &str, item_size: usize) -> Option<Dtype> {
    let little = cfg!(target_endian = "little");
    let code = match format.as_bytes() {
        [code] | [b'@' | b'=', code] => code,
        [b'<', code] if little => code,
        [b'>', code] if !little => code,
        _ => return None,
    };
    match (code, item_size) {
        (b'f', 4) => Some(Dtype::F32),
        (b'e', 2) => Some(Dtype::F16),
        (b'b', 1) => Some(Dtype::I8),
        (b'B', 1) => Some(Dtype::U8),
        (b'h', 2) => Some(Dtype::I16),
        (b'i' | b'l', 4) => Some(Dtype::I32),
        (b'l' | b'q', 8) => Some(Dtype::I64),
        _ => None,
    }
}

/// A type that the caller names must have the size of the array's elements.
fn named_dtype(py: Python<'_>, name: &str, item_size: usize, format: &str) -> PyResult<Dtype> {
    let refuse = |message: String| named(py, "DtypeError", message);
    let dtype: Dtype = name.parse().map_err(|error| refuse(format!("{error}")))?;
    let size = if dtype == Dtype::I4 { 1 } else { dtype.bits() as usize / 8 };
    if size != item_size {
        return Err(refuse(format!(
            "dtype {dtype} takes {size} bytes, an element of the array {item_size} (format {format:?})"
        )));
    }
    Ok(dtype)
}
