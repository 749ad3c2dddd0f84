//! Compiled programs of strangers: refused with a reason, or run on packets.

use inca_switch::{Program, Switch, SwitchConfig};

use super::Target;

pub(super) const TARGET: Target = Target { name: "json", run, seeds, words: WORDS, usual: 10000 };

const WORDS: &[&[u8]] = &[
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"-1",
    b"0",
    b"18446744073709551615",
    b"1e308",
    b"\"0x\"",
    b"\"0xffffffffffffffffffffffffffffffffffff\"",
    b"\"bitwidth\"",
    b"\"op\"",
    b"\"expression\"",
    b"\"header_stack\"",
    b"\"lookahead\"",
    b"\"register_array\"",
    b"[[[[[[[[",
    b"\\ud800",
];
const PROGRAMS: [&str; 4] = [
    include_str!("../../../switch/tests/programs/replication.json"),
    include_str!("../../../switch/tests/programs/tables.json"),
    include_str!("../../../switch/tests/programs/parsing.json"),
    include_str!("../../../switch/tests/programs/sums.json"),
];
const FRAMES: [&[u8]; 3] = [&[], &[0x55; 14], &[0xAA; 120]];

fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(program) = Program::from_json(text) else { return };
    let mut switch = Switch::new(program, SwitchConfig { max_passes: 4, ..SwitchConfig::default() });
    for (time, frame) in (1..).zip(FRAMES) {
        switch.process(1, frame, time, &mut Vec::new());
    }
}

/// Small programs that use all that BMv2's JSON has, without white space: mutations should hit something.
fn seeds() -> Vec<Vec<u8>> {
    PROGRAMS
        .iter()
        .map(|text| {
            let mut document: serde_json::Value = serde_json::from_str(text).expect("a fixture is JSON");
            strip(&mut document);
            document.to_string().into_bytes()
        })
        .collect()
}

/// Takes away what the loader does not read: where each statement stood in the source.
fn strip(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(object) => {
            object.remove("source_info");
            object.values_mut().for_each(strip);
        }
        serde_json::Value::Array(array) => array.iter_mut().for_each(strip),
        _ => {}
    }
}
