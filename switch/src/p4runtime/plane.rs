//! Where reads and writes go: to the running switch, or to a shadow of the pipeline that is saved and not committed yet.

use std::sync::{Arc, Mutex, PoisonError};

use inca_p4runtime::p4v1::{CloneSessionEntry, DigestEntry, MulticastGroupEntry};
use std::collections::BTreeMap;

use super::pipeline::Pipeline;
use crate::{
    runtime::{RuntimeError, SwitchHandle},
    switch::{Switch, SwitchConfig},
};

/// What P4Runtime has to return and the switch has no place for.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Digests that are switched on.
    pub(super) digests: BTreeMap<u32, DigestEntry>,
    /// Groups as they were written: the form of the ports, the metadata.
    pub(super) groups: BTreeMap<u32, MulticastGroupEntry>,
    /// Sessions as they were written: the form of the ports, the class of service.
    pub(super) sessions: BTreeMap<u32, CloneSessionEntry>,
}

/// Something that entities are read from and written to.
pub(super) struct Context<'a> {
    pub(super) switch: &'a mut Switch,
    pub(super) pipeline: &'a Pipeline,
    pub(super) notes: &'a mut Notes,
}

/// A pipeline with a place to apply entities to.
#[derive(Debug, Clone)]
pub(super) struct Plane {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) notes: Arc<Mutex<Notes>>,
    target: Target,
}

#[derive(Debug, Clone)]
enum Target {
    /// The packet thread's switch.
    Live(SwitchHandle),
    /// A switch without packets.
    Shadow(Arc<Mutex<Switch>>),
}

impl Plane {
    /// The running switch.
    pub(super) fn live(pipeline: Arc<Pipeline>, notes: Arc<Mutex<Notes>>, handle: SwitchHandle) -> Self {
        Self { pipeline, notes, target: Target::Live(handle) }
    }

    /// A fresh switch with the pipeline's program, which no packet meets.
    pub(super) fn shadow(pipeline: Arc<Pipeline>, config: SwitchConfig) -> Self {
        let switch = Switch::new(Arc::clone(&pipeline.program), config);
        Self { pipeline, notes: Arc::default(), target: Target::Shadow(Arc::new(Mutex::new(switch))) }
    }

    /// Runs `f` beside the packet path: on the rules alone ([`SwitchHandle::with_rules`]).
    pub(super) async fn with_rules<R>(
        &self,
        f: impl FnOnce(&mut Context<'_>) -> R,
    ) -> Result<R, RuntimeError> {
        let run = |switch: &mut Switch| {
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            f(&mut Context { switch, pipeline: &self.pipeline, notes: &mut notes })
        };
        match &self.target {
            Target::Live(handle) => handle.with_rules(run).await,
            Target::Shadow(switch) => Ok(run(&mut switch.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// Runs `f` between two packets.
    pub(super) async fn with<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Context<'_>) -> R + Send + 'static,
    ) -> Result<R, RuntimeError> {
        let (pipeline, notes) = (Arc::clone(&self.pipeline), Arc::clone(&self.notes));
        let run = move |switch: &mut Switch| {
            let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
            f(&mut Context { switch, pipeline: &pipeline, notes: &mut notes })
        };
        match &self.target {
            Target::Live(handle) => handle.with(run).await,
            Target::Shadow(switch) => Ok(run(&mut switch.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }
}
