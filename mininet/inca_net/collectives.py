"""Bytes that each collective puts on the hosts' links, beside the least that any way of doing it must.

Prints a table, headers apart; writes `target/reports/bench-collectives.json`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .demo import switch_text
from .emulation import Emulation
from .jobs import run_perf, wrong_elements
from .nodes import ROOT

REPORTS = ROOT / "target" / "reports"
# Ethernet, IPv4, UDP and ours; Ethernet, IPv4 and TCP with time stamps.
TREE_HEADER, TCP_HEADER = 14 + 20 + 8 + 40, 14 + 20 + 32
SECONDS = 120.0


@dataclass(frozen=True)
class Link:
    """What went over a host's link, and the least there must, each in tensors' sizes."""

    collective: str
    host: str
    up: float
    least_up: float
    down: float
    least_down: float


def least(collective: str, ranks: int) -> dict[str, tuple[float, float]]:
    """Least up and down at the root (rank 0) and elsewhere, of each byte of the whole tensor."""
    part = 1 / ranks
    both = {
        "allreduce": (1.0, 1.0),
        "allgather": (part, 1 - part),
        "reduce-scatter": (1 - part, part),
        "alltoall": (1 - part, 1 - part),
        "sendrecv": (1.0, 1.0),
        "barrier": (0.0, 0.0),
    }
    if collective == "reduce":
        return {"root": (1.0, 1.0), "others": (1.0, 0.0)}
    if collective == "broadcast":
        return {"root": (1.0, 0.0), "others": (0.0, 1.0)}
    return {"root": both[collective], "others": both[collective]}


COLLECTIVES = ("allreduce", "reduce", "broadcast", "allgather", "reduce-scatter", "alltoall", "sendrecv", "barrier")


def counted(interface: str) -> dict[str, int]:
    """Bytes and packets, from the host (rx at the switch) and to it (tx), without acknowledgements and small talk."""
    folder = Path("/sys/class/net") / interface / "statistics"
    return {
        f"{way}_{what}": int((folder / f"{way}_{what}").read_text())
        for way in ("rx", "tx")
        for what in ("bytes", "packets")
    }


def run(emulation: Emulation, size: int, as_json: bool) -> int:
    """Every collective once; 0 if all elements were right."""
    hosts = emulation.network.hosts
    ports = [f"{host.switch}-eth{host.port}" for host in hosts]
    rows: list[Link] = []
    wrong = 0
    for collective in COLLECTIVES:
        # Connections and addresses are there before it counts.
        arguments = ["-c", collective, "-d", "i32", "-b", str(size), "-e", str(size), "-w", "0"]
        usage = []
        for times in (1, 3):
            before = [counted(port) for port in ports]
            wrong += wrong_elements(
                run_perf(emulation, f"{collective}-{times}", [*arguments, "-n", str(times)], SECONDS)
            )
            usage.append(
                [
                    {key: now[key] - was[key] for key in was}
                    for was, now in zip(before, map(counted, ports), strict=True)
                ]
            )
        header = TCP_HEADER if collective in ("alltoall", "sendrecv") else TREE_HEADER
        bounds = least(collective, len(hosts))
        # Two operations more: joining and leaving cost the same in both.
        for rank in (0, 1):
            more = {key: usage[1][rank][key] - usage[0][rank][key] for key in usage[0][rank]}
            up, down = ((more[f"{way}_bytes"] - header * more[f"{way}_packets"]) / 2 / size for way in ("rx", "tx"))
            who = "root" if rank == 0 else "others"
            rows.append(Link(collective, who, up, bounds[who][0], down, bounds[who][1]))
    report = {
        "switch": switch_text(emulation),
        "ranks": len(hosts),
        "bytes": size,
        "wrong": wrong,
        "links": [asdict(row) for row in rows],
    }
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / "bench-collectives.json").write_text(json.dumps(report, indent=1) + "\n")
    if as_json:
        print(json.dumps(report))
    else:
        print(f"{len(hosts)} ranks, {size} bytes of i32, {report['switch']}; #wrong {wrong}")
        print("in sizes of the tensor, headers apart; repeats of lost packets count")
        print(f"{'collective':<16} {'host':<8} {'up':>8} {'least':>8} {'down':>8} {'least':>8}")
        for row in rows:
            figures = (row.up, row.least_up, row.down, row.least_down)
            print(f"{row.collective:<16} {row.host:<8} " + " ".join(f"{figure:>8.3f}" for figure in figures))
    return 1 if wrong else 0
