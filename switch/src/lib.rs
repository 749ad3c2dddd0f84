//! The embedded switch: executes compiled BMv2 JSON and serves P4Runtime.
