//! The whole controller over P4Runtime and over its own gRPC API, on both switches. No packets: the switches have no ports.

mod rig;

use inca_controller::control::Controller;
use inca_p4runtime::northbound as api;
use inca_p4runtime::northbound::controller_client::ControllerClient;
use rig::*;
use tonic::transport::Channel;

on_both! {
    a_job_is_installed_when_all_ranks_are_there_and_removed_when_they_left,
    l2_a_rank_whose_stream_drops_is_named_to_the_others,
    r1_a_restarted_controller_keeps_routes_and_clears_what_jobs_left_behind,
    a_switch_that_dies_and_comes_back_empty_serves_its_jobs_in_a_new_generation,
    the_newest_controller_is_in_charge_and_the_older_one_stands_by,
}

/// One switch and a controller for it.
async fn one_switch(kind: Kind) -> (Switch, ControllerClient<Channel>, Controller) {
    let switch = Switch::start(kind, 1, &[]).await;
    let (controller, client) = start(inventory(&[(1, switch.address)], "")).await;
    ready(&controller).await;
    (switch, client, controller)
}

async fn a_job_is_installed_when_all_ranks_are_there_and_removed_when_they_left(kind: Kind) {
    let (switch, mut client, controller) = one_switch(kind).await;
    let info = info();
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    assert!(switch.entries(&info, "membership").await.is_empty());
    let mut second = client.join(request(1)).await.unwrap().into_inner();
    let assignment = assignment(&mut first).await;
    rig::assignment(&mut second).await;
    assert_eq!((assignment.world_size, assignment.trees.len()), (2, 1));
    assert_eq!(assignment.trees[0].service_address, "10.255.0.1");
    assert_eq!(switch.entries(&info, "membership").await.len(), 2);
    assert_eq!(switch.entries(&info, "replica").await.len(), 2);
    assert_eq!(switch.entries(&info, "tree").await.len(), 1);
    assert_eq!(switch.groups().await, 1);
    let status = client.status(api::StatusRequest { counters: true }).await.unwrap().into_inner();
    assert_eq!((status.jobs[0].state.as_str(), status.switches[0].slots_used), ("running", 16));
    assert_eq!(status.switches[0].counters.get("completed"), Some(&0));
    for rank in 0..2 {
        let leave = api::LeaveRequest {
            job: "test".to_owned(),
            rank,
            generation: assignment.generation,
            member_token: member_token(rank),
            ..Default::default()
        };
        client.leave(leave).await.unwrap();
    }
    assert!(soon("end", second.message()).await.unwrap().is_none());
    soon("removal", async { while !switch.entries(&info, "tree").await.is_empty() {} }).await;
    assert!(
        switch.entries(&info, "membership").await.is_empty()
            && switch.entries(&info, "replica").await.is_empty()
    );
    assert_eq!(switch.groups().await, 0);
    controller.stop().await;
}

async fn l2_a_rank_whose_stream_drops_is_named_to_the_others(kind: Kind) {
    let (_switch, mut client, _controller) = one_switch(kind).await;
    let first = client.join(request(0)).await.unwrap().into_inner();
    let mut second = client.join(request(1)).await.unwrap().into_inner();
    assignment(&mut second).await;
    drop(first);
    report(&mut client, &mut second, 1).await;
    let closed = closed(&mut second).await;
    assert_eq!(closed.missing_ranks, [0]);
    assert!(closed.reason.contains("rank 0 at 10.0.0.1"), "{}", closed.reason);
}

async fn r1_a_restarted_controller_keeps_routes_and_clears_what_jobs_left_behind(kind: Kind) {
    let (switch, mut client, controller) = one_switch(kind).await;
    let info = info();
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    let _second = client.join(request(1)).await.unwrap().into_inner();
    let before = assignment(&mut first).await;
    let routes = switch.entries(&info, "ipv4_lpm").await;
    assert_eq!(routes.len(), 2);
    // It goes without a word.
    drop(controller);
    assert_eq!(switch.entries(&info, "membership").await.len(), 2);
    let (controller, mut client) = start(inventory(&[(1, switch.address)], "")).await;
    ready(&controller).await;
    assert_eq!(switch.entries(&info, "ipv4_lpm").await, routes);
    assert!(switch.entries(&info, "membership").await.is_empty());
    assert_eq!(switch.groups().await, 0);
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    let _second = client.join(request(1)).await.unwrap().into_inner();
    let after = assignment(&mut first).await;
    assert!(after.generation > before.generation, "{} after {}", after.generation, before.generation);
}

async fn a_switch_that_dies_and_comes_back_empty_serves_its_jobs_in_a_new_generation(kind: Kind) {
    let (switch, mut client, controller) = one_switch(kind).await;
    let mut first = client.join(request(0)).await.unwrap().into_inner();
    let mut second = client.join(request(1)).await.unwrap().into_inner();
    let before = assignment(&mut first).await;
    let address = switch.address;
    drop(switch);
    for (rank, stream) in [(0, &mut first), (1, &mut second)] {
        assert_eq!(report(&mut client, stream, rank).await.reason, "switch s1 is unreachable");
    }
    let status = controller.status().await.unwrap();
    assert!(status.switches[0].state.starts_with("unreachable: "), "{}", status.switches[0].state);
    // Another one in its place knows nothing, and gets everything.
    let switch = Switch::start_at(kind, 1, &[], address).await;
    let after = assignment(&mut first).await;
    assert!(after.generation > before.generation && after.resume.is_some(), "{after:?}");
    assert_eq!(assignment(&mut second).await.generation, after.generation);
    assert_eq!(switch.entries(&info(), "membership").await.len(), 2);
    ready(&controller).await;
    assert_eq!(switch.entries(&info(), "ipv4_lpm").await.len(), 2);
}

async fn the_newest_controller_is_in_charge_and_the_older_one_stands_by(kind: Kind) {
    let (switch, _client, older) = one_switch(kind).await;
    let (newer, _client) = start(inventory(&[(1, switch.address)], "")).await;
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
