//! Packets, number formats and the slot-protocol reference model of inca: pure, no sockets, no clock.
