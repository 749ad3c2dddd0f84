"""YAML descriptions: every complaint names line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from inca_net.topology import TopologyError
from inca_net.topology_file import parse_network, read_network

GRAPH = """\
name: mine
mtu: 9500
loss: 0.01
switches: [leaf1, leaf2, spine1]
hosts: {h1: leaf1, h2: leaf2}
links:
  - [leaf1, spine1]
  - {a: leaf2, b: spine1, loss: 0.2, rate: 100}
"""


def test_graph_is_read() -> None:
    network = parse_network(GRAPH, "f.yaml", "f")
    assert (network.name, network.mtu, network.loss) == ("mine", 9500, 0.01)
    links = [(link.a, link.loss, link.rate_mbit) for link in network.links]
    assert links == [("leaf1", None, None), ("leaf2", 0.2, 100)]
    assert [(host.name, host.switch) for host in network.hosts] == [("h1", "leaf1"), ("h2", "leaf2")]


def test_shape_is_read_and_named_after_the_file(tmp_path: Path) -> None:
    path = tmp_path / "uneven.yaml"
    path.write_text("topology: tree3\nworkers: [5, 1, 2]\n")
    network = read_network(path)
    assert network.name == "uneven"
    assert len(network.hosts) == 8


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_m4_files_from_other_systems_are_read(change: object, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(change(GRAPH).encode())  # type: ignore[operator]
    assert read_network(path) == parse_network(GRAPH, "f.yaml", "f")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("switches: [s1]\nhosts: {h1: s1}\nswitches: [s2]\n", "f.yaml:3:1: key 'switches' twice, first on line 1"),
        ("switches: [s1]\nhosts:\n  h1: s1\n  h1: s1\n", "f.yaml:4:3: key 'h1' twice, first on line 3"),
        ("switches: [s1, s1]\nhosts: {}\n", "f.yaml:1:16: switch 's1' twice"),
        ("switches: [s1]\nhosts:\n\th1: s1\n", "f.yaml:3:1: tab in the indentation"),
        ("topology: tree2\nwokers: [1]\n", "f.yaml:2:1: unknown key 'wokers', valid are name,"),
        ("switches: [s1]\nhosts: {}\n", "f.yaml: network 'f': no hosts"),
        ("hosts: " + "[" * 5000 + "]" * 5000, "f.yaml: nested too deeply"),
        ("", "f.yaml: empty"),
        ("# nothing\n", "f.yaml: empty"),
        ("- a\n", "f.yaml:1:1: network: a mapping is expected"),
        ("switches: [s1\nhosts: {}\n", "f.yaml:2:"),
        ("topology: tree2\n", "f.yaml:1:11: 'topology' needs 'workers'"),
        ("topology: tree2\nworkers: [one]\n", "f.yaml:2:11: 'one' is not a whole number"),
        ("topology: tree2\nworkers: 3\n", "f.yaml:2:10: workers: a list is expected"),
        ("topology: tree2\nworkers: [1]\nhosts: {}\n", "f.yaml:3:8: 'hosts' together with 'topology'"),
        ("topology: ring\nworkers: [1]\n", "f.yaml: unknown topology 'ring'"),
        ("switches: [s1]\nhosts: {h1: s2}\n", "f.yaml:2:13: host 'h1': unknown switch 's2'"),
        ("switches: [s1]\nhosts: {}\nlinks: [[s1]]\n", "f.yaml:3:9: link with 1 ends"),
        ("switches: [s1]\nhosts: {}\nlinks: [[s1, s9]]\n", "f.yaml:3:14: link: unknown switch 's9'"),
        ("switches: [s1, s2]\nhosts: {}\nlinks: [{a: s1, b: s2, los: 1}]\n", "f.yaml:3:24: unknown key 'los'"),
        ("switches: [s1]\nhosts: {}\nloss: much\n", "f.yaml:3:7: 'much' is not a number"),
        ("switches: [s1]\nhosts: {}\nloss: nan\n", "f.yaml: loss nan"),
        ("hosts: {}\n", "f.yaml:1:1: 'switches' is missing"),
    ],
)
def test_m4_mistakes_are_named_with_line_and_column(text: str, complaint: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_network(text, "f.yaml", "f")
    assert str(caught.value).startswith(complaint)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"absent\.yaml: No such file"):
        read_network(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9\n")
    with pytest.raises(TopologyError, match="byte 6: not UTF-8"):
        read_network(tmp_path / "latin.yaml")
