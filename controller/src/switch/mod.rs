//! One switch under control: what it holds, and the task that keeps it at what it should hold.

pub mod state;
mod task;

pub use task::{Section, SwitchError, SwitchEvent, SwitchHandle, SwitchTask};
