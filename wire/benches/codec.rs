//! How fast tensors become words and back: bytes of f32 or i32 per second, one core.
//!
//! `cargo bench -p inca-wire`

use std::hint::black_box;
use std::time::Instant;

use inca_wire::format::{bfp16, int32};
use inca_wire::packet::{EXP_BIAS, WORD_BYTES};

/// Words of a chunk: a frame of 1500 bytes, and a jumbo frame.
const CHUNKS: [usize; 2] = [5, 32];
const ROUNDS: usize = 7;
const BYTES_PER_ROUND: usize = 1 << 28;

fn main() {
    println!("{:>6}  {:<18} {:>8}", "words", "operation", "GB/s");
    for words in CHUNKS {
        let mut lanes = vec![0u8; words * WORD_BYTES];

        let integers: Vec<i32> = (0..words * int32::LANES).map(|index| index as i32 * 40_503).collect();
        let mut integers_out = integers.clone();
        measure(words, "i32 encode", integers.len(), || {
            int32::encode(black_box(&integers), &mut lanes).is_ok()
        });
        measure(words, "i32 decode", integers.len(), || {
            int32::decode(black_box(&lanes), &mut integers_out).is_ok()
        });

        let floats: Vec<f32> = (0..words * bfp16::LANES).map(|index| (index as f32).sin() / 7.0).collect();
        let mut floats_out = floats.clone();
        measure(words, "bfp16 encode", floats.len(), || {
            bfp16::encode(black_box(&floats), &mut lanes).is_ok()
        });
        measure(words, "bfp16 encode_at", floats.len(), || {
            bfp16::encode_at(black_box(&floats), EXP_BIAS, &mut lanes).is_ok()
        });
        measure(words, "bfp16 decode", floats.len(), || {
            bfp16::decode(black_box(&lanes), EXP_BIAS - 10, &mut floats_out).is_ok()
        });
    }
}

/// The best of several rounds: other processes only ever slow one down.
fn measure(words: usize, name: &str, elements: usize, mut operation: impl FnMut() -> bool) {
    let bytes = elements * 4;
    let calls = BYTES_PER_ROUND / bytes;
    let best = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        for _ in 0..calls {
            assert!(black_box(operation()), "{name} failed");
        }
        start.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::INFINITY, f64::min);
    println!("{words:>6}  {name:<18} {:>8.2}", (calls * bytes) as f64 / best / 1e9);
}
