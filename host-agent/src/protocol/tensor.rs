//! The caller's tensors, as the protocol sees them.

use std::fmt;

use inca_wire::packet::Format;

/// Element types of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// 32-bit two's complement integers.
    I32,
}

impl Dtype {
    /// The code that is hashed into operation tags: ranks must agree on it.
    pub const fn code(self) -> u8 {
        match self {
            Self::F32 => 1,
            Self::I32 => 2,
        }
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
        }
    }

    /// The number format that carries this type.
    pub const fn format(self) -> Format {
        match self {
            Self::F32 => Format::Bfp16,
            Self::I32 => Format::I32,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
        })
    }
}

/// A tensor's elements, to be read.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum TensorRef<'a> {
    /// binary32.
    F32(&'a [f32]),
    /// 32-bit integers.
    I32(&'a [i32]),
}

impl TensorRef<'_> {
    /// Element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::I32(_) => Dtype::I32,
        }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(elements) => elements.len(),
            Self::I32(elements) => elements.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A tensor's elements, to be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum TensorMut<'a> {
    /// binary32.
    F32(&'a mut [f32]),
    /// 32-bit integers.
    I32(&'a mut [i32]),
}

impl TensorMut<'_> {
    /// The same elements, to be read.
    pub fn as_ref(&self) -> TensorRef<'_> {
        match self {
            Self::F32(elements) => TensorRef::F32(elements),
            Self::I32(elements) => TensorRef::I32(elements),
        }
    }
}

/// What an operation reads from and writes to.
///
/// A chunk of the input is read each time it is sent, and no more once its result was written: input and output may be the same
/// memory. The contents of both must not change otherwise until the operation completes.
pub trait TensorBuffer {
    /// The input; the same length and type on every call.
    fn input(&self) -> TensorRef<'_>;
    /// The output; as long as the input and of its type.
    fn output(&mut self) -> TensorMut<'_>;
}

impl TensorBuffer for Vec<f32> {
    fn input(&self) -> TensorRef<'_> {
        TensorRef::F32(self)
    }

    fn output(&mut self) -> TensorMut<'_> {
        TensorMut::F32(self)
    }
}

impl TensorBuffer for Vec<i32> {
    fn input(&self) -> TensorRef<'_> {
        TensorRef::I32(self)
    }

    fn output(&mut self) -> TensorMut<'_> {
        TensorMut::I32(self)
    }
}

/// A tensor of either type, reduced in place.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Tensor {
    /// binary32.
    F32(Vec<f32>),
    /// 32-bit integers.
    I32(Vec<i32>),
}

impl TensorBuffer for Tensor {
    fn input(&self) -> TensorRef<'_> {
        match self {
            Self::F32(elements) => elements.input(),
            Self::I32(elements) => elements.input(),
        }
    }

    fn output(&mut self) -> TensorMut<'_> {
        match self {
            Self::F32(elements) => elements.output(),
            Self::I32(elements) => elements.output(),
        }
    }
}
