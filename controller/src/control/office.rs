//! Being in charge: what is remembered for the next controller, taking over from the last one, and giving way to another.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Owner, last_generation, report};
use crate::graph::{DeviceId, Graph};
use crate::jobs::Jobs;
use crate::store::{Remembered, StoreError};
use crate::switch::Section;

/// What was remembered of the topology is believed at least so long.
const LEAST_TRUST: Duration = Duration::from_secs(3);

impl Owner {
    /// Takes charge with what was remembered. Nothing is written before the switches' tasks know all of it: what they then find
    /// in a switch and do not know is removed.
    pub(super) fn activate(&mut self, now: Instant) -> Result<(), StoreError> {
        let remembered = match &self.store {
            Some(store) => store.load()?,
            None => Remembered::default(),
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut jobs = Jobs::new(&self.inventory, last_generation(since_1970));
        let (sections, actions) = jobs.restore(now, remembered.records, &remembered.graph);
        let stale = std::mem::take(&mut self.stale);
        for switch in self.switches.values() {
            for job in &stale {
                switch.handle.set(Section::Job(*job), Vec::new());
            }
        }
        self.discovery.restore_hosts(remembered.graph.hosts());
        if remembered.graph != Graph::default() {
            self.route(&remembered.graph);
            let trust = self.inventory.discovery.link_timeout.max(LEAST_TRUST);
            self.remembered = Some((now + trust, remembered.graph.clone()));
            self.graph = remembered.graph;
        }
        for (job, device, entries) in sections {
            if let Some(switch) = self.switches.get(&device) {
                switch.handle.set(Section::Job(job), entries);
            }
        }
        self.jobs = jobs;
        self.saved = None;
        self.in_charge.send_replace(true);
        self.log.push(report::office("in_charge", "this controller is in charge"));
        self.perform(now, actions);
        Ok(())
    }

    /// A switch is ours: the first one makes this the controller in charge.
    pub(super) fn elected(&mut self, now: Instant, device: DeviceId) {
        if *self.in_charge.borrow() {
            return;
        }
        let switch = self.switches.get(&device).map_or("?", |switch| switch.name.as_str()).to_owned();
        tracing::warn!(switch, "no other controller is in charge: taking over");
        if let Err(error) = self.activate(now) {
            tracing::error!(%error, "can't take over");
        }
    }

    /// Another controller is in charge: this one stops writing at once and lets the ranks go to it.
    pub(super) fn abdicate(&mut self, reason: &str) {
        if !self.in_charge.send_replace(false) {
            return;
        }
        tracing::error!(reason, "this controller stops writing and stands by");
        self.log.push(report::office("standing_by", &format!("this controller stands by: {reason}")));
        // Dropping their streams sends them to the other one; they go on summing.
        self.members.clear();
        self.working.abort_all();
        self.stale = self.jobs.ids();
        self.jobs = Jobs::new(&self.inventory, 0);
        self.remembered = None;
        self.graph = Graph::default();
    }

    /// Puts what has changed on disk, before anybody hears of it.
    pub(super) fn remember(&mut self) {
        let Some(store) = self.store.as_ref().filter(|_| *self.in_charge.borrow()) else { return };
        let records = self.jobs.records();
        if self.saved.as_ref() == Some(&records) {
            return;
        }
        match store.save_groups(&records) {
            Ok(()) => self.saved = Some(records),
            Err(error) => tracing::error!(%error, "groups are not remembered: a restart would end them"),
        }
    }

    /// The topology as it is found, with what is remembered where there was no time yet to find it.
    pub(super) fn known_graph(&mut self, now: Instant) -> Graph {
        let found = self.discovery.graph();
        match &self.remembered {
            Some((until, remembered)) if now < *until => {
                let mut graph = remembered.clone();
                graph.merge(&found);
                graph
            }
            _ => {
                self.remembered = None;
                found
            }
        }
    }

    /// Puts the topology on disk, for the next controller.
    pub(super) fn remember_graph(&self) {
        let Some(store) = self.store.as_ref().filter(|_| *self.in_charge.borrow()) else { return };
        if let Err(error) = store.save_graph(&self.graph) {
            tracing::error!(%error, "the topology is not remembered");
        }
    }
}
