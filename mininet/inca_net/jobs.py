"""What experiments run on the hosts: inca-agent's commands, alone or beside ordinary traffic."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from .emulation import Emulation
from .nodes import find_binary
from .processes import Job, Outcome, require

JOB_SECONDS = 120.0
TRAINING_WORKER = Path(__file__).with_name("demo_worker.py")


def agent_command(command: str, job: str, arguments: Sequence[str], json: bool = True) -> list[str]:
    """`inca-agent COMMAND` for a worker; the emulation fills in rank, world, controller and interface."""
    return [
        find_binary("inca-agent"),
        command,
        "--controller",
        "{controller}",
        "--job",
        job,
        "--rank",
        "{rank}",
        "--world",
        "{world}",
        "--interface",
        "{interface}",
        *(["--json"] if json else []),
        *arguments,
    ]


def start_training(emulation: Emulation, job: str, steps: int, data: Path, arguments: Sequence[str] = ()) -> list[Job]:
    """A training on all hosts; each worker prints a line of JSON per step."""
    command = [
        sys.executable,
        str(TRAINING_WORKER),
        "--agent",
        find_binary("inca-agent"),
        "--controller",
        "{controller}",
        "--interface",
        "{interface}",
        "--job",
        job,
        "--rank",
        "{rank}",
        "--world",
        "{world}",
        "--steps",
        str(steps),
        "--data",
        str(data),
        *arguments,
    ]
    return emulation.start_workers(lambda _worker: command, job)


def perf_command(job: str, arguments: Sequence[str] = (), json: bool = True) -> list[str]:
    """`inca-agent perf`."""
    return agent_command("perf", job, arguments, json)


def run_perf(
    emulation: Emulation, job: str, arguments: Sequence[str], seconds: float = JOB_SECONDS
) -> list[dict[str, Any]]:
    """A sweep on all hosts; every rank's report."""
    outcomes = emulation.run_workers(lambda _worker: perf_command(job, arguments), job, seconds)
    return [outcome.json() for outcome in outcomes]


def wrong_elements(reports: Sequence[dict[str, Any]]) -> int:
    """`#wrong` summed over ranks and sizes; a row that was not checked is an error."""
    return sum(row["wrong"] for report in reports for row in report["rows"])


def check_traffic(emulation: Emulation, size: int) -> int:
    """Ping and checked TCP between neighbouring hosts while a job runs; prints a table, returns an exit code."""
    job = emulation.start_workers(
        lambda _worker: perf_command("traffic", ["-b", "4K", "-e", "256K", "-f", "4", "-n", "10", "-w", "1"]), "traffic"
    )
    names = [host.name for host in emulation.network.hosts]
    pairs = list(pairwise([*names, names[0]])) if len(names) > 1 else []
    print(f"{'from':<10} {'to':<10} {'ping':<28} TCP")
    failed = 0
    for source, target in pairs:
        ping, receive, send = emulation.wait(
            [emulation.start_ping(source, target, 3), *emulation.start_transfer(source, target, size, 30.0)], 45.0
        )
        failed += sum(not outcome.ok for outcome in (ping, receive, send))
        print(f"{source:<10} {target:<10} {ping_text(ping):<28} {transfer_text(receive)}", flush=True)
    outcomes = emulation.wait(job, JOB_SECONDS)
    require(outcomes)
    wrong = wrong_elements([outcome.json() for outcome in outcomes])
    print(f"job beside it: {len(outcomes)} ranks, #wrong {wrong}")
    return 1 if failed or wrong else 0


def ping_text(outcome: Outcome) -> str:
    """`3 of 3, 0.61 ms`."""
    text = outcome.text()
    if " transmitted" not in text:
        return "failed"
    sent, received = (int(part.split()[0]) for part in text.split("statistics ---")[1].split(",")[:2])
    average = text.split("mdev = ")[1].split("/")[1] if "mdev = " in text else "-"
    return f"{received} of {sent}, {average} ms"


def transfer_text(outcome: Outcome) -> str:
    """`1000000 bytes in 0.21 s: right`."""
    if not outcome.text().strip():
        return "failed"
    report = outcome.json()
    return f"{report['bytes']} bytes in {report['seconds']:.2f} s: {'right' if report['right'] else 'WRONG'}"
