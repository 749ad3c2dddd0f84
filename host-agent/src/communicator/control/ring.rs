//! Entering the ring of a group that has no tree.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use inca_p4runtime::northbound;

use super::{JoinError, Joined, Session};
use crate::protocol::Account;
use crate::ring::{RingConfig, driver};
use crate::transport::{Engine, OnClosed};

impl Session {
    /// Starts this rank of the ring that the controller laid out.
    pub(super) fn enter_ring(
        &self,
        joined: &mut Joined,
        ring: northbound::Ring,
        on_closed: OnClosed,
    ) -> Result<(Engine, JoinHandle<()>), JoinError> {
        let world = joined.config.world_size as usize;
        let members: Vec<SocketAddr> = ring
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| {
                let address: Ipv4Addr = member.address.parse().map_err(|_| {
                    self.unusable(format!("address {:?} in the ring is not IPv4", member.address))
                })?;
                if member.rank as usize != index {
                    return Err(self.unusable(format!("rank {} at place {index} of the ring", member.rank)));
                }
                Ok(SocketAddr::from((address, self.port(member.port)?)))
            })
            .collect::<Result<_, _>>()?;
        if members.len() != world {
            return Err(self.unusable(format!("{} ranks in the ring, {world} in the world", members.len())));
        }
        let listener = self
            .listener
            .as_ref()
            .ok_or_else(|| self.unusable("a ring, which was not asked for".to_owned()))?;
        let listener =
            listener.try_clone().map_err(|source| self.system("duplicating the ring's socket", source))?;
        let job = self.options.job.clone();
        tracing::warn!(
            job,
            rank = joined.rank,
            world,
            reason = ring.reason,
            "FALLBACK: no reduction tree; the hosts sum in a ring over tcp"
        );
        let config = RingConfig {
            job,
            rank: joined.rank,
            members: members.iter().map(SocketAddr::to_string).collect(),
            generation: joined.config.generation,
            format: joined.config.format,
        };
        joined.fallback = Some(ring.reason);
        let on_closed: driver::OnClosed = Box::new(move |closed| on_closed(closed, Account::default()));
        let (handle, thread) = driver::spawn(config, listener, &members, on_closed)
            .map_err(|source| self.system("starting the ring", source))?;
        Ok((Engine::Ring(handle), thread))
    }
}
