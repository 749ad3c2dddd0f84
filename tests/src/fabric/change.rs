//! The agreement of a generation change (`docs/protocol.md`), with this fabric as the controller.

use inca_host_agent::protocol::{KeptChunk, NextGeneration, Part, TreeConfig};

use super::{Call, Event, Fabric, Outcomes, Stuck};
use crate::install::{marker_entries, switch_entries, tree_entries};
use crate::rig::Tree;
use crate::target::Target;

impl<T: Target> Fabric<T> {
    /// All ranks make these calls; delivers so many packets, or fewer if all have ended before.
    ///
    /// # Panics
    /// If an endpoint refuses a call.
    pub fn begin(&mut self, calls: &[Call], packets: u64) {
        let ranks: Vec<usize> = (0..self.world()).collect();
        self.start(&vec![calls.to_vec(); self.world()], &ranks);
        self.deliver(calls.len(), packets);
    }

    /// Delivers so many packets more, or fewer if all calls of the living have ended before.
    pub fn deliver(&mut self, calls: usize, packets: u64) {
        let end = self.delivered + packets;
        while self.delivered < end && self.finished() < calls * self.members.len() {
            let Some(std::cmp::Reverse((at, _, event))) = self.queue.pop() else { return };
            self.elapsed = self.elapsed.max(at);
            self.handle(event);
        }
    }

    /// Everything that is on its way is lost.
    pub fn lose_in_flight(&mut self) {
        self.queue.retain(|std::cmp::Reverse((_, _, event))| matches!(event, Event::Timer(_)));
    }

    /// The ranks that live.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// The rank is gone: it neither sends nor hears anything any more.
    pub fn kill(&mut self, rank: usize) {
        self.members.retain(|member| *member != rank);
        self.hosts[rank].done.clear();
    }

    /// From now on entries of a generation stay when it ends, which is against the rules.
    pub fn leave_entries(&mut self) {
        self.leaves_entries = true;
    }

    /// Another switch takes the place of one: it has all entries but those of trees, which the next change brings, and holds nothing.
    pub fn restart(&mut self, index: usize, mut fresh: T) {
        fresh.install(&switch_entries(self.plan.device_id(index)));
        fresh.install(&marker_entries());
        self.switches[index] = fresh;
    }

    /// Stops every living rank, and hands over what some of them lack; returns how many chunks that were.
    ///
    /// # Panics
    /// If an endpoint has ended, or refuses a chunk.
    pub fn agree(&mut self) -> usize {
        let members = self.members.clone();
        let places: Vec<_> = members
            .iter()
            .map(|rank| self.hosts[*rank].endpoint.stop("a change").expect("the endpoint has not ended"))
            .collect();
        let mut copied = 0;
        for (rank, place) in members.iter().zip(&places) {
            let mut lacking = Vec::new();
            for (tree, slots) in place.iter().enumerate() {
                for (slot, finished) in slots.iter().enumerate() {
                    let holder = places.iter().position(|place| place[tree][slot] > *finished);
                    lacking.extend(holder.map(|holder| self.kept(members[holder], tree, slot as u32)));
                }
            }
            copied += lacking.len();
            let taken = self.hosts[*rank].endpoint.take_over(&lacking);
            taken.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            self.serve(*rank);
        }
        copied
    }

    fn kept(&self, rank: usize, tree: usize, slot: u32) -> KeptChunk {
        self.hosts[rank].endpoint.kept(tree, slot).expect("who has finished a chunk keeps it")
    }

    /// The whole change: close, report, copy, open; the ranks that live go on.
    ///
    /// # Panics
    /// If an endpoint or a switch refuses.
    pub fn change(&mut self) -> usize {
        let copied = self.agree();
        self.install(self.members.clone());
        let now = self.now();
        for rank in self.members.clone() {
            let endpoint = &self.hosts[rank].endpoint;
            let next = NextGeneration {
                generation: self.generation,
                members: self.members.iter().map(|rank| *rank as u32).collect(),
                trees: self.host_trees(rank),
                finished: endpoint.account().finished,
            };
            let opened = self.hosts[rank].endpoint.reopen(now, next);
            opened.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            self.serve(rank);
        }
        copied
    }

    /// Runs until every living rank's calls, so many, have ended.
    ///
    /// # Errors
    /// If the bounds on packets and virtual time are reached.
    pub fn finish(&mut self, calls: usize) -> Result<Outcomes, Stuck> {
        self.run_on(calls * self.members.len(), (self.elapsed, self.delivered))
    }

    /// What a rank's result of a call holds; calls count from 0 since the endpoints were new.
    pub fn parts(&self, rank: usize, call: usize) -> &[Part] {
        self.hosts[rank].parts.get(&(call as u64)).map_or(&[], Vec::as_slice)
    }

    /// Removes the old generation from all switches and installs the next one, for these ranks.
    pub(super) fn install(&mut self, members: Vec<usize>) {
        for (index, switch) in self.switches.iter_mut().enumerate() {
            let device_id = self.plan.device_id(index);
            // Entries with the same keys are replaced. Those of a rank that died have to go: what it sent before would make a slot begin
            // anew in the old generation.
            if self.installed != members && !self.leaves_entries {
                let old = trees(&self.plan, &self.job, index, (self.generation, &self.installed));
                switch.remove(&tree_entries(device_id, &old));
            }
            let new = trees(&self.plan, &self.job, index, (self.generation + 1, &members));
            switch.install(&tree_entries(device_id, &new));
        }
        self.generation += 1;
        self.installed.clone_from(&members);
        self.members = members;
    }

    /// The trees as a rank sees them.
    pub(super) fn host_trees(&self, rank: usize) -> Vec<TreeConfig> {
        let below = self.plan.ranks_below(self.plan.leaf(rank)).into_iter();
        let live = |ranks: Vec<u32>| -> Vec<u32> {
            ranks.into_iter().filter(|rank| self.members.contains(&(*rank as usize))).collect()
        };
        let leaf_children: Vec<Vec<u32>> = below.map(live).filter(|ranks| !ranks.is_empty()).collect();
        (0..self.job.stripes)
            .map(|stripe| TreeConfig {
                tree_id: stripe + 1,
                member: rank as u16,
                slots: self.job.slots,
                leaf_children: leaf_children.clone(),
                leaf: String::new(),
            })
            .collect()
    }
}

fn trees(plan: &super::Plan, job: &super::Job, index: usize, generation: (u32, &[usize])) -> Vec<Tree> {
    (0..job.stripes).filter_map(|stripe| plan.tree(index, job, stripe, generation)).collect()
}
