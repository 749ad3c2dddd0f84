//! Ranks that have called different operations tell each other which, in one more exchange of the slot where they met: every rank was
//! answered there, so every rank takes part. See "Mismatch" in `docs/protocol.md`.

use inca_wire::chunk::{ChunkState, PassResult};
use inca_wire::format::{Encoded, FormatError};
use inca_wire::packet::Header;
use inca_wire::tag::Operation;

use super::super::calls::{self, Calls, DESCRIPTION_BYTES};
use super::super::carrier::Carrier;
use super::super::error::OperationError;
use super::super::operation::{OperationId, OperationText};
use super::super::tensor::{Dtype, TensorBuffer, TensorMut, TensorRef};
use super::Endpoint;

/// What is hashed into the tag of the exchange: the same at all ranks, whatever they have called.
pub(super) const DESCRIPTIONS: Operation =
    Operation { number: u64::MAX, collective: u8::MAX, op: 0, dtype: 0, elements: 0 };

impl<B: TensorBuffer> Endpoint<B> {
    /// The slot's chunk met another operation's.
    pub(super) fn begin_describing(&mut self, tree: usize, slot: u32, index: usize, chunk: u32) {
        if let Some(active) = &self.operations[index].operation {
            self.mismatched.get_or_insert((active.text.id, chunk));
        }
        self.trees[tree].slots[slot as usize].describing = true;
        self.trees[tree].next_pass(slot);
        self.advance_sequence(tree, slot);
    }

    /// This rank's call at its place among all ranks', which are as many as a chunk holds.
    pub(super) fn encode_description(
        &self,
        text: &OperationText,
        payload: &mut [u8],
    ) -> Result<(Encoded, usize), FormatError> {
        let (carrier, words) = (Carrier::Bytes(self.config.format), usize::from(self.config.chunk_words));
        let room = carrier.chunk_elements(self.config.chunk_words, Dtype::U8) / DESCRIPTION_BYTES;
        let place = self.place();
        let mut bytes = Vec::new();
        if place < room {
            bytes.resize((place + 1) * DESCRIPTION_BYTES, 0);
            bytes[place * DESCRIPTION_BYTES..].copy_from_slice(&calls::describe(text));
        }
        let chunk = (!bytes.is_empty()).then_some(TensorRef::U8(&bytes));
        Ok((carrier.encode(chunk, words, &ChunkState::default(), payload)?, words))
    }

    /// All ranks' calls have come.
    pub(super) fn handle_descriptions(&mut self, index: usize, chunk: u32, header: &Header, payload: &[u8]) {
        let carrier = Carrier::Bytes(self.config.format);
        let mut bytes = vec![0; carrier.chunk_elements(self.config.chunk_words, Dtype::U8)];
        let Header { flags, exp_max, exp_min, .. } = *header;
        let result = PassResult { flags, exp_max, exp_min, words: payload };
        let is_whole = flags.is_empty() && header.words == self.config.chunk_words;
        let read = is_whole.then(|| {
            carrier.finish(&mut ChunkState::default(), &result, TensorMut::U8(&mut bytes)).map(|_| ())
        });
        let calls = match read {
            Some(Ok(())) => calls::read(&bytes, &self.members),
            // The operations differ all the same.
            _ => Calls::default(),
        };
        self.fail(index, |job, operation| OperationError::Mismatch { job, operation, chunk, calls });
    }

    /// The error of an operation that met another one, if the ranks' telling each other ends early for this reason.
    pub(super) fn mismatch(&self, operation: OperationText, reason: &str) -> Option<OperationError> {
        let is_it = |(id, _): &(OperationId, u32)| *id == operation.id;
        let (_, chunk) = self.mismatched.filter(is_it)?;
        let calls = Calls(vec![(Vec::new(), reason.to_owned())]);
        Some(OperationError::Mismatch { job: self.config.job.clone(), operation, chunk, calls })
    }
}
