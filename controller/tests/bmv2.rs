//! The whole controller with real BMv2 switches, over P4Runtime and over its own gRPC API. No packets: the switches have no ports.

mod rig;

use inca_p4runtime::northbound as api;
use rig::*;

/// One switch and a controller for it.
async fn one_switch() -> Option<(
    Bmv2,
    api::controller_client::ControllerClient<tonic::transport::Channel>,
    inca_controller::control::Controller,
)> {
    let bmv2 = Bmv2::start(&bmv2()?, 1);
    let (controller, client) = start(inventory(&[(1, bmv2.address)], "")).await;
    ready(&controller).await;
    Some((bmv2, client, controller))
}

#[tokio::test]
async fn a_job_is_installed_when_all_ranks_are_there_and_removed_when_they_left() {
    let Some((bmv2, mut client, controller)) = one_switch().await else { return };
    let info = info();
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    assert!(bmv2.entries(&info, "membership").await.is_empty());
    let mut second = client.join(request(1)).await.unwrap().into_inner();
    let assignment = assignment(&mut first).await;
    assert_eq!((assignment.world_size, assignment.trees.len()), (2, 1));
    assert_eq!(assignment.trees[0].service_address, "10.255.0.1");
    assert_eq!(bmv2.entries(&info, "membership").await.len(), 2);
    assert_eq!(bmv2.entries(&info, "replica").await.len(), 2);
    assert_eq!(bmv2.entries(&info, "tree").await.len(), 1);
    assert_eq!(bmv2.groups().await, 1);
    let status = client.status(api::StatusRequest { counters: true }).await.unwrap().into_inner();
    assert_eq!((status.jobs[0].state.as_str(), status.switches[0].slots_used), ("running", 16));
    assert_eq!(status.switches[0].counters.get("completed"), Some(&0));
    for rank in 0..2 {
        let leave = api::LeaveRequest {
            job: "test".to_owned(),
            group: String::new(),
            rank,
            generation: assignment.generation,
        };
        client.leave(leave).await.unwrap();
    }
    assert!(soon("end", second.message()).await.unwrap().is_some(), "its assignment");
    assert!(soon("end", second.message()).await.unwrap().is_none());
    soon("removal", async { while !bmv2.entries(&info, "tree").await.is_empty() {} }).await;
    assert!(
        bmv2.entries(&info, "membership").await.is_empty() && bmv2.entries(&info, "replica").await.is_empty()
    );
    assert_eq!(bmv2.groups().await, 0);
    controller.stop().await;
}

#[tokio::test]
async fn l2_a_rank_whose_stream_drops_is_named_to_the_others() {
    let Some((_bmv2, mut client, _controller)) = one_switch().await else { return };
    let first = client.join(request(0)).await.unwrap().into_inner();
    let mut second = client.join(request(1)).await.unwrap().into_inner();
    assignment(&mut second).await;
    drop(first);
    let closed = closed(&mut second).await;
    assert_eq!(closed.missing_ranks, [0]);
    assert!(closed.reason.contains("rank 0 at 10.0.0.1"), "{}", closed.reason);
}

#[tokio::test]
async fn r1_a_restarted_controller_keeps_routes_and_clears_what_jobs_left_behind() {
    let Some((bmv2, mut client, controller)) = one_switch().await else { return };
    let info = info();
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    let _second = client.join(request(1)).await.unwrap().into_inner();
    let before = assignment(&mut first).await;
    let routes = bmv2.entries(&info, "ipv4_lpm").await;
    assert_eq!(routes.len(), 2);
    // It goes without a word.
    drop(controller);
    assert_eq!(bmv2.entries(&info, "membership").await.len(), 2);
    let (controller, mut client) = start(inventory(&[(1, bmv2.address)], "")).await;
    ready(&controller).await;
    assert_eq!(bmv2.entries(&info, "ipv4_lpm").await, routes);
    assert!(bmv2.entries(&info, "membership").await.is_empty());
    assert_eq!(bmv2.groups().await, 0);
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    let _second = client.join(request(1)).await.unwrap().into_inner();
    let after = assignment(&mut first).await;
    assert!(after.generation > before.generation, "{} after {}", after.generation, before.generation);
}

#[tokio::test]
async fn a_switch_that_dies_ends_its_jobs_and_comes_back() {
    let Some((bmv2, mut client, controller)) = one_switch().await else { return };
    let Some(bmv2_binary) = rig::bmv2() else { return };
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    let _second = client.join(request(1)).await.unwrap().into_inner();
    assignment(&mut first).await;
    let address = bmv2.address;
    drop(bmv2);
    assert_eq!(closed(&mut first).await.reason, "switch s1 is unreachable");
    let status = controller.status().await.unwrap();
    assert!(status.switches[0].state.starts_with("unreachable: "), "{}", status.switches[0].state);
    // Another one in its place knows nothing, and gets everything.
    let bmv2 = Bmv2::start_at(&bmv2_binary, 1, address);
    ready(&controller).await;
    assert_eq!(bmv2.entries(&info(), "ipv4_lpm").await.len(), 2);
}

#[tokio::test]
async fn the_newest_controller_is_in_charge_and_the_older_one_stands_by() {
    let Some((bmv2, _client, older)) = one_switch().await else { return };
    let (newer, _client) = start(inventory(&[(1, bmv2.address)], "")).await;
    ready(&newer).await;
    let state = async {
        loop {
            let state = older.status().await.unwrap().switches[0].state.clone();
            if state.starts_with("standby: ") {
                return state;
            }
            tokio::task::yield_now().await;
        }
    };
    let state = soon("standby", state).await;
    assert!(state.contains("another controller"), "{state}");
    newer.stop().await;
    ready(&older).await;
}
