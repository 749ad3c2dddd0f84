//! What one rank's driver thread carries over a real socket: a thread on the loopback interface returns every contribution as a result.
//!
//! `cargo run --release -p inca-host-agent --example loopback_rate -- [WORDS] [MEGABYTES] [WINDOW]`

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use inca_host_agent::protocol::{EndpointConfig, TreeConfig, Tuning};
use inca_host_agent::{Communicator, ReduceOp};
use inca_wire::packet::{Format, MAX_PACKET_LEN, Opcode, Packet};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let words: u8 = args.next().unwrap_or_else(|| "5".to_owned()).parse()?;
    let megabytes: usize = args.next().unwrap_or_else(|| "64".to_owned()).parse()?;
    let window: usize = args.next().unwrap_or_else(|| "64".to_owned()).parse()?;

    let switch = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = switch.local_addr()?;
    std::thread::spawn(move || {
        let mut buffer = [0; MAX_PACKET_LEN];
        while let Ok((len, from)) = switch.recv_from(&mut buffer) {
            let mut packet = Packet::new_unchecked(&mut buffer[..len]);
            packet.set_opcode(Opcode::Result);
            packet.set_contributions(2);
            // A lost copy is repeated.
            let _ = switch.send_to(&buffer[..len], from);
        }
    });

    let mut tuning = Tuning::default();
    (tuning.window.start, tuning.window.max) = (window, window);
    let config = EndpointConfig {
        job: "rate".to_owned(),
        world_size: 2,
        generation: 1,
        format: Format::Bfp16,
        chunk_words: words,
        trees: vec![TreeConfig {
            tree_id: 1,
            member: 0,
            slots: 256,
            leaf_children: Vec::new(),
            leaf: String::new(),
        }],
        tuning,
    };
    let group = Communicator::assigned(config, 0, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, vec![address])?;
    let mut tensor: Vec<f32> =
        (0..megabytes * 250_000).map(|index| (index % 1013) as f32 * 0.37 - 100.0).collect();
    for _ in 0..3 {
        let before = group.stats().0;
        let began = Instant::now();
        group.allreduce_f32(&mut tensor, ReduceOp::Sum, Duration::from_secs(60))?;
        let seconds = began.elapsed().as_secs_f64();
        let stats = group.stats().0;
        println!(
            "{words} words per chunk: {:.0} chunks/s, {:.0} MB/s of f32, {} resent, round trip {:?}",
            (stats.chunks - before.chunks) as f64 / seconds,
            megabytes as f64 / seconds,
            stats.retransmissions - before.retransmissions,
            stats.smoothed_rtt.unwrap_or_default(),
        );
    }
    let mut small = [1.0; 16];
    let began = Instant::now();
    for _ in 0..1000 {
        group.allreduce_f32(&mut small, ReduceOp::Sum, Duration::from_secs(1))?;
    }
    println!("16 elements: {:?} per call", began.elapsed() / 1000);
    Ok(())
}
