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
from typing import NoReturn

import yaml

from .topology import LinkRequest, Network, NetworkRequest, TopologyError, shape

KEYS = ("name", "mtu", "loss", "rate", "switches", "hosts", "links", "topology", "workers", "spines")
LINK_KEYS = ("a", "b", "loss", "rate")


def read_network(path: Path) -> Network:
    """The network that a file describes."""
    try:
        # utf-8-sig: editors on other systems put a byte order mark in front.
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: byte {error.start}: not UTF-8") from None
    return parse_network(text, str(path), path.stem)


def parse_network(text: str, source: str, default_name: str) -> Network:
    """The network that YAML text describes; `source` stands in front of every message."""
    return _Reader(source).network(text.replace("\r\n", "\n"), default_name)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source

    def network(self, text: str, default_name: str) -> Network:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"{mark.line + 1}:{mark.column + 1}: " if mark else ""
            problem = error.problem or "not valid YAML"
            if "\\t" in problem:
                problem = "tab in the indentation, only spaces are valid"
            raise TopologyError(f"{self.source}:{where}{problem}") from None
        except yaml.YAMLError as error:
            raise TopologyError(f"{self.source}: {error}") from None
        except RecursionError:
            raise TopologyError(f"{self.source}: nested too deeply, a network has three levels") from None
        if root is None:
            raise TopologyError(f"{self.source}: empty, valid keys are {', '.join(KEYS)}")
        top = self.mapping(root, "network", KEYS)
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

    def mapping(self, node: yaml.Node, what: str, keys: tuple[str, ...] | None) -> dict[str, yaml.Node]:
        """Key to value node; unlike YAML's own loader it refuses a key that comes twice."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{what}: a mapping is expected")
        found: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self.text(key_node)
            if keys is not None and key not in keys:
                self.fail(key_node, f"unknown key '{key}', valid are {', '.join(keys)}")
            if key in found:
                first = found[key].start_mark
                self.fail(key_node, f"key '{key}' twice, first on line {first.line + 1}")
            found[key] = value
        return found

    def sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{what}: a list is expected")
        return list(node.value)

    def text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.fail(node, "a plain value is expected")
        return str(node.value)

    def integer(self, node: yaml.Node) -> int:
        text = self.text(node)
        if not text.lstrip("-").isdigit():
            self.fail(node, f"'{text}' is not a whole number")
        return int(text)

    def number(self, node: yaml.Node) -> float:
        text = self.text(node)
        try:
            return float(text)
        except ValueError:
            self.fail(node, f"'{text}' is not a number")

    def fail(self, node: yaml.Node, problem: str) -> NoReturn:
        mark = node.start_mark
        raise TopologyError(f"{self.source}:{mark.line + 1}:{mark.column + 1}: {problem}")
