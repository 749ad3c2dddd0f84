//! The pipeline: a P4Info and the program it describes, held together by names.

use std::{collections::HashMap, sync::Arc};

use inca_p4runtime::{P4Info, P4InfoError, info, info::Named, p4v1::ForwardingPipelineConfig};
use thiserror::Error;

use crate::program::{
    ActionId, CounterId, DigestId, LoadError, MeterId, ProfileId, Program, RegisterId, TableId, ValueSetId,
};

#[cfg(test)]
mod tests;

/// Why a configuration can't be realised.
#[derive(Debug, Error)]
pub(super) enum PipelineError {
    /// A part is missing.
    #[error("the configuration has no {0}")]
    Missing(&'static str),
    /// The P4Info is broken.
    #[error(transparent)]
    Info(#[from] P4InfoError),
    /// The device configuration is not text.
    #[error("p4_device_config is not text, so not BMv2 JSON: {0}")]
    Text(#[from] std::str::Utf8Error),
    /// The device configuration is not a program for this switch.
    #[error("p4_device_config: {0}")]
    Program(#[from] LoadError),
    /// The P4Info is of another program.
    #[error("p4info and p4_device_config do not belong together: {what} {name} {problem}")]
    Mismatch {
        /// Kind of object.
        what: &'static str,
        /// Its name.
        name: String,
        /// What differs.
        problem: String,
    },
}

/// Both directions between an id of the P4Info and a handle of the program.
#[derive(Debug)]
struct Handles<H> {
    by_id: HashMap<u32, H>,
    by_handle: HashMap<H, u32>,
}

impl<H: Copy + Eq + std::hash::Hash> Handles<H> {
    fn new<'a, I: Named + 'a>(
        what: &'static str,
        objects: impl Iterator<Item = &'a I>,
        find: impl Fn(&str) -> Option<H>,
    ) -> Result<Self, PipelineError> {
        let mut handles = Self { by_id: HashMap::new(), by_handle: HashMap::new() };
        for object in objects {
            let name = object.name();
            // The compiler strips the leading dot of @name(".x") in one place and not in the other.
            let handle = find(name).or_else(|| find(&format!(".{name}"))).ok_or_else(|| {
                let problem = "is not in the device configuration".to_owned();
                PipelineError::Mismatch { what, name: name.to_owned(), problem }
            })?;
            handles.by_id.insert(object.id(), handle);
            handles.by_handle.insert(handle, object.id());
        }
        Ok(handles)
    }
}

/// A configuration that this switch can run.
#[derive(Debug)]
pub(super) struct Pipeline {
    /// As it was sent, to be returned.
    pub(super) config: ForwardingPipelineConfig,
    pub(super) info: P4Info,
    pub(super) program: Arc<Program>,
    tables: Handles<TableId>,
    profiles: Handles<ProfileId>,
    counters: Handles<CounterId>,
    meters: Handles<MeterId>,
    registers: Handles<RegisterId>,
    digests: Handles<DigestId>,
    value_sets: Handles<ValueSetId>,
}

macro_rules! handles {
    ($($field:ident, $handle:ty, $by_id:ident, $id:ident;)*) => {
        impl Pipeline {$(
            #[doc = concat!("The program's handle of an id of the P4Info's ", stringify!($field), ".")]
            #[allow(dead_code)]
            pub(super) fn $by_id(&self, id: u32) -> Option<$handle> {
                self.$field.by_id.get(&id).copied()
            }

            #[doc = concat!("The P4Info's id of a handle among ", stringify!($field), ".")]
            #[allow(dead_code)]
            pub(super) fn $id(&self, handle: $handle) -> Option<u32> {
                self.$field.by_handle.get(&handle).copied()
            }
        )*}
    };
}

handles! {
    tables, TableId, table, table_id;
    profiles, ProfileId, profile, profile_id;
    counters, CounterId, counter, counter_id;
    meters, MeterId, meter, meter_id;
    registers, RegisterId, register, register_id;
    digests, DigestId, digest, digest_id;
    value_sets, ValueSetId, value_set, value_set_id;
}

impl Pipeline {
    /// Checks a configuration: compiles the program and compares it with the P4Info. Takes a while; not for the packet thread.
    pub(super) fn verify(config: ForwardingPipelineConfig) -> Result<Self, PipelineError> {
        let info = P4Info::new(config.p4info.clone().ok_or(PipelineError::Missing("p4info"))?)?;
        if config.p4_device_config.is_empty() {
            return Err(PipelineError::Missing("p4_device_config"));
        }
        let program = Program::from_json(std::str::from_utf8(&config.p4_device_config)?)?;
        let pipeline = Self {
            tables: Handles::new("table", info.tables(), |name| program.table(name))?,
            profiles: Handles::new("action profile", info.profiles(), |name| program.profile(name))?,
            counters: Handles::new("counter", info.counters(), |name| program.counter(name))?,
            meters: Handles::new("meter", info.meters(), |name| program.meter(name))?,
            registers: Handles::new("register", info.registers(), |name| program.register(name))?,
            digests: Handles::new("digest", info.digests(), |name| program.digest(name))?,
            value_sets: Handles::new("value set", info.value_sets(), |name| program.value_set(name))?,
            program: Arc::new(program),
            config,
            info,
        };
        for table in pipeline.info.tables() {
            pipeline.compare_table(table)?;
        }
        Ok(pipeline)
    }

    /// The handle of an action of the P4Info, inside a table.
    pub(super) fn table_action(&self, table: TableId, action: &info::ActionInfo) -> Option<ActionId> {
        self.program.table_action(table, &action.name)
    }

    /// The P4Info's action of a handle.
    pub(super) fn action_info(&self, action: ActionId) -> Option<&info::ActionInfo> {
        let name = &self.program.action_info(action)?.name;
        self.info.action(name).or_else(|_| self.info.action(name.trim_start_matches('.'))).ok()
    }

    pub(super) fn cookie(&self) -> u64 {
        self.config.cookie.map_or(0, |cookie| cookie.cookie)
    }

    /// Keys and actions must be the same, else values would land in other fields.
    fn compare_table(&self, table: &info::TableInfo) -> Result<(), PipelineError> {
        let mismatch =
            |problem: String| PipelineError::Mismatch { what: "table", name: table.name.clone(), problem };
        let handle =
            self.table(table.id).ok_or_else(|| mismatch("is not in the device configuration".into()))?;
        let program = self
            .program
            .table_info(handle)
            .ok_or_else(|| mismatch("is not in the device configuration".into()))?;
        if program.fields.len() != table.fields.len() {
            return Err(mismatch(format!(
                "has {} match fields in the p4info, {} in the device configuration",
                table.fields.len(),
                program.fields.len()
            )));
        }
        for (described, field) in table.fields.iter().zip(&program.fields) {
            // Width 0: translated to strings.
            if described.width != 0 && described.width != field.bits {
                return Err(mismatch(format!(
                    "field {} has {} bits in the p4info, {} in the device configuration",
                    described.name, described.width, field.bits
                )));
            }
        }
        for reference in &table.actions {
            let action = self.info.action_by_id(reference.id).map_err(|error| mismatch(error.to_string()))?;
            let Some(program) = self.table_action(handle, action).and_then(|id| self.program.action_info(id))
            else {
                return Err(mismatch(format!("has action {} in the p4info only", action.name)));
            };
            let described: Vec<u32> = action.params.iter().map(|param| param.width).collect();
            let given: Vec<u32> = program.params.iter().map(|param| param.bits).collect();
            let fits = described.len() == given.len()
                && described
                    .iter()
                    .zip(&given)
                    .all(|(described, given)| *described == 0 || described == given);
            if !fits {
                return Err(mismatch(format!(
                    "action {} has parameters of {described:?} bits in the p4info, {given:?} in the device configuration",
                    action.name
                )));
            }
        }
        Ok(())
    }
}
