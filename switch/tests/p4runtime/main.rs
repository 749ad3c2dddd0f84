//! The P4Runtime server of the embedded switch over loopback: the client's contract, the cases of the specification, and
//! sessions of real clients.

#[path = "../../../p4runtime/tests/contract/mod.rs"]
mod contract;

mod cases;
mod compliance;
mod entities;
mod errors;
mod pipelines;
mod server;
mod streams;

use server::Server;

macro_rules! contract {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            let server = Server::start().await;
            contract::$name(server.target()).await;
        }
    )*};
}

contract!(
    arbitration,
    cookie_gates_the_pipeline,
    wide_parameter_acts_on_packets,
    multicast_group_copies,
    counters_count,
    errors_carry_their_update,
    large_batches_are_split,
    registers,
);

#[tokio::test]
async fn closed_stream_is_noticed() {
    let server = Server::start().await;
    contract::closed_stream_is_noticed(server.target(), move || drop(server)).await;
}

#[tokio::test]
async fn p4runtime_shell_session() {
    let server = Server::start().await;
    contract::python::p4runtime_shell(server.target()).await;
}

#[tokio::test]
async fn finsy_session() {
    let server = Server::start().await;
    contract::python::finsy(server.target()).await;
}
