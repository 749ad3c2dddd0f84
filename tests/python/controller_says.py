"""What a controller's REST API says that it has installed in a switch, to be compared with what others read there."""

from __future__ import annotations

import ipaddress
import json
import urllib.request
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 10


@dataclass(frozen=True)
class Installed:
    """One switch with the ranks of one job, all of them attached to it."""

    # Network address and length of each route, and its port.
    routes: dict[tuple[int, int], int]
    # (tree, ingress port, rank) of each member; the generation and the slots of all.
    members: set[tuple[int, int, int]]
    generation: int
    slots: int
    trees: set[int]
    # Each multicast group's ports.
    groups: list[list[int]]


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{address}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def installed(address: str, job: str) -> Installed:
    """Ask the controller at `address` for the job's trees on its only switch."""
    (switch,) = ask(address, "/v1/switches")
    (group,) = ask(address, f"/v1/jobs/{job}")
    hosts = {host["address"]: host["port"] for host in ask(address, "/v1/hosts")}
    plan = ask(address, "/v1/plan", {"job": job})
    # Links from hosts come in the order of the ranks.
    ports = [link["to_port"] for link in plan["links"] if link["from_port"] == 0]
    (node,) = group["tree"]
    assert node["ranks"] == list(range(len(ports))) == group["joined_ranks"], (node, ports)
    assert switch["slots_used"] == plan["slots"][0]["needed"], (switch, plan["slots"])
    return Installed(
        routes={(int(ipaddress.IPv4Address(host)), 32): port for host, port in hosts.items()},
        members={(node["tree_id"], port, rank) for rank, port in enumerate(ports)},
        generation=group["generation"],
        slots=switch["slots_used"],
        trees={node["tree_id"]},
        groups=[sorted(ports)],
    )
