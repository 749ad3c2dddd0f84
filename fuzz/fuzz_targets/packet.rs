//! See `inca_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (inca_tests::fuzz::target("packet").expect("a target of this name").run)(input));
