//! Which header field says what packets must be processed in order, one after another.
//!
//! Threads of a switch share no registers. So all packets that meet in a register cell must be one thread's; the program's author knows
//! what they have in common. In-network aggregation: the slot.

use std::collections::BTreeMap;

use thiserror::Error;

use super::Program;
use super::ast::Ast;
use super::layout::Layout;
use super::op::Loc;

/// Where a packet's memory has the field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderBy {
    valid: Loc,
    at: Loc,
}

impl OrderBy {
    /// The field of a packet that was parsed; `None` if it has no such header.
    #[inline]
    pub(crate) fn value(self, memory: &[u64]) -> Option<u64> {
        (memory[self.valid as usize] != 0).then(|| memory[self.at as usize])
    }
}

/// Fields of up to 64 bits, by name, as in `inca.slot`.
pub(crate) type Orderable = BTreeMap<String, OrderBy>;

/// Why a program's packets can't be spread over threads.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum OrderError {
    #[error("the program has no header field {field:?} of up to 64 bits; it has {}", known.join(", "))]
    Unknown { field: String, known: Vec<String> },
    /// Threads would give each flow the whole rate.
    #[error("the program has meters, which threads can't share")]
    Meters,
}

pub(super) fn orderable(ast: &Ast, layout: &Layout) -> Orderable {
    let mut found = Orderable::new();
    for (header, place) in ast.headers.iter().zip(&layout.headers).filter(|(_, place)| !place.metadata) {
        for (field, at) in ast.types[header.ty].fields.iter().zip(&place.fields) {
            if at.limbs == 1 && !at.variable {
                let order = OrderBy { valid: place.valid, at: at.at };
                found.insert(format!("{}.{}", header.name, field.name), order);
            }
        }
    }
    found
}

impl Program {
    /// The field by whose value threads may share the packets.
    pub(crate) fn order_by(&self, field: &str) -> Result<OrderBy, OrderError> {
        if !self.meters.is_empty() {
            return Err(OrderError::Meters);
        }
        let unknown = || OrderError::Unknown {
            field: field.to_owned(),
            known: self.orderable.keys().cloned().collect(),
        };
        self.orderable.get(field).copied().ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_and_others_named() {
        let program = Program::from_json(include_str!("../../../p4/compiled/inca.json")).unwrap();
        assert!(program.order_by("inca.slot").is_ok());
        let error = program.order_by("inca.slots").unwrap_err().to_string();
        assert!(error.contains("\"inca.slots\"") && error.contains("inca.slot, "), "{error}");
        assert!(!error.contains("low"), "words are wider than 64 bits: {error}");
    }
}
