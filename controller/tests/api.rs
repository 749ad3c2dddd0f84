//! The northbound API as its users see it: REST, gRPC's reflection, health and events, the page, and the command `inca`.

mod rig;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use inca_controller::api::openapi;
use inca_controller::control::Controller;
use inca_p4runtime::northbound as api;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use inca_p4runtime::northbound::operator_client::OperatorClient;
use rig::*;
use serde_json::{Value, json};
use tonic::transport::Channel;

/// One switch with two hosts, and its controller.
async fn one_switch() -> (Switch, ControllerClient<Channel>, Controller, SocketAddr) {
    let switch = Switch::start(Kind::Embedded, 1, &[]).await;
    let (controller, client) = start(inventory(&[(1, switch.address)], "")).await;
    ready(&controller).await;
    let address = controller.addresses()[0];
    (switch, client, controller, address)
}

/// Both ranks of the job "test", at work.
async fn two_ranks(client: &mut ControllerClient<Channel>) -> Vec<tonic::Streaming<api::JoinEvent>> {
    let mut streams = Vec::new();
    for rank in 0..2 {
        streams.push(client.join(request(rank)).await.unwrap().into_inner());
    }
    for stream in &mut streams {
        assignment(stream).await;
    }
    streams
}

#[tokio::test]
async fn the_document_in_the_repository_is_the_one_that_is_served() {
    let (_switch, _client, controller, address) = one_switch().await;
    let served = http::get(address, "/openapi.json").await.json();
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json"));
    if std::env::var_os("INCA_BLESS").is_some() {
        let text = serde_json::to_string_pretty(&openapi()).unwrap();
        std::fs::write(&file, text + "\n").unwrap();
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(served == kept, "write it anew: INCA_BLESS=1 cargo test -p inca-controller --test api document");
    controller.stop().await;
}

#[tokio::test]
async fn every_noun_is_there_as_grpc_has_it() {
    let (_switch, mut client, _controller, address) = one_switch().await;
    let _streams = two_ranks(&mut client).await;
    let get = async |path: &str| {
        let response = http::get(address, path).await;
        assert_eq!(
            (response.status, response.kind()),
            (200, "application/json"),
            "{path}: {}",
            response.body
        );
        response.json()
    };
    let status = client.status(api::StatusRequest::default()).await.unwrap().into_inner();
    let all = get("/v1/status").await;
    assert_eq!(all["jobs"][0]["generation"], status.jobs[0].generation);
    for noun in ["switches", "links", "hosts", "jobs"] {
        assert_eq!(get(&format!("/v1/{noun}")).await, all[noun], "{noun}");
    }
    assert_eq!(all["hosts"][1]["address"], "10.0.0.2");
    assert_eq!(get("/v1/info").await["udp_port"], 18766);
    assert_eq!(get("/v1/slots").await, json!([{ "switch_name": "s1", "used": 16, "total": 4096 }]));
    let tree = &get("/v1/trees").await[0];
    assert_eq!((&tree["job"], &tree["nodes"][0]["ranks"]), (&json!("test"), &json!([0, 1])));
    assert_eq!(get("/v1/jobs/test").await[0]["state"], "running");
    assert_eq!(get("/v1/switches/s1").await["counters"]["completed"], 0);
    assert_eq!(get("/v1/counters").await["s1"]["completed"], 0);
    let metrics = http::get(address, "/metrics").await;
    assert!(metrics.kind().starts_with("application/openmetrics-text"), "{}", metrics.kind());
    for line in [
        "inca_switch_slots_used{switch=\"s1\"} 16",
        "inca_groups{state=\"running\"} 1",
        "inca_events_total{kind=\"rank_joined\"} 2",
        "inca_p4runtime_request_duration_seconds_count{switch=\"s1\",operation=\"read_back\"} 1",
        "inca_switch_packets_total{switch=\"s1\",event=\"completed\"} 0",
        "inca_switch_dropped_packets_total{switch=\"s1\",reason=\"bad_length\"} 0",
    ] {
        assert!(metrics.body.lines().any(|other| other == line), "no {line} in\n{}", metrics.body);
    }
    assert_eq!(get("/healthz").await, json!({ "status": "ok", "in_charge": true }));
    let body = json!({ "job": "test", "elements": 1280 }).to_string();
    let plan = http::send(address, "POST", "/v1/plan", &[], &body).await.json();
    assert_eq!((&plan["installed"], &plan["chunks"]), (&json!(true), &json!(2)));
    let load = json!({
        "from": "10.0.0.1", "from_port": 0, "to": "s1", "to_port": 1, "packets": 2, "bytes": 2 * 1362,
    });
    assert_eq!(plan["links"][0], load);
}

#[tokio::test]
async fn a_deleted_job_ends_for_all_ranks_with_the_reason() {
    let (switch, mut client, _controller, address) = one_switch().await;
    let mut streams = two_ranks(&mut client).await;
    let deleted =
        http::send(address, "DELETE", "/v1/jobs/test?reason=the%20cluster%20is%20needed", &[], "").await;
    assert_eq!((deleted.status, deleted.json()), (202, json!({ "job": "test", "groups": [""] })));
    for (rank, stream) in (0..).zip(&mut streams) {
        report(&mut client, stream, rank).await;
    }
    for stream in &mut streams {
        assert_eq!(closed(stream).await.reason, "an operator ended it: the cluster is needed");
    }
    let info = info();
    soon("removal", async { while !switch.entries(&info, "tree").await.is_empty() {} }).await;
    assert_eq!(http::send(address, "DELETE", "/v1/jobs/test", &[], "").await.status, 404);
    // The same over gRPC, of a group that still forms.
    let mut stream =
        client.join(api::JoinRequest { group: "tp".into(), ..request(0) }).await.unwrap().into_inner();
    let mut operator = OperatorClient::connect(format!("http://{address}")).await.unwrap();
    let end = |group: &str| api::EndJobRequest {
        job: "test".into(),
        group: Some(group.into()),
        ..Default::default()
    };
    let refused = operator.end_job(end("dp")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused:?}");
    let ended = operator.end_job(end("tp")).await.unwrap().into_inner();
    assert_eq!(ended.groups, ["tp"]);
    assert_eq!(closed(&mut stream).await.reason, "an operator ended it");
}

#[tokio::test]
async fn refusals_are_problems() {
    let (_switch, _client, _controller, address) = one_switch().await;
    for (method, path, body, status, detail) in [
        ("GET", "/v1/nothing", "", 404, "/v1/nothing"),
        ("GET", "/v1/switches/s9", "", 404, "s9"),
        ("GET", "/v1/jobs/j%20j", "", 404, "j j"),
        ("DELETE", "/v1/jobs/none", "", 404, "none"),
        ("DELETE", "/v1/jobs/none?grup=x", "", 400, "grup"),
        ("GET", "/v1/events?after=minus", "", 400, "query"),
        ("GET", "/v1/jobs/%ff", "", 400, "path"),
        ("PUT", "/v1/jobs", "", 405, "/v1/jobs"),
        ("POST", "/v1/plan", "{", 400, "body"),
        ("POST", "/v1/plan", "{\"hosts\": 7}", 400, "hosts"),
        ("POST", "/v1/plan", "{\"hosts\": [\"ten\"]}", 400, "host_address"),
        ("POST", "/v1/plan", "{\"format\": \"f64\", \"hosts\": [\"10.0.0.1\"]}", 400, "f64"),
        ("POST", "/v1/plan", "{\"hosts\": [\"10.0.0.7\"]}", 409, "10.0.0.7"),
        ("POST", "/v1/plan", "{\"job\": \"none\"}", 404, "none"),
        (
            "POST",
            "/v1/plan",
            "{\"hosts\": [\"10.0.0.1\"], \"elements\": 18446744073709551615}",
            400,
            "elements",
        ),
    ] {
        let response = http::send(address, method, path, &[], body).await;
        let context = format!("{method} {path} {body}: {}", response.body);
        assert_eq!((response.status, response.kind()), (status, "application/problem+json"), "{context}");
        let problem = response.json();
        assert_eq!(problem["status"], status, "{context}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{context}");
        assert!(problem["type"].as_str().unwrap().starts_with("urn:inca:problem:"), "{context}");
    }
}

#[tokio::test]
async fn events_come_as_a_list_and_as_streams() {
    let (_switch, mut client, controller, address) = one_switch().await;
    let mut operator = OperatorClient::connect(format!("http://{address}")).await.unwrap();
    let mut stream = operator.events(api::EventsRequest::default()).await.unwrap().into_inner();
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "switch_up") {
        kinds.push(soon("event", stream.message()).await.unwrap().unwrap().kind);
    }
    assert_eq!(kinds, ["in_charge", "switch_up"]);
    let _streams = two_ranks(&mut client).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &api::Event| event.kind != "group_ready") {
        seen.push(soon("event", stream.message()).await.unwrap().unwrap());
    }
    let kinds: Vec<_> = seen.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["rank_joined", "rank_joined", "group_installing", "group_ready"]);
    assert_eq!((seen[1].rank, seen[1].job.as_str()), (Some(1), "test"));
    assert!(seen[1].message.contains("rank 1 joined: of 2, from 10.0.0.2"), "{}", seen[1].message);
    let listed = http::get(address, "/v1/events?after=2").await.json();
    assert_eq!(listed[0]["number"], 3);
    assert_eq!(listed.as_array().unwrap().len(), seen.len());
    let refused = client.join(api::JoinRequest { world_size: 3, ..request(1) }).await;
    assert!(refused.is_err());
    // A reader that was away gets what it missed.
    let mut text = String::new();
    let headers = [("last-event-id", "4")];
    let mut sent = http::begin(address, "GET", "/v1/events/stream", &headers, "").await;
    http::read_until(&mut sent, &mut text, "event: join_refused").await;
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    assert!(text.contains("id: 5\n") && !text.contains("id: 4\n"), "{text}");
    // All streams end with the controller.
    controller.stop().await;
    let rest = async { while let Ok(Some(_)) = stream.message().await {} };
    soon("end of the stream", rest).await;
}

#[tokio::test]
async fn reflection_and_health_are_served() {
    use tokio_stream::StreamExt;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_response::MessageResponse};
    let (_switch, _client, _controller, address) = one_switch().await;
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    for service in ["", "inca.v1.Controller", "inca.v1.Operator"] {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap();
        assert_eq!(answer.into_inner().status, 1, "{service}");
    }
    let mut reflection = ServerReflectionClient::new(channel);
    let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let asked = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("inca.v1.PlanRequest".into())),
    ];
    let answers = reflection.server_reflection_info(tokio_stream::iter(asked)).await.unwrap().into_inner();
    let answers: Vec<_> = soon("answers", answers.collect()).await;
    let Ok(Some(MessageResponse::ListServicesResponse(list))) =
        answers[0].as_ref().map(|answer| answer.message_response.clone())
    else {
        panic!("{answers:?}")
    };
    let mut services: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    services.sort();
    assert_eq!(services, ["grpc.health.v1.Health", "inca.v1.Controller", "inca.v1.Operator"]);
    let file = answers[1].as_ref().unwrap().message_response.clone();
    assert!(matches!(file, Some(MessageResponse::FileDescriptorResponse(_))), "{file:?}");
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let (_switch, _client, _controller, address) = one_switch().await;
    let page = http::get(address, "/docs/").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("swagger-ui"), "{}", page.body);
    let parts = page.body.split(['"', '\'']).filter(|part| part.ends_with(".js") || part.ends_with(".css"));
    let parts: Vec<_> = parts.map(|part| part.trim_start_matches("./")).collect();
    assert!(parts.len() > 3, "{}", page.body);
    for part in parts {
        assert!(!part.contains("//"), "{part}");
        assert_eq!(http::get(address, &format!("/docs/{part}")).await.status, 200, "{part}");
    }
    let start = http::get(address, "/docs/swagger-initializer.js").await;
    assert!(start.body.contains("/openapi.json"), "{}", start.body);
}

fn inca(address: SocketAddr, args: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_inca"))
        .args(args)
        .env("INCA_CONTROLLER", address.to_string())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_what_the_api_says() {
    let (_switch, mut client, _controller, address) = one_switch().await;
    let mut streams = two_ranks(&mut client).await;
    let run = async |args: &[&'static str]| {
        let args = args.to_vec();
        let (ok, out, error) = tokio::task::spawn_blocking(move || inca(address, &args)).await.unwrap();
        assert!(ok, "{error}");
        out
    };
    for (args, expected) in [
        (&["switches"][..], "s1      1       127.0.0.1:"),
        (&["hosts"], "10.0.0.2  02:00:00:00:00:02  s1:2"),
        (&["links"], "LINK  TO  STATE"),
        (&["jobs"], "2/2    bfp16   5      running  s1[0 1]"),
        (&["trees", "test"], "s1[0 1]"),
        (&["slots"], "s1      16          4096  0.4%"),
        (&["counters"], "SWITCH  EVENT"),
        (&["topo"], "  2 -- host 10.0.0.2"),
        (&["topo", "-o", "dot"], "graph inca {"),
        (&["plan", "--job", "test"], "10.0.0.1  s1:1      1        1362"),
        (
            &["plan", "--host", "10.0.0.1,10.0.0.2", "--dry-run", "--elements", "1280"],
            "2 chunks; there is room for it",
        ),
        (&["events", "-n", "2"], "switch_up"),
        (&["status"], "JOB   GENERATION"),
        (&["openapi"], "\"/v1/switches\""),
        (&["completions", "bash"], "complete -F _inca"),
    ] {
        let out = run(args).await;
        assert!(out.contains(expected), "{args:?}: no {expected:?} in\n{out}");
    }
    for noun in ["switches", "links", "hosts", "jobs", "trees", "slots"] {
        let out: Value = serde_json::from_str(&run(&[noun, "--json"]).await).unwrap();
        assert_eq!(out, http::get(address, &format!("/v1/{noun}")).await.json(), "{noun}");
    }
    let plan: Value = serde_json::from_str(&run(&["plan", "--job", "test", "--json"]).await).unwrap();
    assert_eq!(plan["links"].as_array().map(Vec::len), Some(4));
    assert_eq!(run(&["end", "test", "--reason", "enough"]).await, "test: 1 group ends\n");
    for (rank, stream) in (0..).zip(&mut streams) {
        report(&mut client, stream, rank).await;
    }
    assert_eq!(closed(&mut streams[0]).await.reason, "an operator ended it: enough");
    assert!(run(&["doctor"]).await.contains("nothing is wrong"));
    let refused = tokio::task::spawn_blocking(move || inca(address, &["end", "none"])).await.unwrap();
    assert!(!refused.0 && refused.2.contains("job \"none\" is not there"), "{}", refused.2);
}
