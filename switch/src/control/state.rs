//! Registers, indirect counters and meters, value sets.

use std::sync::Arc;

use super::bytes;
use super::{CounterValue, MeterConfig, StateError};
use crate::exec::meter::Meter;
use crate::program::{CounterId, MeterId, RegisterId, ValueSetId};
use crate::switch::Switch;

type Result<T> = std::result::Result<T, StateError>;

fn out_of_range(what: &'static str, name: &str, index: usize, size: usize) -> StateError {
    StateError::Index { what, name: name.to_owned(), index, last: size as i64 - 1 }
}

/// What is wrong with a meter's rates.
pub(super) fn meter_problem(config: &MeterConfig) -> Option<String> {
    if config.cir < 0 || config.pir < 0 || config.cburst < 0 || config.pburst < 0 {
        return Some("a negative rate or burst, valid are 0 and more".to_owned());
    }
    (config.cir > config.pir).then(|| format!("committed rate {} above peak rate {}", config.cir, config.pir))
}

impl Switch {
    /// A register cell, in shortest form.
    ///
    /// # Errors
    /// Unknown handle, index beyond the array.
    pub fn register_read(&self, register: RegisterId, index: usize) -> Result<Vec<u8>> {
        let info = self.program().register_info(register);
        let info = info.ok_or(StateError::Unknown { what: "register", id: register.0 })?;
        let out_of_range = || out_of_range("register", &info.name, index, info.size);
        // Of several threads the one that wrote the cell last has its value.
        let written_us =
            |s: &&Switch| s.machine.state.registers[register.index()].written_us.get(index).copied();
        let holder = self.threads().max_by_key(written_us).unwrap_or(self);
        let cell = holder.machine.state.registers[register.index()].cell(index as u64);
        Ok(bytes::shortest(cell.ok_or_else(out_of_range)?))
    }

    /// Sets a register cell.
    ///
    /// # Errors
    /// Unknown handle, index beyond the array, a value that does not fit.
    pub fn register_write(&mut self, register: RegisterId, index: usize, value: &[u8]) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = program.register_info(register);
        let info = info.ok_or(StateError::Unknown { what: "register", id: register.0 })?;
        if index >= info.size {
            return Err(out_of_range("register", &info.name, index, info.size));
        }
        let value = bytes::canonical(value, info.bits).map_err(|problem| StateError::BadValue {
            what: "register",
            name: info.name.clone(),
            problem,
        })?;
        let limbs = bytes::limbs(&value, info.bits.div_ceil(64) as usize);
        let now_us = self.now_us;
        for state in self.states_mut() {
            if let Some(cell) = state.registers[register.index()].cell_mut(index as u64, now_us) {
                cell.copy_from_slice(&limbs);
            }
        }
        Ok(())
    }

    /// An indirect counter.
    ///
    /// # Errors
    /// Unknown handle, index beyond the array.
    pub fn counter_read(&self, counter: CounterId, index: usize) -> Result<CounterValue> {
        let info = self.program().counter_info(counter);
        let info = info.ok_or(StateError::Unknown { what: "counter", id: counter.0 })?;
        if index >= info.size {
            return Err(out_of_range("counter", &info.name, index, info.size));
        }
        let of_threads = self.threads().filter_map(|s| s.machine.state.counters[counter.index()].get(index));
        Ok(of_threads.fold(CounterValue::default(), |sum, count| sum.plus(*count)))
    }

    /// Sets an indirect counter.
    ///
    /// # Errors
    /// Unknown handle, index beyond the array.
    pub fn counter_write(&mut self, counter: CounterId, index: usize, value: CounterValue) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = program.counter_info(counter);
        let info = info.ok_or(StateError::Unknown { what: "counter", id: counter.0 })?;
        if index >= info.size {
            return Err(out_of_range("counter", &info.name, index, info.size));
        }
        // Threads add up, so one of them has it all.
        let mut rest = value;
        for state in self.states_mut() {
            if let Some(cell) = state.counters[counter.index()].get_mut(index) {
                *cell = std::mem::take(&mut rest);
            }
        }
        Ok(())
    }

    /// An indirect meter's configuration; `None` if it was never set (every packet green).
    ///
    /// # Errors
    /// Unknown handle, index beyond the array.
    pub fn meter_read(&self, meter: MeterId, index: usize) -> Result<Option<MeterConfig>> {
        let info = self.program().meter_info(meter);
        let info = info.ok_or(StateError::Unknown { what: "meter", id: meter.0 })?;
        let cells = &self.machine.state.meters[meter.index()];
        let cell = cells.get(index).ok_or_else(|| out_of_range("meter", &info.name, index, cells.len()))?;
        Ok(cell.as_ref().map(|m| m.config))
    }

    /// Sets an indirect meter; `None`: unlimited.
    ///
    /// # Errors
    /// Unknown handle, index beyond the array, rates that contradict each other.
    pub fn meter_write(&mut self, meter: MeterId, index: usize, config: Option<MeterConfig>) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = program.meter_info(meter);
        let info = info.ok_or(StateError::Unknown { what: "meter", id: meter.0 })?;
        if let Some(problem) = config.and_then(|c| meter_problem(&c)) {
            return Err(StateError::BadValue { what: "meter", name: info.name.clone(), problem });
        }
        let now_us = self.now_us;
        let cells = &mut self.machine.state.meters[meter.index()];
        let size = cells.len();
        let cell = cells.get_mut(index).ok_or_else(|| out_of_range("meter", &info.name, index, size))?;
        *cell = config.map(|c| Meter::new(c, now_us));
        Ok(())
    }

    /// Replaces the members of a parser value set, each the concatenation of its fields, exact.
    ///
    /// # Errors
    /// Unknown handle, members that do not fit, too many of them.
    pub fn value_set_write(&mut self, set: ValueSetId, members: Vec<Vec<u8>>) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = program.value_set_info(set);
        let info = info.ok_or(StateError::Unknown { what: "value set", id: set.0 })?;
        let bad = |problem| StateError::BadValue { what: "value set", name: info.name.clone(), problem };
        if members.len() > info.size {
            return Err(bad(format!("{} members, valid are at most {}", members.len(), info.size)));
        }
        let bytes_wide = info.bits.div_ceil(8) as usize;
        let padded = members.iter().map(|m| {
            let value = bytes::canonical(m, info.bits).map_err(bad)?;
            let mut padded = vec![0; bytes_wide - value.len()];
            padded.extend(value);
            Ok(padded)
        });
        let members: Vec<Vec<u8>> = padded.collect::<Result<_>>()?;
        self.rules_mut().value_sets[set.index()] = Arc::new(members.into_iter().collect());
        Ok(())
    }

    /// Members of a parser value set, in order of value.
    ///
    /// # Errors
    /// Unknown handle.
    pub fn value_set_read(&self, set: ValueSetId) -> Result<Vec<Vec<u8>>> {
        self.program().value_set_info(set).ok_or(StateError::Unknown { what: "value set", id: set.0 })?;
        let mut members: Vec<Vec<u8>> = self.machine.rules.value_sets[set.index()].iter().cloned().collect();
        members.sort();
        Ok(members)
    }
}
