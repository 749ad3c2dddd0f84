//! Messages between two ranks, and all-to-all: see [`crate::peers`].

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::collectives::NOWHERE;
use super::{Communicator, spec};
use crate::peers::{Card, Kind, Limit, PeerError, Peers};
use crate::protocol::{Collective, Dtype, ReduceOp, Tensor, TensorMut, TensorRef};
use crate::transport::{CollectiveError, LentTensor};

impl Communicator {
    /// Tells all ranks where this one listens, and learns the same of them. A collective: every rank must call it, once, before
    /// anyone sends or receives; [`Communicator::alltoall`] and [`Communicator::split`] do without. A second call does nothing.
    pub fn connect_peers(&self, deadline: Duration) -> Result<(), CollectiveError> {
        if self.peers.get().is_some() {
            return Ok(());
        }
        let mut peers = Peers::listen(&self.joined.config.job, self.rank(), self.address)?;
        let cards = self.gather_bytes(&peers.card().to_bytes(), deadline)?;
        let cards = cards.chunks_exact(Card::BYTES).zip(self.members());
        let cards: BTreeMap<u32, Card> =
            cards.filter_map(|(bytes, rank)| Some((rank, Card::parse(bytes.first_chunk()?)))).collect();
        peers.introduce(cards);
        // Threads that call this at once on one communicator have no order: all ranks must call in the same one.
        let _ = self.peers.set(peers);
        Ok(())
    }

    fn peers(&self) -> Result<&Peers, PeerError> {
        self.peers.get().ok_or_else(|| PeerError::NotConnected { job: self.joined.config.job.clone() })
    }

    /// Sends a tensor to another rank, which must receive it with the same tag, type and length. Returns when it is on its way. Messages
    /// of one tag arrive in order.
    pub fn send(
        &self,
        tensor: TensorRef<'_>,
        to: u32,
        tag: u32,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let closed = || self.closed();
        Ok(self.peers()?.send(to, (Kind::Message, tag), &tensor, Limit::new(deadline, &closed))?)
    }

    /// Receives a tensor from another rank.
    pub fn recv(
        &self,
        tensor: TensorMut<'_>,
        from: u32,
        tag: u32,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let closed = || self.closed();
        Ok(self.peers()?.receive(from, (Kind::Message, tag), tensor, Limit::new(deadline, &closed))?)
    }

    /// Exchanges parts: input and output have one for each rank, of one length; part j of rank i's input becomes part i of rank j's
    /// output. Must not be called while other operations of the group are started.
    ///
    /// Atomic: the ranks agree on type and length before, and on success after the exchange; the output is written only then.
    pub fn alltoall(
        &self,
        input: TensorRef<'_>,
        mut output: TensorMut<'_>,
        deadline: Duration,
    ) -> Result<(), CollectiveError> {
        let members = self.members();
        let (world, dtype) = (members.len(), input.dtype());
        let (elements, output_elements) = (input.len(), output.as_ref().len());
        let job = || self.joined.config.job.clone();
        let even = dtype != Dtype::I4 || (elements / world).is_multiple_of(2) || world == 1;
        if elements != output_elements
            || !elements.is_multiple_of(world)
            || output.as_ref().dtype() != dtype
            || !even
        {
            let (input, output) = (elements, output_elements);
            return Err(PeerError::Parts { job: job(), world, input, output }.into());
        }
        self.connect_peers(deadline)?;
        // All call the same, of the same type and length?
        // SAFETY: the operation reads and writes nothing: it is about the length.
        let claim = unsafe { LentTensor::new((input.as_ptr(), elements), (NOWHERE, 0), dtype) };
        self.wait(claim, spec(Collective::Alltoall, ReduceOp::Sum, deadline))?;
        let result = self.exchange(&input, &members, deadline);
        let verdicts = self.gather_bytes(&[u8::from(result.is_err())], deadline)?;
        let ranks: Vec<u32> = verdicts
            .iter()
            .zip(&members)
            .filter(|(verdict, _)| **verdict != 0)
            .map(|(_, rank)| *rank)
            .collect();
        match (ranks.is_empty(), result) {
            (true, Ok(parts)) => {
                output.read_le_bytes(&parts);
                Ok(())
            }
            (_, result) => {
                let own = result.err().map(|error| error.to_string());
                Err(PeerError::Exchange { job: job(), ranks, own }.into())
            }
        }
    }

    /// All parts that are for this rank, one behind the other.
    fn exchange(
        &self,
        input: &TensorRef<'_>,
        members: &[u32],
        deadline: Duration,
    ) -> Result<Vec<u8>, PeerError> {
        let peers = self.peers()?;
        let number = self.exchanges.fetch_add(1, Ordering::Relaxed);
        let world = members.len();
        let part = input.len() / world;
        let place = members.iter().position(|rank| *rank == self.rank()).unwrap_or(0);
        let closed = || self.closed();
        let limit = Limit::new(deadline, &closed);
        let part_of = |place: usize| input.slice(place * part..(place + 1) * part);
        let mut parts = vec![Vec::new(); world];
        part_of(place).write_le_bytes(&mut parts[place]);
        std::thread::scope(|scope| {
            // In step k everyone sends to the k-th rank after it, and hears from the k-th before: no link has two to carry.
            let sending = scope.spawn(|| {
                (1..world).try_for_each(|step| {
                    let to = (place + step) % world;
                    peers.send(members[to], (Kind::Part, number), &part_of(to), limit)
                })
            });
            let received = (1..world).try_for_each(|step| {
                let from = (place + world - step) % world;
                let mut given = Tensor::zeros(input.dtype(), part);
                peers.receive(members[from], (Kind::Part, number), given.view_mut(), limit)?;
                given.view().write_le_bytes(&mut parts[from]);
                Ok(())
            });
            let sent = sending.join().unwrap_or_else(|_| {
                let (job, what) = (self.joined.config.job.clone(), "sending parts");
                Err(PeerError::System { job, what, reason: "its thread has ended".to_owned() })
            });
            received.and(sent)
        })?;
        Ok(parts.concat())
    }

    /// All ranks' bytes, which are as many at each, in order.
    pub(super) fn gather_bytes(&self, own: &[u8], deadline: Duration) -> Result<Vec<u8>, CollectiveError> {
        let members = self.members();
        let place = members.iter().position(|rank| *rank == self.rank()).unwrap_or(0);
        let mut all = vec![0; own.len() * members.len()];
        all[place * own.len()..][..own.len()].copy_from_slice(own);
        let handle = self.start(Collective::Allgather, Tensor::U8(all), ReduceOp::Sum, deadline);
        match handle.wait()? {
            Tensor::U8(all) => Ok(all),
            _ => Ok(Vec::new()),
        }
    }
}
