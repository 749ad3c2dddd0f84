//! How long a switch takes for a pipeline and for many entries:
//! `cargo run --release -p inca-p4runtime --example write_rate -- http://127.0.0.1:9559 0 [ENTRIES]`
//!
//! Runs against any server that takes BMv2 JSON. The switch must run no other controller.

use std::{error::Error, path::Path, time::Instant};

use inca_p4runtime::{
    Client, ClientConfig, EntryBuilder, Pipeline,
    client::{delete, insert},
    p4v1::set_forwarding_pipeline_config_request::Action,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().ok_or("expected: URL DEVICE_ID [ENTRIES]")?;
    let device_id = arguments.next().ok_or("expected: URL DEVICE_ID [ENTRIES]")?.parse()?;
    let count: u32 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let compiled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4/compiled");
    let pipeline = Pipeline::from_files(compiled.join("inca.p4info.txtpb"), compiled.join("inca.json"))?;
    let (client, _events) = Client::connect(ClientConfig::new("bench", target, device_id, 1)).await?;

    let started = Instant::now();
    client.push_pipeline(&pipeline, Action::VerifyAndCommit).await?;
    println!("pipeline of {} bytes: {:.3} s", pipeline.device_config.len(), started.elapsed().as_secs_f64());

    let table = pipeline.info.table("arp_proxy")?;
    let action = pipeline.info.action_by_id(table.actions[0].id)?;
    let params: Vec<_> = action.params.iter().map(|param| param.name.as_str()).collect();
    let started = Instant::now();
    let entries: Vec<_> = (0..count)
        .map(|number| {
            EntryBuilder::new(&pipeline.info)
                .table("arp_proxy")
                .exact(&table.fields[0].name, 0x0A00_0000 + number)
                .action(&action.name, params.iter().map(|&param| (param, 7u8.into())))
                .build()
        })
        .collect::<Result<_, _>>()?;
    report("built", count, started);

    let started = Instant::now();
    client.write(entries.iter().cloned().map(insert).collect()).await?;
    report("inserted", count, started);
    let started = Instant::now();
    let read = client.read_table(table.id).await?;
    report("read", u32::try_from(read.len())?, started);
    let started = Instant::now();
    client.write(entries.into_iter().map(delete).collect()).await?;
    report("deleted", count, started);
    Ok(())
}

fn report(what: &str, count: u32, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what} {count} entries: {seconds:.3} s, {:.0}/s", f64::from(count) / seconds);
}
