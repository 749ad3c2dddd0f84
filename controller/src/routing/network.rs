//! One snapshot of the fabric's ordinary traffic, and what two of them differ by.

use std::cmp::Ordering;
use std::net::Ipv4Addr;
use std::sync::Arc;

use inca_p4runtime::p4v1::update;
use inca_wire::address::MacAddr;

use super::Addresses;
use super::paths::{Hops, Paths};
use crate::graph::{Attachment, DeviceId, Graph};
use crate::program::{Entry, arp_proxy, arp_sender, ipv4_lpm, link};

/// Routes, links and ARP of every switch at one time, not as entries but as what they follow from.
#[derive(Debug, Default)]
pub struct Network {
    addresses: Arc<Addresses>,
    paths: Arc<Paths>,
    /// In the order of addresses.
    hosts: Vec<(Ipv4Addr, Attachment)>,
    /// Next hops of a route at most; see [`fan`].
    fan: usize,
}

/// Members of the selector `ecmp` in the P4 program: next hops of all routes of a switch together.
const SELECTOR_MEMBERS: usize = 4096;

/// How many next hops each of so many routes may have. A power of two, so that few hosts more seldom change all routes.
fn fan(routes: usize) -> usize {
    let fits = |fan: &usize| routes * fan <= SELECTOR_MEMBERS;
    [ipv4_lpm::MAX_NEXT_HOPS, 8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// One entry of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// A port that leads to a switch.
    Link(u16),
    /// What ARP for an address is answered with.
    Proxy(Ipv4Addr, MacAddr),
    /// A host of this switch, as it shows itself.
    Sender(Ipv4Addr, Attachment),
    /// The ports by which an address is reached.
    Route(Ipv4Addr, Arc<[u16]>),
}

/// A rule that comes, changes or goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happens to it.
    pub kind: update::Type,
    /// As it is afterwards, or was before it went.
    pub rule: Rule,
}

impl Rule {
    /// The entry.
    pub fn entry(&self) -> Entry {
        match self {
            Self::Link(ingress_port) => link::entry(link::Key { ingress_port: *ingress_port }),
            Self::Proxy(target_ip, mac) => {
                let action = arp_proxy::Action::Reply { mac: *mac };
                arp_proxy::entry(arp_proxy::Key { target_ip: *target_ip }, action)
            }
            Self::Sender(sender_ip, Attachment { at, mac }) => arp_sender::entry(arp_sender::Key {
                ingress_port: at.port,
                sender_mac: *mac,
                sender_ip: *sender_ip,
            }),
            Self::Route(to, ports) => ipv4_lpm::entry(ipv4_lpm::Key::host(*to), ports),
        }
        .into()
    }
}

impl Network {
    /// Nothing but addresses.
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses: Arc::new(addresses), ..Self::default() }
    }

    /// The fabric's own addresses.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The snapshot of another topology. Paths are searched again only if `links_changed`: hosts have no part in them.
    pub fn next(&self, graph: &Graph, links_changed: bool) -> Self {
        let paths = if links_changed { Arc::new(Paths::of(graph)) } else { self.paths.clone() };
        let hosts: Vec<_> = graph.hosts().collect();
        let fan = fan(hosts.len() + self.addresses.services.len());
        Self { addresses: self.addresses.clone(), paths, hosts, fan }
    }

    /// Everything that a switch should hold.
    pub fn rules(&self, device: DeviceId) -> Vec<Rule> {
        self.changes(&Self::default(), device).into_iter().map(|change| change.rule).collect()
    }

    /// What is to be done at a switch that holds everything of `before`; what goes comes first.
    pub fn changes(&self, before: &Self, device: DeviceId) -> Vec<Change> {
        let mut changes = Vec::new();
        let (old, new) = (before.paths.at(device), self.paths.at(device));
        if !Arc::ptr_eq(&self.paths, &before.paths) {
            link_changes(old, new, &mut changes);
        }
        let both = old.is_some() == new.is_some();
        let same_paths = Arc::ptr_eq(&self.paths, &before.paths) && self.fan == before.fan;
        if !both || !same_paths || self.addresses != before.addresses {
            let (was, is) = (before.own_views(device, old), self.own_views(device, new));
            merged(was.iter().copied(), is.iter().copied(), &mut changes);
        }
        merged(before.host_views(device, old), self.host_views(device, new), &mut changes);
        // Stable: what goes makes room first.
        changes.sort_by_key(|change| change.kind != update::Type::Delete);
        changes
    }

    /// The fabric's own addresses as a switch knows them, in order.
    fn own_views<'a>(&'a self, device: DeviceId, hops: Option<&'a Hops>) -> Vec<View<'a>> {
        let Some(hops) = hops else { return Vec::new() };
        let mut views: Vec<_> = self
            .addresses
            .proxies(device)
            .map(|(address, mac)| View { address, mac, here: None, by: By::Nothing })
            .collect();
        views.sort_unstable_by_key(|view| view.address);
        for (&target, address) in &self.addresses.services {
            if let (Some(ports), Ok(at)) =
                (hops.to(target), views.binary_search_by_key(address, |view| view.address))
            {
                views[at].by = By::Links(ports, self.fan);
            }
        }
        views
    }

    fn host_views<'a>(
        &'a self,
        device: DeviceId,
        hops: Option<&'a Hops>,
    ) -> impl Iterator<Item = View<'a>> + 'a {
        let hosts = if hops.is_some() { self.hosts.as_slice() } else { &[] };
        hosts.iter().map(move |&(address, attachment)| {
            let here = (attachment.at.device == device).then_some(attachment);
            let by = match hops.and_then(|hops| hops.to(attachment.at.device)) {
                _ if here.is_some() => By::Port(attachment.at.port),
                Some(ports) => By::Links(ports, self.fan),
                None => By::Nothing,
            };
            View { address, mac: attachment.mac, here, by }
        })
    }
}

/// An address as one switch knows it.
#[derive(Debug, Clone, Copy)]
struct View<'a> {
    address: Ipv4Addr,
    mac: MacAddr,
    /// Set at the host's own switch.
    here: Option<Attachment>,
    by: By<'a>,
}

/// How an address is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By<'a> {
    Nothing,
    Port(u16),
    /// By some of these ports, at most so many.
    Links(&'a Arc<[u16]>, usize),
}

impl By<'_> {
    /// The ports for an address. Where there are more than may be, different addresses get different ones.
    fn ports(self, address: Ipv4Addr) -> Option<Arc<[u16]>> {
        match self {
            Self::Nothing => None,
            Self::Port(port) => Some([port].into()),
            Self::Links(ports, fan) if ports.len() <= fan => Some(ports.clone()),
            Self::Links(ports, fan) => {
                // Knuth's multiplicative hash: neighbouring addresses are spread.
                let first = (u32::from(address).wrapping_mul(2_654_435_761) >> 16) as usize;
                let mut some: Vec<u16> = (0..fan).map(|step| ports[(first + step) % ports.len()]).collect();
                some.sort_unstable();
                Some(some.into())
            }
        }
    }

    fn is(self, other: Self, address: Ipv4Addr) -> bool {
        match (self, other) {
            // Most are the very same list.
            (Self::Links(a, fan), Self::Links(b, other)) if fan == other && Arc::ptr_eq(a, b) => true,
            (Self::Links(..), Self::Links(..)) => self.ports(address) == other.ports(address),
            (a, b) => a == b,
        }
    }
}

fn link_changes(old: Option<&Hops>, new: Option<&Hops>, changes: &mut Vec<Change>) {
    let ports = |hops: Option<&Hops>| hops.map(|hops| hops.links.clone()).unwrap_or_default();
    let (old, new) = (ports(old), ports(new));
    let only = |these: &[u16], others: &[u16], kind| -> Vec<Change> {
        let missing = these.iter().filter(|port| others.binary_search(port).is_err());
        missing.map(|port| Change { kind, rule: Rule::Link(*port) }).collect()
    };
    changes.extend(only(&old, &new, update::Type::Delete));
    changes.extend(only(&new, &old, update::Type::Insert));
}

/// Goes through two lists of addresses in order.
fn merged<'a>(
    was: impl Iterator<Item = View<'a>>,
    is: impl Iterator<Item = View<'a>>,
    changes: &mut Vec<Change>,
) {
    let (mut was, mut is) = (was.peekable(), is.peekable());
    loop {
        let order = match (was.peek(), is.peek()) {
            (Some(old), Some(new)) => old.address.cmp(&new.address),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let old = if order.is_le() { was.next() } else { None };
        let new = if order.is_ge() { is.next() } else { None };
        let Some(address) = old.or(new).map(|view| view.address) else { return };
        let mut change = |kind, rule| changes.push(Change { kind, rule });
        let (before, after) = (old.map(|view| view.mac), new.map(|view| view.mac));
        if before != after {
            match (before, after) {
                (_, Some(mac)) => change(kind(before.is_some()), Rule::Proxy(address, mac)),
                (Some(mac), None) => change(update::Type::Delete, Rule::Proxy(address, mac)),
                (None, None) => {}
            }
        }
        let (before, after) = (old.and_then(|view| view.here), new.and_then(|view| view.here));
        if before != after {
            // All of it is key: it can't be modified.
            if let Some(attachment) = before {
                change(update::Type::Delete, Rule::Sender(address, attachment));
            }
            if let Some(attachment) = after {
                change(update::Type::Insert, Rule::Sender(address, attachment));
            }
        }
        let (before, after) =
            (old.map_or(By::Nothing, |view| view.by), new.map_or(By::Nothing, |view| view.by));
        if !before.is(after, address) {
            match (before.ports(address), after.ports(address)) {
                (was, Some(ports)) => change(kind(was.is_some()), Rule::Route(address, ports)),
                (Some(ports), None) => change(update::Type::Delete, Rule::Route(address, ports)),
                (None, None) => {}
            }
        }
    }
}

fn kind(is_there: bool) -> update::Type {
    if is_there { update::Type::Modify } else { update::Type::Insert }
}
