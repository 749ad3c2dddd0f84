//! Who may call what: one gate in front of everything that is served, whatever the protocol.
//!
//! ```text
//!   request --> which role does the route take? --> who calls? --> too often? --> the call, which finds the caller with it
//! ```
//!
//! Without a token file everybody may do everything; so that this is no accident, the controller listens on loopback by default.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::limit::Limiter;
use super::listen::Peer;
use super::token::{Role, Tokens};
use super::{ApiError, Audit};
use crate::metrics::Metrics;

/// What the gate needs to know.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) tokens: Option<Tokens>,
    pub(crate) limiter: Limiter,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) audit: Arc<Audit>,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's name; empty: no tokens are in use.
    pub(crate) name: String,
    /// Whose jobs it may see and change; `None`: everybody's.
    pub(crate) tenant: Option<String>,
    pub(crate) role: Role,
    /// The address it calls from, where that is known.
    pub(crate) peer: Option<IpAddr>,
}

impl Caller {
    /// The full name of a job that this caller names: jobs of a tenant are called `TENANT/JOB`.
    pub(crate) fn job(&self, name: &str) -> String {
        match &self.tenant {
            // An empty name stays one: it is refused as such.
            Some(tenant) if !name.is_empty() && !self.sees(name) => format!("{tenant}/{name}"),
            _ => name.to_owned(),
        }
    }

    /// Whether a job, by its full name, is this caller's to see.
    pub(crate) fn sees(&self, job: &str) -> bool {
        self.tenant
            .as_deref()
            .is_none_or(|tenant| job.strip_prefix(tenant).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// The methods of gRPC. Reflection and health are apart.
const GRPC: [(&str, Role); 12] = [
    ("/inca.v1.Controller/Info", Role::Read),
    ("/inca.v1.Controller/Status", Role::Read),
    ("/inca.v1.Controller/Join", Role::Submit),
    ("/inca.v1.Controller/Report", Role::Submit),
    ("/inca.v1.Controller/HandOver", Role::Submit),
    ("/inca.v1.Controller/Stalled", Role::Submit),
    ("/inca.v1.Controller/Progress", Role::Submit),
    ("/inca.v1.Controller/Leave", Role::Submit),
    ("/inca.v1.Operator/Plan", Role::Read),
    ("/inca.v1.Operator/Events", Role::Read),
    ("/inca.v1.Operator/Submit", Role::Submit),
    ("/inca.v1.Operator/EndJob", Role::Admin),
];

/// The role that a route takes; `None`: it is for everybody, since it says nothing of the network. Whatever is not listed takes
/// the highest.
fn needed(method: &Method, path: &str) -> Option<Role> {
    let is_read = method == Method::GET || method == Method::HEAD;
    match path {
        "/healthz" | "/openapi.json" | "/docs" if is_read => None,
        _ if is_read && (path == "/" || path.starts_with("/ui/") || path.starts_with("/docs/")) => None,
        _ if path.starts_with("/grpc.health.v1.Health/") => None,
        _ if path.starts_with("/grpc.reflection.") => Some(Role::Read),
        "/v1/plan" if method == Method::POST => Some(Role::Read),
        "/v1/jobs" if method == Method::POST => Some(Role::Submit),
        "/metrics" if is_read => Some(Role::Read),
        _ if is_read && path.starts_with("/v1/") => Some(Role::Read),
        _ => Some(GRPC.iter().find(|(known, _)| *known == path).map_or(Role::Admin, |(_, role)| *role)),
    }
}

/// The route as a label: one of those there are, never what the caller wrote.
fn label(request: &Request) -> String {
    let path = request.uri().path();
    let matched = || request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    GRPC.iter()
        .map(|(known, _)| *known)
        .find(|known| *known == path)
        .or_else(matched)
        .unwrap_or("none")
        .to_owned()
}

/// Lets a request through, or refuses it in the words of its protocol.
pub(super) async fn pass(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let is_grpc = is_grpc(&request);
    let (method, route) = (request.method().clone(), label(&request));
    let response = match gate.admit(&request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refused) => {
            gate.audit.refused(&request, &refused);
            answer(refused, is_grpc)
        }
    };
    // Methods are the caller's words too.
    let method =
        if [Method::GET, Method::POST, Method::DELETE].contains(&method) { method.as_str() } else { "other" };
    gate.metrics.request(method, &route, &code(&response, is_grpc), begun.elapsed());
    response
}

impl Gate {
    fn admit(&self, request: &Request) -> Result<Caller, ApiError> {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address.ip());
        let Some(role) = needed(request.method(), request.uri().path()) else {
            self.limiter.take(Instant::now(), &who("", peer))?;
            return Ok(Caller { name: String::new(), tenant: None, role: Role::Read, peer });
        };
        let Some(tokens) = &self.tokens else {
            self.limiter.take(Instant::now(), &who("", peer))?;
            return Ok(Caller { name: String::new(), tenant: None, role: Role::Admin, peer });
        };
        let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let token = match tokens.find(Instant::now(), given) {
            Ok(token) => token,
            Err(error) => {
                // Guessing is slow.
                self.limiter.take(Instant::now(), &who("", peer))?;
                return Err(error);
            }
        };
        self.limiter.take(Instant::now(), &who(&token.name, None))?;
        if token.role < role {
            return Err(ApiError::Forbidden { name: token.name.clone(), has: token.role, needs: role });
        }
        Ok(Caller { name: token.name.clone(), tenant: token.tenant.clone(), role: token.role, peer })
    }
}

/// Whose calls are counted together.
fn who(name: &str, peer: Option<IpAddr>) -> String {
    peer.map_or_else(|| format!("token {name}"), |peer| format!("address {peer}"))
}

fn is_grpc(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn answer(refused: ApiError, is_grpc: bool) -> Response {
    match is_grpc {
        true => tonic::Status::from(refused).into_http(),
        false => refused.into_response(),
    }
}

/// The outcome in the protocol's words. gRPC's is in the head only where nothing else follows.
fn code(response: &Response, is_grpc: bool) -> String {
    if !is_grpc {
        return response.status().as_str().to_owned();
    }
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok()?.parse().ok());
    format!("{:?}", status.map_or(tonic::Code::Ok, tonic::Code::from_i32))
}
