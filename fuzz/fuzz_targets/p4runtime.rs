//! See `inca_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (inca_tests::fuzz::target("p4runtime").expect("a target of this name").run)(input));
