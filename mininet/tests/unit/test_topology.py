"""Shapes, names and addresses: everything that is refused before the kernel is touched."""

from __future__ import annotations

import pytest

from inca_net import topology
from inca_net.topology import LinkRequest, Network, NetworkRequest, TopologyError


def ends(network: Network) -> set[tuple[str, str]]:
    return {(link.a, link.b) for link in network.links}


def test_single_switch_has_one_leaf_and_no_links() -> None:
    network = topology.single("n", [3])
    assert [switch.name for switch in network.switches] == ["leaf1"]
    assert [(host.name, host.port, host.address) for host in network.hosts] == [
        ("h1", 1, "10.0.1.1"),
        ("h2", 2, "10.0.1.2"),
        ("h3", 3, "10.0.1.3"),
    ]
    assert network.links == ()


def test_leaf_spine_links_every_leaf_to_every_spine() -> None:
    network = topology.tree2("n", [5, 1, 2], spines=2)
    assert ends(network) == {(f"leaf{leaf}", f"spine{spine}") for leaf in (1, 2, 3) for spine in (1, 2)}
    assert [host.switch for host in network.hosts] == ["leaf1"] * 5 + ["leaf2"] + ["leaf3"] * 2
    assert network.ports("leaf1") == [1, 2, 3, 4, 5, 6, 7]
    assert network.ports("spine2") == [1, 2, 3]


def test_leaf_without_workers_is_kept() -> None:
    network = topology.tree2("n", [2, 0])
    assert network.ports("leaf2") == [1]
    assert {host.switch for host in network.hosts} == {"leaf1"}


def test_three_levels_put_two_leaves_under_an_aggregation_switch() -> None:
    network = topology.tree3("n", [1, 1, 1])
    assert ends(network) == {
        ("leaf1", "agg1"),
        ("leaf2", "agg1"),
        ("leaf3", "agg2"),
        ("agg1", "core1"),
        ("agg2", "core1"),
    }


def test_line_links_neighbours() -> None:
    assert ends(topology.line("n", [1, 1, 1])) == {("leaf1", "leaf2"), ("leaf2", "leaf3")}


def test_device_ids_count_from_one_and_addresses_are_unique() -> None:
    network = topology.tree3("n", [3] * 7)
    assert [switch.device_id for switch in network.switches] == list(range(1, len(network.switches) + 1))
    assert len({host.address for host in network.hosts}) == 21


@pytest.mark.parametrize(("text", "workers"), [("5,1,2", [5, 1, 2]), ("3+1", [3, 1]), ("2+0", [2, 0]), ("4", [4])])
def test_workers_per_leaf_are_read(text: str, workers: list[int]) -> None:
    assert topology.parse_workers(text) == workers


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("averyveryverylongname", "at most 15 are valid"),
        ("leafnumber", "at most 15 are valid"),
        ("knöten", "lower-case ASCII"),
        ("h 1", "lower-case ASCII"),
        ("s1; reboot", "lower-case ASCII"),
        ("Leaf", "lower-case ASCII"),
        ("", "lower-case ASCII"),
        ("lo", "reserved"),
        ("mgmt0", "reserved"),
    ],
)
def test_m5_bad_switch_names_are_refused(name: str, problem: str) -> None:
    request = NetworkRequest("n", [name, "s2"], [("h1", "s2")], [LinkRequest(name, "s2") for _ in range(10)])
    with pytest.raises(TopologyError, match=problem):
        request.build()


def test_m5_longest_valid_name_is_accepted_and_one_more_is_not() -> None:
    assert NetworkRequest("n", ["abcdefghij"], [("h1", "abcdefghij")]).build().ports("abcdefghij") == [1]
    with pytest.raises(TopologyError, match="the name may have 10"):
        NetworkRequest("n", ["abcdefghijk"], [("h1", "abcdefghijk")]).build()


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (NetworkRequest("n", ["s1", "s1"]), "name 's1': used twice"),
        (NetworkRequest("n", ["s1"], [("s1", "s1")]), "name 's1': used twice"),
        (NetworkRequest("n", ["s1"], [("h1", "s1"), ("h1", "s1")]), "name 'h1': used twice"),
        (NetworkRequest("n", ["s1"], [("h1", "s2")]), "unknown switch 's2', known are s1"),
        (NetworkRequest("n", ["s1"], links=[LinkRequest("s1", "s9")]), "unknown switch 's9'"),
        (NetworkRequest("n", ["s1"], links=[LinkRequest("s1", "s1")]), "both ends"),
        (NetworkRequest("n", ["s1", "s2"]), "no path to 's1'"),
        (NetworkRequest("n", []), "no switches"),
        (NetworkRequest("n", ["s1"]), "no hosts"),
        (NetworkRequest("n", ["s1"], mtu=9501), "576 to 9500"),
        (NetworkRequest("n", ["s1"], loss=1.0), "probability"),
        (NetworkRequest("n", ["s1"], loss=-0.1), "probability"),
        (NetworkRequest("n", ["s1"], rate_mbit=0.0), "Mbit/s"),
        (NetworkRequest("../n", ["s1"]), "1 to 64"),
        (NetworkRequest("n", ["s1"], [(f"h{i}", "s1") for i in range(255)]), "more than 254"),
    ],
)
def test_impossible_networks_are_refused(request_: NetworkRequest, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        request_.build()


@pytest.mark.parametrize(
    ("kind", "workers", "spines", "problem"),
    [
        ("single", [1, 1], 1, "takes 1"),
        ("tree2", [0, 0], 1, "at least 1 worker"),
        ("tree2", [-1, 2], 1, "at least 1 worker"),
        ("tree2", [1], 0, "at least 1 is needed"),
        ("line", [1, 1], 2, "only tree2 has spines"),
        ("torus", [1], 1, "known are single, tree2, tree3, line"),
    ],
)
def test_impossible_shapes_are_refused(kind: str, workers: list[int], spines: int, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        topology.shape(kind, "n", workers, spines)
