"""Bytes over the links of a running network, and what a ring of its hosts would have sent there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .topology import Network

# Emulations need Mininet, arithmetic over a network does not.
if TYPE_CHECKING:
    from .emulation import Emulation


@dataclass(frozen=True)
class LinkBytes:
    """Bytes over one link, both directions together, and the payload of a ring all-reduce there."""

    name: str
    bytes: int
    ring_bytes: int


def link_bytes(emulation: Emulation, tensor_bytes: int) -> list[LinkBytes]:
    """Counted so far at the switches' ports: host links in order, then switch links."""
    network = emulation.network
    links = [(host.name, host.switch, host.port) for host in network.hosts]
    links += [(link.b, link.a, link.a_port) for link in network.links]
    return [
        LinkBytes(f"{far}-{switch}", counted(f"{switch}-eth{port}"), ring_bytes(network, far, switch, tensor_bytes))
        for far, switch, port in links
    ]


def counted(interface: str) -> int:
    """Bytes received and sent by an interface of this namespace."""
    folder = Path("/sys/class/net") / interface / "statistics"
    return sum(int((folder / name).read_text()) for name in ("rx_bytes", "tx_bytes"))


def ring_bytes(network: Network, a: str, b: str, tensor_bytes: int) -> int:
    """What a ring in rank order sends over the link between two nodes, the only one between two parts of the network.

    Each of n hosts sends 2 (n - 1) / n of the tensor to its successor (reduce-scatter, then all-gather: Patarasuk and
    Yuan, 2009); an edge of the ring crosses the link if its ends are on different sides.
    """
    side = reachable(network, a, (a, b))
    hosts = [host.name in side for host in network.hosts]
    crossings = sum(here != there for here, there in zip(hosts, hosts[1:] + hosts[:1], strict=True))
    return crossings * 2 * (len(hosts) - 1) * tensor_bytes // len(hosts)


def reachable(network: Network, start: str, without: tuple[str, str]) -> set[str]:
    """Nodes that can be reached from one when a link is taken out."""
    edges = [(link.a, link.b) for link in network.links] + [(host.name, host.switch) for host in network.hosts]
    edges = [edge for edge in edges if set(edge) != set(without)]
    found, todo = {start}, [start]
    while todo:
        node = todo.pop()
        for x, y in edges:
            for here, there in ((x, y), (y, x)):
                if here == node and there not in found:
                    found.add(there)
                    todo.append(there)
    return found
