//! The host side of `docs/protocol.md` as a pure state machine: no sockets, no clock, no threads.
//!
//! [`Endpoint`] takes operations, datagrams and the time, and gives datagrams, a time to come back, and completions. One
//! endpoint is one rank's membership in a group.
//!
//! | module | what |
//! |---|---|
//! | `endpoint` | operations, acceptance of results, completion and failure |
//! | `tree` | one stripe: slots, order of chunks, retransmission |
//! | `layout` | which elements a chunk has, who brings them, who gets them |
//! | `calls` | what ranks tell each other when they called different operations |
//! | `carrier` | how they travel: reduced, as bytes, not at all |
//! | `kept` | finished chunks that others may lack when the generation changes |
//! | `inca_wire::chunk` | which pass follows which flags, elements to words and back |
//! | `rtt`, `window` | timeouts and pacing |

mod batch;
mod calls;
mod carrier;
mod config;
mod endpoint;
mod error;
mod kept;
mod layout;
mod operation;
mod rtt;
mod stats;
mod tensor;
mod tree;
mod window;

#[cfg(test)]
mod tests;

pub use batch::{OutgoingPacket, TransmitBatch};
pub use calls::Calls;
pub use config::{EndpointConfig, TreeConfig, Tuning};
pub use endpoint::{Completion, Endpoint, NextGeneration, Rejected};
pub use error::{ChangeError, Closed, ConfigError, MissingRanks, OperationError, Stall, Stalled, StartError};
pub use kept::{Account, KeptChunk};
pub use operation::{Collective, OperationId, OperationSpec, OperationText, Part, ReduceOp};
pub use rtt::RtoBounds;
pub use stats::Stats;
pub use tensor::{Dtype, Tensor, TensorBuffer, TensorMut, TensorRef};
pub use window::WindowLimits;
