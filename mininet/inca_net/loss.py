"""What random loss on every link costs: the same sums without it and with it, on every switch there is.

Every element of every rank is compared with the reference. Goodput is the operation's bytes a second, as inca-agent
perf counts them (algbw). Every figure also goes to `target/reports/bench-loss.json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .emulation import Emulation, Settings, Worker
from .jobs import perf_command
from .nodes import ROOT
from .topology import Network, TopologyError

REPORT = ROOT / "target" / "reports" / "bench-loss.json"
SECONDS = 400.0


@dataclass(frozen=True)
class Row:
    """One switch at one loss rate."""

    switch: str
    loss: float
    bytes: int
    type: str
    ranks: int
    wrong: int
    retransmissions: int
    seconds: float
    goodput_mb_per_s: float


def parse_losses(text: str) -> list[float]:
    """`0,0.1`: probabilities."""
    try:
        losses = [float(part) for part in text.split(",")]
    except ValueError:
        raise TopologyError(f"losses '{text}': not a list of probabilities such as 0,0.1") from None
    if not losses or not all(0 <= loss < 1 for loss in losses):
        raise TopologyError(f"losses '{text}': 0 to below 1 is valid")
    return losses


def switches(chosen: str) -> list[str]:
    """`auto`: all that are there."""
    if chosen != "auto":
        return [chosen]
    return ["embedded"] + (["bmv2"] if shutil.which("simple_switch_grpc") else [])


def itself(command: list[str], _worker: Worker) -> list[str]:
    """The same command for every rank."""
    return command


def measure(network: Network, settings: Settings, arguments: argparse.Namespace, loss: float) -> list[Row]:
    """The sums on one switch at one loss rate: a row for each type."""
    links = tuple(dataclasses.replace(link, loss=None) for link in network.links)
    network = dataclasses.replace(network, links=links, loss=loss)
    settings = dataclasses.replace(settings, run_dir=settings.run_dir / f"{settings.switch}-{loss}")
    rows = []
    with Emulation(network, settings) as emulation:
        for dtype in ("i32", "f32"):
            size = str(arguments.bytes)
            options = ["-b", size, "-e", size, "-n", str(arguments.iterations), "-w", "1", "--check", "full"]
            options += ["--dtype", dtype, "--join-timeout", "120", "--deadline", "120"]
            name = f"loss-{dtype}"
            command = perf_command(name, options)
            outcomes = emulation.run_workers(partial(itself, command), name, SECONDS)
            reports = [outcome.json() for outcome in outcomes]
            found = [row for report in reports for row in report["rows"]]
            # A rank returns when its own result is complete; the group is as fast as its slowest.
            slowest = max(row["time_us"] for row in found) / 1e6
            rows.append(
                Row(
                    switch=settings.switch,
                    loss=loss,
                    bytes=found[0]["size"],
                    type=dtype,
                    ranks=len(reports),
                    wrong=sum(row["wrong"] for row in found),
                    retransmissions=sum(row["retransmissions"] for row in found),
                    seconds=slowest,
                    goodput_mb_per_s=found[0]["size"] / slowest / 1e6,
                )
            )
    return rows


def run(network: Network, settings: Sequence[Settings], arguments: argparse.Namespace) -> int:
    """Measures, prints a table with each rate beside none, writes the report; 1 if an element was wrong."""
    rows: list[Row] = []
    losses = parse_losses(arguments.losses)
    if not arguments.json:
        print(f"{'switch':<10} {'loss':>6} {'type':>5} {'goodput':>12} {'of no loss':>11} {'#resent':>8} {'#wrong':>7}")
    for chosen in settings:
        for loss in losses:
            for row in measure(network, chosen, arguments, loss):
                rows.append(row)
                if not arguments.json:
                    print(line(row, rows), flush=True)
    wrong = sum(row.wrong for row in rows)
    report = {"network": network.describe(), "rows": [dataclasses.asdict(row) for row in rows], "wrong": wrong}
    path: Path = arguments.report or REPORT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2) if arguments.json else f"#wrong {wrong}; figures: {path}")
    return 1 if wrong else 0


def line(row: Row, rows: Sequence[Row]) -> str:
    """One line of the table."""
    base = [
        other.goodput_mb_per_s for other in rows if (other.switch, other.type, other.loss) == (row.switch, row.type, 0)
    ]
    share = f"{row.goodput_mb_per_s / statistics.mean(base):.1%}" if base else "-"
    return (
        f"{row.switch:<10} {row.loss:>6.1%} {row.type:>5} {row.goodput_mb_per_s:>7.3f} MB/s {share:>11} "
        f"{row.retransmissions:>8} {row.wrong:>7}"
    )
