//! From the file as written to an [`Inventory`]: every value judged where it stands.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use inca_p4runtime::Access;
use serde_yaml::{Location, Spanned};

use super::file::{self, Discovery, Failure, File, Host, P4Runtime, Security, Switch, Tls, Trees};
use super::{
    DiscoverySettings, FailureSettings, HostSpec, Inventory, InventoryError, Limits, MAX_NAME_LEN,
    PipelinePaths, SecuritySettings, SwitchSpec, TreeSettings,
};
use crate::api::TlsFiles;
use crate::program::{CPU_PORT, SLOTS};

/// BMv2 numbers ports in 9 bits; the CPU port and what lies above are not for links.
const MAX_PORT: u64 = CPU_PORT as u64 - 1;

pub(super) fn validate(path: &str, file: File) -> Result<Inventory, InventoryError> {
    let place = Place { path };
    let subnet = place.subnet(file.service_subnet.as_ref())?;
    let announce_address = match &file.announce_address {
        Some(address) => address.value,
        None => subnet.last_host(),
    };
    if file.switches.value.is_empty() {
        return Err(place.wrong(&file.switches, "no switches: at least one is needed"));
    }
    let default_ports = place.number(file.discovery.ports.as_ref(), "discovery.ports", 32, 1, MAX_PORT)?;
    let mut names = Unique::new("name");
    let (mut ids, mut targets) = (Unique::new("device_id"), Unique::new("target"));
    let mut switches = Vec::with_capacity(file.switches.value.len());
    for switch in &file.switches.value {
        place.name(&switch.name)?;
        names.take(&place, switch.name.value.clone(), &switch.name)?;
        ids.take(&place, switch.device_id.value, &switch.device_id)?;
        targets.take(&place, switch.target.value.clone(), &switch.target)?;
        switches.push(place.switch(switch, &subnet, announce_address, default_ports as u16)?);
    }
    let mut addresses = Unique::new("address");
    let mut hosts = Vec::with_capacity(file.hosts.len());
    for host in &file.hosts {
        place.name(&host.name)?;
        names.take(&place, host.name.value.clone(), &host.name)?;
        addresses.take(&place, host.address.value, &host.address)?;
        hosts.push(place.host(host, &switches, &subnet)?);
    }
    let listen = file.listen.iter().map(|address| place.listen(address)).collect::<Result<_, _>>()?;
    Ok(Inventory {
        switches,
        hosts,
        listen,
        announce_address,
        discovery: place.discovery(&file.discovery)?,
        trees: place.trees(&file.trees)?,
        failure: place.failure(&file.failure)?,
        store: file.store,
        standby: false,
        security: place.security(file.security)?,
        limits: place.limits(&file.limits)?,
        pipeline: file.pipeline.map(|files| PipelinePaths { json: files.json, p4info: files.p4info }),
    })
}

/// Makes errors that name a place in the file.
struct Place<'a> {
    path: &'a str,
}

impl Place<'_> {
    fn wrong<T>(&self, what: &Spanned<T>, message: impl Into<String>) -> InventoryError {
        let (line, column) = line_and_column(what.referenced);
        InventoryError::At { path: self.path.to_owned(), line, column, message: message.into() }
    }

    fn name(&self, name: &Spanned<String>) -> Result<(), InventoryError> {
        let text = &name.value;
        let fits = text.len() <= MAX_NAME_LEN
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
        if fits {
            return Ok(());
        }
        Err(self.wrong(
            name,
            format!(
                "name {text:?}: must be 1 to {MAX_NAME_LEN} ASCII letters, digits, '_', '.' or '-', a letter first (this one \
                 has {} characters)",
                text.chars().count()
            ),
        ))
    }

    fn switch(
        &self,
        switch: &Switch,
        subnet: &Subnet,
        announce: Ipv4Addr,
        default_ports: u16,
    ) -> Result<SwitchSpec, InventoryError> {
        let target = &switch.target;
        let port = target
            .value
            .rsplit_once(':')
            .filter(|(host, _)| !host.is_empty())
            .map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) {
            return Err(self.wrong(
                target,
                format!(
                    "target {:?}: must be host:port of a P4Runtime server, as 127.0.0.1:9559",
                    target.value
                ),
            ));
        }
        let id = &switch.device_id;
        let service_address = u16::try_from(id.value)
            .ok()
            .and_then(|id| Some((id, subnet.host(id)?)))
            .filter(|(_, address)| *address != announce);
        let Some((device_id, service_address)) = service_address else {
            return Err(self.wrong(
                id,
                format!(
                    "device_id {}: must be 0 to {} so that it has a service address in {subnet} besides the announce address \
                     {announce}",
                    id.value,
                    subnet.max_device_id()
                ),
            ));
        };
        let ports = match &switch.ports {
            None => (1..=default_ports).collect(),
            Some(ports) => {
                let mut seen = Unique::new("port");
                let mut list = Vec::with_capacity(ports.len());
                for port in ports {
                    seen.take(self, port.value, port)?;
                    list.push(self.port(port)?);
                }
                list
            }
        };
        Ok(SwitchSpec {
            name: switch.name.value.clone(),
            target: target.value.clone(),
            device_id,
            service_address,
            ports,
        })
    }

    fn host(
        &self,
        host: &Host,
        switches: &[SwitchSpec],
        subnet: &Subnet,
    ) -> Result<HostSpec, InventoryError> {
        if !switches.iter().any(|switch| switch.name == host.switch.value) {
            let known: Vec<_> = switches.iter().map(|switch| switch.name.as_str()).collect();
            let message = format!("no switch {:?}; there are {}", host.switch.value, known.join(", "));
            return Err(self.wrong(&host.switch, message));
        }
        if subnet.contains(host.address.value) {
            let message = format!("host address {} lies in the service subnet {subnet}", host.address.value);
            return Err(self.wrong(&host.address, message));
        }
        Ok(HostSpec {
            name: host.name.value.clone(),
            address: host.address.value,
            mac: host.mac.value.parse().map_err(|error| self.wrong(&host.mac, format!("{error}")))?,
            switch: host.switch.value.clone(),
            port: self.port(&host.port)?,
        })
    }

    fn port(&self, port: &Spanned<u64>) -> Result<u16, InventoryError> {
        if (1..=MAX_PORT).contains(&port.value) {
            return Ok(port.value as u16);
        }
        Err(self.wrong(
            port,
            format!("port {}: must be 1 to {MAX_PORT} ({CPU_PORT} is the switch's CPU port)", port.value),
        ))
    }

    fn limits(&self, limits: &file::Limits) -> Result<Limits, InventoryError> {
        let groups = limits.groups_per_tenant.as_ref();
        let slots = limits.slots_per_tenant.as_ref();
        Ok(Limits {
            groups_per_tenant: self.number(groups, "limits.groups_per_tenant", 0, 0, 1_000_000)? as u32,
            slots_per_tenant: self.number(slots, "limits.slots_per_tenant", 0, 0, SLOTS.into())? as u32,
        })
    }

    fn security(&self, security: Security) -> Result<SecuritySettings, InventoryError> {
        let rate = security.requests_per_second.as_ref();
        let rate = self.number(rate, "security.requests_per_second", 0, 0, 1_000_000)?;
        let p4runtime = match security.p4runtime {
            None => None,
            Some(P4Runtime { ca, cert, key }) => {
                let identity = match (cert, key) {
                    (Some(cert), Some(key)) => Some((cert, key)),
                    (None, None) => None,
                    _ => {
                        let message = "security.p4runtime: cert and key go together".to_owned();
                        return Err(InventoryError::At {
                            path: self.path.to_owned(),
                            line: 1,
                            column: 1,
                            message,
                        });
                    }
                };
                Some(Access { token: None, ca: Some(ca), identity })
            }
        };
        let tls = security.tls.map(|Tls { cert, key, client_ca }| TlsFiles { cert, key, client_ca });
        let Security { tokens, audit, submitted_only, .. } = security;
        let requests_per_second = rate as u32;
        Ok(SecuritySettings { tokens, audit, submitted_only, requests_per_second, tls, p4runtime })
    }

    fn listen(&self, address: &Spanned<String>) -> Result<SocketAddr, InventoryError> {
        address.value.parse().map_err(|_| {
            self.wrong(
                address,
                format!("listen address {:?}: must be ip:port, as 127.0.0.1:50051", address.value),
            )
        })
    }

    fn discovery(&self, discovery: &Discovery) -> Result<DiscoverySettings, InventoryError> {
        let interval = self.number(
            discovery.probe_interval_ms.as_ref(),
            "discovery.probe_interval_ms",
            200,
            10,
            60_000,
        )?;
        let timeout = self.number(
            discovery.link_timeout_ms.as_ref(),
            "discovery.link_timeout_ms",
            interval * 7,
            interval * 2,
            3_600_000,
        )?;
        Ok(DiscoverySettings {
            probe_interval: Duration::from_millis(interval),
            link_timeout: Duration::from_millis(timeout),
        })
    }

    fn trees(&self, trees: &Trees) -> Result<TreeSettings, InventoryError> {
        let slots =
            self.number(trees.slots_per_tree.as_ref(), "trees.slots_per_tree", 16, 1, SLOTS.into())?;
        let stripes = self.number(trees.stripes.as_ref(), "trees.stripes", 1, 1, 16)?;
        let resend =
            self.number(trees.resend_interval_ms.as_ref(), "trees.resend_interval_ms", 3, 1, 60_000)?;
        let linger =
            self.number(trees.leave_linger_ms.as_ref(), "trees.leave_linger_ms", 1500, 0, 600_000)?;
        Ok(TreeSettings {
            slots_per_tree: slots as u32,
            stripes: stripes as u16,
            resend_interval: Duration::from_millis(resend),
            leave_linger: Duration::from_millis(linger),
        })
    }

    fn failure(&self, failure: &Failure) -> Result<FailureSettings, InventoryError> {
        let milliseconds = |given: &Option<Spanned<u64>>, what, default| {
            Ok(Duration::from_millis(self.number(given.as_ref(), what, default, 0, 600_000)?))
        };
        Ok(FailureSettings {
            attach_grace: milliseconds(&failure.attach_grace_ms, "failure.attach_grace_ms", 500)?,
            report_timeout: milliseconds(&failure.report_timeout_ms, "failure.report_timeout_ms", 2000)?,
            patience: milliseconds(&failure.patience_ms, "failure.patience_ms", 8000)?,
        })
    }

    fn number(
        &self,
        given: Option<&Spanned<u64>>,
        what: &str,
        default: u64,
        least: u64,
        most: u64,
    ) -> Result<u64, InventoryError> {
        match given {
            None => Ok(default),
            Some(given) if (least..=most).contains(&given.value) => Ok(given.value),
            Some(given) => {
                Err(self.wrong(given, format!("{what} is {}: must be {least} to {most}", given.value)))
            }
        }
    }

    fn subnet(&self, given: Option<&Spanned<String>>) -> Result<Subnet, InventoryError> {
        let Some(given) = given else { return Ok(Subnet::DEFAULT) };
        let parse = || {
            let (address, prefix) = given.value.split_once('/')?;
            let (address, prefix) = (address.parse::<Ipv4Addr>().ok()?, prefix.parse::<u8>().ok()?);
            let subnet = Subnet { address, prefix };
            ((8..=30).contains(&prefix) && u32::from(address) & subnet.host_mask() == 0).then_some(subnet)
        };
        parse().ok_or_else(|| {
            let message = format!(
                "service_subnet {:?}: must be network/prefix with a prefix of 8 to 30 and no host bits, as {}",
                given.value,
                Subnet::DEFAULT
            );
            self.wrong(given, message)
        })
    }
}

fn line_and_column(location: Location) -> (u64, u64) {
    (location.line().max(1), location.column().max(1))
}

/// Values that may occur once.
struct Unique<T> {
    what: &'static str,
    seen: HashMap<T, Location>,
}

impl<T: std::hash::Hash + Eq> Unique<T> {
    fn new(what: &'static str) -> Self {
        Self { what, seen: HashMap::new() }
    }

    fn take<U: Display>(
        &mut self,
        place: &Place<'_>,
        value: T,
        at: &Spanned<U>,
    ) -> Result<(), InventoryError> {
        match self.seen.insert(value, at.referenced) {
            None => Ok(()),
            Some(first) => {
                let (line, column) = line_and_column(first);
                let message = format!(
                    "{} {} is used twice, first in line {line}, column {column}",
                    self.what, at.value
                );
                Err(place.wrong(at, message))
            }
        }
    }
}

/// Where service addresses come from.
struct Subnet {
    address: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    const DEFAULT: Self = Self { address: Ipv4Addr::new(10, 255, 0, 0), prefix: 16 };

    fn host_mask(&self) -> u32 {
        u32::MAX >> self.prefix
    }

    /// The address of this number, unless it is the broadcast address or beyond.
    fn host(&self, number: u16) -> Option<Ipv4Addr> {
        (u32::from(number) < self.host_mask())
            .then(|| Ipv4Addr::from(u32::from(self.address) + u32::from(number)))
    }

    fn last_host(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) + self.host_mask() - 1)
    }

    /// The last but one before the broadcast address: the last is the announce address by default.
    fn max_device_id(&self) -> u32 {
        (self.host_mask() - 2).min(u16::MAX.into())
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & !self.host_mask() == u32::from(self.address)
    }
}

impl Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
