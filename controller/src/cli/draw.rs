//! The network and the trees of a plan as text, as DOT for Graphviz, and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use super::show;
use super::table::table;
use crate::api::model::{Host, Link, Plan, Status, Switch};

/// One cable between two switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Cable {
    a: String,
    a_port: u32,
    b: String,
    b_port: u32,
}

/// The network, each cable once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Topology {
    switches: Vec<Switch>,
    cables: Vec<Cable>,
    /// Directions whose other one brings nothing.
    one_way: Vec<Link>,
    hosts: Vec<Host>,
}

impl From<Status> for Topology {
    fn from(status: Status) -> Self {
        let both = show::cables(&status.links);
        let is_cable = |link: &Link| {
            let (from, to) =
                ((link.from_switch.clone(), link.from_port), (link.to_switch.clone(), link.to_port));
            both.contains(&(from.clone(), to.clone())) || both.contains(&(to, from))
        };
        let one_way = status.links.iter().filter(|link| !is_cable(link)).cloned().collect();
        let cable = |((a, a_port), (b, b_port))| Cable { a, a_port, b, b_port };
        Self {
            cables: both.iter().cloned().map(cable).collect(),
            one_way,
            switches: status.switches,
            hosts: status.hosts,
        }
    }
}

impl Topology {
    /// Each switch with what is behind its ports.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for switch in &self.switches {
            let mut behind: Vec<(u32, String)> = Vec::new();
            for cable in &self.cables {
                if cable.a == switch.name {
                    behind.push((cable.a_port, format!("-- {}:{}", cable.b, cable.b_port)));
                }
                if cable.b == switch.name {
                    behind.push((cable.b_port, format!("-- {}:{}", cable.a, cable.a_port)));
                }
            }
            for link in &self.one_way {
                if link.from_switch == switch.name {
                    behind.push((
                        link.from_port,
                        format!("-> {}:{} (one way only)", link.to_switch, link.to_port),
                    ));
                }
            }
            let here = self.hosts.iter().filter(|host| host.switch_name == switch.name);
            behind.extend(here.map(|host| (host.port, format!("-- host {} ({})", host.address, host.mac))));
            behind.sort();
            let slots = format!("{}/{} slots", switch.slots_used, switch.slots_total);
            let _ = writeln!(text, "{} ({}, {slots})", switch.name, switch.state);
            for (port, what) in behind {
                let _ = writeln!(text, "  {port:>3} {what}");
            }
        }
        text
    }

    /// An undirected graph; directions that stand alone are dashed arrows.
    pub(super) fn dot(&self) -> String {
        let mut text = "graph inca {\n  node [fontname=\"sans-serif\"];\n".to_owned();
        for switch in &self.switches {
            let style = if switch.state == "ready" { "filled" } else { "dashed" };
            let label =
                format!("{}\\n{}/{} slots", escape(&switch.name), switch.slots_used, switch.slots_total);
            let _ = writeln!(text, "  {} [shape=box style={style} label=\"{label}\"];", quote(&switch.name));
        }
        for host in &self.hosts {
            let _ = writeln!(text, "  {} [shape=ellipse];", quote(&host.address));
            let ends = format!("{} -- {}", quote(&host.switch_name), quote(&host.address));
            let _ = writeln!(text, "  {ends} [taillabel=\"{}\"];", host.port);
        }
        for Cable { a, a_port, b, b_port } in &self.cables {
            let ends = format!("{} -- {}", quote(a), quote(b));
            let _ = writeln!(text, "  {ends} [taillabel=\"{a_port}\" headlabel=\"{b_port}\"];");
        }
        for link in &self.one_way {
            let ends = format!("{} -- {}", quote(&link.from_switch), quote(&link.to_switch));
            let ports = format!("taillabel=\"{}\" headlabel=\"{}\"", link.from_port, link.to_port);
            let _ = writeln!(text, "  {ends} [{ports} dir=forward style=dashed];");
        }
        text + "}\n"
    }
}

/// A plan for people: what it is, its trees, and its links.
pub(super) fn plan_text(plan: &Plan) -> String {
    let state = match (plan.installed, plan.refusal.as_str()) {
        (true, _) => "installed".to_owned(),
        (false, "") => "there is room for it".to_owned(),
        (false, refusal) => refusal.to_owned(),
    };
    let mut text = format!(
        "{} ranks, {}, {} words a chunk; a sum of {} elements is {} chunks; {state}\n\n",
        plan.world_size, plan.format, plan.chunk_words, plan.elements, plan.chunks
    );
    for tree_id in plan.tree.iter().map(|node| node.tree_id).collect::<BTreeSet<_>>() {
        let nodes: Vec<_> = plan.tree.iter().filter(|node| node.tree_id == tree_id).cloned().collect();
        let _ = writeln!(text, "tree {tree_id}: {}", show::draw(&nodes));
    }
    text.push('\n');
    let rows = plan.links.iter().map(|load| {
        let end = |name: &str, port| if port == 0 { name.to_owned() } else { format!("{name}:{port}") };
        vec![
            end(&load.from, load.from_port),
            end(&load.to, load.to_port),
            load.packets.to_string(),
            load.bytes.to_string(),
        ]
    });
    text += &table(&["FROM", "TO", "PACKETS", "BYTES"], rows);
    let rows = plan.slots.iter().map(|share| {
        vec![
            share.switch_name.clone(),
            share.needed.to_string(),
            share.used.to_string(),
            share.total.to_string(),
        ]
    });
    text + &table(&["SWITCH", "SLOTS NEEDED", "USED", "OF"], rows)
}

/// The links of a plan with their bytes, each direction an arrow.
pub(super) fn plan_dot(plan: &Plan) -> String {
    let mut text = "digraph plan {\n  node [fontname=\"sans-serif\"];\n".to_owned();
    let switches: BTreeSet<&str> = plan.slots.iter().map(|share| share.switch_name.as_str()).collect();
    let roots: BTreeSet<&str> = plan
        .tree
        .iter()
        .filter(|node| node.parent.is_empty())
        .map(|node| node.switch_name.as_str())
        .collect();
    for switch in &switches {
        let style = if roots.contains(switch) { "bold" } else { "solid" };
        let _ = writeln!(text, "  {} [shape=box style={style}];", quote(switch));
    }
    // Those on the way that do not reduce.
    let ends = plan.links.iter().flat_map(|load| [(&load.from, load.from_port), (&load.to, load.to_port)]);
    let passed: BTreeSet<&str> = ends
        .filter(|(name, port)| *port > 0 && !switches.contains(name.as_str()))
        .map(|(name, _)| name.as_str())
        .collect();
    for switch in passed {
        let _ = writeln!(text, "  {} [shape=box style=dashed];", quote(switch));
    }
    for load in &plan.links {
        let ends = format!("{} -> {}", quote(&load.from), quote(&load.to));
        let _ = writeln!(text, "  {ends} [label=\"{} B\"];", load.bytes);
    }
    text + "}\n"
}

fn quote(name: &str) -> String {
    format!("\"{}\"", escape(name))
}

fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
