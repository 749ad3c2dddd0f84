"""Reads a network from YAML. Every complaint names file, line and column; nothing is started before all is read.

    name: uneven            # optional, default: the file's name
    mtu: 1500               # optional, as are loss (0.05) and rate (Mbit/s): defaults for all links
    switches: [leaf1, leaf2, spine1]
    hosts: {h1: leaf1, h2: leaf1, h3: leaf2}
    links:
      - [leaf1, spine1]
      - {a: leaf2, b: spine1, loss: 0.01, rate: 100}

or a shape instead of switches, hosts and links:

    topology: tree2         # single, tree2, tree3, line
    workers: [5, 1, 2]      # per leaf
    spines: 2               # tree2 only
"""

from __future__ import annotations

from pathlib import Path

import yaml

from .topology import LinkRequest, Network, NetworkRequest, TopologyError, shape
from .yaml_nodes import Nodes, read_text

KEYS = ("name", "mtu", "loss", "rate", "switches", "hosts", "links", "topology", "workers", "spines")
LINK_KEYS = ("a", "b", "loss", "rate")


def read_network(path: Path) -> Network:
    """The network that a file describes."""
    return parse_network(read_text(path), str(path), path.stem)


def parse_network(text: str, source: str, default_name: str) -> Network:
    """The network that YAML text describes; `source` stands in front of every message."""
    reader = NetworkReader(source)
    return reader.network(reader.root(text.replace("\r\n", "\n"), "a network", KEYS), default_name)


class NetworkReader(Nodes):
    """Reads networks, also those inside of another document, which may have further keys."""

    def network(self, root: yaml.Node, default_name: str, keys: tuple[str, ...] = KEYS) -> Network:
        """The network that a mapping describes."""
        top = self.mapping(root, "network", keys)
        name = self.text(top["name"]) if "name" in top else default_name
        options: dict[str, float | int | None] = {
            "mtu": self.integer(top["mtu"]) if "mtu" in top else None,
            "loss": self.number(top["loss"]) if "loss" in top else None,
            "rate_mbit": self.number(top["rate"]) if "rate" in top else None,
        }
        try:
            if "topology" in top:
                return self.shape(top, name, options)
            return self.graph(root, top, name, options)
        except TopologyError as error:
            if str(error).startswith(self.source):
                raise
            raise TopologyError(f"{self.source}: {error}") from None

    def shape(self, top: dict[str, yaml.Node], name: str, options: dict[str, float | int | None]) -> Network:
        for key in ("switches", "hosts", "links"):
            if key in top:
                self.fail(top[key], f"'{key}' together with 'topology', only one of them is valid")
        if "workers" not in top:
            self.fail(top["topology"], "'topology' needs 'workers', a count per leaf such as [5, 1, 2]")
        workers = [self.integer(node) for node in self.sequence(top["workers"], "workers")]
        spines = self.integer(top["spines"]) if "spines" in top else 1
        return shape(self.text(top["topology"]), name, workers, spines, **options)

    def graph(
        self, root: yaml.Node, top: dict[str, yaml.Node], name: str, options: dict[str, float | int | None]
    ) -> Network:
        for key in ("workers", "spines"):
            if key in top:
                self.fail(top[key], f"'{key}' without 'topology'")
        for key in ("switches", "hosts"):
            if key not in top:
                self.fail(root, f"'{key}' is missing (or give 'topology' and 'workers')")
        request = NetworkRequest(name)
        for node in self.sequence(top["switches"], "switches"):
            switch = self.text(node)
            if switch in request.switches:
                self.fail(node, f"switch '{switch}' twice")
            request.switches.append(switch)
        for host, node in self.mapping(top["hosts"], "hosts", None).items():
            switch = self.text(node)
            if switch not in request.switches:
                self.fail(node, f"host '{host}': unknown switch '{switch}', known are {', '.join(request.switches)}")
            request.hosts.append((host, switch))
        if "links" in top:
            request.links = [self.link(node, request.switches) for node in self.sequence(top["links"], "links")]
        for option, value in options.items():
            if value is not None:
                setattr(request, option, value)
        return request.build()

    def link(self, node: yaml.Node, switches: list[str]) -> LinkRequest:
        if isinstance(node, yaml.SequenceNode):
            if len(node.value) != 2:
                self.fail(node, f"link with {len(node.value)} ends, [a, b] is valid")
            ends = node.value
            parts: dict[str, yaml.Node] = {}
        else:
            parts = self.mapping(node, "link", LINK_KEYS)
            for key in ("a", "b"):
                if key not in parts:
                    self.fail(node, f"link: '{key}' is missing")
            ends = [parts["a"], parts["b"]]
        for end in ends:
            if self.text(end) not in switches:
                self.fail(end, f"link: unknown switch '{self.text(end)}', known are {', '.join(switches)}")
        loss = self.number(parts["loss"]) if "loss" in parts else None
        rate = self.number(parts["rate"]) if "rate" in parts else None
        return LinkRequest(self.text(ends[0]), self.text(ends[1]), loss, rate)
