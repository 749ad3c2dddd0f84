//! How fast f32 become blocks and back on one core, beside a copy of the same bytes: `make bench-codec`.
//!
//! Buffers are 64 MiB of f32, far beyond any cache, touched before anything is measured and used again and again. Speeds are bytes of f32
//! per second. Writes `target/reports/bench-codec.json`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, process};

use criterion::{Criterion, Throughput};
use inca_wire::format::{Format, bfp};
use inca_wire::packet::WORD_BYTES;

const BYTES: usize = 64 << 20;
/// Words of a chunk: what fits into a frame of 1500 bytes.
const CHUNK_WORDS: usize = 5;
const FORMATS: [Format; 3] = [Format::Bfp16, Format::Bfp8, Format::Bfp32];

const HELP: &str = "\
make bench-codec [ARGS=...]: speed of the codec beside memcpy, one core, 64 MiB of f32

  --json    print the report as JSON instead of a table
  --help    this text
  others    as cargo bench -p inca-wire has them, for example a filter by name

Columns: number format, direction, bytes of f32 per second, memcpy of as many bytes in the same run, their ratio.";

fn main() {
    if env::args().any(|argument| argument == "--help" || argument == "-h") {
        println!("{HELP}");
        return;
    }
    let json = env::args().any(|argument| argument == "--json");
    measure();
    if let Err(error) = report(json) {
        eprintln!("error: {error}");
        process::exit(1);
    }
}

fn measure() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .output_directory(&directory())
        .with_output_color(false);
    let floats: Vec<f32> = (0..BYTES / 4).map(|index| (index as f32).sin() / 7.0).collect();
    let mut copy = floats.clone();
    let mut words = vec![1u8; BYTES];
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Bytes(BYTES as u64));
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| black_box(&mut copy).copy_from_slice(black_box(&floats)));
    });
    for format in FORMATS {
        let elements = CHUNK_WORDS * format.lanes_per_word();
        let chunk_bytes = CHUNK_WORDS * WORD_BYTES;
        let mut exponents = vec![0u16; floats.len().div_ceil(elements)];
        let mut encode = |exponents: &mut [u16]| {
            let chunks = floats.chunks(elements).zip(words.chunks_mut(chunk_bytes)).zip(exponents);
            for ((values, words), exponent) in chunks {
                match bfp::encode(format, values, words) {
                    Ok(encoded) => *exponent = encoded.exp_max,
                    Err(error) => panic!("{format}: {error}"),
                }
            }
        };
        group.bench_function(format!("{format}-encode"), |bencher| bencher.iter(|| encode(&mut exponents)));
        encode(&mut exponents);
        group.bench_function(format!("{format}-decode"), |bencher| {
            bencher.iter(|| {
                let chunks = copy.chunks_mut(elements).zip(words.chunks(chunk_bytes)).zip(&exponents);
                for ((values, words), exponent) in chunks {
                    if let Err(error) = bfp::decode(format, black_box(words), *exponent, values) {
                        panic!("{format}: {error}");
                    }
                }
            });
        });
    }
    group.finish();
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from)
}

fn directory() -> PathBuf {
    target().join("criterion")
}

/// Bytes per second of one benchmark, from the median that criterion has written.
fn speed(name: &str) -> Result<f64, String> {
    let path = directory().join("codec").join(name).join("new/estimates.json");
    let failure = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| failure(&error))?;
    let estimates: serde_json::Value = serde_json::from_str(&text).map_err(|error| failure(&error))?;
    let nanoseconds = estimates["median"]["point_estimate"].as_f64();
    nanoseconds.map(|ns| BYTES as f64 / ns * 1e9).ok_or_else(|| failure(&"no median"))
}

fn report(json: bool) -> Result<(), String> {
    let memcpy = speed("memcpy")?;
    let mut rows = Vec::new();
    for format in FORMATS {
        for direction in ["encode", "decode"] {
            let speed = speed(&format!("{format}-{direction}"))?;
            rows.push(serde_json::json!({
                "format": format.name(),
                "direction": direction,
                "bytes_per_s": speed.round(),
                "memcpy_bytes_per_s": memcpy.round(),
                "ratio": (speed / memcpy * 1000.0).round() / 1000.0,
            }));
        }
    }
    let text = serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())?;
    let path = target().join("reports/bench-codec.json");
    fs::create_dir_all(target().join("reports")).map_err(|error| error.to_string())?;
    fs::write(&path, format!("{text}\n")).map_err(|error| format!("{}: {error}", path.display()))?;
    if json {
        println!("{text}");
        return Ok(());
    }
    println!("{:<8} {:<9} {:>8} {:>8} {:>6}", "format", "direction", "GB/s", "memcpy", "ratio");
    for row in &rows {
        println!(
            "{:<8} {:<9} {:>8.2} {:>8.2} {:>6.2}",
            row["format"].as_str().unwrap_or_default(),
            row["direction"].as_str().unwrap_or_default(),
            row["bytes_per_s"].as_f64().unwrap_or_default() / 1e9,
            memcpy / 1e9,
            row["ratio"].as_f64().unwrap_or_default()
        );
    }
    Ok(())
}
