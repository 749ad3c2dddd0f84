"""Trains a small convolutional network with PyTorch's DistributedDataParallel, gradients by inca's hook, then by gloo.

Prints both loss curves side by side and the time of a step; writes `target/reports/train-ddp.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .emulation import Emulation
from .nodes import ROOT
from .package import python_package

REPORTS = ROOT / "target" / "reports"
WORKER = str(Path(__file__).with_name("ddp_worker.py"))
SECONDS = 240.0
# bfp16 rounds every gradient to 2^-15 of its block's largest: what that may do to a loss in so few steps.
TOLERANCE = 0.02


def torch_missing() -> str:
    """Why this interpreter can't train, or nothing."""
    found = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False)
    return "" if found.returncode == 0 else "python3-torch not found"


def train(emulation: Emulation, by: str, steps: int, number_format: str = "bfp16") -> dict[str, Any]:
    """One training; losses and times of rank 0, and whether all ranks ended with the same parameters."""
    master = emulation.network.hosts[0].address
    command = [
        sys.executable,
        WORKER,
        "--controller",
        "{controller}",
        "--interface",
        "{interface}",
        "--job",
        f"ddp-{by}",
    ]
    command += ["--rank", "{rank}", "--world", "{world}", "--steps", str(steps), "--by", by]
    command += ["--master", master, "--format", number_format]
    env = {"PYTHONPATH": str(python_package())}
    outcomes = emulation.run_workers(lambda _worker: command, f"ddp-{by}", SECONDS, env)
    reports = [
        [json.loads(line) for line in outcome.text().splitlines() if line.startswith("{")] for outcome in outcomes
    ]
    rows = reports[0][:-1]
    times = sorted(row["ms"] for row in rows[1:])
    return {
        "by": by,
        "losses": [row["loss"] for row in rows],
        "step_ms": times[len(times) // 2],
        "agree": len({report[-1]["digest"] for report in reports}) == 1,
        "buckets": reports[0][-1]["buckets"],
    }


def run(emulation: Emulation, steps: int, as_json: bool) -> int:
    """Both trainings; 0 if the curves agree within the format's bound and all ranks have the same parameters."""
    runs = [train(emulation, by, steps) for by in ("inca", "gloo")]
    apart = max(abs(a - b) for a, b in zip(runs[0]["losses"], runs[1]["losses"], strict=True))
    report = {"workers": len(emulation.network.hosts), "steps": steps, "largest_difference": apart, "runs": runs}
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / "train-ddp.json").write_text(json.dumps(report, indent=1) + "\n")
    if as_json:
        print(json.dumps(report))
    else:
        print(f"{'step':>5} {'inca':>10} {'gloo':>10}")
        for step in range(0, steps, max(1, steps // 10)):
            print(f"{step:>5} {runs[0]['losses'][step]:>10.5f} {runs[1]['losses'][step]:>10.5f}")
        print(f"largest difference {apart:.5f}, {runs[0]['buckets']} buckets by the switches")
        print(f"median step: inca {runs[0]['step_ms']:.1f} ms, gloo {runs[1]['step_ms']:.1f} ms")
    return 0 if apart <= TOLERANCE and all(each["agree"] for each in runs) else 1
