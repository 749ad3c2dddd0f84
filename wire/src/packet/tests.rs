use proptest::prelude::*;

use super::*;

fn opcode() -> impl Strategy<Value = Opcode> {
    (1..=6u8).prop_map(|code| Opcode::try_from(code).unwrap())
}

/// Every header that the protocol allows.
fn header() -> impl Strategy<Value = Header> {
    let ids = (any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let numbers = (any::<u16>(), any::<u16>(), any::<u16>(), any::<u64>());
    let shape = (opcode(), prop_oneof![Just(0u8), any::<u8>()], 0..2usize, 0..2u8, 1..=MAX_WORDS as u8);
    (ids, numbers, shape).prop_map(|(ids, numbers, (opcode, flags, format, plane, words))| Header {
        opcode,
        flags: Flags::from_bits(flags),
        format: Format::ALL[format],
        tree_id: ids.0,
        member: ids.1,
        generation: ids.2,
        slot: ids.3,
        sequence: ids.4,
        tag: ids.5,
        plane: if opcode == Opcode::Partial { plane } else { PLANE_BOTH },
        words: if flags == 0 && opcode.has_payload() { words } else { 0 },
        contributions: numbers.0,
        exp_max: numbers.1,
        exp_min: numbers.2,
        bias: numbers.3,
    })
}

fn bytes_of(header: &Header) -> Vec<u8> {
    let mut bytes = vec![0xA5; header.packet_len()];
    header.emit(&mut Packet::new_unchecked(&mut bytes));
    bytes
}

#[test]
fn fields_are_where_the_document_says() {
    let header = Header {
        opcode: Opcode::Partial,
        flags: Flags::RANGE | Flags::OVERFLOW,
        format: Format::Bfp16,
        tree_id: 0x0405,
        member: 0x0607,
        generation: 0x0809_0A0B,
        slot: 0x0C0D_0E0F,
        sequence: 0x1011_1213,
        tag: 0x1415_1617,
        plane: 1,
        words: 0,
        contributions: 0x1A1B,
        exp_max: 0x1C1D,
        exp_min: 0x1E1F,
        bias: 0x2021_2223_2425_2627,
    };
    let mut expected: Vec<u8> = (0..40).collect();
    expected[..4].copy_from_slice(&[VERSION, 2, 0b1010, 2]);
    expected[24..26].copy_from_slice(&[1, 0]);
    assert_eq!(header.to_bytes().to_vec(), expected);
    assert_eq!(Header::parse_bytes(&expected), Ok((header, &[][..])));
}

#[test]
fn lengths_words_and_flags_must_agree() {
    let contribution = Header { words: 2, ..Header::new(Opcode::Contribution, Format::I32, 1, 1) };
    let bytes = bytes_of(&contribution);
    assert!(Header::parse_bytes(&bytes).is_ok());

    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        Header::parse_bytes(&bytes).map(|(header, _)| header)
    };
    let flagged = PacketError::UnexpectedWords { words: 2, flags: Flags::RANGE, opcode: 1 };
    assert_eq!(with(2, Flags::RANGE.bits()), Err(flagged));
    assert_eq!(with(25, 0), Err(PacketError::NoWords(1)));
    assert_eq!(with(25, 33), Err(PacketError::TooManyWords(33)));
    assert_eq!(with(25, 1), Err(PacketError::Length { len: bytes.len(), words: 1, expected: 296 }));
    assert_eq!(with(0, 2), Err(PacketError::Version(2)));
    assert_eq!(with(1, 4), Err(PacketError::UnexpectedWords { words: 2, flags: Flags::NONE, opcode: 4 }));
    assert_eq!(with(3, 0), Err(PacketError::Format(0)));
    assert_eq!(with(24, 1), Err(PacketError::Plane { plane: 1, opcode: 1 }));
    assert_eq!(with(1, 2), Err(PacketError::Plane { plane: 2, opcode: 2 }));

    let probe = Header::new(Opcode::Probe, Format::I32, 1, 1);
    assert_eq!(Header::parse_bytes(&probe.to_bytes()), Ok((probe, &[][..])));
    let mut unknown = probe.to_bytes();
    unknown[1] = 7;
    assert_eq!(Header::parse_bytes(&unknown), Err(PacketError::Opcode(7)));
}

/// P3 of the known cases: a packet cut anywhere is no packet.
#[test]
fn p3_cut_at_every_length_never_parses() {
    for words in [0, 1, 5, 32] {
        let flags = if words == 0 { Flags::NONFINITE } else { Flags::NONE };
        let header = Header { words, flags, ..Header::new(Opcode::Contribution, Format::Bfp16, 1, 1) };
        let bytes = bytes_of(&header);
        for len in 0..bytes.len() {
            assert!(Header::parse_bytes(&bytes[..len]).is_err(), "{words} words cut to {len} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Header::parse_bytes(&longer).is_err(), "{words} words and one byte more");
    }
}

#[test]
fn flags_print_by_name() {
    assert_eq!(Flags::NONE.to_string(), "none");
    assert_eq!((Flags::RANGE | Flags::DONE | Flags::from_bits(0x10)).to_string(), "RANGE|DONE|0x10");
}

proptest! {
    #[test]
    fn headers_round_trip(header in header()) {
        let bytes = bytes_of(&header);
        let (parsed, words) = Header::parse_bytes(&bytes).unwrap();
        prop_assert_eq!(parsed, header);
        prop_assert_eq!(words, &bytes[HEADER_LEN..]);
        prop_assert!(words.iter().all(|byte| *byte == 0xA5), "emit leaves the words alone");
    }

    #[test]
    fn any_bytes_parse_to_themselves_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Ok((header, words)) = Header::parse_bytes(&bytes) {
            prop_assert_eq!([&header.to_bytes()[..], words].concat(), bytes);
        }
    }

    /// Random bytes rarely get past the first checks, so start from a right packet and change a few.
    #[test]
    fn damaged_packets_parse_to_themselves_or_not_at_all(
        header in header(), damage in prop::collection::vec((0..HEADER_LEN, any::<u8>()), 1..4),
    ) {
        let mut bytes = bytes_of(&header);
        for (at, value) in damage {
            bytes[at] = value;
        }
        if let Ok((header, words)) = Header::parse_bytes(&bytes) {
            prop_assert_eq!([&header.to_bytes()[..], words].concat(), bytes);
        }
    }
}
