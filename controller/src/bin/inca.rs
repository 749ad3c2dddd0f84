//! The command `inca`.

use std::process::ExitCode;

use clap::Parser;
use inca_controller::cli::command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match command::run(command::Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
