//! Byte strings through every format: what one rank puts in comes out of the reference model's sum, bit for bit.

use inca_wire::model::slot::{Child, ChildKind, SwitchModel, TreeConfig};
use inca_wire::packet::{HEADER_LEN, Header, Opcode};

use super::*;

/// A switch that sums the contributions of `world` ranks; the result.
fn through_a_switch(format: Format, sent: &[(Encoded, Vec<u8>)]) -> (Header, Vec<u8>) {
    let world = sent.len() as u16;
    let mut switch = SwitchModel::new([TreeConfig {
        tree_id: 1,
        generation: 1,
        format,
        guard: format.guard_bits(world.into()).expect("world"),
        world,
        slots: 1,
        words: MAX_WORDS as u8,
        children: (0..world).map(|rank| Child { port: rank, member: rank, kind: ChildKind::Host }).collect(),
        parent: None,
        resend_interval_us: 0,
    }]);
    let mut results = Vec::new();
    for (rank, (encoded, words)) in (0..).zip(sent) {
        let mut header = Header::new(Opcode::Contribution, format, 1, 1);
        (header.member, header.sequence, header.contributions) = (rank, 1, 1);
        encoded.describe(&mut header, (words.len() / WORD_BYTES) as u8);
        let words = if encoded.flags.is_empty() { &words[..] } else { &[] };
        results = switch.handle(0, rank, &header, words).sent;
    }
    let result = results.into_iter().next().expect("complete");
    assert_eq!(result.header.contributions, world);
    assert!(HEADER_LEN + result.words.len() == result.header.packet_len());
    (result.header, result.words)
}

fn byte_strings(len: usize) -> Vec<Vec<u8>> {
    let mixed = (0..len).map(|index| (index * 167 + index / 7) as u8).collect();
    let mut last = vec![0; len];
    if let Some(last) = last.last_mut() {
        *last = 1;
    }
    vec![vec![0; len], vec![0xFF; len], vec![1; len], vec![0x80; len], mixed, last]
}

#[test]
fn one_ranks_bytes_are_everyones_in_every_format() {
    for format in Format::ALL {
        let carrier = Carrier::Bytes(format);
        let most = carrier.chunk_elements(2, Dtype::U8);
        for len in [1, 2, 7, bytes_per_word(format) - 1, bytes_per_word(format), most - 1, most] {
            for (case, bytes) in byte_strings(len).iter().enumerate() {
                for (world, owner) in [(1, 0), (2, 1), (3, 0), (8, 5)] {
                    let words = carrier.words(len, Dtype::U8);
                    let sent: Vec<_> = (0..world)
                        .map(|rank| {
                            let mut payload = vec![0xA5; words * WORD_BYTES];
                            let chunk = (rank == owner).then_some(TensorRef::U8(bytes));
                            let state = ChunkState::default();
                            let encoded = carrier.encode(chunk, words, &state, &mut payload);
                            (encoded.expect("fits"), payload)
                        })
                        .collect();
                    let (header, words) = through_a_switch(format, &sent);
                    let Header { flags, exp_max, exp_min, .. } = header;
                    let result = PassResult { flags, exp_max, exp_min, words: &words };
                    let mut state = ChunkState::default();
                    assert_eq!(carrier.next(&state, &result), Next::Finish, "{format} {flags}");
                    let mut got = vec![0x5A; len];
                    carrier.finish(&mut state, &result, TensorMut::U8(&mut got)).expect("decodes");
                    assert!(got == *bytes, "{format}, {len} bytes, case {case}, rank {owner} of {world}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_a_header_in_every_format() {
    for format in Format::ALL {
        let encoded = Carrier::Nothing.encode(None, 0, &ChunkState::default(), &mut []).expect("encodes");
        let (header, words) = through_a_switch(format, &[(encoded, Vec::new()), (encoded, Vec::new())]);
        let Header { flags, exp_max, exp_min, .. } = header;
        let result = PassResult { flags, exp_max, exp_min, words: &words };
        assert!(words.is_empty());
        assert_eq!(Carrier::Nothing.next(&ChunkState::default(), &result), Next::Finish, "{format} {flags}");
    }
}

#[test]
fn results_that_bytes_or_nothing_can_not_have_are_told() {
    let result = |flags| PassResult { flags, exp_max: EXP_BIAS, exp_min: EXP_BIAS, words: &[] };
    let state = ChunkState::default();
    for carrier in [Carrier::Bytes(Format::Bfp16), Carrier::Nothing] {
        assert_eq!(carrier.next(&state, &result(Flags::MISMATCH)), Next::Mismatch);
        assert_eq!(carrier.next(&state, &result(Flags::OVERFLOW)), Next::Violation);
        assert_eq!(carrier.next(&state, &result(Flags::NONFINITE | Flags::RANGE)), Next::Violation);
    }
    assert_eq!(Carrier::Bytes(Format::I8).next(&state, &result(Flags::RANGE)), Next::Violation);
    assert_eq!(Carrier::Nothing.next(&state, &result(Flags::NONE)), Next::Violation);
}

#[test]
fn a_word_carries_nearly_all_of_its_bytes() {
    let bytes = |format| bytes_per_word(format);
    assert_eq!((bytes(Format::Bfp8), bytes(Format::Bfp16), bytes(Format::Bfp32)), (224, 240, 248));
    assert!([Format::I8, Format::I32, Format::Exact, Format::Max8, Format::Max64].map(bytes) == [256; 5]);
    let carrier = Carrier::Bytes(Format::Bfp16);
    assert_eq!(carrier.chunk_elements(5, Dtype::F32), 300);
    assert_eq!((carrier.words(300, Dtype::F32), carrier.words(301, Dtype::F32)), (5, 6));
    assert_eq!((carrier.words(0, Dtype::I64), carrier.words(1, Dtype::I4)), (0, 1));
}
