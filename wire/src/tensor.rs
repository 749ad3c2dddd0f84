//! Tensors as callers have them: element types, and borrowed or owned runs of elements.

mod dtype;
mod packed;

use core::ops::Range;

use half::{bf16, f16};

pub use dtype::{Dtype, UnknownDtype};
pub use packed::{I4Mut, I4Ref, I4Vec};

/// An 8-bit float of OCP format E4M3: its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct F8E4M3(pub u8);

/// An 8-bit float of OCP format E5M2: its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct F8E5M2(pub u8);

macro_rules! tensors {
    ($($(#[$doc:meta])* $name:ident $element:ty,)*) => {
        /// A tensor's elements, to be read.
        #[derive(Debug, Clone, Copy)]
        #[non_exhaustive]
        pub enum TensorRef<'a> {
            $($(#[$doc])* $name(&'a [$element]),)*
            /// 4-bit integers, two in a byte.
            I4(I4Ref<'a>),
        }

        /// A tensor's elements, to be written.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum TensorMut<'a> {
            $($(#[$doc])* $name(&'a mut [$element]),)*
            /// 4-bit integers, two in a byte.
            I4(I4Mut<'a>),
        }

        /// A tensor of any type.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Tensor {
            $($(#[$doc])* $name(Vec<$element>),)*
            /// 4-bit integers, two in a byte.
            I4(I4Vec),
        }

        impl TensorRef<'_> {
            /// Element type.
            pub const fn dtype(&self) -> Dtype {
                match self {
                    $(Self::$name(_) => Dtype::$name,)*
                    Self::I4(_) => Dtype::I4,
                }
            }

            /// Elements.
            pub const fn len(&self) -> usize {
                match self {
                    $(Self::$name(elements) => elements.len(),)*
                    Self::I4(elements) => elements.len(),
                }
            }
        }

        impl<'a> TensorRef<'a> {
            /// `elements` elements of a type at an address.
            ///
            /// # Safety
            ///
            /// For the lifetime of the result the memory must be readable, hold initialised elements of that type ([`Dtype::bytes_for`]
            /// bytes), be aligned for it and not null, and must not be written to.
            pub unsafe fn from_raw(data: *const u8, elements: usize, dtype: Dtype) -> Self {
                // SAFETY: as the caller promises.
                unsafe {
                    match dtype {
                        $(Dtype::$name => Self::$name(core::slice::from_raw_parts(data.cast(), elements)),)*
                        Dtype::I4 => {
                            let bytes = core::slice::from_raw_parts(data, elements.div_ceil(2));
                            Self::I4(I4Ref::new(bytes, elements))
                        }
                    }
                }
            }

            /// Address of the first element.
            pub fn as_ptr(&self) -> *const u8 {
                match self {
                    $(Self::$name(elements) => elements.as_ptr().cast(),)*
                    Self::I4(elements) => elements.bytes().as_ptr(),
                }
            }

            /// Some of the elements. Of 4-bit integers the range must begin at an even one.
            pub fn slice(&self, range: Range<usize>) -> Self {
                match *self {
                    $(Self::$name(elements) => Self::$name(&elements[range]),)*
                    Self::I4(elements) => Self::I4(elements.slice(range)),
                }
            }
        }

        impl<'a> TensorMut<'a> {
            /// `elements` elements of a type at an address.
            ///
            /// # Safety
            ///
            /// As for [`TensorRef::from_raw`]; nothing else may touch the memory.
            pub unsafe fn from_raw(data: *mut u8, elements: usize, dtype: Dtype) -> Self {
                // SAFETY: as the caller promises.
                unsafe {
                    match dtype {
                        $(Dtype::$name => Self::$name(core::slice::from_raw_parts_mut(data.cast(), elements)),)*
                        Dtype::I4 => {
                            let bytes = core::slice::from_raw_parts_mut(data, elements.div_ceil(2));
                            Self::I4(I4Mut::new(bytes, elements))
                        }
                    }
                }
            }

            /// Address of the first element.
            pub fn as_mut_ptr(&mut self) -> *mut u8 {
                match self {
                    $(Self::$name(elements) => elements.as_mut_ptr().cast(),)*
                    Self::I4(elements) => elements.as_mut_ptr(),
                }
            }

            /// The same elements, to be read.
            pub fn as_ref(&self) -> TensorRef<'_> {
                match self {
                    $(Self::$name(elements) => TensorRef::$name(elements),)*
                    Self::I4(elements) => TensorRef::I4(elements.as_ref()),
                }
            }

            /// Some of the elements. Of 4-bit integers the range must begin at an even one.
            pub fn slice(self, range: Range<usize>) -> Self {
                match self {
                    $(Self::$name(elements) => Self::$name(&mut elements[range]),)*
                    Self::I4(elements) => Self::I4(elements.slice(range)),
                }
            }
        }

        impl Tensor {
            /// `elements` zeros.
            pub fn zeros(dtype: Dtype, elements: usize) -> Self {
                match dtype {
                    $(Dtype::$name => Self::$name(vec![<$element>::default(); elements]),)*
                    Dtype::I4 => Self::I4(I4Vec::zeros(elements)),
                }
            }

            /// The elements, to be read.
            pub fn view(&self) -> TensorRef<'_> {
                match self {
                    $(Self::$name(elements) => TensorRef::$name(elements),)*
                    Self::I4(elements) => TensorRef::I4(elements.as_ref()),
                }
            }

            /// The elements, to be written.
            pub fn view_mut(&mut self) -> TensorMut<'_> {
                match self {
                    $(Self::$name(elements) => TensorMut::$name(elements),)*
                    Self::I4(elements) => TensorMut::I4(elements.as_mut()),
                }
            }
        }

        $(impl From<Vec<$element>> for Tensor {
            fn from(elements: Vec<$element>) -> Self {
                Self::$name(elements)
            }
        })*
    };
}

tensors! {
    /// IEEE 754 binary32.
    F32 f32,
    /// 32-bit integers.
    I32 i32,
    /// IEEE 754 binary16.
    F16 f16,
    /// bfloat16.
    Bf16 bf16,
    /// OCP 8-bit floats, E4M3.
    F8E4M3 F8E4M3,
    /// OCP 8-bit floats, E5M2.
    F8E5M2 F8E5M2,
    /// 8-bit integers.
    I8 i8,
    /// 16-bit integers.
    I16 i16,
    /// 64-bit integers.
    I64 i64,
    /// Unsigned 8-bit integers.
    U8 u8,
}

impl TensorRef<'_> {
    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes what [`TensorRef::to_le_bytes`] gives into memory that is used again and again.
    pub fn write_le_bytes(&self, bytes: &mut Vec<u8>) {
        fn write<const N: usize, T: Copy>(
            elements: &[T],
            bytes: &mut Vec<u8>,
            to_bytes: impl Fn(T) -> [u8; N],
        ) {
            bytes.resize(elements.len() * N, 0);
            for (bytes, element) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(elements) {
                *bytes = to_bytes(*element);
            }
        }
        match self {
            Self::F32(elements) => write(elements, bytes, f32::to_le_bytes),
            Self::I32(elements) => write(elements, bytes, i32::to_le_bytes),
            Self::F16(elements) => write(elements, bytes, f16::to_le_bytes),
            Self::Bf16(elements) => write(elements, bytes, bf16::to_le_bytes),
            Self::F8E4M3(elements) => write(elements, bytes, |element| [element.0]),
            Self::F8E5M2(elements) => write(elements, bytes, |element| [element.0]),
            Self::I8(elements) => write(elements, bytes, i8::to_le_bytes),
            Self::I16(elements) => write(elements, bytes, i16::to_le_bytes),
            Self::I64(elements) => write(elements, bytes, i64::to_le_bytes),
            Self::U8(elements) => write(elements, bytes, u8::to_le_bytes),
            Self::I4(elements) => write(elements.bytes(), bytes, u8::to_le_bytes),
        }
    }

    /// The elements as little-endian bytes, one after the other; 4-bit integers two in a byte.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_le_bytes(&mut bytes);
        bytes
    }

    /// Bits of element `index`, sign and all, in the low bits; for comparing and printing.
    pub fn bits(&self, index: usize) -> u64 {
        match self {
            Self::F32(elements) => elements[index].to_bits().into(),
            Self::I32(elements) => (elements[index] as u32).into(),
            Self::F16(elements) => elements[index].to_bits().into(),
            Self::Bf16(elements) => elements[index].to_bits().into(),
            Self::F8E4M3(elements) => elements[index].0.into(),
            Self::F8E5M2(elements) => elements[index].0.into(),
            Self::I8(elements) => (elements[index] as u8).into(),
            Self::I16(elements) => (elements[index] as u16).into(),
            Self::I64(elements) => elements[index] as u64,
            Self::U8(elements) => elements[index].into(),
            Self::I4(elements) => (elements.get(index) as u8 & 15).into(),
        }
    }

    /// Element `index` as text.
    pub fn text(&self, index: usize) -> String {
        match self {
            Self::F32(elements) => elements[index].to_string(),
            Self::I32(elements) => elements[index].to_string(),
            Self::F16(elements) => elements[index].to_string(),
            Self::Bf16(elements) => elements[index].to_string(),
            Self::I8(elements) => elements[index].to_string(),
            Self::I16(elements) => elements[index].to_string(),
            Self::I64(elements) => elements[index].to_string(),
            Self::U8(elements) => elements[index].to_string(),
            Self::I4(elements) => elements.get(index).to_string(),
            Self::F8E4M3(elements) => {
                crate::float::FloatKind::E4M3.to_f32(elements[index].0.into()).to_string()
            }
            Self::F8E5M2(elements) => {
                crate::float::FloatKind::E5M2.to_f32(elements[index].0.into()).to_string()
            }
        }
    }
}

impl TensorMut<'_> {
    /// Sets all elements from what [`TensorRef::to_le_bytes`] gave; false, and nothing is written, if there are not just as many bytes.
    pub fn read_le_bytes(&mut self, bytes: &[u8]) -> bool {
        fn read<const N: usize, T>(elements: &mut [T], bytes: &[u8], from_bytes: impl Fn([u8; N]) -> T) {
            for (element, bytes) in elements.iter_mut().zip(bytes.as_chunks::<N>().0) {
                *element = from_bytes(*bytes);
            }
        }
        if bytes.len() != self.as_ref().dtype().bytes_for(self.as_ref().len()) {
            return false;
        }
        match self {
            Self::F32(elements) => read(elements, bytes, f32::from_le_bytes),
            Self::I32(elements) => read(elements, bytes, i32::from_le_bytes),
            Self::F16(elements) => read(elements, bytes, f16::from_le_bytes),
            Self::Bf16(elements) => read(elements, bytes, bf16::from_le_bytes),
            Self::F8E4M3(elements) => read(elements, bytes, |[byte]| F8E4M3(byte)),
            Self::F8E5M2(elements) => read(elements, bytes, |[byte]| F8E5M2(byte)),
            Self::I8(elements) => read(elements, bytes, i8::from_le_bytes),
            Self::I16(elements) => read(elements, bytes, i16::from_le_bytes),
            Self::I64(elements) => read(elements, bytes, i64::from_le_bytes),
            Self::U8(elements) => read(elements, bytes, u8::from_le_bytes),
            Self::I4(elements) => {
                let given = I4Ref::new(bytes, elements.as_ref().len());
                (0..given.len()).for_each(|index| elements.set(index, given.get(index)));
            }
        }
        true
    }

    /// Writes the float of these bits; only for the types with [`Dtype::float`].
    pub(crate) fn put_float(&mut self, index: usize, bits: u32) {
        match self {
            Self::F32(elements) => elements[index] = f32::from_bits(bits),
            Self::F16(elements) => elements[index] = f16::from_bits(bits as u16),
            Self::Bf16(elements) => elements[index] = bf16::from_bits(bits as u16),
            Self::F8E4M3(elements) => elements[index] = F8E4M3(bits as u8),
            Self::F8E5M2(elements) => elements[index] = F8E5M2(bits as u8),
            _ => debug_assert!(false, "only floats are written as floats"),
        }
    }

    /// Writes an integer that fits; only for the types with [`Dtype::integer`].
    pub(crate) fn put_integer(&mut self, index: usize, value: i64) {
        match self {
            Self::I8(elements) => elements[index] = value as i8,
            Self::I16(elements) => elements[index] = value as i16,
            Self::I32(elements) => elements[index] = value as i32,
            Self::I64(elements) => elements[index] = value,
            Self::U8(elements) => elements[index] = value as u8,
            Self::I4(elements) => elements.set(index, value as i8),
            _ => debug_assert!(false, "only integers are written as integers"),
        }
    }
}

impl Tensor {
    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.view().dtype()
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads so many elements from little-endian bytes, fewer if there are not so many.
    pub fn from_le_bytes_of(dtype: Dtype, bytes: &[u8], elements: usize) -> Self {
        let bytes = &bytes[..dtype.bytes_for(elements).min(bytes.len())];
        match dtype {
            Dtype::I4 => Self::I4(I4Vec::from_bytes(bytes.to_vec(), elements)),
            dtype => Self::from_le_bytes(dtype, bytes),
        }
    }

    /// Reads elements from little-endian bytes, two 4-bit integers in each; bytes that make no whole element are left out.
    pub fn from_le_bytes(dtype: Dtype, bytes: &[u8]) -> Self {
        fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
        }
        match dtype {
            Dtype::F32 => Self::F32(each(bytes, f32::from_le_bytes)),
            Dtype::I32 => Self::I32(each(bytes, i32::from_le_bytes)),
            Dtype::F16 => Self::F16(each(bytes, f16::from_le_bytes)),
            Dtype::Bf16 => Self::Bf16(each(bytes, bf16::from_le_bytes)),
            Dtype::F8E4M3 => Self::F8E4M3(bytes.iter().map(|byte| F8E4M3(*byte)).collect()),
            Dtype::F8E5M2 => Self::F8E5M2(bytes.iter().map(|byte| F8E5M2(*byte)).collect()),
            Dtype::I8 => Self::I8(each(bytes, i8::from_le_bytes)),
            Dtype::I16 => Self::I16(each(bytes, i16::from_le_bytes)),
            Dtype::I64 => Self::I64(each(bytes, i64::from_le_bytes)),
            Dtype::U8 => Self::U8(bytes.to_vec()),
            Dtype::I4 => Self::I4(I4Vec::from_bytes(bytes.to_vec(), 2 * bytes.len())),
        }
    }
}

#[cfg(test)]
mod tests;
