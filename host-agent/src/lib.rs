//! The inca host agent: turns tensors into packets and back.
//!
//! * [`protocol`]: the host side of `docs/protocol.md`, a pure state machine;
//! * [`transport`]: sockets, clock and threads around it;
//! * [`peers`]: messages from host to host;
//! * [`communicator`]: what applications use: join a job, reduce, leave.
//!
//! ```no_run
//! use std::time::Duration;
//! use inca_host_agent::{Communicator, JoinOptions, ReduceOp};
//!
//! let mut options = JoinOptions::new("http://192.0.2.1:9559", "training", 0, 4);
//! options.interface = Some("eth1".to_owned());
//! let group = Communicator::join(options)?;
//! let mut gradient = vec![0.5f32; 1 << 20];
//! group.allreduce_f32(&mut gradient, ReduceOp::Average, Duration::from_secs(10))?;
//! group.leave()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod communicator;
pub mod peers;
pub mod protocol;
pub mod ring;
pub mod transport;

pub use communicator::{
    Communicator, JoinError, JoinOptions, OnFailure, OperationHandle, RawCall, RawHandle,
};
pub use inca_p4runtime::chain as with_causes;
pub use inca_wire::packet::Format;
pub use inca_wire::scheme::{Scheme, SchemeError};
pub use peers::PeerError;
pub use protocol::{Collective, Dtype, OperationError, ReduceOp, StartError, Tensor, TensorMut, TensorRef};
pub use transport::{CollectiveError, Keeper};
