//! Conformance vectors: for every element type, number format and operation the inputs of three ranks, every packet that they must send,
//! every packet that a switch must answer with, and what every rank must end up with. Written by the reference model; our host agent and
//! both switches are held to them, and so can be any other implementation (`docs/conformance.md`).

use std::path::{Path, PathBuf};
use std::time::Instant;

use inca_host_agent::protocol::{
    Collective, Endpoint, EndpointConfig, OperationError, OperationSpec, ReduceOp, TransmitBatch, TreeConfig,
    Tuning,
};
use inca_host_agent::{Dtype, Format, Scheme, Tensor};
use inca_wire::address::{service_address, service_mac};
use inca_wire::frame::UdpFrame;
use inca_wire::model::allreduce::{PassRecord, ReferenceError, allreduce};
use inca_wire::packet::{Header, Opcode, Packet};
use inca_wire::tag::Operation;
use serde::{Deserialize, Serialize};

use crate::inputs;
use crate::rig::{Child, ChildKind, DEVICE_ID, Neighbour, Tree, guard_bits};
use crate::rng::Rng;
use crate::target::{Target, all_entries};

const WORLD: usize = 3;
const TREE_ID: u16 = 1;
const GENERATION: u32 = 1;
const SLOTS: u32 = 4;

/// One file: a call of one type, format and operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vector {
    /// Element type, as `--dtype` names it.
    pub dtype: String,
    /// Number format.
    pub format: String,
    /// Operation.
    pub op: String,
    /// Ranks: 0 to world - 1, all hosts of one switch, members of the same numbers.
    pub world: usize,
    /// Words per chunk.
    pub chunk_words: u8,
    /// Tree id in packets.
    pub tree_id: u16,
    /// Its generation.
    pub generation: u32,
    /// Slots of the tree.
    pub slots: u32,
    /// Calls, each in a generation that nothing was sent in yet.
    pub calls: Vec<CallVector>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallVector {
    /// Elements of a tensor.
    pub elements: usize,
    /// Per rank its tensor: little-endian bytes in hexadecimal.
    pub inputs: Vec<String>,
    /// The passes of all chunks, those of a chunk in their order.
    pub passes: Vec<PassVector>,
    /// What every rank gets, as the inputs are written; none if an integer does not fit.
    pub output: Option<String>,
    /// The first integer that does not fit.
    pub overflow: Option<OverflowVector>,
}

/// One pass of one chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassVector {
    /// The chunk.
    pub chunk: usize,
    /// The pass's number (`docs/protocol.md`, "Host side").
    pub pass: u8,
    /// Per rank the UDP payload it sends.
    pub contributions: Vec<String>,
    /// The UDP payload that rank 0 gets; other ranks' differ in `member` alone.
    pub result: String,
}

/// An integer that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverflowVector {
    /// Its element.
    pub index: usize,
    /// The exact sum, in decimal.
    pub sum: String,
}

/// A vector that does not hold, or can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct Broken {
    /// The vector's file name.
    pub file: String,
    /// What differs.
    pub what: String,
}

/// The committed vectors.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

/// Every type, format and operation.
pub fn triples() -> Vec<(Dtype, Format, ReduceOp)> {
    let mut triples = Vec::new();
    for dtype in Dtype::ALL {
        for op in [ReduceOp::Sum, ReduceOp::Average, ReduceOp::Min, ReduceOp::Max] {
            triples.extend(Scheme::formats(dtype, op).iter().map(|format| (dtype, *format, op)));
        }
    }
    triples
}

impl Vector {
    /// Its file's name.
    pub fn file(&self) -> String {
        format!("{}-{}-{}.json", self.dtype, self.format, self.op)
    }

    /// What the reference model makes of seeded inputs: numbers of one size; ranks far apart; NaN and infinities, or sums that do not fit.
    ///
    /// # Panics
    /// If the model refuses what [`triples`] lists.
    pub fn generate(dtype: Dtype, format: Format, op: ReduceOp) -> Self {
        let calls = (0..3).map(|kind| call(dtype, format, op, kind)).collect();
        Self {
            dtype: dtype.name().to_owned(),
            format: format.name().to_owned(),
            op: op.name().to_owned(),
            world: WORLD,
            chunk_words: 1,
            tree_id: TREE_ID,
            generation: GENERATION,
            slots: SLOTS,
            calls,
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Broken> {
        let broken = |what: String| Broken { file: path.display().to_string(), what };
        let text = std::fs::read_to_string(path).map_err(|error| broken(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| broken(error.to_string()))
    }

    /// The file's contents.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(|error| error.to_string(), |text| text + "\n")
    }

    fn broken(&self, what: impl Into<String>) -> Broken {
        Broken { file: self.file(), what: what.into() }
    }

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, text: &str) -> Result<T, Broken> {
        text.parse().map_err(|error: T::Err| self.broken(error.to_string()))
    }

    fn bytes(&self, hex: &str) -> Result<Vec<u8>, Broken> {
        let digit = |at| hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(digit).collect();
        bytes.ok_or_else(|| self.broken("hexadecimal digits are missing"))
    }

    /// Holds our host agent to the vector: every rank's endpoint must send these packets and end with this output.
    pub fn check_agent(&self) -> Result<(), Broken> {
        (0..self.calls.len())
            .try_for_each(|call| (0..self.world).try_for_each(|rank| self.check_rank(call, rank)))
    }

    fn check_rank(&self, call: usize, rank: usize) -> Result<(), Broken> {
        let now = Instant::now();
        let (dtype, op): (Dtype, ReduceOp) = (self.parsed(&self.dtype)?, self.parsed(&self.op)?);
        let config = EndpointConfig {
            job: "conformance".to_owned(),
            world_size: self.world as u32,
            generation: self.generation,
            format: self.parsed(&self.format)?,
            chunk_words: self.chunk_words,
            trees: vec![TreeConfig {
                tree_id: self.tree_id,
                member: rank as u16,
                slots: self.slots,
                leaf_children: Vec::new(),
                leaf: String::new(),
            }],
            tuning: Tuning::default(),
        };
        let place = |what: String| self.broken(format!("call {call}, rank {rank}: {what}"));
        let vector = &self.calls[call];
        let mut endpoint = Endpoint::new(config, now).map_err(|error| place(error.to_string()))?;
        let input = Tensor::from_le_bytes_of(dtype, &self.bytes(&vector.inputs[rank])?, vector.elements);
        let spec = OperationSpec { collective: Collective::Allreduce, op, deadline: None };
        endpoint.start(spec, input).map_err(|rejected| place(rejected.error.to_string()))?;
        let mut sent = Vec::new();
        let poll = |endpoint: &mut Endpoint<Tensor>, sent: &mut Vec<Vec<u8>>| {
            let mut batch = TransmitBatch::new(16);
            endpoint.poll_transmit(now, &mut batch);
            sent.extend(batch.packets().iter().map(|packet| batch.contents(packet).to_vec()));
        };
        poll(&mut endpoint, &mut sent);
        for pass in &vector.passes {
            let wanted = self.bytes(&pass.contributions[rank])?;
            let Some(at) = sent.iter().position(|packet| *packet == wanted) else {
                return Err(place(format!(
                    "chunk {} pass {}: the contribution was not sent",
                    pass.chunk, pass.pass
                )));
            };
            sent.remove(at);
            let mut result = Packet::new_unchecked(self.bytes(&pass.result)?);
            result.set_member(rank as u16);
            endpoint.handle_datagram(now, &result.into_inner());
            poll(&mut endpoint, &mut sent);
        }
        if !sent.is_empty() {
            return Err(place(format!("{} packets were sent that are not in the vector", sent.len())));
        }
        let Some(completion) = endpoint.poll_completion() else {
            return Err(place("the call has not ended".to_owned()));
        };
        let (output, overflow) = match completion.result {
            Ok(()) => (Some(hex(&completion.buffer.view().to_le_bytes())), None),
            Err(OperationError::Overflow { index, sum, .. }) => {
                (None, Some(OverflowVector { index: index as usize, sum: sum.to_string() }))
            }
            Err(error) => return Err(place(error.to_string())),
        };
        if (&output, &overflow) != (&vector.output, &vector.overflow) {
            return Err(place(format!(
                "ends with {output:?} {overflow:?}, must be {:?} {:?}",
                vector.output, vector.overflow
            )));
        }
        Ok(())
    }

    /// Holds a switch to the vector. Ranks' contributions arrive in an order that `seed` gives; `generation` must be new to the switch.
    pub fn check_switch(&self, target: &mut impl Target, generation: u32, seed: u64) -> Result<(), Broken> {
        let mut rng = Rng::new(seed);
        for (call, vector) in self.calls.iter().enumerate() {
            let tree = self.tree(generation + call as u32)?;
            target.install(&all_entries(std::slice::from_ref(&tree)));
            for pass in &vector.passes {
                let place = |what: String| {
                    self.broken(format!("call {call}, chunk {}, pass {}: {what}", pass.chunk, pass.pass))
                };
                let mut order: Vec<usize> = (0..self.world).collect();
                rng.shuffle(&mut order);
                let mut answers = Vec::new();
                for rank in order {
                    let mut packet = Packet::new_unchecked(self.bytes(&pass.contributions[rank])?);
                    packet.set_generation(tree.generation);
                    let at = tree.children[rank].at;
                    let to = UdpFrame::to_switch(
                        (at.mac, at.ip),
                        (service_mac(DEVICE_ID), service_address(DEVICE_ID)),
                    );
                    answers = target.step(
                        at.port,
                        &to.emit(&packet.into_inner()).map_err(|error| place(error.to_string()))?,
                    );
                }
                if answers.len() != self.world {
                    return Err(place(format!(
                        "{} packets came back, must be {}",
                        answers.len(),
                        self.world
                    )));
                }
                for (port, frame) in &answers {
                    let Ok((_, payload)) = UdpFrame::parse(frame) else {
                        return Err(place("no UDP came back".to_owned()));
                    };
                    let mut wanted = Packet::new_unchecked(self.bytes(&pass.result)?);
                    wanted.set_generation(tree.generation);
                    wanted.set_member(port - 1);
                    if payload != wanted.into_inner() {
                        return Err(place(format!("the result at port {port} is {}", hex(payload))));
                    }
                }
            }
        }
        Ok(())
    }

    fn tree(&self, generation: u32) -> Result<Tree, Broken> {
        let format = self.parsed(&self.format)?;
        let child = |member: u16| Child {
            at: Neighbour::host(1 + member),
            member,
            kind: ChildKind::Host { udp_port: 40_000 + member },
        };
        Ok(Tree {
            tree_id: self.tree_id,
            generation,
            format,
            words: self.chunk_words,
            slots: self.slots,
            guard: guard_bits(format, self.world as u16),
            world: self.world as u16,
            children: (0..self.world as u16).map(child).collect(),
            parent: None,
            resend_interval_us: 0,
        })
    }
}

fn call(dtype: Dtype, format: Format, op: ReduceOp, kind: u64) -> CallVector {
    let seed = 1000 * u64::from(dtype.code()) + 100 * u64::from(u8::from(format)) + u64::from(op.code());
    // A short second chunk now and then.
    let elements = if kind == 0 { format.lanes_per_word() + 3 } else { 5 };
    let spread = if kind == 1 { 30 } else { 2 };
    let mut tensors = inputs::tensors(dtype, seed + 10 * kind, WORLD, elements, spread);
    if kind == 2 {
        tensors = tensors.iter().enumerate().map(|(rank, tensor)| edge(dtype, tensor, rank)).collect();
    }
    let views: Vec<_> = tensors.iter().map(Tensor::view).collect();
    let mut records = Vec::new();
    let result = allreduce(format, op, &views, 1, |record| records.push(record));
    let (output, overflow) = match result {
        Ok(result) => (Some(hex(&result.elements.view().to_le_bytes())), None),
        Err(ReferenceError::Overflow { index, sum }) => {
            (None, Some(OverflowVector { index, sum: sum.to_string() }))
        }
        Err(error) => panic!("{dtype} {format} {op}: {error}"),
    };
    let operation = Operation {
        number: 0,
        collective: Collective::Allreduce.code(),
        op: op.code(),
        dtype: dtype.code(),
        elements: elements as u64,
    };
    let mut sequences = [0u32; SLOTS as usize];
    let passes = records.iter().map(|record| {
        let slot = record.chunk % SLOTS as usize;
        sequences[slot] += 1;
        pass(format, &operation, record, sequences[slot])
    });
    let passes = passes.collect();
    let inputs = tensors.iter().map(|tensor| hex(&tensor.view().to_le_bytes())).collect();
    CallVector { elements, inputs, passes, output, overflow }
}

/// The same tensor with elements at the edges of its type.
fn edge(dtype: Dtype, tensor: &Tensor, rank: usize) -> Tensor {
    let special: Vec<u64> = match (dtype.float(), dtype.integer()) {
        (Some(kind), _) => {
            let (nan, plus, minus) = (kind.nan(), kind.beyond_range(false), kind.beyond_range(true));
            [[nan, plus, minus, 0], [0, minus, minus, kind.sign()], [1, plus, 0, kind.sign()]][rank]
                .map(u64::from)
                .to_vec()
        }
        (_, Some(kind)) => vec![kind.least as u64, kind.most as u64],
        _ => Vec::new(),
    };
    let elements: Vec<u64> = (0..tensor.len())
        .map(|index| special.get(index).copied().unwrap_or_else(|| tensor.view().bits(index)))
        .collect();
    if dtype == Dtype::I4 {
        let values: Vec<i8> = elements.iter().map(|bits| *bits as i8).collect();
        return Tensor::I4(inca_wire::tensor::I4Vec::from_values(&values));
    }
    let size = dtype.bytes_for(1);
    let bytes: Vec<u8> = elements.iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
    Tensor::from_le_bytes(dtype, &bytes)
}

fn pass(format: Format, operation: &Operation, record: &PassRecord, sequence: u32) -> PassVector {
    let header = |opcode| Header {
        slot: record.chunk as u32 % SLOTS,
        sequence,
        tag: operation.tag(record.chunk as u32, record.pass),
        ..Header::new(opcode, format, TREE_ID, GENERATION)
    };
    let packet = |header: &Header, words: &[u8]| {
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend(words);
        hex(&bytes)
    };
    let contributions = record.contributions.iter().enumerate().map(|(rank, (encoded, words))| {
        let mut header = Header { member: rank as u16, contributions: 1, ..header(Opcode::Contribution) };
        encoded.describe(&mut header, (words.len() / 256) as u8);
        packet(&header, words)
    });
    let result = &record.result;
    let header = Header {
        contributions: WORLD as u16,
        flags: result.flags,
        exp_max: result.exp_max,
        exp_min: result.exp_min,
        words: (result.words.len() / 256) as u8,
        ..header(Opcode::Result)
    };
    PassVector {
        chunk: record.chunk,
        pass: record.pass,
        contributions: contributions.collect(),
        result: packet(&header, &result.words),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
