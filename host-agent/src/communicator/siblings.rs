//! Which ranks are below each child of a leaf switch, as the controller's status tells.

use inca_p4runtime::northbound::TreeNode;

/// Per child bit of the switch that `rank` is attached to in a tree, the ranks below that child. Child bits count a switch's ranks first, then
/// its child switches, in the order of the status. Empty if the status does not hold the tree.
pub(super) fn leaf_children(nodes: &[TreeNode], tree_id: u32, rank: u32) -> Vec<Vec<u32>> {
    let leaf = nodes.iter().find(|node| node.tree_id == tree_id && node.ranks.contains(&rank));
    let Some(leaf) = leaf else { return Vec::new() };
    let mut children: Vec<_> = leaf.ranks.iter().map(|rank| vec![*rank]).collect();
    children.extend(leaf.child_switches.iter().map(|name| below(nodes, tree_id, name)));
    // The parent is no child: ranks beyond it can't be told apart from here.
    children
}

fn below(nodes: &[TreeNode], tree_id: u32, switch: &str) -> Vec<u32> {
    let mut ranks = Vec::new();
    let mut switches = vec![switch];
    // Each switch is in a tree once, so a status that is no tree does not keep us here.
    for _ in 0..nodes.len() {
        let Some(switch) = switches.pop() else { break };
        let node = nodes.iter().find(|node| node.tree_id == tree_id && node.switch_name == switch);
        let Some(node) = node else { continue };
        ranks.extend(&node.ranks);
        switches.extend(node.child_switches.iter().map(String::as_str));
    }
    ranks.sort_unstable();
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(tree_id: u32, name: &str, ranks: &[u32], children: &[&str]) -> TreeNode {
        TreeNode {
            tree_id,
            switch_name: name.to_owned(),
            ranks: ranks.to_vec(),
            child_switches: children.iter().map(|name| (*name).to_owned()).collect(),
            ..TreeNode::default()
        }
    }

    #[test]
    fn children_are_ranks_then_switches_with_all_below_them() {
        let nodes = [
            node(1, "s4", &[5, 4], &[]),
            node(1, "s3", &[3], &["s4"]),
            node(1, "s2", &[2], &[]),
            node(1, "s1", &[0, 1], &["s2", "s3"]),
            node(2, "s1", &[9], &[]),
        ];
        assert_eq!(leaf_children(&nodes, 1, 1), [vec![0], vec![1], vec![2], vec![3, 4, 5]]);
        assert_eq!(leaf_children(&nodes, 1, 3), [vec![3], vec![4, 5]]);
        assert_eq!(leaf_children(&nodes, 2, 9), [vec![9]]);
        assert!(leaf_children(&nodes, 3, 0).is_empty());
    }

    #[test]
    fn a_status_with_a_loop_ends() {
        let nodes = [node(1, "s1", &[0], &["s2"]), node(1, "s2", &[1], &["s1"])];
        assert_eq!(leaf_children(&nodes, 1, 0).len(), 2);
    }
}
