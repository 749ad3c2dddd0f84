//! Compiles `proto/` without a `protoc` on the machine.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const ROOTS: [&str; 2] = ["p4/v1/p4runtime.proto", "inca/v1/controller.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let proto = PathBuf::from("../proto");
    println!("cargo:rerun-if-changed={}", proto.display());
    let descriptors = protox::compile(ROOTS, [&proto])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
