"""The management network: how hosts reach the controller. A bridge of its own, apart from the data plane."""

from __future__ import annotations

import ipaddress
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .nodes import FabricHost

BRIDGE = "mgmt0"
SUBNET = ipaddress.ip_network("172.31.240.0/20")
CONTROLLER_ADDRESS = str(SUBNET[1])
FIRST_HOST = 16


def management_address(index: int) -> str:
    """Management address of the host with this index (from 0)."""
    return str(SUBNET[FIRST_HOST + index])


def build(hosts: Sequence[FabricHost]) -> None:
    """Makes the bridge with the controller's address and one veth pair per host."""
    prefix = SUBNET.prefixlen
    lines = [
        f"link add name {BRIDGE} type bridge",
        f"addr add {CONTROLLER_ADDRESS}/{prefix} dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]
    for index, host in enumerate(hosts):
        outer, inner = f"mgmt-{index}", f"{host.name}-mgmt"
        lines += [
            f"link add name {outer} type veth peer name {inner} netns {host.pid}",
            f"link set {outer} master {BRIDGE} up",
        ]
    # What a network before this one left: its hosts' namespaces, with the cables into them, end when the kernel likes.
    remove()
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=False, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"building the management network: {done.stderr.strip()}")
    for index, host in enumerate(hosts):
        host.cmd(
            f"ip addr add {management_address(index)}/{prefix} dev {host.name}-mgmt && ip link set {host.name}-mgmt up"
        )


def remove() -> None:
    """Removes the bridge and the hosts' cables to it, which would stay until each host's last process is gone."""
    for name in [BRIDGE, *(path.name for path in Path("/sys/class/net").glob("mgmt-*"))]:
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
