//! Packets, number formats and the slot-protocol reference model of inca: pure, no sockets, no clock.
//!
//! * [`packet`]: the reduction packet (`docs/protocol.md`), as a byte view and as a plain struct;
//! * [`frame`]: Ethernet, IPv4, UDP and ARP around it; [`lldp`]: the controller's link probes;
//! * [`address`]: the default service addresses of switches;
//! * [`tag`]: the 32-bit operation tag;
//! * [`tensor`]: element types; [`scheme`]: which of them goes through which operation in which number format;
//! * [`format`](mod@format): blocks of numbers to wire words and back; [`chunk`]: the passes of a chunk, from elements to elements;
//!   [`float`]: floating-point formats bit by bit; [`masks`]: word constants of the switches' tables;
//! * [`model`]: the reference model that everything else is held against.

pub mod address;
pub mod chunk;
pub mod float;
pub mod format;
pub mod frame;
pub mod lldp;
pub mod masks;
pub mod model;
pub mod packet;
pub mod scheme;
pub mod tag;
pub mod tensor;
