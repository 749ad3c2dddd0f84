"""Sharded training, and data, tensor and pipeline parallel training at once, by inca as torch's backend on 8 workers.

Both are held against the same steps in one process; writes `target/reports/train-parallel.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .ddp import REPORTS, SECONDS
from .emulation import Emulation
from .package import python_package

WORKER = str(Path(__file__).with_name("parallel_worker.py"))
RANKS = 8
# bfp16 keeps 2^-15 of a block's largest element in each sum: of gradients and activations below 1, times a few steps.
TOLERANCE = 2e-4


def run(emulation: Emulation, steps: int, as_json: bool) -> int:
    """Both trainings; 0 if all ranks ended where one process does."""
    hosts = emulation.network.hosts
    if len(hosts) != RANKS:
        print(f"{len(hosts)} workers: must be {RANKS}, for 2 x 2 x 2 ranks", file=sys.stderr)
        return 2
    command = [sys.executable, WORKER, "--controller", "{controller}", "--interface", "{interface}"]
    command += ["--rank", "{rank}", "--steps", str(steps), "--master", hosts[0].address]
    env = {"PYTHONPATH": str(python_package())}
    outcomes = emulation.run_workers(lambda _worker: command, "parallel", SECONDS, env)
    rows = [outcome.json() for outcome in outcomes]
    report = {"steps": steps, "switch": emulation.settings.switch, "tolerance": TOLERANCE, "ranks": rows}
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / "train-parallel.json").write_text(json.dumps(report, indent=1) + "\n")
    if as_json:
        print(json.dumps(report))
    else:
        print("largest difference from one process, largest change by training")
        print(f"{'rank':>4} {'sharded':>10} {'change':>10} {'2x2x2':>10} {'change':>10} {'in flight':>10}")
        for rank, row in enumerate(rows):
            sharded, cube = row["sharded"], row["cube"]
            line = f"{rank:>4} {sharded['apart']:>10.6f} {sharded['change']:>10.4f}"
            print(f"{line} {cube['apart']:>10.6f} {cube['change']:>10.4f} {cube['in_flight']:>10}")
    # A training that changes little would agree with anything.
    right = [part["apart"] <= TOLERANCE < part["change"] / 10 for row in rows for part in (row["sharded"], row["cube"])]
    return 0 if all(right) else 1
