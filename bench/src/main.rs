//! Benchmarks of the data plane.
mod generator;
mod socket;

use std::net::Ipv4Addr;
use std::time::Duration;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let role = match args[1].as_str() { "leaf" => generator::Role::Leaf, "root" => generator::Role::Root, _ => generator::Role::Single };
    let load = generator::Load { role, children: args[2].parse()?, slots: args[4].parse()?, words: args[3].parse()?, tree_id: 7, generation: 9,
        service: (inca_wire::address::MacAddr([2, 0x1c, 0xa0, 0, 0, 1]), Ipv4Addr::new(10, 255, 0, 1)) };
    let names: Vec<String> = (1..=load.ports()).map(|p| format!("g{p}")).collect();
    let rate = generator::run(&load, &names, Duration::from_millis(500), Duration::from_secs(2))?;
    println!("{} words {}: {:.0} packets/s {:.1} MB/s repeats {}", role.name(), load.words, rate.packets_per_s, rate.bytes_per_s / 1e6, rate.repeats);
    Ok(())
}
