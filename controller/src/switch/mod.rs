//! Switches under control: what one holds, and the task that keeps it at what it should hold.

mod handle;
mod session;
pub mod state;
mod task;

pub use handle::{Section, SwitchError, SwitchEvent, SwitchHandle};
pub use task::{Shared, SwitchTask};
