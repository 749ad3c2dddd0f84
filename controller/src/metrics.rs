//! Metrics in the exposition format of Prometheus, under its naming conventions: what this controller did since it started, and what
//! it sees at the moment of the scrape.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use inca_p4runtime::northbound as api;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::progress::Progress;

/// Bounds of latency buckets, in seconds: an entry on a local switch takes less than a millisecond, a pipeline many seconds.
const SECONDS: [f64; 13] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0];

type Labels<const N: usize> = [(&'static str, String); N];

/// What a call to a switch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Connected, won the election, pushed the pipeline if it differed, and read what is there. Only failures are counted: how long it
    /// takes is how long another controller was in charge.
    Open,
    /// Wrote entries, in as many requests as needed.
    Write,
    /// Read entries back.
    ReadBack,
    /// Read counters.
    Counters,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Write => "write",
            Self::ReadBack => "read_back",
            Self::Counters => "counters",
        }
    }
}

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    events: Family<Labels<1>, Counter>,
    p4runtime: Family<Labels<2>, Histogram>,
    p4runtime_errors: Family<Labels<2>, Counter>,
    requests: Family<Labels<3>, Counter>,
    request_seconds: Family<Labels<2>, Histogram>,
    /// What ranks say they have done.
    pub progress: Progress,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("inca");
        let histogram = || Histogram::new(SECONDS);
        let events = Family::default();
        registry.register(
            "events",
            "What happened to switches, links, hosts, ranks and groups",
            events.clone(),
        );
        let p4runtime = Family::<Labels<2>, Histogram>::new_with_constructor(histogram);
        registry.register(
            "p4runtime_request_duration_seconds",
            "Time of operations on a switch over P4Runtime",
            p4runtime.clone(),
        );
        let p4runtime_errors = Family::default();
        registry.register(
            "p4runtime_request_errors",
            "Operations on a switch over P4Runtime that failed",
            p4runtime_errors.clone(),
        );
        let requests = Family::default();
        registry.register("api_requests", "Calls of the northbound API by their outcome", requests.clone());
        let request_seconds = Family::<Labels<2>, Histogram>::new_with_constructor(histogram);
        registry.register(
            "api_request_duration_seconds",
            "Time to the head of the answer of a call of the northbound API",
            request_seconds.clone(),
        );
        let progress = Progress::default();
        Self { registry, events, p4runtime, p4runtime_errors, requests, request_seconds, progress }
    }
}

impl Metrics {
    /// An event of this kind happened.
    pub fn event(&self, kind: &str) {
        self.events.get_or_create(&[("kind", kind.to_owned())]).inc();
    }

    /// An operation on a switch has ended.
    pub fn p4runtime(&self, switch: &str, operation: Operation, since: Instant, failed: bool) {
        let labels = [("switch", switch.to_owned()), ("operation", operation.name().to_owned())];
        self.p4runtime.get_or_create(&labels).observe(since.elapsed().as_secs_f64());
        if failed {
            self.p4runtime_errors.get_or_create(&labels).inc();
        }
    }

    /// An operation on a switch failed that has no time of its own.
    pub fn failed(&self, switch: &str, operation: Operation) {
        let labels = [("switch", switch.to_owned()), ("operation", operation.name().to_owned())];
        self.p4runtime_errors.get_or_create(&labels).inc();
    }

    /// A call has been answered. `route` is one of those there are, never a caller's text; `code` is an HTTP status, or gRPC's name.
    pub fn request(&self, method: &str, route: &str, code: &str, took: Duration) {
        let (method, route) = (("method", method.to_owned()), ("route", route.to_owned()));
        self.request_seconds.get_or_create(&[method.clone(), route.clone()]).observe(took.as_secs_f64());
        self.requests.get_or_create(&[method, route, ("code", code.to_owned())]).inc();
    }

    /// The page of a scrape: what was counted, then what is seen now.
    pub fn page(&self, status: &api::StatusResponse) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = encode_registry(&mut text, &self.registry);
        let _ = encode_registry(&mut text, &now(status));
        let _ = encode_eof(&mut text);
        text
    }
}

/// What is seen at the moment, as a registry that is used once.
fn now(status: &api::StatusResponse) -> Registry {
    let mut registry = Registry::with_prefix("inca");
    let mut gauge = |name: &str, help: &str, value: i64| {
        let gauge: Gauge = Gauge::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    gauge("in_charge", "1 while this controller is in charge of the switches", status.in_charge.into());
    gauge("link_directions", "Directions of links between switches that work", status.links.len() as i64);
    gauge("hosts", "Hosts that are known", status.hosts.len() as i64);
    let up = Family::<Labels<1>, Gauge>::default();
    let (used, total) = (Family::<Labels<1>, Gauge>::default(), Family::<Labels<1>, Gauge>::default());
    let packets = Family::<Labels<2>, Counter>::default();
    let drops = Family::<Labels<2>, Counter>::default();
    for switch in &status.switches {
        let label = || ("switch", switch.name.clone());
        up.get_or_create(&[label()]).set((switch.state == "ready").into());
        used.get_or_create(&[label()]).set(switch.slots_used.into());
        total.get_or_create(&[label()]).set(switch.slots_total.into());
        for (event, count) in &switch.counters {
            match event.strip_prefix("drop_") {
                Some(reason) => drops.get_or_create(&[label(), ("reason", reason.to_owned())]).inc_by(*count),
                None => packets.get_or_create(&[label(), ("event", event.clone())]).inc_by(*count),
            };
        }
    }
    registry.register("switch_up", "1 while a switch is under control", up);
    registry.register("switch_slots_used", "Slots in use", used);
    registry.register("switch_slots", "Slots there are", total);
    registry.register("switch_packets", "Packets that a switch handled, by what became of them", packets);
    registry.register("switch_dropped_packets", "Packets that a switch dropped, by the reason", drops);
    let groups = Family::<Labels<1>, Gauge>::default();
    for state in STATES {
        groups.get_or_create(&[("state", state.to_owned())]).set(0);
    }
    let ranks = Gauge::<i64>::default();
    let mut trees = BTreeMap::<u32, ()>::new();
    let [chunks, sent, again, bytes] = std::array::from_fn(|_| Family::<Labels<2>, Counter>::default());
    for job in status.jobs.iter().filter(|job| !job.state.starts_with("closed")) {
        let state = STATES.into_iter().find(|state| job.state.starts_with(state)).unwrap_or("changing");
        groups.get_or_create(&[("state", state.to_owned())]).inc();
        ranks.inc_by(job.joined_ranks.len() as i64);
        trees.extend(job.tree.iter().map(|node| (node.tree_id, ())));
        let Some(progress) = job.progress else { continue };
        let labels = [("name", job.name.clone()), ("group", job.group.clone())];
        for (family, count) in [
            (&chunks, progress.chunks),
            (&sent, progress.transmissions),
            (&again, progress.retransmissions),
            (&bytes, progress.sent_bytes),
        ] {
            family.get_or_create(&labels).inc_by(count);
        }
    }
    registry.register("group_chunks", "Chunks that the rank which is furthest has finished", chunks);
    registry.register("group_transmissions", "Contributions sent, repetitions included", sent);
    registry.register("group_retransmissions", "Contributions sent again", again);
    registry.register("group_sent_bytes", "UDP payload of the contributions", bytes);
    registry.register("groups", "Groups of ranks that are there, by state", groups);
    registry.register("ranks", "Ranks that are members of a group", ranks);
    let count = Gauge::<i64>::default();
    count.set(trees.len() as i64);
    registry.register("trees", "Reduction trees that groups have", count);
    registry
}

/// How the states of groups begin; every other one is between two generations.
const STATES: [&str; 8] =
    ["submitted", "waiting", "queued", "installing", "running", "changing", "ending", "draining"];

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
