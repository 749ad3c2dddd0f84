//! Loads a compiled program and says what is in it: `load FILE.json`.

use inca_switch::Program;

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: load FILE.json");
        std::process::exit(2);
    };
    let started = std::time::Instant::now();
    let loaded = std::fs::read_to_string(&path).map_err(|e| e.to_string());
    match loaded.and_then(|json| Program::from_json(&json).map_err(|e| e.to_string())) {
        Ok(program) => {
            println!("{path}: loaded in {:?}", started.elapsed());
            println!("{}", program.summary());
        }
        Err(e) => {
            eprintln!("{path}: {e}");
            std::process::exit(1);
        }
    }
}
