//! The Wireshark dissector in `wireshark/inca.lua` says of every field what our encoder put there. Skipped without tshark.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use inca_wire::address::MacAddr;
use inca_wire::frame::UdpFrame;
use inca_wire::packet::{Flags, Format, Header, Opcode, PARENT_MEMBER, UDP_PORT, WORD_BYTES};

/// Fields of the header, as the dissector calls them, then what it adds.
const FIELDS: [&str; 26] = [
    "inca.version",
    "inca.opcode",
    "inca.flags",
    "inca.flags.mismatch",
    "inca.flags.range",
    "inca.flags.nonfinite",
    "inca.flags.overflow",
    "inca.flags.done",
    "inca.format",
    "inca.tree_id",
    "inca.member",
    "inca.generation",
    "inca.slot",
    "inca.sequence",
    "inca.tag",
    "inca.plane",
    "inca.words",
    "inca.contributions",
    "inca.exp_max",
    "inca.exp_min",
    "inca.bias",
    "inca.children",
    "inca.word",
    "inca.request_in",
    "inca.response_in",
    "inca.repetition_of",
];

struct Sent {
    header: Header,
    words: Vec<u8>,
    /// UDP port that it is sent to.
    port: u16,
    /// Expected: the frames it is linked with, as request, response, repetition.
    links: [&'static str; 3],
}

fn sent(header: Header, port: u16) -> Sent {
    let bytes = usize::from(header.words) * WORD_BYTES;
    let words = (0..bytes).map(|i| (i * 7 + usize::from(header.words)) as u8).collect();
    Sent { header, words, port, links: ["", "", ""] }
}

/// Every opcode, every format, every flag, and extremes of every field.
fn packets() -> Vec<Sent> {
    let base = Header {
        tree_id: 0xABCD,
        member: 3,
        slot: 0x0102_0304,
        sequence: 0xFFFF_FFFE,
        tag: 0xDEAD_BEEF,
        contributions: 1,
        exp_max: 16_400,
        exp_min: 16_380,
        ..Header::new(Opcode::Contribution, Format::Bfp16, 1, 0xFFFF_FFFF)
    };
    let contribution = Header { words: 5, ..base };
    let result = Header { opcode: Opcode::Result, contributions: 8, ..contribution };
    // A chunk's way: sent, sent again, answered at a port that only the shape tells.
    let mut all = vec![
        Sent { links: ["", "3", ""], ..sent(contribution, UDP_PORT) },
        Sent { links: ["", "3", "1"], ..sent(contribution, UDP_PORT) },
        Sent { links: ["1", "", ""], ..sent(result, 40_123) },
    ];
    let apart = |opcode, number: u32| Header { opcode, slot: number, ..base };
    for plane in 0..2 {
        let partial = apart(Opcode::Partial, 900 + u32::from(plane));
        all.push(sent(
            Header { plane, words: 32, bias: u64::MAX - 1, contributions: 0xFFFF, ..partial },
            UDP_PORT,
        ));
    }
    all.push(sent(Header { words: 1, member: PARENT_MEMBER, ..apart(Opcode::Result, 902) }, UDP_PORT));
    all.push(sent(apart(Opcode::Probe, 903), UDP_PORT));
    let reply = Header { bias: 0b1011, flags: Flags::DONE, ..apart(Opcode::ProbeReply, 904) };
    all.push(sent(reply, 40_123));
    all.push(sent(Header::new(Opcode::Announce, Format::I32, 0, 0), UDP_PORT));
    for (number, format) in (1000..).zip(Format::ALL) {
        all.push(sent(Header { format, words: 2, ..apart(Opcode::Contribution, number) }, UDP_PORT));
    }
    for (number, flag) in (1100..).zip([Flags::MISMATCH, Flags::RANGE, Flags::NONFINITE, Flags::OVERFLOW]) {
        let flags = flag | Flags::RANGE;
        all.push(sent(
            Header { flags, exp_max: 0, exp_min: 0xFFFF, ..apart(Opcode::Result, number) },
            40_123,
        ));
    }
    all
}

/// What the dissector is to say, in the order of [`FIELDS`].
fn expected(sent: &Sent) -> Vec<String> {
    let header = &sent.header;
    let flag = |flag: Flags| u8::from(header.flags.bits() & flag.bits() != 0).to_string();
    let words: Vec<String> = sent.words.chunks(WORD_BYTES).map(hex).collect();
    let bias = format!("{:#018x}", header.bias);
    let (bias, children) = match header.opcode {
        Opcode::ProbeReply => (String::new(), bias),
        _ => (bias, String::new()),
    };
    vec![
        "1".to_owned(),
        u8::from(header.opcode).to_string(),
        format!("{:#04x}", header.flags.bits()),
        flag(Flags::MISMATCH),
        flag(Flags::RANGE),
        flag(Flags::NONFINITE),
        flag(Flags::OVERFLOW),
        flag(Flags::DONE),
        u8::from(header.format).to_string(),
        header.tree_id.to_string(),
        header.member.to_string(),
        header.generation.to_string(),
        header.slot.to_string(),
        header.sequence.to_string(),
        format!("{:#010x}", header.tag),
        header.plane.to_string(),
        header.words.to_string(),
        header.contributions.to_string(),
        header.exp_max.to_string(),
        header.exp_min.to_string(),
        bias,
        children,
        words.join(","),
        sent.links[0].to_owned(),
        sent.links[1].to_owned(),
        sent.links[2].to_owned(),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
    let ends = |n| (MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n));
    let frame = UdpFrame { dst_port: port, src_port: 41_000, ..UdpFrame::to_switch(ends(1), ends(2)) };
    frame.emit(payload).unwrap()
}

/// A classic pcap of the first bytes of these frames, a millisecond apart.
fn pcap(name: &str, frames: &[Vec<u8>], captured: usize) -> PathBuf {
    let mut file = Vec::new();
    for field in [0xA1B2_C3D4, 0x0004_0002_u32, 0, 0, 65_535, 1] {
        file.extend(field.to_le_bytes());
    }
    for (number, frame) in (0_u32..).zip(frames) {
        let kept = &frame[..captured.min(frame.len())];
        for field in [1_700_000_000, number * 1000, kept.len() as u32, frame.len() as u32] {
            file.extend(field.to_le_bytes());
        }
        file.extend(kept);
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, file).unwrap();
    path
}

/// One line for each frame; `None` without tshark.
fn tshark(pcap: &PathBuf, arguments: &[&str]) -> Option<Vec<String>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../wireshark/inca.lua");
    let mut command = Command::new("tshark");
    command.args(["-n", "-2", "-X", &format!("lua_script:{script}"), "-r"]).arg(pcap).args(arguments);
    // No preferences of whoever runs this.
    command.env("HOME", env!("CARGO_TARGET_TMPDIR")).env("XDG_CONFIG_HOME", env!("CARGO_TARGET_TMPDIR"));
    let Ok(output) = command.output() else {
        println!("skipped: tshark not found");
        return None;
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn every_field_is_dissected_as_it_was_encoded() {
    let packets = packets();
    let payload = |sent: &Sent| [&sent.header.to_bytes()[..], &sent.words].concat();
    let frames: Vec<_> = packets.iter().map(|sent| frame(sent.port, &payload(sent))).collect();
    let mut arguments = vec!["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"];
    for field in FIELDS {
        arguments.extend(["-e", field]);
    }
    let Some(lines) = tshark(&pcap("every-field.pcap", &frames, 65_535), &arguments) else { return };
    assert_eq!(lines.len(), packets.len());
    for (number, (line, sent)) in (1..).zip(lines.iter().zip(&packets)) {
        let found: Vec<&str> = line.split('\t').collect();
        let wanted = expected(sent);
        for ((name, found), wanted) in FIELDS.iter().zip(&found).zip(&wanted) {
            assert_eq!(found, wanted, "frame {number}, {:?}: {name}", sent.header);
        }
        assert_eq!(found.len(), wanted.len());
    }
}

#[test]
fn what_is_wrong_is_pointed_out_and_other_traffic_is_left_alone() {
    let header = Header { words: 1, ..Header::new(Opcode::Contribution, Format::I32, 1, 1) };
    let whole = [&header.to_bytes()[..], &[0; WORD_BYTES]].concat();
    let mut newer = whole.clone();
    newer[0] = 2;
    let mut plane = whole.clone();
    plane[24] = 0;
    let frames = [
        frame(UDP_PORT, &whole[..whole.len() - 1]),
        frame(UDP_PORT, &newer),
        frame(UDP_PORT, &plane),
        frame(UDP_PORT, &Header { words: 0, ..header }.to_bytes()),
        // Nobody's port, and not the shape; too short for a header at ours.
        frame(40_123, &whole[..whole.len() - 1]),
        frame(40_123, &newer),
        frame(UDP_PORT, &whole[..39]),
    ];
    let arguments =
        ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.expert.message", "-E", "occurrence=a"];
    let Some(lines) = tshark(&pcap("wrong.pcap", &frames, 65_535), &arguments) else { return };
    let wanted =
        ["length does not agree", "Another version", "Partials have plane", "Words just where", "", "", ""];
    for (number, (line, wanted)) in (1..).zip(lines.iter().zip(wanted)) {
        let is_ours = line.to_ascii_lowercase().starts_with("inca\t");
        assert_eq!(is_ours, !wanted.is_empty(), "frame {number}: {line}");
        assert!(line.contains(wanted), "frame {number}: {line}");
    }
    assert_eq!(lines.len(), frames.len());
}

#[test]
fn a_capture_of_the_first_bytes_is_no_wrong_length() {
    let header = Header { words: 2, slot: 77, ..Header::new(Opcode::Contribution, Format::I32, 1, 1) };
    let whole = [&header.to_bytes()[..], &[0; 2 * WORD_BYTES]].concat();
    let frames = [frame(UDP_PORT, &whole), frame(40_123, &whole)];
    let arguments =
        ["-T", "fields", "-e", "inca.slot", "-e", "inca.words", "-e", "inca.word", "-e", "inca.length"];
    let Some(lines) = tshark(&pcap("short.pcap", &frames, 128), &arguments) else { return };
    assert_eq!(lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), ["77\t2"; 2]);
}
