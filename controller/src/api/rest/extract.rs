//! axum's extractors, with refusals as problems.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::api::ApiError;

/// A part of the path, decoded.
pub(super) struct Path<T>(pub(super) T);
/// What follows `?`.
pub(super) struct Query<T>(pub(super) T);
/// The body.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        let refused = |error: PathRejection| ApiError::Request { what: "path", reason: error.body_text() };
        path.map(|axum::extract::Path(value)| Self(value)).map_err(refused)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        let refused = |error: QueryRejection| ApiError::Request { what: "query", reason: error.body_text() };
        query.map(|axum::extract::Query(value)| Self(value)).map_err(refused)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = axum::Json::from_request(request, state).await;
        let refused = |error: JsonRejection| ApiError::Request { what: "body", reason: error.body_text() };
        body.map(|axum::Json(value)| Self(value)).map_err(refused)
    }
}
