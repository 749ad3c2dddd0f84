//! The caller's tensors, as the protocol sees them.

pub use inca_wire::tensor::{Dtype, Tensor, TensorMut, TensorRef};

/// What an operation reads from and writes to.
///
/// A chunk of the input is read each time it is sent, and no more once its result was written: input and output may be the same
/// memory. The contents of both must not change otherwise until the operation completes.
pub trait TensorBuffer {
    /// The input; the same length and type on every call.
    fn input(&self) -> TensorRef<'_>;
    /// The output; of the input's type. How long either is depends on the collective: see [`super::Collective`].
    fn output(&mut self) -> TensorMut<'_>;
    /// The input and, as long as it, where what quantisation took from each element is to be written. Only of f32, only if the caller
    /// wants it.
    fn residual(&mut self) -> Option<(&[f32], &mut [f32])> {
        None
    }
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

impl TensorBuffer for Tensor {
    fn input(&self) -> TensorRef<'_> {
        self.view()
    }

    fn output(&mut self) -> TensorMut<'_> {
        self.view_mut()
    }
}
