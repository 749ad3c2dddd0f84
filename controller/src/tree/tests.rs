use inca_wire::address::MacAddr;
use proptest::prelude::*;

use super::*;
use crate::graph::Attachment;

fn address(rank: u16) -> Ipv4Addr {
    Ipv4Addr::from(0x0A00_0000 + u32::from(rank) + 1)
}

/// A graph of links by device ids and of one host per entry of `ranks`, rank i at switch ranks[i].
fn network(links: &[(DeviceId, DeviceId)], ranks: &[DeviceId]) -> (Graph, Vec<Member>) {
    let mut graph = Graph::default();
    let mut ports: BTreeMap<DeviceId, u16> = BTreeMap::new();
    let mut next = |device| {
        let port = ports.entry(device).or_default();
        *port += 1;
        Port { device, port: *port }
    };
    for &(a, b) in links {
        graph.add_link(next(a), next(b));
    }
    let mut members = Vec::new();
    for (rank, &device) in (0..).zip(ranks) {
        graph.add_switch(device);
        graph.add_host(
            address(rank),
            Attachment { at: next(device), mac: MacAddr([2, 0, 0, 0, 0, rank as u8]) },
        );
        members.push(Member { rank, address: address(rank) });
    }
    (graph, members)
}

/// The tree as text: root first, children in brackets.
fn drawn(tree: &Tree) -> String {
    fn draw(tree: &Tree, device: DeviceId) -> String {
        let node = tree.node(device).unwrap();
        let children: Vec<_> = node
            .children
            .iter()
            .map(|child| match child {
                Child::Rank { rank, .. } => format!("r{rank}"),
                Child::Switch { device, .. } => draw(tree, *device),
            })
            .collect();
        format!("s{device}[{}]", children.join(" "))
    }
    draw(tree, tree.root().unwrap().device)
}

fn planned(links: &[(DeviceId, DeviceId)], ranks: &[DeviceId]) -> String {
    let (graph, members) = network(links, ranks);
    drawn(&plan(&graph, &members, &BTreeSet::new()).unwrap())
}

#[test]
fn one_switch_is_a_tree_of_its_own() {
    assert_eq!(planned(&[], &[1]), "s1[r0]");
    assert_eq!(planned(&[(1, 2)], &[1, 1, 1]), "s1[r0 r1 r2]");
}

/// Two leaves (1, 2) under a spine (10).
#[test]
fn p6_workers_over_two_leaves_and_a_spine() {
    let links = [(1, 10), (2, 10)];
    assert_eq!(planned(&links, &[1, 2]), "s10[s1[r0] s2[r1]]");
    assert_eq!(planned(&links, &[1, 1, 1, 2]), "s10[s1[r0 r1 r2] s2[r3]]");
    // The spine has nothing to add.
    assert_eq!(planned(&links, &[1, 1]), "s1[r0 r1]");
    let links = [(1, 10), (2, 10), (3, 10)];
    assert_eq!(planned(&links, &[1, 1, 1, 1, 1, 2, 3, 3]), "s10[s1[r0 r1 r2 r3 r4] s2[r5] s3[r6 r7]]");
}

#[test]
fn a_line_mixes_hosts_and_switches() {
    assert_eq!(planned(&[(1, 2), (2, 3)], &[1, 2, 3]), "s2[r1 s1[r0] s3[r2]]");
    assert_eq!(
        planned(&[(1, 2), (2, 3), (3, 4), (4, 5)], &[1, 2, 3, 4, 5]),
        "s3[r2 s2[r1 s1[r0]] s4[r3 s5[r4]]]"
    );
    // A chain node without hosts.
    assert_eq!(planned(&[(1, 2), (2, 3), (3, 4), (4, 5)], &[1, 5]), "s3[s2[s1[r0]] s4[s5[r1]]]");
}

#[test]
fn equal_parents_are_shared() {
    // Two spines: one of them takes all leaves.
    let links = [(1, 10), (1, 11), (2, 10), (2, 11), (3, 10), (3, 11)];
    assert_eq!(planned(&links, &[1, 2, 3]), "s10[s1[r0] s2[r1] s3[r2]]");
    let (graph, members) = network(&links, &[1, 2, 3]);
    let second = plan(&graph, &members, &BTreeSet::from([10])).unwrap();
    assert_eq!(drawn(&second), "s11[s1[r0] s2[r1] s3[r2]]");
}

/// Fat tree, k = 4: core 1-4, aggregation 11-18, edge 21-28, pods of two and two.
#[test]
fn a_fat_tree_uses_one_aggregation_switch_per_pod() {
    let mut links = Vec::new();
    for pod in 0..4 {
        for agg in 0..2 {
            let aggregation = 11 + 2 * pod + agg;
            links.extend((0..2).map(|core| (aggregation, 1 + 2 * agg + core)));
            links.extend((0..2).map(|edge| (aggregation, 21 + 2 * pod + edge)));
        }
    }
    let ranks: Vec<_> = (0..16).map(|rank| 21 + rank / 2).collect();
    let (graph, members) = network(&links, &ranks);
    let tree = plan(&graph, &members, &BTreeSet::new()).unwrap();
    assert_eq!((tree.nodes.len(), tree.levels()), (1 + 4 + 8, 3));
    check(&graph, &members, &tree);
}

#[test]
fn unknown_hosts_are_named() {
    let (graph, mut members) = network(&[(1, 2)], &[1, 2]);
    members.push(Member { rank: 2, address: Ipv4Addr::new(10, 9, 9, 9) });
    let error = plan(&graph, &members, &BTreeSet::new()).unwrap_err();
    assert_eq!(error.to_string(), "no switch has seen host 10.9.9.9 of rank 2");
}

#[test]
fn partitions_are_named() {
    let (graph, members) = network(&[(1, 2), (3, 4)], &[1, 4, 2]);
    let error = plan(&graph, &members, &BTreeSet::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the network is partitioned: ranks [0, 2] are at switch 1, switch 2; ranks [1] are at switch 3, switch 4"
    );
}

#[test]
fn too_many_children_are_refused() {
    let (graph, members) = network(&[], &[1; 65]);
    let error = plan(&graph, &members, &BTreeSet::new()).unwrap_err();
    assert_eq!(error, TreeError::TooManyRanks { device: 1, ranks: 65 });
    // A star of 65 leaves around one switch: the hub has room for 64 if one of the leaves is the root.
    let ranks: Vec<_> = (1..=65).collect();
    let star = |leaves, hubs: &[DeviceId]| -> Vec<_> {
        (1..=leaves).flat_map(|leaf| hubs.iter().map(move |hub| (leaf, *hub))).collect()
    };
    let (graph, members) = network(&star(65, &[100]), &ranks);
    let tree = plan(&graph, &members, &BTreeSet::new()).unwrap();
    assert_eq!((tree.root().unwrap().device, tree.levels()), (1, 3));
    check(&graph, &members, &tree);
    // With 66 no root helps.
    let links = star(66, &[100]);
    let ranks: Vec<_> = (1..=66).collect();
    let (graph, members) = network(&links, &ranks);
    let error = plan(&graph, &members, &BTreeSet::new()).unwrap_err();
    assert!(matches!(error, TreeError::TooManyChildren { root: 100, .. }), "{error}");
    // With a second hub the rest goes there, one level deeper.
    let (graph, members) = network(&star(66, &[100, 101]), &ranks);
    let tree = plan(&graph, &members, &BTreeSet::new()).unwrap();
    check(&graph, &members, &tree);
}

#[test]
fn nobody_and_the_same_rank_twice_are_refused() {
    let (graph, members) = network(&[], &[1]);
    assert_eq!(plan(&graph, &[], &BTreeSet::new()), Err(TreeError::NoMembers));
    let twice = [members[0], members[0]];
    assert_eq!(plan(&graph, &twice, &BTreeSet::new()), Err(TreeError::RankTwice(0)));
}

/// What every tree must be.
#[track_caller]
fn check(graph: &Graph, members: &[Member], tree: &Tree) {
    let mut seen = BTreeSet::new();
    let mut ranks = Vec::new();
    for (position, node) in tree.nodes.iter().enumerate() {
        assert!(seen.insert(node.device), "switch {} twice", node.device);
        assert!(!node.children.is_empty() && node.children.len() <= MAX_CHILDREN, "{node:?}");
        assert_eq!(node.parent.is_none(), position + 1 == tree.nodes.len(), "only the last is the root");
        for (index, child) in node.children.iter().enumerate() {
            match *child {
                Child::Rank { rank, port } => {
                    ranks.push(rank);
                    let member = members.iter().find(|member| member.rank == rank).unwrap();
                    assert_eq!(graph.host(member.address).unwrap().at, Port { device: node.device, port });
                }
                Child::Switch { device, port } => {
                    assert!(seen.contains(&device), "children come first");
                    let uplink = tree.node(device).unwrap().parent.unwrap();
                    let (here, there) =
                        (Port { device: node.device, port }, Port { device, port: uplink.port });
                    assert_eq!((uplink.to, usize::from(uplink.index)), (here, index));
                    assert!(
                        graph.links(node.device).any(|link| link == (port, there)),
                        "no link {here:?} {there:?}"
                    );
                }
            }
        }
    }
    ranks.sort_unstable();
    let mut expected: Vec<_> = members.iter().map(|member| member.rank).collect();
    expected.sort_unstable();
    assert_eq!(ranks, expected);
}

fn graphs() -> impl Strategy<Value = (Vec<(DeviceId, DeviceId)>, Vec<DeviceId>)> {
    (1u16..12).prop_flat_map(|switches| {
        let device = 1..=switches;
        (prop::collection::vec((device.clone(), device.clone()), 0..24), prop::collection::vec(device, 1..20))
    })
}

proptest! {
    #[test]
    fn random_graphs_give_trees_or_partitions((links, ranks) in graphs()) {
        let links: Vec<_> = links.into_iter().filter(|(a, b)| a != b).collect();
        let (graph, members) = network(&links, &ranks);
        let connected = graph.components().iter().any(|part| ranks.iter().all(|device| part.contains(device)));
        match plan(&graph, &members, &BTreeSet::new()) {
            Ok(tree) => {
                prop_assert!(connected);
                check(&graph, &members, &tree);
                // No root is nearer to its furthest rank.
                let depth = |root| {
                    let distances = graph.distances(root);
                    ranks.iter().map(|device| distances.get(device).copied()).max_by_key(|d| d.unwrap_or(u32::MAX)).flatten()
                };
                let least = graph.switches().filter(|root| graph.distances(*root).contains_key(&ranks[0])).filter_map(depth).min();
                prop_assert_eq!(Some(tree.levels() - 1), least);
            }
            Err(TreeError::Partitioned(parts)) => {
                prop_assert!(!connected);
                prop_assert!(parts.len() > 1);
                prop_assert_eq!(parts.iter().map(|part| part.ranks.len()).sum::<usize>(), ranks.len());
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn the_plan_does_not_depend_on_the_order_of_members((links, ranks) in graphs(), seed in any::<u64>()) {
        let links: Vec<_> = links.into_iter().filter(|(a, b)| a != b).collect();
        let (graph, mut members) = network(&links, &ranks);
        let first = plan(&graph, &members, &BTreeSet::new());
        members.rotate_left(seed as usize % ranks.len());
        members.reverse();
        prop_assert_eq!(first, plan(&graph, &members, &BTreeSet::new()));
    }
}
