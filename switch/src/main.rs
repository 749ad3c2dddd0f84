//! `inca-switch`: the embedded switch as a program.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use inca_switch::{Program, p4runtime, runtime};

mod cli;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    args.check().unwrap_or_else(|error| error.exit());
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("inca-switch: {}", inca_p4runtime::chain(e.as_ref()));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(args: &cli::Args) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log).context("--log")?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let program = match &args.json {
        None => None,
        Some(path) => {
            let json = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let program = Program::from_json(&json).with_context(|| path.display().to_string())?;
            tracing::info!("{}: {}", path.display(), program.summary());
            Some(Arc::new(program))
        }
    };
    let running = runtime::start(args.switch_config(), &args.ports(), &args.loss()?, program)?;
    let handle = running.handle;
    let (address, server) =
        p4runtime::bind_with(handle.clone(), running.events, args.p4runtime_addr, args.tls()?, stopped())
            .await?;
    let server = tokio::spawn(server);
    cli::push_pipeline(address, args.device_id, args).await?;
    tracing::info!(%address, device_id = args.device_id, ports = args.interfaces.len(), "serving");
    server.await.context("p4runtime server")??;
    if let Ok(stats) = handle.stats().await {
        cli::report(&stats);
    }
    // The thread may have ended by itself: then it said why.
    if handle.stop().is_ok() {
        let _ = running.thread.join();
    }
    Ok(())
}

/// Completes on SIGINT or SIGTERM.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let term = async {
        match signal(SignalKind::terminate()) {
            Ok(mut s) => drop(s.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = term => {}
    }
}
