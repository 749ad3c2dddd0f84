//! Refusals. The one place where they become gRPC codes and HTTP statuses.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use thiserror::Error;
use tonic::Code;

use super::model::Problem;
use super::token::Role;
use crate::jobs::{JoinError, LeaveError, OutlookError, ReportError, SubmitError};

/// Why a call is refused.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Leave(#[from] LeaveError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Outlook(#[from] OutlookError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The thing that is asked for.
    #[error("there is no {what} {name:?}")]
    Unknown { what: &'static str, name: String },
    /// A part of the request does not parse.
    #[error("{what}: {reason}")]
    Request { what: &'static str, reason: String },
    #[error("there is no {0}: see /docs or /openapi.json")]
    Route(String),
    #[error("{0} does not take this method: see /docs or /openapi.json")]
    Method(String),
    #[error("the controller is ending")]
    Ending,
    #[error("a token is needed: `Authorization: Bearer TOKEN`")]
    NoToken,
    #[error("the token is not one of this controller's")]
    WrongToken,
    #[error("the token {name:?} has the role {has}, this call takes {needs}")]
    Forbidden { name: String, has: Role, needs: Role },
    #[error("too many calls by {who}: come again in {again:?}")]
    TooMany { who: String, again: Duration },
}

/// What sort of refusal it is: a row of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    NotFound,
    Method,
    Exists,
    State,
    Unauthenticated,
    Forbidden,
    TooMany,
    Unavailable,
}

impl Kind {
    /// gRPC code, HTTP status, and the title that is the same for all of its kind.
    pub(crate) const fn mapping(self) -> (Code, StatusCode, &'static str) {
        match self {
            Self::Invalid => (Code::InvalidArgument, StatusCode::BAD_REQUEST, "Invalid request"),
            Self::NotFound => (Code::NotFound, StatusCode::NOT_FOUND, "Not found"),
            Self::Method => (Code::Unimplemented, StatusCode::METHOD_NOT_ALLOWED, "Method not allowed"),
            Self::Exists => (Code::AlreadyExists, StatusCode::CONFLICT, "Already there"),
            Self::State => (Code::FailedPrecondition, StatusCode::CONFLICT, "Not in this state"),
            Self::Unauthenticated => (Code::Unauthenticated, StatusCode::UNAUTHORIZED, "Not authenticated"),
            Self::Forbidden => (Code::PermissionDenied, StatusCode::FORBIDDEN, "Not allowed"),
            Self::TooMany => (Code::ResourceExhausted, StatusCode::TOO_MANY_REQUESTS, "Limit reached"),
            Self::Unavailable => (Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE, "Not available"),
        }
    }
}

impl ApiError {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Join(error) => join(error),
            Self::Leave(LeaveError::NoGroup(_) | LeaveError::NotMember { .. }) => Kind::NotFound,
            Self::Leave(LeaveError::Token { .. }) | Self::Report(ReportError::Token { .. }) => {
                Kind::Forbidden
            }
            Self::Leave(LeaveError::Generation { .. }) | Self::Report(_) => Kind::State,
            Self::Submit(error) => match error {
                SubmitError::Name(_) | SubmitError::Idle(_) => Kind::Invalid,
                SubmitError::Taken { .. } => Kind::Exists,
                SubmitError::TooMany { .. } => Kind::TooMany,
                SubmitError::NoRandom | SubmitError::Standby => Kind::Unavailable,
            },
            Self::Outlook(OutlookError::Field(error)) => join(error),
            Self::Outlook(OutlookError::Elements(_)) => Kind::Invalid,
            Self::Outlook(OutlookError::NoGroup(_)) => Kind::NotFound,
            Self::Outlook(OutlookError::NoTree(_)) => Kind::State,
            Self::Unknown { .. } | Self::Route(_) => Kind::NotFound,
            Self::Request { .. } => Kind::Invalid,
            Self::Method(_) => Kind::Method,
            Self::Ending => Kind::Unavailable,
            Self::NoToken | Self::WrongToken => Kind::Unauthenticated,
            Self::Forbidden { .. } => Kind::Forbidden,
            Self::TooMany { .. } => Kind::TooMany,
        }
    }
}

const fn join(error: &JoinError) -> Kind {
    match error {
        JoinError::Standby | JoinError::NoRandom => Kind::Unavailable,
        JoinError::JobToken { .. } | JoinError::MemberToken { .. } => Kind::Forbidden,
        JoinError::Groups { .. } => Kind::TooMany,
        JoinError::Field { .. } | JoinError::Mtu { .. } => Kind::Invalid,
        JoinError::Terms { .. } | JoinError::RankLost { .. } | JoinError::Spoiled { .. } => Kind::State,
        JoinError::NoMember { .. } => Kind::NotFound,
        JoinError::RankTaken { .. } | JoinError::AddressTaken { .. } => Kind::Exists,
    }
}

impl From<ApiError> for tonic::Status {
    fn from(error: ApiError) -> Self {
        Self::new(error.kind().mapping().0, error.to_string())
    }
}

impl From<&ApiError> for Problem {
    fn from(error: &ApiError) -> Self {
        let (_, status, title) = error.kind().mapping();
        let kind = title.to_ascii_lowercase().replace(' ', "-");
        Self {
            r#type: format!("urn:inca:problem:{kind}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: error.to_string(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = Problem::from(&self);
        let mut response = (self.kind().mapping().1, axum::Json(problem)).into_response();
        let json = HeaderValue::from_static("application/problem+json");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, json);
        match &self {
            Self::NoToken | Self::WrongToken => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::TooMany { again, .. } => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(again.as_secs() + 1));
            }
            _ => {}
        }
        response
    }
}
