//! The inca host agent: turns tensors into packets and back.
