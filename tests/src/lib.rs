//! End-to-end and differential tests of inca.
