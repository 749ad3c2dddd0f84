//! Frames of strangers: packet types, host agent, switch.

use std::time::{Duration, Instant};

use inca_host_agent::protocol::{
    Collective, Endpoint, EndpointConfig, OperationSpec, ReduceOp, Tensor, TransmitBatch, TreeConfig, Tuning,
};
use inca_wire::frame::{Arp, OUTER_LEN, UdpFrame};
use inca_wire::lldp::LinkProbe;
use inca_wire::packet::{Format, Header};

use super::{Target, parts, pieces};
use crate::rig::{CPU_PORT, Tree, standard_trees};
use crate::target::{Embedded, Target as _};
use crate::traffic::{Mix, Traffic, specimens};

pub(super) const TARGET: Target = Target { name: "packet", run, seeds, words: WORDS, usual: 3000 };

/// Version and opcodes, flags, ethertypes, the UDP port, plane and words, numbers at their limits.
const WORDS: &[&[u8]] = &[
    &[1, 1, 0, 1],
    &[1, 2, 0, 2],
    &[1, 3, 0, 2],
    &[1, 4, 0, 0],
    &[1, 6],
    &[0x08, 0x00, 0x45],
    &[0x08, 0x06],
    &[0x88, 0xCC],
    &[0x49, 0x4E],
    &[2, 32],
    &[0xFF; 4],
    &[0; 4],
];
/// Kind of a part that is a datagram for the host agent.
const DATAGRAM: u8 = 0xFD;

/// Each part is a frame, its kind the port it comes in by; see [`DATAGRAM`].
fn run(input: &[u8]) {
    let mut switch = None;
    let mut host = None;
    for (kind, bytes) in parts(input) {
        read(bytes);
        if kind == DATAGRAM {
            listen(host.get_or_insert_with(endpoint), bytes);
        } else {
            let switch = switch.get_or_insert_with(|| Embedded::with_trees(&standard_trees()));
            let port = if kind == 0xFF { CPU_PORT } else { u16::from(kind % 8) + 1 };
            switch.step(port, bytes);
        }
    }
}

/// What is understood is written back as it was.
fn read(bytes: &[u8]) {
    if let Ok((header, payload)) = Header::parse_bytes(bytes) {
        let mut again = header.to_bytes().to_vec();
        again.extend(payload);
        assert_eq!(again, bytes, "{header:?} is written otherwise than it was read");
    }
    if let Ok((outer, header, words)) = UdpFrame::parse_reduction(bytes) {
        let again = outer.emit_reduction(&header, words).expect("what was parsed can be written");
        let parsed = UdpFrame::parse_reduction(&again).expect("what was written can be parsed");
        assert_eq!(parsed, (outer, header, words));
    }
    if let Ok(arp) = Arp::parse(bytes) {
        assert_eq!(Arp::parse(&arp.emit()), Ok(arp));
    }
    if let Ok(probe) = LinkProbe::parse(bytes) {
        assert_eq!(LinkProbe::parse(&probe.emit()), Ok(probe));
    }
}

/// A rank with an operation under way, as in the rig's first tree.
fn endpoint() -> Endpoint<Tensor> {
    let tree = &standard_trees()[0];
    let now = Instant::now();
    let trees = vec![TreeConfig {
        tree_id: tree.tree_id,
        member: 0,
        slots: tree.slots,
        leaf_children: Vec::new(),
        leaf: String::new(),
    }];
    let config = EndpointConfig {
        job: "fuzz".to_owned(),
        world_size: tree.world.into(),
        generation: tree.generation,
        format: tree.format,
        chunk_words: tree.words,
        trees,
        tuning: Tuning::default(),
    };
    let mut endpoint = Endpoint::new(config, now).expect("a valid configuration");
    let spec = OperationSpec { collective: Collective::Allreduce, op: ReduceOp::Sum, deadline: None };
    let tensor = match tree.format {
        Format::I32 => Tensor::I32(vec![1; 1000]),
        _ => Tensor::F32(vec![1.0; 1000]),
    };
    endpoint.start(spec, tensor).expect("a valid operation");
    endpoint
}

fn listen(endpoint: &mut Endpoint<Tensor>, datagram: &[u8]) {
    let now = Instant::now();
    endpoint.handle_datagram(now, datagram);
    let mut batch = TransmitBatch::new(64);
    endpoint.poll_transmit(now, &mut batch);
    endpoint.handle_timeout(now + Duration::from_secs(1));
    while let Some(completion) = endpoint.poll_completion() {
        // Nobody else is there, so only an error can end it.
        assert!(
            completion.result.is_err(),
            "one rank's datagrams completed a sum of {}",
            endpoint.config().world_size
        );
    }
}

/// Conversations as the rig's neighbours have them, and every kind of packet alone.
fn seeds() -> Vec<Vec<u8>> {
    let trees = standard_trees();
    let small: Vec<Tree> = trees.into_iter().filter(|tree| tree.words <= 2).collect();
    let port = |port: u16| if port == CPU_PORT { 0xFF } else { (port - 1) as u8 };
    let mut seeds: Vec<Vec<u8>> = (0..12)
        .map(|seed| {
            let traffic = Traffic::new(seed, &small, Mix { ordinary: 20, spoiled: 5, garbage: 5 });
            pieces(traffic.take(12).map(|step| (port(step.port), step.frame)))
        })
        .collect();
    for tree in &small {
        for step in specimens(1, tree) {
            let datagram = step.frame.get(OUTER_LEN..).unwrap_or_default().to_vec();
            seeds.push(pieces([(port(step.port), step.frame), (DATAGRAM, datagram)]));
        }
    }
    seeds
}
