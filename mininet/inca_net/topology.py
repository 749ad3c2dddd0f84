"""What an emulated network is made of, as plain data, checked before anything touches the kernel.

Ranks follow the order of the hosts. Ports are numbered from 1 in the order in which links are given, hosts after links
between switches; both ends of a link are therefore known here, without asking Mininet.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

# IFNAMSIZ is 16 with the terminating zero.
MAX_INTERFACE_NAME = 15
NAME_PATTERN = re.compile(r"[a-z][a-z0-9]*")
RESERVED_NAMES = frozenset({"lo", "mgmt", "mgmt0", "controller", "all", "default", "root"})
FABRIC_SUBNET = ipaddress.ip_network("10.0.0.0/8")
SERVICE_SUBNET = ipaddress.ip_network("10.255.0.0/16")
# BMv2 takes 9-bit ports, 255 is the CPU port; 0 is not used because Mininet counts from 1.
MAX_PORTS = 254
MIN_MTU = 576
MAX_MTU = 9500
# How many leaves of a three-level tree share an aggregation switch.
LEAVES_PER_POD = 2


class TopologyError(ValueError):
    """A network that can't be built; the message says which part, what was given and what is valid."""


@dataclass(frozen=True)
class SwitchSpec:
    """A switch and its P4Runtime device id (1 and up)."""

    name: str
    device_id: int


@dataclass(frozen=True)
class HostSpec:
    """A worker: `switch` is the leaf it hangs on, `address` its data-plane IPv4 address."""

    name: str
    switch: str
    address: str
    port: int

    @property
    def interface(self) -> str:
        """Name of the data-plane interface inside the host."""
        return f"{self.name}-eth0"


@dataclass(frozen=True)
class LinkSpec:
    """A link between two switches; `loss` is the probability that a packet is lost, in each direction."""

    a: str
    a_port: int
    b: str
    b_port: int
    loss: float | None = None
    rate_mbit: float | None = None


@dataclass(frozen=True)
class Network:
    """A whole network. `loss` and `rate_mbit` hold for every link that has none of its own."""

    name: str
    switches: tuple[SwitchSpec, ...]
    hosts: tuple[HostSpec, ...]
    links: tuple[LinkSpec, ...]
    mtu: int = 1500
    loss: float = 0.0
    rate_mbit: float | None = None

    def ports(self, switch: str) -> list[int]:
        """Ports of one switch in ascending order."""
        ports = [h.port for h in self.hosts if h.switch == switch]
        for link in self.links:
            ports += [port for end, port in ((link.a, link.a_port), (link.b, link.b_port)) if end == switch]
        return sorted(ports)

    def describe(self) -> str:
        """One line a person can read: `leaf1(h1 h2) leaf2(h3) spine1`."""
        parts = []
        for switch in self.switches:
            hosts = " ".join(h.name for h in self.hosts if h.switch == switch.name)
            parts.append(f"{switch.name}({hosts})" if hosts else switch.name)
        return " ".join(parts)


@dataclass
class LinkRequest:
    """A link as it is asked for, before ports are given out."""

    a: str
    b: str
    loss: float | None = None
    rate_mbit: float | None = None


@dataclass
class NetworkRequest:
    """Names only; `build` checks them and gives out ids, ports and addresses."""

    name: str
    switches: list[str] = field(default_factory=list)
    hosts: list[tuple[str, str]] = field(default_factory=list)
    links: list[LinkRequest] = field(default_factory=list)
    mtu: int = 1500
    loss: float = 0.0
    rate_mbit: float | None = None

    def build(self) -> Network:
        """Checks everything that can be known without the kernel and returns the network."""
        check_run_name(self.name)
        if not self.switches:
            raise TopologyError(f"network '{self.name}': no switches, at least 1 is needed")
        check_names([*self.switches, *(name for name, _ in self.hosts)])
        check_mtu(self.mtu)
        check_loss("loss", self.loss)
        check_rate("rate", self.rate_mbit)

        known = set(self.switches)
        next_port = dict.fromkeys(self.switches, 1)
        hosts_on = dict.fromkeys(self.switches, 0)
        links = [self._link(link, known, next_port) for link in self.links]
        hosts = []
        for name, switch in self.hosts:
            if switch not in known:
                raise TopologyError(f"host '{name}': unknown switch '{switch}', known are {', '.join(self.switches)}")
            hosts_on[switch] += 1
            leaf = self.switches.index(switch) + 1
            hosts.append(HostSpec(name, switch, host_address(leaf, hosts_on[switch]), take_port(next_port, switch)))
        check_connected(self.switches, links)
        if not self.hosts:
            raise TopologyError(f"network '{self.name}': no hosts, at least 1 is needed")
        switches = tuple(SwitchSpec(name, index + 1) for index, name in enumerate(self.switches))
        network = Network(self.name, switches, tuple(hosts), tuple(links), self.mtu, self.loss, self.rate_mbit)
        check_interface_names(network)
        return network

    def _link(self, link: LinkRequest, known: set[str], next_port: dict[str, int]) -> LinkSpec:
        for end in (link.a, link.b):
            if end not in known:
                raise TopologyError(f"link {link.a} - {link.b}: unknown switch '{end}', known are {', '.join(known)}")
        if link.a == link.b:
            raise TopologyError(f"link {link.a} - {link.b}: both ends are the same switch")
        if link.loss is not None:
            check_loss(f"link {link.a} - {link.b}: loss", link.loss)
        check_rate(f"link {link.a} - {link.b}: rate", link.rate_mbit)
        return LinkSpec(
            link.a, take_port(next_port, link.a), link.b, take_port(next_port, link.b), link.loss, link.rate_mbit
        )


def single(name: str, workers: Sequence[int], **options: float | int | None) -> Network:
    """One switch; `workers` has one entry."""
    if len(workers) != 1:
        raise TopologyError(f"single: {len(workers)} leaves given, a single switch takes 1 (use tree2 for more)")
    return _leaves(name, workers, [], [], options)


def tree2(name: str, workers: Sequence[int], spines: int = 1, **options: float | int | None) -> Network:
    """Leaf and spine: every leaf is linked to every spine."""
    if spines < 1:
        raise TopologyError(f"tree2: {spines} spines given, at least 1 is needed")
    upper = [f"spine{i + 1}" for i in range(spines)]
    links = [LinkRequest(f"leaf{i + 1}", spine) for i in range(len(workers)) for spine in upper]
    return _leaves(name, workers, upper, links, options)


def tree3(name: str, workers: Sequence[int], **options: float | int | None) -> Network:
    """Three levels: two leaves to an aggregation switch, all of those to one core."""
    pods = (len(workers) + LEAVES_PER_POD - 1) // LEAVES_PER_POD
    upper = [f"agg{i + 1}" for i in range(pods)] + ["core1"]
    links = [LinkRequest(f"leaf{i + 1}", f"agg{i // LEAVES_PER_POD + 1}") for i in range(len(workers))]
    links += [LinkRequest(f"agg{i + 1}", "core1") for i in range(pods)]
    return _leaves(name, workers, upper, links, options)


def line(name: str, workers: Sequence[int], **options: float | int | None) -> Network:
    """Switches in a row: inner ones have hosts and switches as children."""
    links = [LinkRequest(f"leaf{i + 1}", f"leaf{i + 2}") for i in range(len(workers) - 1)]
    return _leaves(name, workers, [], links, options)


SHAPES: dict[str, Callable[..., Network]] = {"single": single, "tree2": tree2, "tree3": tree3, "line": line}


def shape(kind: str, name: str, workers: Sequence[int], spines: int = 1, **options: float | int | None) -> Network:
    """A named shape; `spines` is for tree2 only."""
    if kind not in SHAPES:
        raise TopologyError(f"unknown topology '{kind}', known are {', '.join(SHAPES)}")
    if kind == "tree2":
        return tree2(name, workers, spines, **options)
    if spines != 1:
        raise TopologyError(f"{kind}: spines given ({spines}), only tree2 has spines")
    return SHAPES[kind](name, workers, **options)


def parse_workers(text: str) -> list[int]:
    """`5,1,2` or `3+1`: workers per leaf."""
    try:
        workers = [int(part) for part in re.split(r"[,+]", text)]
    except ValueError:
        raise TopologyError(f"workers '{text}': not a list of numbers such as 5,1,2") from None
    return workers


def _leaves(
    name: str,
    workers: Sequence[int],
    upper: Iterable[str],
    links: list[LinkRequest],
    options: dict[str, float | int | None],
) -> Network:
    if not workers:
        raise TopologyError("workers: empty, at least one leaf is needed")
    if any(count < 0 for count in workers) or sum(workers) < 1:
        raise TopologyError(f"workers {list(workers)}: counts from 0 with at least 1 worker in all are valid")
    request = NetworkRequest(name, [f"leaf{i + 1}" for i in range(len(workers))] + list(upper), links=links)
    hosts = 0
    for leaf, count in enumerate(workers):
        for _ in range(count):
            hosts += 1
            request.hosts.append((f"h{hosts}", f"leaf{leaf + 1}"))
    for key, value in options.items():
        if value is not None:
            setattr(request, key, value)
    return request.build()


def host_address(leaf: int, host: int) -> str:
    """10.0.0.0/8 without the service subnet: 10.<leaf high>.<leaf low>.<host>, leaf and host from 1."""
    if host > 254:
        raise TopologyError(f"leaf {leaf}: more than 254 hosts")
    address = ipaddress.ip_address(f"10.{leaf >> 8}.{leaf & 255}.{host}")
    if address in SERVICE_SUBNET:
        raise TopologyError(f"leaf {leaf}: address {address} would lie in the service subnet {SERVICE_SUBNET}")
    return str(address)


def take_port(next_port: dict[str, int], switch: str) -> int:
    """The next free port of a switch."""
    port = next_port[switch]
    if port > MAX_PORTS:
        raise TopologyError(f"switch '{switch}': more than {MAX_PORTS} ports")
    next_port[switch] = port + 1
    return port


def check_run_name(name: str) -> None:
    """The emulation's own name: used for the lock and the run directory."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise TopologyError(f"name {name!r}: 1 to 64 letters, digits, '.', '_' or '-' are valid")


def check_names(names: Sequence[str]) -> None:
    """Node names become interface names and host names, so they are short, lower-case ASCII and unique."""
    seen: set[str] = set()
    for name in names:
        if not NAME_PATTERN.fullmatch(name):
            raise TopologyError(f"name {name!r}: a lower-case ASCII letter followed by letters and digits is valid")
        if name in RESERVED_NAMES:
            raise TopologyError(f"name '{name}': reserved, not valid are {', '.join(sorted(RESERVED_NAMES))}")
        if name in seen:
            raise TopologyError(f"name '{name}': used twice; hosts and switches share one set of names")
        seen.add(name)


def check_interface_names(network: Network) -> None:
    """Linux refuses interface names over 15 bytes, half-way through building a network: refuse them before."""
    interfaces = [f"{host.name}-mgmt" for host in network.hosts]
    for switch in network.switches:
        interfaces += [f"{switch.name}-eth{port}" for port in network.ports(switch.name)]
    for interface in interfaces:
        if len(interface) > MAX_INTERFACE_NAME:
            node, _, suffix = interface.rpartition("-")
            raise TopologyError(
                f"name '{node}': its interface '{interface}' has {len(interface)} characters, "
                f"at most {MAX_INTERFACE_NAME} are valid, so the name may have {MAX_INTERFACE_NAME - len(suffix) - 1}"
            )


def check_connected(switches: Sequence[str], links: Sequence[LinkSpec]) -> None:
    """Every switch must be reachable from the first, or no tree spans the hosts."""
    reached = {switches[0]}
    while True:
        more = {end for link in links for end in (link.a, link.b) if {link.a, link.b} & reached} - reached
        if not more:
            break
        reached |= more
    missing = [name for name in switches if name not in reached]
    if missing:
        raise TopologyError(f"switch '{missing[0]}': no path to '{switches[0]}'")


def check_mtu(mtu: int) -> None:
    """MTU of every data-plane interface, in bytes."""
    if not MIN_MTU <= mtu <= MAX_MTU:
        raise TopologyError(f"mtu {mtu}: {MIN_MTU} to {MAX_MTU} is valid")


def check_loss(what: str, loss: float) -> None:
    """A probability; 1 would mean that nothing ever arrives."""
    if not 0.0 <= loss < 1.0:
        raise TopologyError(f"{what} {loss}: a probability from 0 to below 1 is valid")


def check_rate(what: str, rate_mbit: float | None) -> None:
    """Megabits per second."""
    if rate_mbit is not None and not 0.1 <= rate_mbit <= 100_000:
        raise TopologyError(f"{what} {rate_mbit}: 0.1 to 100000 Mbit/s is valid")
