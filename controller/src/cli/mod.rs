//! Parts of the command.

pub(crate) mod status;
