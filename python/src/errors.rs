//! Errors as Python exceptions: the class in `inca.errors` that bears the name of the Rust error or of its variant.

use inca_host_agent::communicator::{LeaveError, SplitError};
use inca_host_agent::{
    CollectiveError, JoinError, OperationError, PeerError, SchemeError, StartError, with_causes,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// An exception of a class in `inca.errors`.
pub(crate) fn named(py: Python<'_>, class: &str, message: String) -> PyErr {
    with_ranks(py, class, message, &[])
}

fn with_ranks(py: Python<'_>, class: &str, message: String, missing_ranks: &[u32]) -> PyErr {
    let made = py
        .import("inca.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((message.as_str(),)))
        .and_then(|error| {
            error.setattr("missing_ranks", missing_ranks.to_vec())?;
            Ok(error)
        });
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(_) => PyRuntimeError::new_err(message),
    }
}

pub(crate) fn join(py: Python<'_>, error: &JoinError) -> PyErr {
    let (class, missing): (_, &[u32]) = match error {
        JoinError::Refused { .. } => ("Refused", &[]),
        JoinError::Timeout { missing_ranks, .. } => ("JoinTimeout", missing_ranks),
        JoinError::Unreachable { .. } => ("Unreachable", &[]),
        JoinError::Options { .. } | JoinError::Uri { .. } => ("JoinOptionsError", &[]),
        JoinError::Closed { closed, .. } => ("JoinError", &closed.missing_ranks),
        _ => ("JoinError", &[]),
    };
    with_ranks(py, class, with_causes(error), missing)
}

pub(crate) fn leave(py: Python<'_>, error: &LeaveError) -> PyErr {
    named(py, "LeaveError", error.to_string())
}

pub(crate) fn scheme(py: Python<'_>, error: &SchemeError) -> PyErr {
    named(py, "Unsupported", error.to_string())
}

pub(crate) fn collective(py: Python<'_>, error: &CollectiveError) -> PyErr {
    let (class, missing) = match error {
        CollectiveError::Start(error) => (of_start(error), Vec::new()),
        CollectiveError::Operation(error) => of_operation(error),
        CollectiveError::Peers(error) => of_peers(error),
        CollectiveError::DriverGone { .. } => ("DriverGone", Vec::new()),
        _ => ("CollectiveError", Vec::new()),
    };
    with_ranks(py, class, with_causes(error), &missing)
}

pub(crate) fn split(py: Python<'_>, error: &SplitError) -> PyErr {
    match error {
        SplitError::Collective(error) => collective(py, error),
        SplitError::Join(error) => join(py, error),
        SplitError::Ranks { .. } => named(py, "RanksError", error.to_string()),
        SplitError::Disagreement { .. } => named(py, "Disagreement", error.to_string()),
        _ => named(py, "IncaError", error.to_string()),
    }
}

fn of_peers(error: &PeerError) -> (&'static str, Vec<u32>) {
    match error {
        PeerError::NotConnected { .. } => ("NotConnected", Vec::new()),
        PeerError::Rank { .. } => ("RanksError", Vec::new()),
        PeerError::Lost { rank, .. } => ("PeerLost", vec![*rank]),
        PeerError::DeadlineExceeded { rank, .. } => ("DeadlineExceeded", vec![*rank]),
        PeerError::Shape { .. } | PeerError::Parts { .. } => ("OutputMismatch", Vec::new()),
        PeerError::Exchange { ranks, .. } => ("ExchangeFailed", ranks.clone()),
        PeerError::Closed { closed, .. } => ("Closed", closed.missing_ranks.clone()),
        _ => ("CollectiveError", Vec::new()),
    }
}

fn of_start(error: &StartError) -> &'static str {
    match error {
        StartError::Unsupported { .. }
        | StartError::Ring { .. }
        | StartError::RingCollective { .. }
        | StartError::Residual { .. } => "Unsupported",
        StartError::OutputMismatch { .. } | StartError::Shape { .. } => "OutputMismatch",
        StartError::Root { .. } => "RootError",
        StartError::TooLarge { .. } => "TooLarge",
        StartError::Closed { .. } => "GroupClosed",
    }
}

fn of_operation(error: &OperationError) -> (&'static str, Vec<u32>) {
    match error {
        OperationError::DeadlineExceeded { stall, .. } => ("DeadlineExceeded", stall.missing()),
        OperationError::Mismatch { .. } => ("Mismatch", Vec::new()),
        OperationError::Overflow { .. } | OperationError::OverflowAmong { .. } => ("Overflow", Vec::new()),
        OperationError::Protocol { .. } => ("Protocol", Vec::new()),
        OperationError::Closed { closed, .. } => ("Closed", closed.missing_ranks.clone()),
        OperationError::Cancelled { .. } => ("Cancelled", Vec::new()),
    }
}
