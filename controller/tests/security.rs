//! Who may call what, over every route of both APIs; TLS on both APIs and towards the switches.

mod rig;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use inca_controller::api::{Role, make_token, openapi};
use inca_controller::control::Controller;
use inca_controller::inventory::Inventory;
use inca_p4runtime::Access;
use inca_p4runtime::access::Line;
use inca_p4runtime::northbound as api;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::operator_client::OperatorClient;
use inca_p4runtime::proto::DESCRIPTORS;
use prost::Message;
use rig::*;
use serde_json::Value;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// A folder that goes with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("inca-security-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tokens by role, of no tenant; and one of the tenant "a" and "b" each that may submit.
struct Tokens {
    read: String,
    submit: String,
    admin: String,
    a: String,
    b: String,
}

fn tokens(folder: &Folder) -> Tokens {
    let mut text = "tokens:\n".to_owned();
    let mut make = |name: &str, tenant: Option<&str>, role| {
        let (token, entry) = make_token(name, tenant, role).unwrap();
        text += &(entry + "\n");
        token
    };
    let tokens = Tokens {
        read: make("read", None, Role::Read),
        submit: make("submit", None, Role::Submit),
        admin: make("admin", None, Role::Admin),
        a: make("a", Some("a"), Role::Submit),
        b: make("b", Some("b"), Role::Admin),
    };
    folder.write("tokens.yaml", &text);
    tokens
}

/// An inventory with these keys under `security`, paths in the folder.
fn secured(folder: &Folder, switches: &[(u64, SocketAddr)], security: &str) -> Inventory {
    let mut plain = inventory(switches, "");
    let file = folder.write(
        "inventory.yaml",
        &format!("switches: [{{name: x, target: 'h:1', device_id: 9}}]\nsecurity: {{{security}}}\n"),
    );
    plain.security = Inventory::from_file(file).unwrap().security;
    plain
}

/// A controller that wants tokens; its switch is away, which no refusal depends on.
async fn guarded(folder: &Folder, more: &str) -> (Controller, SocketAddr, Tokens) {
    let tokens = tokens(folder);
    let security = format!("tokens: tokens.yaml, audit: audit.jsonl{more}");
    let inventory = secured(folder, &[(1, free_address())], &security);
    let controller = Controller::start(inventory).await.unwrap();
    let address = controller.addresses()[0];
    (controller, address, tokens)
}

/// Every method of every service that is served, as a path.
fn grpc_methods() -> Vec<String> {
    let mut paths = Vec::new();
    for bytes in [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        let set = prost_types::FileDescriptorSet::decode(bytes).unwrap();
        for file in set.file.iter().filter(|file| !file.package().starts_with("p4")) {
            for service in &file.service {
                let methods = service.method.iter();
                paths.extend(
                    methods.map(|method| format!("/{}.{}/{}", file.package(), service.name(), method.name())),
                );
            }
        }
    }
    paths
}

/// The code that an empty message gets.
async fn call(channel: &Channel, path: &str, token: Option<&str>) -> Code {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let mut request = tonic::Request::new(tokio_stream::once(()));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let path = path.parse().unwrap();
    let answer = soon("answer", grpc.streaming(request, path, codec)).await;
    let mut stream = match answer {
        Ok(answer) => answer.into_inner(),
        Err(status) => return status.code(),
    };
    // A stream that is let in has no end; what it refuses it refuses at once.
    match tokio::time::timeout(std::time::Duration::from_millis(100), stream.message()).await {
        Ok(Err(status)) => status.code(),
        _ => Code::Ok,
    }
}

#[tokio::test]
async fn every_call_without_or_with_a_wrong_token_is_refused() {
    let folder = Folder::new("every");
    let (_controller, address, tokens) = guarded(&folder, "").await;
    let mut routes: Vec<(String, String)> = Vec::new();
    for (path, item) in serde_json::to_value(openapi()).unwrap()["paths"].as_object().unwrap() {
        let path = path.replace("{name}", "s1").replace("{job}", "test");
        for method in item.as_object().unwrap().keys() {
            routes.push((method.to_uppercase(), path.clone()));
        }
        routes.push(("HEAD".to_owned(), path.clone()));
        routes.push(("PATCH".to_owned(), path));
    }
    // What is not there says no more than what is; and no spelling of a path leads around the gate.
    for path in [
        "/v1/nothing",
        "/",
        "//v1/jobs",
        "/v1/../v1/jobs",
        "/V1/jobs",
        "/v1/jobs/",
        "/docs/../v1/jobs",
        "/docs%2f..%2fv1/jobs",
        "/ui/../v1/jobs",
        "/ui%2f..%2fv1/jobs",
    ] {
        routes.push(("GET".to_owned(), path.to_owned()));
    }
    let public = ["/healthz", "/"];
    let mut refused = 0;
    for (method, path) in &routes {
        let wrong = format!("Bearer {}0", tokens.admin);
        for header in [None, Some("Bearer "), Some("Basic YWRtaW46YWRtaW4="), Some(wrong.as_str())] {
            let headers: Vec<_> = header.map(|header| ("authorization", header)).into_iter().collect();
            let response = http::send(address, method, path, &headers, "").await;
            let context = format!("{method} {path} with {header:?}");
            if public.contains(&path.as_str()) && ["GET", "HEAD"].contains(&method.as_str()) {
                assert_eq!(response.status, 200, "{context}");
                continue;
            }
            // Under /docs/ and /ui/ are the pages' own files and nothing else.
            let is_file = path.starts_with("/docs/") || path.starts_with("/ui/");
            let is_page = is_file && response.status == 404;
            assert!(response.status == 401 || is_page, "{context}: {} {}", response.status, response.body);
            refused += usize::from(response.status == 401);
        }
    }
    assert!(refused > 150, "{refused}");
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let methods = grpc_methods();
    assert!(methods.len() >= 14, "{methods:?}");
    for path in &methods {
        for token in [None, Some(""), Some("nonsense"), Some(&tokens.admin[1..])] {
            let code = call(&channel, path, token).await;
            if path.starts_with("/grpc.health.v1.Health/") {
                assert_ne!(code, Code::Unauthenticated, "{path}");
            } else {
                assert_eq!(code, Code::Unauthenticated, "{path} with {token:?}");
            }
        }
    }
    // What anybody gets says nothing of the network.
    for path in ["/openapi.json", "/docs/", "/healthz", "/", "/ui/main.js"] {
        let body = http::get(address, path).await.body;
        assert!(!body.contains("10.0.0.1") && !body.contains("127.0.0.1"), "{path}: {body}");
    }
}

#[tokio::test]
async fn each_role_may_do_what_it_is_for_and_no_more() {
    let folder = Folder::new("roles");
    let (_controller, address, tokens) = guarded(&folder, "").await;
    let status = async |method: &str, path: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        http::send(address, method, path, &[("authorization", &bearer)], "").await.status
    };
    for path in ["/v1/status", "/v1/jobs", "/metrics", "/v1/events"] {
        for token in [&tokens.read, &tokens.submit, &tokens.admin] {
            assert_eq!(status("GET", path, token).await, 200, "{path}");
        }
    }
    assert_eq!(status("DELETE", "/v1/jobs/none", &tokens.read).await, 403);
    assert_eq!(status("DELETE", "/v1/jobs/none", &tokens.submit).await, 403);
    assert_eq!(status("DELETE", "/v1/jobs/none", &tokens.admin).await, 404);
    let submit = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let body = "{\"job\": \"submitted\"}";
        http::send(address, "POST", "/v1/jobs", &[("authorization", &bearer)], body).await.status
    };
    assert_eq!(submit(&tokens.read).await, 403);
    assert_eq!(submit(&tokens.submit).await, 201);
    assert_eq!(submit(&tokens.submit).await, 409);
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    for method in ["Join", "Leave", "Report", "HandOver", "Stalled", "Progress"] {
        let path = format!("/inca.v1.Controller/{method}");
        assert_eq!(call(&channel, &path, Some(&tokens.read)).await, Code::PermissionDenied, "{path}");
        assert_ne!(call(&channel, &path, Some(&tokens.submit)).await, Code::PermissionDenied, "{path}");
    }
    let submit = "/inca.v1.Operator/Submit";
    assert_eq!(call(&channel, submit, Some(&tokens.read)).await, Code::PermissionDenied);
    assert_eq!(call(&channel, submit, Some(&tokens.submit)).await, Code::InvalidArgument);
    let end = "/inca.v1.Operator/EndJob";
    assert_eq!(call(&channel, end, Some(&tokens.submit)).await, Code::PermissionDenied);
    assert_eq!(call(&channel, end, Some(&tokens.admin)).await, Code::NotFound);
    let audit = std::fs::read_to_string(folder.0.join("audit.jsonl")).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let denied = lines.iter().find(|line| line["who"] == "submit" && line["action"] == "DELETE").unwrap();
    assert_eq!(denied["object"], "/v1/jobs/none");
    assert!(denied["outcome"].as_str().unwrap().contains("takes admin"), "{denied}");
    let ended = lines.iter().find(|line| line["action"] == "end_job").unwrap();
    assert_eq!((&ended["who"], &ended["address"]), (&"admin".into(), &"127.0.0.1".into()));
    assert!(!audit.contains(&tokens.admin), "the log holds a token");
}

/// A client with a token.
async fn client(address: SocketAddr, access: &Access, scheme: &str) -> ControllerClient<Line> {
    ControllerClient::new(line(address, access, scheme).await.unwrap())
}

async fn line(address: SocketAddr, access: &Access, scheme: &str) -> Result<Line, String> {
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).unwrap();
    let endpoint = access.secure(endpoint).map_err(|error| error.to_string())?;
    let channel = soon("connection", endpoint.connect()).await.map_err(|error| format!("{error:?}"))?;
    Ok(Line::new(channel, access.bearer().unwrap()))
}

fn with_token(token: &str) -> Access {
    Access { token: Some(token.to_owned()), ..Access::default() }
}

#[tokio::test]
async fn tenants_have_jobs_of_their_own() {
    let folder = Folder::new("tenants");
    let (_controller, address, tokens) = guarded(&folder, "").await;
    let mut a = client(address, &with_token(&tokens.a), "http").await;
    let mut b = client(address, &with_token(&tokens.b), "http").await;
    // One name, two jobs, which differ in everything.
    let _a = a.join(request(0)).await.unwrap();
    let _b = b.join(api::JoinRequest { world_size: 1, ..request(0) }).await.unwrap();
    let names = async |client: &mut ControllerClient<Line>| -> Vec<String> {
        let status = client.status(api::StatusRequest::default()).await.unwrap().into_inner();
        status.jobs.into_iter().map(|job| job.name).collect()
    };
    assert_eq!(names(&mut a).await, ["a/test"]);
    assert_eq!(names(&mut b).await, ["b/test"]);
    let mut all = client(address, &with_token(&tokens.read), "http").await;
    assert_eq!(names(&mut all).await, ["a/test", "b/test"]);
    let get = async |path: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        http::send(address, "GET", path, &[("authorization", &bearer)], "").await
    };
    assert_eq!(get("/v1/jobs/test", &tokens.a).await.json()[0]["world_size"], 2);
    assert_eq!(get("/v1/jobs/b%2Ftest", &tokens.a).await.status, 404);
    let events = get("/v1/events", &tokens.a).await.body;
    assert!(events.contains("a/test") && !events.contains("b/test"), "{events}");
    // An administrator of b ends b's job, by either name, and can't reach a's.
    let access = with_token(&tokens.b);
    let mut operator = OperatorClient::new(line(address, &access, "http").await.unwrap());
    let end = |job: &str| api::EndJobRequest { job: job.into(), ..Default::default() };
    assert_eq!(operator.end_job(end("a/test")).await.unwrap_err().code(), Code::NotFound);
    assert!(operator.end_job(end("b/test")).await.is_ok());
    assert_eq!(names(&mut a).await, ["a/test"]);
}

/// A rank of a tenant's job "train" with this job token.
fn holding(rank: u32, token: &str) -> api::JoinRequest {
    api::JoinRequest { job: "train".to_owned(), job_token: token.to_owned(), ..request(rank) }
}

#[tokio::test]
async fn a_submitted_job_is_for_those_who_hold_its_token_over_a_restart_of_the_controller_too() {
    let folder = Folder::new("submitted");
    let switch = Switch::start(Kind::Embedded, 1, &[]).await;
    let tokens = tokens(&folder);
    let security = "tokens: tokens.yaml, audit: audit.jsonl, submitted_only: true";
    let mut settings = secured(&folder, &[(1, switch.address)], security);
    settings.store = Some(folder.0.join("store.redb"));
    let controller = Controller::start(settings.clone()).await.unwrap();
    ready(&controller).await;
    let address = controller.addresses()[0];
    let submit = async |address, token: &str| {
        let bearer = format!("Bearer {token}");
        let body = "{\"job\": \"train\", \"idle_seconds\": 600}";
        http::send(address, "POST", "/v1/jobs", &[("authorization", &bearer)], body).await
    };
    let submitted = submit(address, &tokens.a).await;
    assert_eq!(submitted.status, 201, "{}", submitted.body);
    assert_eq!(
        (&submitted.json()["job"], &submitted.json()["idle_seconds"]),
        (&"a/train".into(), &600.into())
    );
    let job_token = submitted.json()["job_token"].as_str().unwrap().to_owned();
    // The other tenant's job of that name is another job, with another token.
    let others = submit(address, &tokens.b).await.json()["job_token"].as_str().unwrap().to_owned();
    assert_ne!(job_token, others);
    let mut a = client(address, &with_token(&tokens.a), "http").await;
    for wrong in ["", &others, "a secret that was guessed"] {
        let refused = a.join(holding(0, wrong)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
        assert!(wrong.is_empty() || !refused.message().contains(wrong), "{refused:?}");
    }
    let unsubmitted = a.join(request(0)).await.unwrap_err();
    assert!(unsubmitted.message().contains("submitted jobs only"), "{unsubmitted:?}");
    let mut first = a.join(holding(0, &job_token)).await.unwrap().into_inner();
    let mut second = a.join(holding(1, &job_token)).await.unwrap().into_inner();
    let generation = assignment(&mut first).await.generation;
    assert_eq!(assignment(&mut second).await.generation, generation);
    let own = member_token(1);
    let leave = |token: &str| api::LeaveRequest {
        job: "train".to_owned(),
        rank: 1,
        generation,
        failure: "to shrink it".to_owned(),
        member_token: token.to_owned(),
        ..Default::default()
    };
    for wrong in ["", &member_token(0), &job_token] {
        assert_eq!(a.leave(leave(wrong)).await.unwrap_err().code(), Code::PermissionDenied);
    }
    // A rank may leave with all slots of a switch: the token is looked at, not the size.
    let kept = |slot| api::KeptChunk {
        slot: Some(api::SlotIndex { tree: 0, slot }),
        elements: vec![0; 8192],
        ..Default::default()
    };
    let large = api::LeaveRequest { kept: (0..4096).map(kept).collect(), ..leave("") };
    assert_eq!(a.leave(large).await.unwrap_err().code(), Code::PermissionDenied);
    // The next controller knows both tokens, by what the first one wrote.
    controller.stop().await;
    let controller = Controller::start(settings).await.unwrap();
    let address = controller.addresses()[0];
    let mut a = client(address, &with_token(&tokens.a), "http").await;
    let attach = |token: &str| api::JoinRequest {
        attach_generation: generation,
        member_token: token.to_owned(),
        ..holding(1, &job_token)
    };
    assert_eq!(a.join(attach(&member_token(0))).await.unwrap_err().code(), Code::PermissionDenied);
    let _second = a.join(attach(&own)).await.unwrap();
    assert_eq!(a.join(holding(0, &others)).await.unwrap_err().code(), Code::PermissionDenied);
    assert!(a.leave(leave(&own)).await.is_ok());
    for file in ["audit.jsonl", "store.redb"] {
        let bytes = std::fs::read(folder.0.join(file)).unwrap();
        for token in [&job_token, &others, &own] {
            let is_there = bytes.windows(token.len()).any(|window| window == token.as_bytes());
            assert!(!is_there, "{file} holds a token");
        }
    }
}

#[tokio::test]
async fn callers_that_call_too_often_are_sent_away() {
    let folder = Folder::new("limit");
    let (_controller, address, tokens) = guarded(&folder, ", requests_per_second: 5").await;
    let bearer = format!("Bearer {}", tokens.read);
    let mut last = None;
    for _ in 0..30 {
        let response = http::send(address, "GET", "/v1/info", &[("authorization", &bearer)], "").await;
        if response.status == 429 {
            last = Some(response);
            break;
        }
        assert_eq!(response.status, 200);
    }
    let refused = last.expect("a refusal");
    assert_eq!(refused.headers.get("retry-after").map(String::as_str), Some("1"));
    assert!(refused.json()["detail"].as_str().unwrap().contains("token read"), "{}", refused.body);
    let audit = std::fs::read_to_string(folder.0.join("audit.jsonl")).unwrap();
    assert!(audit.contains(r#""who":"read""#), "{audit}");
    // Another caller is not disturbed.
    let other = format!("Bearer {}", tokens.submit);
    assert_eq!(http::send(address, "GET", "/v1/info", &[("authorization", &other)], "").await.status, 200);
    // Those who guess tokens share the bucket of their address.
    let mut guesses = 0;
    while http::send(address, "GET", "/v1/info", &[("authorization", "Bearer x")], "").await.status == 401 {
        guesses += 1;
        assert!(guesses < 30);
    }
}

/// An authority, and certificates that it signed, as files.
struct Certificates {
    ca: PathBuf,
    server: (PathBuf, PathBuf),
    client: (PathBuf, PathBuf),
}

fn certificates(folder: &Folder, name: &str) -> Certificates {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let ca = folder.write(&format!("{name}-ca.pem"), &authority.pem());
    let issuer = rcgen::Issuer::new(params, key);
    let signed = |role: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (
            folder.write(&format!("{name}-{role}.pem"), &certificate.pem()),
            folder.write(&format!("{name}-{role}.key"), &key.serialize_pem()),
        )
    };
    let (server, client) = (signed("server"), signed("client"));
    Certificates { ca, server, client }
}

fn file(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn both_apis_and_p4runtime_speak_tls_with_certificates_on_both_sides() {
    let folder = Folder::new("tls");
    let ours = certificates(&folder, "ours");
    let theirs = certificates(&folder, "theirs");
    let tokens = tokens(&folder);
    let switch = Switch::start_tls(1, &ours.server, &ours.ca).await;
    let security = format!(
        "tokens: tokens.yaml, tls: {{cert: {}, key: {}, client_ca: {ca}}}, p4runtime: {{ca: {ca}, cert: {}, key: {}}}",
        file(&ours.server.0),
        file(&ours.server.1),
        file(&ours.client.0),
        file(&ours.client.1),
        ca = file(&ours.ca),
    );
    let controller = Controller::start(secured(&folder, &[(1, switch.address)], &security)).await.unwrap();
    // Over TLS to the switch.
    ready(&controller).await;
    let address = controller.addresses()[0];
    let access = Access {
        token: Some(tokens.submit.clone()),
        ca: Some(ours.ca.clone()),
        identity: Some(ours.client.clone()),
    };
    let mut client = client(address, &access, "https").await;
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    let _second = client.join(request(1)).await.unwrap();
    assert_eq!(assignment(&mut first).await.world_size, 2);
    // REST over HTTP/1.1, as curl does it.
    let (status, body) = https(address, &access, "/v1/switches", &tokens.read).await.unwrap();
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"state\":\"ready\""), "{body}");
    // No certificate, somebody else's, somebody else's server, no TLS at all: nobody gets so far as to show a token.
    for (wrong, what) in [
        (Access { identity: None, ..access.clone() }, "no certificate"),
        (Access { identity: Some(theirs.client.clone()), ..access.clone() }, "another authority's"),
        (Access { ca: Some(theirs.ca.clone()), ..access.clone() }, "another server expected"),
    ] {
        let refused = match line(address, &wrong, "https").await {
            Err(_) => true,
            Ok(line) => ControllerClient::new(line).info(api::InfoRequest {}).await.is_err(),
        };
        assert!(refused, "{what}");
    }
    let plain = line(address, &with_token(&tokens.admin), "http").await;
    let refused = match plain {
        Err(_) => true,
        Ok(line) => ControllerClient::new(line).info(api::InfoRequest {}).await.is_err(),
    };
    assert!(refused, "no tls");
    // The token still decides.
    let nobody = Access { token: None, ..access.clone() };
    let mut nobody = ControllerClient::new(line(address, &nobody, "https").await.unwrap());
    assert_eq!(nobody.info(api::InfoRequest {}).await.unwrap_err().code(), Code::Unauthenticated);
}

/// One GET over TLS and HTTP/1.1.
async fn https(
    address: SocketAddr,
    access: &Access,
    path: &str,
    token: &str,
) -> std::io::Result<(u16, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(access.ca.as_ref().unwrap()).unwrap()).unwrap();
    let (cert, key) = access.identity.as_ref().unwrap();
    let cert = CertificateDer::from_pem_file(cert).unwrap();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![cert], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = tokio::net::TcpStream::connect(address).await?;
    let mut stream = connector.connect(ServerName::from(address.ip()), stream).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    soon("response", stream.read_to_string(&mut text)).await?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()))
}

#[tokio::test]
async fn files_that_can_not_be_used_are_named_at_the_start() {
    let folder = Folder::new("files");
    let ours = certificates(&folder, "ours");
    folder.write("bad.yaml", "tokens: [{name: a, role: root, sha256: x}]");
    let start = async |security: &str| {
        let inventory = secured(&folder, &[(1, free_address())], security);
        Controller::start(inventory).await.expect_err(security).to_string()
    };
    assert!(start("tokens: none.yaml").await.contains("none.yaml"));
    assert!(start("tokens: bad.yaml").await.contains("root"));
    let (cert, key) = (file(&ours.server.0), file(&ours.server.1));
    assert!(start(&format!("tls: {{cert: none.pem, key: {key}}}")).await.contains("none.pem"));
    assert!(start(&format!("tls: {{cert: {key}, key: {key}}}")).await.contains("no certificate in it"));
    let other = file(&ours.client.1);
    assert!(start(&format!("tls: {{cert: {cert}, key: {other}}}")).await.starts_with("tls: "));
    assert!(start("audit: none/audit.jsonl").await.contains("audit.jsonl"));
}
