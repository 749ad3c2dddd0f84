//! Datagrams that nobody awaits, operations that nobody offers, settings that make no sense.

use super::network::{Network, Plan};
use super::*;
use crate::protocol::{ConfigError, Endpoint, EndpointConfig, StartError, TransmitBatch, TreeConfig, Tuning};
use inca_wire::packet::{Flags, Format, Header, Opcode, WORD_BYTES};

#[test]
fn garbage_and_foreign_packets_change_nothing() {
    let mut rng = Rng::new(31);
    let tensors: super::Plan = (0..2).map(|_| vec![mild_i32(&mut rng, 5000)]).collect();
    let mut network = Network::new(Plan::star(2, Format::I32));
    start_all(&mut network, &tensors);
    let mut injected = 0;
    while network.completed.iter().any(Vec::is_empty) {
        network
            .run(Duration::from_micros(7), |network| network.completed.iter().all(|done| !done.is_empty()));
        for rank in 0..2 {
            let len = rng.below(400) as usize;
            let random: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
            network.inject(rank, &random);
            // A result that is right in all but one field.
            let mut header = Header {
                member: rank as u16,
                slot: rng.below(8) as u32,
                sequence: 1 + rng.below(5) as u32,
                contributions: 2,
                words: 1,
                tag: rng.next() as u32,
                ..Header::new(Opcode::Result, Format::I32, 100, 7)
            };
            match rng.below(7) {
                0 => header.generation += 1,
                1 => header.tree_id += 1,
                2 => header.member += 1,
                3 => header.slot = u32::MAX,
                4 => header.format = Format::Bfp16,
                5 => header.opcode = Opcode::Contribution,
                _ => {}
            }
            let mut bytes = header.to_bytes().to_vec();
            bytes.extend([0x55; WORD_BYTES]);
            network.inject(rank, &bytes);
            injected += 2;
        }
    }
    run_exact(&mut network, &tensors, Duration::ZERO, "garbage");
    let stats = network.stats();
    let counted: u64 = stats.iter().map(|stats| stats.garbage + stats.foreign + stats.stale).sum();
    assert_eq!(counted, injected, "each is counted: {stats:?}");
    assert!(stats[0].garbage > 10 && stats[0].foreign > 10 && stats[0].stale > 2, "{stats:?}");
}

/// One endpoint with one chunk in flight, and the header of the result it waits for.
fn waiting() -> (Endpoint<Tensor>, Header) {
    let config = config();
    let now = std::time::Instant::now();
    let mut endpoint = Endpoint::new(config, now).expect("settings");
    endpoint.start(sum(), Tensor::I32(vec![1; 64])).expect("started");
    let mut batch = TransmitBatch::new(4);
    endpoint.poll_transmit(now, &mut batch);
    let (sent, _) = Header::parse_bytes(batch.contents(&batch.packets()[0])).expect("well-formed");
    assert_eq!(batch.packets().len(), 1);
    assert_eq!((sent.opcode, sent.sequence, sent.contributions, sent.words), (Opcode::Contribution, 1, 1, 1));
    (endpoint, Header { opcode: Opcode::Result, contributions: 3, ..sent })
}

fn config() -> EndpointConfig {
    EndpointConfig {
        job: "test".to_owned(),
        world_size: 3,
        generation: 7,
        format: Format::I32,
        chunk_words: 1,
        trees: vec![TreeConfig {
            tree_id: 1,
            member: 2,
            slots: 4,
            leaf_children: Vec::new(),
            leaf: String::new(),
        }],
        tuning: Tuning::default(),
    }
}

fn deliver(endpoint: &mut Endpoint<Tensor>, header: &Header) {
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(vec![0x80; usize::from(header.words) * WORD_BYTES]);
    endpoint.handle_datagram(std::time::Instant::now(), &bytes);
}

#[test]
fn a_result_is_accepted_only_if_everything_is_as_awaited() {
    let (mut endpoint, good) = waiting();
    let bad = [
        Header { contributions: 2, ..good },
        Header { contributions: 4, ..good },
        Header { sequence: 2, ..good },
        Header { sequence: 0, ..good },
        Header { tag: good.tag ^ 1, ..good },
        Header { slot: 1, ..good },
        Header { generation: 8, ..good },
        Header { words: 2, ..good },
        Header { member: 1, ..good },
    ];
    for header in bad {
        deliver(&mut endpoint, &header);
        assert!(endpoint.poll_completion().is_none(), "{header:?}");
    }
    let stats = endpoint.stats();
    assert_eq!((stats.incomplete, stats.stale, stats.foreign, stats.garbage), (2, 4, 2, 1), "{stats:?}");
    deliver(&mut endpoint, &good);
    assert_eq!(endpoint.poll_completion().expect("complete").result, Ok(()));
    deliver(&mut endpoint, &good);
    assert_eq!(endpoint.stats().stale, 5, "a duplicate");
}

#[test]
fn flags_that_make_no_sense_end_in_a_typed_error() {
    for flags in [Flags::RANGE, Flags::NONFINITE, Flags::from_bits(1 << 6), Flags::DONE] {
        let (mut endpoint, good) = waiting();
        deliver(&mut endpoint, &Header { flags, words: 0, ..good });
        let error = endpoint.poll_completion().expect("ended").result.expect_err("violation").to_string();
        assert!(error.contains("breaks the protocol") && error.contains(&flags.to_string()), "{error}");
        assert!(endpoint.closed().is_some());
    }
}

#[test]
fn a_common_exponent_below_our_own_ends_in_a_typed_error() {
    let config = EndpointConfig { format: Format::Bfp16, ..config() };
    let now = std::time::Instant::now();
    let mut endpoint = Endpoint::new(config, now).expect("settings");
    endpoint.start(sum(), Tensor::F32(vec![1.0; 64])).expect("started");
    let mut batch = TransmitBatch::new(4);
    endpoint.poll_transmit(now, &mut batch);
    let (sent, _) = Header::parse_bytes(batch.contents(&batch.packets()[0])).expect("well-formed");
    let flagged = Header {
        opcode: Opcode::Result,
        contributions: 3,
        flags: Flags::RANGE,
        words: 0,
        exp_max: 5,
        ..sent
    };
    deliver(&mut endpoint, &flagged);
    batch.clear();
    endpoint.poll_transmit(now, &mut batch);
    assert!(batch.is_empty());
    let error = endpoint.poll_completion().expect("ended").result.expect_err("violation").to_string();
    assert!(error.contains("common exponent 5"), "{error}");
}

#[test]
fn operations_that_are_not_offered_are_refused_with_the_reason() {
    let mut endpoint = Endpoint::new(config(), std::time::Instant::now()).expect("settings");
    for op in [ReduceOp::Min, ReduceOp::Max, ReduceOp::Product] {
        let refused =
            endpoint.start(OperationSpec { op, ..sum() }, Tensor::I32(vec![1])).expect_err("not offered");
        assert!(
            refused.error.to_string().contains(if op == ReduceOp::Product {
                "product is not offered"
            } else {
                "i32 does not carry"
            }),
            "{}",
            refused.error
        );
        assert_eq!(refused.buffer, Tensor::I32(vec![1]), "the buffer comes back");
    }
    let refused = endpoint.start(sum(), Tensor::F32(vec![1.0])).expect_err("wrong format");
    assert!(matches!(refused.error, StartError::Unsupported { .. }));
    assert!(refused.error.to_string().contains("sum of f32: use bfp16"), "{}", refused.error);
    assert_eq!(endpoint.start(sum(), Tensor::I32(vec![1])).expect("started").0, 0, "refusals take no number");
}

#[test]
fn settings_that_make_no_sense_are_refused_with_the_values() {
    let new =
        |config| Endpoint::<Tensor>::new(config, std::time::Instant::now()).map(|_| ()).expect_err("refused");
    let tree = || config().trees.remove(0);
    let cases = [
        (EndpointConfig { trees: Vec::new(), ..config() }, "world of 3 ranks"),
        (
            EndpointConfig { trees: vec![TreeConfig { slots: 0, ..tree() }], ..config() },
            "tree 1 has no slots",
        ),
        (EndpointConfig { trees: vec![tree(), tree()], ..config() }, "tree 1 is given twice"),
        (EndpointConfig { world_size: 0, ..config() }, "world size 0"),
        (EndpointConfig { world_size: 70_000, ..config() }, "1 to 65535"),
        (EndpointConfig { chunk_words: 33, ..config() }, "33 words per chunk"),
        (EndpointConfig { chunk_words: 0, ..config() }, "0 words per chunk"),
    ];
    for (config, part) in cases {
        let error: ConfigError = new(config);
        assert!(error.to_string().contains(part), "{error}");
    }
}
