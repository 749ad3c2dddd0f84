//! Outcomes of the updates of a Write, as they travel in a gRPC error.
//!
//! The error's details are a `google.rpc.Status` with one `p4.v1.Error` per update, in the order of the updates, those
//! that succeeded included (P4Runtime specification, "Error reporting").

use prost::Message as _;
use tonic::{Code, Status};

use crate::{p4v1, proto::google::rpc};

#[cfg(test)]
mod tests;

/// `type_url` of the details.
const ERROR_TYPE: &str = "type.googleapis.com/p4.v1.Error";

/// Why one update failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code_name(*.code))]
pub struct UpdateError {
    /// Canonical code.
    pub code: Code,
    /// For people.
    pub message: String,
}

impl UpdateError {
    /// An error of this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The gRPC error of a Write of which some updates failed. `outcomes` has one element per update.
pub fn write_status(outcomes: &[Result<(), UpdateError>]) -> Status {
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    // The specification asks for UNKNOWN, whatever the codes of the updates are.
    let message = format!("{failed} of {} updates failed", outcomes.len());
    let details = outcomes.iter().map(|outcome| {
        let error = match outcome {
            Ok(()) => p4v1::Error::default(),
            Err(error) => p4v1::Error {
                canonical_code: error.code as i32,
                message: error.message.clone(),
                ..Default::default()
            },
        };
        prost_types::Any { type_url: ERROR_TYPE.to_owned(), value: error.encode_to_vec() }
    });
    let status =
        rpc::Status { code: Code::Unknown as i32, message: message.clone(), details: details.collect() };
    Status::with_details(Code::Unknown, message, status.encode_to_vec().into())
}

/// The outcomes inside a gRPC error; `None` if it carries no details (the request as a whole was refused).
pub fn write_outcomes(status: &Status) -> Option<Vec<Result<(), UpdateError>>> {
    let details = rpc::Status::decode(status.details()).ok()?.details;
    if details.is_empty() {
        return None;
    }
    details
        .iter()
        .map(|any| {
            let error = p4v1::Error::decode(any.value.as_slice()).ok()?;
            Some(match Code::from_i32(error.canonical_code) {
                Code::Ok => Ok(()),
                code => Err(UpdateError { code, message: error.message }),
            })
        })
        .collect()
}

/// The name of a code as in gRPC's documents.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
