//! C interface of the host agent: `include/inca.h`, which cbindgen writes from this crate.
//!
//! Names here become `inca_...` there. Nothing panics on what a caller hands in: null where it must not be is a status.

mod calls;
mod group;
mod operation;
mod peers;
mod status;
mod types;

pub use calls::*;
pub use group::*;
pub use operation::*;
pub use peers::*;
pub use status::*;
pub use types::*;
