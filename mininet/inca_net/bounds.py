"""What the links allow: the least time of an allreduce, from the bytes that each link has to carry, headers included.

Bytes are those that the shaper of a link counts: an Ethernet frame without preamble, gap and check sum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .links import reachable
from .topology import Network

WORD_BITS = 2048
# Ethernet, IPv4, UDP and ours.
TREE_HEADER = 14 + 20 + 8 + 40
# Ethernet, IPv4 and TCP with time stamps.
TCP_HEADER = 14 + 20 + 32
ELEMENT_BYTES = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1, "i64": 8}


@dataclass(frozen=True)
class Bound:
    """The least time, and the link that sets it."""

    seconds: float
    link: str


def tree_bound(network: Network, size: int, dtype: str, number_format: str, chunk_words: int) -> Bound | None:
    """Of a reduction tree: a host link carries each chunk once up and once down, a link between switches twice up, once
    for each plane of its wide sums, and once down. None where no link has a rate, or for formats of several passes."""
    bits = re.search(r"(\d+)$", number_format)
    if bits is None:
        return None
    lanes = WORD_BITS // int(bits[1])
    words = math.ceil(size / ELEMENT_BYTES[dtype] / lanes)
    # The last chunk has only the words that it needs.
    frames = math.ceil(words / chunk_words) * TREE_HEADER + words * WORD_BITS // 8
    loads = [(f"{host.name}-{host.switch}", float(frames), network.rate_mbit) for host in network.hosts]
    if len(used_switches(network)) > 1:
        loads += [
            (f"{link.a}-{link.b}", 2.0 * frames, network.rate_mbit if link.rate_mbit is None else link.rate_mbit)
            for link in network.links
        ]
    return slowest(loads)


def ring_bound(network: Network, size: int) -> Bound | None:
    """Of a perfect ring in rank order over TCP: each of n hosts sends 2 (n - 1) / n of the tensor to its successor
    (Patarasuk and Yuan, 2009). A link that is no bridge between two parts of the network is left out."""
    world = len(network.hosts)
    segment = network.mtu - 20 - 32
    payload = 2 * (world - 1) * size / world
    edge = payload * (segment + TCP_HEADER) / segment
    loads = [(f"{host.name}-{host.switch}", edge, network.rate_mbit) for host in network.hosts]
    for link in network.links:
        side = reachable(network, link.b, (link.a, link.b))
        if link.a in side:
            continue
        here = [host.name in side for host in network.hosts]
        # As many edges of the ring lead out of a part as into it.
        out = sum(one and not other for one, other in zip(here, here[1:] + here[:1], strict=True))
        loads.append(
            (f"{link.a}-{link.b}", out * edge, network.rate_mbit if link.rate_mbit is None else link.rate_mbit)
        )
    return slowest(loads)


def slowest(loads: Sequence[tuple[str, float, float | None]]) -> Bound | None:
    """The link that needs longest for its bytes."""
    bounds = [Bound(amount * 8 / (rate * 1e6), name) for name, amount, rate in loads if rate is not None]
    return max(bounds, key=lambda bound: bound.seconds) if bounds else None


def used_switches(network: Network) -> set[str]:
    """Switches with hosts: if they are several, sums cross links between switches."""
    return {host.switch for host in network.hosts}
