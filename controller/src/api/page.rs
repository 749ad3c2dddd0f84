//! The page for people: topology, trees, slots and events, drawn in the browser from the REST API. A few files that are part of the
//! program; they say nothing of the network, so whoever has no token gets them too, and no data.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Nothing from anywhere else, nothing inline, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! file {
    ($kind:literal, $name:literal) => {
        get(async || file($kind, include_str!(concat!("../../web/", $name))))
    };
}

/// The routes of the page.
pub(super) fn router() -> axum::Router {
    axum::Router::new()
        .route("/", file!("text/html", "index.html"))
        .route("/ui/style.css", file!("text/css", "style.css"))
        .route("/ui/icon.svg", file!("image/svg+xml", "icon.svg"))
        .route("/ui/main.js", file!("text/javascript", "main.js"))
        .route("/ui/api.js", file!("text/javascript", "api.js"))
        .route("/ui/model.js", file!("text/javascript", "model.js"))
        .route("/ui/layout.js", file!("text/javascript", "layout.js"))
        .route("/ui/map.js", file!("text/javascript", "map.js"))
        .route("/ui/panels.js", file!("text/javascript", "panels.js"))
}

fn file(kind: &str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, format!("{kind}; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        // A controller of another version has other files.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    (headers, text).into_response()
}
