//! Next hops from every switch to every other: all shortest ways, since the switches spread flows over equal ones.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::graph::{DeviceId, Graph};

/// Links and next hops of all switches. Port lists that are equal are kept once.
#[derive(Debug, Default)]
pub(super) struct Paths {
    switches: BTreeMap<DeviceId, Hops>,
}

/// What one switch knows.
#[derive(Debug, Default)]
pub(super) struct Hops {
    /// Ports that lead to other switches, in order.
    pub(super) links: Vec<u16>,
    /// By target: ports of the links that lead nearer to it.
    next: BTreeMap<DeviceId, Arc<[u16]>>,
}

impl Hops {
    /// Ports by which a target is reached; `None` for the switch itself and what it can't reach.
    pub(super) fn to(&self, target: DeviceId) -> Option<&Arc<[u16]>> {
        self.next.get(&target)
    }
}

impl Paths {
    /// One breadth-first search per switch.
    pub(super) fn of(graph: &Graph) -> Self {
        let devices: Vec<DeviceId> = graph.switches().collect();
        let index: BTreeMap<DeviceId, usize> =
            (0..).zip(&devices).map(|(at, device)| (*device, at)).collect();
        let links: Vec<Vec<(u16, usize)>> = devices
            .iter()
            .map(|&device| {
                let ends = graph.links(device);
                ends.filter_map(|(port, end)| Some((port, *index.get(&end.device)?))).collect()
            })
            .collect();
        let mut known: HashSet<Arc<[u16]>> = HashSet::new();
        let mut switches: Vec<Hops> = links
            .iter()
            .map(|links| Hops { links: links.iter().map(|(port, _)| *port).collect(), next: BTreeMap::new() })
            .collect();
        let (mut distances, mut queue, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        for (target, &device) in devices.iter().enumerate() {
            search(&links, target, &mut distances, &mut queue);
            for &at in &queue[1..] {
                let nearer = links[at].iter().filter(|(_, end)| distances[*end] + 1 == distances[at]);
                ports.clear();
                ports.extend(nearer.map(|(port, _)| *port));
                let shared = match known.get(ports.as_slice()) {
                    Some(shared) => shared.clone(),
                    None => {
                        let new: Arc<[u16]> = ports.as_slice().into();
                        known.insert(new.clone());
                        new
                    }
                };
                switches[at].next.insert(device, shared);
            }
        }
        Self { switches: devices.into_iter().zip(switches).collect() }
    }

    /// What a switch knows; `None` if it is not in the topology.
    pub(super) fn at(&self, device: DeviceId) -> Option<&Hops> {
        self.switches.get(&device)
    }
}

/// Distances to a switch, and who can reach it in order of distance, itself first.
fn search(links: &[Vec<(u16, usize)>], target: usize, distances: &mut Vec<u32>, queue: &mut Vec<usize>) {
    /// Further than any path, and one more does not wrap.
    const FAR: u32 = u32::MAX - 1;
    distances.clear();
    distances.resize(links.len(), FAR);
    distances[target] = 0;
    queue.clear();
    queue.push(target);
    let mut next = 0;
    while let Some(&at) = queue.get(next) {
        next += 1;
        for &(_, end) in &links[at] {
            if distances[end] == FAR {
                distances[end] = distances[at] + 1;
                queue.push(end);
            }
        }
    }
}
