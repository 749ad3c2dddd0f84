"""What a ring of hosts would send over each link."""

from __future__ import annotations

import pytest

from inca_net import topology
from inca_net.links import ring_bytes


@pytest.mark.parametrize(
    ("workers", "crossings"),
    # A ring in rank order enters and leaves every leaf that has workers once.
    [([4, 4], {"leaf1": 2, "leaf2": 2}), ([3, 1], {"leaf1": 2, "leaf2": 2}), ([2, 0], {"leaf1": 0, "leaf2": 0})],
)
def test_ring_crosses_a_leafs_up_link_twice(workers: list[int], crossings: dict[str, int]) -> None:
    network = topology.tree2("n", workers)
    world = sum(workers)
    for leaf, times in crossings.items():
        assert ring_bytes(network, "spine1", leaf, 1000 * world) == times * 2 * (world - 1) * 1000


def test_host_link_carries_a_ring_in_and_out() -> None:
    network = topology.tree3("n", [2, 1, 1])
    for host in network.hosts:
        assert ring_bytes(network, host.name, host.switch, 4000) == 2 * 2 * 3 * 1000
