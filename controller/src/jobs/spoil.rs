//! A clash between ranks that join is everybody's: the group can't form, so none of its ranks waits for that in vain.
//!
//! Only a rank that may join at all (it shows the job's token, if the job has one) can end a group this way, and only one that forms.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use inca_p4runtime::northbound;

use super::{Action, GroupName, Jobs, JoinError, Joining, Phase, join};

/// Ranks of the same start that come so late are still told.
const LATE: Duration = Duration::from_secs(10);
/// Groups that are remembered for that, at most.
const REMEMBERED: usize = 64;

/// A group that could not form.
#[derive(Debug)]
pub(super) struct Spoiled {
    name: GroupName,
    reason: String,
    world: usize,
    /// Who knows: one that comes again begins anew.
    told: BTreeSet<(u16, Ipv4Addr)>,
    until: Instant,
}

impl JoinError {
    /// Whether the rank that got it is one that the group needs and will not get.
    fn spoils(&self, request: &northbound::JoinRequest) -> bool {
        match self {
            Self::Field { field, .. } => !["job", "group", "job_token"].contains(field),
            Self::Mtu { .. } | Self::Terms { .. } | Self::AddressTaken { .. } => true,
            // One that asks twice is no other.
            Self::RankTaken { address, udp_port, .. } => {
                (address.to_string(), u32::from(*udp_port))
                    != (request.host_address.clone(), request.host_udp_port)
            }
            _ => false,
        }
    }
}

impl Jobs {
    /// What a refusal of [`Jobs::join`] means to the ranks that wait for that one: their group ends, each of them is told of the clash.
    pub fn refused(
        &mut self,
        now: Instant,
        request: &northbound::JoinRequest,
        error: &JoinError,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if request.attach_generation != 0 || !error.spoils(request) {
            return actions;
        }
        let name = GroupName { job: request.job.clone(), group: request.group.clone() };
        let forms = |id: &super::JobId| {
            let job = self.jobs.get(id)?;
            let is_complete = job.members.len() == usize::from(job.terms.world);
            (matches!(job.phase, Phase::Waiting { .. }) && !is_complete).then_some(job)
        };
        let Some((id, job)) = self.by_name.get(&name).and_then(|id| Some((*id, forms(id)?))) else {
            return actions;
        };
        let rank = request.rank as i32;
        let token = join::token(&request.job_token);
        if !token.is_ok_and(|token| self.shows_token(&name, 0, token.as_ref()).is_ok()) {
            return actions;
        }
        let address = request.host_address.parse::<Ipv4Addr>().ok();
        let at = address.map(|address| format!(" at {address}")).unwrap_or_default();
        let reason = format!("rank {rank}{at} was refused: {error}");
        let mut told: BTreeSet<_> =
            job.members.iter().map(|(rank, member)| (*rank, member.address)).collect();
        told.extend(u16::try_from(request.rank).ok().zip(address));
        // Of two world sizes one is wrong.
        let (world, until) = (u32::from(job.terms.world).max(request.world_size) as usize, now + LATE);
        self.spoiled.retain(|spoiled| spoiled.name != name && now < spoiled.until);
        self.spoiled.push_front(Spoiled { name, reason: reason.clone(), world, told, until });
        self.spoiled.truncate(REMEMBERED);
        self.close(id, reason, Vec::new(), &mut actions);
        self.serve_queue(now, &mut actions);
        actions
    }

    /// A rank that comes too late to have been told why its group could not form. One that was told begins anew.
    pub(super) fn is_late(&mut self, now: Instant, joining: &Joining) -> Result<(), JoinError> {
        self.spoiled.retain(|spoiled| now < spoiled.until);
        let Some(at) = self.spoiled.iter().position(|spoiled| spoiled.name == joining.name) else {
            return Ok(());
        };
        let spoiled = &mut self.spoiled[at];
        let is_new =
            spoiled.told.len() < spoiled.world && spoiled.told.insert((joining.rank, joining.address));
        if !is_new {
            self.spoiled.remove(at);
            return Ok(());
        }
        Err(JoinError::Spoiled { name: joining.name.clone(), reason: spoiled.reason.clone() })
    }
}
