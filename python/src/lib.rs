//! Python bindings of the inca host agent: module `inca._native`, which the package in `python/inca` wraps.
//!
//! Arrays come by the buffer protocol, which NumPy, `array`, `bytearray` and memory views speak: nothing is copied, and what can't be
//! used as it lies is refused. The interpreter is released while a call waits.

mod array;
mod communicator;
mod errors;
mod handle;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<communicator::Communicator>()?;
    module.add_class::<handle::Handle>()?;
    module.add_function(wrap_pyfunction!(communicator::set_log, module)?)
}
