//! Documents of the API as tables.

use std::collections::BTreeSet;

use super::table::table;
use crate::api::model::{Group, Host, Link, Status, Switch, Tree, TreeNode, trees};

type End = (String, u32);

/// Links that work both ways, each once.
pub(super) fn cables(links: &[Link]) -> BTreeSet<(End, End)> {
    let directions: BTreeSet<(End, End)> = links
        .iter()
        .map(|link| ((link.from_switch.clone(), link.from_port), (link.to_switch.clone(), link.to_port)))
        .collect();
    let both = directions.iter().filter(|(a, b)| a < b && directions.contains(&(b.clone(), a.clone())));
    both.cloned().collect()
}

pub(super) fn switches(switches: &[Switch]) -> String {
    let rows = switches.iter().map(|switch| {
        vec![
            switch.name.clone(),
            switch.device_id.to_string(),
            switch.target.clone(),
            switch.service_address.clone(),
            format!("{}/{}", switch.slots_used, switch.slots_total),
            switch.state.clone(),
        ]
    });
    table(&["SWITCH", "DEVICE", "TARGET", "SERVICE ADDRESS", "SLOTS", "STATE"], rows)
}

pub(super) fn links(links: &[Link]) -> String {
    let both = cables(links);
    let rows = links.iter().filter_map(|link| {
        let from = (link.from_switch.clone(), link.from_port);
        let to = (link.to_switch.clone(), link.to_port);
        let works = both.contains(&(from.clone(), to.clone())) || both.contains(&(to.clone(), from.clone()));
        let note = if works { "both ways" } else { "one way only" };
        // Each cable once.
        (!works || from < to)
            .then(|| vec![format!("{}:{}", from.0, from.1), format!("{}:{}", to.0, to.1), note.to_owned()])
    });
    table(&["LINK", "TO", "STATE"], rows)
}

pub(super) fn hosts(hosts: &[Host]) -> String {
    let rows = hosts.iter().map(|host| {
        vec![host.address.clone(), host.mac.clone(), format!("{}:{}", host.switch_name, host.port)]
    });
    table(&["HOST", "MAC", "AT"], rows)
}

pub(super) fn jobs(jobs: &[Group]) -> String {
    let rows = jobs.iter().map(|job| {
        vec![
            job_name(&job.name, &job.group),
            job.generation.to_string(),
            format!("{}/{}", job.joined_ranks.len(), job.world_size),
            job.format.clone(),
            job.chunk_words.to_string(),
            job.state.clone(),
            trees(job).iter().map(|tree| draw(&tree.nodes)).collect::<Vec<_>>().join(" "),
        ]
    });
    table(&["JOB", "GENERATION", "RANKS", "FORMAT", "WORDS", "STATE", "TREE"], rows)
}

pub(super) fn tree_table(trees: &[Tree]) -> String {
    let rows = trees.iter().map(|tree| {
        let root = tree.nodes.iter().find(|node| node.parent.is_empty());
        vec![
            tree.tree_id.to_string(),
            job_name(&tree.job, &tree.group),
            tree.generation.to_string(),
            root.map(|root| root.switch_name.clone()).unwrap_or_default(),
            tree.nodes.len().to_string(),
            draw(&tree.nodes),
        ]
    });
    table(&["TREE", "JOB", "GENERATION", "ROOT", "SWITCHES", "SHAPE"], rows)
}

pub(super) fn slots(switches: &[Switch]) -> String {
    let rows = switches.iter().map(|switch| {
        let share = f64::from(switch.slots_used) / f64::from(switch.slots_total.max(1)) * 100.0;
        vec![
            switch.name.clone(),
            switch.slots_used.to_string(),
            switch.slots_total.to_string(),
            format!("{share:.1}%"),
        ]
    });
    table(&["SWITCH", "SLOTS USED", "OF", "SHARE"], rows)
}

pub(super) fn counters(switches: &[Switch]) -> String {
    let rows = switches.iter().flat_map(|switch| {
        let seen = switch.counters.iter().filter(|(_, count)| **count > 0);
        seen.map(|(name, count)| vec![switch.name.clone(), name.clone(), count.to_string()])
    });
    table(&["SWITCH", "EVENT", "PACKETS"], rows)
}

/// Everything.
pub(super) fn status(status: &Status, with_counters: bool) -> String {
    let mut text =
        switches(&status.switches) + &links(&status.links) + &hosts(&status.hosts) + &jobs(&status.jobs);
    if with_counters {
        text += &counters(&status.switches);
    }
    text
}

fn job_name(job: &str, group: &str) -> String {
    if group.is_empty() { job.to_owned() } else { format!("{job}/{group}") }
}

/// `spine1(leaf1[0 1] leaf2[2])`: the root first, ranks in brackets.
pub(super) fn draw(nodes: &[TreeNode]) -> String {
    fn below(nodes: &[TreeNode], node: &TreeNode) -> String {
        let children: Vec<_> = nodes
            .iter()
            .filter(|child| child.parent == node.switch_name)
            .map(|child| below(nodes, child))
            .collect();
        let ranks: Vec<_> = node.ranks.iter().map(u32::to_string).collect();
        let ranks = if ranks.is_empty() { String::new() } else { format!("[{}]", ranks.join(" ")) };
        let children = if children.is_empty() { String::new() } else { format!("({})", children.join(" ")) };
        format!("{}{ranks}{children}", node.switch_name)
    }
    let roots = nodes.iter().filter(|node| node.parent.is_empty());
    roots.map(|root| below(nodes, root)).collect::<Vec<_>>().join(" ")
}
