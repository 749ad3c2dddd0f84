//! End-to-end and differential tests of inca: what the suites in `suites/` share.
//!
//! * [`rng`]: the seeded generator of every recipe;
//! * [`rig`]: one switch with neighbours and trees in every role; [`traffic`]: the packets fed to it;
//!   [`install`]: the entries it needs;
//! * [`bmv2`]: the rig around a real `simple_switch_grpc`;
//! * [`fuzz`]: what strangers can send, at every entrance;
//! * [`stf`]: packet tests in p4c's format, for any program;
//! * [`fabric`]: whole trees of embedded switches and host state machines in virtual time; [`loss`]: what is proved with them;
//! * [`sharing`]: several jobs at once over links of one rate.

pub mod bmv2;
pub mod cases;
pub mod conformance;
pub mod fabric;
pub mod fuzz;
pub mod inputs;
pub mod install;
pub mod loss;
pub mod oracle;
pub mod recipe;
pub mod recording;
pub mod rig;
pub mod rng;
pub mod sharing;
pub mod stf;
pub mod target;
pub mod traffic;
