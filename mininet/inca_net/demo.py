"""The demo: four workers train a small network; the switches sum their gradients."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .emulation import Emulation
from .nodes import find_binary, find_switch
from .processes import Job, require, wait_jobs

WORKER = Path(__file__).with_name("demo_worker.py")
SECONDS = 110.0
ROWS = 12


def run(emulation: Emulation, steps: int) -> int:
    """Trains and prints a table while it goes; 0 if every bit was right and the loss fell as it should."""
    started = time.monotonic()
    world = len(emulation.network.hosts)
    print(f"{world} workers, batch of 128 each, {steps} steps; gradients are summed by {switch_text(emulation)}\n")
    jobs = emulation.start_workers(
        lambda _worker: [
            sys.executable,
            str(WORKER),
            "--agent",
            find_binary("inca-agent"),
            "--controller",
            "{controller}",
            "--interface",
            "{interface}",
            "--job",
            "demo",
            "--rank",
            "{rank}",
            "--world",
            "{world}",
            "--steps",
            str(steps),
        ],
        "demo",
    )
    table = Table(jobs[0], steps)

    tree = ""

    def watch() -> None:
        nonlocal tree
        table.update()
        emulation.check_alive()
        if table.printed and not tree:
            tree = tree_text(emulation.status())

    # A rank that fails makes the others wait: end with the first failure.
    outcomes = wait_jobs(jobs, SECONDS, watch)
    require(outcomes)
    table.update()
    reports = [[json.loads(line) for line in outcome.text().splitlines()] for outcome in outcomes]
    return summarise(emulation, reports, tree, time.monotonic() - started)


class Table:
    """Prints rank 0's steps as they are finished."""

    def __init__(self, job: Job, steps: int) -> None:
        self.job = job
        self.every = max(1, steps // ROWS)
        self.steps = steps
        self.printed = 0

    def update(self) -> None:
        """Prints what is new."""
        lines = self.job.stdout.read_text().splitlines(keepends=True)
        for line in lines[self.printed :]:
            if not line.endswith("\n"):
                return
            self.printed += 1
            self.row(json.loads(line))

    def row(self, report: dict[str, Any]) -> None:
        """One line."""
        if report["step"] == 0:
            print(f"{'step':>5} {'loss':>10} {'reference':>10} {'accuracy':>9} {'reduce':>10} {'#wrong':>7}")
            print(f"{'':>5} {'':>10} {'(exact)':>10} {'':>9} {'(ms)':>10} {'':>7}")
        if report["step"] % self.every == 0 or report["step"] == self.steps:
            last = report["step"] == self.steps
            print(
                f"{report['step']:>5} {report['loss']:>10.5f} {report['reference_loss']:>10.5f} "
                f"{report['accuracy']:>9.1%} "
                + (f"{'':>10} {'':>7}" if last else f"{report['reduce_ms']:>10.2f} {report['wrong']:>7}"),
                flush=True,
            )


def summarise(emulation: Emulation, reports: list[list[dict[str, Any]]], tree: str, seconds: float) -> int:
    """Prints what to remember of the run."""
    wrong = sum(report["wrong"] for rank in reports for report in rank)
    elements = sum(report["elements"] for rank in reports for report in rank)
    same = all([step["digest"] for step in rank] == [step["digest"] for step in reports[0]] for rank in reports)
    first, last = reports[0][0], reports[0][-1]
    distance = abs(last["loss"] - last["reference_loss"])
    learnt = last["loss"] < first["loss"] and distance < 0.01 * first["loss"]
    reduce_ms = [step["reduce_ms"] for step in reports[0][:-1]]
    print(f"\nswitch:          {switch_text(emulation)}")
    print(f"network:         {emulation.network.describe()}")
    print(f"tree:            {tree}")
    print(f"elements:        {reports[0][0]['elements']} f32 a step, {elements} received in all, #wrong {wrong}")
    print(f"parameters:      {'the same bits on every rank after every step' if same else 'DIFFERENT between ranks'}")
    print(
        f"loss:            {first['loss']:.5f} -> {last['loss']:.5f}; with exact sums {last['reference_loss']:.5f} "
        f"({'as it should be' if learnt else 'NOT as it should be'})"
    )
    print(f"one reduction:   {sorted(reduce_ms)[len(reduce_ms) // 2]:.2f} ms (median)")
    print(f"time:            {seconds:.1f} s for training")
    return 0 if same and learnt and wrong == 0 and elements else 1


def tree_text(status: dict[str, Any]) -> str:
    """`spine1(leaf1[0 1] leaf2[2 3])`: the first tree of the first job, root first, ranks in brackets."""
    nodes = status["jobs"][0]["tree"] if status["jobs"] else []

    def draw(node: dict[str, Any]) -> str:
        name: str = node["switch_name"]
        ranks = " ".join(map(str, node["ranks"]))
        below = " ".join(draw(child) for child in nodes if child["parent"] == node["switch_name"])
        return name + (f"[{ranks}]" if ranks else "") + (f"({below})" if below else "")

    return " ".join(draw(node) for node in nodes if not node["parent"] and node["tree_id"] == nodes[0]["tree_id"])


def switch_text(emulation: Emulation) -> str:
    """Which switch it is, with its version."""
    kind = emulation.settings.switch
    program = find_switch(kind)
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    version = (done.stdout or done.stderr).strip().splitlines()
    names = {"bmv2": "BMv2 (simple_switch_grpc)", "embedded": "the embedded switch (inca-switch)"}
    return f"{names.get(kind, kind)} {version[0].split()[-1] if version else ''}".strip()
