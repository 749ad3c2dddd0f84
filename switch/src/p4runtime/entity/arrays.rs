//! Indirect counters and meters, and registers. They are always there; an absent index stands for every cell.

use inca_p4runtime::{
    bytestring::{self, canonical},
    info::{ArrayInfo, RegisterInfo},
    p4v1::{
        CounterEntry, Entity, Index, MeterEntry, P4Data, RegisterEntry, entity::Entity as Kind, p4_data::Data,
    },
    status::UpdateError,
};
use tonic::Code;

use super::{Operation, direct};
use crate::p4runtime::{
    error::{Outcome, bytes, invalid, unknown},
    plane::Context,
};

/// Sets a counter, or all of an array.
pub(in crate::p4runtime) fn apply_counter(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &CounterEntry,
) -> Outcome {
    operation.must_modify("counter")?;
    let info = cx.pipeline.info.counter_by_id(entry.counter_id).map_err(unknown)?;
    let handle = cx.pipeline.counter(info.id).ok_or_else(|| absent("counter", &info.name))?;
    let cells = cells("counter", &info.name, info.size, entry.index)?;
    // Without data the value stays.
    let Some(data) = entry.data else { return Ok(()) };
    let value = direct::counter_value(data.byte_count, data.packet_count)?;
    for index in cells {
        cx.switch.counter_write(handle, index, value)?;
    }
    Ok(())
}

/// Sets a meter, or all of an array; without configuration every packet is green again.
pub(in crate::p4runtime) fn apply_meter(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &MeterEntry,
) -> Outcome {
    operation.must_modify("meter")?;
    let info = cx.pipeline.info.meter_by_id(entry.meter_id).map_err(unknown)?;
    let handle = cx.pipeline.meter(info.id).ok_or_else(|| absent("meter", &info.name))?;
    if let Some(config) = &entry.config {
        direct::check_meter(&info.name, config)?;
    }
    for index in cells("meter", &info.name, info.size, entry.index)? {
        cx.switch.meter_write(handle, index, entry.config.as_ref().map(direct::control_meter))?;
    }
    Ok(())
}

/// Sets a register, or all of an array.
pub(in crate::p4runtime) fn apply_register(
    cx: &mut Context<'_>,
    operation: Operation,
    entry: &RegisterEntry,
) -> Outcome {
    operation.must_modify("register")?;
    let info = cx.pipeline.info.register_by_id(entry.register_id).map_err(unknown)?;
    let handle = cx.pipeline.register(info.id).ok_or_else(|| absent("register", &info.name))?;
    let cells = cells("register", &info.name, info.size, entry.index)?;
    let value = register_value(info, entry.data.as_ref())?;
    for index in cells {
        cx.switch.register_write(handle, index, &value)?;
    }
    Ok(())
}

/// Counters that a pattern stands for.
pub(in crate::p4runtime) fn read_counters(
    cx: &mut Context<'_>,
    pattern: &CounterEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    let all: Vec<&ArrayInfo> = match pattern.counter_id {
        0 => cx.pipeline.info.counters().collect(),
        id => vec![cx.pipeline.info.counter_by_id(id).map_err(unknown)?],
    };
    for info in all {
        let handle = cx.pipeline.counter(info.id).ok_or_else(|| absent("counter", &info.name))?;
        for at in cells("counter", &info.name, info.size, index_of(pattern.counter_id, pattern.index))? {
            let data = Some(direct::counter_data(cx.switch.counter_read(handle, at)?));
            let index = Some(Index { index: at as i64 });
            found.push(Kind::CounterEntry(CounterEntry { counter_id: info.id, index, data }).into());
        }
    }
    Ok(())
}

/// Meters that a pattern stands for; one that was never set has no configuration.
pub(in crate::p4runtime) fn read_meters(
    cx: &mut Context<'_>,
    pattern: &MeterEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    let all: Vec<&ArrayInfo> = match pattern.meter_id {
        0 => cx.pipeline.info.meters().collect(),
        id => vec![cx.pipeline.info.meter_by_id(id).map_err(unknown)?],
    };
    for info in all {
        let handle = cx.pipeline.meter(info.id).ok_or_else(|| absent("meter", &info.name))?;
        for at in cells("meter", &info.name, info.size, index_of(pattern.meter_id, pattern.index))? {
            let config = cx.switch.meter_read(handle, at)?.map(direct::meter_config);
            let index = Some(Index { index: at as i64 });
            let entry = MeterEntry { meter_id: info.id, index, config, counter_data: None };
            found.push(Kind::MeterEntry(entry).into());
        }
    }
    Ok(())
}

/// Registers that a pattern stands for.
pub(in crate::p4runtime) fn read_registers(
    cx: &mut Context<'_>,
    pattern: &RegisterEntry,
    found: &mut Vec<Entity>,
) -> Outcome {
    let all: Vec<&RegisterInfo> = match pattern.register_id {
        0 => cx.pipeline.info.registers().collect(),
        id => vec![cx.pipeline.info.register_by_id(id).map_err(unknown)?],
    };
    for info in all {
        let handle = cx.pipeline.register(info.id).ok_or_else(|| absent("register", &info.name))?;
        for at in cells("register", &info.name, info.size, index_of(pattern.register_id, pattern.index))? {
            let value = cx.switch.register_read(handle, at)?;
            let data = P4Data { data: Some(Data::Bitstring(canonical(&value).to_vec())) };
            let index = Some(Index { index: at as i64 });
            let entry = RegisterEntry { register_id: info.id, index, data: Some(data) };
            found.push(Kind::RegisterEntry(entry).into());
        }
    }
    Ok(())
}

fn register_value(info: &RegisterInfo, data: Option<&P4Data>) -> Outcome<Vec<u8>> {
    let expected = || invalid(format!("register {}: expected a bitstring", info.name));
    let width = info.width.ok_or_else(|| {
        let message = format!("register {}: cells of a structured type are not supported", info.name);
        UpdateError::new(Code::Unimplemented, message)
    })?;
    let value = match data.and_then(|data| data.data.as_ref()).ok_or_else(expected)? {
        Data::Bitstring(value) => value.clone(),
        Data::Bool(value) if width == 1 => vec![u8::from(*value)],
        _ => return Err(expected()),
    };
    let fits = bytestring::fit(&value, width).map(<[u8]>::to_vec);
    fits.map_err(|error| bytes(format_args!("register {}", info.name), error))
}

/// The cells that an index stands for.
fn cells(what: &str, name: &str, size: i64, index: Option<Index>) -> Outcome<std::ops::Range<usize>> {
    let size = usize::try_from(size).unwrap_or(0);
    let Some(Index { index }) = index else { return Ok(0..size) };
    let at = usize::try_from(index)
        .map_err(|_| invalid(format!("{what} {name}: index {index} given, expected 0 or more")))?;
    if at >= size {
        let message =
            format!("{what} {name}: index {index} given, valid are 0 to {}", size.saturating_sub(1));
        return Err(UpdateError::new(Code::OutOfRange, message));
    }
    Ok(at..at + 1)
}

/// With every array asked for, an index says nothing.
fn index_of(id: u32, index: Option<Index>) -> Option<Index> {
    index.filter(|_| id != 0)
}

fn absent(what: &str, name: &str) -> UpdateError {
    UpdateError::new(Code::Internal, format!("{what} {name} is not in the program"))
}
