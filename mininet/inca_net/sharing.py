"""Jobs at once over the same switches: whether every element is right, and whether each job gets an even part.

Each job has one rank on every leaf. A job's throughput is what it finished while all of them were running. Prints a
table; writes `target/reports/bench-jobs.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import machine
from .demo import switch_text
from .emulation import Emulation, Worker
from .jobs import agent_command
from .nodes import ROOT
from .processes import require
from .topology import TopologyError

REPORTS = ROOT / "target" / "reports"
WORKER = str(Path(__file__).with_name("soak_worker.py"))
# Of the even part: what is promised.
UNEVEN = 0.2


@dataclass(frozen=True)
class Share:
    """What one job did while all jobs were running."""

    job: str
    operations: int
    wrong: int
    bytes_per_s: float
    # Of the mean of all jobs.
    share: float


def workers_of(emulation: Emulation, jobs: int) -> list[list[Worker]]:
    """Every job's ranks: each `jobs`-th host, so on different leaves where leaves have as many."""
    hosts = emulation.network.hosts
    world = len(hosts) // jobs
    if world < 2 or len(hosts) % jobs:
        raise TopologyError(f"{len(hosts)} hosts for {jobs} jobs: a multiple of {jobs}, at least {2 * jobs}, is needed")
    return [
        [Worker(rank, world, host, emulation.controller_url) for rank, host in enumerate(hosts[job::jobs])]
        for job in range(jobs)
    ]


def measure(emulation: Emulation, jobs: int, seconds: float, size: int) -> tuple[list[Share], float]:
    """Runs the jobs; their shares, and how long all of them were running."""
    count = size // 4
    running = []
    for number, ranks in enumerate(workers_of(emulation, jobs)):
        name = f"job{number + 1}"
        agent = agent_command("pipe", name, ["--deadline", "120"], json=False)
        command = [sys.executable, WORKER, "--rank", "{rank}", "--world", "{world}", "--count", str(count)]
        command += ["--seconds", str(seconds), "--times", "--", *agent]
        running.append([emulation.start_job(worker.host.name, worker.fill(command), name) for worker in ranks])
    outcomes = emulation.wait([job for ranks in running for job in ranks], seconds + 150.0)
    require(outcomes)
    reports = [outcome.json() for outcome in outcomes]
    world = len(running[0])
    of_job = [reports[start : start + world] for start in range(0, len(reports), world)]
    # One rank's times say when its job has finished each operation: no other can be one ahead.
    times = [ranks[0]["ended"] for ranks in of_job]
    begin, end = max(each[0] for each in times), min(each[-1] for each in times)
    if end <= begin:
        raise TopologyError(f"{seconds:.0f} s: too short, the first job had ended before the last one began")
    done = [sum(begin < time <= end for time in each) for each in times]
    mean = sum(done) / len(done)
    shares = [
        Share(
            f"job{number + 1}",
            operations,
            sum(report["wrong"] for report in ranks),
            operations * size / (end - begin),
            operations / mean if mean else 0.0,
        )
        for number, (operations, ranks) in enumerate(zip(done, of_job, strict=True))
    ]
    return shares, end - begin


def unevenness(shares: Sequence[Share]) -> tuple[float, float]:
    """Largest distance of a job from the mean, and what the fastest has over the slowest, both as parts of one."""
    parts = [share.share for share in shares]
    slowest = min(parts)
    return max(abs(part - 1.0) for part in parts), (max(parts) / slowest - 1.0 if slowest else float("inf"))


def run(emulation: Emulation, jobs: int, seconds: float, size: int, as_json: bool) -> int:
    """0 if all elements were right and the jobs had even parts."""
    before = machine.describe()
    shares, window = measure(emulation, jobs, seconds, size)
    wrong = sum(share.wrong for share in shares)
    distance, spread = unevenness(shares)
    checks = [
        check(f"wrong elements of {jobs} jobs at once", float(wrong), 0.0),
        check(f"throughput of {jobs} jobs at once, largest distance from the mean", distance, UNEVEN),
        check(f"throughput of {jobs} jobs at once, fastest over slowest, less 1", spread, UNEVEN),
    ]
    report: dict[str, Any] = {
        "machine": before,
        "switch": switch_text(emulation),
        "network": emulation.network.describe(),
        "rate_mbit": emulation.network.rate_mbit,
        "bytes": size,
        "seconds": window,
        "jobs": [asdict(share) for share in shares],
        "checks": checks,
    }
    REPORTS.mkdir(parents=True, exist_ok=True)
    path = REPORTS / "bench-jobs.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    if as_json:
        print(json.dumps(report))
    else:
        print(f"{jobs} jobs at once for {window:.1f} s, {report['switch']}, tensors of {size} bytes")
        print(f"{'job':<8} {'operations':>10} {'MB/s':>8} {'of even':>8} {'#wrong':>7}")
        for share in shares:
            rate = share.bytes_per_s / 1e6
            print(f"{share.job:<8} {share.operations:>10} {rate:>8.3f} {share.share:>8.3f} {share.wrong:>7}")
        for each in checks:
            holds = "holds" if each["holds"] else "NO"
            print(f"{holds:<6} {each['name']:<64} {each['value']:>8.3f} {each['target']}")
        print(f"report: {path}")
    return 0 if all(each["holds"] for each in checks) else 1


def check(name: str, value: float, target: float) -> dict[str, Any]:
    """A promise, as the reports of all benchmarks have it."""
    return {"name": name, "value": value, "target": f"<= {target:g}", "holds": value <= target}
