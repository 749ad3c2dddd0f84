//! The REST API: documents under `/v1`, events as a stream, and the page that shows all of it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use inca_p4runtime::northbound as api;
use tokio_stream::{Stream, StreamExt};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use super::model::{
    After, EndJob, Ended, Event, Group, Health, Host, Info, Link, Plan, PlanRequest, Problem, Slots, Status,
    Submit, Submitted, Switch, Tree, format_number, trees,
};
use super::{ApiError, Caller, Core, page};
use extract::{Json, Path, Query};

mod extract;

/// What the document says beside its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "inca controller",
        description = "Switches, links, hosts, jobs and their reduction trees. The same as over gRPC (proto/inca/v1), at the same \
                       address. Refusals are `application/problem+json` (RFC 9457). Requests that change something take a role: see \
                       docs/security.md.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
        contact(),
    ),
    tags(
        (name = "network", description = "What there is"),
        (name = "jobs", description = "Groups of ranks and their trees"),
        (name = "events", description = "What happens"),
    ),
)]
struct Document;

/// The routes with their OpenAPI document.
pub(super) fn router() -> (axum::Router<Core>, utoipa::openapi::OpenApi) {
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health))
        .routes(routes!(info))
        .routes(routes!(status))
        .routes(routes!(switches))
        .routes(routes!(switch))
        .routes(routes!(counters))
        .routes(routes!(links))
        .routes(routes!(hosts))
        .routes(routes!(slots))
        .routes(routes!(jobs, submit))
        .routes(routes!(job, end_job))
        .routes(routes!(all_trees))
        .routes(routes!(plan))
        .routes(routes!(events))
        .routes(routes!(event_stream))
        .routes(routes!(metrics))
        .split_for_parts();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let scheme =
        scheme.description(Some("Where the controller has a token file; without one no token is needed"));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    // Either none is needed, or this one.
    let token = SecurityRequirement::new("token", Vec::<String>::new());
    document.security = Some(vec![SecurityRequirement::default(), token]);
    (router, document)
}

/// The routes, the document and the page.
pub(super) fn site(core: Core) -> axum::Router {
    let (router, document) = router();
    router
        .method_not_allowed_fallback(wrong_method)
        .with_state(core)
        .merge(SwaggerUi::new("/docs").url("/openapi.json", document))
        .merge(page::router())
}

/// Whatever is not there, in the words of whoever asks.
pub(super) async fn not_found(request: Request<axum::body::Body>) -> Response {
    let is_grpc = |kind: &header::HeaderValue| kind.as_bytes().starts_with(b"application/grpc");
    match request.headers().get(header::CONTENT_TYPE).is_some_and(is_grpc) {
        true => tonic::Status::unimplemented(format!("there is no {}", request.uri().path())).into_http(),
        false => ApiError::Route(request.uri().path().to_owned()).into_response(),
    }
}

async fn wrong_method(uri: Uri) -> ApiError {
    ApiError::Method(uri.path().to_owned())
}

type Answer<T> = Result<axum::Json<T>, ApiError>;

/// Whether the controller works.
#[utoipa::path(get, path = "/healthz", tag = "network", responses(
    (status = OK, body = Health),
    (status = SERVICE_UNAVAILABLE, description = "It is ending", body = Problem, content_type = "application/problem+json"),
))]
async fn health(State(core): State<Core>) -> Answer<Health> {
    let in_charge = core.status(false).await?.in_charge;
    Ok(axum::Json(Health { status: "ok".to_owned(), in_charge }))
}

/// What an agent must know before it can join.
#[utoipa::path(get, path = "/v1/info", tag = "network", responses((status = OK, body = Info)))]
async fn info(State(core): State<Core>) -> axum::Json<Info> {
    axum::Json(core.info().into())
}

/// Everything that the controller sees, at one moment.
#[utoipa::path(get, path = "/v1/status", tag = "network", responses((status = OK, body = Status)))]
async fn status(State(core): State<Core>, Extension(caller): Extension<Caller>) -> Answer<Status> {
    Ok(axum::Json(look(&core, &caller, false).await?))
}

async fn look(core: &Core, caller: &Caller, counters: bool) -> Result<Status, ApiError> {
    Ok(core.status_for(caller, counters).await?.into())
}

/// The switches of the inventory.
#[utoipa::path(get, path = "/v1/switches", tag = "network", responses((status = OK, body = Vec<Switch>)))]
async fn switches(State(core): State<Core>, Extension(caller): Extension<Caller>) -> Answer<Vec<Switch>> {
    Ok(axum::Json(look(&core, &caller, false).await?.switches))
}

/// One switch, with its event counters.
#[utoipa::path(get, path = "/v1/switches/{name}", tag = "network", params(("name" = String, Path)), responses(
    (status = OK, body = Switch),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json"),
))]
async fn switch(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<Switch> {
    let found = look(&core, &caller, true).await?.switches.into_iter().find(|switch| switch.name == name);
    found.map(axum::Json).ok_or(ApiError::Unknown { what: "switch", name })
}

/// Packets by switch and event: each packet that a switch handles ends as exactly one event.
#[utoipa::path(get, path = "/v1/counters", tag = "network",
    responses((status = OK, description = "By the switch's name, by the event's", body = BTreeMap<String, BTreeMap<String, u64>>)))]
async fn counters(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
) -> Answer<BTreeMap<String, BTreeMap<String, u64>>> {
    let switches = look(&core, &caller, true).await?.switches;
    Ok(axum::Json(switches.into_iter().map(|switch| (switch.name, switch.counters)).collect()))
}

/// Directions of links between switches.
#[utoipa::path(get, path = "/v1/links", tag = "network", responses((status = OK, body = Vec<Link>)))]
async fn links(State(core): State<Core>, Extension(caller): Extension<Caller>) -> Answer<Vec<Link>> {
    Ok(axum::Json(look(&core, &caller, false).await?.links))
}

/// Hosts that are known.
#[utoipa::path(get, path = "/v1/hosts", tag = "network", responses((status = OK, body = Vec<Host>)))]
async fn hosts(State(core): State<Core>, Extension(caller): Extension<Caller>) -> Answer<Vec<Host>> {
    Ok(axum::Json(look(&core, &caller, false).await?.hosts))
}

/// Slots in use, by switch.
#[utoipa::path(get, path = "/v1/slots", tag = "network", responses((status = OK, body = Vec<Slots>)))]
async fn slots(State(core): State<Core>, Extension(caller): Extension<Caller>) -> Answer<Vec<Slots>> {
    Ok(axum::Json(look(&core, &caller, false).await?.switches.iter().map(Slots::from).collect()))
}

/// Groups that are there, then those that ended last.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", responses((status = OK, body = Vec<Group>)))]
async fn jobs(State(core): State<Core>, Extension(caller): Extension<Caller>) -> Answer<Vec<Group>> {
    Ok(axum::Json(look(&core, &caller, false).await?.jobs))
}

/// Keeps a job's name for ranks that show the token in the answer.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", request_body = Submit, responses(
    (status = CREATED, body = Submitted),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json"),
    (status = CONFLICT, description = "The name is in use", body = Problem, content_type = "application/problem+json"),
    (status = TOO_MANY_REQUESTS, description = "The tenant has too many", body = Problem, content_type = "application/problem+json"),
))]
async fn submit(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
    Json(Submit { job, idle_seconds }): Json<Submit>,
) -> Result<(StatusCode, axum::Json<Submitted>), ApiError> {
    let submitted = core.submit(&caller, api::SubmitRequest { job, idle_seconds }).await?;
    Ok((StatusCode::CREATED, axum::Json(submitted.into())))
}

/// The groups of one job.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path)), responses(
    (status = OK, body = Vec<Group>),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json"),
))]
async fn job(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<Vec<Group>> {
    let mut groups = look(&core, &caller, false).await?.jobs;
    let name = caller.job(&name);
    groups.retain(|group| group.name == name);
    match groups.is_empty() {
        true => Err(ApiError::Unknown { what: "job", name }),
        false => Ok(axum::Json(groups)),
    }
}

/// Ends a job, or one group of it: each of its ranks gets the reason as an error.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path), EndJob), responses(
    (status = ACCEPTED, description = "Its ranks are told", body = Ended),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json"),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json"),
))]
async fn end_job(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
    Path(job): Path<String>,
    Query(EndJob { group, reason }): Query<EndJob>,
) -> Result<(StatusCode, axum::Json<Ended>), ApiError> {
    let groups = core.end_job(&caller, api::EndJobRequest { job: job.clone(), group, reason }).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(Ended { job, groups })))
}

/// The trees of all groups.
#[utoipa::path(get, path = "/v1/trees", tag = "jobs", responses((status = OK, body = Vec<Tree>)))]
async fn all_trees(State(core): State<Core>, Extension(caller): Extension<Caller>) -> Answer<Vec<Tree>> {
    Ok(axum::Json(look(&core, &caller, false).await?.jobs.iter().flat_map(trees).collect()))
}

/// The trees that a group has or would get, and what a sum puts on each link. Installs nothing.
#[utoipa::path(post, path = "/v1/plan", tag = "jobs", request_body = PlanRequest, responses(
    (status = OK, body = Plan),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json"),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json"),
    (status = CONFLICT, description = "There is no tree", body = Problem, content_type = "application/problem+json"),
))]
async fn plan(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
    Json(request): Json<PlanRequest>,
) -> Answer<Plan> {
    Ok(axum::Json(core.plan(&caller, question(request)?).await?.into()))
}

/// The same question, in gRPC's words.
fn question(request: PlanRequest) -> Result<api::PlanRequest, ApiError> {
    let format = format_number(&request.format);
    let format = format.ok_or_else(|| ApiError::Request {
        what: "format",
        reason: format!("there is no number format {:?}: see docs/number-formats.md", request.format),
    })?;
    Ok(api::PlanRequest {
        job: request.job,
        group: request.group,
        hosts: request.hosts,
        format,
        chunk_words: request.chunk_words,
        elements: request.elements,
        dry_run: request.dry_run,
    })
}

/// The last events, oldest first.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(After), responses(
    (status = OK, body = Vec<Event>),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json"),
))]
async fn events(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
    Query(After { after }): Query<After>,
) -> axum::Json<Vec<Event>> {
    axum::Json(core.events_since(&caller, after).into_iter().map(Event::from).collect())
}

/// Events as they happen (server-sent events), after those that are remembered. A reader that comes back with `Last-Event-ID`
/// misses nothing, as far as is remembered.
#[utoipa::path(get, path = "/v1/events/stream", tag = "events", params(After, ("Last-Event-ID" = Option<u64>, Header)), responses(
    (status = OK, description = "Each `data` is an Event, `id` its number, `event` its kind", body = Event, content_type = "text/event-stream"),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json"),
))]
async fn event_stream(
    State(core): State<Core>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(After { after }): Query<After>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let stream = core.watch(caller, last.unwrap_or(after), false);
    Sse::new(stream.map(|event| Ok(server_sent(event.into())))).keep_alive(KeepAlive::default())
}

/// Metrics in the exposition format of Prometheus. Reads the counters of every switch.
#[utoipa::path(get, path = "/metrics", tag = "network", responses(
    (status = OK, body = String, content_type = "application/openmetrics-text"),
))]
async fn metrics(State(core): State<Core>) -> Result<impl IntoResponse, ApiError> {
    const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let page = core.metrics.page(&core.status(true).await?);
    Ok(([(header::CONTENT_TYPE, KIND)], page))
}

fn server_sent(event: Event) -> sse::Event {
    let sent = sse::Event::default().event(&event.kind);
    let sent = if event.number > 0 { sent.id(event.number.to_string()) } else { sent };
    // Numbers and text always serialise.
    sent.json_data(&event).unwrap_or_default()
}
