//! How many chunks one core takes through the state machine, without any network: contributions are turned into results in place.
//!
//! `cargo run --release -p inca-host-agent --example endpoint_rate -- [WORDS] [MEGABYTES]`

use std::time::Instant;

use inca_host_agent::protocol::{
    Collective, Endpoint, EndpointConfig, OperationSpec, ReduceOp, TransmitBatch, TreeConfig, Tuning,
};
use inca_wire::packet::{Format, Opcode, Packet};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let words: u8 = args.next().unwrap_or_else(|| "5".to_owned()).parse()?;
    let megabytes: usize = args.next().unwrap_or_else(|| "64".to_owned()).parse()?;
    let config = EndpointConfig {
        job: "rate".to_owned(),
        world_size: 2,
        generation: 1,
        format: Format::Bfp16,
        chunk_words: words,
        trees: vec![TreeConfig {
            tree_id: 1,
            member: 0,
            slots: 128,
            leaf_children: Vec::new(),
            leaf: String::new(),
        }],
        tuning: Tuning::default(),
    };
    let elements = megabytes * 1_000_000 / 4;
    let tensor: Vec<f32> = (0..elements).map(|index| (index % 1013) as f32 * 0.37 - 100.0).collect();
    let mut endpoint = Endpoint::new(config, Instant::now())?;
    let spec = OperationSpec { collective: Collective::Allreduce, op: ReduceOp::Sum, deadline: None };
    if let Err(rejected) = endpoint.start(spec, tensor) {
        return Err(rejected.error.into());
    }
    let mut batch = TransmitBatch::new(64);
    let mut datagram = Vec::new();
    let began = Instant::now();
    while endpoint.poll_completion().is_none() {
        batch.clear();
        endpoint.poll_transmit(Instant::now(), &mut batch);
        for packet in batch.packets() {
            datagram.clear();
            datagram.extend_from_slice(batch.contents(packet));
            let mut result = Packet::new_unchecked(&mut datagram[..]);
            result.set_opcode(Opcode::Result);
            result.set_contributions(2);
            endpoint.handle_datagram(began, &datagram);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let chunks = endpoint.stats().chunks as f64;
    println!(
        "{words} words per chunk: {:.0} chunks/s, {:.0} MB/s of f32, {:.0} MB/s of packets each way",
        chunks / seconds,
        megabytes as f64 / seconds,
        endpoint.stats().sent_bytes as f64 / 1e6 / seconds,
    );
    Ok(())
}
