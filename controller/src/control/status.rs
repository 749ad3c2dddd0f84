//! What the controller sees now, as the northbound API shows it.

use inca_p4runtime::northbound as api;
use tokio::sync::oneshot;

use super::{Done, Owner};
use crate::api::now_ms;
use crate::graph::DeviceId;

impl Owner {
    /// Answers at once, or, with counters, once the switches have given theirs.
    pub(super) fn status(&mut self, counters: bool, reply: oneshot::Sender<api::StatusResponse>) {
        let mut response = self.snapshot();
        if !counters {
            let _ = reply.send(response);
            return;
        }
        let handles: Vec<_> = self.switches.values().map(|switch| switch.handle.clone()).collect();
        self.working.spawn(async move {
            let asked: Vec<_> = handles
                .into_iter()
                .map(|handle| tokio::spawn(async move { handle.counters().await }))
                .collect();
            for (switch, asked) in response.switches.iter_mut().zip(asked) {
                // A switch that is away has none; its state says so.
                if let Ok(Ok(counters)) = asked.await {
                    switch.counters = counters.into_iter().collect();
                }
            }
            let _ = reply.send(response);
            Done::Nothing
        });
    }

    fn snapshot(&self) -> api::StatusResponse {
        let name = |device: DeviceId| {
            self.switches.get(&device).map(|switch| switch.name.clone()).unwrap_or_default()
        };
        let switches = self.switches.iter().map(|(&device, switch)| {
            let (slots_used, slots_total) = self.jobs.slots(device);
            api::Switch {
                name: switch.name.clone(),
                device_id: device.into(),
                target: switch.target.clone(),
                state: switch.state.clone(),
                ports: switch.ports.iter().map(|port| u32::from(*port)).collect(),
                counters: Default::default(),
                service_address: self
                    .network
                    .addresses()
                    .service(device)
                    .map(|own| own.ip.to_string())
                    .unwrap_or_default(),
                slots_used,
                slots_total,
            }
        });
        let links = self.discovery.links().map(|(from, to)| api::Link {
            from_switch: name(from.device),
            from_port: from.port.into(),
            to_switch: name(to.device),
            to_port: to.port.into(),
        });
        let hosts = self.discovery.hosts().map(|(address, attachment)| api::Host {
            address: address.to_string(),
            mac: attachment.mac.to_string(),
            switch_name: name(attachment.at.device),
            port: attachment.at.port.into(),
        });
        api::StatusResponse {
            switches: switches.collect(),
            links: links.collect(),
            hosts: hosts.collect(),
            jobs: self.jobs.status(),
            controller_version: env!("CARGO_PKG_VERSION").to_owned(),
            time_ms: now_ms(),
            in_charge: *self.in_charge.borrow(),
        }
    }
}
