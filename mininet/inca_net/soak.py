"""Sums without a pause for minutes, at full rate and with loss on every link: no element wrong, no memory that grows.

Resident memory of every switch, of the controller and of every agent is sampled each second. Growth compares medians
of the second half's beginning and end, when caches and buffers have their size. Writes `target/reports/soak.json`, or
`soak-trial.json` beside it if it was shorter than what a check counts: a trial leaves the report of a long run alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import machine
from .demo import switch_text
from .emulation import Emulation
from .jobs import agent_command
from .nodes import ROOT
from .processes import Job, require
from .topology import Network

REPORTS = ROOT / "target" / "reports"
WORKER = str(Path(__file__).with_name("soak_worker.py"))
PERIOD = 1.0
# Sampled in between: a part that gives memory back late must not look like one that keeps it.
WINDOW = 0.2
# Growth of resident memory that is none: pages that happen to be touched.
SLACK_KIB = 1024
GROWTH = 0.02


@dataclass
class Track:
    """Resident memory of one process over time."""

    name: str
    pid: int
    # Growth of others' programs (BMv2) is shown; it says nothing of ours.
    ours: bool = True
    kib: list[int] = field(default_factory=list)

    def sample(self) -> None:
        """Adds what it is now; nothing once the process has ended."""
        size = resident_kib(self.pid)
        if size is not None:
            self.kib.append(size)

    def json(self) -> dict[str, Any]:
        """As the report has it."""
        first, last = ends(self.kib)
        return {
            "name": self.name,
            "ours": self.ours,
            "first_kib": first,
            "last_kib": last,
            "growth": growth(self.kib),
            "kib": self.kib,
        }


def ends(kib: Sequence[int]) -> tuple[float, float]:
    """Medians at the beginning and at the end of the samples' second half."""
    half = kib[len(kib) // 2 :]
    if not half:
        return 0.0, 0.0
    window = max(1, int(len(half) * WINDOW))
    return statistics.median(half[:window]), statistics.median(half[-window:])


def growth(kib: Sequence[int]) -> float:
    """Share by which memory grew in the second half; 0 if it is less than what counts."""
    first, last = ends(kib)
    return (last - first) / first if first > 0 and last - first > SLACK_KIB else 0.0


def resident_kib(pid: int) -> int | None:
    """VmRSS of a process, None if there is none of that number."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        return None
    return None


def run(emulation: Emulation, seconds: float, size: int, number_format: str, as_json: bool) -> int:
    """0 if no element was wrong and no memory of ours grew."""
    before = machine.describe()
    agent = agent_command("pipe", "soak", ["--format", number_format, "--deadline", "120"], json=False)
    command = [sys.executable, WORKER, "--rank", "{rank}", "--world", "{world}", "--count", str(size // 4)]
    command += ["--seconds", str(seconds), "--", *agent]
    jobs = emulation.start_workers(lambda _worker: command, "soak")
    tracks = [Track(f"agent of {job.host}", first_line(job)["agent"]) for job in jobs]
    for switch in emulation.switches:
        if switch.component is not None:
            ours = emulation.settings.switch == "embedded"
            tracks.append(Track(f"switch {switch.name}", switch.component.process.pid, ours))
    if emulation.controller is not None:
        tracks.append(Track("controller", emulation.controller.process.pid))
    started = time.monotonic()
    told = 0
    while any(job.process.poll() is None for job in jobs) and time.monotonic() < started + seconds + 240:
        emulation.pause(PERIOD)
        for track in tracks:
            track.sample()
        if not as_json and time.monotonic() - started >= 30 * (told + 1):
            told += 1
            largest = max(tracks, key=lambda track: growth(track.kib))
            print(f"{30 * told:>5} s; largest growth so far {growth(largest.kib):.1%} ({largest.name})", flush=True)
    outcomes = emulation.wait(jobs, 1.0)
    require(outcomes)
    reports = [outcome.json() for outcome in outcomes]
    network = emulation.network
    found = [track.json() for track in tracks]
    report = {
        "machine": before,
        "switch": switch_text(emulation),
        "network": network.describe(),
        "loss": least_loss(network),
        "ranks": len(jobs),
        "format": number_format,
        "bytes": size,
        "seconds": max(each["seconds"] for each in reports),
        "operations": reports[0]["operations"],
        "elements_compared": sum(each["operations"] for each in reports) * (size // 4 - 1),
        "wrong": sum(each["wrong"] for each in reports),
        "growth": max(each["growth"] for each in found if each["ours"]),
        "memory": found,
    }
    path = report_path(report["seconds"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report) if as_json else "\n".join([*table(report), f"report: {path}"]))
    return 0 if report["wrong"] == 0 and report["growth"] <= GROWTH else 1


def report_path(seconds: float) -> Path:
    """Where the report of a soak of this length belongs."""
    # It needs PyYAML, which a network without a file does not.
    from .checks import SOAK_SECONDS

    return REPORTS / ("soak.json" if seconds >= SOAK_SECONDS else "soak-trial.json")


def least_loss(network: Network) -> float:
    """Of all links."""
    return min([network.loss, *(link.loss for link in network.links if link.loss is not None)])


def first_line(job: Job) -> dict[str, Any]:
    """What a worker prints when it has started its agent."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and job.process.poll() is None:
        text = job.stdout.read_text()
        if "\n" in text:
            found: dict[str, Any] = json.loads(text.splitlines()[0])
            return found
        time.sleep(0.02)
    raise TimeoutError(f"{job.host}: the worker did not start: {job.stderr.read_text()[-500:]}")


def table(report: dict[str, Any]) -> list[str]:
    """For people."""
    rate = report["operations"] * report["bytes"] / report["seconds"] / 1e6
    lines = [
        f"{report['ranks']} ranks, {report['switch']}, {report['loss']:.1%} loss on every link, {report['format']}: "
        f"{report['operations']} sums of {report['bytes']} bytes in {report['seconds']:.0f} s ({rate:.1f} MB/s); "
        f"{report['elements_compared']} elements compared, #wrong {report['wrong']}",
        "resident memory in KiB, medians:",
        f"{'':<16} {'half-way':>10} {'end':>10} {'growth':>8}",
    ]
    for each in report["memory"]:
        note = "" if each["ours"] else "   (BMv2's own)"
        sizes = f"{each['first_kib']:>10.0f} {each['last_kib']:>10.0f} {each['growth']:>8.1%}"
        lines.append(f"{each['name']:<16} {sizes}{note}")
    return lines
